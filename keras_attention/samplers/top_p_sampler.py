"""Random sampling from the nucleus of the distribution.

Shapes: B batch, V words of the vocabulary.
"""

from __future__ import annotations

from typing import Any

from keras import ops

from keras_attention.layers.base.arguments import positive
from keras_attention.layers.base.serialization import export
from keras_attention.numerics import normalizers
from keras_attention.ops.sequence import decoding
from keras_attention.samplers.sampler import StochasticSampler, above_zero

Tensor = Any


@export
class TopPSampler(StochasticSampler):
    """Samples the next token from the fewest tokens with a total probability of p.

    The nucleus contains the most probable tokens, as many as are needed for a total
    probability of p, but at most k. Their probabilities are renormalized.

    For call arguments and return values, see `Sampler`.

    Args:
        p: the total probability of the nucleus, above 0 and at most 1.
        k: the maximum number of tokens in the nucleus, or None for no limit.
        temperature: above 0, see `RandomSampler`. It is applied before the nucleus is
            selected.
        seed: an integer for reproducible samples, or None.

    Raises:
        ValueError: if p is not in (0, 1], k is below 1, or the temperature is not above
            0.

    Reference:
        Holtzman et al., "The curious case of neural text degeneration" (2020).
    """

    def __init__(
        self,
        p: float = 0.9,
        k: int | None = None,
        temperature: float = 1.0,
        seed: int | None = None,
    ) -> None:
        self.p = above_zero("p", p, most=1)
        self.k = None if k is None else positive("k", k)
        super().__init__(temperature, seed)

    def choose(self, logits: Tensor, uniforms: Tensor) -> Tensor:
        chances = normalizers.softmax(logits / self.temperature)  # (B, V)
        if self.k is None:
            return decoding.draw(decoding.nucleus(chances, self.p), uniforms)
        best, words = ops.top_k(chances, min(self.k, logits.shape[-1]))  # (B, ·)
        place = decoding.draw(decoding.nucleus(best, self.p), uniforms)
        return ops.take_along_axis(words, place[:, None], axis=-1)[:, 0]
