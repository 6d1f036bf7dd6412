"""Retrieval from learned patterns.

Shapes: B batch, T queries, S keys (patterns), D width, H heads, E width of a head.
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
class HopfieldLayer(TrainablePatterns):
    """Retrieves from patterns that are weights of the layer.

        ξ ← Σₛ pₛ kₛ,  p = softmax(β K ξ);   o = Σₛ pₛ vₛ

    These are the equations of `Hopfield`. The initial ξ is the projected input, and the
    stored patterns are learned. Patterns are projected once, not once per sample.
    Inputs do not affect each other.

    After the layer is built, `layer.patterns.assign(stored)` sets the patterns (S, D),
    for example to training samples. `layer.patterns.trainable = False` then freezes the
    patterns, but not the projections or the separate values. This flag is not saved
    with the model: set the flag again after loading. `layer.trainable = False` freezes
    the whole layer, including the projections.

    Args:
        num_patterns: S, the number of patterns.
        num_heads: H.
        key_dim: E; defaults to D / H.
        separate_values: whether the values come from separate learned vectors (S, D)
            instead of the patterns.
        update_steps: the number of softmaxes. None iterates each state until it moves
            by at most 1e-4, for at most 100 steps; see `Hopfield`.
        beta: β, a number or a list with one number per head; defaults to 1/√E.
        trainable_beta: whether each head learns its β.
        normalizer: "softmax", "softmax1", "sparsemax", "entmax15" or "hardmax".
        projections: True, False or a dict, as in `Hopfield`. In the dict,
            `output_shape` is the width of the output and defaults to D.
        dropout: the fraction of attention weights dropped during training.

    Call arguments:
        inputs: state patterns, (B, T, D) or (B, D).
        mask: booleans (B, T) or (B,), False for inputs to ignore; defaults to the mask
            that the inputs carry.
        return_attention_scores: whether to return the weights as well.
        training: whether to apply dropout.

    Returns:
        The output, (B, T, D) or (B, T, *output_shape), in the compute dtype. With
        `return_attention_scores=True`, also the weights of the last step (B, H, T, S).
        Inputs without a T axis give outputs without a T axis. The output carries the
        mask of the inputs.

    Masking:
        For masked inputs, each head returns 0, so the output is the bias of the output
        projection.

    Raises:
        ValueError: if `num_patterns` is below 1, and as in `Hopfield`.
        RuntimeError: if `patterns` or `values` is read before the layer is built.

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

    forms = ("(batch, width)", "(batch, length, width)")

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
        shape = check_shape("inputs", inputs_shape, *self.forms)
        self._patterns = self._add_patterns("patterns", shape[-1])
        self._values = self._patterns
        if self.separate_values:
            self._values = self._add_patterns("values", shape[-1])
        stored = (1, self.num_patterns, shape[-1])
        self.hopfield.build((1, None, shape[-1]), stored, stored)
        self._close_build()

    @property
    def patterns(self) -> Any:
        """The stored patterns, a weight (S, D); the layer must be built."""
        check_usable(self, "patterns", None)
        return self._patterns

    @property
    def values(self) -> Any:
        """The source of the values, (S, D): the patterns, or a separate weight."""
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
        # All inputs share the patterns, so treat the inputs as queries of one sample.
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
