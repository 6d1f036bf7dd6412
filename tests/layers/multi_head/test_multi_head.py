"""Multi-head attention: Keras' numbers from Keras' weights, and what Keras lacks."""

import inspect

import keras
import numpy as np
import pytest
from calling import few_compiled, needs_training
from gradients import to_numpy
from heads import (
    DK,
    DQ,
    DV,
    B,
    S,
    T,
    assert_equals,
    built,
    close,
    inputs,
    normal,
    reference,
    shaken,
)
from keras import ops

from keras_attention import layers

# Keras' layer.

SETTINGS = {
    "plain": {},
    "value_dim": {"value_dim": 2},
    "no_bias": {"use_bias": False},
    "output_shape": {"output_shape": 6},
    "output_shapes": {"output_shape": (2, 3)},
    "window": {"sliding_window": 2},
    "gate": {"use_gate": True},
    "dropout": {"dropout": 0.5, "seed": 3},
    "all": {"value_dim": 2, "use_gate": True, "sliding_window": 3, "output_shape": 5},
}

THEIRS = set(inspect.signature(keras.layers.MultiHeadAttention.__init__).parameters)


def needs(*names):
    return pytest.mark.skipif(
        not set(names) <= THEIRS, reason="the layer of this Keras has no such argument"
    )


@needs("use_gate", "sliding_window")
def test_signature_is_that_of_keras_and_more():
    ours, theirs = (
        list(inspect.signature(c.__init__).parameters.values())
        for c in (layers.MultiHeadAttention, keras.layers.MultiHeadAttention)
    )
    names = [p.name for p in theirs if p.kind is not p.VAR_KEYWORD]
    assert [p.name for p in ours][: len(names)] == names
    for mine, keras_s in zip(ours, theirs):
        assert (
            mine.kind is mine.VAR_KEYWORD
            or mine.default == keras_s.default
            or (keras_s.kind is keras_s.VAR_KEYWORD)
        )
    ours, theirs = (
        list(inspect.signature(c.call).parameters)
        for c in (layers.MultiHeadAttention, keras.layers.MultiHeadAttention)
    )
    assert ours[: len(theirs)] == theirs


@pytest.mark.backends("all")
@few_compiled(
    "name", [pytest.param(name, marks=needs(*SETTINGS[name])) for name in SETTINGS]
)
def test_the_same_weights_give_the_numbers_of_keras(name):
    q, v, k = inputs()
    theirs = keras.layers.MultiHeadAttention(3, 4, **SETTINGS[name])
    theirs.build(q.shape, v.shape, k.shape)
    shaken(theirs)
    ours = layers.MultiHeadAttention(3, 4, **SETTINGS[name])
    ours.build(q.shape, v.shape, k.shape)
    assert [w.name for w in ours.weights] == [w.name for w in theirs.weights]
    paths = [
        [w.path.split("/", 1)[1] for w in layer.weights] for layer in (ours, theirs)
    ]
    assert paths[0] == paths[1]
    ours.set_weights(theirs.get_weights())
    for call in (
        {},
        {"use_causal_mask": True},
        {"attention_mask": np.tri(T, S, 2, dtype=bool)[None]},
    ):
        expected = theirs(q, v, k, return_attention_scores=True, **call)
        assert_equals(ours, expected, **call)


@pytest.mark.parametrize("axes", [None, (1,), (2,), (-2,), (1, 2), (2, 1)])
def test_any_axes_give_the_numbers_of_keras(axes):
    q, v, k = inputs(rank=4)
    theirs = keras.layers.MultiHeadAttention(2, 4, attention_axes=axes)
    if axes == (1,):  # the queries are then as many as the keys
        q = normal(B, 3, S, DQ)
    # Keras counts a negative axis from the last of the projected queries, with heads.
    theirs.build(q.shape, v.shape, k.shape)
    shaken(theirs)
    ours = layers.MultiHeadAttention.from_keras(theirs)
    expected = theirs(q, v, k, return_attention_scores=True)
    assert_equals(ours, expected, (q, v, k))
    # A mask of pairs, one for each sample or for each of the shared axis.
    full = tuple(expected[1].shape)
    axes = 2 if axes is None else len(axes)
    mask = np.random.default_rng(0).random((B, *full[-2 * axes :])) < 0.7
    mask[..., 0] = True
    call = {"attention_mask": mask}
    expected = theirs(q, v, k, return_attention_scores=True, **call)
    assert_equals(ours, expected, (q, v, k), **call)


