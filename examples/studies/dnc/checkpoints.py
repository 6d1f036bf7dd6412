"""Checkpoints of training runs, so that a killed run can resume.

A checkpoint is one NumPy archive per run. It is written under another name, then
renamed, so a kill never leaves a broken file in its place.
"""

from __future__ import annotations

import json
import os
import pathlib
import re
import signal
import threading
import zipfile
import zlib
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
from keras import ops

from studies import clocks
from studies.command_line import UsageError

EVERY = 180.0  # seconds of `budget_clock` between two checkpoints
SIGNALS = (signal.SIGTERM, signal.SIGINT)


class Interrupted(Exception):
    """Training stopped because of a signal, after it wrote a checkpoint.

    Args:
        number: the number of the signal.
    """

    def __init__(self, number: int) -> None:
        super().__init__(f"stopped by signal {number}")
        self.number = number


class Signals:
    """Remembers the first SIGTERM or SIGINT, so that training can stop in order.

    A second signal has its usual effect. Use it as a context manager. Outside the main
    thread, it does nothing.

    Attributes:
        received: the number of the signal, or None.
    """

    def __init__(self) -> None:
        self.received: int | None = None
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Signals:
        if threading.current_thread() is threading.main_thread():
            for number in SIGNALS:
                self._before[number] = signal.signal(number, self._receive)
        return self

    def __exit__(self, *_: Any) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _receive(self, number: int, frame: Any) -> None:
        self.received = number
        self.__exit__()


class Checkpoint:
    """The checkpoint file of one run.

    Args:
        folder: the folder of all checkpoints. It need not exist yet.
        run: the fields that identify the run, with its "settings".
        resume: whether to continue from an existing checkpoint.
        signals: checked between training steps; None ignores signals.
        every: the seconds of `budget_clock` between two checkpoints.
        phase: the name of a later phase of the same run.
    """

    def __init__(
        self,
        folder: pathlib.Path,
        run: dict[str, Any],
        resume: bool,
        signals: Signals | None = None,
        every: float = EVERY,
        phase: str = "",
    ) -> None:
        self.folder, self.resume, self.signals = folder, resume, signals
        self.every, self.run = every, json.loads(json.dumps(run))
        parts = [str(v) for k, v in run.items() if k != "settings" and v is not None]
        name = re.sub(r"[^A-Za-z0-9]+", "-", " ".join([*parts, phase]).strip())
        self.path = folder / f"{name}.npz"
        self._written = clocks.budget_clock()

    def phase(self, name: str) -> Checkpoint:
        """Returns the checkpoint of a later phase of the same run."""
        args = self.folder, self.run, self.resume, self.signals, self.every
        return Checkpoint(*args, phase=name)

    def check(self) -> None:
        """Fails early if the folder or an existing checkpoint cannot be used.

        Raises:
            UsageError: the folder is not writable; there is a checkpoint, but not
                `resume`; or the checkpoint is damaged or belongs to another run.
        """
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            part = self._part()
            part.touch()
            part.unlink()
        except OSError as error:
            raise UsageError(
                f"--checkpoints {self.folder} cannot be used: {error}"
            ) from error
        if not self.path.exists():
            return
        if not self.resume:
            raise UsageError(
                f"{self.path} is a checkpoint of an earlier run. Add --resume to go "
                "on from it, or name another folder with --checkpoints."
            )
        self._read()

    def load(self, model: keras.Model) -> dict[str, Any] | None:
        """Restores the model and its optimizer, and returns the state of the run.

        Returns None if there is no checkpoint.

        Raises:
            UsageError: as for `check`, or the checkpoint has other weights.
        """
        self.check()
        if not self.path.exists():
            return None
        state, arrays = self._read()
        if keras.config.backend() == "torch":
            _set_torch_random(arrays.pop())
        variables = _variables(model)
        theirs = [(array.shape, str(array.dtype)) for array in arrays]
        given = [(tuple(v.shape), keras.backend.standardize_dtype(v.dtype))
                 for v in variables]  # fmt: skip
        if theirs != given:
            raise UsageError(
                f"{self.path} has {len(theirs)} arrays of a model and its optimizer, "
                f"but not those of this model ({len(given)}). Name another folder "
                "with --checkpoints."
            )
        for variable, array in zip(variables, arrays):
            variable.assign(array)
        return state

    def is_due(self) -> bool:
        """Returns whether a signal came or the last checkpoint is too old."""
        if self.signals is not None and self.signals.received is not None:
            return True
        return clocks.budget_clock() - self._written >= self.every

    def save(self, model: keras.Model, state: dict[str, Any]) -> None:
        """Writes the model, its optimizer and the state of the run.

        Raises:
            Interrupted: there was a signal. The checkpoint has been written.
        """
        arrays = {
            f"array {number}": ops.convert_to_numpy(variable)
            for number, variable in enumerate(_variables(model))
        }
        if keras.config.backend() == "torch":
            arrays[f"array {len(arrays)}"] = _torch_random()
        text = json.dumps({"run": self.run, "state": state})
        arrays["text"] = np.frombuffer(text.encode("utf-8"), "uint8")
        part = self._part()
        with part.open("wb") as file:
            np.savez(file, **arrays)
            file.flush()
            os.fsync(file.fileno())
        part.replace(self.path)
        self._written = clocks.budget_clock()
        if self.signals is not None and self.signals.received is not None:
            raise Interrupted(self.signals.received)

    def _part(self) -> pathlib.Path:
        return self.path.with_name(self.path.name + ".part")

    def _read(self) -> tuple[dict[str, Any], list[np.ndarray]]:
        try:
            with (
                self.path.open("rb") as file,
                np.load(file, allow_pickle=False) as archive,
            ):
                whole = json.loads(archive["text"].tobytes().decode("utf-8"))
                count = len(archive.files) - 1
                arrays = [archive[f"array {number}"] for number in range(count)]
            run, state = whole["run"], whole["state"]
        except (
            OSError, EOFError, ValueError, KeyError, TypeError, AttributeError,
            zipfile.BadZipFile, zlib.error,
        ) as error:  # fmt: skip
            raise UsageError(
                f"{self.path} is damaged, or is no checkpoint ({error}). Delete it to "
                "start again, or name another folder with --checkpoints."
            ) from error
        if run != self.run:
            raise UsageError(
                f"{self.path} is a checkpoint of a run with other settings "
                f"({', '.join(_differences(run, self.run))}). Name another folder with "
                "--checkpoints."
            )
        return state, arrays


