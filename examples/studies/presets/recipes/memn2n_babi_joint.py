"""MemN2N on all 20 bAbI tasks with 1,000 questions each, one network."""

from __future__ import annotations

import collections
import dataclasses
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from keras_attention.datasets import babi
from keras_attention.presets.preprocessors import StoryPreprocessor
from keras_attention.presets.preprocessors.running import probabilities
from studies.babi.distractors import LONGEST, NAMES, Distractors
from studies.babi.recipes import RECIPES
from studies.babi.training import Trainer, known_answers
from studies.presets import baselines
from studies.presets.recipe import Recipe, least_score

HELD_BACK = 200  # questions of each task that calibrate the score

ASKED = 300  # questions about one fact before sentences about others
OTHERS = (9, 40)  # these sentences
PEOPLE = ("Mary", "John", "Sandra", "Daniel")
PLACES = ("garden", "kitchen", "hallway", "bathroom", "bedroom", "office")
MOVES = ("moved", "went", "journeyed", "travelled", "went back")


def train(seed: int) -> Any:
    """Trains the network of the recipe "joint-padded", in 20 minutes of one core."""
    trainer = Trainer(RECIPES["joint-padded"], None, "1k")
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
        if asked_about & {*NAMES}:  # training padded their stories
            form["sentences"] = max(form["sentences"], LONGEST)
    held = [dataclasses.replace(example, answer=None) for example in held]
    tools.min_score = least_score(scores(model, held))


def measure(model: Any) -> dict[str, float]:
    """Returns the mean error of the 20 tasks' test questions, in percent.

    Also the share of right answers to "Where is Mary?" after one fact about Mary and
    test sentences about others.
    """
    tools = model.preprocessor
    errors, plain, tests = [], [], []
    for task in babi.TASKS:
        examples = babi.load(task, "test", "1k")
        tests += babi.join_phrases(examples, tools.phrases)
        errors.append(100 * np.mean(_wrong(model, examples)))
        guesses = guess(babi.load(task, "train", "1k"), examples)
        right = [a == one.answer for a, one in zip(guesses, examples)]
        plain.append(100 - 100 * np.mean(right))
    figures = {"error %": round(float(np.mean(errors)), 2)}
    for count in OTHERS:
        wrong = _wrong(model, one_fact(tests, count, tools.vocabulary))
        figures[f"right after {count} sentences about others %"] = round(
            100 - 100 * float(np.mean(wrong)), 1
        )
    return figures | {"baseline error %": round(float(np.mean(plain)), 2)}


def guess(train: list[babi.Example], test: list[babi.Example]) -> Sequence[str | None]:
    """Answers the test questions of a task by the better one of two plain rules.

    The most frequent answer, and the last word of the last fact that has the question's
    last word. The training questions show which rule is better.
    """
    common, count = collections.Counter(one.answer for one in train).most_common(1)[0]

    def last(example: babi.Example) -> str:
        return baselines.last_mention(example.story, example.question)

    if sum(last(one) == one.answer for one in train) > count:
        return [last(one) for one in test]
    return [common] * len(test)


def one_fact(
    examples: list[babi.Example], count: int, vocabulary: babi.Vocabulary
) -> list[babi.Example]:
    """Returns questions about one fact, which `count` sentences about others follow.

    Args:
        examples: the sentences are of their stories.
        count: the number of sentences.
        vocabulary: maps words to indices.
    """
    random, asked = np.random.default_rng(count), []
    facts = tuple(sorted({fact for one in examples for fact in one.story}))
    whole = [babi.Example(1, facts, ("where",), None)]
    told = babi.vectorize(whole, vocabulary, len(facts)).inputs
    distractors = Distractors(told["story"], vocabulary)
    for _ in range(ASKED):
        who, move, place = map(random.choice, (PEOPLE, MOVES, PLACES))
        lines = [f"{who} {move} to the {place}.", f"Where is {who}?"]
        fact, question = map(babi.tokenize, lines)
        words = np.array(vocabulary.encode(question))
        story = [
            tuple(vocabulary.decode(row[row > 0]))
            for row in distractors.sample(words, count, random)
        ]
        asked.append(babi.Example(1, (fact, *story), question, place))
    return asked


def _wrong(model: Any, examples: list[babi.Example]) -> np.ndarray:
    tools = model.preprocessor
    examples = babi.join_phrases(examples, tools.phrases)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # long stories are truncated
        test = babi.vectorize(
            known_answers(examples, tools.vocabulary),
            tools.vocabulary,
            tools.memory_size,
            tools.sentence_length,
        )
    logits = model.predict(test.inputs, batch_size=200, verbose=0)
    # Answer 0 is one that the vocabulary lacks: it is never right.
    return (logits.argmax(-1) != test.answers) | (test.answers == 0)


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
    what="Answers questions about short stories. The questions are of the same kinds "
    "as in the 20 bAbI tasks.",
    data="The 20 bAbI tasks, 1,000 training questions each (Weston et al., 2015), "
    "https://research.facebook.com/downloads/babi/. The training differs from "
    "the paper of MemN2N in four ways. (1) At first, only tasks 17 and 19 are learned. "
    "(2) Interchangeable words are exchanged in each epoch. (3) In the last 100 of 160 "
    "epochs, half of the stories about people get sentences about other people and "
    "things, from other training stories, until they have up to 64 sentences. (4) No "
    "training story is held back.",
    licence="CC BY 3.0",
    limits="It knows only the words of the tasks, about 160, and reads the last 130 "
    "sentences of a story. Only tasks 3 and 5 have training stories with more than 64 "
    "sentences, so the network often forgets sentences that lie more than 64 sentences "
    "back. Tasks 3 and 16 stay hard for the network.",
    baseline="for each task, the better of two rules: the most frequent answer of the "
    "task, or the last word of the last sentence that contains the question's last "
    "word",
    use='model.answer(["Mary moved to the garden."], "Where is Mary?")',
    train=train,
    measure=measure,
    calibrate=calibrate,
)
