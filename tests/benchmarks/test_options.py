"""Options and parts of reports that several commands share."""

import argparse
import json

import pytest

from keras_attention.benchmarks import options, reports
from keras_attention.benchmarks.errors import UsageError


def parsed(*arguments, page=False):
    parser = argparse.ArgumentParser()
    options.add_runs(parser, (0, 1), page)
    parser.add_argument("--encoder-epochs", type=float)
    return parser.parse_args([str(argument) for argument in arguments])


def test_options_that_are_too_small_are_named():
    options.at_least_one(parsed(), "encoder_epochs")
    options.at_least_one(parsed("--encoder-epochs", 1), "encoder_epochs")
    options.above_zero(parsed("--encoder-epochs", 0.5), "encoder_epochs")
    for check, number, message in (
        (options.at_least_one, "0", "at least 1. Received: 0.0"),
        (options.above_zero, "0", "above 0. Received: 0.0"),
        (options.above_zero, "nan", "above 0. Received: nan"),
    ):
        with pytest.raises(UsageError, match=f"--encoder-epochs must be {message}"):
            check(parsed("--encoder-epochs", number), "encoder_epochs")


def test_results_are_written_where_asked(tmp_path):
    results, page = tmp_path / "r.json", tmp_path / "r.md"
    assert parsed().seeds == [0, 1]
    options.write(parsed(page=True), {"a": 1}, str)
    options.write(parsed("--json", results), {"a": 1}, None)
    assert json.loads(results.read_text("utf-8")) == {"a": 1}
    assert list(tmp_path.iterdir()) == [results]
    options.write(parsed("--page", page, page=True), {"a": 1}, str)
    assert page.read_text("utf-8") == "{'a': 1}"


def test_a_report_begins_with_its_versions():
    head = reports.head("dnc")
    names = ["benchmark", "date", "python", "keras_attention", "processors"]
    assert list(head) == names
    assert head["benchmark"] == "dnc"
    assert head["date"].endswith("+00:00")


def test_a_table():
    text = reports.table(["a", "b"], [["1", "2"], ["3", ""]])
    assert text == "| a | b |\n| --- | --- |\n| 1 | 2 |\n| 3 |  |"


def test_a_history_is_thinned_and_keeps_its_end():
    assert reports.thinned([]) == []
    assert reports.thinned(list(range(5))) == [0, 1, 2, 3, 4]
    # Of 40 at most, every third is kept, counted from the last.
    assert reports.thinned(list(range(100)), most=40) == list(range(0, 100, 3))
    assert reports.thinned(list(range(101)), most=40) == list(range(1, 101, 3))
