"""MemN2N on all 20 bAbI tasks with 1,000 questions each, one network."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from keras_attention.datasets import babi
from keras_attention.presets.preprocessors import StoryPreprocessor
from studies.babi.recipes import RECIPES
from studies.babi.training import Trainer
from studies.presets.recipe import Recipe


def train(seed: int) -> Any:
    """Trains the network of the recipe "joint-lessons", in about 13 minutes."""
    trainer = Trainer(RECIPES["joint-lessons"], None, "1k")
    trainer.run(seed)
    phrases = [p for found in trainer.exchanges.values() for p in found.phrases]
    length = trainer.train.inputs["story"].shape[-1]
    trainer.model.preprocessor = StoryPreprocessor(
        trainer.vocabulary, trainer.slots, length, list(dict.fromkeys(phrases))
    )
    return trainer.model


def measure(model: Any) -> dict[str, float]:
    """Returns the mean error of the 20 tasks' test questions, in percent."""
    tools = model.preprocessor
    errors = []
    for task in babi.TASKS:
        examples = babi.join_phrases(babi.load(task, "test", "1k"), tools.phrases)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # long stories are truncated
            test = babi.vectorize(
                examples, tools.vocabulary, tools.memory_size, tools.sentence_length
            )
        logits = model.predict(test.inputs, batch_size=200, verbose=0)
        errors.append(100 * np.mean(logits.argmax(-1) != test.answers))
    return {"error %": round(float(np.mean(errors)), 2)}


RECIPE = Recipe(
    what="Answers questions about short stories, of the kinds of the 20 bAbI tasks.",
    data="The 20 bAbI tasks, 1,000 training questions each (Weston et al., 2015), "
    "https://research.facebook.com/downloads/babi/.",
    licence="CC BY 3.0",
    limits="It knows the words of the tasks only, about 160, and stories of up to 130 "
    "sentences. Tasks 3 and 16 stay hard.",
    use='model.answer(["Mary moved to the garden."], "Where is Mary?")',
    train=train,
    measure=measure,
)
