"""Runs the tests of values on a GPU, those of the kernels first.

    python tests/on_gpu.py --backend torch --minutes 8

The results are in docs/results/gpu-tests.json: what passed, and why tests failed. A
later call leaves out what passed before with the same code, versions and device.
Products of float32 are computed in float32: torch without TF32, JAX with the precision
"highest".

This file is also the plugin of pytest that the command starts.
"""

import argparse
import importlib
import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

import pytest

TESTS = pathlib.Path(__file__).resolve().parent
ROOT = TESTS.parent
RESULTS = ROOT / "docs" / "results" / "gpu-tests.json"
SELECTED = (  # those that matter most first
    "kernels/attention/test_cudnn.py",
    "kernels/attention",
    "ops/test_attention.py",
    "ops/test_fast_weights.py",
    "numerics",
    *(
        f"test_contract.py::test_{column}"
        for column in (
            "the_same_numbers_on_every_backend",
            "symbolic_eager_and_compiled_agree",
            "a_row_with_nothing_to_attend_to_is_zero",
            "a_row_with_nothing_to_attend_to_has_no_gradient",
            "what_is_masked_changes_nothing",
            "dtype_policies",
            "fit",
            "returned_scores_times_values_are_the_output",
            "causal_attention_does_not_look_ahead",
            "second_derivatives_are_those_with_returned_scores",
            "a_prepared_memory_gives_the_same",
            "a_single_query_leaves_its_axis_out",
        )
    ),
    "kernels/additive",
    "kernels/replay",
    "kernels/decoding",
    "kernels/memory_step",
    "kernels/layer_calls",
    "ops",
    "layers/multi_head",
    "layers/base/test_mask_objects_in_layers.py",
    "layers/transformer",
)
QUICK = (
    "ops/test_attention.py::test_attend_heads_equals_reference",
    "kernels/attention/test_lookup.py",
    "test_contract.py::test_the_same_numbers_on_every_backend[multi_head]",
)
PROCESSES = 8  # at most; each needs memory of the device
GRACE = 15.0  # seconds to start and to write the file
FILE, PASSED, ANY = "ON_GPU_FILE", "ON_GPU_PASSED", "ON_GPU_ANY"  # of the environment
MAKERS = "arange as_tensor empty eye full linspace ones rand randint randn tensor zeros"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--backend", choices=("jax", "torch"), required=True)
    add("--minutes", type=float, default=8.0, help="of the whole command; default: 8")
    add("--json", type=pathlib.Path, help="default: docs/results/gpu-tests.json")
    add("--quick", action="store_true", help="few tests, on whatever device")
    add("tests", nargs="*", help="other tests than the usual ones, for pytest")
    args = parser.parse_args()
    if args.quick and not args.json:
        parser.error("--quick needs --json: its results must not be on the page")
    stop = time.monotonic() + 60 * args.minutes - GRACE
    path = args.json or RESULTS
    document = json.loads(path.read_text("utf-8")) if path.exists() else {}
    results = run(args, document.get(args.backend, {"passed": []}), stop)
    document[args.backend] = results
    path.write_text(json.dumps(document, indent=1) + "\n", "utf-8")
    for name, reason in results["failed"].items():
        print(f"failed: {name}: {reason}")
    counts = {k: len(results[k]) for k in ("passed", "failed", "skipped")}
    print(f"{args.backend} on {results.get('device')}: {counts}, {results['ended']}")
    return int(bool(results["failed"]) or not results["passed"])


def run(args, before, stop):
    """Runs pytest until it ends or the time has passed; returns the new results."""
    selected = args.tests or [f"tests/{x}" for x in (QUICK if args.quick else SELECTED)]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "on_gpu", *selected]
    command += ["-c", str(ROOT / "pyproject.toml")]  # also for tests elsewhere
    # Other versions than those of CI may warn of more.
    command += ["-p", "no:cacheprovider", "-o", "filterwarnings=ignore"]
    command += ["--continue-on-collection-errors"]  # where a package is missing
    if importlib.util.find_spec("xdist") and not args.quick:
        processes = min(PROCESSES, os.cpu_count() or 1)
        command += ["-n", str(processes), "--dist", "worksteal"]
    with tempfile.TemporaryDirectory() as folder:
        file, passed = pathlib.Path(folder, "results"), pathlib.Path(folder, "passed")
        file.touch()
        passed.write_text(json.dumps(before), "utf-8")
        paths = [ROOT, TESTS, ROOT / "examples", os.environ.get("PYTHONPATH", "")]
        environment = {
            "KERAS_BACKEND": args.backend,
            "PYTHONPATH": os.pathsep.join(map(str, paths)),
            "XLA_FLAGS": "",  # the compiler as users have it
            "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
            "JAX_DEFAULT_MATMUL_PRECISION": "highest",
            FILE: str(file),
            PASSED: str(passed),
            ANY: "1" if args.quick else "",
        }
        process = subprocess.Popen(
            command, cwd=ROOT, env={**os.environ, **environment}, start_new_session=True
        )
        try:
            status = process.wait(max(stop - time.monotonic(), 1))
            ended = f"pytest ended with status {status}"
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 9)  # this process and those of xdist
            process.wait()
            ended = f"stopped after {args.minutes:g} minutes"
        return collected(file, ended)


