"""A Transformer that reads several texts in each row.

Shapes: B batch, T tokens, N texts of a row.
"""

from __future__ import annotations

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

    Padding takes as much time as text. Rows of several short texts have less of it.
    Each text gets the same outputs and gradients as in a row of its own: a token
    attends only to tokens of its text, and its position counts from the first token of
    its text.

    Train this model, and use `model`, which has the same weights, for everything else:
    `generate`, methods that take strings, presets, `export`.
    `keras_attention.text.pack` makes the inputs, labels and sample weights.

    Args:
        model: a `CausalLM`, `MaskedLM` or `TransformerClassifier`.
        max_segments: N, the largest number of texts in a row. Required by a
            `TransformerClassifier`, and None for the other models.

    Inputs: a dict of the inputs of `model`, and
        segment_ids: int32 (B, T), the number of each token's text in its row: 1 for the
            tokens of the first text, and so on; 0 for padding. The tokens of a text are
            consecutive.

    Returns:
        The logits of `model`; of a `TransformerClassifier` (B, N, C), one row for each
        of the texts 1 … N. A text without tokens has the sum 0.

    Masking:
        A token attends only to tokens with its segment id; padding attends to nothing.

    Raises:
        ValueError: for another `model`; a `max_segments` that is missing, superfluous
            or below 1; an attention that cannot separate texts, because a query depends
            on the previous one (`MonotonicAttention`, coverage, local-m), or because
            the score depends on the position of a key in the row. Calls raise it for a
            NumPy array of segment ids with a number above N, a text with a gap, or a
            text that is longer than the learned positions, and for what `model`
            refuses.

    Example:

    >>> import numpy as np
    >>> from keras_attention.models import CausalLM, PackedModel
    >>> from keras_attention.text import pack
    >>> model = CausalLM(11, num_layers=2, dim=8, num_heads=2, intermediate_dim=16)
    >>> rows = pack([[5, 6, 7], [8, 9], [10, 3, 4]], length=6)
    >>> rows.inputs["segment_ids"].tolist()
    [[1, 1, 1, 2, 2, 0], [1, 1, 1, 0, 0, 0]]
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
        options = {}
        if "max_segments" in signature(read).parameters:
            options["max_segments"] = positive("max_segments", max_segments or 0)
        elif max_segments is not None:
            raise ValueError(
                "`max_segments` must be None for a model without an output for each "
                f"text. Received: max_segments={max_segments}, a "
                f"{type(model).__name__}"
            )
        for block in model.layers:
            attention = getattr(block, "self_attention", None)
            if attention and not as_attention(attention).separates_texts:
                raise ValueError(
                    "`model` must have an attention that a mask can restrict to one "
                    "text: no query may depend on the previous one, and no score on "
                    f"the position of a key in the row. Received: {attention!r}"
                )
        inputs = {
            name: keras.Input((None,), dtype="int32", name=name)
            for name in (*model.input, "segment_ids")
        }
        arguments = {**locals(), "model": None, "dtype": policy}
        super().__init__(inputs, read(**inputs, **options), arguments)
        self.model = model

    def check_given(self, given: dict[str, Any]) -> None:
        super().check_given(given)
        ids = given.get("segment_ids")
        self.model.check_given({k: x for k, x in given.items() if x is not ids})
        if ids is None or "tokens" not in given:
            return
        if tuple(ids.shape) != tuple(given["tokens"].shape):
            raise ValueError(
                "`segment_ids` must have the shape of `tokens`. Received: shapes "
                f"{tuple(ids.shape)} and {tuple(given['tokens'].shape)}"
            )
        check_ids("segment_ids", ids, (self.max_segments or np.inf) + 1)
        if isinstance(ids, np.ndarray) and ids.ndim == 2 and ids.size:
            self._check_texts(ids)

    def _check_texts(self, ids: np.ndarray) -> None:
        """Raises a ValueError for a text with a gap or too many tokens."""
        is_first = np.logical_and(np.diff(ids, axis=1, prepend=0), ids)  # (B, T)
        for row, first in zip(ids, is_first):
            if first.sum() > len({*row[first]}):
                raise ValueError(
                    "`segment_ids` must have one number for each text, whose tokens "
                    f"are consecutive. Received: the row {row.tolist()}"
                )
        index = np.arange(ids.shape[1])
        start = np.maximum.accumulate(np.where(is_first, index, 0), axis=1)
        longest = int(np.where(ids, index - start + 1, 0).max())
        sizes = [x.max_length for x in self.model.layers if hasattr(x, "max_length")]
        if longest > min(sizes, default=longest):
            raise ValueError(
                "`segment_ids` must have no text that is longer than the positions "
                f"that `model` has learned, {min(sizes)}. Received: a text of "
                f"{longest} tokens"
            )
