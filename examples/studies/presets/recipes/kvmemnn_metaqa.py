"""KeyValueMemNN on MetaQA's questions about films, of one fact each.

The package contains no network that learned from MetaQA; this recipe makes it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras
import numpy as np

from keras_attention import callbacks
from keras_attention.datasets import triples
from keras_attention.models import KeyValueMemNN
from keras_attention.presets.preprocessors import FactPreprocessor
from keras_attention.text import EntityLinker, UnknownEntityError
from studies.metaqa.command import TRAINING
from studies.metaqa.report import model_of
from studies.presets.recipe import Recipe

MODEL = model_of(1)
EPOCHS = TRAINING["epochs"]


def train(seed: int) -> Any:
    """Trains on the development questions, as the benchmark "metaqa" does."""
    keras.utils.set_random_seed(seed)
    knowledge, linker = _knowledge()
    asked = _linked(triples.load_metaqa(1, "dev"), linker)
    count = len(knowledge.relations) // 2
    tools = FactPreprocessor(
        triples.question_vocabulary(asked, linker),
        knowledge.relations[1 : 1 + count],
        MODEL["memory_size"],
        MODEL["hops"],
        max(len(linker.link(question.text).words) for question in asked),
    )
    found = tools.vectorize(knowledge, asked, linker)
    model = KeyValueMemNN(len(tools.vocabulary), 1 + 2 * count, **MODEL)
    model.compile(
        keras.optimizers.Adam(TRAINING["rate"]), keras.losses.CategoricalCrossentropy()
    )
    halve = callbacks.HalveLearningRate(TRAINING["halve_every"])
    size = TRAINING["batch_size"]
    model.fit(found.inputs, found.answers, size, EPOCHS, verbose=2, callbacks=[halve])
    model.preprocessor = tools
    return model


def measure(model: Any) -> dict[str, float]:
    """Returns how often the likeliest entity is right, of the test questions.

    A question whose entity the facts lack counts as wrong.
    """
    knowledge, linker = _knowledge()
    test = triples.load_metaqa(1, "test")
    asked = _linked(test, linker)
    found = model.preprocessor.vectorize(knowledge, asked, linker)
    best = model.predict(found.inputs, batch_size=500, verbose=0).argmax(1)
    right = found.answers[np.arange(len(best)), best] > 0
    return {"hits@1 %": round(100 * float(right.sum()) / len(test), 1)}


def _knowledge() -> tuple[triples.KnowledgeBase, EntityLinker]:
    knowledge = triples.KnowledgeBase(triples.load_metaqa_facts())
    return knowledge, EntityLinker(knowledge.entities)


def _linked(
    questions: Sequence[triples.Question], linker: EntityLinker
) -> list[triples.Question]:
    """Returns the questions whose entity is known."""
    found = []
    for question in questions:
        try:
            linker.link(question.text)
        except UnknownEntityError:
            continue
        found.append(question)
    return found


RECIPE = Recipe(
    what="Answers questions about films from facts that you give it.",
    data="The one-hop development questions of MetaQA (Zhang et al., 2018), "
    "https://github.com/yuyuz/MetaQA, and the facts of WikiMovies.",
    licence="CC BY 3.0 (MetaQA and WikiMovies)",
    limits="It knows the relations of WikiMovies and the words of MetaQA's questions "
    "only. Names are free. It reads the facts around the name in a question, and "
    "follows one.",
    baseline="none measured; docs/results/metaqa.md has a regression on pairs of words",
    use='model.answer(["Heat | directed_by | Michael Mann"], "Who directed Heat?")',
    train=train,
    measure=measure,
)
