"""`DNCCell` against the paper's equations in NumPy, float64, and its gradients."""

import dnc_reference as plain
import keras
import numpy as np
import pytest
from calling import needs_training
from gradients import gradient, tensor, to_numpy
from keras import ops

from keras_attention.layers import DNC, DNCCell
from keras_attention.ops.memory import links

B, T, D, U, M, W, R, V = 2, 20, 3, 5, 7, 4, 2, 3
FLOOR = 1e-6  # the least that usage counts as
ALL = ["masked_keys", "deallocation", "sharp_links", "soft_allocation"]
FORMS = {
    "plain": {},
    "two write heads": {"write_heads": 2},
    "refined": {"write_heads": 2, "refinements": ALL},
    "masked and deallocating": {"refinements": ["masked_keys", "deallocation"]},
    "normalized": {"refinements": ["masked_keys", "layer_normalization"]},
    "normalized and refined": {"refinements": [*ALL, "layer_normalization"]},
    "no links": {"links": False, "refinements": ["deallocation"]},
    "sparse": {"links": 3},
    "of more slots in training": {"memory_slots": (M, 100 * M)},
}


def made(form, steps=T, **more):
    """A layer with weights large enough that its gates move, and its inputs."""
    form = {"memory_slots": M, **form}
    cell = DNCCell(
        keras.layers.LSTMCell(U), word_width=W, read_heads=R, output_units=V, **form
    )
    layer = DNC(cell, return_sequences=True, return_state=True, **more)
    layer.build((B, steps, D))
    rng = np.random.default_rng(3)
    layer.set_weights([rng.normal(size=w.shape) * 0.7 for w in layer.get_weights()])
    return layer, rng.normal(size=(B, steps, D))


def states(cell, kind="random", seed=4):
    """First states of the memory: one `plain.State` a sample, and the same flat."""
    rng, heads = np.random.default_rng(seed), cell.write_heads
    linked = cell.links is True
    found = []
    for _ in range(B):
        state = plain.State.zeros(M, W, R, heads)
        if kind != "empty":
            state.memory = rng.normal(size=(M, W))
            state.usage = rng.uniform(0.1, 0.9, M) if kind == "random" else np.ones(M)
            state.write_weights = rng.dirichlet(np.ones(M), heads) * 0.8
            state.read_weights = rng.dirichlet(np.ones(M), R) * 0.9
            state.reads = state.read_weights @ state.memory
            if linked:
                state.precedence = rng.dirichlet(np.ones(M), heads) * 0.7
                links = rng.uniform(0, 1 / M, (heads, M, M))
                state.links = links * (1 - np.eye(M))
        found.append(state)
    return found, flat(cell, plain.State.stack(found))


def flat(cell, state):
    """The controller's states, at zero, then the memory's, as `DNC` takes them."""
    controller = [np.zeros((B, U))] * 2
    memory = [state.reads.reshape(B, -1), state.memory, state.usage]
    memory += [state.write_weights, state.read_weights]
    if cell.links:
        memory.append(state.precedence)
    if cell.links is True:
        memory.append(state.links)
    elif cell.links:
        shape = (B, cell.write_heads, cell.links, M)
        memory += [np.zeros(shape, "int32"), np.zeros(shape)]
    return [np.asarray(x, "int32" if x.dtype == "int32" else "float32")
            for x in controller + memory]  # fmt: skip


def split_interface(cell, xi):
    """ξ in the cell's own order as a dict of raw numbers."""
    writes, refined = cell.write_heads, cell.refinements
    sizes = [
        ("read_keys", (R, W)),
        ("write_keys", (writes, W)),
        ("values", (writes, W)),
    ]
    sizes += [("read_strengths", (R,)), ("write_strengths", (writes,))]
    if "soft_allocation" in refined:
        sizes.append(("allocation_strength", (writes,)))
    if "sharp_links" in refined:
        sizes += [("forward_power", (R, writes)), ("backward_power", (R, writes))]
    sizes += [("erase", (writes, W)), ("free_gates", (R,))]
    sizes += [("allocation_gate", (writes,)), ("write_gate", (writes,))]
    if "masked_keys" in refined:
        sizes += [("read_masks", (R, W)), ("write_masks", (writes, W))]
    if cell.links:
        sizes.append(("modes", (R, 1 + 2 * writes)))
    parts, start = {}, 0
    for name, shape in sizes:
        size = int(np.prod(shape))
        parts[name] = xi[start : start + size].reshape(shape)
        start += size
    assert start == len(xi)
    return parts


