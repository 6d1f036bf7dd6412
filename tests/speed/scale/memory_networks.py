"""A training step of MemN2N: stories of M sentences, and a vocabulary of V words."""

from __future__ import annotations

from functools import partial

import numpy as np

from speed.compare.memn2n import CLIP, HOPS, RATE, batch_of
from speed.harness import SEED
from speed.scale.curve import Call, Curve, Series, once

STORIES = {"B": 8, "V": 190, "d": 50, "L": 12}
VOCABULARY = {"B": 32, "d": 50, "M": 50, "L": 12}
NOISE = 0.1


def stories_curve() -> Curve:
    """Returns the curve over the number of sentences in a story."""
    return Curve(
        "stories",
        "sentences in a story",
        (10, 100, 1000, 3000, 10_000),
        (10, 30),
        f"a training step of MemN2N, {_text(STORIES)}",
        (
            Series("without time noise", partial(_story, 0.0)),
            Series(f"with time noise {NOISE}", partial(_story, NOISE)),
        ),
    )


def vocabulary_curve() -> Curve:
    """Returns the curve over the vocabulary, with points around 256 words."""
    return Curve(
        "vocabulary",
        "words in the vocabulary",
        (100, 200, 256, 257, 400, 1000, 10_000, 100_000),
        (100, 300),
        f"a training step of MemN2N, {_text(VOCABULARY)}",
        (Series("position encoding", _vocabulary),),
    )


def _text(sizes: dict[str, int]) -> str:
    return " ".join(f"{name}{size}" for name, size in sizes.items())


def _story(noise: float, sentences: int, backend: str) -> Call:
    return _step({**STORIES, "M": sentences}, backend, noise=noise)


def _vocabulary(words: int, backend: str) -> Call:
    return _step({**VOCABULARY, "V": words}, backend)


def _step(sizes: dict[str, int], backend: str, noise: float = 0.0) -> Call:
    """Returns a compiled training step on full stories."""
    import keras

    from keras_attention.models import MemN2N
    from speed.compare.training import TrainingStep

    keras.utils.set_random_seed(SEED)
    story, question, answer = batch_of(sizes, full=True)

    def build() -> TrainingStep:
        model = MemN2N(
            vocabulary_size=sizes["V"],
            embedding_dim=sizes["d"],
            hops=HOPS,
            memory_size=sizes["M"],
            time_noise=noise,
        )
        loss = keras.losses.SparseCategoricalCrossentropy(
            from_logits=True, reduction="sum"
        )
        model.compile(keras.optimizers.SGD(RATE, clipnorm=CLIP), loss)
        inputs: dict[str, np.ndarray] = {"story": story, "question": question}
        return TrainingStep(model, inputs, answer, backend)

    return once(build)
