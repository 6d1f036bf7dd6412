"""Random sampling from the whole vocabulary.

Shapes: B batch, V words of the vocabulary.
"""

from __future__ import annotations

from typing import Any

from keras_attention.layers.base.serialization import export
from keras_attention.numerics import normalizers
from keras_attention.ops.sequence import decoding
from keras_attention.samplers.sampler import StochasticSampler

Tensor = Any


@export
class RandomSampler(StochasticSampler):
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

    def choose(self, logits: Tensor, uniforms: Tensor) -> Tensor:
        return decoding.draw(normalizers.softmax(logits / self.temperature), uniforms)
