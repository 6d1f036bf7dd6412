"""`DNC`: masks, states, segments, traces, and Keras' own loop over the same cell."""

import sys

import keras
import numpy as np
import pytest
from calling import BACKEND, few_compiled, needs_training
from gradients import gradient, to_numpy
from keras import ops

from keras_attention.layers import DNC, DNCCell, KeepMask, NTMCell
from keras_attention.layers.external_memory.memory_cell import MemoryCell
from keras_attention.ops.memory import links

B, T, D, U, M, W, R, V = 2, 7, 3, 5, 6, 4, 2, 3
CELLS = {
    "dense": lambda **more: DNCCell(lstm(), M, W, R, **more),
    "deallocating": lambda **more: DNCCell(
        lstm(), M, W, R, 2, refinements=["deallocation"], **more
    ),
    "masked": lambda **more: DNCCell(
        lstm(), M, W, R, refinements=["masked_keys", "deallocation"], **more
    ),
    "sparse": lambda **more: DNCCell(lstm(), M, W, R, links=2, **more),
    "unlinked": lambda **more: DNCCell(lstm(), M, W, R, links=False, **more),
    "ntm": lambda **more: NTMCell(lstm(), M, W, R, 2, **more),
}
CONTROLLERS = {
    "simple": lambda: keras.layers.SimpleRNNCell(U),
    "gru": lambda: keras.layers.GRUCell(U),
    "stacked": lambda: [keras.layers.LSTMCell(3), keras.layers.GRUCell(U)],
}


def lstm():
    return keras.layers.LSTMCell(U)


def data(batch=B, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(batch, T, D)).astype("float32")
    mask = np.ones((batch, T), bool)
    mask[0, 4:] = mask[1:2, :2] = mask[1:2, 4] = False
    return x, mask


def whole(cell, **more):
    return DNC(cell, return_sequences=True, return_state=True, **more)


def begun(layer):
    """A state of one row whose slots all differ.

    At the beginning they are alike, and which of them is freest is a matter of how a
    backend rounds, which may depend on the size of the batch.
    """
    _, *state = layer(data(1)[0])
    state = [to_numpy(array) for array in state]
    rng = np.random.default_rng(5)
    state[3] = rng.normal(size=(1, M, W)).astype("float32")
    if isinstance(layer.cell, DNCCell):
        state[4] = rng.permutation(np.linspace(0.05, 0.8, M, dtype="float32"))[None]
    return state


def unfolded(layer, state):
    """A state with its sparse links written out: of a link of 0 the slot may be any."""
    if isinstance(getattr(layer.cell, "links", False), bool):
        return state
    *others, slots, values = state
    return [*others, links.dense_links(links.SparseLinks(slots, values))]


@pytest.mark.parametrize("batch", [B, M])
@pytest.mark.parametrize("name", CELLS)
def test_a_padded_step_leaves_the_state_exactly_as_it_was(name, batch):
    x, mask = data(batch)
    x[~mask] = np.nan
    layer = whole(CELLS[name]())
    first = begun(layer)
    many = [np.repeat(array, batch, axis=0) for array in first]
    output, *state = layer(x, initial_state=many, mask=mask)
    assert not to_numpy(output)[~mask].any()
    for b in (0, 1):  # each without its padding, in a batch of one
        alone, *end = layer(x[b : b + 1][:, mask[b]], initial_state=first)
        np.testing.assert_allclose(
            to_numpy(output)[b, mask[b]], to_numpy(alone)[0], atol=1e-5
        )
        for found, wanted in zip(unfolded(layer, state), unfolded(layer, end)):
            np.testing.assert_allclose(
                to_numpy(found)[b], to_numpy(wanted)[0], atol=1e-5
            )
    nothing = np.zeros((batch, T), bool)
    after = layer(x, initial_state=state, mask=nothing)[1:]
    for found, wanted in zip(after, state):
        np.testing.assert_array_equal(to_numpy(found), to_numpy(wanted))


def test_a_mask_that_the_inputs_carry_is_used_beside_an_initial_state_too():
    x, mask = data()
    x[~mask] = 0
    cell = CELLS["dense"](output_units=V)
    layer = whole(cell)
    inputs, h, c = keras.Input((None, D)), keras.Input((U,)), keras.Input((U,))
    masked = keras.layers.Masking()(inputs)
    alone = keras.Model(inputs, layer(masked))
    begun = keras.Model([inputs, h, c], layer(masked, initial_state=[h, c]))
    rng = np.random.default_rng(1)
    first = [rng.normal(size=(B, U)).astype("float32") for _ in range(2)]
    for found, wanted in (
        (alone.predict(x, verbose=0), layer(x, mask=mask)),
        (
            begun.predict([x, *first], verbose=0),
            layer(x, initial_state=first, mask=mask),
        ),
    ):
        for a, b in zip(found, wanted):
            np.testing.assert_allclose(a, to_numpy(b), atol=1e-6)


