"""`PackedModel`: texts that share a row are as they are apart, and do not leak."""

import keras
import numpy as np
import pytest
from calling import few_compiled, needs_training
from compositions import ATTENTIONS
from gradients import gradient, to_numpy
from keras import ops

from keras_attention import layers, models
from keras_attention.models import PackedModel
from keras_attention.text import pack

V, C = 19, 5
SIZES = {"num_layers": 2, "dim": 8, "num_heads": 2, "intermediate_dim": 12}
LENGTHS = (5, 3, 7, 2, 6, 4, 1)
CLASSES = {
    "causal": (models.CausalLM, (V,)),
    "masked": (models.MaskedLM, (V,)),
    "classifier": (models.TransformerClassifier, (V, C)),
}
POSITIONS = ("learned", "sinusoidal", "rotary", "alibi", "relative", None)


def sharper(model):
    """Larger weights: attention is then far from a mean."""
    for n, weight in enumerate(model.weights):
        noise = np.random.default_rng(n).normal(size=weight.shape)
        weight.assign(to_numpy(weight.value) + 0.5 * noise)
    return model


def make(kind, **more):
    keras.utils.set_random_seed(0)
    cls, sizes = CLASSES[kind]
    return sharper(cls(*sizes, **{**SIZES, "dropout": 0.0, **more}))


def texts(lengths=LENGTHS, words=V):
    rng = np.random.default_rng(0)
    return [rng.integers(1, words, length).astype("int32") for length in lengths]


def packed(kind, model, given, length):
    """A packed model with its rows, and its inputs."""
    max_segments = 4 if kind == "classifier" else None
    rows = pack(given, length, max_segments=max_segments)
    inputs = dict(rows.inputs)
    if kind == "masked":
        steps = np.arange(length, dtype="int32")
        inputs["mask_positions"] = np.tile(steps, (len(inputs["tokens"]), 1))
    return PackedModel(model, max_segments), rows, inputs


def together(kind, model, given, length):
    """What a packed model returns for each text."""
    reader, rows, inputs = packed(kind, model, given, length)
    found = to_numpy(reader.predict(inputs, verbose=0))
    if kind == "classifier":
        return [*found[rows.rows, rows.segments - 1]]
    ids = inputs["segment_ids"]
    return [found[r][ids[r] == s] for r, s in zip(rows.rows, rows.segments)]


def apart(kind, model, given):
    """What the model returns for each text alone; padded, so there is one shape."""
    tokens = keras.utils.pad_sequences(given, padding="post", value=0)
    inputs = {"tokens": tokens}
    if kind == "masked":
        steps = np.arange(tokens.shape[1], dtype="int32")
        inputs["mask_positions"] = np.tile(steps, (len(tokens), 1))
    found = to_numpy(model.predict(inputs, verbose=0))
    if kind == "classifier":
        return [*found]
    return [row[: len(text)] for row, text in zip(found, given)]


def assert_as_apart(kind, model, given, length):
    for n, (found, expected) in enumerate(
        zip(together(kind, model, given, length), apart(kind, model, given))
    ):
        scale = 1 + np.abs(expected).max()  # a leak is above 1e-2 of it
        np.testing.assert_allclose(
            found, expected, rtol=0, atol=1e-5 * scale, err_msg=f"text {n}"
        )


@pytest.mark.parametrize(
    ("kind", "position"),
    [
        ("causal", "learned"),
        ("masked", "rotary"),
        ("classifier", "sinusoidal"),
        ("classifier", "learned"),
        ("masked", "alibi"),
        ("causal", "relative"),
        ("causal", None),
        ("causal", layers.PositionEmbedding(7)),
    ],
)
def test_texts_are_as_apart(kind, position):
    norm_first = {"norm_first": position in ("learned", "alibi")}
    more = {} if kind == "causal" else {"block": norm_first}
    model = make(kind, position=position, max_length=7, **more)
    assert_as_apart(kind, model, texts(), 11)


T = 512


@pytest.mark.backends("all")
@few_compiled("kind", CLASSES)
def test_nothing_leaks_from_text_to_text(kind):
    """The gradient at the embeddings of all other texts is exactly 0."""
    lengths = (200, 150, 100, 52)
    tokens = np.split(np.random.default_rng(0).permutation(T) + 1, np.cumsum(lengths))
    given = [text.astype("int32") for text in tokens[:-1]]  # no token twice
    untied = {} if kind == "classifier" else {"tie_embeddings": False}
    cls, sizes = CLASSES[kind]
    model = sharper(cls(T + 3, *sizes[1:], **SIZES, **untied))
    assert_as_apart(kind, model, given, T)
    reader, rows, inputs = packed(kind, model, given, T)
    assert rows.rows.tolist() == [0] * 4
    inputs = {name: ops.convert_to_tensor(x) for name, x in inputs.items()}
    table = model.get_layer("token_embedding").embeddings
    others = [v.value for v in reader.non_trainable_variables]
    second = rows.segments[1]
    if kind == "classifier":
        is_second = np.arange(1, 5) == second
    else:
        is_second = rows.inputs["segment_ids"][0] == second

    def loss(values):
        weights = [values if v is table else v.value for v in reader.trainable_weights]
        logits, _ = reader.stateless_call(weights, others, inputs)
        chosen = ops.convert_to_tensor(is_second.astype("float32"))[None, :, None]
        return ops.sum(ops.square(logits) * chosen)

    (slope,) = gradient(loss, to_numpy(table.value))
    assert np.isfinite(slope).all()
    reached = np.flatnonzero(np.abs(slope).max(axis=1))
    np.testing.assert_array_equal(reached, np.sort(given[1]))


