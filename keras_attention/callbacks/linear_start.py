"""Ends the linear start of a memory network."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import keras

from keras_attention.callbacks.epoch_states import EpochStates


class LinearStart(keras.callbacks.Callback):
    """Switches on the softmax of the memory hops of a model with a linear start.

    A model with `linear_start=True` first trains its hops without the softmax, to avoid
    poor local minima. This callback ends that phase after a fixed number of epochs, as
    in the authors' code, or when the validation loss stops falling, as in the paper. It
    works on any model that contains a `MemoryHop`, at any depth. The switch is a
    variable, so compiled training steps use the new value.

    Args:
        epochs: the number of epochs without the softmax; None to monitor the loss.
        monitor: the loss to monitor.
        patience: the number of epochs without improvement before the switch.
        path: a file that stores the losses that were monitored, so that interrupted
            training can resume with `keras.callbacks.BackupAndRestore`. It is not
            necessary with `epochs`. The file is deleted when training ends.

    Raises:
        ValueError: (in `fit`) if the model has no hop with a linear start; if
            `monitor` is not among the logs.

    Example:

    >>> from keras_attention.callbacks import LinearStart
    >>> callbacks = [LinearStart(epochs=20)]   # model.fit(…, callbacks=callbacks)

    Reference:
        Sukhbaatar et al., "End-to-end memory networks" (2015), section 4.2.
    """

    def __init__(
        self,
        epochs: int | None = None,
        monitor: str = "val_loss",
        patience: int = 1,
        path: str | os.PathLike[str] | None = None,
    ) -> None:
        super().__init__()
        if epochs is not None and epochs < 0:
            raise ValueError(f"`epochs` must not be negative. Received: {epochs=}")
        if patience < 1:
            raise ValueError(f"`patience` must be at least 1. Received: {patience=}")
        self.epochs = epochs
        self.monitor = monitor
        self.patience = patience
        self.path = None if path is None else Path(path)
        self.switched_at: int | None = None

    def on_train_begin(self, logs: Any = None) -> None:
        self.switched_at = None
        self._best = float("inf")
        self._waited = 0
        self._states = EpochStates(self.path)
        if not self._switches():
            raise ValueError(
                "`LinearStart` needs a model with a hop that has `linear_start=True`. "
                f"Received: model={self.model.name!r}"
            )

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        state = self._states.resume(epoch)
        if state is not None:
            self._best, self._waited, at = state
            if at is not None:  # the restored weights may be from before the switch
                self._switch(at)
        if self.epochs is not None and epoch >= self.epochs:
            self._switch(epoch)

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        if self.epochs is None and self.switched_at is None:
            self._watch(epoch, logs or {})
        self._states.store(epoch + 1, [self._best, self._waited, self.switched_at])

    def on_train_end(self, logs: Any = None) -> None:
        self._states.delete()

    def _watch(self, epoch: int, logs: dict[str, Any]) -> None:
        """Switches if the loss did not fall for `patience` epochs."""
        if self.monitor not in logs:
            raise ValueError(
                f"`monitor` must be one of the logs {sorted(logs)}; does `fit` "
                f"have validation data? Received: monitor={self.monitor!r}"
            )
        if logs[self.monitor] < self._best:
            self._best, self._waited = float(logs[self.monitor]), 0
            return
        self._waited += 1
        if self._waited >= self.patience:
            self._switch(epoch + 1)

    def _switches(self) -> list[Any]:
        return [v for v in self.model.non_trainable_variables if is_switch(v)]

    def _switch(self, epoch: int) -> None:
        if self.switched_at is None:
            self.switched_at = epoch
            for variable in self._switches():
                variable.assign(False)


def is_switch(variable: Any) -> bool:
    """Returns whether a variable is the linear-start switch of a hop."""
    return variable.name == "linear_start"
