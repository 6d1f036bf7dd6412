"""Sows faults into a copy of the package, one at a time, and runs what should see them.

    python tests/faults draw --seed 0 --count 40 --to drawn.json
    python tests/faults run drawn.json --to report.json

Faults are drawn from all groups (kernels, masks, saving, rest), or with `--only` from
the modules whose names begin so. A fault is caught if a test fails with it and passes
without it. Those tests run first whose files mention what the faulty file defines; then
all others of the lane, unless `--near` is given. A lane is a backend; its Python is
that of the tox environment `.tox/shared` (`python -m tox run -e shared`).
"""

import argparse
import json
import operator
import os
import pathlib
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tests" / "interop"))
import sites
from processes import environment

SHARES = {"kernels": 0.3, "masks": 0.15, "saving": 0.15, "rest": 0.4}
LANES = ("torch", "jax", "tensorflow", "numpy")
PROGRAMS = ROOT / ".tox" / "faults"  # that JAX has compiled
LONGEST = 3600  # seconds of all tests of a lane
UNCHANGED = pathlib.Path(__file__).parent / "unchanged.json"
BESIDE = ("tests/interop", "tests/tensorflow_text")  # of a lane with all backends


def draw(
    seed: int, count: int, known: list[sites.Fault], only: str = ""
) -> list[sites.Fault]:
    """Faults from each group, none of those that are known to change nothing.

    First a file is drawn, then a kind of code in it, then a fault: else most faults
    would be other constants in the longest files.
    """
    fits: dict[str, dict[str, dict[str, list[sites.Fault]]]] = {}
    for name, path in sites.modules(ROOT, sites.FOLDERS).items():
        if not name.removeprefix("keras_attention.").startswith(only):
            continue
        for fault in sites.faults(name, path.read_text("utf-8")):
            kinds = fits.setdefault(fault.group, {}).setdefault(name, {})
            kinds.setdefault(fault.kind, []).append(fault)
    chance, found = random.Random(seed), []
    shares = {group: share for group, share in SHARES.items() if group in fits}
    for group, share in shares.items():
        every = {
            f for kinds in fits[group].values() for one in kinds.values() for f in one
        }
        wanted = round(share / sum(shares.values()) * count)
        wanted = len(found) + min(wanted, len(every - {*known}))
        while len(found) < wanted:
            kinds = fits[group][chance.choice(sorted(fits[group]))]
            fault = chance.choice(kinds[chance.choice(sorted(kinds))])
            if fault not in (*found, *known):
                found.append(fault)
    return found


def lanes(fault: sites.Fault) -> tuple[str, ...]:
    """The lanes that run the faulty code, the cheapest first."""
    kernel = fault.module.partition(".kernels")[2]
    return tuple(lane for lane in LANES if lane in kernel) or LANES


def defined(module: pathlib.Path) -> set[str]:
    """The public names that a file defines, and its own if that says what it is for."""
    names = re.findall(r"^(?:def|class) ([A-Za-z]\w+)", module.read_text("utf-8"), re.M)
    return {*names, module.stem} - {*LANES, "generic", "__init__"}


def ordered(copy: pathlib.Path, faulty: pathlib.Path, near: bool) -> list[str]:
    """The files of tests: those in its folder first, which mention most of its names.

    Args:
        copy: the checkout in which the fault stands.
        faulty: the file with the fault.
        near: whether files that mention nothing of it are left out.
    """
    words = re.compile(rf"\b({'|'.join(map(re.escape, defined(faulty)))})\b")
    folders = faulty.relative_to(copy / "keras_attention").parts
    counted, shared = {}, {}
    for path in sorted((copy / "tests").rglob("test_*.py")):
        name = path.relative_to(copy).as_posix()
        if not name.startswith(BESIDE):
            counted[name] = len({*words.findall(path.read_text("utf-8"))})
            parts = path.relative_to(copy / "tests").parts
            common = sum(map(operator.eq, parts, folders))
            shared[name] = max(common, len(parts) == 1)
    counted["tests/test_contract.py"] += 1
    names = sorted(counted, key=lambda name: (-shared[name], -counted[name]))
    return [name for name in names if counted[name] or not near]


