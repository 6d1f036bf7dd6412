"""Multi-head attention in float64, head by head, and layers to compare with it."""

import keras
import numpy as np
import references
from gradients import to_numpy
from keras import ops

from keras_attention import layers

B, T, S, DQ, DV, DK = 2, 3, 5, 7, 11, 13
MASKS = {
    "query_mask": np.array([[True, False, True], [True, True, False]]),
    "value_mask": np.array([[True, True, False, True, True], [False] * 5]),
    "key_mask": np.array([[False, True, True, True, True], [True] * 5]),
    "attention_mask": np.random.default_rng(0).random((B, T, S)) < 0.7,
}


def normal(*shape, seed=0):
    return references.normal(*shape, seed=seed).astype("float32")


def inputs(rank=3):
    """Query, value and key; of rank 4 with an axis of 3 that all of them share."""
    more = (3,) * (rank - 3)
    return (
        normal(B, *more, T, DQ),
        normal(B, *more, S, DV, seed=1),
        normal(B, *more, S, DK, seed=2),
    )


def close(found, expected, tolerance=1e-5):
    np.testing.assert_allclose(
        to_numpy(found), to_numpy(expected), rtol=tolerance, atol=tolerance
    )


def shaken(layer, seed=3):
    """Gives every weight random numbers, biases included."""
    rng = np.random.default_rng(seed)
    layer.set_weights([rng.normal(size=w.shape) / 2 for w in layer.weights])
    return layer


def built(*given, **arguments):
    layer = layers.MultiHeadAttention(**{"num_heads": 3, "key_dim": 4, **arguments})
    layer.build(*(x.shape for x in given or inputs()))
    return shaken(layer)


def compare(query, key, mask):
    scores = ops.matmul(query, ops.swapaxes(key, 1, 2))
    if mask is not None:
        scores = ops.where(mask, scores, -1e9)
    return ops.softmax(scores)


@keras.saving.register_keras_serializable("tests")
class UsersAttention(keras.layers.Layer):
    """As a user writes one with the call of `keras.layers.MultiHeadAttention`."""

    def build(self, query_shape, value_shape):
        self.kernel = self.add_weight((query_shape[-1], value_shape[-1]), name="kernel")

    def call(
        self,
        query,
        value,
        key=None,
        attention_mask=None,
        return_attention_scores=False,
    ):
        key = value if key is None else key
        weights = compare(ops.matmul(query, self.kernel), key, attention_mask)
        output = ops.matmul(weights, value)
        return (output, weights) if return_attention_scores else output


def weights_of(layer):
    """kernel and bias of a projection by its name; a bias of 0 where there is none."""
    return {
        name: [to_numpy(w) for w in dense.weights]
        if len(dense.weights) == 2
        else [to_numpy(dense.kernel), 0.0]
        for name, dense in (
            ("query", layer.query_dense),
            ("key", layer.key_dense),
            ("value", layer.value_dense),
            ("output", layer.output_dense),
        )
    }


def projected(x, kernel, bias):
    return np.tensordot(np.asarray(x, "float64"), kernel, 1) + bias  # (B, ·, H, E)


def turned(x, interleaved=False):
    """A rotary embedding, pair by pair, as rotations of complex numbers."""
    half = x.shape[-1] // 2
    rates = 1e4 ** (-np.arange(half) / half)
    angle = np.arange(x.shape[1])[:, None, None] * rates
    z = (x[..., :half] + 1j * x[..., half:]) * np.exp(1j * angle)
    return np.concatenate([z.real, z.imag], -1)


def normed(x, layer):
    """The norm of queries or keys, if the layer has one."""
    if layer is None:
        return x
    scale = to_numpy(layer.weights[0])
    if isinstance(layer, keras.layers.LayerNormalization):
        x = x - x.mean(-1, keepdims=True)
    return scale * x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-6)


def beside(z, mask, sink):
    """Weights beside a score whose weight is thrown away."""
    weights = np.exp(np.where(mask, z, -np.inf))
    return weights / (np.exp(sink) + weights.sum(-1, keepdims=True))


def reference(layer, q, v, k, mask=True, normalizer="softmax", bias=0, rotary=False):
    w = weights_of(layer)
    q, k = projected(q, *w["query"]), projected(k, *w["key"])
    q, k = normed(q, layer._query_norm), normed(k, layer._key_norm)
    v = projected(v, *w["value"])
    if rotary:
        q, k = turned(q), turned(k)
    heads, groups = q.shape[2], k.shape[2]
    shape = (len(q), heads, q.shape[1], k.shape[1])
    mask, bias = np.broadcast_to(mask, shape), np.broadcast_to(bias, shape)
    weights, found = np.zeros(shape), np.zeros((*q.shape[:3], v.shape[-1]))
    for h in range(heads):
        g = h * groups // heads
        z = q[:, :, h] @ np.swapaxes(k[:, :, g], 1, 2) / np.sqrt(q.shape[-1])
        if layer.soft_cap:
            z = layer.soft_cap * np.tanh(z / layer.soft_cap)
        z = z + bias[:, h]
        if layer.attention_sinks:
            weights[:, h] = beside(z, mask[:, h], to_numpy(layer._sinks)[h])
        else:
            weights[:, h] = references.NORMALIZERS[normalizer](z, mask[:, h])
        found[:, :, h] = weights[:, h] @ v[:, :, g]
    kernel, bias = w["output"]
    return np.tensordot(found, kernel, 2) + bias, weights


def assert_equals(layer, expected, given=None, **call):
    """On both paths: with the weights returned, and fused."""
    q, v, k = inputs() if given is None else given
    output, weights = layer(q, v, k, return_attention_scores=True, **call)
    close(output, expected[0])
    close(weights, expected[1])
    close(layer(q, v, k, **call), expected[0])
