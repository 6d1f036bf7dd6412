"""The study `recall`: its networks, their training, and what the page tells."""

import json

import numpy as np
import pytest
from calling import needs_training
from keras import ops

from keras_attention.models import CausalLM
from studies import command_line
from studies.recall import command, models, report, training
from studies.recall.sequences import multi_query


@pytest.fixture
def tiny(monkeypatch):
    """Few words and short sequences."""
    monkeypatch.setattr(models, "VOCABULARY", 40)
    monkeypatch.setattr(training, "VOCABULARY", 40)
    for module in (training, report):
        monkeypatch.setattr(module, "SLICES", ((8, 2), (12, 3)))


def test_the_keys_of_all_pairs_return_once_with_their_values_as_targets():
    data = multi_query(300, length=26, pairs=5, seed=2, vocabulary_size=14)
    assert data.tokens.shape == (300, 26)
    assert {part.dtype for part in data} == {np.dtype("int32")}
    for tokens, queries, answers in zip(*data):
        keys, values = tokens[:10].reshape(5, 2).T
        assert len({*keys}) == len({*values}) == 5
        assert 1 <= keys.min() <= keys.max() < 7 <= values.min() <= values.max() < 14
        assert (queries % 2 == 0).all()
        assert queries.min() >= 10
        assert (queries[1:] > queries[:-1]).all()
        assert {*zip(tokens[queries], answers)} == {*zip(keys, values)}
        assert np.count_nonzero(tokens) == 15  # the others are filler
    assert {*data.tokens[:, 0]} == {*range(1, 7)}
    assert {*data.tokens[:, 1]} == {*range(7, 14)}


def test_queries_follow_the_power_law():
    small = {"seed": 0, "vocabulary_size": 10}
    data = multi_query(4000, length=16, pairs=1, power=0.5, **small)
    places = np.bincount((data.queries[:, 0] - 2) // 2, minlength=7) / 4000
    law = np.arange(1, 8) ** -0.5
    np.testing.assert_allclose(places, law / law.sum(), atol=0.025)
    two = multi_query(4000, length=12, pairs=2, power=0.01, **small)
    first = two.tokens[:, 0] == two.tokens[np.arange(4000), two.queries[:, 0]]
    # The first key tends to return first. Its place is chosen first.
    law = np.arange(1, 5) ** -0.99 / (np.arange(1, 5) ** -0.99).sum()
    wanted = sum(
        law[i] * law[j] / (1 - law[i]) for i in range(4) for j in range(i + 1, 4)
    )
    np.testing.assert_allclose(first.mean(), wanted, atol=0.025)


def test_a_seed_repeats_the_sequences():
    first, again, other = (multi_query(3, 40, 5, seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first.tokens, again.tokens)
    assert not np.array_equal(first.tokens, other.tokens)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"length": 13}, "`length` must be even and at least 12 for 3 pairs.*13"),
        ({"length": 10}, "`length` must be even and at least 12 for 3 pairs.*10"),
        ({"vocabulary_size": 6}, "`vocabulary_size` must be even and at least 8 .*6"),
        ({"count": 0}, "`count` and `pairs` must be at least 1.*count=0"),
        ({"pairs": 0}, "`count` and `pairs` must be at least 1.*pairs=0"),
        ({"power": 0}, "`power` above 0.*power=0"),
    ],
)
def test_wrong_sizes_are_named(wrong, message):
    with pytest.raises(ValueError, match=message):
        multi_query(**{"count": 2, "length": 12, "pairs": 3, **wrong})


def test_the_short_convolution_reads_no_later_token():
    layer = models.ShortConvolution(3)
    x = np.random.default_rng(0).normal(size=(2, 5, 7)).astype("float32")
    layer.build(x.shape)
    kernel = np.random.default_rng(1).normal(size=(3, 7)).astype("float32")
    layer.set_weights([kernel])
    wanted = np.zeros_like(x)
    for t in range(5):
        for i in range(min(3, t + 1)):
            wanted[:, t] += kernel[i] * x[:, t - i]
    found = ops.convert_to_numpy(layer(x))
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", models.MEMORIES)
def test_networks_have_equal_weights_and_do_not_look_ahead(name, tiny):
    memory, dim = models.MEMORIES[name], 32
    model = memory.build(dim, models.sized(memory, dim))
    wanted = models.transformer_weights(dim)
    assert abs(models.weights_of(model) / wanted - 1) <= models.TOLERANCE
    inputs, answers = training.batch(12, 3, 2, [0])
    logits = model.predict_on_batch(inputs)
    assert logits.shape == (*answers.shape, 40)
    changed = inputs["tokens"].copy()
    changed[:, -1] = 5  # after the last query, at an even position
    later = model.predict_on_batch({**inputs, "tokens": changed})
    np.testing.assert_allclose(later, logits, atol=1e-5)
    changed[:, 1] = 30
    other = model.predict_on_batch({**inputs, "tokens": changed})
    assert np.abs(other - logits).max() > 1e-4


