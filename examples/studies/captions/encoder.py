"""Trains the encoder on canvases of one digit, and keeps it in a file."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import keras

from keras_attention.datasets import canvases, mnist
from studies.captions import settings as shared
from studies.captions.settings import compiled, percent
from studies.command_line import UsageError


def read_encoder(
    settings: dict[str, Any], cache: pathlib.Path | None
) -> tuple[Any, dict[str, Any]]:
    """Returns the encoder of `write_encoder` and its statistics, or None and {}.

    Raises:
        UsageError: it was trained with other settings or on another backend.
    """
    if cache is None or not cache.with_suffix(".json").exists():
        return None, {}
    about = json.loads(cache.with_suffix(".json").read_text(encoding="utf-8"))
    if about.pop("settings") != _identity(settings):
        raise UsageError(
            f"{cache} has other settings or another backend. Name another --out."
        )
    return keras.saving.load_model(cache), about


def write_encoder(
    encoder: keras.Model,
    about: dict[str, Any],
    settings: dict[str, Any],
    cache: pathlib.Path | None,
) -> None:
    """Keeps an encoder, its settings and its statistics for the next start."""
    if cache is None:
        return
    encoder.save(cache)
    found = {**about, "settings": _identity(settings)}
    cache.with_suffix(".json").write_text(json.dumps(found), encoding="utf-8")


def _identity(settings: dict[str, Any]) -> dict[str, Any]:
    """Returns what an encoder depends on."""
    backend = keras.config.backend()
    return {**settings["encoder"], "dev": settings["dev"], "backend": backend}


def train_encoder(
    known: mnist.Digits, settings: dict[str, Any]
) -> tuple[keras.Model, float]:
    """Trains an encoder to classify canvases of one digit.

    Each location has scores for the ten digits, and the log of their summed exponents
    over the locations is the score of the canvas. The features of a location therefore
    tell the digit there. No layer has a bias, so the features of blank regions are 0.

    Returns:
        The encoder, for canvases of 64 pixels, and the accuracy on test digits in per
        cent.
    """
    seed = settings["seed"]
    keras.utils.set_random_seed(seed)
    convolutions = [*settings["filters"], settings["width"]]
    layers: list[Any] = []
    for n, width in enumerate(convolutions):
        layers.append(
            keras.layers.Conv2D(
                *(width, 3),
                padding="same",
                use_bias=False,
                activation="relu",
                kernel_initializer="he_normal",
            )
        )
        if n < len(settings["filters"]):
            layers.append(keras.layers.MaxPooling2D(2))
    pixels = keras.Input((settings["size"], settings["size"], 1))
    x = pixels
    for layer in layers:
        x = layer(x)
    scores = keras.layers.Dense(10, use_bias=False)(x)
    scores = keras.ops.logsumexp(scores, axis=(1, 2))
    model = keras.Model(pixels, scores)
    count, epochs = settings["canvases"], settings["epochs"]
    compiled(model, settings, epochs * -(-count // settings["batch_size"]))

    def ones(count: int, number: Any, part: str) -> canvases.Canvases:
        size, alone = settings["size"], ["alone"]
        return canvases.generate(count, number, part, size, alone, known)

    for epoch in range(epochs):
        one = ones(count, [seed, 0, epoch], "train")
        model.fit(one.images, one.digits[:, 0], settings["batch_size"], verbose=0)
    one = ones(shared.TEST, 3, "test")
    right = model.predict(one.images, verbose=0).argmax(1) == one.digits[:, 0]
    encoder = keras.Sequential([keras.Input((64, 64, 1)), *layers], name="encoder")
    encoder.trainable = False
    return encoder, percent(right)
