"""Random sampling from the whole vocabulary.

Shapes: B batch, V words of the vocabulary.
"""

from __future__ import annotations

from typing import Any

from keras_attention.layers.base.serialization import export
from keras_attention.numerics import normalizers
from keras_attention.ops.sequence import decoding
from keras_attention.samplers.sampler import (
    Chance,
    Request,
    Sampler,
    above_zero,
    one_by_one,
)

Tensor = Any


@export
class RandomSampler(Sampler):
    """Samples the next token from the distribution of the model.

        P(w) = softmax(logits / τ)_w

    For call arguments and return values, see `Sampler`.

    Args:
        temperature: τ, above 0. Values below 1 sharpen the distribution; values above 1
            flatten it.
        seed: an integer for reproducible samples, or None.

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
