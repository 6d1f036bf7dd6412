"""Trains one decoder and tests its captions."""

from __future__ import annotations

import time
from typing import Any

import keras
import numpy as np

from keras_attention.datasets import canvases
from keras_attention.layers import BahdanauAttention, HardAttention
from keras_attention.layers.base.recording import record_attention
from keras_attention.losses import ReinforceLoss
from keras_attention.models import ImageCaptioner
from studies.captions.data import Data
from studies.captions.settings import compiled, percent


def learn(
    kind: str, seed: int, settings: dict[str, Any], train: Data, test: Data
) -> tuple[ImageCaptioner, dict[str, Any]]:
    """Trains a decoder and tests its captions.

    Args:
        kind: one of `KINDS`.
        seed: the seed of the decoder, of its choices and of the order of the captions.
        settings: `DECODER`.
        train: the data that it learns from.
        test: the data that it captions.

    Returns:
        The model and its results, in per cent.
    """
    keras.utils.set_random_seed(seed)
    units = settings["attention_units"]
    attention: Any = BahdanauAttention(units)
    loss: keras.losses.Loss = keras.losses.SparseCategoricalCrossentropy(
        from_logits=True, ignore_class=0
    )
    if kind != "soft":
        rate = settings["expected_rate"] if kind == "reinforce" else 0.0
        attention = HardAttention(
            units=units, estimator=kind, seed=seed, expected_rate=rate
        )
    if kind == "reinforce":
        loss = ReinforceLoss(loss, settings["weight"])
    sizes = {name: settings[name] for name in ("embedding_dim", "units")}
    model = ImageCaptioner(
        train.features.shape[1:],
        len(canvases.VOCABULARY),
        **sizes,
        cell=settings["cell"],
        attention=attention,
        order=settings["order"],
        encoder=None,
    )
    size, epochs = settings["batch_size"], settings["epochs"]
    compiled(model, settings, epochs * -(-len(train.captions) // size), loss)
    start = time.process_time()
    history = model.fit(
        train.inputs, train.vectors.labels, size, epochs=epochs, verbose=0
    ).history
    seconds = time.process_time() - start
    return model, {
        "loss_of_epochs": [round(one, 4) for one in history["loss"]],
        "decoder_cpu_seconds": round(seconds, 1),
        **scores(model, test),
    }


def scores(model: ImageCaptioner, test: Data) -> dict[str, float]:
    """Returns the share of exact captions, and of attention on the named digit."""
    tokens = model.generate(test.features, max_length=canvases.LENGTH)
    written = [canvases.VOCABULARY.decode(row) for row in tokens]
    grid, boxes = test.features.shape[1:3], test.vectors.boxes
    weights = attended(model, test)
    on_digit = canvases.share_on_box(weights, boxes, grid)
    even = canvases.share_on_box(np.ones_like(weights), boxes, grid)
    exact = np.array([a == b for a, b in zip(written, test.captions)])
    return {
        "exact": percent(exact),
        "on_digit": percent(on_digit[~np.isnan(on_digit)]),
        "on_digit_if_even": percent(even[~np.isnan(even)]),
    }


def attended(model: ImageCaptioner, data: Data) -> np.ndarray:
    """Returns the attention weights for the captions, (N, T, S)."""
    tensors = {k: keras.ops.convert_to_tensor(x) for k, x in data.inputs.items()}
    with record_attention() as maps:
        model(tensors)
    (weights,) = maps.values()
    return weights
