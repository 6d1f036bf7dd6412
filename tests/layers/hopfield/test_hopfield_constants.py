"""Pooling by trainable states and lookup in trainable patterns."""

import keras
import numpy as np
import pytest
from calling import needs_training
from gradients import to_numpy
from heads import close, normal, shaken
from keras import ops

from keras_attention import kernels, layers, record_attention

B, T, S, D = 2, 3, 5, 12
ARGUMENTS = {"num_heads": 3, "update_steps": 3, "beta": [0.3, 1.0, 2.0]}


def made(cls, shape=(B, S, D), **arguments):
    layer = cls(**{**ARGUMENTS, **arguments})
    layer.build(shape)
    return shaken(layer)


def tiled(variable):
    """A weight as each sample of a batch would have it."""
    return np.repeat(to_numpy(variable)[None].astype("float32"), B, 0)


def test_pooling_is_an_association_with_states_of_its_own():
    x, mask = normal(B, S, D), np.array([[1, 0, 1, 1, 1], [1, 1, 1, 0, 0]], bool)
    given = {"projections": {"output_shape": [7]}}
    layer = made(layers.HopfieldPooling, num_patterns=T, **given)
    found = layer(x, mask=mask, return_attention_scores=True)
    expected = layer.hopfield(
        tiled(layer.queries), x, value_mask=mask, return_attention_scores=True
    )
    for a, b in zip(found, expected):
        close(a, b)
    assert tuple(found[0].shape) == (B, T, 7)
    assert (to_numpy(found[1])[0, :, :, 1] == 0).all()
    close(layer(x, mask=mask), expected[0])


def test_pooling_does_not_depend_on_padding_or_order():
    x, mask = normal(B, S, D), np.array([[1, 0, 1, 1, 1], [1, 1, 1, 0, 0]], bool)
    layer = made(layers.HopfieldPooling, num_patterns=T)
    order = [3, 1, 4, 0, 2]
    close(layer(x[:, order], mask=mask[:, order]), layer(x, mask=mask))


def test_a_bag_of_nothing_is_the_last_bias():
    layer = made(layers.HopfieldPooling, num_patterns=T)
    output = layer(normal(B, S, D), mask=np.arange(B * S).reshape(B, S) >= S)
    bias = to_numpy(layer.hopfield.output_dense.bias)
    close(output[0], np.broadcast_to(bias, (T, D)))


@pytest.mark.parametrize("separate", [False, True])
def test_lookup_is_an_association_with_patterns_of_its_own(separate):
    x, mask = normal(B, T, D), np.array([[1, 0, 1], [1, 1, 1]], bool)
    given = {"num_patterns": S, "separate_values": separate}
    layer = made(layers.HopfieldLayer, (B, T, D), **given)
    assert (layer.values is layer.patterns) != separate
    found = layer(x, mask=mask, return_attention_scores=True)
    expected = layer.hopfield(
        x,
        tiled(layer.values),
        tiled(layer.patterns),
        query_mask=mask,
        return_attention_scores=True,
    )
    for a, b in zip(found, expected):
        close(a, b)
    close(layer(x, mask=mask), expected[0])
    one = layer(x[:, 0], return_attention_scores=True)
    close(one[0], expected[0][:, 0])
    close(one[1], expected[1][:, :, 0])


def test_lookup_in_patterns_that_are_given():
    """A memory of examples, with nothing learned: each finds itself."""
    layer = layers.HopfieldLayer(S, beta=50.0, projections=False)
    layer.build((None, D))
    layer.trainable = False
    stored = normal(S, D)
    layer.patterns.assign(stored)
    close(layer(stored), stored, 1e-4)
    assert not layer.trainable_weights


@needs_training
def test_patterns_alone_are_frozen():
    keras.utils.set_random_seed(0)
    lookup = layers.HopfieldLayer(S, num_heads=3, separate_values=True)
    model = keras.Sequential([keras.Input((D,)), lookup])
    stored = normal(S, D)
    lookup.patterns.assign(stored)
    lookup.patterns.trainable = False
    model.compile(keras.optimizers.Adam(0.01), "mse")
    before = [to_numpy(w) for w in lookup.trainable_weights]
    assert len(before) == len(lookup.weights) - 1
    model.fit(normal(8, D, seed=1), normal(8, D, seed=2), epochs=1, verbose=0)
    np.testing.assert_array_equal(to_numpy(lookup.patterns), stored)
    unmoved = {"key/bias"}  # it adds one number to all scores of a state
    for old, weight in zip(before, lookup.trainable_weights):
        moved = np.abs(old - to_numpy(weight)).max() > 1e-3
        assert moved or weight.path.endswith(tuple(unmoved)), weight.path


