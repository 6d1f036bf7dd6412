"""Errors that say what to write instead of a call or a name of Keras."""

import numpy as np
import pytest
from catalogue import ROWS

from keras_attention import layers

ATTENTIONS = {
    row.cls: row for row in ROWS if issubclass(row.cls, layers.AttentionLayer)
}
NEEDS_SIZE = {
    "additive": "AdditiveScore(units=…)",
    "bahdanau": "AdditiveScore(units=…)",
    "concat": "ConcatScore(units=…)",
    "location": "LocationScore(max_length=…)",
}


@pytest.mark.parametrize("cls", ATTENTIONS, ids=lambda cls: cls.__name__)
def test_a_list_as_in_keras(cls):
    layer, x = ATTENTIONS[cls].make(), np.ones((2, 3, 4), "float32")
    for given in ([x, x], (x, x, x)):
        message = rf"`{cls.__name__}` takes no list: call layer\(query, value\).*"
        with pytest.raises(
            TypeError, match=rf"{message}Received: a .* of {len(given)}"
        ):
            layer(given)


@pytest.mark.parametrize("name", NEEDS_SIZE)
@pytest.mark.parametrize(
    "cls",
    [
        layers.Attention,
        layers.LuongAttention,
        layers.HardAttention,
        layers.MonotonicAttention,
        layers.AttentionPooling,
    ],
)
def test_a_score_that_needs_a_size(cls, name):
    own = {layers.LuongAttention: ("concat", "location")}
    own[layers.AttentionPooling] = ("additive",)
    if name in own.get(cls, ()):  # its own argument has the size
        message = "`(units|max_length)` must be"
        if cls is layers.AttentionPooling:
            return
    else:
        message = f"needs a size: pass score={NEEDS_SIZE[name]} instead".replace(
            "(", r"\("
        ).replace(")", r"\)")
    with pytest.raises(ValueError, match=message):
        cls(score=name)


def test_a_score_of_another_type():
    with pytest.raises(ValueError, match=r"`score` must be one of .*Received: score="):
        layers.Attention(score=["dot"])
