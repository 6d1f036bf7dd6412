"""Plain NumPy references in float64, and how tests compare with them."""

import numpy as np
from gradients import tensor, to_numpy
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

DTYPES = ("float32", "bfloat16", "float16")
# What one rounding to the dtype may change, as a part of the number; and the least
# number that the dtype tells from 0.
ROUNDING = {"float32": 0.0, "bfloat16": 2.0**-8, "float16": 2.0**-11}
SMALLEST = {"float32": 1e-37, "bfloat16": 1e-37, "float16": 2.0**-24}

examples = settings(
    deadline=None,
    derandomize=True,
    max_examples=20,
    suppress_health_check=[HealthCheck.too_slow],
)


def arrays(shape, size=8.0):
    """Hypothesis draws float32 arrays, each number 0 or between 0.001 and ±size."""
    numbers = st.floats(-size, size, width=32)
    floats = hnp.arrays(np.float32, shape, elements=numbers)
    return floats.map(lambda x: np.where(np.abs(x) < 1e-3, 0, x))


def booleans(shape):
    return hnp.arrays(np.bool_, shape)


def normal(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


def spread(random, *shape):
    """Positive numbers that sum to one over the last axis."""
    y = random.random(shape)
    return y / y.sum(axis=-1, keepdims=True)


def normals(*shapes, dtype="float64"):
    """An array of each shape, each from its own seed."""
    return [normal(*s, seed=i).astype(dtype) for i, s in enumerate(shapes)]


def holed(batch, length):
    """Masks of two memories: the first has a hole, of the second nothing is seen."""
    mask = np.ones((batch, length), bool)
    mask[0, 3] = mask[1] = False
    return mask


def holed_pairs(batch, queries, keys):
    """The whole second story is masked, one query of the first, and one of its keys."""
    mask = np.ones((batch, queries, keys), bool)
    mask[1] = mask[0, 1] = mask[0, :, 3] = False
    return mask


def sentence_position(j, count, width, encoding="position"):
    """lⱼ of the j-th of so many words, as many numbers as an embedding has."""
    k = np.arange(1, width + 1)
    if encoding == "bag":
        return np.ones(width)
    if encoding == "position":
        return (1 - j / count) - (k / width) * (1 - 2 * j / count)
    assert encoding == "centered_position"
    return 1 + 4 * (k - (width + 1) / 2) * (j - (count + 1) / 2) / (width * count)


def sentences(tokens, table, encoding="position", length=None):
    """Σⱼ lⱼ ∘ A xⱼ of each sentence, word by word; j counts words only."""
    width = table.shape[1]
    out = np.zeros((*tokens.shape[:-1], width))
    for i in np.ndindex(tokens.shape[:-1]):
        words = tokens[i][tokens[i] != 0]
        for j, word in enumerate(words, 1):
            count = length or len(words)
            out[i] += sentence_position(j, count, width, encoding) * table[word]
    return out


def rounded(x, dtype):
    """What is left of the numbers x in a dtype, in float64."""
    return to_numpy(tensor(x, dtype))


def assert_rounds_to(actual, expected, dtype, slack=1e-5, floor=1e-7):
    """Equal up to float32 arithmetic and one rounding to the dtype at the end."""
    tolerance = (ROUNDING[dtype] + slack) * np.abs(expected) + SMALLEST[dtype] + floor
    actual = to_numpy(actual)
    assert actual.shape == expected.shape
    assert np.all(np.abs(actual - expected) <= tolerance), (
        f"largest error {np.max(np.abs(actual - expected))}"
    )


def differences(f, x, step=1e-6):
    """The gradient of a scalar f of a float64 array, by central differences."""
    x = np.array(x, "float64")
    slope = np.zeros_like(x)
    for i in np.ndindex(x.shape):
        up, down = x.copy(), x.copy()
        up[i] += step
        down[i] -= step
        slope[i] = (f(up) - f(down)) / (2 * step)
    return slope


def softmax(z, mask=None):
    """exp(zᵢ) / Σⱼ exp(zⱼ) over what is allowed, 0 elsewhere."""
    return _exponential(z, mask, lambda allowed: 0)


def softmax1(z, mask=None):
    """A softmax with one more score of 0 whose weight is thrown away."""
    return _exponential(z, mask, lambda allowed: 1)


def null_softmax(z, mask=None, slots=1):
    """A softmax with one more score of 0 for each slot that is not filled."""
    return _exponential(z, mask, lambda allowed: max(slots - allowed, 0))


def _exponential(z, mask, zeros):
    """A softmax with so many more scores of 0; zeros is a function of what is there."""
    z = np.asarray(z, "float64")
    mask = np.broadcast_to(True if mask is None else mask, z.shape)
    out = np.zeros(z.shape)
    for row in np.ndindex(z.shape[:-1]):
        allowed = z[row][mask[row]]
        if allowed.size:
            more = np.zeros(zeros(allowed.size))
            top = max([*allowed, *more])
            e = np.exp(allowed - top)
            out[row][mask[row]] = e / (e.sum() + np.exp(more - top).sum())
    return out


def entmax(z, mask=None, alpha=1.5):
    """max((α−1)zᵢ − τ, 0)^(1/(α−1)), τ by bisection so that a row sums to one."""
    z = np.asarray(z, "float64") * (alpha - 1)
    mask = np.broadcast_to(True if mask is None else mask, z.shape)
    out = np.zeros(z.shape)
    for row in np.ndindex(z.shape[:-1]):
        allowed = z[row][mask[row]]
        if not allowed.size:
            continue
        allowed = allowed - allowed.max()  # τ lies between −1 and 0
        low, high = -1.0, 0.0
        for _ in range(80):
            tau = (low + high) / 2
            total = (np.maximum(allowed - tau, 0) ** (1 / (alpha - 1))).sum()
            low, high = (tau, high) if total >= 1 else (low, tau)
        out[row][mask[row]] = np.maximum(allowed - low, 0) ** (1 / (alpha - 1))
    return out


def sparsemax(z, mask=None):
    return entmax(z, mask, alpha=2.0)


def hardmax(z, mask=None):
    """1 for the first of the greatest scores that are allowed."""
    z = np.asarray(z, "float64")
    mask = np.broadcast_to(True if mask is None else mask, z.shape)
    out = np.zeros(z.shape)
    for row in np.ndindex(z.shape[:-1]):
        places = np.flatnonzero(mask[row])
        if places.size:
            out[row][places[np.argmax(z[row][places])]] = 1
    return out


def linear(z, mask=None):
    return np.asarray(z, "float64") * (True if mask is None else mask)


NORMALIZERS = {
    "softmax": softmax,
    "softmax1": softmax1,
    "sparsemax": sparsemax,
    "entmax15": entmax,
    "hardmax": hardmax,
    "linear": linear,
}


def each_pair(f):
    """A score of (..., T, D) and (..., S, D) from one of two vectors."""

    def score(query, key):
        query, key = np.asarray(query, "float64"), np.asarray(key, "float64")
        shape = (*query.shape[:-1], key.shape[-2])
        out = np.zeros(shape)
        for i in np.ndindex(shape):
            out[i] = f(query[i[:-1]], key[(*i[:-2], i[-1])])
        return out

    return score


def _cosine(q, k):
    lengths = np.linalg.norm(q) * np.linalg.norm(k)
    return 0.0 if lengths == 0 else q @ k / lengths


SCORES = {
    "dot": each_pair(lambda q, k: q @ k),
    "scaled_dot": each_pair(lambda q, k: q @ k / np.sqrt(q.size)),
    "cosine": each_pair(_cosine),
    "rbf": each_pair(lambda q, k: -np.sum((q - k) ** 2)),
}


def heads_attention(query, key, value, probe, allowed, bias=0.0):
    """The output of scaled dot-product attention, and gradients of Σ probe · output.

    Args:
        query, key: (B, T or S, H or G, E); G heads of keys and values.
        value, probe: (B, S or T, G or H, V).
        allowed: where a query may attend, (B, H, T, S).
        bias: of the scores.

    Returns:
        The output, and the gradients of query, key, value and the scores.
    """
    by_heads = (np.swapaxes(x, 1, 2) for x in (query, key, value, probe))
    query, key, value, slope = by_heads
    groups, share = key.shape[1], query.shape[1] // key.shape[1]
    key, value = (np.repeat(x, share, axis=1) for x in (key, value))
    scale = np.sqrt(query.shape[-1])
    scores = query @ np.swapaxes(key, 2, 3) / scale + bias
    weights = np.where(allowed, np.exp(scores), 0)
    total = weights.sum(-1, keepdims=True)
    weights = weights / np.where(total, total, 1)
    part = weights * (slope @ np.swapaxes(value, 2, 3))
    part = part - weights * part.sum(-1, keepdims=True)  # the gradient of the scores
    grouped = [
        x.reshape(len(x), groups, share, *x.shape[2:]).sum(2)
        for x in (
            np.swapaxes(part, 2, 3) @ query / scale,
            np.swapaxes(weights, 2, 3) @ slope,
        )
    ]
    results = [weights @ value, part @ key / scale, *grouped]
    return [*(np.swapaxes(x, 1, 2) for x in results), part]


def attention(query, key, value, score="dot", normalizer="softmax", mask=None):
    """Output and weights of attention, from the names of score and normalizer."""
    weights = NORMALIZERS[normalizer](SCORES[score](query, key), mask)
    return weights @ np.asarray(value, "float64"), weights
