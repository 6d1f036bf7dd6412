"""Clear errors for bad calls, by one rule for all layers and models."""

import keras
import numpy as np
import pytest
from calling import few_compiled

from keras_attention import layers, models

FLOATS = np.ones((2, 3, 6), "float32")
IDS = np.ones((2, 3), "int32")


def built(layer, *inputs):
    layer(*inputs)
    return layer


def multi_head():
    return built(layers.MultiHeadAttention(2, 3), FLOATS, FLOATS)


def concat():
    return built(layers.ConcatScore(4), FLOATS, FLOATS)


def block():
    return built(layers.TransformerEncoderBlock(2, 8), FLOATS)


def skip_gram():
    return models.SkipGram(vocabulary_size=5, dim=3)


def encoder():
    return built(layers.SentenceEncoder(5, 3), IDS)


CASES = {
    "none": (multi_head, (None, FLOATS), "`query` must be a tensor.*query=None"),
    "list": (concat, (FLOATS.tolist(), FLOATS), "`query` must be a tensor"),
    "dict": (block, ({"inputs": FLOATS},), "`inputs` must be a tensor"),
    "strings": (encoder, (np.full((2, 3), "a"),), "`inputs` must hold numbers"),
    "width": (multi_head, (FLOATS[..., :5], FLOATS), "`query` must have width 6"),
    "width_of_a_block": (block, (FLOATS[..., :1],), "`inputs` must have width 6"),
    "other_width": (concat, (FLOATS, FLOATS[..., :5]), "`key` must have width 6"),
    "rank": (concat, (FLOATS[0], FLOATS), "`query` must have rank 3"),
    "batch": (concat, (FLOATS[:1], FLOATS), "same batch size.*query.shape=.1, 3, 6"),
    "complex": (block, (FLOATS + 1j,), "`inputs` must hold real numbers"),
    "complex_memory": (multi_head, (FLOATS, FLOATS + 1j), "`value` must hold real"),
    "id": (encoder, (5 * IDS,), "`inputs` must hold ids of at least 0 and below 5"),
    "negative_id": (encoder, (-IDS,), "Received: ids from -1 to -1"),
    "fraction": (
        encoder,
        (IDS + np.float32(0.5),),
        "`inputs` .* in whole numbers",
    ),
}


@pytest.mark.parametrize(("make", "inputs", "rule"), CASES.values(), ids=[*CASES])
def test_a_bad_call_names_the_argument_and_the_rule(make, inputs, rule):
    layer = make()
    with pytest.raises(ValueError, match=f"(?s){rule}"):
        layer(*inputs)


MODEL_CASES = {
    "id": ({"center": 5 * IDS[:, 0], "context": IDS}, "`center` must .* below 5"),
    "negative": ({"center": IDS[:, 0], "context": -IDS}, "`context` must .* below 5"),
    "batch": ({"center": IDS[:1, 0], "context": IDS}, "`center`.*same batch size"),
}


@pytest.mark.parametrize(("inputs", "rule"), MODEL_CASES.values(), ids=[*MODEL_CASES])
def test_a_model_names_the_input_and_the_rule(inputs, rule):
    model = skip_gram()
    with pytest.raises(ValueError, match=f"(?s){rule}"):
        model(inputs)


def test_keys_of_facts_are_pairs():
    """JAX would read the entity twice, as the relation too."""
    model = models.KeyValueMemNN(20, relations=3, embedding_dim=4, memory_size=5)
    facts = {"keys": np.zeros((1, 5, 1), int), "values": np.zeros((1, 5), int)}
    with pytest.raises(ValueError, match=r"`keys` must hold pairs .*\(1, 5, 1\)"):
        model({"question": np.array([[4, 5, 2]]), **facts})


@pytest.mark.parametrize("causal", [False, True])
def test_nan_in_a_short_query_shows(causal):
    """Torch's fused kernel for CPUs gives 0 for such a query below 16 keys."""
    query = np.random.default_rng(0).normal(size=(2, 5, 8)).astype("float32")
    query[0, 1, 2] = np.nan
    layer = layers.MultiHeadAttention(2, 4)
    found = layer(query, np.nan_to_num(query), use_causal_mask=causal)
    rows = np.isnan(keras.ops.convert_to_numpy(found)).all(-1)
    wanted = np.zeros((2, 5), bool)
    wanted[0, 1] = True
    np.testing.assert_array_equal(rows, wanted)


@pytest.mark.parametrize("make", [multi_head, concat, block])
def test_integers_are_cast_to_floats(make):
    layer = make()
    whole = np.arange(36).reshape(2, 3, 6)
    count = 1 if make is block else 2
    found = keras.ops.convert_to_numpy(layer(*[whole] * count))
    wanted = keras.ops.convert_to_numpy(layer(*[whole.astype("float32")] * count))
    np.testing.assert_array_equal(found, wanted)


def test_errors_of_other_causes_pass_unchanged():
    class Broken(layers.TransformerEncoderBlock):
        def call(self, inputs, **options):
            raise RuntimeError("something else")

    with pytest.raises(RuntimeError, match="something else"):
        Broken(2, 8)(FLOATS)


@pytest.mark.backends("jax", "tensorflow", "torch")  # Keras has no masks on NumPy
@few_compiled("make", [lambda: layers.MultiHeadAttention(1, 4), layers.Attention])
def test_integers_keep_their_mask(make, tmp_path):
    array = np.array([[[1, 2, 3], [2, 1, 1], [0, 0, 0]]], "int32")
    layer, x = make(), keras.Input((None, 3), dtype="int32")

    def weights(x):
        x = keras.layers.Masking(0)(x)
        return layer(x, x, return_attention_scores=True)[1]

    model = keras.Model(x, weights(x))
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    for found in (weights(array), model(array), again(array)):
        found = keras.ops.convert_to_numpy(found)
        assert (found[..., 2] == 0).all()
        np.testing.assert_allclose(found[..., :2, :].sum(-1), 1, 1e-6)


def test_an_error_of_a_hook_is_not_blamed_on_a_shared_bias():
    class Broken(layers.MultiHeadAttention):
        def _masked_softmax(self, attention_scores, attention_mask=None):
            raise ValueError("an error of the hook")

    with pytest.raises(ValueError, match="an error of the hook"):
        Broken(2, 3)(FLOATS, FLOATS, bias=np.zeros((1, 2, 3, 3), "float32"))


def test_a_subclass_sets_the_initializer():
    class Own(layers.MultiHeadAttention):
        def __init__(self, *arguments):
            super().__init__(*arguments)
            self.kernel_initializer = keras.initializers.get("zeros")

    assert not keras.ops.convert_to_numpy(Own(2, 3)(FLOATS, FLOATS)).any()


def test_a_hook_of_a_mixin_is_refused():
    class Mixin:
        num_heads = 99

    with pytest.raises(TypeError, match="must not override `num_heads`"):
        type("Own", (Mixin, layers.MultiHeadAttention), {})
