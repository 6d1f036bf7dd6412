"""Sentences to words and back, and the scores of recipes."""

import math

import numpy as np
import pytest

from keras_attention.presets.preprocessors import sentences
from keras_attention.presets.recipes import _sentences as shared
from keras_attention.text import Vocabulary

TEXTS = ["The dog saw Tom.", "Tom saw the dog!", "I saw I do.", "Dogs run."]


def test_a_vocabulary_keeps_the_capitals_of_names():
    found = sentences.cased_vocabulary(TEXTS)
    assert not found.lowercase
    assert {"the", "Tom", "I", "dogs"} < {*found.tokens}
    assert not {"The", "tom", "i", "Dogs"} & {*found.tokens}
    assert len(sentences.cased_vocabulary(TEXTS, 7)) == 7
    assert "saw" in sentences.cased_vocabulary(TEXTS, min_count=3)
    assert "do" not in sentences.cased_vocabulary(TEXTS, min_count=2)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("The Dog saw tom.", ["the", "dog", "saw", "Tom", "."]),
        ("tom! THE cat", ["Tom", "!", "the", "cat"]),
        ('"The dog', ['"', "the", "dog"]),
        ("Xavier saw", ["Xavier", "saw"]),
    ],
)
def test_words_are_read_in_the_spelling_of_the_vocabulary(text, words):
    assert sentences.words_of(text, sentences.cased_vocabulary(TEXTS)) == words


@pytest.mark.parametrize(
    "text",
    [
        "The dog saw Tom.",
        "Yes, I do! Do you?",
        '"Run," he said.',
        "It costs $5 (or 10%).",
        "He isn't 3.5 m tall.",
    ],
)
def test_words_become_the_text_again(text):
    words = sentences.words_of(text, Vocabulary(["the", "do"], lowercase=False))
    assert sentences.text_of(words) == text


@pytest.mark.parametrize(
    ("text", "words", "whole"),
    [
        ("I want", ["to", "go", "."], "I want to go."),
        ("I want ", ["."], "I want."),
        ("Stop!", ["he", "ran"], "Stop! He ran"),
        ("Stop", [], "Stop"),
    ],
)
def test_words_are_added_to_a_text(text, words, whole):
    assert sentences.add_words(text, words) == whole


def test_bleu():
    same = ["The cat sat on the mat ."]
    assert math.isclose(shared.bleu(same, [same]), 100)
    assert shared.bleu(["a b c d"], [["e f g h"]]) == 0
    # Of 4, 3, 2 and 1 grams, 4, 3, 2 and 1 are right; 4 words are written for 5.
    short = shared.bleu(["a b c d"], [["a b c d e", "x"]])
    assert math.isclose(short, 100 * math.exp(1 - 5 / 4))
    # A word counts as often as in one reference. By hand: 3/4, 2/3, 1/2 and 0/1.
    assert shared.bleu(["a b c c"], [["a b c"]]) == 0
    mixed = shared.bleu(["a b c d c"], [["a b c d e"]])
    right = (4 / 5 * 3 / 4 * 2 / 3 * 1 / 2) ** 0.25
    assert math.isclose(mixed, 100 * right)


def test_the_mean_loss_leaves_padding_out():
    logits = np.log([[[0.5, 0.25, 0.25], [0.1, 0.8, 0.1], [0.2, 0.2, 0.6]]])
    found = shared.mean_loss(logits + 7, np.array([[1, 2, 0]]))
    assert math.isclose(found, -(math.log(0.25) + math.log(0.1)) / 2)
