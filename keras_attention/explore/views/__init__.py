"""The views: what each network computes, as HTML. They need Keras, and no Gradio."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from keras_attention.explore.views import (
    hopfield,
    memory,
    own_model,
    sentence,
    story,
    temperature,
    texts,
    translation,
)
from keras_attention.visualization import View

_LOOKS: dict[str, Callable[..., View]] = {
    "hopfield": hopfield.look,
    "memory": memory.look,
    "own_model": own_model.look_at_file,
    "sentence": sentence.look,
    "story": story.look,
    "temperature": temperature.look,
    "translation": translation.look,
}


def shown(view: str, *args: Any) -> str:
    """Returns the HTML of a view, named as its file, or of a message to the reader."""
    return texts.shown(_LOOKS[view], *args)
