"""The rule for ids: at least 0 and below the number of ids (docs/notation.md)."""

import catalogue
import keras
import numpy as np
import pytest
from calling import few_compiled
from catalogue import ROWS

from keras_attention import models
from keras_attention.models.base.configured_model import ConfiguredModel

TAKERS = {
    row.cls: row for row in ROWS if row.is_model and getattr(row.cls, "id_sizes", None)
}
RULE = r"`{}` must hold ids of at least 0 and below {},.* Received: ids from "
SMALL = {"num_layers": 1, "dim": 8, "num_heads": 2, "intermediate_dim": 8}
SOURCE = {  # models that generate from ids, of 11 ids
    "seq2seq": lambda: models.Seq2Seq(11, 7, 3, 4),
    "transformer": lambda: models.Transformer(11, 7, **SMALL),
}
PROMPT = {
    "causal_lm": lambda: models.CausalLM(11, **SMALL),
    "word_rnn": lambda: models.WordRNN(11, 4, 4),
}
GENERATE = {**SOURCE, **PROMPT}


@pytest.mark.backends("all")
@pytest.mark.parametrize("wrong", [-1, 11])
@few_compiled("name", GENERATE, 2)
def test_generate_refuses_an_id(name, wrong):
    given = "source" if name in SOURCE else "tokens"
    model, ids = GENERATE[name](), np.array([[4, wrong, 2], [3, 9, 5]])
    message = RULE.format(given, 11)
    for inputs in (ids, {given: ids}, keras.ops.convert_to_tensor(ids)):
        with pytest.raises(ValueError, match=message):
            model.generate(inputs, max_length=3)


@pytest.mark.parametrize("wrong", [-1, 11])
@pytest.mark.parametrize("name", [*GENERATE, "image_captioner"])
def test_generate_refuses_a_stop_token_and_a_start_token(name, wrong):
    if name == "image_captioner":
        model = models.ImageCaptioner((8, 8, 1), 11, 4, 4, filters=(4,))
        inputs = np.zeros((1, 8, 8, 1), "float32")
    else:
        model, inputs = GENERATE[name](), np.array([[4, 2]])
    ask = {"stop_token_ids": [3, wrong]}, {"start_token_id": wrong}
    for more in ask[: 1 if name in PROMPT else 2]:
        with pytest.raises(ValueError, match=rf"`{next(iter(more))}` must be of the"):
            model.generate(inputs, max_length=3, **more)


def test_every_model_with_ids_has_the_rule():
    """An input of integers is an input of ids, but for places and facts.

    A `PackedModel` asks the model that it holds.
    """
    others = {"keys", "mask_positions", "supporting_facts"}
    for row in ROWS:
        if row.cls is models.PackedModel:
            continue
        if row.is_model and issubclass(row.cls, ConfiguredModel):
            inputs = row.inputs(np.random.default_rng(0))
            ids = {name for name, x in inputs.items() if x.dtype.kind in "iu"}
            assert ids - others <= {*row.cls.id_sizes}, row.name


@pytest.mark.parametrize("cls", TAKERS, ids=lambda cls: cls.__name__)
def test_calls_refuse_an_id(cls):
    row = TAKERS[cls]
    if cls is models.DNCNetwork:
        row = next(r for r in ROWS if r.cls is cls and "vocabulary_size" in r.arguments)
    inputs, model = row.inputs(np.random.default_rng(0)), row.make()
    model(inputs)
    for name, size in cls.id_sizes.items():
        if name not in inputs:
            continue
        for wrong in (-1, getattr(model, size)):
            ids = inputs[name].copy()
            ids.flat[0] = wrong
            message = RULE.format(name, getattr(model, size)) + f".*{wrong}"
            for call in (
                model,
                model.predict,
                model.fit,
                model.evaluate,
                model.train_on_batch,
                model.test_on_batch,
                model.predict_on_batch,
            ):
                with pytest.raises(ValueError, match=message):
                    call({**inputs, name: ids})
            with pytest.raises(ValueError, match=message):
                model.predict(x={**inputs, name: ids})


@pytest.mark.parametrize("name", GENERATE)
@pytest.mark.filterwarnings("ignore:The structure of `inputs`")  # a list for a dict
def test_arrays_without_names(name):
    """An array or a list of arrays, in the order of the names."""
    model, ids = GENERATE[name](), np.array([[4, -1, 2]])
    if name in SOURCE:
        ids = [ids, np.array([[1, 2]])]
    rule = RULE.format("source" if name in SOURCE else "tokens", 11)
    for call in (model, model.predict, model.fit, model.predict_on_batch):
        with pytest.raises(ValueError, match=rule):
            call(ids)


@pytest.mark.parametrize(("place", "size"), [(0, 7), (1, 3)])
def test_keys_of_facts(place, size):
    """An entity is one of the memory's values, or one of two others."""
    model = models.KeyValueMemNN(20, relations=3, embedding_dim=4, memory_size=5)
    inputs = {
        "question": np.array([[4, 5, 2]]),
        "keys": np.zeros((1, 5, 2), int),
        "values": np.array([[2, 6, 0, 0, 0]]),
    }
    model(inputs)
    for wrong in (-1, size):
        inputs["keys"][0, 1, place] = wrong
        with pytest.raises(ValueError, match=RULE.format("keys", size)):
            model(inputs)


def test_facts_and_questions_of_a_large_memory():
    model = models.MemNN(catalogue.WORDS, 4)
    facts = np.array([[1, 2, 3], [4, 5, 0]])
    with pytest.raises(ValueError, match=RULE.format("facts", catalogue.WORDS)):
        model.remember(facts + catalogue.WORDS)
    with pytest.raises(ValueError, match=r"`facts` must be integers .* of at least 0"):
        model.remember(facts - 1)
    memory = model.remember(facts)
    for wrong in (-1, catalogue.WORDS):
        with pytest.raises(ValueError, match=RULE.format("questions", catalogue.WORDS)):
            memory.answer(np.array([[1, wrong]]))


def test_steps_of_a_trace():
    row = next(
        r
        for r in ROWS
        if r.cls is models.DNCNetwork and "vocabulary_size" in r.arguments
    )
    model, inputs = row.make(), row.inputs(np.random.default_rng(0))
    inputs["inputs"][0, 0] = -1
    with pytest.raises(ValueError, match=RULE.format("inputs", model.vocabulary_size)):
        model.trace(inputs)


@pytest.mark.parametrize("method", ["predict", "predict_on_batch", "__call__"])
def test_another_rank_is_refused(method):
    model = models.MemN2N(11, memory_size=4)
    inputs = {"story": np.ones((2, 4, 3), int), "question": np.ones((2,), int)}
    message = r"`question` must have the shape \(None, None\).*question.shape=\(2,\)"
    with pytest.raises(ValueError, match=message):
        getattr(model, method)(inputs)
