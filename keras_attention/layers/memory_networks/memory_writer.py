"""G of a memory network: writes sentences into memory slots.

Shapes: B batch, M memory slots, L words. "·" is the number of features of a sentence or
of fields of a record.
"""

from __future__ import annotations

from typing import Any, ClassVar

import keras
from keras import ops

from keras_attention.layers.base.arguments import positive
from keras_attention.layers.base.checked import check_ids
from keras_attention.layers.base.serialization import Configured, export
from keras_attention.numerics import masks

Tensor = Any


@export
class MemoryWriter(Configured, keras.layers.Layer):
    """G, generalization: writes each sentence into the next free slot, with its time.

    The memory is a table of records. A record holds the time and the features of a
    sentence. An extra last slot may hold m_∅, "nothing more". A network chooses m_∅ to
    signal that it has found all facts that it needs. The time of m_∅ is earlier than
    the times of all sentences. The layer has no weights.

    Args:
        nothing: the single feature of m_∅; None for a memory without m_∅.

    Call arguments:
        inputs: integers (B, M, ·), features of sentences in reading order. A sentence
            without features is an empty slot.

    Returns:
        int32 (B, M, 1 + ·), or (B, M + 1, 1 + ·) with m_∅. A record starts with its
        time: 1 for the first sentence, 0 for m_∅, −1 for an empty slot. Its features
        follow.

    Raises:
        ValueError: if `nothing` is below 1.

    Example:

    >>> import numpy as np
    >>> from keras_attention.layers import MemoryWriter
    >>> story = np.array([[[3, 1], [0, 0], [2, 0]]])
    >>> np.asarray(MemoryWriter(nothing=9)(story)).tolist()
    [[[1, 3, 1], [-1, 0, 0], [2, 2, 0], [0, 9, 0]]]

    Reference:
        Weston, Chopra & Bordes, "Memory networks" (2014), sections 2 and 3.4; m_∅:
        Weston et al., "Towards AI-complete question answering" (2015), section 5.
    """

    input_ranks: ClassVar[Any] = {"inputs": 3}

    def __init__(self, nothing: int | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.nothing = None if nothing is None else positive("nothing", nothing)
        self.built = True

    def call(self, inputs: Tensor) -> Tensor:
        if inputs.shape[1] == 0:
            raise ValueError(
                "`inputs` must have at least one slot (axis 1). "
                f"Received: inputs.shape={tuple(inputs.shape)}"
            )
        check_ids("inputs", inputs, 2**31, least=-(2**31))
        inputs = ops.cast(inputs, "int32")
        filled = ops.any(masks.padding(inputs), axis=-1)  # (B, M)
        count = ops.cumsum(ops.cast(filled, "int32"), axis=1)
        times = ops.where(filled, count, -1)
        records = ops.concatenate([times[..., None], inputs], axis=-1)  # (B, M, ·)
        if self.nothing is None:
            return records
        blank = ops.zeros_like(records[:, :1])  # (B, 1, ·)
        nothing = [blank[..., :1], blank[..., 1:2] + self.nothing, blank[..., 2:]]
        last = ops.concatenate(nothing, axis=-1)
        return ops.concatenate([records, last], axis=1)  # (B, M, ·)

    def compute_output_spec(self, inputs: Tensor) -> keras.KerasTensor:
        batch, slots, width = inputs.shape
        if slots is not None and self.nothing is not None:
            slots += 1
        width = None if width is None else width + 1
        return keras.KerasTensor((batch, slots, width), "int32")


def shifted(x: Tensor) -> Tensor:
    """Shifts each row right by one position: puts 0 in front, drops the last entry."""
    front = ((0, 0),) * (len(x.shape) - 1)
    return ops.pad(x, (*front, (1, 0)))[..., :-1]
