"""Hashing of very large memories: the number of scored facts, and the speed.

Hundreds of people go to rooms and take objects. The questions ask for the place of an
object. The network learns from short stories and then answers questions about one long
story.
"""

from __future__ import annotations

import time
from typing import Any, NamedTuple

import keras
import numpy as np

from keras_attention.losses import SupportingFactLoss
from keras_attention.models import ClusterHash, LargeMemory, MemNN, WordHash
from keras_attention.models.memory_networks.hashes import Hash

WHERE, IS, THE, WENT, TO, TOOK = range(1, 7)
ROOMS, PEOPLE, OBJECTS = 50, 300, 300
FIRST_ROOM = 7
FIRST_PERSON = FIRST_ROOM + ROOMS
FIRST_OBJECT = FIRST_PERSON + PEOPLE
VOCABULARY = FIRST_OBJECT + OBJECTS
# number of training stories; number of facts, and of people and objects, in each story
STORIES, STORY, CAST = 15_000, 100, 30
QUESTIONS = 200
CLUSTERS = 300
EPOCHS, BATCH, RATE, MARGIN, WIDTH = 10, 64, 0.01, 3.0, 128
# Settings that determine a result, except the seed and the number of facts.
SETTINGS = {
    **{"rooms": ROOMS, "people": PEOPLE, "objects": OBJECTS},
    **{"stories": STORIES, "story": STORY, "cast": CAST, "questions": QUESTIONS},
    **{"clusters": CLUSTERS, "embedding_dim": WIDTH, "epochs": EPOCHS},
    **{"batch_size": BATCH, "rate": RATE, "margin": MARGIN},
}


class World(NamedTuple):
    """A story of N facts and the objects that questions can ask for."""

    facts: np.ndarray
    objects: np.ndarray  # objects whose place is known
    took: np.ndarray  # index of the last fact in which each object is taken
    went: np.ndarray  # index of the last move of each object's carrier


def world(
    rng: np.random.Generator, size: int, people: np.ndarray, objects: np.ndarray
) -> World:
    """Generates a story of `size` facts about people and objects."""
    who = rng.choice(people, size)
    goes = rng.random(size) < 0.6
    where = rng.integers(FIRST_ROOM, FIRST_ROOM + ROOMS, size)
    what = rng.choice(objects, size)
    going = np.stack(np.broadcast_arrays(who, WENT, TO, THE, where), axis=1)
    taking = np.stack(np.broadcast_arrays(who, TOOK, THE, what, 0), axis=1)
    last_move = np.full(VOCABULARY, -1)
    last_taking = np.full(VOCABULARY, -1)
    order = np.arange(size)
    np.maximum.at(last_move, who[goes], order[goes])
    np.maximum.at(last_taking, what[~goes], order[~goes])
    known = objects[last_taking[objects] >= 0]
    known = known[last_move[who[last_taking[known]]] >= 0]
    took = last_taking[known]
    return World(
        np.where(goes[:, None], going, taking), known, took, last_move[who[took]]
    )


def asked(objects: np.ndarray) -> np.ndarray:
    """Encodes the questions for B objects as (B, 4), or for one object as (4,)."""
    return np.stack(np.broadcast_arrays(WHERE, IS, THE, objects), axis=-1)


def trained(seed: int) -> MemNN:
    """Trains a network on short stories that together contain all names."""
    rng = np.random.default_rng(seed)
    keras.utils.set_random_seed(seed)
    stories: list[Any] = []
    questions: list[Any] = []
    facts: list[Any] = []
    answers: list[Any] = []
    while len(stories) < STORIES:
        people = rng.choice(PEOPLE, CAST, replace=False) + FIRST_PERSON
        objects = rng.choice(OBJECTS, CAST, replace=False) + FIRST_OBJECT
        story = world(rng, STORY, people, objects)
        if len(story.objects):
            pick = rng.integers(len(story.objects))
            stories.append(story.facts)
            questions.append(asked(story.objects[pick]))
            facts.append((story.took[pick], story.went[pick]))
            answers.append(story.facts[story.went[pick], -1])
    x = {"story": np.stack(stories), "question": np.stack(questions)}
    y = {"facts": np.array(facts), "answer": np.array(answers)}
    model = MemNN(VOCABULARY, embedding_dim=WIDTH, supports=2)
    loss = SupportingFactLoss(MARGIN)
    steps = EPOCHS * -(-STORIES // BATCH)
    rate = keras.optimizers.schedules.CosineDecay(RATE, steps)
    model.compile(keras.optimizers.Adam(rate), {"facts": loss, "answer": loss})
    x["supporting_facts"] = y["facts"]
    model.fit(x, y, batch_size=BATCH, epochs=EPOCHS, verbose=0)
    return model


def hashing(seed: int, size: int) -> dict[str, Any]:
    """Asks a memory of `size` facts, without a hash and with each of two hashes."""
    start = time.perf_counter()
    model = trained(seed)
    print(f"hashing: trained in {time.perf_counter() - start:.0f} s", flush=True)
    rng = np.random.default_rng([seed, 1])
    people = np.arange(FIRST_PERSON, FIRST_PERSON + PEOPLE)
    objects = np.arange(FIRST_OBJECT, FIRST_OBJECT + OBJECTS)
    story = world(rng, size, people, objects)
    picks = rng.integers(len(story.objects), size=QUESTIONS)
    right = story.facts[story.went[picks], -1]
    questions = asked(story.objects[picks])
    makers: dict[str, Any] = {
        "none": lambda: None,
        "word": lambda: WordHash(story.facts),
        "cluster": lambda: ClusterHash(
            story.facts, model.word_vectors(), clusters=CLUSTERS, seed=seed
        ),
    }
    rows: list[dict[str, Any]] = []
    first = None
    for name, make in makers.items():
        start = time.perf_counter()
        index: Hash | None = make()
        built = time.perf_counter() - start
        memory = model.remember(story.facts, index)
        row = ask(memory, questions, right, first)
        first = row.pop("words") if first is None else (row.pop("words"), first)[1]
        row = {"hash": name, "build_seconds": round(built, 2), **row}
        row["fewer"] = round(rows[0]["scored"] / row["scored"], 1) if rows else 1.0
        rows.append(row)
        print(
            f"hash {name:8s} scored {row['scored']:9.0f} facts a question "
            f"({row['fewer']:.0f} times fewer)  same answer {row['same']:6.1f} %  "
            f"right {row['right']:6.1f} %  {row['milliseconds']:7.2f} ms a question",
            flush=True,
        )
    return {"seed": seed, "facts": size, "questions": QUESTIONS, "rows": rows}


def ask(
    memory: LargeMemory,
    questions: np.ndarray,
    right: np.ndarray,
    first: np.ndarray | None,
) -> dict[str, Any]:
    """Answers the questions one by one. Measures the speed and the scored facts."""
    memory.answer(questions[:1])  # compiles
    found, times = [], []
    for question in questions:
        start = time.perf_counter()
        found.append(memory.answer(question[None]))
        times.append(time.perf_counter() - start)
    words = np.concatenate([answers.words for answers in found])
    same = 100.0 if first is None else 100 * float((words == first).mean())
    return {
        "words": words,
        "scored": float(np.mean([answers.scored[0] for answers in found])),
        "same": round(same, 2),
        "right": round(100 * float((words == right).mean()), 2),
        "milliseconds": round(1000 * float(np.median(times)), 2),
    }
