"""The age of each sentence of a story.

Shapes: B batch, M memory slots, L words, D width.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

import keras
from keras import ops

from keras_attention.layers.base import sampling
from keras_attention.layers.base.arguments import number, positive
from keras_attention.layers.base.checked import check_whole
from keras_attention.layers.base.serialization import Configured, export
from keras_attention.numerics import masks
from keras_attention.ops import positions

Tensor = Any


@export
class MemoryAge(Configured, keras.layers.Layer):
    """The age of each sentence of a story: 1 for the last, 0 for an empty slot.

    An embedding of these ages is the temporal encoding T_A(i) of a memory network.
    During training, `noise` inserts random gaps between the ages. The network then
    learns "before" and "after" instead of exact ages.

    Args:
        memory_size: the largest age. All older sentences get this age.
        noise: the largest number of inserted empty memories, as a fraction of the
            story's length. The paper uses 0.1.
        seed: the random seed of the noise.

    Call arguments:
        inputs: integers (B, M, L), sentences in reading order; token 0 is padding.
        training: whether to add noise.

    Returns:
        The ages, int32 (B, M).

    Example:

    >>> import numpy as np
    >>> from keras_attention.layers import MemoryAge
    >>> story = np.array([[[5, 2], [4, 0], [3, 1], [0, 0]]])
    >>> np.asarray(MemoryAge(memory_size=50)(story)).tolist()
    [[3, 2, 1, 0]]

    Reference:
        Sukhbaatar et al., "End-to-end memory networks" (2015), section 4.1.
    """

    input_ranks: ClassVar[Any] = {"inputs": 3}

    def __init__(
        self,
        memory_size: int,
        noise: float = 0.0,
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if number("noise", noise) < 0:
            raise ValueError(f"`noise` must not be negative. Received: noise={noise}")
        self.memory_size = positive("memory_size", memory_size)
        self.noise = noise
        self.seed = seed
        self.seed_generator = keras.random.SeedGenerator(seed) if noise else None
        self.built = True

    def call(self, inputs: Tensor, training: bool | None = None) -> Tensor:
        check_whole("inputs", inputs)
        ages = positions.age(ops.any(masks.padding(inputs), axis=-1))  # (B, M)
        if self.noise and training:
            batch, slots = ops.shape(inputs)[:2]
            size = inputs.shape[1] if inputs.shape[1] is not None else slots
            places = 1 + size + self._most(size)
            draws = sampling.uniform((batch, places), self.seed_generator)
            ages = positions.insert_gaps(ages, draws, self.noise)
        return ops.minimum(ages, self.memory_size)

    def compute_output_spec(
        self, inputs: Tensor, training: bool | None = None
    ) -> keras.KerasTensor:
        return keras.KerasTensor(inputs.shape[:2], "int32")

    def _most(self, slots: Any) -> Any:
        if isinstance(slots, int):
            return math.ceil(self.noise * slots)
        return ops.cast(ops.ceil(self.noise * ops.cast(slots, "float32")), "int32")