@pytest.mark.backends("all")
@few_compiled("name", CELLS)
def test_step_by_step_is_at_once(name):
    x, _ = data()
    layer = whole(CELLS[name](output_units=V))
    output, *state = layer(x)
    first, *middle = layer(x[:, :3])
    second, *last = layer(x[:, 3:], initial_state=middle)
    both = np.concatenate([to_numpy(first), to_numpy(second)], 1)
    np.testing.assert_allclose(both, to_numpy(output), atol=1e-6)
    for found, wanted in zip(last, state):
        np.testing.assert_allclose(to_numpy(found), to_numpy(wanted), atol=1e-6)
    alone = DNC(layer.cell)(x)
    np.testing.assert_allclose(to_numpy(alone), to_numpy(output)[:, -1], atol=1e-6)


@pytest.mark.backends("all")
@few_compiled("name", CELLS)
def test_keras_own_loop_returns_the_same(name):
    x, mask = data()
    cell = CELLS[name](output_units=V)
    ours = DNC(cell, return_sequences=True)(x, mask=mask)
    keras_loop = keras.layers.RNN(
        cell, return_sequences=True, zero_output_for_mask=True
    )
    theirs = KeepMask(keras_loop)(x, mask=ops.convert_to_tensor(mask))
    np.testing.assert_allclose(to_numpy(ours), to_numpy(theirs), atol=1e-6)


@pytest.mark.parametrize("name", CONTROLLERS)
def test_any_cell_can_be_the_controller(name):
    x, mask = data()
    layer = whole(DNCCell(CONTROLLERS[name](), M, W, R, output_units=V))
    output, *state = layer(x, mask=mask)
    first, *middle = layer(x[:, :3], mask=mask[:, :3])
    second, *last = layer(x[:, 3:], initial_state=middle, mask=mask[:, 3:])
    for found, wanted in zip(last, state):
        np.testing.assert_allclose(to_numpy(found), to_numpy(wanted), atol=1e-6)
    both = np.concatenate([to_numpy(first), to_numpy(second)], 1)
    np.testing.assert_allclose(both, to_numpy(output), atol=1e-6)
    again = DNC.from_config(layer.get_config())
    again.build((B, T, D))
    again.set_weights(layer.get_weights())
    np.testing.assert_allclose(
        to_numpy(again(x, mask=mask)[0]), to_numpy(output), atol=1e-6
    )


@needs_training
@pytest.mark.parametrize(
    "name", [pytest.param("dense", marks=pytest.mark.backends("all")), "sparse"]
)
def test_segments_have_the_same_gradients(name):
    """Of the inputs, the weights and the state; the output's dropout is the same."""
    x, mask = data()
    weights, found = None, []
    for checkpoint_steps in (None, 3, "auto"):
        keras.utils.set_random_seed(3)
        links = name == "dense" or 2
        cell = DNCCell(lstm(), M, W, R, links=links, bypass_dropout=0.3)
        layer = whole(cell, checkpoint_steps=checkpoint_steps)
        layer.build((B, T, D))
        weights = weights or layer.get_weights()
        layer.set_weights(weights)
        start = [np.random.default_rng(n).normal(size=(B, U)) for n in (1, 2)]

        def loss(x, h, c, layer=layer):
            output, *state = layer(x, initial_state=[h, c], mask=mask, training=True)
            return ops.sum(ops.square(output)) + ops.sum(state[3])

        found.append(gradient(loss, x, *start))
    for other in found[1:]:
        for one, wanted in zip(other, found[0]):
            assert np.abs(wanted).max() > 1e-4
            np.testing.assert_allclose(one, wanted, atol=1e-6)


def test_segments_refuse_the_dropout_of_a_controller_that_trains():
    """A step that is computed again would sample another mask."""
    stack = [lstm(), keras.layers.GRUCell(U, recurrent_dropout=0.3)]
    layer = DNC(DNCCell(stack, M, W, R), checkpoint_steps=3)
    x, _ = data()
    with pytest.raises(
        ValueError, match=r"`checkpoint_steps` computes .* Received: checkpoint_steps=3"
    ):
        layer(x, training=True)
    assert np.isfinite(to_numpy(layer(x))).all()


@pytest.mark.backends("torch", reason="torch's own way to differentiate")
def test_gradients_of_a_whole_sequence_can_be_differentiated_again(monkeypatch):
    import torch

    layer = DNC(DNCCell(lstm(), M, W, R, links=2))
    x = torch.tensor(data()[0], requires_grad=True)  # the first state is a constant

    def twice():
        (slope,) = torch.autograd.grad(layer(x).square().sum(), x, create_graph=True)
        return torch.autograd.grad(slope.square().sum(), x)[0].numpy()

    found = twice()
    module = sys.modules["keras_attention.kernels.sparse_links.torch"]
    monkeypatch.setattr(module, "_applies", lambda *tensors: False)
    wanted = twice()
    assert np.abs(wanted).max() > 1e-6
    scale = np.abs(wanted).max()
    np.testing.assert_allclose(found / scale, wanted / scale, atol=1e-3)


