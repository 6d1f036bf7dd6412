"""Lookup in patterns that are learned.

Shapes: B batch, T queries, S keys (patterns), D width, H heads, E width of a head.
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
class HopfieldLayer(TrainablePatterns):
    """Each input retrieves from patterns that are weights of the layer.

        ξ ← Σₛ pₛ kₛ,  p = softmax(β K ξ);   o = Σₛ pₛ vₛ

    as in `Hopfield`, where ξ starts as the projected input and what is stored is
    learned, or given: once the layer is built, `layer.patterns.assign(stored)` takes
    (S, D), examples of the training data for instance. `layer.patterns.trainable =
    False` then keeps the patterns as they are while the projections, and values of
    their own, learn; it is no part of a saved model: say it again after loading.
    `layer.trainable = False` freezes the whole layer, projections included.

    Patterns are projected once, not once for each sample, and no input sees another.

    Args:
        num_patterns: S, how many patterns there are.
        num_heads: H.
        key_dim: E, by default D / H.
        separate_values: whether values are made from vectors of their own, (S, D), and
            not from the patterns.
        update_steps: how many softmaxes; or None, as of `Hopfield`: until each state
            moves by 1e-4 at most, in 100 steps at most, both of which are fixed here.
        beta: β, a number or a list of one for each head; by default 1/√E.
        trainable_beta: whether each head learns its β.
        normalizer: "softmax", "softmax1", "sparsemax", "entmax15" or "hardmax".
        projections: True, False or a dict, as of `Hopfield`; its `output_shape` is the
            width of what is returned, by default D.
        dropout: the fraction of attention weights dropped during training.

    Call arguments:
        inputs: state patterns, (B, T, D) or (B, D).
        mask: booleans (B, T) or (B,), False for inputs that are to retrieve nothing;
            by default the mask that the inputs carry.
        return_attention_scores: whether to return the weights as well.
        training: whether to apply dropout.

    Returns:
        (B, T, D), or (B, T, *output_shape), in the compute dtype; with
        `return_attention_scores=True` also the weights of the last step (B, H, T, S).
        Without the T axis where the inputs have none. The output carries the mask of
        the inputs.

    Masking:
        Where the mask is False each head gives 0: the output is then the bias of the
        last projection.

    Raises:
        ValueError: for a num_patterns below 1, and as of `Hopfield`.
        RuntimeError: for `patterns` or `values` of a layer that is not built.

    Example:

    >>> import numpy as np
    >>> from keras_attention.layers import HopfieldLayer
    >>> x = np.random.default_rng(0).normal(size=(5, 8)).astype("float32")
    >>> lookup = HopfieldLayer(num_patterns=11, num_heads=4)
    >>> output, weights = lookup(x, return_attention_scores=True)
    >>> tuple(output.shape), tuple(weights.shape)
    ((5, 8), (5, 4, 11))
    >>> _ = lookup.patterns.assign(np.eye(11, 8))
    >>> lookup.patterns.trainable = False
    >>> len(lookup.weights) - len(lookup.trainable_weights)
    1

    Reference:
        Ramsauer et al., "Hopfield networks is all you need" (2021), the layer
        HopfieldLayer.
    """

    ranks = (2, 3)

    def __init__(
        self,
        num_patterns: int,
        num_heads: int = 1,
        key_dim: int | None = None,
        separate_values: bool = False,
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
        super().__init__(num_patterns, shared, **kwargs)
        self.separate_values = separate_values

    def build(self, inputs_shape: Any) -> None:
        shape = check_rank("inputs", inputs_shape, *self.ranks)
        self._patterns = self._add_patterns("patterns", shape[-1])
        self._values = self._patterns
        if self.separate_values:
            self._values = self._add_patterns("values", shape[-1])
        stored = (1, self.num_patterns, shape[-1])
        self.hopfield.build((1, None, shape[-1]), stored, stored)
        self._close_build()

    @property
    def patterns(self) -> Any:
        """The weight that is stored, (S, D); once this is built."""
        check_usable(self, "patterns", None)
        return self._patterns

    @property
    def values(self) -> Any:
        """What values are made from, (S, D): the patterns, or a weight of its own."""
        check_usable(self, "values", None)
        return self._values

    def _retrieve(
        self,
        inputs: Tensor,
        mask: Tensor | None,
        return_weights: bool,
        training: bool | None,
    ) -> tuple[Tensor, Tensor | None]:
        key, value = (ops.expand_dims(x, 0) for x in (self._patterns, self._values))
        prepared = self.hopfield.prepare(value, key)  # (1, S, H, E)
        # All inputs see the same patterns, so that they are queries of one batch.
        together = ops.reshape(inputs, (1, -1, inputs.shape[-1]))  # (1, B·T, D)
        output, weights = self.hopfield.associate(
            self.hopfield.states(together),
            prepared,
            None if mask is None else ops.reshape(mask, (1, -1)),
            return_weights,
            training,
        )
        front = ops.shape(inputs)[:-1]
        output = ops.reshape(output, (*front, *output.shape[2:]))
        if weights is not None:
            weights = ops.transpose(weights, (2, 0, 1, 3))  # (B·T, 1, H, S)
            weights = ops.reshape(weights, (*front, *weights.shape[2:]))
            if len(inputs.shape) == 3:
                weights = ops.transpose(weights, (0, 2, 1, 3))  # (B, H, T, S)
        return output, weights

    def _shapes_of(self, shape: tuple) -> tuple[tuple, tuple]:
        stored = (1, self.num_patterns, shape[-1])
        width = self.hopfield.compute_output_shape((1, None, shape[-1]), stored)[2:]
        weights = (shape[0], self.hopfield.num_heads, *shape[1:-1], self.num_patterns)
        return (*shape[:-1], *width), weights

    def compute_mask(self, inputs: Any, previous_mask: Any = None) -> Any:
        return previous_mask

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "separate_values": self.separate_values}