def reference(layer, x, first):
    """Outputs (T, V) and states after each step, of one sample."""
    cell = layer.cell
    lstm = plain.lstm(*(np.float64(w) for w in cell.cell.get_weights()))
    kernel, bias = (np.float64(w) for w in cell.interface.get_weights())
    output = [np.float64(w) for w in cell.output_layer.get_weights()]

    def controller(read, hidden):
        hidden = lstm(read, hidden)
        xi = hidden[0] @ kernel + bias
        if cell.normalization is not None:
            scale, center = (np.float64(w) for w in cell.normalization.get_weights())
            spread = np.sqrt(xi.var() + cell.normalization.epsilon)
            xi = scale * (xi - xi.mean()) / spread + center
        return hidden[0], split_interface(cell, xi), hidden

    return plain.cell(
        x,
        controller,
        first,
        (np.zeros(U), np.zeros(U)),
        output,
        links_kept=cell.links,
        deallocation="deallocation" in cell.refinements,
        floor=FLOOR,
        epsilon=1e-6 * (cell.trained_slots / M) ** 2,
    )


@pytest.mark.parametrize("form", FORMS)
def test_twenty_steps_are_the_papers(form):
    layer, x = made(FORMS[form])
    first, given = states(layer.cell)
    output, *state = layer(x.astype("float32"), initial_state=given)
    for b in range(B):
        expected, steps = reference(layer, x[b], first[b])
        np.testing.assert_allclose(to_numpy(output[b]), expected, atol=1e-5)
        end = steps[-1]
        names = ["reads", "memory", "usage", "write_weights", "read_weights"]
        names += ["precedence"] if layer.cell.links else []
        names += ["links"] if layer.cell.links is True else []
        for found, name in zip(state[2:], names):
            wanted = getattr(end, name)
            found = to_numpy(found[b]).reshape(wanted.shape)
            np.testing.assert_allclose(found, wanted, atol=1e-5, err_msg=name)


def test_a_head_that_writes_by_content_takes_no_room():
    """Head 1 overwrites slot 0, whose word it looks for; head 2 finds slot 1 free."""
    cell = DNCCell(keras.layers.LSTMCell(U), 4, W, R, write_heads=2)
    cell.build((1, D))
    state = cell.start(1)._replace(
        memory=ops.convert_to_tensor(np.eye(4)[None], "float32"),
        usage=ops.convert_to_tensor([[0.9, 0.0, 0.9, 0.9]], "float32"),
    )
    say = {"write_keys": np.eye(4)[:2], "write_strengths": np.full(2, 40.0)}
    say |= {"allocation_gate": [-40.0, 40.0], "write_gate": [40.0, 40.0]}
    width, xi = cell.interface_width, []
    for name, piece in split_interface(cell, np.zeros(width)).items():
        at = say.get(name, np.zeros(np.shape(piece)))
        xi.append(np.ravel(at))
    interface = ops.convert_to_tensor(np.concatenate(xi)[None], "float32")
    new, _ = cell.access(interface, state, None, traced=True)
    written = to_numpy(new.write_weights)[0]
    np.testing.assert_allclose(written, [[1, 0, 0, 0], [0, 1, 0, 0]], atol=1e-4)


def test_the_threshold_of_sparse_links_is_that_of_their_number():
    """Of 6 links a slot 1/6, in a memory of 4 slots, too."""
    cell = DNCCell(keras.layers.LSTMCell(U), 4, W, links=6)
    state = cell.start(1)._replace(
        precedence=ops.convert_to_tensor([[[0.2, 0.0, 0.0, 0.0]]], "float32")
    )
    w = ops.convert_to_tensor([[[0, 1.0, 0, 0]]], "float32")
    linked = cell.options.linkage.write(state.links, state.precedence, w)
    assert to_numpy(links.dense_links(linked))[0, 0, 1, 0] == pytest.approx(0.2, 1e-4)


