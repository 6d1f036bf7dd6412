"""The numbers of TensorFlow Addons 0.23.0, on TensorFlow 2.21, from the same weights.

The package has ended, and cannot be installed beside Keras 3.
"""

import keras
import numpy as np
import pytest
from keras import ops

from keras_attention import layers


def numbers(*shape, start=0.0):
    """Weights that are the same everywhere: sines of start, start + 1, …"""
    return np.sin(start + np.arange(np.prod(shape))).astype("float32").reshape(shape)


def equal(ours, theirs):
    """Theirs have four digits."""
    np.testing.assert_allclose(ops.convert_to_numpy(ours), theirs, atol=6e-5)


MEMORY = numbers(2, 5, 6)  # (B, S, V)
QUERY = numbers(2, 4, start=1)  # (B, Dq)
IS_WORD = np.arange(5) < np.array([5, 3])[:, None]  # (B, S)
CALL = {"value_mask": IS_WORD, "return_attention_scores": True}


@pytest.mark.parametrize(
    ("normalize", "first", "second"),
    [
        (False, [0.1676, 0.2634, 0.33, 0.2099, 0.0291], [0.7947, 0.1727, 0.0326]),
        (True, [0.2034, 0.2916, 0.2944, 0.1731, 0.0375], [0.7401, 0.2149, 0.045]),
    ],
)
def test_bahdanau(normalize, first, second):
    layer = layers.BahdanauAttention(7, use_bias=normalize, normalize=normalize)
    layer.build(QUERY.shape, MEMORY.shape)
    layer.score.query_dense.kernel.assign(numbers(4, 7))
    layer.score.key_dense.kernel.assign(numbers(6, 7, start=1))
    layer.score.scale.assign(numbers(7, start=2))
    if normalize:
        layer.score.gain.assign(2.0)
        layer.score.key_dense.bias.assign(numbers(7, start=3))
    equal(layer(QUERY, MEMORY, **CALL)[1], [first, [*second, 0, 0]])


@pytest.mark.parametrize(
    ("scale", "second"),
    [(False, [0.4295, 0.3243, 0.2461]), (True, [0.3808, 0.3309, 0.2883])],
)
def test_luong(scale, second):
    layer = layers.LuongAttention("general", scale=scale)
    layer.build(QUERY.shape, MEMORY.shape)
    layer.score.kernel.kernel.assign(numbers(6, 4))
    if scale:
        layer.gain.assign(0.5)
    equal(layer(QUERY, MEMORY, **CALL)[1][1], [*second, 0, 0])


SOFT = [[0.9276, 0.0533, 0.0066, 0, 0], [0.0217, 0.0112, 0.0074, 0, 0]]


@pytest.mark.parametrize(
    ("mode", "second"),
    [
        ("parallel", SOFT),
        ("recursive", SOFT),
        # The second query moves past the last position.
        ("hard", [[1, 0, 0, 0, 0], [0, 0, 0, 0, 0]]),
    ],
)
def test_monotonic(mode, second):
    queries = np.stack([QUERY, QUERY[:, ::-1]], axis=1)  # (B, T, Dq)
    score = layers.AdditiveScore(7, use_bias=False)
    layer = layers.MonotonicAttention(
        score, mode=mode, inference_mode=None, score_bias=-0.5
    )
    layer.build(queries.shape, MEMORY.shape)
    score.query_dense.kernel.assign(numbers(4, 7))
    score.key_dense.kernel.assign(numbers(6, 7, start=1))
    score.scale.assign(numbers(7, start=2))
    equal(layer(queries, MEMORY, **CALL)[1][1], second)


CONTEXTS = [-0.4978, 0.3851, 0.914, 0.6025, -0.2629, -0.8866]
CONTEXTS = CONTEXTS, [-0.5127, 0.3675, 0.9099, 0.6157, -0.2445, -0.8799]
TANH = [0.9886, 0.9887, 0.2118, -0.9821, -0.992]
TANH = TANH, [0.98, 0.9896, 0.4923, -0.9669, -0.9918]
LINEAR = [2.579, 2.5857, 0.215, -2.3533, -2.758]
LINEAR = LINEAR, [2.3171, 2.7792, 0.6862, -2.0378, -2.8882]


@pytest.mark.parametrize(
    ("units", "activation", "steps"),
    [(None, None, CONTEXTS), (5, "tanh", TANH), (5, "linear", LINEAR)],
)
def test_the_wrapper_of_an_lstm(units, activation, steps):
    attention = layers.LuongAttention("general")
    rnn = layers.AttentionRNN(
        keras.layers.LSTMCell(4),
        attention,
        order="after",
        attention_units=units,
        input_feeding=True,
        return_sequences=True,
    )
    x = numbers(2, 3, 3, start=4)  # (B, T, D)
    rnn.build(x.shape, MEMORY.shape)
    rnn.cell.kernel.assign(numbers(3 + (units or 6), 16))
    rnn.cell.recurrent_kernel.assign(numbers(4, 16, start=1))
    rnn.cell.bias.assign(numbers(16, start=2))
    attention.score.kernel.kernel.assign(numbers(6, 4, start=1))
    if units:
        kernel = numbers(10, 5, start=3)  # theirs: 4 rows of s, 6 of c
        rnn.combine.kernel.assign(np.concatenate([kernel[4:], kernel[:4]]))
        rnn.combine.activation = keras.activations.get(activation)
    state = [numbers(2, 4, start=5), numbers(2, 4, start=6)]
    output = rnn(x, MEMORY, memory_mask=IS_WORD, initial_state=state)
    output = output if units else output[..., 4:]
    equal(output[0, 0], steps[0])
    equal(output[0, 2], steps[1])
