"""The data of the decoders: features of canvases, with captions."""

from __future__ import annotations

import pathlib
import time
from typing import Any, NamedTuple

import numpy as np

from keras_attention.datasets import DataNotFoundError, canvases, mnist
from studies.captions import settings as shared
from studies.captions.encoder import read_encoder, train_encoder, write_encoder
from studies.command_line import UsageError


class Data(NamedTuple):
    """Canvases with captions, and the features of their locations."""

    features: np.ndarray  # (N, rows, columns, ·)
    vectors: canvases.Vectors
    captions: list[str]

    @property
    def inputs(self) -> dict[str, np.ndarray]:
        """The inputs of an `ImageCaptioner` without an encoder."""
        target = self.vectors.inputs["target"]
        return {"features": self.features, "target": target}


def digits(dev: bool) -> mnist.Digits:
    """Returns the digits to make canvases of.

    Args:
        dev: whether to leave out the digits of the test canvases.
    """
    try:
        images, labels = mnist.load("test")
    except DataNotFoundError as error:
        raise UsageError(str(error)) from error
    rows = np.arange(len(labels)) % 5 != 4 if dev else slice(None)
    return mnist.Digits(images[rows], labels[rows])


def prepare(
    settings: dict[str, Any], cache: pathlib.Path | None = None
) -> tuple[Data, Data, dict[str, Any]]:
    """Trains an encoder, or reads it from a file, and applies it to the canvases.

    Args:
        settings: the settings of a run.
        cache: where to keep the encoder; None keeps it in memory.

    Returns:
        The training data and the test data of the decoders, and statistics.
    """
    known, seed = digits(settings["dev"]), settings["encoder"]["seed"]
    encoder, about = read_encoder(settings, cache)
    if encoder is None:
        start = time.process_time()
        encoder, accuracy = train_encoder(known, settings["encoder"])
        seconds = round(time.process_time() - start, 1)
        about = {"digits": accuracy, "encoder_cpu_seconds": seconds}
        write_encoder(encoder, about, settings, cache)
    start = time.process_time()

    def data(count: int, number: Any, part: str) -> Data:
        made = canvases.generate(count, number, part, digits=known)
        features = encoder.predict(made.images, batch_size=128, verbose=0)
        return Data(features, canvases.vectorize(made), made.captions)

    train = data(settings["decoder"]["canvases"], [seed, 1], "train")
    test = data(shared.TEST, 2, "test")
    seconds = round(time.process_time() - start, 1)
    return train, test, {**about, "features_cpu_seconds": seconds}
