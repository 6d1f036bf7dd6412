"""Self-attention does not know the order of its inputs, until it is told."""

import numpy as np
import pytest
from gradients import to_numpy
from heads import normal, shaken

from keras_attention import layers
from keras_attention.models import Transformer

B, T, S, D = 2, 7, 5, 6
ORDER = np.array([3, 0, 6, 4, 1, 5, 2])


def words():
    return normal(B, T, D)


def close(found, expected):
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def made(layer):
    """Built for the words, with random weights."""
    layer(words(), *(() if isinstance(layer, BLOCKS) else (words(),)))
    return shaken(layer)


def called(layer, x, **call):
    """Output and weights."""
    more = () if isinstance(layer, BLOCKS) else (x,)
    found = layer(x, *more, return_attention_scores=True, **call)
    return [to_numpy(f) for f in found]


BLOCKS = layers.TransformerEncoderBlock
WITHOUT_ORDER = {
    "parameter-free": lambda: layers.Attention("dot"),
    "additive": lambda: layers.Attention(layers.AdditiveScore(units=3)),
    "heads": lambda: layers.MultiHeadAttention(3, 4),
    "shared heads": lambda: layers.MultiHeadAttention(
        4, 2, num_key_value_heads=2, normalizer="sparsemax", use_gate=True
    ),
    "block": lambda: layers.TransformerEncoderBlock(3, 11),
    "pre-norm block": lambda: layers.TransformerEncoderBlock(
        2, 11, gated=True, norm_first=True, normalization="rms"
    ),
}


@pytest.mark.parametrize("name", WITHOUT_ORDER)
def test_words_in_another_order_are_the_outputs_in_that_order(name):
    layer, x = made(WITHOUT_ORDER[name]()), words()
    output, weights = called(layer, x)
    moved, moved_weights = called(layer, x[:, ORDER])
    close(moved, output[:, ORDER])
    close(moved_weights, weights[..., ORDER, :][..., ORDER])


@pytest.mark.parametrize("name", ["heads", "block"])
def test_a_mask_moves_with_its_words(name):
    layer, x = made(WITHOUT_ORDER[name]()), words()
    there = np.random.default_rng(0).random((B, T)) < 0.7
    names = ["mask"] if name == "block" else ["query_mask", "value_mask"]
    output, _ = called(layer, x, **dict.fromkeys(names, there))
    moved, _ = called(layer, x[:, ORDER], **dict.fromkeys(names, there[:, ORDER]))
    close(moved, output[:, ORDER])


ORDERED = {
    "rotary": ({"position": "rotary"}, {}),
    "alibi": ({"position": "alibi"}, {}),
    "relative": ({"position": "relative"}, {}),
    "window": ({"sliding_window": 2}, {}),
    "causal": ({}, {"use_causal_mask": True}),
}


@pytest.mark.parametrize("name", ORDERED)
def test_positions_windows_and_a_causal_mask_know_the_order(name):
    arguments, call = ORDERED[name]
    layer, x = made(layers.MultiHeadAttention(3, 4, **arguments)), words()
    output, _ = called(layer, x, **call)
    moved, _ = called(layer, x[:, ORDER], **call)
    assert np.abs(moved - output[:, ORDER]).max() > 0.01


@pytest.mark.parametrize(
    "position", [layers.SinePositionEncoding(), layers.PositionEmbedding(T)]
)
def test_positions_that_are_added_are_known(position):
    layer, x = made(layers.MultiHeadAttention(3, 4)), words()
    added = 10 * to_numpy(position(x), "float32")  # learned ones begin small
    output, _ = called(layer, x + added)
    moved, _ = called(layer, x[:, ORDER] + added)
    assert np.abs(moved - output[:, ORDER]).max() > 0.01
    # Where each word takes its position along, nothing has changed.
    close(called(layer, (x + added)[:, ORDER])[0], output[:, ORDER])


def test_distances_alone_do_not_tell_left_from_right():
    layer, x = made(layers.MultiHeadAttention(3, 4, position="alibi")), words()
    close(called(layer, x[:, ::-1])[0], called(layer, x)[0][:, ::-1])


def test_a_memory_is_a_set_to_those_who_read_it():
    block = layers.TransformerDecoderBlock(3, 11)
    x, memory = normal(B, S, D, seed=1), words()
    block(x, memory)
    shaken(block)
    there = np.random.default_rng(0).random((B, T)) < 0.7
    expected = to_numpy(block(x, memory, memory_mask=there))
    found = to_numpy(block(x, memory[:, ORDER], memory_mask=there[:, ORDER]))
    close(found, expected)


@pytest.mark.parametrize(("position", "known"), [(None, False), ("sinusoidal", True)])
def test_a_whole_model_without_positions_reads_a_bag_of_words(position, known):
    model = Transformer(
        11, 13, 1, dim=D, num_heads=2, intermediate_dim=5, position=position
    )
    rng = np.random.default_rng(0)
    source, target = rng.integers(1, 11, (B, T)), rng.integers(1, 13, (B, S))
    expected = to_numpy(model({"source": source, "target": target}))
    found = to_numpy(model({"source": source[:, ORDER], "target": target}))
    assert (np.abs(found - expected).max() > 1e-3) == known
