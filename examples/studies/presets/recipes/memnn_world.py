"""MemNN in the simulated world of Weston et al. (2014), with supporting facts."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np

from keras_attention.datasets import babi, simulated_world
from keras_attention.models import MemNN
from keras_attention.presets.preprocessors import StoryPreprocessor
from studies.memnn.training import PLAIN, TRAINING, Batches, arrays, errors, fit
from studies.presets import baselines
from studies.presets.recipe import Recipe, least_score
from studies.presets.recipes.memn2n_babi_joint import scores

DIFFICULTY = 5
SUPPORTS = 2
TESTED = (99, 1)  # the seed of the test questions


def train(seed: int) -> Any:
    """Trains the network of the benchmark on 3,000 questions, in about a minute."""
    train = _questions(3000, (seed, 0))
    vocabulary = babi.Vocabulary.from_examples(train)
    x, y = arrays(train, vocabulary, SUPPORTS)
    keras.utils.set_random_seed(seed)
    model = MemNN(len(vocabulary), supports=SUPPORTS, **PLAIN)
    fit(model, Batches(x, y, TRAINING["batch_size"], seed, "story"), TRAINING)
    _, slots, length = x["story"].shape
    model.preprocessor = StoryPreprocessor(vocabulary, slots, length)
    return model


def calibrate(model: Any, seed: int) -> None:
    """Sets the forms of the training questions, and the least score of new ones."""
    tools = model.preprocessor
    tools.questions = tuple(babi.question_forms(_questions(3000, (seed, 0))))
    tools.min_score = least_score(scores(model, _questions(1000, (seed, 2))))


def measure(model: Any) -> dict[str, float]:
    """Returns the errors of 1,000 questions and of their facts, in percent."""
    vocabulary = model.preprocessor.vocabulary
    examples = _questions(1000, TESTED)
    answers, facts = errors(model, *arrays(examples, vocabulary, SUPPORTS))
    wrong = [
        baselines.last_mention(one.story, one.question) != one.answer
        for one in examples
    ]
    return {
        "error %": round(float(answers), 2),
        "error of facts %": round(float(facts), 2),
        "baseline error %": round(100 * float(np.mean(wrong)), 2),
    }


def _questions(count: int, seed: tuple[int, int]) -> list[babi.Example]:
    return simulated_world.simulate(
        count, DIFFICULTY, "actor+object+before", np.random.SeedSequence(seed)
    )


RECIPE = Recipe(
    what="Answers where a person or an object is, or where a person was before, and "
    "finds the facts that support the answer.",
    data="3,000 questions with their supporting facts in a simulated world of four "
    "people, three objects and five rooms (datasets.simulated_world, difficulty 5).",
    licence="Simulated by this package: Apache 2.0",
    limits="It knows only the names, rooms and objects of that world and the verbs of "
    "its statements, and reads the last 35 statements. A question with `before` can "
    "only be about a person. The network always answers, even if the story does not "
    "give the answer.",
    baseline="the last word of the last statement that contains the question's last "
    "word",
    use='model.answer(["Mary took the milk.", "Mary went to the garden."], '
    '"Where is the milk?")',
    train=train,
    measure=measure,
    calibrate=calibrate,
)
