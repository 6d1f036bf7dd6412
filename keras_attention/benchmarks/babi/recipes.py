"""Recipes: which model, with what arguments, trained how, and beside which column.

A recipe that bears a paper's name is the paper's; where ours differ, docs/decisions.md
says why. Rates are per summed loss, as in the authors' code.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from typing import Any


@dataclass(frozen=True)
class Recipe:
    """How to get from questions to test errors.

    Attributes:
        name: what it is called on the command line.
        mode: "joint" for one network for all tasks, "single" for one a task.
        column: the published column that stands beside it.
        cls: the model's class in `keras_attention.models`.
        arguments: of the model, save `vocabulary_size`.
        epochs: how often the training questions are seen.
        linear_epochs: how many of them go without softmax, for a linear start.
        optimizer: a class in `keras.optimizers`.
        rate: its learning rate.
        halve_every: after how many epochs it is halved, from `linear_epochs` on.
        memory_size: how many sentences of a story are kept.
        buckets: numbers of sentences; stories that have no more than one of them are
            batched together. None of it means that all stories are padded alike.
        clipnorm: the greatest norm of a weight's gradient.
        batch_size: how many questions make a step.
        rename: whether interchangeable words are exchanged in every epoch, see
            `datasets.babi.interchangeable`.
        held_out: the fraction of training questions kept for validation.
    """

    name: str
    mode: str
    column: str
    cls: str = "MemN2N"
    arguments: dict[str, Any] = field(default_factory=dict)
    epochs: int = 100
    linear_epochs: int = 0
    optimizer: str = "SGD"
    rate: float = 0.01
    halve_every: int = 25
    memory_size: int = 50
    buckets: tuple[int, ...] = ()
    clipnorm: float = 40.0
    batch_size: int = 32
    rename: bool = False
    held_out: float = 0.1

    def settings(self) -> dict[str, Any]:
        """What a result depends on, as JSON can hold it."""
        names = asdict(self)
        del names["name"], names["column"]
        return names


_SINGLE = Recipe(
    name="single",
    mode="single",
    column="PE_LS_RN",
    arguments={"embedding_dim": 20, "hops": 3},
)
_BAG = replace(_SINGLE, arguments={**_SINGLE.arguments, "encoding": "bag"})
_NOISE = {"linear_start": True, "time_noise": 0.1}

RECIPES: dict[str, Recipe] = {
    recipe.name: recipe
    for recipe in (
        # Sukhbaatar et al. 2015, table 1, in order.
        replace(_BAG, name="paper-bow", column="BoW"),
        replace(_SINGLE, name="paper-pe", column="PE"),
        replace(
            _SINGLE,
            name="paper-pe-ls",
            column="PE_LS",
            arguments={**_SINGLE.arguments, "linear_start": True},
            linear_epochs=20,
            rate=0.005,
        ),
        replace(
            _SINGLE,
            name="paper-pe-ls-rn",
            arguments={**_SINGLE.arguments, **_NOISE},
            linear_epochs=20,
            rate=0.005,
        ),
        # Ours: Adam, and a softmax that may look at nothing.
        replace(
            _SINGLE,
            name="memn2n",
            arguments={**_SINGLE.arguments, **_NOISE, "normalizer": "softmax1"},
            linear_epochs=20,
            optimizer="Adam",
            rate=0.01,
        ),
        replace(
            _SINGLE,
            name="memn2n-renamed",
            arguments={**_SINGLE.arguments, **_NOISE, "normalizer": "softmax1"},
            linear_epochs=20,
            optimizer="Adam",
            rate=0.01,
            rename=True,
        ),
        Recipe(
            name="memn2n-joint",
            mode="joint",
            column="joint_PE_LS_RN",
            arguments={
                "embedding_dim": 50,
                "hops": 3,
                "normalizer": "softmax1",
                **_NOISE,
            },
            epochs=75,
            linear_epochs=22,
            optimizer="Adam",
            rate=0.003,
            halve_every=12,
        ),
        Recipe(
            name="memn2n-joint-renamed",
            mode="joint",
            column="joint_PE_LS_RN",
            arguments={
                "embedding_dim": 50,
                "hops": 3,
                "memory_size": 130,
                "normalizer": "softmax1",
                **_NOISE,
            },
            epochs=100,
            linear_epochs=22,
            optimizer="Adam",
            rate=0.003,
            halve_every=15,
            memory_size=130,
            buckets=(10, 20, 50),
            rename=True,
        ),
    )
}