@needs("use_gate")
def test_from_keras_takes_grouped_queries():
    q, v, k = inputs()
    theirs = keras.layers.GroupQueryAttention(4, 6, 2, use_gate=True)
    theirs(q, v, k)
    shaken(theirs)
    ours = layers.MultiHeadAttention.from_keras(theirs)
    assert ours.name == theirs.name
    assert_equals(ours, theirs(q, v, k, return_attention_scores=True))
    # One that is not built gives its arguments alone.
    ours = layers.MultiHeadAttention.from_keras(keras.layers.MultiHeadAttention(2, 3))
    assert (ours.num_heads, ours.key_dim, ours.built) == (2, 3, False)


def test_from_keras_refuses_what_would_be_lost():
    class Mine(keras.layers.MultiHeadAttention):
        pass

    with pytest.raises(ValueError, match="subclass, whose changes would be lost"):
        layers.MultiHeadAttention.from_keras(Mine(2, 3))
    with pytest.raises(ValueError, match=r"must be a keras\.layers\.Multi"):
        layers.MultiHeadAttention.from_keras(keras.layers.Dense(2))


@needs_training
def test_from_keras_refuses_weights_in_another_form():
    q, v, k = inputs()
    theirs = keras.layers.MultiHeadAttention(2, 3)
    theirs(q, v, k)
    theirs.query_dense.enable_lora(2)
    with pytest.raises(ValueError, match="before `enable_lora` or `quantize`"):
        layers.MultiHeadAttention.from_keras(theirs)


@pytest.mark.parametrize("more", [{}, {"bias": False}, {"kdim": DK, "vdim": DV}])
def test_from_torch_gives_the_numbers_of_torch(more):
    torch = pytest.importorskip("torch")
    module = torch.nn.MultiheadAttention(6, 3, batch_first=True, **more).eval()
    with torch.no_grad():
        for weight in module.parameters():
            weight.normal_(0, 0.5)
    q, v, k = inputs()
    q, k, v = q[:, :, :6], k[:, :, : module.kdim], v[:, :, : module.vdim]
    mask = np.ones((B, S), bool)
    mask[0, 2] = False
    expected = module(
        *(torch.tensor(x) for x in (q, k, v)),
        key_padding_mask=torch.tensor(~mask),
        average_attn_weights=False,
    )
    expected = [x.detach().numpy() for x in expected]
    layer = layers.MultiHeadAttention.from_torch(module, name="taken")
    assert_equals(layer, expected, (q, v, k), value_mask=mask)


def test_from_torch_keeps_float64():
    torch = pytest.importorskip("torch")
    module = torch.nn.MultiheadAttention(6, 3, dtype=torch.float64)
    layer = layers.MultiHeadAttention.from_torch(module, dtype="float64")
    kernel = layer.get_weights()[-2].reshape(6, 6)
    np.testing.assert_array_equal(kernel, module.out_proj.weight.detach().numpy().T)


def test_from_torch_refuses_keys_of_its_own():
    torch = pytest.importorskip("torch")
    module = torch.nn.MultiheadAttention(6, 3, add_zero_attn=True)
    with pytest.raises(ValueError, match="must not add keys of its own"):
        layers.MultiHeadAttention.from_torch(module)
    with pytest.raises(ValueError, match=r"must be a torch\.nn\.MultiheadAttention"):
        layers.MultiHeadAttention.from_torch(keras.layers.Dense(2))


