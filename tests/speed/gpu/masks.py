"""The masks of the rows, and attention in float64 on a slice, which checks results.

Shapes: B batch, T queries and keys, C queries of the slice, D width of a head.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from keras_attention.ops.positions import alibi_slopes
from speed.harness import SEED, NumericsError

TEXTS, WINDOW = 8, 256
CHECKED = 64  # queries
TOLERANCE = 0.02  # of a result in bfloat16: ‖error‖ / ‖result‖
FACTOR = {"fwd": 1.0, "fwd+bwd": 3.5}  # of operations, as the FlashAttention papers


class Mask:
    """A mask by its name, with random lengths and texts.

    "padding 25 %" has random lengths; together they leave out 25 % of the positions.
    "scattered 25 %" leaves out random positions instead of the last ones.

    Args:
        name: "none", "causal", "window", "texts", "ALiBi", or "padding" or "scattered"
            with a share. "window", "texts" and "ALiBi" are causal, as is a padding
            whose name ends in ", causal".
        sizes: With the sizes B, T and H. The optional "window" is w.
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
            cuts = [
                np.sort(random.choice(self.length - 1, TEXTS - 1, False)) + 1
                for _ in range(batch)
            ]
            places = np.arange(self.length)
            ids = [np.searchsorted(cut, places, "right") + 1 for cut in cuts]
            self.ids = np.stack(ids).astype("int32")
        self.slopes = alibi_slopes(self.heads) if name == "ALiBi" else None

    def allowed(self, example: int, t: np.ndarray) -> np.ndarray:
        """Returns booleans (C, T): which keys the queries t (C,) may attend to."""
        t, s, ids = t[:, None], np.arange(self.length)[None], self.ids[example]
        allowed = self.valid[example][None] & (ids[t] == ids[s])
        if self.causal:
            allowed = allowed & (s <= t)
        return allowed & (t - s < self.window) if self.name == "window" else allowed

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
        if self.name == "texts":
            counts = [np.bincount(ids) for ids in self.ids]
            return float(np.mean([(n.astype(float) ** 2).sum() / 2 for n in counts]))
        every = float(np.mean(self.lengths.astype(float) ** 2))
        return every / 2 if self.causal else every


def flops(mask: Mask, sizes: Any) -> float:
    """Returns the operations of a call: two products of each pair, D wide."""
    forward = 4 * sizes["B"] * sizes["H"] * sizes["D"] * mask.pairs
    return forward * FACTOR[sizes["mode"]]


class Slice(NamedTuple):
    """Queries of one example and head, their cotangent, and the right results."""

    example: int
    head: int
    queries: np.ndarray  # (C,), sorted
    results: list[np.ndarray]  # output (C, D); gradients of q (C, D), k and v (T, D)

    def error(self, results: list[np.ndarray]) -> float:
        """Returns the largest relative error of some results (T, D).

        Raises:
            NumericsError: If it is above the tolerance, or not finite.
        """
        worst = 0.0
        names = ("output", "dquery", "dkey", "dvalue")
        for n, (name, wanted, _) in enumerate(zip(names, self.results, results)):
            result = results[n].astype("float64")
            result = result[self.queries] if n < 2 else result
            error = np.linalg.norm(result - wanted) / np.linalg.norm(wanted)
            if not error <= TOLERANCE:  # also true for NaN
                raise NumericsError(
                    f"`{name}` differs by {error:.2g} from attention in float64, more "
                    f"than {TOLERANCE}"
                )
            worst = max(worst, float(error))
        return worst


def exact(mask: Mask, query: Any, key: Any, value: Any, slope: Any) -> Slice:
    """Computes attention of some queries, and its gradients, in float64.

    Args:
        mask: The mask.
        query: (B, T, H, D), as the key, the value and the cotangent `slope`. Only the
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
    return Slice(example, head, t, [output, *gradients])
