"""Sentences to words and back."""

import pytest

from keras_attention.presets.preprocessors import sentences
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
