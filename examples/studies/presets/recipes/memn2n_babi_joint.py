"""MemN2N on all 20 bAbI tasks with 1,000 questions each, one network."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from keras_attention.datasets import babi
from keras_attention.presets.preprocessors import StoryPreprocessor
from keras_attention.presets.preprocessors.running import probabilities
from studies.babi.recipes import RECIPES
from studies.babi.training import Trainer
from studies.presets.recipe import Recipe, least_score

# Training pads stories about these names with sentences about others, up to so many.
PADDED_ABOUT: Sequence[str] = ()
PADDED_TO = 0
HELD_BACK = 200  # questions of each task that calibrate the score


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


def calibrate(model: Any, seed: int) -> None:
    """Sets the forms of the training questions, and the least score.

    The held-back questions are validation questions of the 10k tasks, of which about
    half are in the training or the test set of the 1k tasks and left out.
    """
    tools = model.preprocessor
    asked, held = [], []
    for task in babi.TASKS:
        train = babi.load(task, "train", "1k")
        seen = {(e.story, e.question) for e in train + babi.load(task, "test", "1k")}
        new = [
            example
            for example in babi.load(task, "valid", "10k")
            if (example.story, example.question) not in seen
        ]
        asked += babi.join_phrases(train, tools.phrases)
        held += babi.join_phrases(new[:HELD_BACK], tools.phrases)
    tools.questions = tuple(babi.question_forms(asked))
    for form in tools.questions:
        asked_about = {w for i in form["in_story"] for w in form["words"][i]}
        if asked_about & {*PADDED_ABOUT}:
            form["sentences"] = max(form["sentences"], PADDED_TO)
    held = [dataclasses.replace(example, answer=None) for example in held]
    tools.min_score = least_score(scores(model, held))


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


def scores(model: Any, examples: Sequence[babi.Example]) -> np.ndarray:
    """Returns the probability of the answer to each question, (N,)."""
    tools = model.preprocessor
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # long stories are truncated
        x = babi.vectorize(
            examples, tools.vocabulary, tools.memory_size, tools.sentence_length
        ).inputs
    outputs = model.predict(x, batch_size=200, verbose=0)
    logits = outputs["answer"] if isinstance(outputs, dict) else outputs
    return probabilities(logits[:, 2 : len(tools.vocabulary)]).max(1)


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
    calibrate=calibrate,
)
