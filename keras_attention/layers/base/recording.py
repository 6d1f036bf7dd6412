"""Records the weights of attention layers, as NumPy arrays or as tensors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import count
from typing import Any, NamedTuple

import numpy as np
from keras import ops

from keras_attention import kernels

Tensor = Any
Maps = dict[str, Any]


class Recording(NamedTuple):
    """An active recording: its maps, and the function that converts new weights."""

    maps: Maps
    convert: Callable[[str, Tensor], Any]  # of a path and weights


_active: ContextVar[Recording | None] = ContextVar(
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
                "`record_attention` has recorded nothing: no attention layer was "
                "called eagerly inside. Call `model(inputs)` instead of `predict` or "
                "`fit`."
            )


def collect_attention() -> Any:
    """Returns a context like `record_attention` that records tensors, in traces too."""
    return _recording(lambda path, weights: weights)


@contextmanager
def _recording(convert: Callable[[str, Tensor], Any]) -> Iterator[Maps]:
    recording = Recording({}, convert)
    token = _active.set(recording)
    try:
        yield recording.maps
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
        add(recording.maps, path, recording.convert(path, weights))


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
