"""Random sampling from the k most probable tokens.

Shapes: B batch, V words of the vocabulary.
"""

from __future__ import annotations

from typing import Any

from keras import ops

from keras_attention.layers.base.arguments import positive
from keras_attention.layers.base.serialization import export
from keras_attention.samplers.sampler import StochasticSampler
from keras_attention.samplers.truncation import draw_best

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

    def get_config(self) -> dict[str, Any]:
        return {"k": self.k, **super().get_config()}
