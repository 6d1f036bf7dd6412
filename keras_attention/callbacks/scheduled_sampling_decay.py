"""Decay of the probability of teacher forcing."""

from __future__ import annotations

import math
from typing import Any

import keras


class ScheduledSamplingDecay(keras.callbacks.Callback):
    """Lowers the probability of teacher forcing during training.

        ε_i = 1 − k / (k + exp(i / k))          (inverse sigmoid decay)

    Here i counts the steps of the optimizer, across all calls of `fit`. The callback
    sets the probability of every `ScheduledSampling` in the model, at any depth, and
    overwrites its earlier value. After k · log(k) steps, half of the inputs are the
    decoder's own predictions.

    Args:
        k: at least 1. A larger k gives a later and slower decay.

    Raises:
        ValueError: if k is below 1; in `fit`, if the model has no `ScheduledSampling`.

    Example:

    >>> from keras_attention.callbacks import ScheduledSamplingDecay
    >>> callbacks = [ScheduledSamplingDecay(k=500)]  # model.fit(…, callbacks=callbacks)
    >>> round(callbacks[0].probability(3107), 3)
    0.5

    Reference:
        Bengio et al., "Scheduled sampling for sequence prediction with recurrent neural
        networks" (2015), section 2.4.
    """

    def __init__(self, k: float) -> None:
        super().__init__()
        if k < 1:
            raise ValueError(f"`k` must be at least 1. Received: {k=}")
        self.k = k

    def probability(self, step: int) -> float:
        """Returns the sampling probability at `step`."""
        return 1 / (1 + self.k * math.exp(-step / self.k))

    def on_train_begin(self, logs: Any = None) -> None:
        if not self._variables():
            raise ValueError(
                "`ScheduledSamplingDecay` needs a model with a `ScheduledSampling`. "
                f"Received: model={self.model.name!r}"
            )

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        iterations = keras.ops.convert_to_numpy(self.model.optimizer.iterations)
        self._first = int(iterations)

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        for variable in self._variables():
            variable.assign(self.probability(self._first + batch))

    def _variables(self) -> list[Any]:
        variables = self.model.non_trainable_variables
        return [v for v in variables if v.name == "sampling_probability"]
