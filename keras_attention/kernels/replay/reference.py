"""Calls on backends that compile, or that only predict: nothing is replayed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from itertools import chain, compress
from operator import is_
from typing import Any

import keras

Tensor = Any
Structure = Any
decision = bool  # of a boolean tensor

MOST_ITEMS = 256  # of a list or dict whose items are compared
_CONTAINERS = (list, dict, set, tuple)
# Attributes of a model that Keras sets in `compile`, `fit`, `evaluate` and `predict`
_TRAINER = (
    *("_called", "_compile_config", "_compile_loss", "_compile_metrics", "_jax_state"),
    *("_compiled_trainable_state", "_eval_epoch_iterator", "_jit_compile", "compiled"),
    *("_loss_tracker", "history", "loss", "optimizer", "predict_function"),
    *("stop_evaluating", "stop_predicting", "stop_training", "test_function"),
    "train_function",
)


class State:
    """The attributes of objects, such as layers, at the time of a compilation.

    The items of the lists, dicts and sets among them count, too; of more than 256
    items, only the number counts.
    """

    def __init__(self, objects: Sequence[Any], variables: Sequence[Any] = ()) -> None:
        self.layers = [x for x in objects if isinstance(x, keras.layers.Layer)]
        values = chain(*(layer.variables for layer in self.layers), variables)
        self.variables = [*{id(v): v for v in values}.values()]
        distinct = {id(x): x for x in objects}.values()
        owners = [(getattr(x, "__dict__", {}), x) for x in distinct]
        self._dicts = [(d, isinstance(x, keras.Model)) for d, x in owners]
        dicts = self._current_dicts()
        # Keras sets `_called` of each layer. Its place stays, so it is left out by it.
        self._counts = [name != "_called" for d in dicts for name in d]
        names = _keras_names()  # of these attributes, the lengths tell all
        attributes = (x for d in dicts for name, x in d.items() if name not in names)
        containers = _containers(attributes)
        self._compared = [x for x in containers if 0 < len(x) <= MOST_ITEMS]
        values = chain(self._compared, *(d.values() for d in dicts))
        self._sized = [x for x in values if isinstance(x, (list, dict, set))]
        self._numbers, self._objects = map(list, self._current())

    def is_current(self) -> bool:
        """Returns whether all attributes and items are still the same objects."""
        numbers, objects = self._current()
        return numbers == self._numbers and all(map(is_, objects, self._objects))

    def _current_dicts(self) -> list[dict[str, Any]]:
        """Returns the attributes of each object."""
        return [
            {k: v for k, v in d.items() if k not in _TRAINER} if is_model else d
            for d, is_model in self._dicts
        ]

    def _current(self) -> tuple[list[Any], Iterator[Any]]:
        """Returns what must stay equal, and what must stay the same objects."""
        dicts = self._current_dicts()
        values = compress(chain(*(d.values() for d in dicts)), self._counts)
        numbers = [*map(len, dicts), *map(len, self._sized)]
        return numbers, chain(values, _items(self._compared))


@cache
def _keras_names() -> frozenset[str]:
    """Returns the names of the attributes that each Keras layer has."""
    # With a name of its own, it does not count in the automatic names of layers.
    return frozenset(vars(keras.layers.Layer(name="attributes")))


def _containers(values: Iterable[Any]) -> list[Any]:
    """Returns the lists, dicts and sets among the values and inside each other."""
    containers: dict[int, Any] = {}
    queue = [x for x in values if isinstance(x, _CONTAINERS)]
    while queue:
        container = queue.pop()
        if id(container) not in containers:
            containers[id(container)] = container
            if len(container) <= MOST_ITEMS:
                queue += [x for x in _items([container]) if isinstance(x, _CONTAINERS)]
    return list(containers.values())


def _items(containers: Iterable[Any]) -> Iterator[Any]:
    """Yields the items of lists and sets, and the keys and values of dicts."""
    return chain.from_iterable(
        chain(x, x.values()) if isinstance(x, dict) else x for x in containers
    )


class Replayer:
    """Calls a function as it is; see `torch.py` for the arguments."""

    def __init__(
        self, function: Callable[..., Structure], layers: Any, after: float = 0.0
    ) -> None:
        self.function = function
        self.traces: int = 0
        self.reasons: list[str] = []

    def __call__(self, *args: Any, **kwargs: Any) -> Structure:
        """Calls the function."""
        return self.function(*args, **kwargs)


def random_input(function: Callable[[], Structure]) -> Structure:
    """Calls the function, which returns random numbers."""
    return function()


def expect(condition: Callable[[], Tensor]) -> None:
    """Does nothing, because nothing is replayed."""


def will_be_known(tensor: Tensor) -> bool:
    """Returns False."""
    return False
