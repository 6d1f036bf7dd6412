"""A Transformer that reads several texts in each row.

Shapes: B batch, T tokens, N texts of a row.
"""

from __future__ import annotations

from functools import partial
from inspect import signature
from typing import Any

import keras
import numpy as np

from keras_attention.layers.base.adapter import as_attention
from keras_attention.layers.base.arguments import positive
from keras_attention.layers.base.checked import check_ids
from keras_attention.layers.base.serialization import export
from keras_attention.models.base.configured_model import ConfiguredModel

Tensor = Any


@export
class PackedModel(ConfiguredModel):
    """Reads several texts in each row, with the layers and weights of a Transformer.

    Short texts then need less padding, and each text gets the outputs and gradients of
    a row of its own: a token attends only to tokens with its segment id, and its
    position counts from the first of them. `keras_attention.text.pack` makes the rows.

    Train this model, and use `model`, which has the same weights, for everything else:
    `generate`, methods that take strings, presets, `export`.

    Args:
        model: a `CausalLM`, `MaskedLM` or `TransformerClassifier`.
        max_segments: N, the largest number of texts in a row, for a
            `TransformerClassifier`; None for the other models.

    Inputs: a dict of the inputs of `model`, and
        segment_ids: int32 (B, T): 1 for the tokens of the first text of a row, 2 for
            the second, and so on; 0 for padding at the end.

    Returns:
        The logits of `model`; of a `TransformerClassifier` (B, N, C), for the texts
        1 … N. A text without tokens has the sum 0.

    Raises:
        ValueError: for another `model`; a `max_segments` that is missing, superfluous
            or below 1; or an attention whose queries depend on the previous one, or on
            the positions of keys in the row (such as `MonotonicAttention`). Calls raise
            it for what `model` refuses; and for segment ids of another shape, or, in a
            NumPy array, above N, out of order, or with more tokens than positions.

    Example:

    >>> from keras_attention.models import CausalLM, PackedModel
    >>> from keras_attention.text import pack
    >>> model = CausalLM(11, num_layers=2, dim=8, num_heads=2, intermediate_dim=16)
    >>> rows = pack([[5, 6, 7], [8, 9], [10, 3, 4]], length=6)
    >>> tuple(PackedModel(model)(rows.inputs).shape)
    (2, 6, 11)

    Reference:
        Krell et al., "Efficient sequence packing without cross-contamination" (2021).
    """

    def __init__(
        self,
        model: Any,
        max_segments: int | None = None,
        dtype: Any = None,
        **kwargs: Any,
    ) -> None:
        read = getattr(model, "_read", None)
        if read is None:
            raise ValueError(
                "`model` must be a CausalLM, a MaskedLM or a TransformerClassifier. "
                f"Received: model={model!r}"
            )
        policy = model.dtype_policy
        if dtype is not None and keras.dtype_policies.get(dtype).name != policy.name:
            raise ValueError(
                "`dtype` must be None or that of `model`. "
                f"Received: dtype={dtype!r}, model.dtype_policy={policy.name!r}"
            )
        takes_segments = "max_segments" in signature(read).parameters
        if takes_segments == (max_segments is None):
            raise ValueError(
                "`max_segments` must be given for a model that classifies each text, "
                f"and for no other. Received: {max_segments=}, a {type(model).__name__}"
            )
        if takes_segments:
            read = partial(read, max_segments=positive("max_segments", max_segments))
        for block in model.layers:
            attention = getattr(block, "self_attention", None)
            if attention and not as_attention(attention).separates_texts:
                raise ValueError(
                    "`model` must have an attention that a mask restricts to one text: "
                    "no query may depend on the previous one, and no score on the "
                    f"position of a key in the row. Received: {attention!r}"
                )
        names = *model.input, "segment_ids"
        inputs = {n: keras.Input((None,), dtype="int32", name=n) for n in names}
        arguments = {**locals(), "model": None, "dtype": policy}
        super().__init__(inputs, read(**inputs), arguments)
        self.model = model

    def check_given(self, given: dict[str, Any]) -> None:
        super().check_given(given)
        ids = given.get("segment_ids")
        self.model.check_given({k: x for k, x in given.items() if x is not ids})
        if ids is None or "tokens" not in given:
            return
        shapes = tuple(ids.shape), tuple(given["tokens"].shape)
        if shapes[0] != shapes[1]:
            raise ValueError(
                "`segment_ids` must have the shape of `tokens`. Received: shapes "
                f"{shapes[0]} and {shapes[1]}"
            )
        check_ids("segment_ids", ids, (self.max_segments or np.inf) + 1)
        if not isinstance(ids, np.ndarray):
            return
        ids = ids.astype("int64")
        if (np.diff(np.where(ids == 0, 2**31, ids), axis=1) < 0).any():
            raise ValueError(
                "`segment_ids` must not decrease in a row, except to 0 at its end. "
                f"Received: {ids}"
            )
        sizes = [x.max_length for x in self.model.layers if hasattr(x, "max_length")]
        if any((ids[:, n:] * (ids[:, n:] == ids[:, :-n])).any() for n in sizes):
            raise ValueError(
                "`segment_ids` must have no text that is longer than the positions "
                f"that `model` has learned, {min(sizes)}. Received: {ids}"
            )
