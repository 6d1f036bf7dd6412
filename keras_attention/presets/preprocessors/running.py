"""How preprocessors run a model on one batch, and return its answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras
import numpy as np

from keras_attention.layers.base.recording import is_recording, record_attention
from keras_attention.ops.sequence.decoding import bucket
from keras_attention.text.user_warnings import UntrainedInputWarning, warn_user

SEQUENCES = {"tokens", "source", "target"}  # the inputs that 0 may pad at the end


def run(model: Any, inputs: Any) -> Any:
    """Runs a model on one batch, compiled where the backend compiles.

    On JAX, the first call takes 1.4 s instead of the 6.6 s of single operations, for
    the network of 20 bAbI tasks. Each further length would be compiled again, so tokens
    are padded to the lengths of `decoding.bucket`. Inside `record_attention`, the call
    is not compiled, so that the attention can be recorded.

    Returns:
        The outputs, as NumPy arrays. With tokens, the last steps may be padding.
    """
    if is_recording():
        outputs = model(inputs, training=False)
        return keras.tree.map_structure(keras.ops.convert_to_numpy, outputs)
    most = getattr(model, "max_length", None)  # learned positions
    padded = {}
    for name in SEQUENCES & {*inputs}:
        length = inputs[name].shape[1]
        width = bucket(length) if most is None else min(bucket(length), most)
        padded[name] = np.pad(inputs[name], [(0, 0), (0, max(width - length, 0))])
    return model.predict_on_batch({**inputs, **padded})


def probabilities(logits: np.ndarray) -> np.ndarray:
    """Returns the softmax over the last axis, in float64."""
    logits = logits.astype("float64")
    powers = np.exp(logits - logits.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def token_scores(
    model: Any, inputs: Any, name: str, prompts: Sequence[Sequence[int]], tokens: Any
) -> list[float]:
    """Returns the geometric mean of the probabilities of the tokens of each row.

    Args:
        model: a model that predicts each token from those before it.
        inputs: its inputs except the one called `name`.
        name: the name of the input that holds the tokens.
        prompts: B rows of tokens that stand before those that were written.
        tokens: (B, T), the tokens that were written, then 0.
    """
    written = [row[: max(1, np.count_nonzero(row))] for row in np.asarray(tokens)]
    rows = [[*prompt, *row] for prompt, row in zip(prompts, written)]
    read = keras.utils.pad_sequences([row[:-1] for row in rows], padding="post")
    scores = []
    for row, new, logits in zip(rows, written, run(model, {**inputs, name: read})):
        known = probabilities(logits[len(row) - len(new) - 1 : len(row) - 1])
        scores.append(float(np.exp(np.log(known[range(len(new)), new]).mean())))
    return scores


def hops_of(model: Any, inputs: Any, outputs: Any) -> Any:
    """Returns the weights (K, M) of each hop, or the maps of a model without hops.

    Of a `MemNN`, they are 1 for the fact that a hop found.
    """
    if isinstance(outputs, dict) and "found" in outputs:
        slots = inputs["story"].shape[1]
        return np.eye(slots + 1)[outputs["found"][0]][:, :slots]  # −1 finds none
    with record_attention() as maps:
        model(inputs, training=False)
    rows = [weights[0] for weights in maps.values()]
    return np.stack(rows) if rows[0].ndim == 1 else maps


def flag(*messages: str) -> None:
    """Warns at the user's line, once for each message."""
    for message in messages:
        warn_user(message, UntrainedInputWarning)


def flag_unsure(answer: str, score: float, least: float) -> None:
    """Warns if the score of an answer is below the least score."""
    if score < least:
        flag(
            f"The network is unsure of the answer {answer!r}: its score is "
            f"{score:.2g}, and the scores of answers that can be relied on are at "
            f"least {least:.2g}."
        )


def packed(answer: Any, score: Any = None, attention: Any = None) -> Any:
    """Returns an answer, or a tuple of it and of what else is not None."""
    further = [x for x in (score, attention) if x is not None]
    return (answer, *further) if further else answer
