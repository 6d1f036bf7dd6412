"""Records the weights of attention layers, as arrays, tensors or outputs of a model."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import count
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_attention import kernels
from keras_attention.layers.base.serialization import Configured, export

Tensor = Any
Maps = dict[str, Any]
# Pairs of sizes for the unknown axes: an axis of a map is known if it does not change.
# Convolutions and pooling need a length, and learned positions end at one.
SIZES = (16, 32), (64, 128), (8, 16), (4, 8), (2, 4)


# The maps of the active recording, and what converts their entries.
_active: ContextVar[tuple[Maps, Callable[[str, Tensor], Any]] | None] = ContextVar(
    "keras_attention_recording", default=None
)
# Returns the active recording if layers must compute and record their weights, or None.
is_recording: Callable[[], Any] = _active.get


@contextmanager
def record_attention() -> Iterator[Maps]:
    """Records the weights of all attention layers called eagerly in this context.

    Inside the context, layers use explicit attention instead of fused kernels. Several
    calls of a layer are numbered: "hop/0", "hop/1", ….

    Yields:
        A dict that maps the path of each called layer to its weights. The weights are a
        NumPy array (B, T, S), or (B, H, T, S) with heads. They have no T axis if the
        query has none.

    Raises:
        RuntimeError: if a layer is called in a compiled function (`predict` or `fit` on
            a backend that compiles them), because symbolic weights have no values; or
            if no layer was called when the context ends.

    Example:

    >>> import numpy as np
    >>> import keras_attention
    >>> attention = keras_attention.layers.Attention(name="attention")
    >>> x = np.ones((1, 3, 2), "float32")
    >>> with keras_attention.record_attention() as maps:
    ...     y = attention(x, x)
    >>> maps["attention"].shape
    (1, 3, 3)
    """
    with _recording(_to_numpy) as maps:
        yield maps
        if not maps:
            raise NothingRecordedError(
                "`record_attention` has recorded nothing: no attention layer of "
                "keras_attention was called eagerly inside. Call `model(inputs)` "
                "instead of `predict` or `fit`. Keras' own layers are not recorded."
            )


@contextmanager
def _recording(convert: Callable[[str, Tensor], Any]) -> Iterator[Maps]:
    """A context that records what `convert` makes of each path and its weights."""
    maps: Maps = {}
    token = _active.set((maps, convert))
    try:
        yield maps
    finally:
        _active.reset(token)


class NothingRecordedError(RuntimeError):
    """No attention layer was called eagerly in the context of `record_attention`."""


class _NotEagerError(RuntimeError, ValueError):
    """A call in a trace. Of errors in a build, Keras' `fit` keeps a ValueError only."""


def record(path: str, weights: Tensor) -> None:
    """Adds the weights of a layer with this path to the active recording, if any."""
    recording = _active.get()
    if recording is not None:
        maps, convert = recording
        add(maps, path, convert(path, weights))


def add(maps: Maps, path: str, array: Any) -> None:
    """Adds what a call of a layer has recorded, numbered if the layer has several."""
    if path in maps:
        maps[f"{path}/0"] = maps.pop(path)
        maps[f"{path}/1"] = array
    elif f"{path}/0" in maps:
        call = next(n for n in count() if f"{path}/{n}" not in maps)
        maps[f"{path}/{call}"] = array
    else:
        maps[path] = array


def _to_numpy(path: str, weights: Tensor) -> np.ndarray:
    if kernels.is_traced(weights):
        raise _NotEagerError(
            "`record_attention` needs layers that are called eagerly: call "
            "`model(inputs)` instead of `predict`, `fit` or a compiled function. "
            f"Received: a traced call of layer {path!r}"
        )
    return ops.convert_to_numpy(weights)


