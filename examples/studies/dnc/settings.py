"""What a task of the benchmark consists of, and settings that tasks share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from studies.dnc.problems import Problem


class Task(NamedTuple):
    """A task of the benchmark.

    Attributes:
        what: a one-line description.
        problem: a function that creates the `Problem`.
        model: the default network, "dnc" or "ntm".
        network: the arguments of the network; see `networks.network`.
        training: the settings of the training; see `training.train`.
        minutes: the maximum training time.
        larger: larger numbers of memory slots for further tests.
    """

    what: str
    problem: Callable[..., Problem]
    model: str
    network: dict[str, Any]
    training: dict[str, Any]
    minutes: float
    larger: tuple[int, ...] = ()


TRAINING: dict[str, Any] = {
    "optimizer": "Adam",
    "rate": 2e-3,
    "last_rate": 5e-4,
    "clipnorm": 10.0,
    "batch_size": 16,
    "steps": 200,
    "rounding": 14,
    "validation": 128,
    "tested": 1024,
    "bar": 0.97,
    "last_bar": 0.9995,
    "in_a_row": 2,
    "earlier": 0.0,
    "annealed": 1.0,
    "late": 0.75,
}
GRAPH: dict[str, Any] = {
    "units": 128,
    "memory_slots": 64,
    "word_width": 48,
    "read_heads": 4,
    "refinements": ["layer_normalization"],
}
WORLD: dict[str, Any] = {
    **TRAINING,
    "rate": 1e-3,
    "batch_size": 8,
    "steps": 400,
    "tested": 512,
    "in_a_row": 1,
}
LONG: dict[str, Any] = {**WORLD, "earlier": 0.1, "annealed": 0.6}
