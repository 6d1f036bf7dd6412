"""What conftest.py holds: where a test runs, and what it may cost."""

import types

import pytest
from catalogue import CORE, ROWS


@pytest.fixture
def conftest(request):
    manager = request.config.pluginmanager
    return next(
        plugin for plugin in manager.get_plugins() if hasattr(plugin, "runs_here")
    )


def item(conftest, *, cost=0.0, marks=(), folder="layers", everywhere=False):
    """A test that has used `cost` seconds of processor time."""
    marks = {mark.name: mark for mark in marks}
    return types.SimpleNamespace(
        nodeid="tests/test_some.py::test_it",
        path=types.SimpleNamespace(parent=types.SimpleNamespace(name=folder)),
        stash={conftest.START: conftest.cpu_seconds() - cost},
        get_closest_marker=marks.get,
        config=types.SimpleNamespace(getoption=lambda name: everywhere),
    )


def end(conftest, test):
    call = conftest.pytest_runtest_call(test)
    next(call)
    with pytest.raises(StopIteration):
        call.send(None)


def test_a_dear_test_fails_unless_it_is_marked(conftest):
    bound = conftest.BOUND[conftest.BACKEND]
    end(conftest, item(conftest, cost=bound / 2))
    end(conftest, item(conftest, cost=2 * bound, marks=[pytest.mark.slow.mark]))
    told = "test_some.py::test_it took .* seconds of processor time.*tests/README.md"
    with pytest.raises(pytest.fail.Exception, match=told):
        end(conftest, item(conftest, cost=2 * bound))


@pytest.mark.parametrize(
    ("backend", "marks", "everywhere", "runs"),
    [
        ("torch", {}, False, True),
        ("numpy", {}, False, True),
        ("jax", {}, False, False),
        ("jax", {}, True, True),
        ("jax", {"backends": ["all"]}, False, True),
        ("jax", {"backends": ["torch"]}, True, False),
        ("tensorflow", {"backends": ["jax", "tensorflow"]}, False, True),
        ("jax", {"backends": ["all"], "slow_on": ["jax"]}, False, False),
        ("jax", {"backends": ["all"], "slow_on": ["jax"]}, True, True),
        ("jax", {"backends": ["all"], "slow_on": ["tensorflow"]}, False, True),
    ],
)
def test_where_a_test_runs(conftest, monkeypatch, backend, marks, everywhere, runs):
    monkeypatch.setattr(conftest, "BACKEND", backend)
    marks = [getattr(pytest.mark, name)(*names).mark for name, names in marks.items()]
    test = item(conftest, marks=marks, everywhere=everywhere)
    assert conftest.runs_here(test) == runs


def test_folders_that_start_other_backends_always_run(conftest):
    for folder in conftest.ALL_BACKENDS:
        marks = [pytest.mark.backends("jax").mark]
        assert conftest.runs_here(item(conftest, folder=folder, marks=marks))


@pytest.mark.parametrize("marker", ["backends", "slow_on"])
def test_a_misspelt_backend_is_refused(conftest, marker):
    marks = [getattr(pytest.mark, marker)("jaxx").mark]
    with pytest.raises(pytest.UsageError, match=r"Received: \('jaxx',\)"):
        conftest.runs_here(item(conftest, marks=marks))


def test_the_core_has_one_row_a_class():
    classes = [row.cls for row in ROWS if row.name in CORE]
    assert sorted(map(repr, classes)) == sorted({repr(row.cls) for row in ROWS})


def test_passed_tests_count_only_for_the_same_code(conftest, monkeypatch, tmp_path):
    file = tmp_path / "passed" / "torch"
    config = types.SimpleNamespace(getoption=lambda name: file)
    monkeypatch.setattr(conftest, "pytest_config", config)
    monkeypatch.setattr(conftest, "digest_of_code", lambda: "one")
    assert conftest.passed_before(config) == set()
    for name, when, passed, skipped in (
        ("passes", "setup", True, False),
        ("passes", "call", True, False),
        ("is_skipped", "setup", False, True),
        ("fails", "setup", True, False),
        ("fails", "call", False, False),
    ):
        report = types.SimpleNamespace(
            nodeid=name, when=when, passed=passed, skipped=skipped
        )
        conftest.pytest_runtest_logreport(report)
    assert conftest.passed_before(config) == {"passes", "is_skipped"}
    monkeypatch.setattr(conftest, "digest_of_code", lambda: "another")
    assert conftest.passed_before(config) == set()
    assert file.read_text() == "another\n"


def test_the_digest_of_the_code_changes_with_a_package(conftest, monkeypatch):
    before = conftest.digest_of_code()
    assert conftest.digest_of_code() == before
    package = types.SimpleNamespace(name="keras", version="99")
    metadata = conftest.importlib.metadata
    monkeypatch.setattr(metadata, "distributions", lambda: [package])
    assert conftest.digest_of_code() != before
