"""A compiled training step of a Keras model on prepared tensors."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

TRACING_SECONDS = 60.0  # at most
CALLS = ("train_function", "train_on_batch")


class TrainingStep:
    """Calls the compiled training step of a Keras model.

    The weights are the same before and after the step is created and compiled.

    Args:
        model: a compiled model.
        inputs: the input arrays of the model.
        targets: an array.
        backend: "jax", "tensorflow" or "torch".
        call: "train_function", the compiled step on tensors; or "train_on_batch", which
            adds Keras' processing of NumPy arrays.
        replayed: whether to train `keras_attention.recorded(model)` instead, which has
            the same weights.
    """

    def __init__(
        self,
        model: Any,
        inputs: dict[str, np.ndarray],
        targets: np.ndarray,
        backend: str,
        call: str = "train_function",
        replayed: bool = False,
    ) -> None:
        import keras

        self.model = model
        if replayed:
            import keras_attention

            optimizer = keras.optimizers.deserialize(
                keras.optimizers.serialize(model.optimizer)
            )
            model = keras_attention.recorded(model)
            model.compile(optimizer, self.model.loss)
        self.trained = model
        self.inputs, self.targets = inputs, targets
        weights = [array_of(weight) for weight in model.weights]
        model.train_on_batch(inputs, targets)  # creates and compiles the step
        self._state: Any = None
        convert = keras.ops.convert_to_tensor
        tensors = {name: convert(array) for name, array in inputs.items()}
        self.data = (tensors, convert(targets), None)
        steps: dict[str, Callable[[], Any]] = {
            "jax": self._jax_step,
            "tensorflow": lambda: model.train_function(iter([self.data])),
            "torch": lambda: model.train_function([self.data]),
        }
        self.step: Callable[[], Any] = steps[backend]
        if call == "train_on_batch":
            self.step = lambda: model.train_on_batch(inputs, targets)
        trace_steps(model, self.step)
        model.set_weights(weights)

    def __call__(self) -> Any:
        """Runs one step. Its result is complete when the step is done."""
        return self.step()

    def predict(self) -> np.ndarray:
        """Returns the model's output with its current weights."""
        if self._state is not None:
            variables = self.model.trainable_variables
            for variable, value in zip(variables, self._state[0], strict=True):
                variable.assign(value)
            self._state = None
        return self.model.predict_on_batch(self.inputs)

    def _jax_step(self) -> Any:
        """Runs Keras' stateless step on JAX and stores the new state."""
        if self._state is None:
            self._state = self._jax_state()
        logs, self._state = self.model.train_function(self._state, iter([self.data]))
        return logs, self._state[0]

    def _jax_state(self) -> Any:
        """Copies the state, because the compiled step reuses its arguments' memory."""
        import jax.numpy as jnp

        model = self.model
        return tuple(
            [jnp.copy(variable.value) for variable in variables]
            for variables in (
                model.trainable_variables,
                model.non_trainable_variables,
                model.optimizer.variables,
                model.metrics_variables,
            )
        )


def trace_steps(model: Any, step: Callable[[], Any]) -> None:
    """Runs steps on torch until they are replayed.

    `fit` traces a model of this package after some seconds; see `ConfiguredModel`.
    Other models, and other backends, are left as they are.
    """
    import keras

    replayer = getattr(model, "_replayer", None)
    if keras.backend.backend() != "torch" or replayer is None or model.run_eagerly:
        return
    end = time.perf_counter() + TRACING_SECONDS
    while time.perf_counter() < end and not replayer.has_settled:
        step()


def array_of(variable: Any) -> np.ndarray:
    """Returns a copy of a variable's value."""
    from keras import ops

    return np.array(ops.convert_to_numpy(variable))