@needs_training
def test_segments_train_the_same_weights():
    x, _ = data()
    moved = []
    for checkpoint_steps in (None, 3):
        keras.utils.set_random_seed(0)
        inputs = keras.Input((None, D))
        cell = DNCCell(lstm(), M, W, R, output_units=V)
        model = keras.Model(
            inputs, DNC(cell, checkpoint_steps=checkpoint_steps)(inputs)
        )
        model.compile(keras.optimizers.SGD(1.0), "mse")
        before = model.get_weights()
        model.fit(x, np.ones((B, V)), verbose=0)
        moved.append([b - a for a, b in zip(before, model.get_weights())])
    for one, wanted in zip(*moved):
        assert np.abs(wanted).max() > 0
        np.testing.assert_allclose(one, wanted, atol=1e-6)


@pytest.mark.backends("tensorflow", reason="its graphs may leave T open")
@few_compiled(("checkpoint_steps", "steps"), [("auto", 4), (3, 6), (3, 7), (3, 2)])
def test_segments_of_a_length_that_is_open(checkpoint_steps, steps):
    import tensorflow as tf

    x = np.random.default_rng(0).normal(size=(B, steps, D)).astype("float32")
    layer = DNC(
        DNCCell(lstm(), M, W, R),
        return_sequences=True,
        checkpoint_steps=checkpoint_steps,
    )
    layer.build(x.shape)
    spec = tf.TensorSpec([None, None, D])

    def slopes(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            total = tf.reduce_sum(tf.square(layer(x)))
        return tape.gradient(total, [x, *layer.trainable_variables])

    found = tf.function(slopes, input_signature=[spec])(x)
    layer.checkpoint_steps = None
    wanted = tf.function(slopes, input_signature=[spec])(x)
    for one, other in zip(found, wanted):
        np.testing.assert_allclose(one, other, atol=1e-6)


@pytest.mark.slow_on("jax")
@pytest.mark.backends("jax", "torch", reason="nothing to count it with")
def test_segments_keep_a_fraction_of_the_memory():
    held = {}
    for checkpoint_steps in (None, "auto"):
        cell = DNCCell(lstm(), 48, W, 1)
        layer = DNC(cell, checkpoint_steps=checkpoint_steps)
        x = np.random.default_rng(0).normal(size=(1, 64, D)).astype("float32")
        layer.build(x.shape)
        held[checkpoint_steps] = _bytes_kept(layer, x)
    links = 64 * 48 * 48 * 4  # bytes of the links of all steps
    assert held[None] > links, held
    assert held["auto"] < held[None] / 3, held


def _bytes_kept(layer, x):
    if BACKEND == "jax":
        import jax

        def loss(x):
            return ops.sum(layer(x))

        compiled = jax.jit(jax.grad(loss)).lower(x).compile()
        return compiled.memory_analysis().temp_size_in_bytes
    import torch

    kept = {}

    def pack(tensor):
        storage = tensor.untyped_storage()
        kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
        layer(torch.tensor(x, requires_grad=True))
    return sum(kept.values())


@needs_training
def test_bypass_dropout_drops_on_the_way_to_the_output_alone():
    x, _ = data()
    layer = whole(DNCCell(lstm(), M, W, R, bypass_dropout=0.5))
    plain, *state = layer(x, training=False)
    dropped, *same = layer(x, training=True)
    for found, wanted in zip(same, state):
        np.testing.assert_array_equal(to_numpy(found), to_numpy(wanted))
    plain, dropped = to_numpy(plain), to_numpy(dropped)
    np.testing.assert_array_equal(dropped[..., U:], plain[..., U:])
    ratio = dropped[..., :U] / plain[..., :U]
    near = np.minimum(np.abs(ratio), np.abs(ratio - 2))
    assert near.max() < 1e-5
    assert 0.2 < (ratio > 1).mean() < 0.8
    with pytest.raises(ValueError, match=r"use keras_attention\.layers\.DNC"):
        keras.layers.RNN(layer.cell)(x, training=True)


def test_the_trace_is_what_happened():
    x, mask = data()
    layer = whole(DNCCell(lstm(), M, W, R, 2))
    output, *state = layer(x, mask=mask)
    trace = layer.trace(x, mask)
    shapes = {
        "memory": (M, W),
        "usage": (M,),
        "write_weights": (2, M),
        "read_weights": (R, M),
        "links": (2, M, M),
        "modes": (R, 5),
        "free_gates": (R,),
        "allocation_gate": (2,),
        "write_gate": (2,),
    }
    for name, shape in shapes.items():
        found = getattr(trace, name)
        assert isinstance(found, np.ndarray), name
        assert found.shape == (B, T, *shape), name
        if name not in ("memory", "usage", "links"):
            assert not found[~mask].any()
    _, _, _, memory, usage, _, _, _, linked = map(to_numpy, state)
    np.testing.assert_allclose(trace.memory[:, -1], memory, atol=1e-6)
    np.testing.assert_allclose(trace.usage[:, -1], usage, atol=1e-6)
    np.testing.assert_allclose(trace.links[:, -1], linked, atol=1e-6)
    read = np.einsum("btrm,btmw->btrw", trace.read_weights, trace.memory)
    read = read.reshape(B, T, -1)
    np.testing.assert_allclose(read[mask], to_numpy(output)[mask][:, U:], atol=1e-5)
    np.testing.assert_allclose(trace.modes[mask].sum(-1), 1, atol=1e-5)


def test_a_trace_lacks_what_the_cell_lacks():
    x, _ = data()
    for name in ("unlinked", "sparse"):  # sparse links are not unfolded
        assert DNC(CELLS[name]()).trace(x).links is None
    trace = DNC(CELLS["ntm"]()).trace(x)
    assert [n for n in trace._fields if getattr(trace, n) is not None] == [
        "memory",
        "write_weights",
        "read_weights",
    ]


def test_a_memory_cell_is_abstract():
    with pytest.raises(TypeError, match="abstract"):
        MemoryCell(lstm(), M, W, R, 1, None, None)


def test_bad_calls():
    x, mask = data()
    with pytest.raises(ValueError, match="`cell` must be a DNCCell or an NTMCell"):
        DNC(lstm())
    with pytest.raises(ValueError, match="`checkpoint_steps` must be at least 1"):
        DNC(CELLS["dense"](), checkpoint_steps=0)
    with pytest.raises(
        ValueError, match="`checkpoint_steps` must be a number of steps"
    ):
        DNC(CELLS["dense"](), checkpoint_steps="root")
    layer = DNC(CELLS["dense"]())
    with pytest.raises(ValueError, match=r"`inputs` must have shape"):
        layer(x[:, 0])
    with pytest.raises(
        ValueError, match="`initial_state` must hold tensors of the inputs'"
    ):
        layer(x, initial_state=[np.zeros((B, U + 1), "float32")] * 2)
    with pytest.raises(ValueError, match="`initial_state` must hold the 2 state"):
        layer(x, initial_state=[np.zeros((B, U), "float32")])
    with pytest.raises(ValueError, match="`mask`"):
        layer(x, mask=mask[:, 1:])


@pytest.mark.parametrize("kind", ["batch of the controller", "batch", "slots", "width"])
def test_an_initial_state_of_other_sizes(kind):
    x, _ = data()
    layer = DNC(CELLS["dense"](), return_state=True)
    state = [to_numpy(s) for s in layer(x)[1:]]  # of the controller, r, M, ...
    whole = [s.copy() for s in state]
    if kind == "batch of the controller":
        state = [np.zeros((1, U), "float32")] * 2
    elif kind == "batch":
        state[3] = state[3][:1]
    elif kind == "slots":
        state[3] = state[3][:, 1:]
    else:
        state[3] = state[3][..., 1:]
    with pytest.raises(ValueError, match="tensors of the inputs' batch") as error:
        layer(x, initial_state=state)
    assert f"Received: shapes {[s.shape for s in state]}" in str(error.value)
    layer(x, initial_state=whole)


@needs_training
def test_a_controller_keeps_no_dropout_mask_of_another_batch():
    # Keras' simple cell samples its masks at inference, too, and stores them.
    layer = DNC(DNCCell(keras.layers.SimpleRNNCell(U, dropout=0.5), M, W))
    layer(data(3)[0])
    assert layer(data(2)[0], training=True).shape[0] == 2


def test_a_call_without_training_draws_nothing():
    controller = keras.layers.LSTMCell(U, dropout=0.5, recurrent_dropout=0.5)
    layer = DNC(DNCCell(controller, M, W))
    layer(data(3)[0])
    before = to_numpy(controller.seed_generator.state)
    layer(data(2)[0])
    np.testing.assert_array_equal(to_numpy(controller.seed_generator.state), before)


def test_dropout_of_a_stack_within_a_stack_is_seen():
    inner = keras.layers.StackedRNNCells([keras.layers.LSTMCell(U, dropout=0.5)])
    cell = DNCCell(keras.layers.StackedRNNCells([inner, lstm()]), M, W, R)
    with pytest.raises(ValueError, match="must be sampled before the loop"):
        keras.layers.RNN(cell)(data()[0], training=True)
