"""A wrapper that passes on the mask of a sequence; B batch, T steps."""

from __future__ import annotations

from inspect import signature
from typing import Any

import keras

from keras_attention import kernels
from keras_attention.layers.base.serialization import Configured, export


@export
class KeepMask(Configured, keras.layers.Layer):
    """Calls a layer, and passes the mask of its inputs on to its output.

    Since Keras 3.16, `RNN`, `LSTM`, `GRU`, `Bidirectional` and `TimeDistributed` no
    longer pass masks on, and `Conv1D` never did: attention would include the padding.

    Args:
        layer: a layer that keeps time: step t of its output (B, T, ...) belongs to step
            t of its input. Its `supports_masking` becomes True. Between the layers of
            a `Sequential` or model, the mask stays lost: wrap each layer that drops it.
            The dtype of the wrapper is that of the layer.

    Call arguments:
        inputs, initial_state, training: those of the layer.
        mask: booleans (B, T); defaults to the mask of the (first) input, also with an
            `initial_state`, where Keras ignores it.

    Returns:
        What the layer returns. Sequences carry the mask, final states carry none.

    Raises:
        ValueError: if the layer does not keep time: `return_sequences=False`,
            `go_backwards=True`, or an output of another batch size or length, which a
            call with an unknown length does not see.

    Example:

    >>> import keras, numpy as np
    >>> from keras_attention.layers import KeepMask
    >>> words = keras.layers.Embedding(9, 4, mask_zero=True)(np.array([[5, 3, 0]]))
    >>> states = KeepMask(keras.layers.LSTM(6, return_sequences=True))(words)
    >>> tuple(states.shape), tuple(states._keras_mask.shape)
    ((1, 3, 6), (1, 3))
    """

    def __init__(self, layer: Any, **kwargs: Any) -> None:
        if not isinstance(layer, keras.layers.Layer):
            raise ValueError(f"`layer` must be a layer. Received: layer={layer!r}")
        for option, kept in (("return_sequences", True), ("go_backwards", False)):
            if getattr(layer, option, kept) != kept:
                raise ValueError(
                    f"`layer` must keep time: set {option}={kept}. Received: {layer!r}"
                )
        policy = keras.dtype_policies.get(
            kwargs.pop("dtype", None) or layer.dtype_policy
        )
        computes, stores = layer.compute_dtype, layer.variable_dtype
        if (policy.compute_dtype, policy.variable_dtype) != (computes, stores):
            raise ValueError(
                f"`dtype` must be that of `layer`, {layer.dtype_policy.name!r}, or None"
                f". Received: dtype={policy.name!r}"
            )
        super().__init__(dtype=layer.dtype_policy, **kwargs)
        self.supports_masking = True
        self.layer = pass_masks(layer)
        self._accepted = {*signature(layer.call).parameters}

    def build(self, inputs_shape: Any, initial_state_shape: Any = None) -> None:
        if not self.layer.built:
            self.layer(keras.tree.map_shape_structure(keras.KerasTensor, inputs_shape))
        self.built = True

    def call(
        self,
        inputs: Any,
        initial_state: Any = None,
        mask: Any = None,
        training: bool | None = None,
    ) -> Any:
        first = keras.tree.flatten(inputs)[0]
        if mask is None:  # Keras finds none for a call with several tensors
            mask = kernels.carried_mask(first)
        options = {"mask": mask, "training": training}
        options = {name: x for name, x in options.items() if name in self._accepted}
        if initial_state is not None:
            options["initial_state"] = initial_state
        outputs = self.layer(inputs, **options)
        before, after = first.shape, keras.tree.flatten(outputs)[0].shape
        known = [p for p in zip(before[:2], after) if {*map(type, p)} == {int}]
        if len(after) < 3 or any(n != m for n, m in known):
            raise ValueError(
                "`layer` must keep time: batch size and length must stay. Received: "
                f"{tuple(before)} to {tuple(after)}, layer={self.layer!r}"
            )
        return outputs

    compute_output_spec = call  # a trace of a loop would take a second

    def compute_mask(self, inputs: Any, previous_mask: Any = None) -> Any:
        is_pair = getattr(self.layer, "merge_mode", "") is None
        return keras.tree.flatten(previous_mask)[:1] * (1 + is_pair)


def pass_masks(layer: Any) -> Any:
    """Lets a layer of Keras pass masks on, without a warning."""
    for part in ("forward_layer", "backward_layer"):  # of a `Bidirectional`
        getattr(layer, part, layer).supports_masking = True
    layer.supports_masking = True
    return layer
