"""Generation by a `Seq2Seq` from sources of S words."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from speed.harness import SEED
from speed.scale.curve import Call, Curve, Series

BATCH, TOKENS, UNITS, VOCABULARY = 4, 32, 128, 1000
FIRST, START = 4, 2
SAMPLERS: dict[str, dict[str, Any]] = {"greedy": {}, "beam": {"num_beams": 5}}


def curve() -> Curve:
    """Returns the curve: greedy search and beam search."""
    return Curve(
        "sources",
        "words in the source",
        (16, 64, 256, 1024),
        (16, 32),
        f"Seq2Seq.generate, {TOKENS} tokens for each of {BATCH} sources, {UNITS} units",
        tuple(Series(f"{name} search", partial(_make, name)) for name in SAMPLERS),
    )


def _make(name: str, words: int, backend: str) -> Call:
    import keras

    from keras_attention import samplers
    from keras_attention.models import Seq2Seq

    keras.utils.set_random_seed(SEED)
    model = Seq2Seq(VOCABULARY, VOCABULARY, embedding_dim=UNITS, units=UNITS)
    generator = np.random.default_rng(SEED)
    source = generator.integers(FIRST, VOCABULARY, (BATCH, words)).astype("int32")
    sampler = samplers.KNOWN[name](**SAMPLERS[name])

    def generate() -> np.ndarray:
        return model.generate(source, TOKENS, sampler, START, stop_token_ids=None)

    return generate
