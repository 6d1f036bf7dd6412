"""Bad calls of every layer and model: a sample of what `tests/fuzz` draws."""

import re

import catalogue
import keras
import mutations
import numpy as np
import pytest
import verdicts

from keras_attention import layers

SEED, SAMPLE = 1, 300


@pytest.fixture
def whole_tracebacks():
    filtered = keras.config.is_traceback_filtering_enabled()
    keras.config.disable_traceback_filtering()
    yield
    if filtered:
        keras.config.enable_traceback_filtering()


@pytest.mark.slow
@pytest.mark.usefixtures("whole_tracebacks")
def test_bad_calls_are_right_or_refused_clearly():
    cases = [mutations.draw(SEED, n, catalogue.ROWS) for n in range(SAMPLE)]
    found = [(verdicts.judge(case), case) for case in cases]
    assert not [(v, str(c)) for v, c in found if v.verdict == "wrong"]
    raw = [(v, str(c)) for v, c in found if v.verdict == "raw"]
    assert len(raw) <= 0.02 * SAMPLE, raw


def test_a_case_is_drawn_again_from_its_numbers():
    for number in range(50):
        first, second = (mutations.draw(7, number, catalogue.ROWS) for _ in range(2))
        assert first.changes == second.changes
        assert first.row is second.row
        assert list(first.inputs) == list(second.inputs)
    others = {str(mutations.draw(8, n, catalogue.ROWS)) for n in range(50)}
    assert len(others) == 50


def case_of(name, **inputs):
    row = catalogue.by_name(name)
    usual = row.inputs(np.random.default_rng(0))
    return mutations.Case(0, 0, row, {**usual, **inputs})


class Wrong(layers.Attention):
    """Answers with the mean over the batch, whatever it is given."""

    def call(self, query, value, key=None, **more):
        output = super().call(query, value, key, **more)
        rest = keras.ops.nan_to_num(keras.ops.mean(output, axis=0, keepdims=True))
        return keras.ops.zeros_like(output) + rest


@pytest.mark.usefixtures("whole_tracebacks")
def test_each_oracle_sees_its_fault(monkeypatch):
    usual = case_of("attention")
    assert verdicts.judge(usual).verdict == "right"
    verdicts.usual_output("attention")
    spoiled = usual.inputs["query"].copy()
    spoiled[0, 1, 2] = np.nan
    nan = case_of("attention", query=spoiled)
    nan.spoiled, nan.kind = ("query", (0, 1, 2)), "nan"
    assert verdicts.judge(nan).verdict == "right"
    wrong = Wrong()
    verdicts.called(usual, wrong, usual.inputs)
    monkeypatch.setattr(verdicts, "made", lambda case: wrong)
    assert "alone" in verdicts.judge(usual).reason
    whole = verdicts.arrays(verdicts.called(nan, wrong, nan.inputs))
    assert "another sample" in verdicts.spread(nan, wrong, whole)
    same = case_of("attention")
    same.same_as = {**same.inputs, "query": 2 * same.inputs["query"]}
    output = verdicts.usual_output("attention")
    layer = verdicts.usual("attention")
    assert "usual form" in verdicts.equal(same, layer, output)
    assert "symbolic" in verdicts.declared(same, layer, [x[0] for x in output])
    assert "not finite" in verdicts.finite(same, layer, [np.array([np.nan])])
    zeros = [np.zeros_like(x) for x in output]
    other = nan.inputs["query"].copy()
    other[0, 1, 2] = 5.0
    assert "another sample" in verdicts.spread(nan, layer, zeros)
    kept = [np.where(np.isnan(x), 0, x) for x in output]
    assert "plausible" in verdicts.spread(nan, layer, kept)
    same.refused = "any reason"
    assert verdicts.judge(same).reason == "an output for any reason"


def outcome(call):
    try:
        call()
    except Exception as error:
        return verdicts.of_error(error).verdict
    return None


@pytest.mark.usefixtures("whole_tracebacks")
def test_clear_and_raw_errors():
    query, value = np.zeros((2, 3, 4)), np.zeros((2, 5, 4))
    assert outcome(lambda: layers.Attention()(query, value[:1])) == "clear"
    assert outcome(lambda: layers.Attention(nonsense=1)) == "clear"
    assert outcome(lambda: keras.layers.Dense(-1)) == "clear"
    assert outcome(lambda: layers.Attention("dot", name=3)) == "clear"
    assert outcome(lambda: keras.ops.matmul(query, value)) == "raw"
    assert outcome(lambda: query["nonsense"]) == "raw"
    assert outcome(lambda: {}["nonsense"]) == "raw"


def test_classes_are_drawn_evenly():
    names = [mutations.draw(0, n, catalogue.ROWS).row.cls.__name__ for n in range(2000)]
    classes = {row.cls.__name__ for row in catalogue.ROWS}
    assert {*names} == classes
    assert max(map(names.count, classes)) < 4 * min(map(names.count, classes))
    text = str(mutations.draw(0, 0, catalogue.ROWS))
    assert re.match(r"\w+: ", text)
