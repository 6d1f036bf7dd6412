"""MetaQA: our hits@1 compared with a logistic regression on word bigrams.

    python examples/studies/metaqa --seeds 0 1 2 --json results.json
    python examples/studies/metaqa --hops 3 --out runs.jsonl
    python examples/studies/metaqa --questions my_questions.txt

A KeyValueMemNN is trained on nine tenths of the development questions. One-hop runs are
tested on the test questions. Two-hop runs are tested on the other tenth of the
development questions. `metaqa_hops` describes the runs with three hops. With
`--questions`, the network is tested on the questions of a file instead: each line has a
question, a tab and its answers with `|` between them.
Each finished run adds a line to the file given by `--out`. Repeat the command to
resume.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import time
import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

import keras
import numpy as np

from keras_attention import callbacks, models
from keras_attention.datasets import DataNotFoundError, triples
from keras_attention.text import EntityLinker
from studies.command_line import UsageError
from studies.metaqa import hops as metaqa_hops
from studies.metaqa.regression import Path, regression
from studies.metaqa.report import (
    MEMORY_SIZE,
    facts_of,
    model_of,
    percent,
    report,
    summary,
    table,
)
from studies.store import opened

TRAINING: dict[str, Any] = {
    "optimizer": "Adam",
    "epochs": 20,
    "batch_size": 64,
    "rate": 0.003,
    "halve_every": 4,
}
THREE_HOPS: dict[str, Any] = {
    **TRAINING,
    "rate": 0.005,
    "memory_size": 48,  # of each hop, while the network is trained
}
# The fields of each line of the runs file.
NEEDED = ("hops", "brackets", "seed", "backend", "keras", "settings", "result")

Paths = dict[Path, list[int]]  # maps a path to the entities at its end


class Data(NamedTuple):
    """Questions as arrays, and the entities at the ends of their paths.

    Attributes:
        inputs: the inputs of the network.
        answers: (N, M + 2), uniform over the correct answers.
        paths: for each question, the paths that start at its entity, and their ends.
        facts: statistics of the memories, for the report.
    """

    inputs: dict[str, np.ndarray]
    answers: np.ndarray
    paths: list[Paths]
    facts: dict[str, int]

    def pick(self, rows: np.ndarray) -> Data:
        """Selects the questions `rows`."""
        inputs = {name: array[rows] for name, array in self.inputs.items()}
        paths = [self.paths[row] for row in rows]
        return Data(inputs, self.answers[rows], paths, self.facts)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of `metaqa`."""
    add = parser.add_argument
    add("--hops", type=int, default=1, choices=sorted(MEMORY_SIZE))
    add("--questions", type=pathlib.Path, help="a file of your own test questions")
    add("--seeds", type=int, nargs="+", default=[0, 1, 2])
    add("--epochs", type=int, default=TRAINING["epochs"])
    add(
        "--without-brackets",
        action="store_true",
        help="find the questions' entities by their names",
    )
    add("--out", type=pathlib.Path, help="runs as they end, and to go on from")
    add("--json", type=pathlib.Path, help="where to write the results")


def main(args: argparse.Namespace) -> int:
    """Performs the missing runs, prints the table and writes the results."""
    training = {**(THREE_HOPS if args.hops == 3 else TRAINING), "epochs": args.epochs}
    brackets = not args.without_brackets
    store = opened(args.out, NEEDED)
    try:
        data = load(args.hops, brackets, args.questions)
    except (DataNotFoundError, ValueError) as error:
        raise UsageError(str(error)) from error
    about = {"training": training, "model": model_of(args.hops), "data": facts_of(data)}
    where: dict[str, Any] = {
        "hops": args.hops,
        "brackets": brackets,
        "backend": keras.config.backend(),
        "questions": None if args.questions is None else str(args.questions),
    }
    seeds = list(dict.fromkeys(args.seeds))  # without duplicates
    # Look up all runs first, so that errors appear immediately.
    found = {s: store.done("metaqa", about, **where, seed=s) for s in seeds}
    lines = []
    for seed, done in found.items():
        if done is None:
            runs = metaqa_hops.run if args.hops == 3 else run
            result = runs(seed, data, args.hops, training)
            new = {**where, "seed": seed, "keras": keras.__version__}
            done = store.add({**new, "settings": about, "result": result})
            print(summary(result), flush=True)
        lines.append(done)
    print(table([line["result"] for line in lines], args.hops, args.questions))
    if args.json:
        results = report(lines, data, args.hops, brackets, training, args.questions)
        args.json.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    return 0


def load(
    hops: int, brackets: bool = True, own: pathlib.Path | None = None
) -> dict[str, Any]:
    """Loads the development questions and the test questions.

    The test questions are those of the file `own`. Without a file, they are those of
    MetaQA for one hop, and there are none for two or three hops.
    """
    knowledge = triples.KnowledgeBase(triples.load_metaqa_facts())
    splits = {"dev": triples.load_metaqa(hops, "dev")}
    if own is not None:
        splits["test"] = triples.load_questions(own)
        if not splits["test"]:
            raise UsageError(f"--questions {own} must have at least one question")
    elif hops == 1:
        splits["test"] = triples.load_metaqa(hops, "test")
    if not brackets:
        splits = {name: without_brackets(qs) for name, qs in splits.items()}
    if hops == 3:
        return metaqa_hops.load(hops, knowledge, splits)
    linker = EntityLinker(knowledge.entities)
    vocabulary = triples.question_vocabulary(splits["dev"], linker)
    data: dict[str, Any] = {
        "vocabulary_size": len(vocabulary),
        "relations": len(knowledge.relations),
    }
    for name, questions in splits.items():
        with warnings.catch_warnings():
            # The memories of years, genres and languages are long and are truncated.
            # `facts` reports how many.
            warnings.simplefilter("ignore", UserWarning)
            vectors = triples.vectorize(
                questions,
                knowledge,
                vocabulary,
                MEMORY_SIZE[hops],
                hops,
                linker,
                unknown="empty",
            )
        facts = {
            "questions": len(questions),
            "entity_unknown": vectors.unknown,
            "entity_by_brackets": vectors.by_brackets,
            "memories_cut": vectors.truncated,
            "no_answer_in_memory": vectors.unanswerable,
        }
        paths = [
            paths_of(keys, values, hops)
            for keys, values in zip(vectors.inputs["keys"], vectors.inputs["values"])
        ]
        data[name] = Data(vectors.inputs, vectors.answers, paths, facts)
    return data


