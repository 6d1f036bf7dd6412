"""Positions: their equations, their exactness, and what they promise to attention."""

import math

import keras
import ml_dtypes
import numpy as np
import pytest
import references
from gradients import tensor, to_numpy
from heads import close, normal

from keras_attention import layers
from keras_attention.ops import positions

B, T, H, E = 2, 11, 3, 10
BFLOAT16_STEP = 2.0**-8  # half of what bfloat16 tells apart just below 1, twice


# Sine waves.


def waves(length, width, wavelength=1e4):
    """Section 3.5 of the paper, number by number."""
    out = np.zeros((length, width))
    for p in range(length):
        for i in range(width):
            angle = p / wavelength ** (2 * (i // 2) / width)
            out[p, i] = math.cos(angle) if i % 2 else math.sin(angle)
    return out


@pytest.mark.parametrize("width", [1, 6, 7])
@pytest.mark.parametrize("wavelength", [1e4, 30.0])
def test_waves_equal_the_paper(width, wavelength):
    x = np.zeros((B, T, width), "float32")
    found = layers.SinePositionEncoding(wavelength)(x)
    expected = np.broadcast_to(waves(T, width, wavelength), x.shape)
    close(found, expected)
    later = layers.SinePositionEncoding(wavelength)(x[:, 4:], start=4)
    close(later, expected[:, 4:])


@pytest.mark.parametrize("dtype", ["bfloat16", "mixed_bfloat16", "float16"])
def test_waves_are_exact_in_half_precision(dtype):
    # KerasHub's encoding is off by up to 2 at these positions in bfloat16.
    layer = layers.SinePositionEncoding(dtype=dtype)
    x = np.zeros((1, 2048, 8), "float32")
    compute = layer.dtype_policy.compute_dtype
    found = layer(tensor(x, compute))
    assert keras.backend.standardize_dtype(found.dtype) == compute
    exact = waves(2048, 8)
    rounded = exact.astype(getattr(ml_dtypes, compute, compute)).astype("float64")
    step = abs(rounded - exact) + references.ROUNDING[compute] * abs(exact) + 2e-4
    assert (abs(to_numpy(found)[0] - exact) <= step).all()


def test_waves_carry_the_mask_of_their_inputs():
    tokens = keras.Input((None,), dtype="int32")
    x = keras.layers.Embedding(5, 4, mask_zero=True)(tokens)
    y = keras.layers.Add()([x, layers.SinePositionEncoding()(x)])
    pooled = keras.layers.GlobalAveragePooling1D()(y)
    model = keras.Model(tokens, pooled)
    short, long = np.array([[1, 2]]), np.array([[1, 2, 0, 0]])
    close(model(short), to_numpy(model(long)))


# Rotary embeddings.


def turned(x, rates, interleaved=False, amplitude=1.0, start=0):
    """Pairs as complex numbers, turned by e^{i p θ}."""
    x = np.asarray(x, "float64")
    half = x.shape[-1] // 2
    pairs = (
        (x[..., 0::2], x[..., 1::2]) if interleaved else (x[..., :half], x[..., half:])
    )
    angle = (start + np.arange(x.shape[1]))[:, None, None] * rates
    z = amplitude * (pairs[0] + 1j * pairs[1]) * np.exp(1j * angle)
    if interleaved:
        return np.stack([z.real, z.imag], -1).reshape(x.shape)
    return np.concatenate([z.real, z.imag], -1)


@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize("factor", [1.0, 4.0])
def test_rotation_equals_the_paper(interleaved, factor):
    x = normal(B, T, H, E)
    layer = layers.RotaryEmbedding(
        max_wavelength=100.0, factor=factor, interleaved=interleaved
    )
    rates = 100.0 ** (-2 * np.arange(E // 2) / E) / factor
    close(layer(x), turned(x, rates, interleaved))
    close(layer(x, start=5), turned(x, rates, interleaved, start=5))
    one = layer(x[:, :, 0])  # without an axis of heads
    close(one, turned(x, rates, interleaved)[:, :, 0])


def yarn_by_hand(width, wavelength, factor, length, fast, slow):
    """Equations 17, 18 of the paper, with the ramp over indices of its code."""

    def index(turns):
        return (
            width * math.log(length / (turns * 2 * math.pi)) / 2 / math.log(wavelength)
        )

    low = max(math.floor(index(fast)), 0)
    high = min(math.ceil(index(slow)), width - 1)
    out = []
    for i in range(width // 2):
        rate = wavelength ** (-2 * i / width)
        scaled = min(max((i - low) / (high - low), 0), 1)
        out.append(rate * (1 - scaled) + rate / factor * scaled)
    return np.array(out)


def test_yarn_spares_the_fast_and_scales_the_slow():
    layer = layers.RotaryEmbedding(
        scaling="yarn", factor=4.0, original_length=256, fast=16.0, slow=2.0
    )
    x = normal(1, T, 1, 32)
    rates = yarn_by_hand(32, 1e4, 4.0, 256, 16.0, 2.0)
    plain = 1e4 ** (-np.arange(16) / 16)
    assert rates[0] == plain[0]
    np.testing.assert_allclose(rates[-1], plain[-1] / 4)
    np.testing.assert_allclose(
        positions.yarn_rates(32, 1e4, 4.0, 256, 16.0, 2.0), rates
    )
    close(layer(x), turned(x, rates, amplitude=0.1 * math.log(4) + 1))


@pytest.mark.parametrize("scaling", ["linear", "yarn"])
def test_scores_depend_on_the_distance_alone(scaling):
    layer = layers.RotaryEmbedding(scaling=scaling, factor=2.0, original_length=64)
    q, k = normal(1, 1, 1, E), normal(1, 1, 1, E, seed=1)

    def score(p, r):
        return (to_numpy(layer(q, start=p)) * to_numpy(layer(k, start=r))).sum()

    for far in (17, 300):
        np.testing.assert_allclose(
            score(far + 5, far), score(5, 0), rtol=1e-3, atol=1e-3
        )
    assert abs(score(5, 0) - score(0, 5)) > 1e-2


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_rotation_is_rounded_once(dtype):
    layer = layers.RotaryEmbedding(dtype=dtype)
    x = references.rounded(normal(1, T, H, E), dtype)
    found = to_numpy(layer(tensor(x, dtype), start=2000))
    expected = turned(x, 1e4 ** (-2 * np.arange(E // 2) / E), start=2000)
    np.testing.assert_allclose(found, expected, rtol=BFLOAT16_STEP, atol=2e-3)


# ALiBi.


@pytest.mark.parametrize(
    ("heads", "slopes"),
    [
        (1, [2**-8]),
        (4, [2**-2, 2**-4, 2**-6, 2**-8]),
        # Those of four heads, then the first and third of eight.
        (6, [2**-2, 2**-4, 2**-6, 2**-8, 2**-1, 2**-3]),
    ],
)
def test_slopes_of_alibi(heads, slopes):
    assert positions.alibi_slopes(heads).tolist() == slopes
    scores = normal(B, heads, 3, 5)
    distance = abs(np.arange(3)[:, None] - np.arange(5))
    expected = scores - np.array(slopes)[:, None, None] * distance
    close(layers.AlibiBias()(scores), expected)


def test_a_bias_of_scores_is_symbolic_too():
    scores = keras.Input((2, 3, None))
    assert layers.AlibiBias()(scores=scores).shape == (None, 2, 3, None)


# T5.


def bucket_by_hand(distance, buckets, most, bidirectional):
    """As in the code of T5, with the logarithm in float64 and a hair of slack."""
    first = 0
    if bidirectional:
        buckets //= 2
        first = buckets * (distance > 0)
        distance = abs(distance)
    else:
        distance = max(-distance, 0)
    exact = buckets // 2
    if distance < exact:
        return first + distance
    share = math.log(distance / exact) / math.log(most / exact)
    return first + min(exact + int(share * (buckets - exact) + 1e-9), buckets - 1)


@pytest.mark.parametrize("bidirectional", [True, False])
@pytest.mark.parametrize(("buckets", "most"), [(32, 128), (8, 20), (6, 11)])
def test_buckets_equal_t5(bidirectional, buckets, most):
    distance = np.arange(-2 * most, 2 * most + 1)
    found = positions.relative_buckets(distance, buckets, most, bidirectional)
    expected = [bucket_by_hand(d, buckets, most, bidirectional) for d in distance]
    assert to_numpy(found, "int32").tolist() == expected


def test_a_relative_bias_is_read_from_its_table():
    layer = layers.RelativePositionBias(8, 5, bidirectional=False)
    scores = normal(B, H, 7, 6)
    layer(scores)
    layer.set_weights([normal(8, H)])
    # Distances 0 … 4 have buckets of their own; all keys ahead are in bucket 0.
    distance = np.maximum(np.arange(7)[:, None] - np.arange(6), 0)
    bucket = np.where(distance < 5, distance, 7)
    close(layer(scores), scores + np.moveaxis(normal(8, H)[bucket], -1, 0))


# Bad input.


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: layers.SinePositionEncoding(1), "`max_wavelength` must be above 1"),
        (lambda: layers.RotaryEmbedding(0.5), "`max_wavelength` must be above 1"),
        (lambda: layers.RotaryEmbedding(scaling="ntk"), "`scaling` must be"),
        (lambda: layers.RotaryEmbedding(factor=0.5), "`factor` must be at least 1"),
        (lambda: layers.RotaryEmbedding(fast=1.0), "`slow` must be positive and less"),
        (lambda: layers.RelativePositionBias(3), "`buckets` must be even and at least"),
        (lambda: layers.RelativePositionBias(64, 16), "`max_distance` must be greater"),
        (
            lambda: layers.RotaryEmbedding()(np.ones((1, 2, 3, 5), "float32")),
            "must be even. Received: width=5",
        ),
        (
            lambda: layers.RotaryEmbedding()(np.ones((1, 4), "float32")),
            "`inputs` must have shape",
        ),
        (
            lambda: layers.SinePositionEncoding()(np.ones((1, 4), "float32")),
            "`inputs` must have rank 3",
        ),
        (
            lambda: layers.AlibiBias()(np.ones((1, 2, 4), "float32")),
            "`scores` must have rank 4",
        ),
    ],
)
def test_bad_input_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()
