"""What all tests share: which backend runs which test, and what a test may cost.

tests/README.md explains the rings and the markers.
"""

import gc
import hashlib
import importlib.metadata
import os
import pathlib

import xla_flags

if os.environ.get("KERAS_BACKEND") == "jax":
    xla_flags.set_flags()

import keras_attention  # noqa: F401 - it says which backend is missing

# isort: split
import keras
import numpy as np
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[1]
BACKEND = keras.config.backend()
# They compile nothing, so they run every test without a marker.
EAGER = ("torch", "numpy")
COMPILING = ("jax", "tensorflow")
ALL_BACKENDS = ("interop", "tensorflow_text")  # folders: tests start other backends
BOUND = {"torch": 5.0, "numpy": 5.0, "jax": 60.0, "tensorflow": 60.0}  # CPU seconds
BETWEEN = 100  # tests
MOST = 30_000  # mappings of memory
START = pytest.StashKey[float]()
count = 0

if BACKEND == "numpy":
    # Keras infers output shapes by calls with uninitialized arrays, which can overflow.
    np.seterr(all="ignore")


def pytest_addoption(parser):
    parser.addoption(
        "--everywhere",
        action="store_true",
        help="run all tests on every backend, except where `backends` names others; "
        "without a limit to what they cost",
    )
    parser.addoption(
        "--resume",
        type=lambda file: pathlib.Path(file).absolute(),  # tests change the folder
        metavar="FILE",
        help="leave out the tests that FILE lists as passed with the same code and "
        "packages, and add those that pass",
    )


@pytest.fixture
def without_collection(monkeypatch):
    """Keras collects garbage once for each quantized layer, which takes most time."""
    monkeypatch.setattr(gc, "collect", lambda *_: 0)


def names_of(item, marker):
    """The backends that the closest marker of this name of a test names."""
    mark = item.get_closest_marker(marker)
    if mark is None:
        return ()
    known = (*EAGER, *COMPILING, "all")
    if not mark.args or not {*mark.args} <= {*known}:
        message = f"`{marker}` must name some of {known}"
        raise pytest.UsageError(f"{message}. Received: {mark.args} ({item.nodeid})")
    return mark.args


def runs_here(item):
    """Whether this backend runs a test."""
    everywhere = item.config.getoption("everywhere")
    if not everywhere and BACKEND in names_of(item, "slow_on"):
        return False
    names = names_of(item, "backends")
    if "all" in names or item.path.parent.name in ALL_BACKENDS:
        return True
    if names:
        return BACKEND in names
    return BACKEND in EAGER or everywhere


def digest_of_code():
    """Changes with each file that tests run or read, and each installed package."""
    packages = (f"{d.name} {d.version}" for d in importlib.metadata.distributions())
    digest = hashlib.sha256("\n".join(sorted(packages)).encode())
    folders = ("keras_attention", "tests", "examples", "docs")
    paths = [*ROOT.glob("*.*"), *(p for f in folders for p in (ROOT / f).rglob("*"))]
    for path in sorted(paths):
        if path.is_file() and "__pycache__" not in path.parts:
            digest.update(path.read_bytes())
    return digest.hexdigest()


def passed_before(config):
    """The tests that an earlier run of the same code has passed."""
    file = config.getoption("resume")
    if file is None:
        return set()
    digest = digest_of_code()
    passed = file.read_text("utf-8").splitlines() if file.exists() else []
    if passed[:1] != [digest]:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{digest}\n", "utf-8")
        return set()
    return {*passed[1:]}


def pytest_collection_modifyitems(config, items):
    passed = passed_before(config)
    selected, others = [], []
    for item in items:
        runs = runs_here(item) and item.nodeid not in passed
        (selected if runs else others).append(item)
    items[:] = selected
    config.hook.pytest_deselected(items=others)


def pytest_runtest_logreport(report):
    """Notes what need not run again."""
    file = pytest_config.getoption("resume")
    ended = report.when == "call" if report.passed else report.skipped
    if file and ended:
        with file.open("a", encoding="utf-8") as notes:
            notes.write(f"{report.nodeid}\n")


def pytest_sessionfinish(session, exitstatus):
    if exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED and (
        session.config.getoption("resume")  # all have passed
    ):
        session.exitstatus = pytest.ExitCode.OK


def pytest_configure(config):
    global pytest_config
    pytest_config = config


def cpu_seconds():
    """What this process and those that it waited for have used."""
    times = os.times()
    return sum(times[:4])


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_setup(item):
    item.stash[START] = cpu_seconds()
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    """Fails a test without a marker that takes more than `BOUND`."""
    result = yield
    seconds = cpu_seconds() - item.stash[START]
    is_marked = any(map(item.get_closest_marker, ("slow", "release")))
    if seconds > BOUND[BACKEND] and not (
        is_marked or item.config.getoption("everywhere")
    ):
        pytest.fail(
            f"{item.nodeid} took {seconds:.1f} seconds of processor time. Without the "
            f"marker `slow` or `release`, a test may take {BOUND[BACKEND]:g}. Make it "
            "cheaper, or mark it; tests/README.md says how.",
            pytrace=False,
        )
    return result


def pytest_collection_finish(session):
    """What has been imported stays: the search for garbage need not go through it."""
    gc.collect()
    gc.freeze()


def pytest_runtest_teardown(item, nextitem):
    """Discards JAX's programs before they are too many for a process.

    Each takes a few memory mappings, of which a process may have 65,530: then XLA ends
    it with a segmentation fault. A discarded program must be compiled again, so this is
    done at `MOST` mappings only, if the system counts them.
    """
    global count
    count += 1
    if BACKEND != "jax" or count % BETWEEN:
        return
    maps = pathlib.Path("/proc/self/maps")
    if not maps.exists() or maps.read_bytes().count(b"\n") > MOST:
        import jax

        jax.clear_caches()
        gc.collect()