def without_brackets(
    questions: Sequence[triples.Question],
) -> list[triples.Question]:
    """Removes the brackets around the entities of questions."""
    return [
        triples.Question(q.text.replace("[", "").replace("]", ""), q.answers)
        for q in questions
    ]


def run(
    seed: int, data: dict[str, Any], hops: int, training: dict[str, Any]
) -> dict[str, Any]:
    """Trains a network and a regression. Returns their hits@1 in per cent."""
    keras.utils.set_random_seed(seed)
    dev: Data = data["dev"]
    order = np.random.default_rng(seed).permutation(len(dev.answers))
    held, used = np.split(order, [len(order) // 10])
    train, held_back = dev.pick(used), dev.pick(held)
    test = data.get("test", held_back)
    model = models.KeyValueMemNN(
        data["vocabulary_size"], data["relations"], **model_of(hops)
    )
    model.compile(
        keras.optimizers.Adam(training["rate"]),
        keras.losses.CategoricalCrossentropy(),
    )
    start = time.perf_counter()
    model.fit(
        train.inputs,
        train.answers,
        batch_size=training["batch_size"],
        epochs=training["epochs"],
        verbose=0,
        callbacks=[callbacks.HalveLearningRate(training["halve_every"])],
    )
    seconds = time.perf_counter() - start
    found = {"network": predict(model, test), "regression": baseline(train, test)}
    right = {name: hits(predicted, test) for name, predicted in found.items()}
    best = [best_path(p, a) for p, a in zip(test.paths, test.answers)]
    ceiling = np.array([part for _, part in best])
    one_set = ceiling == 1
    return {
        "seed": seed,
        "test_questions": len(test.answers),
        **{name: percent(hit) for name, hit in right.items()},
        "held_back": percent(hits(predict(model, held_back), held_back)),
        "ceiling": percent(ceiling),
        "right_path": {
            name: percent(on_path(predicted, test.paths, best))
            for name, predicted in found.items()
        },
        "one_set_questions": int(one_set.sum()),
        "one_set": {name: percent(hit[one_set]) for name, hit in right.items()},
        "fit_seconds": round(seconds, 1),
    }


def predict(model: keras.Model, data: Data) -> np.ndarray:
    """Returns the number of the entity with the largest score for each question."""
    return model.predict(data.inputs, batch_size=500, verbose=0).argmax(1)


def hits(predicted: np.ndarray, data: Data) -> np.ndarray:
    """Returns whether each predicted entity is a correct answer."""
    return data.answers[np.arange(len(predicted)), predicted] > 0


def paths_of(keys: np.ndarray, values: np.ndarray, hops: int) -> Paths:
    """Returns the ends of all paths with `hops` relations that start at entity 1."""
    about: dict[int, list[tuple[int, int]]] = {}
    for (entity, relation), value in zip(keys.tolist(), values.tolist()):
        if value:
            about.setdefault(entity, []).append((relation, value))
    ends: Paths = {(): [1]}
    for _ in range(hops):
        onward: Paths = {}
        for path, entities in ends.items():
            for entity in entities:
                for relation, value in about.get(entity, []):
                    onward.setdefault((*path, relation), []).append(value)
        ends = {path: list(dict.fromkeys(found)) for path, found in onward.items()}
    return ends


def best_path(paths: Paths, answers: np.ndarray) -> tuple[Path | None, float]:
    """Returns the path whose ends best match the answers, and the accuracy of guessing.

    The accuracy of guessing among the path's ends is the share of them that are correct
    answers. It is below 1 if two films have the same name and are thus one entity,
    because the answers belong to only one of the films.
    """
    right = set(np.flatnonzero(answers).tolist())
    if not right or not paths:
        return None, 0.0
    best = max(paths, key=lambda p: len(right & {*paths[p]}) / len(right | {*paths[p]}))
    return best, len(right & {*paths[best]}) / len(paths[best])


def on_path(
    predicted: np.ndarray, paths: list[Paths], best: list[tuple[Path | None, float]]
) -> np.ndarray:
    """Returns whether each predicted entity is an end of the best path."""
    return np.array(
        [
            path is not None and entity in ends[path]
            for entity, ends, (path, _) in zip(predicted.tolist(), paths, best)
        ]
    )


def baseline(train: Data, test: Data) -> np.ndarray:
    """Returns the answers of a logistic regression, see `regression`."""
    best = [best_path(p, a)[0] for p, a in zip(train.paths, train.answers)]

    def first_end(n: int, path: Path) -> int | None:
        return next(iter(test.paths[n].get(path, [])), None)

    questions, asked = train.inputs["question"], test.inputs["question"]
    found = regression(questions, best, asked, first_end)
    return np.maximum(found, 0)  # entity 0 is never an answer
