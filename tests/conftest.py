"""What all tests share: which backend runs which test, and room for JAX' programs.

The marker `backends` names the backends that run a test, and `turns` marks a test that
`--others today` runs every third day; tests/README.md says when to use them.
"""

import datetime
import functools
import gc
import zlib
from pathlib import Path

import keras
import numpy as np
import pytest

BACKEND = keras.config.backend()
# They compile nothing, so that a test is cheap: they run all that has no marker.
EAGER = ("torch", "numpy")
COMPILING = ("jax", "tensorflow")
# Days in which the others run those tests, too: no multiple of 7, or a project that is
# tested on some days of the week alone would leave parts out for ever.
PARTS = 13
DAYS = 3  # from one turn to the next of a test with the marker `turns`
TURNS = ("jax", "tensorflow", "torch")  # a test of all three runs one of them a day
EVERYWHERE = ("interop", "text")  # folders whose environment has all backends
BETWEEN = 100  # tests
MOST = 30_000  # mappings of memory
count = 0


if BACKEND == "numpy":
    # Keras finds out the shape of a layer's output by a call with uninitialized arrays,
    # whose numbers can overflow.
    infer = keras.src.backend.compute_output_spec
    keras.src.backend.compute_output_spec = np.errstate(all="ignore")(infer)


if BACKEND == "jax":
    from jax._src.interpreters import mlir

    # JAX makes a context of MLIR for each program, which takes a seventh of the time of
    # the contract tests. It holds types and constants, which programs can share.
    mlir.make_ir_context = functools.cache(mlir.make_ir_context)


@pytest.fixture
def without_collection(monkeypatch):
    """Keras collects garbage once for each quantized layer, which takes most time."""
    monkeypatch.setattr(gc, "collect", lambda *_: 0)


def pytest_addoption(parser):
    parser.addoption(
        "--others",
        default="none",
        metavar="PART",
        help="run tests that torch and NumPy hold on this backend, too: none of them, "
        f"all, a part from 1 to {PARTS}, or today's part; `today` also leaves out the "
        f"tests whose turn comes on another day of {DAYS}",
    )


def part_of(config):
    """The part of the other backends' tests to run here: a number, "none" or "all"."""
    given = config.getoption("others")
    if given == "today":
        return datetime.date.today().toordinal() % PARTS + 1
    if given in ("none", "all"):
        return given
    if not given.isdigit() or not 1 <= int(given) <= PARTS:
        message = f'`--others` must be "none", "all", "today" or from 1 to {PARTS}'
        raise pytest.UsageError(f"{message}. Received: --others={given}")
    return int(given)


def pytest_report_header(config):
    part = part_of(config)
    lines = []
    if BACKEND in COMPILING and isinstance(part, int):
        lines.append(
            f"of the tests held on torch: part {part} of {PARTS} (--others {part})"
        )
    if config.getoption("others") == "today":
        lines.append(
            "of the long trainings: those of today (--others all: all of them)"
        )
    return lines


def named(item):
    """What a test's marker names, checked; nothing if it has none."""
    mark = item.get_closest_marker("backends")
    if mark is None:
        return ()
    known = (*EAGER, *COMPILING, "all")
    if not mark.args or not {*mark.args} <= {*known}:
        message = f"`backends` must name some of {known}"
        raise pytest.UsageError(f"{message}. Received: {mark.args} ({item.nodeid})")
    return mark.args


def is_of_another_day(item):
    """Whether the turn of a test comes on another day, with `--others today`."""
    if item.get_closest_marker("turns") is None:
        return False
    if item.config.getoption("others") != "today":
        return False
    backend = item.callspec.params.get("backend") if hasattr(item, "callspec") else None
    name, offset = item.nodeid, 0
    if backend in TURNS:
        name, offset = item.nodeid.split("[")[0], TURNS.index(backend)
    day = datetime.date.today().toordinal()
    return (day + zlib.crc32(name.encode()) + offset) % DAYS != 0


def pytest_collection_modifyitems(config, items):
    part = part_of(config)
    chosen, others = [], []
    for item in items:
        names = named(item)
        if item.path.parent.name in EVERYWHERE or "all" in names:
            names = (BACKEND,)
        # A test of one backend's own code cannot run on another one.
        own = zlib.crc32(item.nodeid.encode()) % PARTS + 1
        also = not names and (BACKEND in EAGER or part in ("all", own))
        runs = (BACKEND in names or also) and not is_of_another_day(item)
        (chosen if runs else others).append(item)
    items[:] = chosen
    config.hook.pytest_deselected(items=others)


def pytest_collection_finish(session):
    """What has been imported stays: the search for garbage need not go through it."""
    gc.collect()
    gc.freeze()


def pytest_runtest_teardown(item, nextitem):
    """JAX keeps what it compiled, and all tests together are too much for a process.

    Each program takes a few mappings of memory, of which a process may have 65,530:
    the next one is then compiled into a segmentation fault. What is thrown away has to
    be made again, so it is done where it is needed, if the system says so.
    """
    global count
    count += 1
    if BACKEND != "jax" or count % BETWEEN:
        return
    mlir.make_ir_context.cache_clear()  # or it would keep all constants
    maps = Path("/proc/self/maps")
    if not maps.exists() or maps.read_bytes().count(b"\n") > MOST:
        import jax

        jax.clear_caches()
        gc.collect()
