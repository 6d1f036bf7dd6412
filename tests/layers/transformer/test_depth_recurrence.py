"""The recurrence over depth against NumPy in float64; its blocks, masks and loss."""

import keras
import numpy as np
import pytest
from calling import carries_masks, few_compiled
from gradients import to_numpy
from heads import close, normal, shaken

from keras_attention import layers, record_attention

B, T, D, STEPS, LENGTH = 2, 5, 6, 4, 7
TABLES = {"position": "learned", "max_length": LENGTH}
VALID = np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]], bool)
PLACES = np.array([[4, 3, 2, 0, 0], [5, 4, 3, 2, 1]])


@keras.saving.register_keras_serializable("tests")
class Linear(keras.layers.Layer):
    """A user's block: x ← tanh(x W), without a mask."""

    def build(self, shape):
        self.kernel = self.add_weight(shape=(shape[-1], shape[-1]), name="kernel")
        self.built = True

    def call(self, inputs):
        return keras.ops.tanh(inputs @ self.kernel)


def wave(place):
    place = np.asarray(place)[..., None]
    rate = 10000.0 ** (-2 * (np.arange(D) // 2) / D)
    return np.where(np.arange(D) % 2, np.cos(place * rate), np.sin(place * rate))


def reference(layer, x, valid, places):
    """The output and N of each position."""
    kernel = to_numpy(layer.block.kernel)
    if layer.position == "learned":
        tables = {w.shape[0]: to_numpy(w) for w in layer.weights}
        table, times = tables[LENGTH], tables[layer.steps]
    y, total, steps = np.zeros(x.shape), np.zeros((B, T)), np.zeros((B, T))
    running = valid.copy()
    for t in range(layer.steps):
        if layer.position == "sinusoidal":
            x = x + wave(places) + wave(t + 1)
        elif layer.position == "learned":
            x = x + table[places] + times[t]
        if layer.halting is not None:
            w, b = (to_numpy(v) for v in layer.halting.weights)
            p = 1 / (1 + np.exp(-(x @ w + b)[..., 0]))
        x = np.tanh(x @ kernel)
        if layer.halting is None:
            y, steps = x, steps + valid
            continue
        halts = running & (total + p > layer.halting.threshold)
        weight = np.where(halts, 1 - total, p) * running
        steps, total = steps + running, total + weight
        running = running & ~halts
        y = weight[..., None] * x + (1 - weight[..., None]) * y
    return y, steps


def made(**more):
    layer = layers.DepthRecurrence(Linear(), STEPS, **more)
    layer.build((B, T, D))
    return shaken(layer)


@pytest.mark.backends("all")
@few_compiled(
    "more",
    [
        {},
        {"position": None},
        TABLES,
        {"halting": "adaptive"},
        {"halting": layers.AdaptiveHalting, **TABLES},
    ],
    ids=str,
)
def test_recurrence_equals_its_equations(more):
    if callable(more.get("halting")):
        more = {**more, "halting": layers.AdaptiveHalting(0.8, initial_bias=-0.7)}
    layer, x = made(**more), normal(B, T, D)
    given = x.astype("float32")
    positions = None if layer.position is None else PLACES
    found = layer(given, mask=VALID, positions=positions)
    output, steps = reference(layer, x, VALID, PLACES)
    valid = VALID[..., None] if more.get("halting") is None else True
    close(to_numpy(found) * valid, output * valid)
    depth = layer.run(given, mask=VALID, positions=positions)
    np.testing.assert_array_equal(to_numpy(depth.updates), steps)
    if more.get("halting") is not None:
        assert len({*steps[VALID]}) > 1  # not all positions halt together
        np.testing.assert_array_equal(to_numpy(found)[~VALID], 0)


def test_positions_count_from_zero():
    layer, x = made(), normal(B, T, D)
    output, _ = reference(layer, x, np.ones((B, T), bool), np.arange(T))
    close(to_numpy(layer(x.astype("float32"))), output)


def test_the_ponder_cost_is_a_loss():
    halting = layers.AdaptiveHalting(0.8, ponder_weight=0.5, initial_bias=-0.7)
    layer, x = made(halting=halting), normal(B, T, D).astype("float32")
    layer(x, mask=VALID)
    (loss,) = layer.losses
    depth = layer.run(x, mask=VALID)
    cost = to_numpy(depth.updates) + to_numpy(depth.remainder)
    np.testing.assert_allclose(to_numpy(loss), 0.5 * cost[VALID].mean(), rtol=1e-6)
    layer = made()
    layer(x)
    assert not layer.losses


@pytest.mark.parametrize("dtype", ["float64", "mixed_bfloat16"])
def test_halting_by_name_has_the_dtype_of_its_owner(dtype):
    layer = layers.DepthRecurrence(Linear(), 2, "adaptive", dtype=dtype)
    assert layer.halting.dtype_policy.name == dtype


@pytest.mark.backends("all")
@pytest.mark.parametrize("halting", [None, "adaptive"])
def test_one_mask_for_all_samples(halting):
    layer, x = made(halting=halting), normal(B, T, D).astype("float32")
    one, all_ = VALID[:1], np.repeat(VALID[:1], B, axis=0)
    close(to_numpy(layer(x, mask=one)), to_numpy(layer(x, mask=all_)))
    losses = [layer(x, mask=m) is not None and layer.losses for m in (one, all_)]
    for found, wanted in zip(*losses, strict=True):
        close(to_numpy(found), to_numpy(wanted))
    for found, wanted in zip(layer.run(x, one), layer.run(x, all_), strict=True):
        assert tuple(found.shape) == tuple(wanted.shape)
        close(to_numpy(found), to_numpy(wanted))


@carries_masks
def test_run_takes_the_mask_that_inputs_carry():
    layer, x = made(halting="adaptive"), normal(B, T, D).astype("float32")
    wanted = layer.run(x, mask=VALID)
    carrier = keras.ops.convert_to_tensor(x)
    carrier._keras_mask = keras.ops.convert_to_tensor(VALID)
    for found, one in zip(layer.run(carrier), wanted, strict=True):
        np.testing.assert_array_equal(to_numpy(found), to_numpy(one))


def test_methods_need_a_layer_that_is_built():
    x = normal(B, T, D).astype("float32")
    layer = layers.DepthRecurrence(Linear(), 2, "adaptive")
    with pytest.raises(RuntimeError, match="`run` needs a layer that is built"):
        layer.run(x)
    with pytest.raises(RuntimeError, match="`probability` needs a layer that is built"):
        layer.halting.probability(x)
    layer(x)  # still works
    with pytest.raises(RuntimeError, match="`inputs` of `run` must not be symbolic"):
        layer.run(keras.Input((T, D)))
    with pytest.raises(RuntimeError, match="on symbolic tensors"):
        layer.halting.probability(keras.Input((T, D)))


def test_a_decoder_block_needs_a_memory():
    x = normal(B, T, D).astype("float32")
    layer = layers.DepthRecurrence(layers.TransformerDecoderBlock(2, 7), 2)
    message = "^`memory` must be given for block=<.*Received: memory=None"
    for one in (x, keras.Input((T, D))):
        with pytest.raises(ValueError, match=message):
            layer(one)
    with pytest.raises(ValueError, match=message):
        layer.build((B, T, D))
    layer(x, memory=x)
    for method in (layer, layer.run):
        with pytest.raises(ValueError, match=message):
            method(x)


def test_steps_share_the_weights():
    sizes = {
        steps: layers.DepthRecurrence(layers.TransformerEncoderBlock(2, 7), steps)
        for steps in (1, 3)
    }
    counts = set()
    for layer in sizes.values():
        layer.build((B, T, D))
        counts.add(layer.count_params())
    assert len(counts) == 1


def test_masks_reach_the_block_and_each_step_is_recorded():
    layer = layers.DepthRecurrence(layers.TransformerEncoderBlock(2, 7), 3)
    layer.build((B, T, D))
    x = normal(B, T, D).astype("float32")
    with record_attention() as maps:
        found = to_numpy(layer(x, mask=VALID))
    assert len(maps) == 3
    for weights in maps.values():
        np.testing.assert_array_equal(weights[0, :, :, 3:], 0)
    changed = np.where(VALID[..., None], x, np.float32(7))
    close(to_numpy(layer(changed, mask=VALID))[VALID], found[VALID])


@pytest.mark.parametrize("halting", [None, "adaptive"])
def test_a_decoder_block_reads_its_memory_and_not_ahead(halting):
    layer = layers.DepthRecurrence(
        layers.TransformerDecoderBlock(2, 7), 2, halting=halting
    )
    x, memory = normal(B, T, D).astype("float32"), normal(B, 3, 4, seed=1)
    memory = memory.astype("float32")
    there = np.array([[1, 1, 0], [1, 1, 1]], bool)
    found = to_numpy(layer(x, memory=memory, memory_mask=there))
    hidden = np.where(there[..., None], memory, np.float32(9))
    close(to_numpy(layer(x, memory=hidden, memory_mask=there)), found)
    assert np.abs(to_numpy(layer(x, memory=2 * memory)) - found).max() > 1e-3
    later = np.concatenate([x[:, :-1], -x[:, -1:]], axis=1)
    close(
        to_numpy(layer(later, memory=memory, memory_mask=there))[:, :-1], found[:, :-1]
    )
    ahead = layer(later, memory=memory, memory_mask=there, use_causal_mask=False)
    assert np.abs(to_numpy(ahead)[:, :-1] - found[:, :-1]).max() > 1e-3


def test_a_sequence_of_words_in_a_model_of_your_own(tmp_path):
    words = keras.Input((None,), dtype="int32")
    x = keras.layers.Embedding(11, D, mask_zero=True)(words)
    block = layers.TransformerEncoderBlock(2, 7, norm_first=True)
    x = layers.DepthRecurrence(block, 3, halting="adaptive")(x)
    model = keras.Model(words, keras.layers.Dense(11)(x))
    ids = np.array([[3, 4, 5, 0], [6, 7, 8, 9]])
    found = to_numpy(model(ids))
    model.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras")
    close(to_numpy(again(ids)), found)
    longer = np.pad(ids, ((0, 0), (0, 2)))
    close(to_numpy(model(longer))[:, :4][ids != 0], found[ids != 0])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: layers.DepthRecurrence("block"), "`block` must be a layer. Received"),
        (lambda: layers.DepthRecurrence(Linear(), 0), "`steps` must be at least 1"),
        (
            lambda: layers.DepthRecurrence(Linear(), position="rotary"),
            "`position` must be one of .*Received: position='rotary'",
        ),
        (
            lambda: layers.DepthRecurrence(Linear(), position="learned"),
            "`max_length` must be given with position='learned'",
        ),
        (
            lambda: layers.DepthRecurrence(Linear(), max_length=5),
            "`max_length` must be None unless position='learned'. Received: max_l.*=5",
        ),
        (
            lambda: made(position=None)(normal(B, T, D), positions=np.arange(T)),
            "`positions` must be None with position=None.*Received: positions=",
        ),
        (
            lambda: made(position=None).run(normal(B, T, D), positions=np.arange(T)),
            "`positions` must be None with position=None.*Received: positions=",
        ),
        (
            lambda: layers.DepthRecurrence(Linear(), halting=0.9),
            "`halting` must be 'adaptive', an `AdaptiveHalting` or None. Received",
        ),
        (
            lambda: layers.DepthRecurrence(keras.layers.Dense(3)).build((B, T, D)),
            "`block` must return a tensor of the shape of its inputs",
        ),
        (
            lambda: layers.DepthRecurrence(Linear())(np.zeros((B, D), "float32")),
            "`inputs` must have rank 3",
        ),
        (
            lambda: layers.AdaptiveHalting(1.5),
            "`threshold` must be above 0 and at most",
        ),
        (
            lambda: layers.AdaptiveHalting(ponder_weight=-1),
            "`ponder_weight` must be at least 0. Received: ponder_weight=-1",
        ),
    ],
)
def test_bad_arguments(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_positions_outside_the_table_are_refused():
    layer = made(**TABLES)
    x = normal(B, T, D).astype("float32")
    with pytest.raises(ValueError, match=r"`positions` must .*ids from 0 to 7"):
        layer(x, positions=np.array([0, 1, 2, 3, 7]))
    longer = normal(B, 8, D).astype("float32")
    with pytest.raises(ValueError, match=r"`inputs` must .*max_length=7"):
        layer(longer)