def test_weights_are_named_before_there_are_any():
    for cls, name in (
        (layers.HopfieldLayer, "patterns"),
        (layers.HopfieldLayer, "values"),
        (layers.HopfieldPooling, "queries"),
    ):
        with pytest.raises(RuntimeError, match=f"`{name}` needs a layer that is built"):
            getattr(cls(2), name)


def test_constants_are_projected_once(monkeypatch):
    """Not once for each sample, as where they are expanded to the batch."""
    project, sizes = kernels.dense, []

    def spied(dense, x):
        sizes.append((dense.name, tuple(x.shape)))
        return project(dense, x)

    layers_of = (layers.HopfieldPooling, "query"), (layers.HopfieldLayer, "key")
    for cls, name in layers_of:
        layer = made(cls, num_patterns=T)
        with monkeypatch.context() as patched:
            patched.setattr(kernels, "dense", spied)
            layer(normal(B, S, D))
        assert [shape for of, shape in sizes if of == name] == [(1, T, D)]
        sizes.clear()


@pytest.mark.parametrize("cls", [layers.HopfieldPooling, layers.HopfieldLayer])
def test_what_the_network_found_out_is_shown(cls):
    layer = cls(num_patterns=T, num_heads=3, trainable_beta=True)
    assert layer.key_dim is None
    with pytest.raises(RuntimeError, match="needs a layer that is built"):
        _ = layer.betas
    layer.build((B, S, D))
    assert layer.key_dim == D // 3
    assert layer.get_config()["key_dim"] is None
    np.testing.assert_allclose(layer.betas, np.full(3, 0.5), rtol=1e-6)
    layer.hopfield.set_weights([w + 1 for w in layer.hopfield.get_weights()])
    np.testing.assert_allclose(layer.betas, np.full(3, 0.5 * np.e), rtol=1e-6)
    plain = cls(num_patterns=T, projections=False)
    plain.build((B, S, D))
    assert (plain.key_dim, plain.betas.tolist()) == (D, [1.0])


def test_weights_are_recorded_once():
    for cls in (layers.HopfieldPooling, layers.HopfieldLayer):
        layer = made(cls, num_patterns=T)
        with record_attention() as maps:
            layer(normal(B, S, D))
        assert list(maps) == [layer.path]


@needs_training
def test_a_frozen_layer_does_not_learn_and_a_free_one_does():
    x, y = normal(64, S, D), (normal(64, S, D) > 1.5).any((1, 2)).astype("float32")
    for frozen in (True, False):
        keras.utils.set_random_seed(0)
        pooling = layers.HopfieldPooling(2, **ARGUMENTS, trainable_beta=True)
        pooling.trainable = not frozen
        model = keras.Sequential(
            [
                keras.Input((None, D)),
                pooling,
                keras.layers.Flatten(),
                keras.layers.Dense(1),
            ]
        )
        model.compile(keras.optimizers.Adam(0.01), "mse")
        before = [to_numpy(w) for w in pooling.weights]
        model.fit(x, y, epochs=1, verbose=0)
        for old, weight in zip(before, pooling.weights):
            assert np.array_equal(old, to_numpy(weight)) == frozen, weight.path


def test_pooling_takes_the_mask_of_its_inputs():
    if keras.config.backend() == "numpy":
        pytest.skip("NumPy arrays carry no mask")
    layer = made(layers.HopfieldPooling, num_patterns=T)
    x, mask = normal(B, S, D), np.array([[1, 0, 1, 1, 1], [1, 1, 1, 0, 0]], bool)
    tensor = ops.convert_to_tensor(x)
    tensor._keras_mask = ops.convert_to_tensor(mask)
    output = layer(tensor)
    close(output, layer(x, mask=mask))
    assert getattr(output, "_keras_mask", None) is None


@pytest.mark.parametrize("cls", [layers.HopfieldPooling, layers.HopfieldLayer])
def test_what_cannot_be_is_refused(cls):
    with pytest.raises(ValueError, match=r"`num_patterns` must be at least 1.*=0"):
        cls(num_patterns=0)
    with pytest.raises(
        ValueError, match=r"`num_patterns` must be a whole number.*=1\.5"
    ):
        cls(num_patterns=1.5)
    with pytest.raises(ValueError, match=r"`beta` must be a number above 0.*beta=0"):
        cls(num_patterns=2, beta=0)
    with pytest.raises(ValueError, match=r"`projections=\{'use_bias': False\}`"):
        cls(num_patterns=2, use_bias=False)
    layer = cls(num_patterns=2)
    with pytest.raises(ValueError, match=r"`inputs` must have shape .*\(2, 3, 4, 5\)"):
        layer(np.zeros((2, 3, 4, 5), "float32"))
