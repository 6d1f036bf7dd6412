"""A language model with fast weights: training on T tokens, generation of T tokens.

It is compared with attention in a sliding window and with attention to all tokens.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from speed.harness import SEED
from speed.scale.curve import Call, Curve, Series

VOCABULARY, DIM, HEADS, WINDOW = 1000, 256, 4, 256
ATTENTIONS = {"fast weights": 0, f"window of {WINDOW}": WINDOW, "all tokens": None}
SIZES = f"CausalLM, 2 blocks, width {DIM}, {HEADS} heads, {VOCABULARY} words"


def training_curve() -> Curve:
    """Returns the curve of a training step with one sequence."""
    return Curve(
        "training",
        "tokens of the sequence",
        (1024, 2048, 4096, 8192, 16_384),
        (128, 256),
        f"a training step with one sequence; {SIZES}",
        tuple(Series(name, partial(_training, name)) for name in ATTENTIONS),
    )


def tokens_curve() -> Curve:
    """Returns the curve of greedy generation from a prompt of one token."""
    return Curve(
        "tokens",
        "generated tokens",
        (512, 1024, 2048, 3072, 4096),
        (16, 32),
        f"CausalLM.generate, one sequence; {SIZES}",
        tuple(Series(name, partial(_generation, name)) for name in ATTENTIONS),
    )


def _model(name: str) -> Any:
    import keras

    from keras_attention.layers import FastWeightAttention
    from keras_attention.models import CausalLM

    keras.utils.set_random_seed(SEED)
    window = ATTENTIONS[name]
    kind: dict[str, Any] = {"attention": FastWeightAttention(HEADS, DIM // HEADS)}
    if window != 0:
        block = {"attention": {"sliding_window": window}}
        kind = {"num_heads": HEADS, "block": block}
    return CausalLM(
        VOCABULARY,
        num_layers=2,
        dim=DIM,
        intermediate_dim=4 * DIM,
        dropout=0.0,
        position=None if window == 0 else "rotary",
        **kind,
    )


def _training(name: str, length: int, backend: str) -> Call:
    import keras

    model = _model(name)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("adam", loss, jit_compile=backend == "jax")
    tokens = np.random.default_rng(SEED).integers(1, VOCABULARY, (1, length + 1))
    return lambda: model.train_on_batch({"tokens": tokens[:, :-1]}, tokens[:, 1:])


def _generation(name: str, length: int, backend: str) -> Call:
    model = _model(name)
    prompt = np.array([[1]])
    return lambda: model.generate({"tokens": prompt}, length + 1, stop_token_ids=None)