def run(fault: sites.Fault, options: argparse.Namespace) -> dict:
    """What became of a fault: by which lane and test it was caught, and how long."""
    start, caught = time.perf_counter(), None
    with tempfile.TemporaryDirectory() as folder:
        copy = pathlib.Path(folder) / "checkout"
        skipped = shutil.ignore_patterns(".*", "__pycache__", "site")
        shutil.copytree(options.checkout, copy, ignore=skipped)
        path, text = sites.place(fault, sites.modules(copy, sites.FOLDERS))
        right = path.read_text("utf-8")
        path.write_text(text, "utf-8")
        for lane in lanes(fault):
            if lane in options.lanes and caught is None:
                caught = first_failure(copy, lane, ordered(copy, path, options.near))
        if caught is not None and "::" in caught["test"]:
            path.write_text(right, "utf-8")
            function = caught["test"].split("[")[0]
            if first_failure(copy, caught["lane"], [function]):
                raise RuntimeError(f"{caught} fails without the fault, too")
    seconds = round(time.perf_counter() - start, 1)
    return {**asdict(fault), "group": fault.group, **(caught or {}), "seconds": seconds}


def first_failure(copy: pathlib.Path, lane: str, tests: list[str]) -> dict | None:
    """The test of a lane that fails first, if one does."""
    python = ROOT / ".tox" / "shared" / "bin" / "python"
    given = {
        **environment(lane, PROGRAMS),
        "OMP_NUM_THREADS": "1",
        "ONE_BACKEND": "jax" if lane == "numpy" else lane,
        # The copy is for the processes that tests start.
        "PYTHONPATH": os.pathsep.join([str(copy / "tests" / "one_backend"), str(copy)]),
    }
    command = [str(python), "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider"]
    try:
        done = subprocess.run(
            [*command, *tests],
            cwd=copy,
            env=given,
            capture_output=True,
            text=True,
            timeout=LONGEST,
        )
    except subprocess.TimeoutExpired:
        return {"lane": lane, "test": f"none ended in {LONGEST} seconds"}
    if done.returncode == 0:
        return None
    if done.returncode < 0:
        return {"lane": lane, "test": f"pytest ended with {done.returncode}"}
    found = re.findall(r"^(?:FAILED|ERROR) (\S+)", done.stdout, re.M)
    if not found:
        raise RuntimeError(
            f"pytest ended with {done.returncode}:\n{done.stdout[-2000:]}"
        )
    return {"lane": lane, "test": found[0]}


def read(path: pathlib.Path) -> list[sites.Fault]:
    return [sites.Fault.of(row) for row in json.loads(path.read_text("utf-8"))]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    drawing = commands.add_parser("draw", help="draw faults and write them to a file")
    drawing.add_argument("--seed", type=int, default=0)
    drawing.add_argument("--count", type=int, default=40)
    drawing.add_argument(
        "--only", default="", help="of the modules whose names begin so: ops.masks"
    )
    drawing.add_argument("--to", type=pathlib.Path, required=True)
    running = commands.add_parser("run", help="sow the faults of a file, one at a time")
    running.add_argument("faults", type=pathlib.Path)
    running.add_argument("--to", type=pathlib.Path, required=True)
    running.add_argument("--lanes", nargs="+", default=LANES, choices=LANES)
    running.add_argument("--near", action="store_true", help="only tests that name it")
    running.add_argument("--checkout", type=pathlib.Path, default=ROOT)
    options = parser.parse_args()
    if options.command == "draw":
        found = draw(options.seed, options.count, read(UNCHANGED), options.only)
        rows = [{**asdict(fault), "group": fault.group} for fault in found]
        options.to.write_text(json.dumps(rows, indent=1) + "\n", "utf-8")
        return 0
    rows = []
    for fault in read(options.faults):
        rows.append(run(fault, options))
        options.to.write_text(json.dumps(rows, indent=1) + "\n", "utf-8")
        last = rows[-1]
        what = f"{last['lane']}, {last['test']}" if "lane" in last else "NOT CAUGHT"
        print(f"{fault}\n    {what} ({last['seconds']} s)", flush=True)
    survived = sum("lane" not in row for row in rows)
    print(f"{len(rows) - survived} of {len(rows)} faults were caught")
    return 1 if survived else 0


if __name__ == "__main__":
    sys.exit(main())
