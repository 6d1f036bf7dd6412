"""Sown faults: where they fit, what they change, and that they are found again."""

import ast
import json
import pathlib

import pytest
import sites

FAULTS = pathlib.Path(__file__).parent / "faults"
ROOT = FAULTS.parents[1]
SOURCE = '''
"""A module."""


def scaled(x: int | None, by=2, *, mask=None):
    """Scales."""
    if x is None and mask is None:
        raise ValueError(f"{x + 1} must be given")
    y = by * x + x[-1]
    note(y)
    return other(y + 1, y + 1, mask=mask)


class Layer:
    def get_config(self):
        return {**super().get_config(), "units": self.units, "on": not self.off}
'''


def changes(function):
    found = [f for f in sites.faults("m", SOURCE) if f.function == function]
    return {(f.expression, f.occurrence, f.change) for f in found}


def test_faults_that_fit():
    assert changes("scaled") == {
        ("x is None and mask is None", 0, "x is None or mask is None"),
        ("x is None", 0, "x is not None"),
        ("mask is None", 0, "mask is not None"),
        ("by * x + x[-1]", 0, "by * x - x[-1]"),
        ("by * x", 0, "by / x"),
        ("1", 0, "2"),
        ("note(y)", 0, "pass"),
        ("other(y + 1, y + 1, mask=mask)", 0, "other(y + 1, y + 1)"),
        ("y + 1", 0, "y - 1"),
        ("y + 1", 1, "y - 1"),
        ("1", 1, "2"),
        ("1", 2, "2"),
    }
    config = "{**super().get_config(), 'units': self.units, 'on': not self.off}"
    assert changes("Layer.get_config") == {
        (config, 0, "{'units': self.units, 'on': not self.off}"),
        (config, 0, "{**super().get_config(), 'on': not self.off}"),
        (config, 0, "{**super().get_config(), 'units': self.units}"),
        ("not self.off", 0, "self.off"),
    }


def test_a_fault_changes_its_expression_alone():
    second = sites.Fault("m", "scaled", "y + 1", 1, "y - 1")
    assert sites.apply(second, SOURCE) == SOURCE.replace(
        "(y + 1, y + 1,", "(y + 1, (y - 1),"
    )
    left = sites.Fault("m", "scaled", "note(y)", 0, "pass")
    assert sites.apply(left, SOURCE) == SOURCE.replace("note(y)", "pass")
    for fault in sites.faults("m", SOURCE):
        changed = sites.apply(fault, SOURCE)
        ast.parse(changed)
        assert changed != SOURCE


def test_a_fault_is_found_where_its_function_has_moved(tmp_path):
    (tmp_path / "new.py").write_text(SOURCE)
    (tmp_path / "other.py").write_text("def other():\n    return 1\n")
    where = {"b.new": tmp_path / "new.py", "b.other": tmp_path / "other.py"}
    fault = sites.Fault("a.old", "scaled", "by * x", 0, "by / x")
    path, text = sites.place(fault, where)
    assert path == tmp_path / "new.py"
    assert "y = (by / x) + x[-1]" in text
    gone = sites.Fault("a.old", "scaled", "by * y", 0, "by / y")
    with pytest.raises(LookupError, match=r"must fit into one file. Received: a.old"):
        sites.place(gone, where)


def test_faults_that_change_nothing_still_fit():
    """Those that fit no more are to be taken out of the list."""
    where = sites.modules(ROOT, sites.FOLDERS)
    rows = json.loads((FAULTS / "unchanged.json").read_text("utf-8"))
    for row in rows:
        sites.place(sites.Fault.of(row), where)
        assert row["reason"]
