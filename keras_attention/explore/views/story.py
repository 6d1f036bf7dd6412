"""The first view: a story, a question, and the hops of a memory network."""

from __future__ import annotations

from typing import Any

import numpy as np

from keras_attention.datasets import babi
from keras_attention.explore import examples
from keras_attention.explore.views import texts
from keras_attention.explore.views.networks import network
from keras_attention.presets.preprocessors import running
from keras_attention.presets.preprocessors.stories import FIRST_WORD
from keras_attention.visualization import View, hops_view

TITLE = "Which sentences does each hop read?"
ANSWERS = 4  # the likeliest answers that are shown


def look(story: str, question: str, model: Any = None) -> View:
    """Answers a question about a story, a sentence a line, and shows each hop.

    Raises:
        InputError: the story or the question is empty or too long, or holds words that
            the network never learned.
    """
    model = network(examples.STORY_PRESET) if model is None else model
    tools = model.preprocessor

    def split(text: str) -> tuple[str, ...]:
        example = babi.Example(0, (), babi.tokenize(text), None)
        return babi.join_phrases([example], tools.phrases)[0].question

    sentences = texts.sentences_of(story, tools.sentence_length, split)
    texts.words_of("a question", question, tools.sentence_length, split)
    _check_known(tools, [w for line in (*sentences, question) for w in split(line)])
    inputs = tools.encode(sentences, question)
    logits = running.run(model, inputs)[0]  # (V,)
    answers = _answers(logits, tools.vocabulary)
    running.packed(*answers[0], least=tools.min_score)  # flags a low score
    weights = running.hops_of(model, inputs, logits)  # (K, M)
    read = sentences[-weights.shape[1] :]
    return hops_view(weights, read, question, answers, title=TITLE)


def _check_known(tools: Any, words: list[str]) -> None:
    """Checks the words before the network does, to say it in words for readers."""
    known = tools.vocabulary
    single = [word for word in known.words[2:] if word.isalpha()]
    texts.check_known(known.unknown_words(words), single[::8][:24])


def _answers(logits: np.ndarray, vocabulary: Any) -> list[tuple[str, float]]:
    shares = running.probabilities(logits[FIRST_WORD : len(vocabulary)])
    best = np.argsort(-shares)[:ANSWERS]
    return [(vocabulary.words[FIRST_WORD + n], float(shares[n])) for n in best]