@pytest.mark.backends("all")
@needs("use_gate")
def test_a_weights_file_of_keras_layer_loads(tmp_path):
    x = normal(B, T, DQ)
    models = []
    for cls in (keras.layers.MultiHeadAttention, layers.MultiHeadAttention):
        given = keras.Input((T, DQ))
        layer = cls(2, 3, use_gate=True, name="attention")
        models.append(keras.Model(given, layer(given, given)))
    models[0].save_weights(tmp_path / "keras.weights.h5")
    models[1].load_weights(tmp_path / "keras.weights.h5")
    close(models[1](x), models[0](x))


# The equations.


@pytest.mark.parametrize(
    ("groups", "normalizer"),
    [(1, "softmax"), (2, "softmax"), (6, "softmax1"), (2, "entmax15")],
)
def test_grouped_heads_equal_the_reference(groups, normalizer):
    layer = built(num_heads=6, num_key_value_heads=groups, normalizer=normalizer)
    mask = np.random.default_rng(0).random((B, T, S)) < 0.6
    mask[0, 1] = False
    expected = reference(layer, *inputs(), mask[:, None], normalizer)
    assert_equals(layer, expected, attention_mask=mask)


def test_rotary_positions_equal_the_reference():
    layer = built(position="rotary", num_key_value_heads=1)
    expected = reference(layer, *inputs(), np.tri(T, S, dtype=bool), rotary=True)
    assert_equals(layer, expected, use_causal_mask=True)


def test_alibi_equals_the_reference():
    layer = built(num_heads=4, position="alibi")
    slopes = 2.0 ** -np.arange(2, 10, 2)
    distance = abs(np.arange(T)[:, None] - np.arange(S))
    bias = -slopes[:, None, None] * distance
    assert_equals(layer, reference(layer, *inputs(), bias=bias))


def test_relative_positions_are_added_per_head():
    layer = built(position=layers.RelativePositionBias(8, 4))
    table = to_numpy(layer.position.embedding.embeddings)
    distance = np.arange(S) - np.arange(T)[:, None]
    # 4 buckets a side: 0 and 1 alone, then 2, then 3 and more.
    bucket = np.minimum(abs(distance), 3) + 4 * (distance > 0)
    bias = np.moveaxis(table[bucket], -1, 0)
    assert_equals(layer, reference(layer, *inputs(), bias=bias))


@pytest.mark.parametrize("shape", [(T, S), (3, T, S), (B, 3, T, S), (B, 1, 1, S)])
@pytest.mark.parametrize("position", [None, "alibi"])
def test_a_bias_is_added_to_the_scores(shape, position):
    layer = built(position=position)
    bias = normal(*shape, seed=5)
    mask = np.ones((B, S), bool)
    mask[0, 2] = mask[1] = False
    own = 0
    if position:
        x = layers.AlibiBias()
        own = to_numpy(x(np.zeros((1, 3, T, S), "float32")))[0]
    expected = reference(layer, *inputs(), mask[:, None, None], bias=bias + own)
    assert_equals(layer, expected, bias=bias, value_mask=mask)


def test_one_query_leaves_its_axis_out():
    q, v, k = inputs()
    layer = built()
    mask, bias = np.ones((B, S), bool), normal(3, S)
    mask[0, 0] = False
    call = {"return_attention_scores": True}
    one = layer(q[:, 0], v, k, attention_mask=mask, bias=bias, **call)
    mask, bias = mask[:, None], bias[:, None]
    many = layer(q[:, :1], v, k, attention_mask=mask, bias=bias, **call)
    close(one[0], many[0][:, 0])
    close(one[1], many[1][:, :, 0])
    symbolic = layer(
        keras.KerasTensor((B, DQ)),
        keras.KerasTensor((B, S, DV)),
        keras.KerasTensor((B, S, DK)),
        **call,
    )
    assert [x.shape for x in symbolic] == [tuple(x.shape) for x in one]


def test_weights_of_unequal_lengths_have_their_shape():
    shapes = (None, None, DQ), (None, S, DV), (None, S, DK)
    layer = layers.MultiHeadAttention(3, 4)
    output, weights = layer(
        *(keras.KerasTensor(s) for s in shapes), return_attention_scores=True
    )
    assert output.shape == (None, None, DQ)
    assert weights.shape == (None, 3, None, S)


# Saving, LoRA, quantization.


