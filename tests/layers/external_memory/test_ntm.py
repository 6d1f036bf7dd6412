"""`NTMCell` against the equations of 2014 in NumPy, float64."""

import dnc_reference as plain
import keras
import numpy as np
import pytest
from gradients import to_numpy

from keras_attention.layers import DNC, NTMCell

B, T, D, U, M, W, R, H, V = 2, 20, 3, 5, 7, 4, 2, 2, 3
MOVES = 5


def softplus(x):
    return np.logaddexp(0, x)


def cell(**more):
    return NTMCell(keras.layers.LSTMCell(U), M, W, R, H, 2, V, **more)


def reference(made, x):
    """Outputs (T, V), memory, and the weights of all heads, of one sample."""
    lstm = plain.lstm(*(np.float64(w) for w in made.cell.get_weights()))
    kernel, bias = (np.float64(w) for w in made.interface.get_weights())
    out, more = (np.float64(w) for w in made.output_layer.get_weights())
    hidden, read = (np.zeros(U), np.zeros(U)), np.zeros(R * W)
    memory, weights = np.full((M, W), 1e-6), np.eye(1, M).repeat(H + R, 0)
    heads, outputs = H + R, []
    for now in x:
        hidden = lstm(np.concatenate([now, read]), hidden)
        xi = hidden[0] @ kernel + bias
        sizes = [heads * W, H * W, heads, heads, heads * MOVES, heads, H * W]
        keys, values, beta, gamma, moves, gate, erase = np.split(
            xi, np.cumsum(sizes)[:-1]
        )
        weights = plain.ntm_address(
            memory,
            weights,
            np.tanh(keys).reshape(heads, W),
            softplus(beta),
            plain.sigmoid(gate),
            plain.softmax(moves.reshape(heads, MOVES)),
            1 + softplus(gamma),
        )
        erase = plain.sigmoid(erase).reshape(H, W)
        values = np.tanh(values).reshape(H, W)
        memory = plain.erase_and_write(memory, weights[:H], erase, values)
        read = (weights[H:] @ memory).reshape(-1)
        outputs.append(np.concatenate([hidden[0], read]) @ out + more)
    return np.stack(outputs), memory, weights


def test_twenty_steps_are_the_papers():
    made = cell()
    layer = DNC(made, return_sequences=True, return_state=True)
    layer.build((B, T, D))
    rng = np.random.default_rng(0)
    layer.set_weights([rng.normal(size=w.shape) * 0.7 for w in layer.get_weights()])
    x = rng.normal(size=(B, T, D))
    output, _, _, _, memory, written, read = layer(x.astype("float32"))
    for b in range(B):
        expected = reference(made, x[b])
        weights = np.concatenate([to_numpy(written)[b], to_numpy(read)[b]])
        for found, wanted in zip((output[b], memory[b], weights), expected):
            np.testing.assert_allclose(to_numpy(found), wanted, atol=1e-5)


def test_it_begins_at_slot_0_of_a_constant_memory():
    made = cell()
    first = made.start(B)
    np.testing.assert_array_equal(
        to_numpy(first.memory), np.full((B, M, W), 1e-6, "f4")
    )
    for weights in (first.read_weights, first.write_weights):
        np.testing.assert_array_equal(
            to_numpy(weights)[:, 1], np.eye(1, M).repeat(B, 0)
        )


def test_weights_load_into_another_number_of_slots(tmp_path):
    def model(slots, heads):
        made = NTMCell(keras.layers.LSTMCell(U), slots, W, heads)
        inputs = keras.Input((None, D))
        return keras.Model(inputs, DNC(made)(inputs))

    path = str(tmp_path / "a.weights.h5")
    small, large = model(M, R), model(3 * M, R)
    small.save_weights(path)
    large.load_weights(path)
    for ours, theirs in zip(large.get_weights(), small.get_weights()):
        np.testing.assert_array_equal(ours, theirs)
    with pytest.raises(ValueError, match="a cell with other heads"):
        model(M, R + 1).load_weights(path)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"memory_slots": 0}, "`memory_slots` must be at least 1"),
        ({"write_heads": 0}, "`write_heads` must be at least 1"),
        ({"shifts": 0}, "`shifts` must be at least 1"),
        ({"shifts": 4}, r"`memory_slots` must be at least 2 `shifts` \+ 1"),
        ({"cell": keras.layers.Dense(3)}, "`cell` must be a Keras layer with"),
    ],
)
def test_bad_arguments(arguments, text):
    given = {"cell": keras.layers.LSTMCell(U), "memory_slots": M, "word_width": W}
    with pytest.raises(ValueError, match=text):
        NTMCell(**{**given, **arguments})
