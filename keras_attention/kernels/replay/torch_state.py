"""What a recorded call depends on besides its arguments: weights and attributes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from itertools import chain
from operator import is_
from typing import Any

import keras
import torch

from keras_attention.kernels.replay.torch_structures import PLAIN

MOST_ITEMS = 256  # of a list or dict whose items are compared
_HOOKS = (
    *("_forward_hooks", "_forward_pre_hooks"),
    *("_backward_hooks", "_backward_pre_hooks"),
)
_CONTAINERS = (list, dict, set, tuple)


class State:
    """The weights and the attributes of layers at the time of a recording."""

    def __init__(self, layers: Sequence[Any]) -> None:
        distinct = {id(layer): layer for layer in layers}.values()
        found = {id(v): v for layer in distinct for v in layer.variables}
        self.variables = list(found.values())
        self._weights = [(v, v._value) for v in self.variables]
        self.is_plain = all(type(w) in PLAIN for _, w in self._weights)
        self._places = [
            (w.data_ptr(), w.requires_grad) for _, w in self._weights if self.is_plain
        ]
        self._dicts = [layer.__dict__ for layer in distinct]
        self._values = [*chain.from_iterable(d.values() for d in self._dicts)]
        sized = {id(x): x for x in self._values if isinstance(x, (list, dict, set))}
        # Of Keras' own attributes, the lengths tell all.
        names = _keras_names()
        own = (x for d in self._dicts for n, x in d.items() if n not in names)
        self._filled = [x for x in _containers(own) if 0 < len(x) <= MOST_ITEMS]
        self._items = [*_items(self._filled)]
        sized.update((id(x), x) for x in self._filled if not isinstance(x, tuple))
        self._sized = list(sized.values())
        self._sizes = [*map(len, self._sized)]
        self._hooks = [d[name] for d in self._dicts for name in _HOOKS if name in d]
        # Keras has no public name of the seeds of a layer.
        seeds = chain.from_iterable(d.get("_seed_generators", ()) for d in self._dicts)
        self.seeds = [seed.state for seed in seeds]

    def has_losses(self) -> bool:
        """Returns whether the last call of a layer has added a loss."""
        # Keras has no public name of the losses that a single layer added.
        return any(d.get("_losses") for d in self._dicts)

    def is_current(self) -> bool:
        """Returns whether all weights and attributes are still the same objects."""
        for (variable, weight), place in zip(self._weights, self._places):
            if variable._value is not weight:
                return False
            if (weight.data_ptr(), weight.requires_grad) != place:
                return False
        values = chain.from_iterable(d.values() for d in self._dicts)
        return (
            sum(map(len, self._dicts)) == len(self._values)
            and all(map(is_, values, self._values))
            and [*map(len, self._sized)] == self._sizes
            and all(map(is_, _items(self._filled), self._items))
            and not any(self._hooks)
            and not torch.nn.modules.module._has_any_global_hook()
        )


@cache
def _keras_names() -> frozenset[str]:
    """Returns the names of the attributes that each Keras layer has."""
    # With a name of its own, it does not count in the automatic names of layers.
    return frozenset(vars(keras.layers.Layer(name="attributes")))


class RandomState:
    """The states of the random generators that a recorded call may use.

    Args:
        seeds: the seeds among the variables of the call.
    """

    def __init__(self, seeds: Sequence[Any]) -> None:
        self._seeds = [(v, v._value.clone()) for v in seeds]
        self._cpu = torch.random.get_rng_state()
        self._cuda = []
        if torch.cuda.is_initialized():
            self._cuda = torch.cuda.get_rng_state_all()

    def restore(self) -> None:
        for variable, value in self._seeds:
            variable.assign(value)
        torch.random.set_rng_state(self._cpu)
        if self._cuda:
            torch.cuda.set_rng_state_all(self._cuda)


def _containers(values: Iterable[Any]) -> list[Any]:
    """Returns the lists, dicts and sets among the values and inside each other."""
    found: dict[int, Any] = {}
    rest = [x for x in values if isinstance(x, _CONTAINERS)]
    while rest:
        one = rest.pop()
        if id(one) not in found:
            found[id(one)] = one
            if len(one) <= MOST_ITEMS:
                rest += [x for x in _items([one]) if isinstance(x, _CONTAINERS)]
    return list(found.values())


def _items(containers: Iterable[Any]) -> Iterator[Any]:
    return chain.from_iterable(
        x.values() if isinstance(x, dict) else x for x in containers
    )
