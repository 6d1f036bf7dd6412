"""The arithmetic of the benchmarks, with a clock that only tests move."""

import json
import os

import numpy as np
import pytest
from calling import ROOT, in_checkout, printed_by

from speed import command_line, harness
from speed.compare import (
    BACKENDS,
    CASES,
    PAGE,
    attention,
    command,
    memn2n,
    report,
    select,
    worker,
)
from studies.command_line import UsageError

# A collection between two timings takes most of the time of a test.
pytestmark = pytest.mark.usefixtures("without_collection")

STEPS = (
    harness.Step(flops=600.0, bytes=40.0, product=(1, 2, 3, 5)),
    harness.Step(flops=100.0, bytes=400.0, product=(1, 2, 3, 5)),
    harness.Step(flops=0.0, bytes=50.0),
)


class Clock:
    """Time passes only where a call says so."""

    def __init__(self):
        self.now = 0.0
        self.log = []

    def __call__(self):
        return self.now

    def work(self, name, seconds, result=None):
        seconds = iter(seconds) if not isinstance(seconds, float) else seconds

        def call():
            self.log.append(name)
            self.now += seconds if isinstance(seconds, float) else next(seconds)
            return result

        return call


class Rates:
    """Rates that need no measuring."""

    def product(self, shape):
        return 100.0

    def copy(self, size):
        return 10.0


def toy_case(clock, theirs=3.0, value=2.0, **options):
    def make(backend):
        ours = {"output": np.array([1.0, 2.0]), "weights": np.zeros(3)}
        calls = {
            "ours": clock.work("ours", 0.5, ours),
            "peer": clock.work("peer", theirs, {"output": np.array([1.0, value])}),
        }
        return harness.Contestants(calls=calls, memory={"ours": lambda: 77})

    return harness.Case("toy", {"N": 7}, make, STEPS, 1e-3, **options)


def toy_options(clock, pairs=15):
    return worker.Options("jax", pairs, 1, sample_seconds=1.2, clock=clock)


def run_toy(**options):
    clock = Clock()
    case = toy_case(clock, **options)
    return worker.run_case(case, toy_options(clock), Rates())


def test_pairs_alternate_abba():
    assert list(harness.abba(4)) == [(0, 1), (1, 0), (0, 1), (1, 0)]


def test_time_pairs_runs_in_that_order_and_divides_by_the_calls():
    clock = Clock()
    ours, theirs = clock.work("a", 0.25), clock.work("b", 1.0)
    seconds = harness.time_pairs(ours, theirs, 3, calls=(2, 1), clock=clock)
    assert "".join(clock.log) == "aab" + "baa" + "aab"
    np.testing.assert_array_equal(seconds, [[0.25, 1.0]] * 3)


def test_a_machine_that_slows_down_steadily_changes_no_ratio_much():
    clock = Clock()
    slowing = np.linspace(1.0, 2.0, 60)
    ours = clock.work("a", list(slowing))
    theirs = clock.work("b", list(2 * slowing))
    ratios = harness.pair_ratios(harness.time_pairs(ours, theirs, 60, clock=clock))
    np.testing.assert_allclose(ratios, 2.0)


def test_ratios_are_theirs_over_ours_pair_by_pair():
    seconds = np.array([[1.0, 2.0], [4.0, 2.0], [2.0, 6.0]])
    np.testing.assert_array_equal(harness.pair_ratios(seconds), [2.0, 0.5, 3.0])
    # The median of ratios is not the ratio of medians: 2 / 2 would be 1.
    assert harness.spread(harness.pair_ratios(seconds)).median == 2.0


def test_spread_of_known_numbers():
    spread = harness.spread(np.arange(1.0, 102.0))  # 1 … 101
    assert (spread.median, spread.q1, spread.q3) == (51.0, 26.0, 76.0)
    assert (spread.p5, spread.p95) == (6.0, 96.0)
    # A median of n uniform draws has a deviation of about range / (2 √n).
    assert spread.low == pytest.approx(51 - 1.96 * 5, abs=3)
    assert spread.high == pytest.approx(51 + 1.96 * 5, abs=3)
    assert spread == harness.spread(np.arange(1.0, 102.0))


