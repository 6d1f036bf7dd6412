"""How preprocessors run a model on one batch, and return its answers."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np

from keras_attention.layers.base.recording import is_recording, record_attention
from keras_attention.models.base.generation import padded
from keras_attention.user_warnings import UntrainedInputWarning, warn_user

SEQUENCES = {"tokens", "source", "target"}  # the inputs that 0 may pad at the end


def run(model: Any, inputs: Any) -> Any:
    """Runs a model on one batch, compiled where the backend compiles.

    On JAX, the first call takes 1.4 s instead of the 6.6 s of single operations, for
    the network of 20 bAbI tasks. Tokens are padded to few lengths, since each is
    compiled. Inside `record_attention`, the call is not compiled, so that the attention
    can be recorded.

    Returns:
        The outputs, as NumPy arrays. With tokens, the last steps may be padding.
    """
    if is_recording():
        outputs = model(inputs, training=False)
        return keras.tree.map_structure(keras.ops.convert_to_numpy, outputs)
    most = getattr(model, "max_length", None)  # learned positions
    longer = {
        name: padded(tokens, most and max(most, tokens.shape[1]))
        for name, tokens in inputs.items()
        if name in SEQUENCES
    }
    return model.predict_on_batch({**inputs, **longer})


def probabilities(logits: np.ndarray) -> np.ndarray:
    """Returns the softmax over the last axis, in float64."""
    logits = logits.astype("float64")
    powers = np.exp(logits - logits.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def scored(texts: Any, model: Any, inputs: Any, prompts: Any, tokens: Any) -> list[Any]:
    """Returns B texts with the geometric mean of the probabilities of their tokens.

    The tokens (B, T), with 0 behind them, follow B prompts.
    """
    written = [row[: max(1, np.count_nonzero(row))] for row in np.asarray(tokens)]
    rows = [[*prompt, *row][:-1] for prompt, row in zip(prompts, written)]
    read = keras.utils.pad_sequences(rows, padding="post")
    name = "target" if inputs else "tokens"
    scores = []
    for row, new, logits in zip(rows, written, run(model, {**inputs, name: read})):
        shares = probabilities(logits[len(row) - len(new) : len(row)])
        scores.append(float(np.exp(np.log(shares[range(len(new)), new]).mean())))
    return [*zip(texts, scores)]


def hops_of(model: Any, inputs: Any, outputs: Any) -> Any:
    """Returns the weights (K, M) of K hops, or all maps of a model without hops."""
    if isinstance(outputs, dict) and "found" in outputs:  # the facts of a `MemNN`
        slots = inputs["story"].shape[1]
        return np.eye(slots + 1)[outputs["found"][0]][:, :slots]  # −1 finds none
    with record_attention() as maps:
        model(inputs, training=False)
    rows = [weights[0] for weights in maps.values()]
    return np.stack(rows) if rows[0].ndim == 1 else maps


def flag(*messages: str) -> None:
    """Warns at the user's line of each message."""
    for message in messages:
        warn_user(message, UntrainedInputWarning)


def packed(
    answer: str,
    score: float,
    attend: Any = None,
    least: float = 0.0,
    return_scores: bool = False,
    return_attention: bool = False,
) -> Any:
    """Returns an answer, with its score and what `attend` returns if wanted."""
    if score < least:
        flag(f"The network is unsure of {answer!r}: its score is below {least:.2g}.")
    maps = [attend()] if return_attention else []
    parts = [answer, *[score] * return_scores, *maps]
    return tuple(parts) if len(parts) > 1 else answer
