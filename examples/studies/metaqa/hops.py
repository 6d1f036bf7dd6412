"""MetaQA's three-hop questions, read hop by hop.

The facts within three steps of an entity are too many for one memory. A `HopReader`
gathers the memory of each hop from the entities that the last hop has read. MetaQA has
no relation paths; the training path of a question is the one whose ends are most like
its answers.

MetaQA's development questions are split by the seed: 10,000 for training, 2,000 held
back for the choice of settings, and 2,274 for the test. Other numbers of questions are
split in the same proportion.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import keras
import numpy as np

from keras_attention import callbacks, models
from keras_attention.datasets import triples
from keras_attention.text import EntityLinker
from studies.metaqa.regression import Path, regression
from studies.metaqa.report import model_of, percent

HELD, TESTED, ALL = 2_000, 2_274, 14_274


class HopData(NamedTuple):
    """Questions with their start entities and the paths that were found.

    Attributes:
        asked: the words, the start entities and the right answers.
        paths: the path of each question that ends best at its answers.
        facts: statistics, for the report.
    """

    asked: triples.Asked
    paths: list[triples.FoundPath | None]
    facts: dict[str, int]

    def pick(self, rows: np.ndarray) -> HopData:
        """Selects the questions `rows`."""
        questions, starts, answers = self.asked
        asked = triples.Asked(
            questions[rows], starts[rows], [answers[row] for row in rows]
        )
        return HopData(asked, [self.paths[row] for row in rows], self.facts)


def load(
    hops: int,
    knowledge: triples.KnowledgeBase,
    splits: Mapping[str, Sequence[triples.Question]],
) -> dict[str, Any]:
    """Turns the splits "dev" and, if given, "test" into `HopData`."""
    linker = EntityLinker(knowledge.entities)
    vocabulary = triples.question_vocabulary(splits["dev"], linker)
    data: dict[str, Any] = {
        "vocabulary_size": len(vocabulary),
        "relations": len(knowledge.relations),
        "knowledge": knowledge,
    }
    for name, questions in splits.items():
        asked = triples.ask(questions, knowledge, vocabulary, linker, unknown="empty")
        names = [knowledge.entities[s] if s >= 0 else None for s in asked.starts]
        paths = [
            name and triples.find_path(knowledge, name, question.answers, hops)
            for name, question in zip(names, questions)
        ]
        facts = {
            "questions": len(questions),
            "entity_unknown": int((asked.starts < 0).sum()),
            "no_path": sum(path is None for path in paths),
        }
        data[name] = HopData(asked, paths, facts)
    return data


def split(dev: HopData, seed: int) -> tuple[HopData, HopData, HopData]:
    """Returns the training, held-back and test questions of a seed."""
    number = len(dev.paths)
    order = np.random.default_rng(seed).permutation(number)
    test = round(number * TESTED / ALL)
    held = test + round(number * HELD / ALL)
    return dev.pick(order[held:]), dev.pick(order[test:held]), dev.pick(order[:test])


def run(
    seed: int, data: dict[str, Any], hops: int, training: dict[str, Any]
) -> dict[str, Any]:
    """Trains a network and a regression. Returns their hits@1 in per cent."""
    keras.utils.set_random_seed(seed)
    knowledge: triples.KnowledgeBase = data["knowledge"]
    train, held_back, test = split(data["dev"], seed)
    test = data.get("test", test)
    model = models.KeyValueMemNN(
        data["vocabulary_size"], data["relations"], **model_of(hops)
    )
    facts = knowledge.to_array()
    reader = models.HopReader(model, facts)
    trainer = models.HopReader(model, facts, training["memory_size"])
    start = time.perf_counter()
    paths = [path and path.relations for path in train.paths]
    questions, starts, answers = train.asked
    inputs, targets = trainer.along(questions, starts, paths, answers, seed)
    trainer.network.compile(
        keras.optimizers.Adam(training["rate"]), keras.losses.CategoricalCrossentropy()
    )
    trainer.network.fit(
        inputs,
        targets,
        batch_size=training["batch_size"],
        epochs=training["epochs"],
        verbose=0,
        callbacks=[callbacks.HalveLearningRate(training["halve_every"])],
    )
    seconds = time.perf_counter() - start
    start = time.perf_counter()
    read = reader.answer(test.asked.questions, test.asked.starts)
    answer_seconds = time.perf_counter() - start

    def first_end(n: int, path: Path) -> int | None:
        if test.asked.starts[n] < 0:
            return None
        name = knowledge.entities[test.asked.starts[n]]
        return next(iter(triples.path_ends(knowledge, name, path)), None)

    found = {
        "network": read.entities[:, 0],
        "regression": regression(questions, paths, test.asked.questions, first_end),
    }
    right = {name: hits(predicted, test) for name, predicted in found.items()}
    ceiling = np.array([0 if path is None else path.share for path in test.paths])
    one_set = ceiling == 1
    held = reader.answer(held_back.asked.questions, held_back.asked.starts)
    return {
        "seed": seed,
        "test_questions": len(test.paths),
        **{name: percent(hit) for name, hit in right.items()},
        "held_back": percent(hits(held.entities[:, 0], held_back)),
        "ceiling": percent(ceiling),
        "right_path": {
            name: percent(on_path(predicted, test.paths))
            for name, predicted in found.items()
        },
        "one_set_questions": int(one_set.sum()),
        "one_set": {name: percent(hit[one_set]) for name, hit in right.items()},
        "facts_read": [round(float(n), 1) for n in read.read.mean(0)],
        "memories_cut": [int(n) for n in (read.cut > 0).sum(0)],
        "fit_seconds": round(seconds, 1),
        "answer_seconds": round(answer_seconds, 1),
    }


def hits(predicted: np.ndarray, data: HopData) -> np.ndarray:
    """Returns whether each predicted entity is a correct answer."""
    pairs = zip(predicted.tolist(), data.asked.answers)
    return np.array([entity in answers for entity, answers in pairs])


def on_path(predicted: np.ndarray, paths: list[triples.FoundPath | None]) -> np.ndarray:
    """Returns whether each predicted entity is an end of the path that was found."""
    pairs = zip(predicted.tolist(), paths)
    return np.array([path is not None and e in path.ends for e, path in pairs])
