"""Trains a network lesson by lesson on newly generated sequences."""

from __future__ import annotations

import copy
import itertools
import pathlib
import time
from collections.abc import Sequence
from typing import Any

import keras

from studies import clocks
from studies.dnc.checkpoints import Checkpoint, Saves
from studies.dnc.fresh import POOL, Fresh
from studies.dnc.lessons import Lessons
from studies.dnc.networks import network
from studies.dnc.problems import Problem
from studies.dnc.slots import copy_state, with_slots
from studies.dnc.testing import tested, tested_larger
from studies.dnc.traces import traced
from studies.reports import thinned

FIXED = ", fixed ε"  # of tests without the scaled ε of `DNCNetwork.resized`


def train(
    problem: Problem,
    model: keras.Model,
    settings: dict[str, Any],
    seed: int,
    minutes: float,
    progress: Any = None,
    checkpoint: Checkpoint | None = None,
    unfinished: bool = False,
) -> dict[str, Any]:
    """Trains `model` until it passes the last lesson or runs out of time.

    Args:
        problem: the training problem.
        model: maps inputs and the answer mask to logits.
        settings: the training settings of `tasks.py`.
        seed: the seed of all random numbers.
        minutes: the maximum time, including compilation and validation: CPU time, on an
            accelerator elapsed time.
        progress: a function that is called with each entry of the history, or None.
        checkpoint: where the run is stored and resumed from, or None.
        unfinished: whether to stop at the checkpoint instead of training.

    Returns:
        `seconds`, `cpu_seconds`, `steps`, `lesson` (from 1), `of_lessons`, `solved` and
        `history`; `parts`, the scores at the end of each part of the time, if there are
        any; `share`, the used share of the time, if the run is unfinished; and
        `device`, if it is not the CPU. The time of an accelerator is elapsed time.
    """
    optimizer = keras.optimizers.Adam(
        settings["rate"], global_clipnorm=settings["clipnorm"]
    )
    model.compile(optimizer, problem.loss)
    batches = Fresh(
        problem,
        settings["steps"],
        settings["batch_size"],
        settings["rounding"],
        seed,
        settings["earlier"],
    )
    lessons = Lessons(batches, settings, seed, minutes)
    told = keras.callbacks.LambdaCallback(
        on_epoch_end=lambda epoch, logs: progress and progress(lessons.history[-1])
    )
    used = [lessons, told]
    state = None
    if checkpoint is not None:
        state = checkpoint.load(model)
        used.append(Saves(checkpoint, POOL, lessons.state, lambda: lessons.stops))
    if state is not None:
        lessons.restore(state)
    how = {"verbose": 0, "shuffle": False, "callbacks": used}
    done = state is not None and state["ended"]
    ended = done or unfinished
    while not ended:
        sized = with_slots(model, settings, batches.lesson)
        lessons.grows = lessons.stops = ended = False
        if batches.skipped:  # the rest of an interrupted epoch
            sized.fit(batches, epochs=1, **how)
            ended = sized.stop_training
        if not ended:
            sized.fit(batches, epochs=10**6, **how)
        ended = not lessons.grows
        copy_state(sized, model)
        if checkpoint is not None and lessons.grows:
            checkpoint.save(model, lessons.state())
    share = round(lessons._used(), 4)
    if checkpoint is not None and not unfinished:
        checkpoint.save(model, {**lessons.state(), "ended": True})
    return {
        "seconds": round(time.perf_counter() - lessons.start, 1),
        "cpu_seconds": round(clocks.budget_clock() - lessons.cpu_start, 1),
        "steps": lessons.steps,
        "lesson": batches.lesson + 1,
        "of_lessons": len(problem.lessons),
        "solved": lessons.solved,
        "history": thinned(lessons.history),
        **({"parts": lessons.parts} if lessons.parts else {}),
        **({"share": share} if unfinished and not done else {}),
        **({"device": lessons.device} if lessons.device != "cpu" else {}),
    }


