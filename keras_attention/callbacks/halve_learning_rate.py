"""Halves the learning rate every few epochs."""

from __future__ import annotations

from typing import Any

import keras


class HalveLearningRate(keras.callbacks.Callback):
    """Halves the learning rate every few epochs.

        rate(e) = r · ½^⌊(e − start) / every⌋

    The rate of epoch e is set at its start, and r is the optimizer's rate when `fit`
    was called. Before epoch `start`, the rate is r. The callback counts epochs, while a
    Keras schedule counts steps and therefore depends on the size of the data. To
    continue an earlier `fit` with the same optimizer, first reset its learning rate to
    r. `keras.callbacks.BackupAndRestore` may stand before or after this callback: a
    rate that it restores does not change r.

    Args:
        every: the number of epochs between halvings. The paper uses 25 for single tasks
            and 15 for joint training on all tasks.
        start: the first epoch to count from, such as the end of a linear start.

    Example:

    >>> from keras_attention.callbacks import HalveLearningRate
    >>> callbacks = [HalveLearningRate(every=25)]  # model.fit(…, callbacks=callbacks)

    Reference:
        Sukhbaatar et al., "End-to-end memory networks" (2015), section 4.2.
    """

    def __init__(self, every: int = 25, start: int = 0) -> None:
        super().__init__()
        if every < 1:
            raise ValueError(f"`every` must be at least 1. Received: {every=}")
        self.every = every
        self.start = start

    def set_model(self, model: Any) -> None:
        super().set_model(model)
        # Other callbacks may restore a halved rate in `on_train_begin`.
        if getattr(model, "optimizer", None) is not None:
            self._rate = float(model.optimizer.learning_rate)

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        halvings = max(epoch - self.start, 0) // self.every
        self.model.optimizer.learning_rate = self._rate * 0.5**halvings
