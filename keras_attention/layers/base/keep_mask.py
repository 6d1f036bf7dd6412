"""A wrapper that passes on the mask of a sequence.

Shapes: B batch, T steps.
"""

from __future__ import annotations

from inspect import signature
from typing import Any

import keras

from keras_attention import kernels
from keras_attention.layers.base.serialization import Configured, export

Tensor = Any


@export
class KeepMask(Configured, keras.layers.Layer):
    """Calls a layer, and passes the mask of its inputs on to its output.

    Since Keras 3.16, the layers `RNN` (`LSTM`, `GRU`, …), `Bidirectional` and
    `TimeDistributed` no longer pass masks on, and `Conv1D` never did. Attention to
    their output would include the padding. The output of this layer carries the mask in
    every version of Keras; its numbers are those of the layer.

    Args:
        layer: a layer that keeps time: entry t of its output belongs to step t of its
            inputs. Examples are recurrent layers with `return_sequences=True`,
            `Bidirectional`, `TimeDistributed`, `Conv1D(padding="same")`, and a layer of
            your own. Its `supports_masking` becomes True.

    Call arguments:
        inputs: (B, T, ...), or what else the layer takes, such as a list.
        initial_state: the initial state of a recurrent layer.
        mask: booleans (B, T); defaults to the mask that the inputs carry. A layer whose
            call has an argument `mask` gets it. (Keras' recurrent layers ignore the
            mask that the inputs carry if they get an `initial_state`.)
        training: the training mode of the layer.

    Returns:
        What the layer returns. The output (B, T, ...) carries the mask, and so do both
        outputs of `Bidirectional(merge_mode=None)`. Final states carry none.

    Raises:
        ValueError: if `layer` is not a layer, or does not keep time: if it returns only
            the last step (`return_sequences=False`), reverses time
            (`go_backwards=True`), returns another batch size or length than that of the
            (first) input, or removes the mask in its `compute_mask`.

    Example:

    >>> import keras, numpy as np
    >>> from keras_attention.layers import Attention, KeepMask
    >>> words = keras.layers.Embedding(9, 4, mask_zero=True)(np.array([[5, 3, 0]]))
    >>> states = KeepMask(keras.layers.LSTM(6, return_sequences=True))(words)
    >>> _, weights = Attention()(states, states, return_attention_scores=True)
    >>> float(weights[0, 0, 2])
    0.0
    """

    def __init__(self, layer: Any, **kwargs: Any) -> None:
        if not isinstance(layer, keras.layers.Layer):
            raise ValueError(f"`layer` must be a layer. Received: layer={layer!r}")
        for option, kept in (("return_sequences", True), ("go_backwards", False)):
            if getattr(layer, option, kept) != kept:
                raise ValueError(
                    f"`layer` must return a sequence in the order of its inputs: set "
                    f"{option}={kept}. Received: {option}={not kept}, layer={layer!r}"
                )
        kwargs.setdefault("dtype", layer.dtype_policy)
        super().__init__(**kwargs)
        self.supports_masking = True
        self.layer = pass_masks(layer)
        self._accepted = {*signature(layer.call).parameters}

    def build(self, inputs_shape: Any, initial_state_shape: Any = None) -> None:
        if not self.layer.built:
            self.layer(
                keras.tree.map_shape_structure(
                    lambda shape: keras.KerasTensor(shape, self.compute_dtype),
                    inputs_shape,
                )
            )
        self.built = True

    def call(
        self,
        inputs: Any,
        initial_state: Any = None,
        mask: Any = None,
        training: bool | None = None,
    ) -> Any:
        if mask is None:  # Keras finds none for a call with several tensors
            mask = kernels.carried_mask(keras.tree.flatten(inputs)[0])
        return self._pass_on(self.layer, inputs, initial_state, mask, training)

    def compute_output_spec(
        self,
        inputs: Any,
        initial_state: Any = None,
        mask: Any = None,
        training: bool | None = None,
    ) -> Any:
        symbolic = self.layer.compute_output_spec
        return self._pass_on(symbolic, inputs, initial_state, mask, training)

    def _pass_on(
        self, function: Any, inputs: Any, state: Any, mask: Any, training: Any
    ) -> Any:
        """Calls a function of the layer with the arguments that the layer takes."""
        options = {"mask": mask, "training": training}
        options = {name: x for name, x in options.items() if name in self._accepted}
        if state is not None:
            options["initial_state"] = state
        outputs = function(inputs, **options)
        first, last = (keras.tree.flatten(x)[0] for x in (inputs, outputs))
        before, after = tuple(first.shape)[:2], tuple(last.shape)[:2]
        known = [(n, m) for n, m in zip(before, after) if {type(n), type(m)} == {int}]
        if len(after) < 2 or any(n != m for n, m in known):
            raise ValueError(
                "`layer` must keep time: its output must have the batch size and the "
                f"length of its inputs. Received: (batch, length)={before} of the "
                f"inputs, {after} of the output, layer={self.layer!r}"
            )
        return outputs

    def compute_mask(self, inputs: Any, previous_mask: Any = None) -> Any:
        kept = self.layer.compute_mask(inputs, previous_mask)
        if _are_masks(previous_mask) and not _are_masks(kept):
            raise ValueError(
                "`layer` must not remove the mask of its inputs. Received: "
                f"compute_mask of {self.layer!r} returned no mask"
            )
        return kept


def pass_masks(layer: Any) -> Any:
    """Lets a layer pass masks on without a warning, also a `Bidirectional` inside."""
    for name in ("forward_layer", "backward_layer"):
        if hasattr(layer, name):
            getattr(layer, name).supports_masking = True
    layer.supports_masking = True
    return layer


def _are_masks(masks: Any) -> bool:
    return any(mask is not None for mask in keras.tree.flatten(masks))
