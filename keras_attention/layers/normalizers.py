"""Normalizers with weights."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from keras_attention.layers.base.arguments import positive
from keras_attention.layers.base.serialization import Configured, export
from keras_attention.numerics import normalizers
from keras_attention.numerics.precision import to_float32

__all__ = ["Entmax"]

Tensor = Any


@export
class Entmax(Configured, keras.layers.Layer):
    """Turns scores into weights with exact zeros, and learns how sparse they are.

        p = max((α − 1) z − τ, 0)^(1 / (α − 1)),  Σ p = 1,  α = 1 + σ(a)

    With α near 1, this is a softmax; with α near 2, sparsemax. Each head learns an a,
    which starts at 0. The layer is the `normalizer` of a layer that takes a callable,
    such as `MultiHeadAttention`.

    Args:
        num_heads: H for scores with heads; None for one α.

    Call arguments:
        scores: (B, H, T, S), or (..., S) without `num_heads`.
        attention_mask: booleans that broadcast to the scores, True = may attend.

    Returns:
        Weights in the shape of the scores and the compute dtype, computed in float32.
        They are 0 at masked keys, and in a row without any key.

    Raises:
        ValueError: if `num_heads` is below 1 or not the number of heads of the scores.

    Example:

    >>> import numpy as np
    >>> from keras_attention.layers import Entmax, MultiHeadAttention
    >>> words = np.random.default_rng(0).normal(size=(2, 5, 8)).astype("float32")
    >>> attention = MultiHeadAttention(4, 2, normalizer=Entmax(num_heads=4))
    >>> tuple(attention(words, words).shape)
    (2, 5, 8)
    >>> attention.normalizer.alphas.tolist()
    [1.5, 1.5, 1.5, 1.5]

    Reference:
        Correia, Niculae & Martins, "Adaptively sparse Transformers" (2019), section 3.
    """

    def __init__(self, num_heads: int | None = None, **kwargs: Any) -> None:
        super().__init__(autocast=False, **kwargs)  # scores may be float32
        self.num_heads = None if num_heads is None else positive("num_heads", num_heads)
        shape = () if num_heads is None else (self.num_heads, 1, 1)
        self.a = self.add_weight(shape, "zeros", name="a")
        self.built = True

    @property
    def alphas(self) -> Any:
        """The current α of each head, a NumPy array (H,), or () without heads."""
        return ops.convert_to_numpy(1 + ops.sigmoid(self.a)).reshape(self.a.shape[:1])

    # With an argument `mask`, Keras would add the mask that the scores carry.
    def call(self, scores: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        if self.num_heads not in (None, scores.shape[1]):
            raise ValueError(
                "`num_heads` must be the number of heads of the scores. Received: "
                f"num_heads={self.num_heads}, scores.shape={tuple(scores.shape)}"
            )
        alpha = 1 + ops.sigmoid(to_float32(self.a))
        weights = normalizers.entmax(to_float32(scores), attention_mask, -1, alpha)
        return ops.cast(weights, self.compute_dtype)