def test_the_median_has_an_interval_within_the_data():
    ratios = np.random.default_rng(5).lognormal(0.0, 0.1, 17)
    spread = harness.spread(ratios)
    assert ratios.min() <= spread.low < spread.median < spread.high <= ratios.max()


@pytest.mark.parametrize(
    ("ratio", "null", "expected"),
    [
        ((1.20, 1.30), (0.97, 1.03), "faster"),
        ((0.70, 0.90), (0.97, 1.03), "slower"),
        ((1.02, 1.30), (0.97, 1.03), "same within noise"),  # overlaps the null run
        ((1.20, 1.30), (0.80, 1.25), "same within noise"),
        ((0.99, 1.01), (0.97, 0.98), "same within noise"),  # the null run is off
        ((0.95, 0.99), (1.01, 1.02), "slower"),
    ],
)
def test_verdict(ratio, null, expected):
    spreads = [
        harness.Spread(sum(band) / 2, *band, *band, *band) for band in (ratio, null)
    ]
    assert harness.verdict(*spreads) == expected


def test_the_null_of_noise_alone_finds_no_difference():
    generator = np.random.default_rng(11)
    verdicts = [
        harness.verdict(
            harness.spread(generator.lognormal(0.0, 0.1, 15)),
            harness.spread(generator.lognormal(0.0, 0.1, 15)),
        )
        for _ in range(40)
    ]
    assert verdicts.count("same within noise") >= 38


def test_floor_takes_what_is_slower_of_each_step():
    # 600/100 = 6 s beat 4 s; 400/10 = 40 s beat 1 s; 50/10 = 5 s of bytes alone.
    rates = Rates()
    assert harness.floor_seconds(STEPS, rates.product, rates.copy) == 6 + 40 + 5


def test_floor_asks_for_the_rates_of_each_steps_own_shape():
    asked = []
    harness.floor_seconds(
        STEPS,
        lambda shape: asked.append(shape) or 1.0,
        lambda size: asked.append(size) or 1.0,
    )
    assert asked == [(1, 2, 3, 5), 40.0, (1, 2, 3, 5), 400.0, 50.0]


@pytest.mark.parametrize(
    ("seconds", "at_least", "calls"),
    [(0.5, 1.2, 3), (2.0, 1.2, 1), (1e-4, 0.02, 200), (0.0, 1e-9, 1)],
)
def test_calls_to_last(seconds, at_least, calls):
    assert harness.calls_to_last(seconds, at_least) == calls


def test_largest_difference_is_relative_to_the_largest_of_theirs():
    ours, theirs = {"y": np.array([100.0, 1.0])}, {"y": np.array([100.0, 2.0])}
    assert harness.largest_difference(ours, theirs, 0.1) == pytest.approx(0.01)


@pytest.mark.parametrize(
    ("theirs", "message"),
    [
        ({"y": np.array([1.0, 2.5])}, "`y` differs by 0.2, more than 0.001"),
        ({"y": np.array([1.0, np.nan])}, "`y` differs by nan"),
        ({"y": np.array([[1.0, 2.0]])}, r"shape \(2,\), theirs \(1, 2\)"),
        ({"z": np.array([1.0])}, r"nothing to compare: \['y'\] against \['z'\]"),
    ],
)
def test_unequal_results(theirs, message):
    with pytest.raises(harness.NumericsError, match=message):
        harness.largest_difference({"y": np.array([1.0, 2.0])}, theirs, 1e-3)


def test_run_case_measures_what_the_clock_says():
    (result,) = run_toy()
    assert result["status"] == "measured"
    assert (result["ours_ms"], result["theirs_ms"]) == (500.0, 3000.0)
    assert result["ratio"]["median"] == 6.0
    assert set(result["null"].values()) == {1.0}
    assert result["verdict"] == "faster"
    assert result["floor_ms"] == 51e3
    assert result["calls_a_timing"] == [3, 1]  # to last 1.2 s
    assert result["first_call_s"] == {"ours": 0.5, "peer": 3.0}
    assert result["max_error"] == 0.0
    assert len(result["ratios"]) == result["pairs"] == 15


