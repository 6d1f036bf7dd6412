"""Measures classifiers of texts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from studies.presets.recipes import _sentences as shared

BATCH = 256  # texts


def classes(model: Any, texts: Sequence[str]) -> np.ndarray:
    """Returns the name of the class of each text.

    The preprocessor refuses a text without known words, or with too many words. The
    first class stands for such a text.
    """
    tools = model.preprocessor
    found = np.full(len(texts), tools.classes[0], dtype=object)
    with shared.unknown_words():
        readable = shared.readable(tools, texts)
        inputs = tools.encode([texts[i] for i in readable])
    logits = model.predict(inputs, batch_size=BATCH, verbose=0)
    found[readable] = np.array(tools.classes, dtype=object)[logits.argmax(1)]
    return found
