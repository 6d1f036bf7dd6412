"""Random sampling from the k most probable tokens.

Shapes: B batch, V words of the vocabulary.
"""

from __future__ import annotations

from typing import Any

from keras import ops

from keras_attention.layers.base.arguments import positive
from keras_attention.layers.base.serialization import export
from keras_attention.samplers.sampler import StochasticSampler

Tensor = Any


@export
class TopKSampler(StochasticSampler):
    """Samples the next token from the k most probable tokens.

    The probabilities of these tokens are renormalized. For call arguments and return
    values, see `Sampler`.

    Args:
        k: the number of tokens; if the vocabulary is smaller, all tokens are used.
        temperature: above 0, see `RandomSampler`.
        seed: an integer for reproducible samples, or None.

    Raises:
        ValueError: if k is below 1, or the temperature is not above 0.

    Reference:
        Fan, Lewis & Dauphin, "Hierarchical neural story generation" (2018).
    """

    def __init__(
        self, k: int = 5, temperature: float = 1.0, seed: int | None = None
    ) -> None:
        self.k = positive("k", k)
        super().__init__(temperature, seed)

    def choose(self, logits: Tensor, uniforms: Tensor) -> Tensor:
        best, words = ops.top_k(logits, min(self.k, logits.shape[-1]))  # (B, ·)
        return draw_best(best / self.temperature, words, uniforms)


def draw_best(best: Tensor, words: Tensor, uniforms: Tensor) -> Tensor:
    """Samples one of the k best words of each row with P = softmax(best).

    It samples the same words as `ops.decoding.draw` of the softmax. In sorted rows, the
    number of cumulative sums up to u times the total is the sampled place; XLA computes
    this faster than an argmax and a gather.

    `best` (B, k) has the scores of the words (B, k), the largest first; `uniforms`, u,
    are (B,), in [0, 1). A word with probability 0 is never sampled.
    """
    # Not best[:, :1]: with a slice of its result, top_k is 70 times slower on XLA.
    weights = ops.exp(best - ops.max(best, axis=-1, keepdims=True))
    sums = ops.cumsum(weights, axis=-1)  # (B, ·)
    total = ops.max(sums, axis=-1, keepdims=True)
    # Behind the first sum that equals the total, all weights are 0.
    passed = ops.logical_and(sums <= uniforms[:, None] * total, sums < total)
    place = ops.sum(ops.cast(passed, "int32"), axis=-1, keepdims=True)  # (B, 1)
    chosen = ops.equal(ops.arange(words.shape[-1], dtype="int32"), place)
    return ops.sum(ops.where(chosen, words, ops.zeros_like(words)), axis=-1)