def test_run_case_warms_up_and_times_ours_against_itself():
    clock = Clock()
    worker.run_case(toy_case(clock), toy_options(clock, pairs=15), Rates())
    first, warm_up, memory = 1, harness.WARM_UPS, clock.log.count("peer")
    memory = memory - 1 - harness.WARM_UPS - 15  # 1 where it can be measured, or 0
    assert memory in (0, 1)
    assert clock.log.count("ours") == first + warm_up + memory + 3 * (2 * 15 + 15)


def test_unequal_results_are_not_timed():
    (result,) = run_toy(value=2.5)
    assert result["status"] == "wrong"
    assert result["reason"] == (
        "ours against peer: `output` differs by 0.2, more than 0.001"
    )
    assert "ratio" not in result


def test_a_peer_that_is_not_installed_is_said_to_be_so():
    (result,) = run_toy(needs=("no_such_module",))
    assert result["status"] == "skipped"
    assert result["reason"] == "no_such_module is not installed"


def test_the_json_and_the_table():
    runs = [
        {
            "backend": "jax",
            "status": "measured",
            "results": run_toy(amount=(250, "tokens")),
        },
        {
            "backend": "torch",
            "status": "not installed",
            "reason": "install it with: pip install torch",
            "results": [],
        },
        {"backend": "tensorflow", "status": "measured", "results": run_toy(value=9.0)},
    ]
    built = report.build({"pairs": 15}, report.machine(1), runs)
    built = json.loads(json.dumps(built))
    assert set(built) == {
        "schema",
        "command",
        "keras_attention",
        "date",
        "seed",
        "options",
        "machine",
        "backends",
    }
    assert built["schema"] == 1
    assert set(built["machine"]) == {
        "system",
        "processor",
        "cores",
        "threads",
        "load_before",
        "idle",
    }
    (result,) = built["backends"][0]["results"]
    assert set(result) == {
        "against",
        "amount",
        "backend",
        "build_s",
        "bytes",
        "calls_a_timing",
        "case",
        "first_call_s",
        "floor_at_peak_ms",
        "floor_ms",
        "flops",
        "max_error",
        "memory",
        "null",
        "ours_ms",
        "pairs",
        "ratio",
        "ratios",
        "sizes",
        "status",
        "theirs_ms",
        "tolerance",
        "verdict",
    }
    spread = {"median", "q1", "q3", "p5", "p95", "low", "high"}
    assert set(result["ratio"]) == set(result["null"]) == spread
    assert set(result["memory"]) == {"resident_growth", "xla_scratch"}
    assert result["memory"]["xla_scratch"] == {"ours": 77}

    lines = report.table(runs).split("\n")
    assert lines[0].split() == " ".join(report.HEADINGS).split()
    cells = lines[2].split()
    assert cells[:4] == ["toy", "jax", "N7", "peer"]
    assert cells[4:9] == ["500", "3,000", "6.00", "6.00-6.00", "1.00-1.00"]
    assert cells[9:] == ["faster", "51,000", "500", "tokens"]
    assert report.table([runs[0] | {"results": run_toy()}]).count("tokens") == 0
    assert "torch: not installed: install it with: pip install torch" in lines
    assert any(line.startswith("jax: toy N7: wrong: ours") for line in lines)