def test_the_logits_are_those_of_the_language_model(tiny, monkeypatch):
    made = []

    def language_model(*args, **kwargs):
        made.append(CausalLM(*args, **kwargs))
        return made[0]

    monkeypatch.setattr(models.models, "CausalLM", language_model)
    model = models.MEMORIES["transformer"].build(16, 16)
    inputs, _ = training.batch(12, 3, 2, [0])
    whole = made[0].predict_on_batch({"tokens": inputs["tokens"]})
    wanted = np.take_along_axis(whole, inputs["queries"][..., None], 1)
    np.testing.assert_allclose(model.predict_on_batch(inputs), wanted, atol=1e-5)


@needs_training
def test_the_command_tries_rates_and_resumes(tiny, monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(command, "RATES", (0.001, 0.01))
    monkeypatch.setattr(command, "TRIED_DIM", 16)
    small = {"tokens": 48, "steps": 2, "tested": 8, "validated": 4}
    monkeypatch.setattr(command, "TRAINING", {**training.TRAINING, **small})
    out, page, results = (tmp_path / name for name in ("r.jsonl", "p.md", "r.json"))
    start = ["recall", "--models", "transformer", "--dims", "16", "--minutes", "1e-5"]
    start += ["--out", str(out), "--json", str(results), "--page", str(page)]
    assert command_line.main([*start, "--seeds", "0"]) == 0
    lines = out.read_text("utf-8").splitlines()
    assert len(lines) == 3
    assert command_line.main([*start, "--seeds", "0", "1"]) == 0
    assert out.read_text("utf-8").splitlines()[:3] == lines
    told = capsys.readouterr().out
    assert told.count("seed 100, rate 0.01") == 2
    runs = json.loads(results.read_text("utf-8"))["runs"]
    assert [run["seed"] for run in runs] == [0, 1, 100, 100]
    for run in runs:
        assert len(run["result"]["accuracy"]) == 2
        assert run["result"]["steps"] >= 1
    assert "| attention | 16 | " in page.read_text("utf-8")


def one(model, seed, accuracy, dim=128, rate=0.003):
    result = {"accuracy": accuracy, "weights": 199_808, "size": 9, "steps": 500 + seed}
    head = {"model": model, "dim": dim, "seed": seed, "rate": rate}
    return {**head, "result": result}


def test_the_page_tells_accuracy_state_and_rates():
    runs = [one("delta", s, [1, 1, 1, 0.99, a]) for s, a in ((0, 0.96), (1, 0.98))]
    runs += [one("transformer", 0, [1] * 5), one("delta", 0, [0.5] * 5, dim=64)]
    tried = training.TRIED_SEED
    for rate, share in ((0.003, 0.95), (0.01, 0.9)):
        runs.append(one("delta", tried, [share] * 5, rate=rate))
    runs.append(one("delta", 3, [0] * 5, rate=0.01))  # not the best rate
    longer = report.whole([one("linear", 0, [0.75] * 5)])
    tables = report.tables({"recall": report.whole(runs), "recall-longer": longer})
    assert "| linear attention | 128 | 129 | 75.0 |" in tables["longer"]
    assert "linear" not in tables["accuracy"]
    delta = "| delta rule | 128 | 128 | 100.0 ± 0.0 | 100.0 ± 0.0 | 100.0 ± 0.0 | "
    assert delta + "99.0 ± 0.0 | 97.0 ± 1.4 | 2 |" in tables["accuracy"]
    assert "| delta rule | 64 | 32 | 50.0 |" in tables["accuracy"]
    assert "| attention | 128 | 1,024 | 100.0 |" in tables["accuracy"]
    assert "| delta rule | 128 | 199,808 | 0.003 | 500 to 501 |" in tables["training"]
    assert tables["rates"].endswith("| delta rule | 95.00 | 90.00 |")
    assert report.best(runs[-3:-1])["rate"] == 0.003
    equal = [one("delta", tried, [1] * 5, rate=rate) for rate in (0.001, 0.003, 0.01)]
    assert report.best(equal)["rate"] == 0.003
    curves = report.series(runs)
    assert [curve["name"] for curve in curves] == ["attention", "delta rule"]
    assert curves[1]["y"] == [1, 1, 1, 0.99, 0.97]
    assert curves[1]["bytes"] == [2 * 128 * 128 * 4] * 5


def test_the_picture():
    pytest.importorskip("matplotlib")
    from studies.recall.picture import plot_recall

    runs = [one(name, 0, [1, 1, 1, 0.5, 0.2]) for name in models.MEMORIES]
    left, right = plot_recall(report.series(runs), **report.LABELS).axes
    assert len(left.lines) == len(right.lines) == len(models.MEMORIES)
    assert right.lines[0].get_ydata()[-1] == 1024
    with pytest.raises(ValueError, match="must hold at least one memory"):
        plot_recall([])


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--minutes", "0"], "--minutes must be above 0. Received: 0.0"),
        (["--seeds", "100"], "--seeds must not contain 100"),
    ],
)
def test_what_the_command_refuses(more, message, capsys):
    assert command_line.main(["recall", *more]) == 2
    assert message in capsys.readouterr().err
