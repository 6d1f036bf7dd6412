"""Pooling of a set by queries that are learned.

Shapes: B batch, T queries, S keys, D width, H heads, E width of a head.
"""

from __future__ import annotations

from typing import Any

from keras import ops

from keras_attention.layers.base.checks import check_usable
from keras_attention.layers.base.serialization import export
from keras_attention.layers.hopfield.trainable_patterns import (
    TrainablePatterns,
    check_rank,
)

Tensor = Any


@export
class HopfieldPooling(TrainablePatterns):
    """A set becomes a few vectors: what each of some learned states retrieves from it.

        ξ ← Σₛ pₛ kₛ,  p = softmax(β K ξ);   o = Σₛ pₛ vₛ

    as in `Hopfield`, where ξ starts as a projected weight and the set is what is
    stored. The weight is projected once, not once for each sample.

    Args:
        num_patterns: T, how many states there are, and vectors that are returned.
        num_heads: H.
        key_dim: E, by default D / H.
        value_dim: the width of each head's values; by default `key_dim`.
        update_steps: how many softmaxes; or None, as of `Hopfield`: until each state
            moves by 1e-4 at most, in 100 steps at most, both of which are fixed here.
        beta: β, a number or a list of one for each head; by default 1/√E.
        trainable_beta: whether each head learns its β.
        normalizer: "softmax", "softmax1", "sparsemax", "entmax15" or "hardmax".
        projections: True, False or a dict, as of `Hopfield`; its `output_shape` is the
            width of what is returned, by default D.
        dropout: the fraction of attention weights dropped during training.

    Call arguments:
        inputs: the members of each set, (B, S, D).
        mask: booleans (B, S), True for members that there are; by default the mask
            that the inputs carry.
        return_attention_scores: whether to return the weights as well.
        training: whether to apply dropout.

    Returns:
        (B, T, D), or (B, T, *output_shape), in the compute dtype; with
        `return_attention_scores=True` also the weights of the last step (B, H, T, S).
        It carries no mask.

    Masking:
        A set without members gives 0 from each head: the output is then the bias of
        the last projection.

    Raises:
        ValueError: for a num_patterns below 1, and as of `Hopfield`.

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
        shape = check_rank("inputs", inputs_shape, *self.ranks)
        self._queries = self._add_patterns("queries", shape[-1])
        self.hopfield.build((shape[0], self.num_patterns, shape[-1]), shape)
        self._close_build()

    @property
    def queries(self) -> Any:
        """The weight that states are projected from, (T, D); once this is built."""
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