def test_the_tables_of_the_page():
    (result,) = run_toy(amount=(250, "tokens"))
    sizes = {"T": 512, "D": 512, "extra": "none", "mode": "fwd+bwd"}
    result |= {"case": "multi_head", "sizes": sizes, "against": "keras.layers"}
    noisy = {**result, "backend": "torch", "verdict": harness.SAME, "ours_ms": 250.0}
    runs = [{"backend": "jax", "results": [result, {**result, "status": "wrong"}]}]
    raw = {
        "compare-jax": {"backends": runs},
        "compare-torch": {"backends": [{"results": [noisy]}]},
        "scale": {},
    }
    tables = report.tables(raw)
    assert set(tables) == {*PAGE, "glance"}
    assert tables["multi_head"].split("\n") == [
        "| case | compared with | JAX | torch |",
        "| --- | --- | --- | --- |",
        "| T = 512, no mask, with gradients | keras.layers "
        "| 500 ms: 6.00 (6.00–6.00) | 250 ms: 6.00 within noise (6.00–6.00) |",
    ]
    sizes = {"T": 4096, "mask": "none"}
    long = {**result, "case": "attention_long", "sizes": sizes}
    long |= {"memory": {"xla_scratch": {"ours": 59e6, "keras.layers": 1e9}}}
    raw["compare-jax"]["backends"][0]["results"].append(long)
    last = report.tables(raw)["attention_long"].split("\n")[-1]
    assert last == "| keras.layers | 500 ms: 6.00 (6.00–6.00), 59 against 1,000 MB |"
    del long["memory"]["xla_scratch"]["keras.layers"]
    last = report.tables(raw)["attention_long"].split("\n")[-1]
    assert last == "| keras.layers | 500 ms: 6.00 (6.00–6.00) |"
    (row,) = (line for line in tables["glance"].split("\n") if "6.00" in line)
    assert row.startswith("| multi-head layer, T = 512, with gradients | keras.layers")
    assert row.endswith("| 6.00 | 6.00 within noise |  | 1,000 tokens |")


def test_the_cases_of_the_page():
    assert {*PAGE} <= {*CASES}
    chosen = select(page=True)
    assert {case.name for case in chosen} == {*PAGE}
    for name, wanted in PAGE.items():  # none of the sizes is misspelt
        for sizes in wanted:
            assert [c for c in chosen if {**c.sizes, **sizes} == c.sizes], (name, sizes)
    for title, name, sizes, _ in report.GLANCE:
        cases = [case for case in chosen if case.name == name]
        assert [c for c in cases if {**c.sizes, **sizes} == c.sizes], title
    for name, columns in report.COLUMNS.items():
        for case in chosen:
            assert case.name != name or {*columns} <= {*case.sizes}


@pytest.mark.parametrize(("load", "state"), [(0.3, "idle"), (1.7, "BUSY")])
def test_a_busy_machine_is_reported(monkeypatch, load, state):
    monkeypatch.setattr(os, "getloadavg", lambda: (load, 0.0, 0.0))
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    facts = report.machine(1)
    assert facts["idle"] == (state == "idle")
    line = report.idle_line(facts)
    assert line.startswith(f"load average {load:.2f} on 2 processors: {state}")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--case", "atention"], "unknown case 'atention'. Known cases: additive"),
        (["--size", "T256"], "a size must look like T=256. Received: size='T256'"),
        (["--case", "attention_core", "--size", "T=3"], "no case is left"),
        (["--pairs", "14"], "--pairs must be at least 15. Received: 14"),
        (["--threads", "0"], "--threads must be from 1 to"),
    ],
)
def test_wrong_usage_is_one_clear_line(arguments, message, capsys):
    assert command_line.main(["compare", *arguments]) == 2
    errors = capsys.readouterr().err
    assert message in errors
    assert "Traceback" not in errors


def test_unknown_backend_or_command(capsys):
    with pytest.raises(SystemExit):
        command_line.main(["compare", "--backend", "theano"])
    assert "invalid choice: 'theano'" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        command_line.main(["compar"])
    assert "compare" in capsys.readouterr().err


def test_what_torch_takes_is_told_on_torch_alone(capsys):
    assert (
        command_line.main(["memory", "core", "--of", "torch", "--backend", "jax"]) == 2
    )
    assert "--of torch needs --backend torch" in capsys.readouterr().err
    asked = ["memory", "window", "--mask", "causal", "--backend", "jax"]
    assert command_line.main(asked) == 2
    assert "no --of, no --mask" in capsys.readouterr().err


