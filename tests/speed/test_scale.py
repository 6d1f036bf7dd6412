"""The command `scale`: what it measures, what it ends at a limit, what it refuses."""

import argparse
import json
import os
import sys
import types

import keras
import numpy as np
import pytest
from calling import needs_training

from speed import command_line, scale
from speed.scale import command, report, worker
from speed.scale.curve import Curve, Series, once

# A process of its own imports Keras and the backend, which takes seconds. Only such a
# process shows that a point is measured from the command line to the file.
on_torch = pytest.mark.skipif(
    keras.config.backend() != "torch", reason="one backend is enough"
)
POINT = {"curve": "stories", "series": "without time noise", "backend": "torch"}


@pytest.mark.release
@on_torch
def test_the_command_writes_what_it_measured(tmp_path, capsys):
    pytest.importorskip("matplotlib")
    path = tmp_path / "points.json"
    one = ["scale", "--curve", "attention", "--backend", "torch", "--json", str(path)]
    series = "causal, with gradients"
    asked = [
        *one,
        "--size",
        "64",
        "--series",
        series,
        "--plot",
        str(tmp_path / "drawn"),
    ]
    assert command_line.main(asked) == 0
    (point,) = json.loads(path.read_text("utf-8"))["points"]
    assert point["status"] == "measured"
    assert point["seconds"] > 0
    assert point["calls"] == worker.CALLS
    assert point["memory_bytes"] is None or point["memory_bytes"] >= 0
    assert report.line(point) in capsys.readouterr().out
    assert (tmp_path / "drawn" / "attention.png").stat().st_size > 1000


@on_torch
def test_a_point_that_exceeds_a_limit_is_not_run(tmp_path, capsys):
    path = tmp_path / "points.json"
    path.write_text(report.text(report.document({}, [measured(10, 1.0)])), "utf-8")
    asked = ["scale", "--curve", "attention", "--backend", "torch", "--size", "64"]
    asked += ["128", "--series", "all keys, forward", "--limit-memory", "0.01"]
    assert command_line.main([*asked, "--json", str(path), "--add"]) == 0
    old, *points = json.loads(path.read_text("utf-8"))["points"]
    assert old["curve"] == "stories"
    reasons = [(point["status"], point["reason"]) for point in points]
    assert reasons == [
        ("not run", "more than 0.01 GB of memory"),
        ("not run", "64 exceeds a limit"),
    ]


def arguments(**given):
    """The parsed options of the command, with some changed."""
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    return argparse.Namespace(**{**vars(parser.parse_args([])), **given})


@pytest.mark.parametrize(
    ("events", "message"),
    [
        ("", "imports and inputs take more than 0.3 s"),
        ('{"event": "ready"}\n', "the first call takes more than 0.3 s"),
        ('{"event": "ready"}\n{"event": "first"}\n{"ev', "the calls take more than"),
    ],
)
def test_each_stage_has_a_limit(events, message, monkeypatch, tmp_path):
    monkeypatch.setattr(command, "BUILD_SECONDS", 0.0)
    path = tmp_path / "events.jsonl"
    path.write_text(events)
    process = types.SimpleNamespace(pid=os.getpid(), poll=lambda: None)
    given = arguments(limit_seconds=0.3, limit_memory=1e6)
    assert command.watch(process, path, given).startswith(message)


def test_a_process_that_fails_is_told_with_its_error(monkeypatch):
    monkeypatch.setattr(command, "BOOTSTRAP", "raise SystemExit('no such thing')")
    monkeypatch.setattr(command.importlib.util, "find_spec", lambda name: sys)
    found = command.measure({**POINT, "size": 10}, arguments())
    assert (found["status"], found["reason"]) == ("failed", "no such thing")
    monkeypatch.setattr(command.importlib.util, "find_spec", lambda name: None)
    found = command.measure({**POINT, "size": 10}, arguments())
    assert found["status"] == "not installed"


class Clock:
    """Goes on by what a call takes."""

    def __init__(self, *seconds):
        self.now, self.calls, self.seconds = 0.0, 0, seconds

    def __call__(self):
        return self.now

    def call(self):
        self.now += self.seconds[min(self.calls, len(self.seconds) - 1)]
        self.calls += 1


def test_short_calls_are_timed_in_groups_after_warm_ups():
    clock = Clock(0.5, 0.001)
    times = worker.repeat(clock.call, seconds=8.0, clock=clock)
    assert times == pytest.approx([0.001] * worker.CALLS)
    groups = worker.CALLS * worker.SHORT / 0.001
    assert clock.calls == pytest.approx(groups + 2, abs=1)


def test_long_calls_are_few():
    clock = Clock(3.0)
    assert worker.repeat(clock.call, seconds=5.0, clock=clock) == [3.0, 3.0]
    clock = Clock(9.0)
    found = worker.measure(clock.call, first=9.0, seconds=5.0, clock=clock)
    assert (found["seconds"], found["calls"], clock.calls) == (9.0, 1, 1)
    clock = Clock(0.5)  # the first call compiled
    found = worker.measure(clock.call, first=9.0, seconds=5.0, clock=clock)
    assert found["seconds"] == pytest.approx(0.5)
    assert found["calls"] > 1


