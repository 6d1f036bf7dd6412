"""Pooling of a set by queries that are learned.

Shapes: B batch, T queries, S keys, D width, H heads, E width of a head.
"""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from keras_attention.layers.export import export
from keras_attention.layers.heads import as_boolean
from keras_attention.layers.recording import is_recording, record
from keras_attention.layers.trainable_patterns import TrainablePatterns, check_rank
from keras_attention.ops import masks

Tensor = Any


@export
class HopfieldPooling(TrainablePatterns):
    """A set becomes a few vectors: what each of some learned states retrieves from it.

        ξ ← Σₛ pₛ kₛ,  p = softmax(β K ξ);   o = Σₛ pₛ vₛ

    as in `Hopfield`, where ξ starts as a projected weight and the set is what is
    stored. The weight is projected once, not once for each sample.

    Args:
        quantity: T, how many states there are, and vectors that are returned.
        num_heads: H.
        key_dim: E, by default D / H.
        value_dim: the width of each head's values; by default `key_dim`.
        update_steps: how many softmaxes; or None, as of `Hopfield`.
        beta: β, a number or a list of one for each head; by default 1/√E.
        trainable_beta: whether each head learns its β.
        separation: "softmax", "softmax1", "sparsemax", "entmax15" or "hardmax".
        projections: True, False or a dict, as of `Hopfield`; its `output_shape` is the
            width of what is returned, by default D.
        dropout: the fraction of weights that are dropped while training.

    Call arguments:
        inputs: the members of each set, (B, S, D).
        mask: booleans (B, S), True for members that there are; by default the mask
            that the inputs carry.
        return_attention_scores: whether to return the weights, too.
        training: whether to drop weights.

    Returns:
        (B, T, D), or (B, T, *output_shape), in the compute dtype; with
        `return_attention_scores=True` also the weights of the last step (B, H, T, S).
        It carries no mask.

    Masking:
        A set without members gives 0 from each head: the output is then the bias of
        the last projection.

    Raises:
        ValueError: for a quantity below 1, and as of `Hopfield`.

    Example:

    >>> import numpy as np
    >>> from keras_attention.layers import HopfieldPooling
    >>> bags = np.random.default_rng(0).normal(size=(3, 7, 8)).astype("float32")
    >>> pooling = HopfieldPooling(quantity=2, num_heads=4)
    >>> tuple(pooling(bags).shape)
    (3, 2, 8)

    Reference:
        Ramsauer et al., "Hopfield networks is all you need" (2020), the layer
        HopfieldPooling.
    """

    def __init__(
        self,
        quantity: int = 1,
        num_heads: int = 1,
        key_dim: int | None = None,
        value_dim: int | None = None,
        update_steps: int | None = 1,
        beta: float | list[float] | None = None,
        trainable_beta: bool = False,
        separation: str = "softmax",
        projections: bool | dict[str, Any] = True,
        dropout: float = 0.0,
        **kwargs: Any,
    ) -> None:
        arguments = {
            "num_heads": num_heads,
            "key_dim": key_dim,
            "value_dim": value_dim,
            "update_steps": update_steps,
            "beta": beta,
            "trainable_beta": trainable_beta,
            "separation": separation,
            "projections": projections,
            "dropout": dropout,
        }
        super().__init__(quantity, arguments, **kwargs)

    def build(self, inputs_shape: Any) -> None:
        shape = check_rank("inputs", inputs_shape, 3)
        self.queries = self._add_patterns("queries", shape[-1])
        self.hopfield.build((shape[0], self.quantity, shape[-1]), shape)
        self._close_build()

    def call(
        self,
        inputs: Tensor,
        mask: Tensor | None = None,
        return_attention_scores: bool = False,
        training: bool | None = None,
    ) -> Any:
        check_rank("inputs", inputs.shape, 3)
        mask = masks.check("mask", as_boolean("mask", mask), tuple(inputs.shape[:2]))
        prepared = self.hopfield.prepare(inputs, mask=mask)
        state = self.hopfield.states(ops.expand_dims(self.queries, 0))  # (1, T, H, E)
        size = (ops.shape(inputs)[0], *ops.shape(state)[1:])
        explicit = return_attention_scores or is_recording()
        output, weights = self.hopfield.associate(
            ops.broadcast_to(state, size), prepared, None, explicit, training
        )
        if is_recording():
            record(self.path, weights)
        return (output, weights) if return_attention_scores else output

    def compute_output_spec(
        self,
        inputs: Tensor,
        mask: Tensor | None = None,
        return_attention_scores: bool = False,
        training: bool | None = None,
    ) -> Any:
        batch, length, width = check_rank("inputs", inputs.shape, 3)
        masks.check("mask", as_boolean("mask", mask), (batch, length))
        query = (batch, self.quantity, width)
        shape = self.hopfield.compute_output_shape(query, tuple(inputs.shape))
        output = keras.KerasTensor(shape, self.compute_dtype)
        if not return_attention_scores:
            return output
        shape = (batch, self.hopfield.num_heads, self.quantity, length)
        return output, keras.KerasTensor(shape, self.compute_dtype)

    def compute_mask(self, inputs: Any, previous_mask: Any = None) -> None:
        return None
