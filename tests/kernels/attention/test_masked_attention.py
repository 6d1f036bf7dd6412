"""Attention with mask objects, tile by tile, against a float64 reference."""

import keras
import numpy as np
import pytest
import references
from calling import BACKEND, few_compiled, platform
from gradients import gradient, tensor, to_numpy
from keras import ops

from keras_attention import kernels, layers, masks, recorded
from keras_attention.kernels.attention import tiles as tiled
from keras_attention.numerics import mask_objects
from keras_attention.ops import dot_product_attention

pytestmark = pytest.mark.backends("all")  # each backend has its own kernel

HAS_TILES = BACKEND != "jax" or platform() == "cpu"  # JAX has none elsewhere
B, T, S, H, G, E, V = 2, 29, 23, 4, 2, 5, 3
random = np.random.default_rng(3)
IDS = np.array([[1] * 5 + [2] * 11 + [5] * 10 + [0] * 3, [0] * 2 + [1] * 20 + [2] * 7])
MIXED = random.integers(0, 4, (B, T))  # in no order, with padding
# Of each case: how many keys there are, and the mask.
CASES = {
    "texts": (T, masks.Causal() & masks.Segments(IDS)),
    "prefixes": (T, masks.Causal() & masks.Window(4) | masks.Prefix(np.array([2, 11]))),
    "of keys": (S, masks.Segments(MIXED, random.integers(0, 4, (B, S)))),
    "no order": (T, masks.Window(9) & masks.Segments(MIXED) & masks.Prefix(20)),
    "a prefix": (T, masks.Prefix(5)),
    "nothing": (T, masks.Segments(0 * IDS) | masks.Prefix(0)),
    "of one": (T, masks.Segments(IDS[:1]) | masks.Window(1)),
}


def sizes(patch, least, rows):
    """Sets the sizes from which tiles are used, and those of a tile."""
    for name in ("LEAST", "EAGER"):
        patch.setattr(tiled, name, least)
    for name, size in (("ROWS", rows), ("COLUMNS", rows - 1)):
        if BACKEND != "numpy" and (name, BACKEND) != ("COLUMNS", "jax"):
            patch.setattr(f"keras_attention.kernels.attention.{BACKEND}.{name}", size)
    patch.setattr(mask_objects, "BLOCK", 2)


@pytest.fixture
def by_tiles(monkeypatch):
    """Makes tiles small; collects whether each call was computed by tiles."""
    rows = 11 if BACKEND == "tensorflow" else 4  # its loops are slow without a graph
    sizes(monkeypatch, 1, rows)
    used, kernel = [], kernels.masked_attention

    def record(*arguments):
        output = kernel(*arguments)
        used.append(output is not None or not HAS_TILES)
        return output

    monkeypatch.setattr(kernels, "masked_attention", record)
    return used


def inputs(keys):
    arrays = references.normals((B, T, H, E), (B, keys, G, E), (B, keys, G, V))
    return references.normal(B, T, H, V, seed=8), arrays


def expected(keys, mask, probe, arrays):
    """The output, and the gradients of Σ probe · output, in float64."""
    mask = np.broadcast_to(
        to_numpy(mask.array(T, keys), bool)[:, None], (B, H, T, keys)
    )
    return references.heads_attention(*arrays, probe, mask)[:-1]