def run_of(
    problem: Problem,
    model: str,
    settings: dict[str, Any],
    seed: int,
    larger: Sequence[int] = (),
    progress: Any = None,
    checkpoint: Checkpoint | None = None,
    saved: pathlib.Path | None = None,
    unfinished: bool = False,
) -> dict[str, Any]:
    """Creates and trains a network. Tests it on new sequences.

    Args:
        problem: the task.
        model: one of `networks.MODELS`.
        settings: `network`, `training` and `minutes`.
        seed: the seed of the weights and all random numbers.
        larger: larger numbers of memory slots for further tests.
        progress: see `train`.
        checkpoint: see `train`.
        saved: a file for the trained network, or None. With memory that grows, it is
            the network before growing.
        unfinished: see `train`.

    Returns:
        The output of `train`; `weights`, the number of weights; `tests`, the scores of
        each test; with the setting "traced", a number of vectors, `traces`, the output
        of `traced` for each number of slots; and, if the memory grows, `grown`, the
        output of `grown`.
    """
    made = network(problem, model, settings["network"], seed)
    training = settings["training"]
    minutes = settings["minutes"]
    result = train(
        problem, made, training, seed, minutes, progress, checkpoint, unfinished
    )
    result["weights"] = made.count_params()
    if saved is not None:
        saved.parent.mkdir(parents=True, exist_ok=True)
        made.save(saved)
    enough = "slots" in training
    result["tests"] = tested(problem, made, seed, training["tested"], 64, enough)
    # A network that grows keeps its ε.
    kinds = {"": True, FIXED: False} if "grown" not in training else {"": False}
    for slots, (after, scaled) in itertools.product(larger, kinds.items()):
        larger_model = made.resized(slots, scaled)
        result["tests"] |= tested_larger(problem, larger_model, seed, training, after)
    if "traced" in training:
        models = [made, *(made.resized(n, True) for n in larger if n < 1000)]
        result["traces"] = [
            {"slots": one.cell.memory_slots, **traced(one, training["traced"], seed)}
            for one in models
        ]
    if larger and "grown" in training and not unfinished:
        left = minutes - result["cpu_seconds"] / 60
        made, result["grown"] = grown(
            problem, made, training, seed, left, progress, checkpoint
        )
        for slots in larger:
            larger_model = made.resized(slots)
            result["tests"] |= tested_larger(
                problem, larger_model, seed, training, " after growing"
            )
    return result


def grown(
    problem: Problem,
    model: Any,
    training: dict[str, Any],
    seed: int,
    minutes: float,
    progress: Any = None,
    checkpoint: Checkpoint | None = None,
) -> tuple[Any, list[dict[str, Any]]]:
    """Continues the last lesson with increasing numbers of memory slots.

    Args:
        problem: the training problem.
        model: a trained `DNCNetwork`.
        training: the training settings of the model, and three more: `grown`, the
            numbers of slots; `grown_rate`, the learning rate; and `grown_steps`, the
            steps per epoch.
        seed: the seed of all random numbers.
        minutes: the remaining CPU time.
        progress: see `train`.
        checkpoint: see `train`.

    Returns:
        The network with the last number of slots, and the output of `train` for each
        number. Growing stops early when the time is over or when the network does not
        pass the lesson.
    """
    last = copy.copy(problem)
    last.lessons, last.bars = problem.lessons[-1:], ()
    settings = {
        **training,
        "rate": training["grown_rate"],
        "steps": training["grown_steps"],
    }
    results: list[dict[str, Any]] = []
    for slots in training["grown"] if minutes > 0 else ():
        model = model.resized(slots)
        # Another seed gives new sequences.
        phase = checkpoint and checkpoint.phase(f"{slots} slots")
        result = train(last, model, settings, seed + slots, minutes, progress, phase)
        minutes -= result["cpu_seconds"] / 60
        results.append({"slots": slots, **result})
        if minutes <= 0 or not result["solved"]:
            break
    return model, results