def collected(file, ended):
    """Returns the results that the plugin has written."""
    results = {"passed": [], "failed": {}, "skipped": {}, "ended": ended}
    for line in file.read_text("utf-8").split("\n")[:-1]:
        event = json.loads(line)
        if "facts" in event:
            results = {**event["facts"], **results}
            results["passed"] += event["passed"]
        elif event["outcome"] == "passed":
            results["passed"].append(event["test"])
        else:
            results[event["outcome"]][event["test"]] = event["reason"]
    return results


# From here on, the plugin.


def pytest_configure(config):
    if os.environ["KERAS_BACKEND"] == "torch":
        import torch

        torch.backends.cuda.matmul.allow_tf32 = False
        torch.backends.cudnn.allow_tf32 = False
        if torch.cuda.is_available():
            read_from_anywhere(torch)
            make_on(torch, "cuda")


@pytest.hookimpl(tryfirst=True)  # before xdist starts its processes
def pytest_sessionstart(session):
    """Notes the facts and the tests to leave out, and refuses to test a CPU."""
    if hasattr(session.config, "workerinput"):  # a process of xdist
        return
    from speed.gpu import worker

    facts = worker.facts(os.environ["KERAS_BACKEND"])
    if facts["device"] == "cpu" and not os.environ[ANY]:
        pytest.exit("the backend computes on a CPU", returncode=3)
    file = pathlib.Path(os.environ[PASSED])
    before = json.loads(file.read_text("utf-8"))
    same = all(before.get(k) == facts[k] for k in ("device", "versions"))
    passed = before["passed"] if same else []
    file.write_text(json.dumps({"passed": passed}), "utf-8")
    tell(facts=facts, passed=passed)


def pytest_collection_modifyitems(config, items):
    """Marks all tests as slow, so that they may take long; drops those that passed."""
    file = pathlib.Path(os.environ[PASSED])
    passed = {*json.loads(file.read_text("utf-8"))["passed"]}
    for item in items:
        item.add_marker("slow")
    items[:] = [item for item in items if item.nodeid not in passed]


def pytest_collectreport(report):
    """Notes files that cannot be imported; a missing package is no failure."""
    if report.failed and not os.environ.get("PYTEST_XDIST_WORKER"):
        text = str(report.longrepr).strip().rpartition("\n")[2]
        outcome = "skipped" if "No module named" in text else "failed"
        tell(test=report.nodeid, outcome=outcome, reason=text[:300])


def pytest_runtest_logreport(report):
    if report.when == "call" or (report.when == "setup" and not report.passed):
        reason = ""
        if report.skipped:
            reason = str(report.longrepr[-1])
        elif report.failed:
            crash = getattr(report.longrepr, "reprcrash", None)
            reason = " ".join(str(crash.message if crash else report.longrepr).split())
        if not os.environ.get("PYTEST_XDIST_WORKER"):
            line = reason.replace(str(ROOT), "…")[:300]
            tell(test=report.nodeid, outcome=report.outcome, reason=line)


def tell(**event):
    with open(os.environ[FILE], "a", encoding="utf-8") as file:
        print(json.dumps(event), file=file, flush=True)


def caller(packages):
    """Returns the file of the nearest frame outside of some packages."""
    frame = sys._getframe(2)
    while frame.f_back and any(name in frame.f_code.co_filename for name in packages):
        frame = frame.f_back
    return frame.f_code.co_filename


def read_from_anywhere(torch):
    """Lets tests read tensors of the GPU as arrays. The package must not."""
    read, package = torch.Tensor.numpy, str(ROOT / "keras_attention")

    def numpy(self, *, force=False):
        asking = caller(("/torch/", "/numpy/"))
        return read(self, force=force or not asking.startswith(package))

    torch.Tensor.numpy = numpy


def make_on(torch, device):
    """Lets tests make tensors on the device where they name none."""
    # It compiles functions of torch, which must not be replaced before.
    importlib.import_module("torch._decomp.decompositions_for_jvp")
    for name in MAKERS.split():
        setattr(torch, name, _maker(getattr(torch, name), device))


def _maker(make, device):
    def made(*args, **kwargs):
        if caller(()).startswith(str(TESTS)):
            kwargs.setdefault("device", device)
        return make(*args, **kwargs)

    return made


if __name__ == "__main__":
    sys.exit(main())