@few_compiled("case", CASES, 2)
def test_output_and_gradients_equal_the_reference(case, by_tiles):
    keys, mask = CASES[case]
    probe, arrays = inputs(keys)

    def loss(probe, *x):  # its gradient by the probe is the output
        return ops.sum(dot_product_attention(*x, mask) * probe)

    slopes = gradient(loss, probe, *arrays)
    assert by_tiles
    assert all(by_tiles)
    for slope, wanted in zip(slopes, expected(keys, mask, probe, arrays), strict=True):
        np.testing.assert_allclose(slope, wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.backends("numpy", "torch", reason="torch computes no graph there")
@pytest.mark.parametrize("case", CASES)
def test_where_there_are_no_gradients(case, by_tiles):
    keys, mask = CASES[case]
    probe, arrays = inputs(keys)
    output = to_numpy(dot_product_attention(*map(tensor, arrays), mask))
    assert all(by_tiles) == (BACKEND == "torch")
    np.testing.assert_allclose(
        output, expected(keys, mask, probe, arrays)[0], atol=1e-5
    )


@pytest.mark.backends("tensorflow", reason="XLA must know the sizes in a loop")
def test_xla_compiles_the_tiles(by_tiles):
    import tensorflow as tf

    keys, mask = CASES["prefixes"]
    probe, arrays = inputs(keys)

    @tf.function(jit_compile=True)
    def form(probe, *x):
        with tf.GradientTape() as tape:
            tape.watch((probe, x))  # the gradient by the probe is the output
            loss = tf.reduce_sum(dot_product_attention(*x, mask) * probe)
        return tape.gradient(loss, (probe, *x))

    slopes = form(*map(tensor, (probe, *arrays)))
    assert all(by_tiles)
    for slope, wanted in zip(slopes, expected(keys, mask, probe, arrays), strict=True):
        np.testing.assert_allclose(to_numpy(slope), wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.backends("tensorflow", reason="other backends know the batch in a call")
@pytest.mark.parametrize(
    ("examples", "xla"), [(B, False), (4 * B, False), (4 * B, True)]
)
@pytest.mark.parametrize(
    "make",
    [masks.Segments, lambda ids: ids[:, None, None] > -1],
    ids=["object", "array"],
)
def test_a_mask_of_another_batch_is_refused(make, examples, xla, by_tiles):
    import tensorflow as tf

    mask = make(np.resize(IDS, (examples, T)))
    form = tf.function(
        lambda x: dot_product_attention(x, x, x, mask),
        [tf.TensorSpec((None, T, H, E))],
        jit_compile=xla,
    )
    with pytest.raises(tf.errors.InvalidArgumentError, match="shape"):
        form(tf.zeros((2 * B, T, H, E)))


@pytest.mark.slow_on("jax", "tensorflow")
def test_half_precision(by_tiles):
    keys, mask = CASES["texts"]
    probe, arrays = inputs(keys)
    arrays = [references.rounded(x, "bfloat16") for x in arrays]
    output = dot_product_attention(*(tensor(x, "bfloat16") for x in arrays), mask)
    wanted = expected(keys, mask, probe, arrays)[0]
    np.testing.assert_allclose(to_numpy(ops.cast(output, "float32")), wanted, atol=0.05)


@pytest.mark.backends("torch", reason="its kernels have no second gradient")
def test_second_gradients(by_tiles):
    import torch

    mask = CASES["prefixes"][1]
    _, arrays = inputs(T)
    arrays = [tensor(x[:, :, :1], "float64").requires_grad_() for x in arrays]
    form = lambda *x: dot_product_attention(*x, mask)  # noqa: E731
    assert torch.autograd.gradcheck(form, arrays, fast_mode=True)
    assert torch.autograd.gradgradcheck(form, arrays, fast_mode=True)
    assert all(by_tiles)


@pytest.mark.slow_on("jax")
@pytest.mark.backends("jax", "torch", reason="TensorFlow has tiles in graphs alone")
def test_texts_packed_equal_texts_apart():
    """With tiles of the usual size."""
    length = 4096 if BACKEND == "torch" else 640
    lengths = (np.array([0.31, 0.12, 0.5]) * length).astype(int)
    ids = np.repeat([1, 2, 3, 0], [*lengths, length - lengths.sum()])[None]
    mask = masks.Causal() & masks.Segments(ids)
    shape = 1, length, 2, 8
    probe, *arrays = references.normals(shape, shape, shape, shape)

    def packed(probe, *x):
        return ops.sum(dot_product_attention(*x, mask) * probe)

    def apart(probe, *x):
        ends = np.cumsum(lengths)
        texts = [slice(b - n, b) for b, n in zip(ends, lengths)]
        outputs = [
            dot_product_attention(*(y[:, n] for y in x), is_causal=True) * probe[:, n]
            for n in texts
        ]
        return sum(map(ops.sum, outputs))

    for x, y in zip(gradient(packed, probe, *arrays), gradient(apart, probe, *arrays)):
        np.testing.assert_allclose(x, y, rtol=1e-5, atol=1e-6)


@pytest.mark.backends("torch", reason="only torch replays calls")
def test_a_trace_does_not_keep_the_array(by_tiles):
    layer, x = layers.MultiHeadAttention(2, 4), references.normal(1, T, 8)
    fast = recorded(keras.Sequential([keras.Input((T, 8)), Packed(layer)]))
    by_tiles.clear()  # of symbolic calls
    for _ in range(4):
        fast(tensor(x))
    assert "reads the values" in " ".join(fast.refusals)
    assert all(by_tiles)


class Packed(keras.layers.Layer):
    """Attends inside of the segments that the inputs show."""

    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def call(self, x):
        ids = ops.cast(x[..., 0] > 0, "int32") + 1
        return self.layer(x, x, attention_mask=masks.Segments(ids))
