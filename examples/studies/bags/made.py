"""Bit patterns and latch sequences: HopfieldClassifier with `model.fit`."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import keras
import numpy as np

from keras_attention.datasets import bags
from keras_attention.models import HopfieldClassifier

TRAINED = 0.75  # share of training bags

# Settings of the authors' example for bit patterns, adapted to our model.
BITS: dict[str, Any] = {
    "model": {
        "dims": [],
        "num_heads": 8,
        "key_dim": 8,
        "update_steps": 3,
        "beta": 0.25,
        "dropout": 0.5,
    },
    "rate": 1e-3,
    "batch_size": 32,
    "epochs": 250,
}
LATCH: dict[str, Any] = {
    "model": {"dims": [], "num_heads": 1, "key_dim": 8},
    "rate": 1e-3,
    "batch_size": 32,
    "epochs": 20,
}
MAKERS: dict[str, Callable[..., bags.Bags]] = {
    "bits": bags.bit_patterns,
    "latch": bags.latch_sequences,
}


def run(name: str, settings: dict[str, Any], seed: int) -> dict[str, Any]:
    """Trains one network and tests it after each epoch.

    Args:
        name: "bits" or "latch".
        settings: in the format of `BITS`.
        seed: the seed of the bags and of the network.

    Returns:
        `accuracy`, the test accuracy after the last epoch; `accuracies`, the test
        accuracy after each epoch; and the duration.
    """
    keras.utils.set_random_seed(seed)
    made = MAKERS[name](seed=seed)
    border = int(TRAINED * len(made))
    train, test = (
        made.take(rows) for rows in (np.arange(border), np.arange(border, len(made)))
    )
    model = HopfieldClassifier(made.instances.shape[1], **settings["model"])
    model.compile(
        keras.optimizers.AdamW(settings["rate"]),
        keras.losses.BinaryCrossentropy(from_logits=True),
        metrics=[keras.metrics.BinaryAccuracy(threshold=0.0, name="accuracy")],
    )
    start, cpu = time.perf_counter(), time.process_time()
    history = model.fit(
        train.padded(),
        train.labels,
        batch_size=settings["batch_size"],
        epochs=settings["epochs"],
        validation_data=(test.padded(), test.labels),
        validation_batch_size=len(test),
        verbose=0,
    ).history
    each = [round(float(accuracy), 4) for accuracy in history["val_accuracy"]]
    return {
        "accuracy": each[-1],
        "accuracies": each,
        "tested": len(test),
        "parameters": model.count_params(),
        "fit_seconds": round(time.perf_counter() - start, 1),
        "fit_cpu_seconds": round(time.process_time() - cpu, 1),
    }
