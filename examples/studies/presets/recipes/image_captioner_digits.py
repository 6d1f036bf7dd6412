"""ImageCaptioner on canvases of handwritten digits."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np

from keras_attention.datasets import canvases
from keras_attention.models import ImageCaptioner
from keras_attention.presets.preprocessors import CaptionPreprocessor
from studies.captions import encoder as encoders
from studies.captions.data import Data, digits
from studies.captions.settings import DECODER, ENCODER
from studies.captions.training import learn
from studies.presets.recipe import Recipe

SIZE = 64  # of a canvas in pixels
TEST = 1000  # canvases
KNOWN = 4000  # training canvases, of which the baseline takes the nearest


def train(seed: int) -> Any:
    """Trains an encoder to read digits, and then a decoder to caption canvases."""
    known = digits(dev=False)
    encoder, _ = encoders.train_encoder(known, {**ENCODER, "epochs": 7, "seed": seed})

    def data(count: int, number: Any, part: str) -> Data:
        made = canvases.generate(count, number, part, SIZE, digits=known)
        features = encoder.predict(made.images, batch_size=128, verbose=0)
        return Data(features, canvases.vectorize(made), made.captions)

    # The decoder learns from the features of the encoder, which stays as it is. The
    # last data are only for statistics of `learn`, which are not used.
    train = data(DECODER["canvases"], [seed, 1], "train")
    decoder, _ = learn("soft", seed, DECODER, train, data(10, [seed, 2], "train"))
    model = joined(encoder, decoder)
    model.preprocessor = CaptionPreprocessor(
        canvases.VOCABULARY, (SIZE, SIZE, 1), canvases.LENGTH
    )
    return model


def joined(encoder: Any, decoder: ImageCaptioner) -> ImageCaptioner:
    """Returns a captioner of an encoder, and of a captioner of its features."""
    config = decoder.get_config()
    names = ("embedding_dim", "units", "cell", "attention", "order")
    arguments = {name: config[name] for name in names}
    arguments["attention"] = keras.saving.deserialize_keras_object(config["attention"])
    model = ImageCaptioner(
        (SIZE, SIZE, 1), decoder.target_vocabulary_size, encoder=encoder, **arguments
    )
    model.encoder.set_weights(encoder.get_weights())
    own = {id(one) for one in model.encoder.weights}
    rest = [one for one in model.weights if id(one) not in own]
    for mine, learned in zip(rest, decoder.weights, strict=True):
        mine.assign(learned)
    return model


def measure(model: Any) -> dict[str, float]:
    """Returns the share of exact captions of canvases of digits not seen before."""
    test = canvases.generate(TEST, 2, "test", SIZE)
    written = model.caption(test.images)
    exact = np.mean([a == b for a, b in zip(written, test.captions)])
    known = canvases.generate(KNOWN, 3, "train", SIZE)
    table = known.images.reshape(KNOWN, -1)
    near = table @ test.images.reshape(TEST, -1).T - (table**2).sum(1)[:, None] / 2
    plain = [known.captions[n] == own for n, own in zip(near.argmax(0), test.captions)]
    return {
        "exact captions %": round(100 * float(exact), 1),
        "baseline exact captions %": round(100 * float(np.mean(plain)), 1),
    }


RECIPE = Recipe(
    what="Describes one or two handwritten digits on a canvas, such as 'a 3 left of "
    "a 7'.",
    data="Canvases of 64 by 64 pixels, composed of 8,000 of the 10,000 test images of "
    "MNIST (LeCun, Cortes and Burges). The test canvases show the other 2,000 images.",
    licence="CC BY-SA 3.0 (MNIST)",
    limits="An image has 64 by 64 pixels; 0 is the background and 1 is ink. A digit "
    "has a height and a width of at most 20 pixels. The network describes only one or "
    "two digits, side by side or one above the other; any other image also gets such a "
    "caption.",
    baseline="the caption of the training canvas (of 4,000) with the most similar "
    "pixels",
    use='model.caption(keras_attention.datasets.canvases.generate(3, part="test")'
    ".images)",
    train=train,
    measure=measure,
)
