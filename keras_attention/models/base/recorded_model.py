"""A model that replays traced calls of another model or layer on torch."""

from __future__ import annotations

from typing import Any

import keras

from keras_attention import kernels
from keras_attention.layers.base.recording import is_recording
from keras_attention.layers.base.serialization import export
from keras_attention.models.base.configured_model import ConfiguredModel

_STEPS = ("train_step", "test_step", "predict_step", "compute_loss")


@export
class RecordedModel(keras.Model):
    """Calls a model or layer, and replays traced calls of it on torch.

    See `recorded`, which makes it.

    Args:
        model: a Keras model or layer.
    """

    def __init__(self, model: keras.layers.Layer, **kwargs: Any) -> None:
        if not isinstance(model, keras.layers.Layer):
            raise TypeError(
                "`model` must be a Keras model or layer. "
                f"Received: model={model!r} of type {type(model).__name__}"
            )
        arguments = {"name": f"recorded_{model.name}", "dtype": model.dtype_policy}
        super().__init__(**{**arguments, **kwargs})
        self.model = model
        self.supports_masking = True
        self.built = model.built
        self._replayer = kernels.Replayer(
            super().__call__, lambda: list(model._flatten_layers(include_self=True))
        )

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "model" and getattr(self, "_replayer", None) is not None:
            raise AttributeError(
                "`model` cannot be replaced; call `keras_attention.recorded` with the "
                f"other model. Received: model={value!r}"
            )
        super().__setattr__(name, value)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.run_eagerly or is_recording() or kernels.in_layer_call():
            return super().__call__(*args, **kwargs)
        return self._replayer(*args, **kwargs)

    def build(self, *shapes: Any, **kwargs: Any) -> None:
        self.built = True  # the first call builds the model

    def call(self, *args: Any, training: bool | None = None, **kwargs: Any) -> Any:
        if kernels.takes_training(self.model):
            kwargs["training"] = training
        return self.model(*args, **kwargs)

    def compute_output_spec(
        self, *args: Any, training: bool | None = None, **kwargs: Any
    ) -> Any:
        # Keras would call the model; on NumPy, with uninitialized arrays.
        if not self.model.built:
            return super().compute_output_spec(*args, training=training, **kwargs)
        if kernels.takes_training(self.model):
            kwargs["training"] = training
        return self.model.compute_output_spec(*args, **kwargs)

    def compute_mask(self, inputs: Any, previous_mask: Any = None) -> Any:
        if not self.model.supports_masking:
            return None
        return self.model.compute_mask(inputs, previous_mask)

    def compile(self, *args: Any, **kwargs: Any) -> None:
        names = [*_STEPS]
        if kwargs.get("metrics") or kwargs.get("weighted_metrics") or len(args) > 2:
            names.append("compute_metrics")
        known = ConfiguredModel, keras.Model, keras.Sequential
        for name in names:
            method = getattr(type(self.model), name, None)
            if method is not None and all(
                method is not getattr(k, name) for k in known
            ):
                raise ValueError(
                    f"`model` must not override `{name}`, which a replayed model does "
                    "not call. Train the model itself, or call the replayed model "
                    f"in your own loop. Received: a {type(self.model).__name__}"
                )
        super().compile(*args, **kwargs)

    def export(self, *args: Any, **kwargs: Any) -> None:
        exported: Any = self.model if isinstance(self.model, keras.Model) else super()
        exported.export(*args, **kwargs)

    @property
    def traces(self) -> int:
        """The number of signatures that are replayed now; 0 on other backends."""
        return self._replayer.traces

    @property
    def refusals(self) -> list[str]:
        """Why signatures are refused, each reason once; [] on other backends."""
        return self._replayer.reasons

    def get_config(self) -> dict[str, Any]:
        model = keras.saving.serialize_keras_object(self.model)
        return {**super().get_config(), "model": model}

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> Any:
        config = dict(config)
        model = keras.saving.deserialize_keras_object(
            config.pop("model"), custom_objects=custom_objects
        )
        return cls(model, **config)


def recorded(model: keras.layers.Layer) -> RecordedModel:
    """Returns a model that replays traced calls of a Keras model or layer on torch.

    Small Keras models on torch spend most of a step in Python. The returned model has
    the same call, the same weights and the same numbers. It traces its second call
    with each signature (structure, shapes and dtypes of the arguments, gradients on or
    off) as a flat list of torch operations, and replays it in later calls. Compile and
    train it, or call it; the original model sees all changes of the weights. The
    optimizer, the loss and the metrics run as usual.

    Tracing takes about 1 ms for each operation, once for each signature; the last
    64 are kept. Pad sequences to a few lengths, and measure: if a few operations take
    most of the time, a replay gains little.

    A trace is dropped when a weight is replaced or frozen, an attribute of a
    layer is set, or an item or key of a list or dict among them is replaced. Other
    Python values are part of the trace, and a later change has no effect: globals,
    closures, NumPy arrays that change in place, and attributes of other objects. Store
    a number that changes in an attribute of a layer, or in a `keras.Variable`. Tracing
    runs the call several times, so its effects on Python values are repeated.

    A call is refused if it reads the values of a tensor (as Python control flow
    that depends on data does), draws random numbers by a `SeedGenerator` of Keras (as
    `GaussianNoise` does, and `Dropout` with a seed), adds a loss, or changes an
    attribute of a layer or, in place, an argument or weight. It then runs as usual,
    and the property `refusals` says why; `traces` is the number of signatures that are
    replayed. Nothing is replayed after `compile(run_eagerly=True)`.

    On JAX and TensorFlow, where `fit` and `predict` are compiled, and inside another
    model, the returned model only calls the original one. The models of this package
    replay the steps of their own `fit`, `evaluate` and `predict`.

    Set attributes, find layers and save weights on `recorded(model).model`, which is
    the original; `export` exports it.

    Args:
        model: a Keras model or layer.

    Returns:
        A `RecordedModel`. Its attribute `model` is the original.

    Raises:
        TypeError: if `model` is not a Keras layer.
        ValueError: from `compile`, if the model overrides `train_step`, `test_step`,
            `predict_step` or `compute_loss`, or `compute_metrics` and has metrics.
        RuntimeError: from the gradient of a replayed call, if a second derivative is
            requested, or if a weight that the gradient needs changed after the call.

    Example:

    >>> import keras
    >>> import numpy as np
    >>> import keras_attention
    >>> model = keras.Sequential([keras.layers.Dense(3), keras.layers.Dense(1)])
    >>> fast = keras_attention.recorded(model)
    >>> x = np.ones((2, 5), "float32")
    >>> bool(np.allclose(fast.predict(x, verbose=0), model.predict(x, verbose=0)))
    True
    """
    return RecordedModel(model)