def with_attention(model: keras.Model, inputs: Any = None) -> keras.Model:
    """Returns a functional model that also returns the attention weights.

    The new model has the inputs of `model`, and shares its layers and weights. Its
    output is a dict with the outputs of `model` and the weights of each attention layer
    inside it. It can be trained, saved and exported like any Keras model. The attention
    layers do not use fused kernels.

    Args:
        model: a functional or sequential model, a model of this package, or any other
            Keras model that contains attention layers of this package.
        inputs: `keras.Input`, or a list or dict of them, to call `model` with. Required
            if `model` has no symbolic inputs, as a subclass of `keras.Model` with its
            own `call`.

    Returns:
        A `keras.Model`. Its outputs are a dict. The output of `model` has the key
        "output". Several outputs have the keys "output_0", "output_1", …, or those of
        the dict that `model` returns. The other keys are those of `record_attention`:
        the paths of the attention layers. The weights are (B, T, S), or (B, H, T, S)
        with heads.

    Raises:
        ValueError: if `model` is not a Keras model, has no symbolic inputs, or contains
            no attention layer of this package; or if a layer has the path of an output.

    Example:

    >>> import keras
    >>> import numpy as np
    >>> import keras_attention
    >>> x = keras.Input((None, 2), name="x")
    >>> y = keras_attention.layers.Attention(name="attention")(x, x)
    >>> model = keras_attention.with_attention(keras.Model(x, y))
    >>> found = model.predict(np.ones((1, 3, 2), "float32"), verbose=0)
    >>> {name: array.shape for name, array in found.items()}
    {'attention': (1, 3, 3), 'output': (1, 3, 2)}
    """
    if not isinstance(model, keras.Model):
        raise ValueError(f"`model` must be a Keras model. Received: model={model!r}")
    if inputs is None:
        if not getattr(model, "inputs", None):
            raise ValueError(
                "`inputs` must be given for a model without symbolic inputs, for "
                "instance `inputs=keras.Input((None,), dtype='int32')`. "
                f"Received: the model {model.name!r} ({type(model).__name__})"
            )
        sequential = isinstance(model, keras.Sequential)
        inputs = model.inputs[0] if sequential else model.input
    if not model.built:
        model(inputs)  # outside the new layer, which would be part of each path
    outputs = WithAttention(model)(inputs)
    return keras.Model(inputs, outputs, name=f"{model.name}_with_attention")


@export
class WithAttention(Configured, keras.layers.Layer):
    """Calls a model and returns its outputs and its attention weights by name.

    The names of the weights, in the order of the calls, are by default the paths of the
    layers when the model is first called. A saved file keeps them.
    """

    def __init__(
        self, model: keras.Model, names: Sequence[str] | None = None, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True
        self.model = model
        self.names = None if names is None else tuple(names)

    def build(self, inputs_shape: Any = None) -> None:
        self.built = True  # the model builds itself when it is called

    def call(self, inputs: Any, training: bool | None = None) -> dict[str, Tensor]:
        with _recording(lambda path, weights: weights) as maps:  # in traces, too
            outputs = self.model(inputs, training=training)
        if not maps:
            raise ValueError(
                "`model` must contain an attention layer of this package that returns "
                f"its weights. Received: the model {self.model.name!r}"
            )
        if self.names is None:
            self.names = tuple(maps)
        if len(maps) != len(self.names):
            raise ValueError(
                "`model` must call the same attention layers each time. "
                f"Received: weights of {[*maps]}, first of {[*self.names]}"
            )
        named = _by_name(outputs)
        for name, weights in zip(self.names, maps.values()):
            if name in named:
                raise ValueError(
                    "The path of an attention layer must not be the name of an output. "
                    f"Received: {name!r} in the model {self.model.name!r}"
                )
            named[name] = weights
            record(name, weights)  # for a recording around this call
        # Torch keeps the order of a dict, and the other backends sort it. A file refers
        # to outputs by number.
        return dict(sorted(named.items()))

    def compute_output_spec(self, inputs: Any, **arguments: Any) -> Any:
        """Traces the call with known sizes; unknown sizes may not fit each other."""
        if not self.model.built:  # a subclassed model from a file
            self.model(inputs)

        for pair in SIZES:
            try:
                first, second = (
                    _OfZeros(self.call).compute_output_spec(
                        keras.tree.map_structure(_sized(*sizes), inputs), **arguments
                    )
                    for sizes in zip((2, 3), pair)
                )
                break
            except (ValueError, TypeError, RuntimeError, *kernels.ERRORS):
                if pair == SIZES[-1]:
                    raise

        def merged(a: Any, b: Any) -> keras.KerasTensor:
            shape = [n if n == m else None for n, m in zip(a.shape, b.shape)]
            return keras.KerasTensor(shape, a.dtype)

        return keras.tree.map_structure(merged, first, second)

    def compute_mask(self, inputs: Any, previous_mask: Any = None) -> None:
        return None


class _OfZeros(keras.Operation):
    """Calls a function with zeros. Keras on NumPy traces with arbitrary ids."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def call(self, inputs: Any, **arguments: Any) -> Any:
        zeros = keras.tree.map_structure(ops.zeros_like, inputs)
        return self.function(zeros, **arguments)


def _by_name(outputs: Any) -> dict[str, Tensor]:
    """Returns the outputs of a model by name."""
    if isinstance(outputs, dict):
        return dict(outputs)
    if isinstance(outputs, (list, tuple)):
        return {f"output_{n}": output for n, output in enumerate(outputs)}
    return {"output": outputs}


def _sized(batch: int, size: int) -> Any:
    """Returns a function that replaces the unknown sizes of a symbolic tensor."""

    def sized(x: Any) -> Any:
        if x is None:
            return None
        unknown = batch, *[size] * len(x.shape[1:])
        shape = [m if n is None else n for m, n in zip(unknown, x.shape)]
        return keras.KerasTensor(shape, x.dtype)

    return sized
