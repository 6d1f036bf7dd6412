"""Base class of Hopfield layers with learned queries or learned patterns.

Shapes: B batch, T queries, D width, H heads.
"""

from __future__ import annotations

import abc
from typing import Any

import keras
import numpy as np

from keras_attention.layers.base.arguments import (
    check_shape,
    pass_on_policies,
    positive,
)
from keras_attention.layers.base.checked import as_boolean, call_arguments
from keras_attention.layers.base.recording import is_recording, record
from keras_attention.layers.base.serialization import Configured
from keras_attention.layers.hopfield.arguments import refuse_projected
from keras_attention.layers.hopfield.hopfield import Hopfield
from keras_attention.numerics import masks

Tensor = Any
Config = dict[str, Any]

# The arguments of `Hopfield` that these layers share.
SHARED = (
    "num_heads",
    "key_dim",
    "update_steps",
    "beta",
    "trainable_beta",
    "normalizer",
    "projections",
    "dropout",
)


class TrainablePatterns(Configured, keras.layers.Layer, abc.ABC):
    """Abstract base class of layers that call a `Hopfield` with learned vectors.

    Subclasses define `build`, `_retrieve` and `_shapes_of`. They pass the values of the
    `Hopfield` arguments in `SHARED`, and a dict of the others.
    """

    forms: tuple[str, ...] = ("(batch, length, width)",)  # of the inputs

    float_inputs = ("inputs", "memory")

    def __init__(
        self,
        num_patterns: int,
        shared: tuple,
        others: Config | None = None,
        **kwargs: Any,
    ) -> None:
        refuse_projected(kwargs)
        super().__init__(**kwargs)
        self.supports_masking = True
        self.num_patterns = positive("num_patterns", num_patterns)
        arguments = {**dict(zip(SHARED, shared, strict=True)), **(others or {})}
        self._arguments = sorted(arguments)
        self.hopfield = Hopfield(**arguments, dtype=self.dtype_policy, name="hopfield")
        self._take_arguments()
        pass_on_policies(self, self.hopfield)

    @property
    def betas(self) -> np.ndarray:
        """The current β of each head, (H,) float64; the layer must be built."""
        return self.hopfield.betas

    def call(
        self,
        inputs: Tensor,
        mask: Tensor | None = None,
        return_attention_scores: bool = False,
        training: bool | None = None,
    ) -> Any:
        shape = check_shape("inputs", inputs.shape, *self.forms)
        mask = masks.check("mask", as_boolean("mask", mask), shape[:-1])
        return_weights = return_attention_scores or is_recording()
        output, weights = self._retrieve(inputs, mask, return_weights, training)
        if is_recording():
            record(self.path, weights)
        return (output, weights) if return_attention_scores else output

    def compute_output_spec(self, *args: Any, **kwargs: Any) -> Any:
        call = call_arguments(self, args, kwargs)
        shape = check_shape("inputs", call["inputs"].shape, *self.forms)
        masks.check("mask", as_boolean("mask", call.get("mask")), shape[:-1])
        output, weights = (
            keras.KerasTensor(s, self.compute_dtype) for s in self._shapes_of(shape)
        )
        return (output, weights) if call.get("return_attention_scores") else output

    def get_config(self) -> Config:
        config = self.hopfield.get_config()
        return {**super().get_config(), **{n: config[n] for n in self._arguments}}

    @abc.abstractmethod
    def _retrieve(
        self,
        inputs: Tensor,
        mask: Tensor | None,
        return_weights: bool,
        training: bool | None,
    ) -> tuple[Tensor, Tensor | None]:
        """Returns the output, and the weights if `return_weights` is True."""

    @abc.abstractmethod
    def _shapes_of(self, shape: tuple) -> tuple[tuple, tuple]:
        """Returns the shapes of the output and the weights for inputs of this shape."""

    def _add_patterns(self, name: str, width: int) -> Any:
        """Adds a weight (num_patterns, D), initialized to vectors of length about 1."""
        samples = keras.initializers.RandomNormal(stddev=width**-0.5)
        return self.add_weight((self.num_patterns, width), samples, name=name)

    def _take_arguments(self) -> None:
        """Copies the arguments of the `Hopfield`, and its widths once it is built."""
        for name in self._arguments:
            setattr(self, name, getattr(self.hopfield, name))

    def _close_build(self) -> None:
        self._take_arguments()
        self.built = True
        layer: Any = self
        if not layer.trainable:
            # Also freeze the weights that `build` has created. Toggle the flag, because
            # TensorFlow ignores an assignment that does not change an attribute.
            layer.trainable = True
            layer.trainable = False