def test_sizes_of_numpy_are_numbers():
    sizes = {
        **{"memory_slots": M, "word_width": W, "read_heads": R, "write_heads": 2},
        **{"output_units": V, "links": 3},
    }
    given = {name: np.int64(size) for name, size in sizes.items()}
    cell = DNCCell(keras.layers.LSTMCell(U), **given)
    layer = DNC(cell, return_sequences=True, checkpoint_steps=np.int64(2))
    assert layer.compute_output_shape((B, T, D)) == (B, T, V)
    for owner, name in (*((cell, name) for name in sizes), (layer, "checkpoint_steps")):
        kept = getattr(owner, name), owner.get_config()[name]
        assert [type(size) for size in kept] == [int, int], name
        assert kept == (sizes.get(name, 2),) * 2


@pytest.mark.slow
@needs_training
@pytest.mark.parametrize("kind", ["random", "empty", "full"])
@pytest.mark.parametrize(
    "form", ["plain", "refined", "masked and deallocating", "normalized"]
)
def test_gradients_are_those_of_the_equations(form, kind):
    steps = 4 if kind == "random" else 1
    layer, x = made(FORMS[form], steps)
    first, given = states(layer.cell, kind)
    along = np.random.default_rng(5).normal(size=(B, steps, V))

    def ours(x, memory):
        state = [*given[:3], memory, *given[4:]]
        return ops.sum(layer(x, initial_state=state)[0] * tensor(along))

    def theirs(x, memory):
        total = 0.0
        for b in range(B):
            start = plain.State(**{**vars(first[b]), "memory": memory[b]})
            total += np.sum(reference(layer, x[b], start)[0] * along[b])
        return total

    memory = np.stack([s.memory for s in first])
    found = gradient(ours, x, memory)
    for n, (one, array) in enumerate(zip(found, (x, memory))):
        wanted = np.zeros_like(array)
        for place in np.ndindex(*array.shape):
            ends = []
            for sign in (1, -1):
                moved = [x.copy(), memory.copy()]
                moved[n][place] += sign * 1e-6
                ends.append(theirs(*moved))
            wanted[place] = (ends[0] - ends[1]) / 2e-6
        scale = np.abs(wanted).max()
        assert scale > 1e-3
        np.testing.assert_allclose(one, wanted, atol=1e-3 * scale)


def test_clip_bounds_the_controller_and_the_output():
    x = np.random.default_rng(0).normal(size=(B, 3, D)).astype("float32")
    cell = DNCCell(keras.layers.LSTMCell(U), M, W, R, output_units=V, clip=0.05)
    output, *state = DNC(cell, return_sequences=True, return_state=True)(x)
    for found in (output, *state[:2]):
        assert np.abs(to_numpy(found)).max() <= np.float32(0.05)
    assert np.abs(to_numpy(state[1])).max() == np.float32(0.05)  # it was reached


def test_without_output_units_it_is_what_it_knows_and_what_it_read():
    cell = DNCCell(keras.layers.LSTMCell(U), M, W, R)
    x = np.random.default_rng(0).normal(size=(B, 3, D)).astype("float32")
    output, h, _, read, *_ = DNC(cell, return_state=True)(x)
    expected = np.concatenate([to_numpy(h), to_numpy(read)], -1)
    np.testing.assert_array_equal(to_numpy(output), expected)
    assert cell.output_size == U + R * W


@pytest.mark.parametrize("policy", ["mixed_float16", "mixed_bfloat16"])
def test_the_memory_is_float32_in_half_precision(policy):
    exact, x = made({}, 6)
    cell = DNCCell(keras.layers.LSTMCell(U, dtype=policy), M, W, R, output_units=V,
                   dtype=policy)  # fmt: skip
    layer = DNC(cell, return_sequences=True, return_state=True, dtype=policy)
    layer.build((B, 6, D))
    layer.set_weights(exact.get_weights())
    x = (x * 0.3).astype("float32")
    output, *state = layer(x)
    half = policy.removeprefix("mixed_")
    dtypes = [keras.backend.standardize_dtype(s.dtype) for s in (output, *state)]
    assert dtypes == [half] * 4 + ["float32"] * 6
    # The first step: later ones may allocate other slots where usage ties.
    wanted = to_numpy(exact(x)[0])[:, 0]
    np.testing.assert_allclose(to_numpy(output)[:, 0], wanted, atol=0.05)