SEPARATES = {*ATTENTIONS} - {
    "location",  # a score of the position of a key in the row
    "local-m",  # counts the queries of the row
    "monotonic",  # goes on from the last query
    "keras_additive",  # takes no mask for each query
    "fast_weights",  # one memory for all inputs
}


@pytest.mark.parametrize("name", ATTENTIONS)
def test_any_attention_separates_texts_or_is_refused(name):
    model = make("masked", attention=ATTENTIONS[name](), num_heads=None, num_layers=1)
    if name in SEPARATES:
        assert_as_apart("masked", model, texts(), 11)
        return
    with pytest.raises(ValueError, match="an attention that a mask restricts to one t"):
        PackedModel(model)


def test_windows_and_groups_separate_texts():
    attention = {"sliding_window": 3, "num_key_value_heads": 1, "position": "rotary"}
    model = make("causal", position=None, block={"attention": attention})
    assert_as_apart("causal", model, texts(), 11)


def test_a_row_of_padding_and_a_text_that_is_not_there():
    model = make("classifier")
    ids = np.array([[1, 1, 3], [0, 0, 0]], "int32")
    inputs = {"tokens": np.array([[5, 6, 7], [0, 0, 0]], "int32"), "segment_ids": ids}
    found = to_numpy(PackedModel(model, 4)(inputs))
    assert found.shape == (2, 4, C)
    nothing = to_numpy(model({"tokens": np.zeros((1, 2), "int32")}))[0]
    empty = np.array([[False, True, False, True], [True] * 4])
    np.testing.assert_allclose(found[empty], np.tile(nothing, (6, 1)), atol=1e-6)
    assert np.abs(found[~empty] - nothing).max(axis=-1).min() > 1e-3


@needs_training
def test_the_model_learns_from_rows(tmp_path):
    model, given = make("causal"), texts()
    rows = pack(given, 11)
    reader = PackedModel(model)
    loss = keras.losses.SparseCategoricalCrossentropy(
        from_logits=True, reduction="mean_with_sample_weight"
    )
    reader.compile(keras.optimizers.Adam(0.1), loss)
    before = apart("causal", model, given)
    weights = {"sample_weight": rows.sample_weight}
    expected = np.mean(
        [
            keras.ops.convert_to_numpy(loss(text[1:], ops.convert_to_tensor(x[:-1])))
            for text, x in zip(given, before)
            for _ in text[1:]  # each token counts alike
        ]
    )
    history = reader.fit(rows.inputs, rows.labels, verbose=0, **weights).history
    np.testing.assert_allclose(history["loss"], expected, rtol=1e-4)
    assert np.abs(apart("causal", model, given)[0] - before[0]).max() > 0.1
    assert_as_apart("causal", model, given, 11)
    reader.save(tmp_path / "reader.keras")
    again = keras.saving.load_model(tmp_path / "reader.keras")
    assert type(again.model) is models.CausalLM
    for x, y in zip(*(apart("causal", m, given) for m in (model, again.model))):
        np.testing.assert_array_equal(x, y)


@pytest.mark.parametrize(
    ("kind", "ids", "message"),
    [
        ("causal", [[1, 2, 1, 0]], r"must not decrease in a row.*\[\[1 2 1 0\]\]"),
        ("causal", np.array([[2, 1, 2, 0]], "uint8"), "must not decrease in a row"),
        ("causal", [[0, 1, 1, 2]], "must not decrease in a row, except to 0 at its e"),
        ("causal", [[-1, 1, 1, 0]], "`segment_ids` must hold ids of at least 0"),
        ("classifier", [[1, 2, 3, 0]], "below 3, in whole numbers. .*from 0 to 3"),
        (
            "causal",
            [[1, 1, 1, 1]],
            r"longer than the positions .* 3. .*\[\[1 1 1 1\]\]",
        ),
        (
            "causal",
            [[1, 1, 1]],
            r"the shape of `tokens`. Received: shapes \(1, 3\) and \(1, 4\)",
        ),
    ],
)
def test_bad_segments_are_refused(kind, ids, message):
    model = make(kind, position="learned", max_length=3)
    reader = PackedModel(model, 2 if kind == "classifier" else None)
    inputs = {"tokens": np.array([[5, 6, 7, 8]]), "segment_ids": np.array(ids)}
    with pytest.raises(ValueError, match=message):
        reader(inputs)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((models.WordRNN(9, 3),), "`model` must be a CausalLM, a MaskedLM or a Transf"),
        (("causal", 3), "and for no other. Received: max_segments=3, a CausalLM"),
        (("classifier",), "`max_segments` must be given .*=None, a TransformerClassif"),
        (("classifier", 0), "`max_segments` must be at least 1"),
        (("causal", None, "float16"), "`dtype` must be None or that of `model`"),
    ],
)
def test_bad_arguments_are_refused(arguments, message):
    model, *others = arguments
    model = make(model) if isinstance(model, str) else model
    with pytest.raises(ValueError, match=message):
        PackedModel(model, *others)
