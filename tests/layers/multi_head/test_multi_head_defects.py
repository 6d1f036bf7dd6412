"""What is wrong with Keras' attention layers, and right with ours: a test each.

Each runs on Keras' layer, where it has to show the defect, and on the layer of ours
that takes its place. Only releases in which a defect was seen are held to it.
"""

import keras
import numpy as np
import pytest
from calling import few_compiled, needs_training
from gradients import gradient, to_numpy
from heads import DQ, DV, B, S, T, close, normal
from keras import ops

from keras_attention import layers, models

pytestmark = pytest.mark.backends("all")

OURS = layers.MultiHeadAttention
KERAS = keras.layers.MultiHeadAttention
SEEN = keras.__version__.startswith("3.15.")


def both(keras_s, ours):
    """Runs a test on either, with whether it is ours."""
    mark = pytest.mark.skipif(not SEEN, reason="seen in Keras 3.15")
    of_keras = pytest.param(keras_s, False, marks=mark, id="keras")
    return pytest.mark.parametrize(
        ("cls", "right"), [of_keras, pytest.param(ours, True, id="ours")]
    )


multi_head = both(KERAS, OURS)
TOKENS = np.array([[1, 2, 0, 0], [3, 4, 5, 0]])


def embedded():
    return keras.layers.Embedding(10, DQ, mask_zero=True)(TOKENS)


def inputs():
    return normal(B, T, DQ), normal(B, S, DV, seed=1)


# 1. A call takes the masks off its inputs.


@pytest.mark.slow_on("jax", "tensorflow")
@multi_head
def test_layers_that_share_a_memory_see_its_mask(cls, right):
    query, memory = normal(B, T, DQ), embedded()
    for place in range(3):
        weights = to_numpy(cls(2, 3)(query, memory, return_attention_scores=True)[1])
        hidden = max(weights[0, ..., 2:].max(), weights[1, ..., 3:].max())
        assert (hidden == 0) == (right or place == 0)
        close(weights.sum(-1), np.ones((B, 2, T)))


@pytest.mark.slow_on("jax", "tensorflow")
@multi_head
def test_a_residual_around_self_attention_keeps_its_mask(cls, right):
    x = embedded()
    y = keras.layers.Add()([x, cls(2, 3)(x, x)])
    pooled = to_numpy(keras.layers.GlobalAveragePooling1D()(y))
    padded = to_numpy(y)[0]
    close(pooled[0], padded[:2].mean(0) if right else padded.mean(0))
    assert not np.allclose(padded[:2].mean(0), padded.mean(0), atol=1e-3)


# 2. An explicit mask of the queries is not used.


@pytest.mark.slow_on("jax", "tensorflow")
@multi_head
def test_an_explicit_mask_of_the_queries_counts(cls, right):
    seen = np.array([[True, False, True], [True, True, False]])
    layer = cls(2, 3, use_bias=False)
    plain = to_numpy(layer(*inputs()))
    masked = to_numpy(layer(*inputs(), query_mask=seen))
    close(masked, np.where(seen[..., None], plain, 0) if right else plain)


# 3. A query that may attend to nothing gets something, and not from every path.


@multi_head
def test_nothing_to_attend_to_is_nothing_on_every_path(cls, right):
    layer = cls(2, 3, use_bias=False)
    mask = np.array([[False] * S, [True] * S])
    fused = to_numpy(layer(*inputs(), value_mask=mask))
    plain, weights = layer(*inputs(), value_mask=mask, return_attention_scores=True)
    assert (to_numpy(weights)[0] == 0).all()
    assert (to_numpy(plain)[0] == 0).all()
    assert (fused[0] == 0).all() == right


@both(keras.layers.Attention, layers.Attention)
@few_compiled("dtype", ["float32", "bfloat16", "float16"])
def test_nothing_to_attend_to_has_no_weight(cls, right, dtype):
    query, value = (normal(B, n, DQ, seed=n).astype("float32") for n in (T, S))
    mask, layer = np.array([[False] * S, [True] * S]), cls(dtype=dtype)
    query, value = (ops.cast(x, dtype) for x in (query, value))
    call = {"return_attention_scores": True}
    if right:
        found = layer(query, value, value_mask=mask, **call)
    else:
        mask = ops.convert_to_tensor(mask)
        found = layer([query, value], mask=[None, mask], **call)
    output, weights = (to_numpy(ops.cast(x, "float32")) for x in found)
    assert (weights[0] == 0).all() == right
    assert (output[0] == 0).all() == right


# 4. The symbolic shape of the weights is that of self-attention.


@multi_head
def test_the_weights_have_the_shape_they_say(cls, right):
    query, value = inputs()
    symbolic = (keras.KerasTensor(x.shape) for x in (query, value))
    said = cls(2, 3)(*symbolic, return_attention_scores=True)[1].shape
    found = cls(2, 3)(query, value, return_attention_scores=True)[1].shape
    assert tuple(found) == (B, 2, T, S)
    assert (tuple(said) == tuple(found)) == right


# 5. Arguments are missing from the config, or change in it.


@pytest.mark.slow_on("jax", "tensorflow")
@multi_head
def test_the_config_holds_what_was_given(cls, right):
    layer = cls(2, 3, flash_attention=False, attention_axes=-2)
    config = layer.get_config()
    assert (config.get("flash_attention", "missing") is False) == right
    again = cls.from_config(config)
    layer(*(normal(B, 2, T, DQ),) * 2)
    assert (layer.get_config() == config) == right
    assert again.get_config()["attention_axes"] == (-2,)