def test_half_precision_goes_on_where_it_was():
    policy = "mixed_bfloat16"
    controller = keras.layers.LSTMCell(U, dtype=policy)
    cell = DNCCell(controller, M, W, R, links=2, dtype=policy)
    layer = DNC(cell, return_state=True, dtype=policy)
    x = np.random.default_rng(0).normal(size=(B, 6, D)).astype("float32")
    _, *wanted = layer(x)
    _, *middle = layer(x[:, :3])
    _, *found = layer(x[:, 3:], initial_state=middle)
    for a, b in zip(found, wanted):
        assert a.dtype == b.dtype
        a, b = (to_numpy(ops.cast(y, "float32")) for y in (a, b))
        np.testing.assert_allclose(a, b, atol=1e-6)


@pytest.mark.parametrize("policy", ["mixed_float16", "mixed_bfloat16"])
def test_keras_own_loop_in_half_precision(policy):
    cell = DNCCell(keras.layers.LSTMCell(U, dtype=policy), M, W, R, dtype=policy)
    x = np.random.default_rng(0).normal(size=(B, 3, D)).astype("float32")
    theirs = keras.layers.RNN(cell, dtype=policy)(x)
    ours = DNC(cell, dtype=policy)(x)
    np.testing.assert_allclose(to_numpy(ours), to_numpy(theirs), atol=0.05)
    sparse = DNCCell(keras.layers.LSTMCell(U), M, W, links=2, dtype=policy)
    with pytest.raises(ValueError, match="no numbers for half precision"):
        keras.layers.RNN(sparse, dtype=policy)(x)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"memory_slots": 0}, "`memory_slots` must be at least 1"),
        ({"memory_slots": (8, 4, 2)}, "`memory_slots` must be a number, or a pair"),
        ({"memory_slots": (8, 0)}, r"`memory_slots\[1\]` must be at least 1"),
        ({"word_width": 0}, "`word_width` must be at least 1"),
        ({"read_heads": 0}, "`read_heads` must be at least 1"),
        ({"write_heads": -1}, "`write_heads` must be at least 1"),
        ({"output_units": 0}, "`output_units` must be at least 1"),
        ({"links": 0}, "`links` must be at least 1"),
        ({"links": 1}, "`links` must be True, False, or a number from 2 on"),
        ({"refinements": ["magic"]}, "`refinements` must be names among"),
        ({"links": False, "refinements": "sharp_links"}, "only where there are links"),
        ({"refinements": None}, "`refinements` must be names among"),
        ({"clip": 0}, "`clip` must be a number above 0"),
        ({"clip": "a"}, "`clip` must be a number above 0"),
        ({"clip": True}, "`clip` must be a number above 0"),
        ({"bypass_dropout": 1.0}, "`bypass_dropout` must be at least 0"),
        ({"bypass_dropout": "a"}, "`bypass_dropout` must be at least 0"),
        ({"cell": keras.layers.Dense(3)}, "`cell` must be a Keras layer with"),
        ({"cell": keras.layers.LSTM(3)}, "takes one step"),
    ],
)
def test_bad_arguments(arguments, text):
    given = {"cell": keras.layers.LSTMCell(U), "memory_slots": M, "word_width": W}
    with pytest.raises(ValueError, match=text):
        DNCCell(**{**given, **arguments})


def test_a_controller_must_have_a_state():
    class Stateless(keras.layers.Layer):
        state_size = ()
        output_size = U

    with pytest.raises(ValueError, match="`cell` must have a state"):
        DNCCell(Stateless(), M, W)


def test_weights_load_into_another_number_of_slots(tmp_path):
    def model(slots, heads):
        keras.utils.set_random_seed(slots)
        cell = DNCCell(keras.layers.LSTMCell(U), slots, W, heads, output_units=V)
        inputs = keras.Input((None, D))
        return keras.Model(inputs, DNC(cell, return_sequences=True)(inputs))

    small, large = model(M, R), model(4 * M, R)
    path = str(tmp_path / "a.weights.h5")
    small.save_weights(path)
    large.load_weights(path)
    for ours, theirs in zip(large.get_weights(), small.get_weights()):
        np.testing.assert_array_equal(ours, theirs)
    x = np.random.default_rng(0).normal(size=(B, 3, D)).astype("float32")
    assert np.isfinite(to_numpy(large(x))).all()
    with pytest.raises(ValueError, match="a cell with other heads"):
        model(M, R + 1).load_weights(path)