# Their length is the point, so a quick run leaves them out.
UNSHORTENED = (
    "attention_long",
    "attention_masks",
    "additive_long",
    "attention_window",
    "packed",
)


def test_all_cases_are_known_by_their_name():
    for name, cases in CASES.items():
        assert {case.name for case in cases} == {name}
        assert len({case.label for case in cases}) == len(cases)
        assert any(case.quick for case in cases) or name in UNSHORTENED
    assert {case.sizes["T"] for case in CASES["attention_core"]} >= {16, 256, 2048}


def test_select_by_size():
    chosen = select(["attention_explicit"], ["T=256", "mode=fwd"])
    assert [case.label for case in chosen] == [
        "attention_explicit B=8 D=64 T=256 mode=fwd"
    ]
    with pytest.raises(UsageError, match="Known cases: a, b"):
        select(["c"], known={"b": (), "a": ()})


def test_work_of_attention_counted_by_hand():
    case = next(c for c in attention.explicit_cases() if c.sizes["T"] == 16)
    batch, length, width = 8, 16, 64
    assert case.flops == 2 * (2 * batch * length * length * width)
    moved = 4 * batch * length * width + batch * length * length
    assert case.bytes == 4 * moved  # q, k, v, output and weights, four bytes each


def test_backends_that_are_not_installed(monkeypatch):
    monkeypatch.setattr(command.importlib.util, "find_spec", lambda name: None)
    run = command._run_backend("jax", {})
    assert (run["status"], run["results"]) == ("not installed", [])


def test_a_worker_that_dies_leaves_a_reason(monkeypatch):
    monkeypatch.setattr(command, "BOOTSTRAP", "raise SystemExit(3)")
    monkeypatch.setattr(command.importlib.util, "find_spec", lambda name: name)
    run = command._run_backend("jax", command._options(parse(["--quick"])))
    assert run["status"] == "failed"
    assert "status 3" in run["reason"]


def parse(arguments):
    import argparse

    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    return parser.parse_args(arguments)


@pytest.mark.release
def test_from_the_command_line_to_the_file(tmp_path):
    import keras

    backend = keras.backend.backend()
    if backend not in BACKENDS:
        pytest.skip(f"speed is not measured on {backend}")
    path = tmp_path / "speed.json"
    arguments = ["--case", "attention_explicit", "--size", "T=16", "--quick"]
    arguments += ["--backend", backend, "--pairs", "2", "--threads", "1"]
    command = ROOT / "tests" / "speed", "compare", *arguments
    text = printed_by(*command, "--json", path, env=in_checkout())
    assert "attention_explicit" in text
    (run,) = json.loads(path.read_text())["backends"]
    assert run["status"] == "measured"
    assert run["versions"]["keras"] == keras.__version__
    assert run["rates"]["product_gflops"]["1x1024x1024x1024"] > 0
    assert run["peak_resident_bytes"] > 1e6
    assert [(r["sizes"]["mode"], r["against"]) for r in run["results"]] == [
        ("fwd", "keras.layers"),
        ("fwd", "keras.ops"),
        ("fwd+bwd", "keras.layers"),
        ("fwd+bwd", "keras.ops"),
    ]
    assert {r["status"] for r in run["results"]} == {"measured"}
    for measured in run["results"]:
        assert bool(measured["memory"]["xla_scratch"]) == (backend == "jax")


@pytest.mark.release
@pytest.mark.parametrize("call", memn2n.CALLS)
def test_plain_memn2n_computes_what_ours_does(call):
    pytest.importorskip("torch")
    import keras

    sizes = {"B": 3, "V": 11, "d": 5, "M": 7, "L": 4, "call": call}
    story, *_ = memn2n.batch_of(sizes)
    assert not story.any(-1).all()  # some slots are empty, that is null memories
    contestants = memn2n._make(sizes, keras.backend.backend())
    (error,) = contestants.check().values()
    assert error < 1e-5
    for step in contestants.calls.values():
        step()
