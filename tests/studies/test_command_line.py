"""Options and parts of reports that several commands share."""

import argparse
import json

import keras
import pytest

from studies import command_line, reports
from studies.command_line import UsageError


def parsed(*arguments, page=False):
    parser = argparse.ArgumentParser()
    command_line.add_runs(parser, (0, 1), page)
    parser.add_argument("--encoder-epochs", type=float)
    return parser.parse_args([str(argument) for argument in arguments])


def test_options_that_are_too_small_are_named():
    command_line.at_least_one(parsed(), "encoder_epochs")
    command_line.at_least_one(parsed("--encoder-epochs", 1), "encoder_epochs")
    command_line.above_zero(parsed("--encoder-epochs", 0.5), "encoder_epochs")
    for check, number, message in (
        (command_line.at_least_one, "0", "at least 1. Received: 0.0"),
        (command_line.above_zero, "0", "above 0. Received: 0.0"),
        (command_line.above_zero, "nan", "above 0. Received: nan"),
    ):
        with pytest.raises(UsageError, match=f"--encoder-epochs must be {message}"):
            check(parsed("--encoder-epochs", number), "encoder_epochs")


def test_results_are_written_where_asked(tmp_path):
    results, page = tmp_path / "r.json", tmp_path / "r.md"
    assert parsed().seeds == [0, 1]
    command_line.write(parsed(page=True), {"a": 1}, {"b": "| c |"})
    command_line.write(parsed("--json", results), {"a": 1}, None)
    assert json.loads(results.read_text("utf-8")) == {"a": 1}
    assert list(tmp_path.iterdir()) == [results]
    tables = {"b": "| c |", "d": "| e |"}
    command_line.write(parsed("--page", page, page=True), {"a": 1}, tables)
    assert page.read_text("utf-8") == "## b\n\n| c |\n\n## d\n\n| e |\n"


def test_a_report_begins_with_its_versions():
    head = reports.head("dnc")
    names = "benchmark date command device processor processors python keras_attention"
    assert list(head) == [*names.split(), "keras", keras.config.backend()]
    assert head["benchmark"] == "dnc"
    assert head["keras"] == keras.__version__
    assert head["command"].startswith(f"KERAS_BACKEND={keras.config.backend()} python ")
    assert str(reports.ROOT) not in head["command"].split()[2]
    assert head["date"].endswith("+00:00")


def test_a_table():
    text = reports.table(["a", "b"], [["1", "2"], ["3", ""]])
    assert text == "| a | b |\n| --- | --- |\n| 1 | 2 |\n| 3 |  |"


def test_tables_are_written_between_their_markers(tmp_path, monkeypatch):
    package = tmp_path / "a_study"
    (package / "results").mkdir(parents=True)
    (package / "results" / "runs.json").write_text("[1, 2]", "utf-8")
    code = 'def tables(raw):\n    return {"both runs": f"| {raw} |", "none": ""}\n'
    (package / "report.py").write_text(code, "utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    page = "a\n\n<!-- table: a_study.report both runs -->\n{}<!-- end -->\n\nb\n"
    written = page.format("\n| {'runs': [1, 2]} |\n\n")
    assert reports.with_tables(page.format("")) == written
    assert reports.with_tables(written) == written
    with pytest.raises(KeyError, match="of runs"):
        reports.with_tables(page.format("").replace("both", "of"))


def test_a_history_is_thinned_and_keeps_its_end():
    assert reports.thinned([]) == []
    assert reports.thinned(list(range(5))) == [0, 1, 2, 3, 4]
    # Of 40 at most, every third is kept, counted from the last.
    assert reports.thinned(list(range(100)), most=40) == list(range(0, 100, 3))
    assert reports.thinned(list(range(101)), most=40) == list(range(1, 101, 3))
