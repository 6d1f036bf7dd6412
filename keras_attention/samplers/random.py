"""Tokens drawn by chance: from all words, from the likeliest k, from a nucleus.

Shapes: B batch, V words of the vocabulary.
"""

from __future__ import annotations

from typing import Any

from keras import ops

from keras_attention.layers.arguments import positive
from keras_attention.layers.export import export
from keras_attention.ops import decoding, normalizers
from keras_attention.samplers.base import (
    Chance,
    Request,
    Sampler,
    above_zero,
    one_by_one,
)

Tensor = Any


@export
class RandomSampler(Sampler):
    """Draws the next token as often as the model says it comes.

        P(w) = softmax(logits / τ)_w

    Call arguments and what is returned: see `Sampler`.

    Args:
        temperature: τ, above 0: below 1 the likely become likelier, above 1 all come
            closer to each other.
        seed: an integer with which the draws repeat, or None.

    Raises:
        ValueError: if the temperature is not above 0.
    """

    def __init__(self, temperature: float = 1.0, seed: int | None = None) -> None:
        self.temperature = above_zero("temperature", temperature)
        self.seed = seed
        self.chance = Chance(seed)

    def search(self, request: Request) -> Tensor:
        return one_by_one(request, self._choose)

    def _choose(self, logits: Tensor, uniforms: Tensor) -> Tensor:
        return decoding.draw(normalizers.softmax(logits / self.temperature), uniforms)

    def draw(self, batch: Any, length: Any, seed: int | None = None) -> Tensor:
        return self.chance.draw(batch, length, seed)

    @property
    def variables(self) -> list:
        return self.chance.variables

    def get_config(self) -> dict[str, Any]:
        return {"temperature": self.temperature, "seed": self.seed}


@export
class TopKSampler(Sampler):
    """Draws the next token from the k likeliest, in proportion to each other.

    Call arguments and what is returned: see `Sampler`.

    Args:
        k: how many; all, where the vocabulary has fewer.
        temperature: above 0, see `RandomSampler`.
        seed: an integer with which the draws repeat, or None.

    Raises:
        ValueError: if k is below 1 or the temperature not above 0.

    Reference:
        Fan, Lewis & Dauphin, "Hierarchical neural story generation" (2018).
    """

    def __init__(
        self, k: int = 5, temperature: float = 1.0, seed: int | None = None
    ) -> None:
        self.k = positive("k", k)
        self.temperature = above_zero("temperature", temperature)
        self.seed = seed
        self.chance = Chance(seed)

    def search(self, request: Request) -> Tensor:
        return one_by_one(request, self._choose)

    def _choose(self, logits: Tensor, uniforms: Tensor) -> Tensor:
        best, words = ops.top_k(logits, min(self.k, logits.shape[-1]))  # (B, ·)
        chances = normalizers.softmax(best / self.temperature)
        return _of(words, decoding.draw(chances, uniforms))

    def draw(self, batch: Any, length: Any, seed: int | None = None) -> Tensor:
        return self.chance.draw(batch, length, seed)

    @property
    def variables(self) -> list:
        return self.chance.variables

    def get_config(self) -> dict[str, Any]:
        return {"k": self.k, "temperature": self.temperature, "seed": self.seed}


@export
class TopPSampler(Sampler):
    """Draws the next token from the nucleus: the fewest that have probability p.

    The nucleus are the likeliest tokens, as many as it takes for their probabilities to
    sum to p, and at most k. Within it, they are drawn in proportion to each other.

    Call arguments and what is returned: see `Sampler`.

    Args:
        p: above 0 and at most 1.
        k: the most tokens of a nucleus, or None for no such bound.
        temperature: above 0, see `RandomSampler`; it comes before the nucleus.
        seed: an integer with which the draws repeat, or None.

    Raises:
        ValueError: if p is not in (0, 1], k below 1 or the temperature not above 0.

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
        self.temperature = above_zero("temperature", temperature)
        self.seed = seed
        self.chance = Chance(seed)

    def search(self, request: Request) -> Tensor:
        return one_by_one(request, self._choose)

    def _choose(self, logits: Tensor, uniforms: Tensor) -> Tensor:
        chances = normalizers.softmax(logits / self.temperature)  # (B, V)
        if self.k is None:
            return decoding.draw(decoding.nucleus(chances, self.p), uniforms)
        best, words = ops.top_k(chances, min(self.k, logits.shape[-1]))  # (B, ·)
        return _of(words, decoding.draw(decoding.nucleus(best, self.p), uniforms))

    def draw(self, batch: Any, length: Any, seed: int | None = None) -> Tensor:
        return self.chance.draw(batch, length, seed)

    @property
    def variables(self) -> list:
        return self.chance.variables

    def get_config(self) -> dict[str, Any]:
        return {
            "p": self.p,
            "k": self.k,
            "temperature": self.temperature,
            "seed": self.seed,
        }


def _of(words: Tensor, place: Tensor) -> Tensor:
    """The word at one place of each row."""
    return ops.take_along_axis(words, place[:, None], axis=-1)[:, 0]  # (B,)