def test_the_config_does_not_change_when_built():
    layer = layers.MultiHeadAttention(
        2, 4, attention_axes=-2, position=layers.RotaryEmbedding(50.0)
    )
    before = layer.get_config()
    layer(*inputs())
    assert layer.get_config() == before
    again = layers.MultiHeadAttention.from_config(before)
    assert again.attention_axes == (-2,)
    assert again.position.max_wavelength == 50.0


@pytest.mark.parametrize("position", [None, "rotary", "relative", "alibi"])
def test_saves_and_loads(tmp_path, position):
    given = keras.Input((None, DQ))
    layer = layers.MultiHeadAttention(
        4, 2, num_key_value_heads=2, position=position, normalizer="softmax1"
    )
    model = keras.Model(given, layer(given, given, use_causal_mask=True))
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    x = normal(B, T, DQ)
    close(again(x), model(x), 1e-6)


def attending(**arguments):
    """A model of one layer, and its layer."""
    given = keras.Input((None, 8))
    layer = layers.MultiHeadAttention(
        4, 4, num_key_value_heads=2, use_gate=True, **arguments
    )
    return keras.Model(given, layer(given, given, use_causal_mask=True)), layer


def projections(layer):
    found = [
        dense
        for dense in layer._flatten_layers(include_self=False)
        if isinstance(dense, keras.layers.EinsumDense)
    ]
    assert len(found) == 5
    return found


@needs_training
def test_lora_of_each_projection():
    x = normal(B, T, 8)
    model, layer = attending(query_key_normalization="rms")
    expected = to_numpy(model(x))
    for dense in projections(layer):
        dense.enable_lora(2)
    close(model(x), expected)  # at first it adds nothing
    frozen = [to_numpy(dense._kernel) for dense in projections(layer)]
    model.compile(keras.optimizers.SGD(1.0), "mse")
    model.fit(x, x, verbose=0)
    for dense, kernel in zip(projections(layer), frozen):
        np.testing.assert_array_equal(to_numpy(dense._kernel), kernel)
        assert (to_numpy(dense.lora_kernel_b) != 0).any()
    assert np.isfinite(to_numpy(model(x))).all()


@pytest.mark.filterwarnings("ignore:Layer .* does not have a `quantize`")
@pytest.mark.filterwarnings("ignore:.*`custom_gradient` for the numpy backend")
@pytest.mark.usefixtures("without_collection")
def test_int8_in_a_model(tmp_path):
    x = normal(B, T, 8)
    model, layer = attending(position="rotary")
    expected = to_numpy(model(x))
    model.quantize("int8")
    assert {w.dtype for d in projections(layer) for w in (d._kernel,)} == {"int8"}
    found = to_numpy(model(x))
    assert abs(found - expected).max() < 0.05 * abs(expected).max()
    cache, outputs = layer.initial_cache(B, T), []
    for t in range(T):
        output, cache = layer.step(ops.convert_to_tensor(x[:, t]), cache, t)
        outputs.append(to_numpy(output))
    close(np.stack(outputs, 1), found, 0.02)
    # Keras' own layer cannot be loaded again from here on.
    for name in ("model.keras", "again.keras"):
        model.save(tmp_path / name)
        model = keras.saving.load_model(tmp_path / name)
        close(model(x), found, 1e-6)
    assert layer.dtype_policy.name == "float32"


@pytest.mark.parametrize("cls", [layers.MultiHeadAttention, layers.Hopfield])
def test_a_projection_that_a_user_replaces_is_used(cls):
    class Adapted(keras.layers.Layer):
        def __init__(self, dense):
            super().__init__()
            self.dense = dense

        def call(self, x):
            return self.dense(x) + 1.0

    layer, x = cls(2, 4), np.ones((2, 5, 8), "float32")
    before = keras.ops.convert_to_numpy(layer(x, x))
    layer._tracker.unlock()  # as guides of Keras do
    layer._value_dense = Adapted(layer._value_dense)
    layer._tracker.lock()
    assert np.abs(keras.ops.convert_to_numpy(layer(x, x)) - before).max() > 1e-3