class Saves(keras.callbacks.Callback):
    """Writes a checkpoint at the end of a step or an epoch, when one is due.

    Args:
        checkpoint: the checkpoint.
        every: write only after a multiple of this number of steps, or an epoch.
        state_of: a function `state_of(loss)` that returns the state of the run. `loss`
            is the mean loss of the current epoch, or None between two epochs.
        stops: a function that returns whether training stops after this step.
    """

    def __init__(
        self,
        checkpoint: Checkpoint,
        every: int,
        state_of: Callable[[float | None], dict[str, Any]],
        stops: Callable[[], bool],
    ) -> None:
        super().__init__()
        self.checkpoint, self.every = checkpoint, every
        self.state_of, self.stops = state_of, stops

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        step = batch + 1
        # A training that stops here ends its epoch first.
        if step % self.every or self.stops():
            return
        if step < self.params["steps"] and self.checkpoint.is_due():
            self._save(float(logs["loss"]))

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        if not self.stops() and self.checkpoint.is_due():
            self._save(None)

    def _save(self, loss: float | None) -> None:
        # `model` synchronizes the state of JAX.
        self.checkpoint.save(self.model, self.state_of(loss))


def _variables(model: keras.Model) -> list[Any]:
    """Returns the variables of the model and its optimizer, without metrics."""
    optimizer = model.optimizer
    if not optimizer.built:
        optimizer.build(model.trainable_variables)
    metrics = {id(variable) for variable in model.metrics_variables}
    own = [v for v in model.variables if id(v) not in metrics]
    return own + list(optimizer.variables)


def _torch_random() -> np.ndarray:
    """Returns the state of torch's random numbers, which Keras uses for dropout."""
    import torch

    return torch.get_rng_state().numpy()


def _set_torch_random(state: np.ndarray) -> None:
    import torch

    torch.set_rng_state(torch.from_numpy(state))


def _differences(one: Any, other: Any) -> list[str]:
    """Returns the names of the fields and settings that differ."""
    if not isinstance(one, dict):
        return ["run"]
    names = sorted(n for n in {*one, *other} if one.get(n) != other.get(n))
    if names == ["settings"] and isinstance(one["settings"], dict):
        return _differences(one["settings"], other["settings"])
    return names
