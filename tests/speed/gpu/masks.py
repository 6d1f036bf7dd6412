"""The masks of the rows, and attention in float64 on a slice, which checks results.

Shapes: B batch, T queries and keys, C queries of the slice, E width of a head.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from keras_attention.ops.positions import alibi_slopes
from speed.harness import SEED, NumericsError

TEXTS, WINDOW = 8, 256
CHECKED = 64  # queries
TOLERANCE = 0.02  # of a result in bfloat16: ‖error‖ / ‖result‖


class Mask:
    """A mask by its name, with random lengths and texts.

    Args:
        name: "none", "causal", "window", "texts", "ALiBi", or "padding 25 %" or
            "scattered 25 %", which leave out this share of the positions: the last ones
            of each example, with random lengths, or random ones. "window", "texts" and
            "ALiBi" are causal, as are names that end in ", causal".
        sizes: With the sizes B, T and H. The optional "window" is its width.
    """

    def __init__(self, name: str, sizes: Any) -> None:
        random = np.random.default_rng(SEED)
        batch, self.length, self.heads = (sizes[k] for k in "BTH")
        self.name, self.window = name, sizes.get("window", WINDOW)
        self.hides = name.startswith(("padding", "scattered"))
        self.causal = name.endswith(("causal", "window", "texts", "ALiBi"))
        self.valid = np.ones((batch, self.length), bool)
        if self.hides:
            share = int(name.split()[1]) / 100
            # Uniform between 1 − 2 share and 1, in pairs around the mean.
            half = share * random.uniform(-1, 1, (batch + 1) // 2)
            shares = 1 - share + np.stack([half, -half], 1).reshape(-1)[:batch]
            lengths = np.clip(np.round(shares * self.length), 1, self.length)
            self.valid = np.arange(self.length) < lengths[:, None]
        if name.startswith("scattered"):
            self.valid = random.permuted(self.valid, axis=1)
        self.lengths = self.valid.sum(1).astype("int32")
        self.ids = np.ones((batch, self.length), "int32")
        if name == "texts":
            for ids in self.ids:
                ends = random.choice(self.length - 1, TEXTS - 1, False) + 1
                ids[:] = 1 + np.isin(np.arange(self.length), ends).cumsum()
        self.slopes = alibi_slopes(self.heads) if name == "ALiBi" else None

    def allowed(self, example: int, t: np.ndarray) -> np.ndarray:
        """Returns booleans (C, T): which keys the queries t (C,) may attend to."""
        t, s, ids = t[:, None], np.arange(self.length)[None], self.ids[example]
        allowed = self.valid[example][None] & (ids[t] == ids[s])
        if self.causal:
            allowed = allowed & (s <= t)
        return allowed & (t - s < self.window) if self.name == "window" else allowed

    def full(self) -> np.ndarray:
        """Returns booleans (B, 1, T, T), or (1, 1, T, T) if all examples are alike."""
        alike = self.name != "texts" and not self.hides
        examples = range(1 if alike else len(self.lengths))
        t = np.arange(self.length)
        return np.stack([self.allowed(n, t) for n in examples])[:, None]

    def bias(self, head: int, t: np.ndarray) -> Any:
        """Returns the bias (C, T) of queries t (C,), or 0."""
        if self.slopes is None:
            return 0.0
        return -self.slopes[head] * np.abs(t[:, None] - np.arange(self.length))

    @property
    def pairs(self) -> float:
        """Returns the number of pairs of a valid query and a key, mean of the examples.

        Of a causal mask, it is half of all pairs, as in the FlashAttention papers.
        """
        if self.name == "window":
            w = min(self.window, self.length)
            return w * self.length - w * (w - 1) / 2
        # Examples consist of texts, most of one.
        texts = [np.bincount(i[v]) for i, v in zip(self.ids, self.valid)]
        every = float(np.mean([(n.astype(float) ** 2).sum() for n in texts]))
        return every / 2 if self.causal else every


class Slice(NamedTuple):
    """Queries of one example and head, and the right results."""

    example: int
    queries: np.ndarray  # (C,), sorted
    head: int
    results: list[np.ndarray]  # output (C, E); gradients of q (C, E), k and v (T, E)

    def error(self, results: list[np.ndarray]) -> float:
        """Returns the largest relative error of some results (T, E).

        Raises:
            NumericsError: If it is above the tolerance, or not finite.
        """
        worst = 0.0
        names = ("output", "dquery", "dkey", "dvalue")
        for n, (name, wanted, result) in enumerate(zip(names, self.results, results)):
            result = result[self.queries] if n < 2 else result
            worst = max(worst, relative_error(f"`{name}`", result, wanted, TOLERANCE))
        return worst


def relative_error(what: str, result: Any, right: Any, tolerance: float) -> float:
    """Returns ‖result − right‖ / ‖right‖.

    Raises:
        NumericsError: If it is above the tolerance, or not finite.
    """
    result, right = (np.asarray(x).astype("float64") for x in (result, right))
    error = float(np.linalg.norm(result - right) / np.linalg.norm(right))
    if not error <= tolerance:  # also true for NaN
        raise NumericsError(f"{what} differs by {error:.2g}, more than {tolerance}")
    return error


def exact(mask: Mask, query: Any, key: Any, value: Any, slope: Any) -> Slice:
    """Computes attention of some queries, and its gradients, in float64.

    Args:
        mask: The mask.
        query: (B, T, H, E), as the key, the value and the cotangent `slope`. Only the
            slope of the queries of the slice counts.
    """
    random = np.random.default_rng(SEED)
    example, head = int(np.argmin(mask.lengths)), min(1, mask.heads - 1)
    places = np.flatnonzero(mask.valid[example])
    t = np.sort(random.choice(places, min(CHECKED, len(places)), False))
    tensors = (query, key, value, slope)
    q, k, v, g = (x[example, :, head].astype("float64") for x in tensors)
    q, g, scale = q[t], g[t], q.shape[-1] ** -0.5
    scores = scale * q @ k.T + mask.bias(head, t)  # (C, T)
    scores = np.where(mask.allowed(example, t), scores, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    output, dweights = weights @ v, g @ v.T
    dscores = weights * (dweights - (g * output).sum(-1, keepdims=True))
    gradients = scale * dscores @ k, scale * dscores.T @ q, weights.T @ g
    return Slice(example, t, head, [output, *gradients])
