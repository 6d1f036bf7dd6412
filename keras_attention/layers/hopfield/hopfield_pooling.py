"""Pooling of a set with learned queries.

Shapes: B batch, T queries, S keys, D width, H heads, E width of a head.
"""

from __future__ import annotations

from typing import Any

from keras import ops

from keras_attention.layers.base.arguments import check_shape
from keras_attention.layers.base.checked import check_usable
from keras_attention.layers.base.serialization import export
from keras_attention.layers.hopfield.trainable_patterns import TrainablePatterns

Tensor = Any


@export
class HopfieldPooling(TrainablePatterns):
    """Pools a set into a few vectors: each learned state retrieves one vector.

        ξ ← Σₛ pₛ kₛ,  p = softmax(β K ξ);   o = Σₛ pₛ vₛ

    These are the equations of `Hopfield`. The members of the set are the stored
    patterns. The initial states ξ are projections of learned vectors. The layer
    computes these projections once, not once per sample.

    Args:
        num_patterns: T, the number of learned states and of returned vectors.
        num_heads: H.
        key_dim: E; defaults to D / H.
        value_dim: the width of each head's values; defaults to `key_dim`.
        update_steps: the number of softmaxes. None iterates each state until it moves
            by at most 1e-4, for at most 100 steps; see `Hopfield`.
        beta: β, a number or a list with one number per head; defaults to 1/√E.
        trainable_beta: whether each head learns its β.
        normalizer: "softmax", "softmax1", "sparsemax", "entmax15" or "hardmax".
        projections: True, False or a dict, as in `Hopfield`. In the dict,
            `output_shape` is the width of the output and defaults to D.
        dropout: the fraction of attention weights dropped during training.

    Call arguments:
        inputs: the members of each set, (B, S, D).
        mask: booleans (B, S), True for valid members; defaults to the mask that the
            inputs carry.
        return_attention_scores: whether to return the weights as well.
        training: whether to apply dropout.

    Returns:
        The output, (B, T, D) or (B, T, *output_shape), in the compute dtype. With
        `return_attention_scores=True`, also the weights of the last step (B, H, T, S).
        The output carries no mask.

    Masking:
        For an empty set, each head returns 0, so the output is the bias of the output
        projection.

    Raises:
        ValueError: if `num_patterns` is below 1, and as in `Hopfield`.

    Example:

    >>> import numpy as np
    >>> from keras_attention.layers import HopfieldPooling
    >>> bags = np.random.default_rng(0).normal(size=(3, 7, 8)).astype("float32")
    >>> pooling = HopfieldPooling(num_patterns=2, num_heads=4)
    >>> tuple(pooling(bags).shape)
    (3, 2, 8)

    Reference:
        Ramsauer et al., "Hopfield networks is all you need" (2021), the layer
        HopfieldPooling.
    """

    def __init__(
        self,
        num_patterns: int = 1,
        num_heads: int = 1,
        key_dim: int | None = None,
        value_dim: int | None = None,
        update_steps: int | None = 1,
        beta: float | list[float] | None = None,
        trainable_beta: bool = False,
        normalizer: str = "softmax",
        projections: bool | dict[str, Any] = True,
        dropout: float = 0.0,
        **kwargs: Any,
    ) -> None:
        network = (num_heads, key_dim, update_steps, beta)
        shared = (*network, trainable_beta, normalizer, projections, dropout)
        super().__init__(num_patterns, shared, {"value_dim": value_dim}, **kwargs)

    def build(self, inputs_shape: Any) -> None:
        shape = check_shape("inputs", inputs_shape, *self.forms)
        self._queries = self._add_patterns("queries", shape[-1])
        self.hopfield.build((shape[0], self.num_patterns, shape[-1]), shape)
        self._close_build()

    @property
    def queries(self) -> Any:
        """The learned queries, a weight (T, D); the layer must be built."""
        check_usable(self, "queries", None)
        return self._queries

    def _retrieve(
        self,
        inputs: Tensor,
        mask: Tensor | None,
        return_weights: bool,
        training: bool | None,
    ) -> tuple[Tensor, Tensor | None]:
        prepared = self.hopfield.prepare(inputs, mask=mask)
        state = self.hopfield.states(ops.expand_dims(self._queries, 0))  # (1, T, H, E)
        size = (ops.shape(inputs)[0], *ops.shape(state)[1:])
        return self.hopfield.associate(
            ops.broadcast_to(state, size), prepared, None, return_weights, training
        )

    def _shapes_of(self, shape: tuple) -> tuple[tuple, tuple]:
        batch, length, width = shape
        query = (batch, self.num_patterns, width)
        output = self.hopfield.compute_output_shape(query, shape)
        return output, (batch, self.hopfield.num_heads, self.num_patterns, length)

    def compute_mask(self, inputs: Any, previous_mask: Any = None) -> None:
        return None