@pytest.mark.skipif(not os.path.exists("/proc/self/clear_refs"), reason="not on Linux")
def test_memory_is_what_a_call_needs():
    clock = Clock(0.01)

    def call():
        clock.call()
        np.ones(4_000_000, "float64").sum()

    found = worker.measure(call, first=0.01, seconds=5.0, clock=clock)
    assert 31e6 < found["memory_bytes"] < 36e6


def test_a_function_is_built_in_its_first_call():
    built = []
    call = once(lambda: built.append(1) or (lambda: len(built)))
    assert built == []
    assert [call(), call()] == [1, 1]


@pytest.mark.release
@needs_training
@pytest.mark.parametrize("name", scale.CURVES)
def test_each_series_can_be_called(name):
    curve = scale.CURVES[name]
    for series in curve.series:
        call = series.make(curve.few[0], keras.config.backend())
        for _ in range(2):
            call()
    assert list(curve.sizes) == sorted(curve.sizes)
    assert curve.few[0] == curve.sizes[0]


@needs_training
def test_stories_are_full(monkeypatch):
    seen = {}
    known = scale.memory_networks.batch_of

    def noted(sizes, **options):
        seen["story"], *_ = found = known(sizes, **options)
        return found

    monkeypatch.setattr(scale.memory_networks, "batch_of", noted)
    curve = scale.CURVES["stories"]
    curve.series[0].make(30, keras.config.backend())
    assert seen["story"].shape == (8, 30, 12)
    assert (seen["story"] > 0).all()


def measured(size, seconds, **more):
    point = {**POINT, "size": size, "status": "measured", "seconds": seconds}
    return {**point, "memory_bytes": 1000 * size, **more}


def test_points_replace_older_ones_and_the_file_is_json():
    found = report.document({"cores": 2}, [measured(10, 1.0)])
    report.add(found, measured(100, 0.123456, versions={"keras": "3"}))
    report.add(found, measured(10, 2.0))
    again = json.loads(report.text(found))
    assert [(p["size"], p["seconds"]) for p in again["points"]] == [
        (10, 2.0),
        (100, 0.1235),
    ]
    assert again["versions"] == {"torch": {"keras": "3"}}
    assert report.text(found).count("\n  {") == 2  # a line per point


def test_tables_and_pictures_tell_what_was_not_run():
    stopped = {**POINT, "size": 1000, "status": "not run", "reason": "too much"}
    points = [measured(10, 0.0123), measured(100, 1.5), stopped]
    table = report.table(points)
    assert "| 10 | 12.3 ms, 0.01 MB |" in table
    assert "| 100 | 1.5 s, 0.1 MB |" in table
    assert "| 1,000 | not run: too much |" in table
    large = {**measured(2000, 2.0), "memory_bytes": 3_000_000}
    later = {"scale": {"points": points}, "scale-later": {"points": [large]}}
    short, exponents = report.tables(later).values()
    assert exponents.endswith("| without time noise | – | 0.92 | – |")
    assert "| 10 | 12.3 ms |\n" in short
    assert "| 1,000 |" not in short
    assert short.endswith("| 2,000 | 2 s, 3 MB |")
    ((series,), labels) = report.pictures(points)["stories"]
    assert (series["x"], series["seconds"]) == ([10, 100], [0.0123, 1.5])
    assert labels["x_label"] == "sentences in a story"
    assert report.memory(None) == "unknown"
    assert report.memory(2_500_000_000) == "2.5 GB"


def test_later_points_of_a_series_are_not_started(monkeypatch):
    series = tuple(Series(name, lambda size, backend: None) for name in ("a", "b"))
    curve = Curve("stories", "size", (1, 2, 3), (1,), "title", series)

    def measure(point, args):
        status = (
            "not run" if (point["series"], point["size"]) == ("a", 2) else "measured"
        )
        return {**point, "status": status}

    monkeypatch.setattr(command, "measure", measure)
    found = [*command.points(curve, "torch", arguments())]
    assert [point["status"] for point in found] == [
        *("measured", "not run", "not run"),
        *("measured",) * 3,
    ]
    assert found[2]["reason"] == "2 exceeds a limit"
    quick = [*command.points(curve, "torch", arguments(quick=True, series=["b"]))]
    assert [(point["series"], point["size"]) for point in quick] == [("b", 1)]


def test_errors_of_usage(tmp_path, capsys):
    bad = tmp_path / "bad.json"
    bad.write_text("[]")
    for asked, message in (
        (["--threads", "0"], "--threads must be from 1 to"),
        (["--limit-seconds", "0"], "--limit-seconds must be above 0. Received: 0.0"),
        (["--limit-memory", "-1"], "--limit-memory must be above 0. Received: -1.0"),
        (["--size", "0"], "--size must be above 0. Received: 0"),
        (["--add"], "--add needs --json"),
        (["--series", "x"], "unknown series 'x'. Known series: 8 links a slot"),
        (["--add", "--json", str(bad)], "is no file of this command"),
    ):
        assert command_line.main(["scale", *asked]) == 2
        assert message in capsys.readouterr().err