# 6. Dropout turns the fused path off, even where nothing is dropped.


@multi_head
def test_dropout_leaves_the_fused_path_at_prediction(cls, right, monkeypatch):
    calls = []
    if right:
        where, name = "keras_attention.kernels", "dot_product_attention"
    else:
        where, name = "keras.src.ops", "dot_product_attention"
    module = __import__(where, fromlist=[name])
    fused = getattr(module, name)

    def counted(*given, **more):
        calls.append(more)
        return fused(*given, **more)

    monkeypatch.setattr(module, name, counted)
    cls(2, 3)(*inputs())
    assert len(calls) == 1
    cls(2, 3, dropout=0.1)(*inputs())
    assert (len(calls) == 2) == right


@multi_head
def test_flash_attention_beside_dropout_or_weights(cls, right):
    def use():
        cls(2, 3, dropout=0.1, flash_attention=True)(*inputs())
        layer = cls(2, 3, flash_attention=True)
        layer(*inputs(), return_attention_scores=True)

    if right:
        use()
    else:
        with pytest.raises(ValueError, match="not supported when flash attention"):
            use()


# 7. A causal mask was dropped without a word; mended in Keras 3.15.


@pytest.mark.slow_on("jax", "tensorflow")
@needs_training
@multi_head
@pytest.mark.parametrize("explicit", [False, True])
def test_a_causal_mask_holds_beside_others(cls, right, explicit):
    layer = cls(2, 3)
    query, value = inputs()
    layer(query, value)
    masks = {
        "none": {},
        "padding": {"value_mask": np.array([[True] * S, [True, False] + [True] * 3])},
        "pairs": {"attention_mask": np.ones((B, T, S), bool)},
    }

    def seen(value):
        found = []
        for call in masks.values():
            call = {**call, "use_causal_mask": True}
            output = layer(query, value, return_attention_scores=explicit, **call)
            found.append((output[0] if explicit else output)[:, 1])
        return ops.sum(ops.stack(found))

    (found,) = gradient(seen, value)
    assert (found[:, 2:] == 0).all()
    assert (found[0, :2] != 0).any()


# 8. AdditiveAttention is not Bahdanau's: no projections, and one width for all.


@both(keras.layers.AdditiveAttention, layers.BahdanauAttention)
def test_additive_attention_projects_queries_and_keys(cls, right):
    query, value = inputs()
    if right:
        layer = cls(7)
        output = layer(query, value)
        assert tuple(output.shape) == (B, T, DV)
        kernels = [tuple(w.shape) for w in layer.weights if len(w.shape) == 2]
        assert (DQ, 7) in kernels
        assert (DV, 7) in kernels
        return
    layer = cls()
    # What the backend says of sums that do not fit; our layers name the argument.
    with pytest.raises(Exception, match=r"(?i)size|shape|broadcast") as raised:
        layer([query, value])
    assert "`" not in str(raised.value).split("Arguments received")[0]
    layer([query, value[..., :DQ]])
    assert [tuple(w.shape) for w in layer.weights] == [(DQ,)]


# 9. No recurrent layer of Keras has a memory to attend to.


@pytest.mark.slow_on("jax", "tensorflow")
@both(keras.layers.LSTM, layers.AttentionRNN)
def test_a_recurrent_layer_attends_to_a_memory(cls, right):
    query, memory = inputs()
    if not right:
        with pytest.raises(TypeError, match="constants"):
            cls(3)(query, constants=[memory])
        return
    layer = cls(keras.layers.LSTMCell(3), layers.BahdanauAttention(4))
    one, other = (to_numpy(layer(query, m)) for m in (memory, 2 * memory))
    assert not np.allclose(one, other)


# 10. Recurrent layers are to hand no mask on: masks are handed over explicitly.


@pytest.mark.slow_on("jax", "tensorflow")
@pytest.mark.filterwarnings("ignore:.*destroy the mask")
def test_padding_counts_for_nothing_when_recurrent_layers_drop_masks(monkeypatch):
    init = keras.layers.RNN.__init__

    def without_masks(self, *given, **more):
        init(self, *given, **more)
        self.supports_masking = False  # as Keras' issue 23235 will have it

    monkeypatch.setattr(keras.layers.RNN, "__init__", without_masks)
    states = keras.layers.LSTM(3, return_sequences=True)(embedded())
    weights = keras.layers.Attention()([states, states], return_attention_scores=True)
    assert (to_numpy(weights[1])[0, 0, 2:] != 0).all()  # the mask is gone
    model = models.Seq2Seq(10, 11, embedding_dim=3, units=4, bidirectional=False)
    source, target = np.array([[1, 2, 3], [4, 5, 0]]), np.array([[1, 6], [1, 7]])
    padded = np.pad(source, ((0, 0), (0, 2)))
    found = [to_numpy(model({"source": x, "target": target})) for x in (source, padded)]
    close(*found)
    value_mask = TOKENS != 0
    found = layers.Attention()(
        states, states, value_mask=value_mask, return_attention_scores=True
    )
    assert (to_numpy(found[1])[0, :, 2:] == 0).all()
