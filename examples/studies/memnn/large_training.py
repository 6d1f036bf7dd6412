"""Trains the network that answers questions about a large memory.

It is trained on short stories with a small part of the words of names. It learns what
the words of people's names have in common, and those of objects' names. Each word also
has a random vector of its own. Most words are in no training story.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import keras
import numpy as np

from keras_attention.losses import SupportingFactLoss
from keras_attention.models import MemNN
from studies.memnn import large_world as world

VOCABULARY = world.FIRST_NAME + world.PERSON_WORDS + world.OBJECT_WORDS
WORDS = 200  # trained words of each of the two kinds of names
STORIES, STORY, CAST, STORY_WORDS = 15_000, 60, 15, 12
EPOCHS, BATCH, RATE, MARGIN, WIDTH, NORM = 5, 64, 0.003, 1.0, 256, 1.5
PARTS = (96, 96)  # of the width: for people's words and for objects' words
SETTINGS: dict[str, Any] = {
    **{"rooms": world.ROOMS, "person_words": world.PERSON_WORDS},
    **{"object_words": world.OBJECT_WORDS, "trained_words": 2 * WORDS},
    **{"stories": STORIES, "story": STORY, "cast": CAST, "story_words": STORY_WORDS},
    **{"embedding_dim": WIDTH, "epochs": EPOCHS, "batch_size": BATCH, "rate": RATE},
    **{"margin": MARGIN, "norm": NORM, "parts": PARTS},
}


def trained(seed: int) -> MemNN:
    """Trains a network on short stories, and gives it the words of the large world."""
    rng = np.random.default_rng(seed)
    keras.utils.set_random_seed(seed)
    codes, middle = vectors(rng), world.FIRST_NAME + world.PERSON_WORDS
    seen = np.r_[
        : world.FIRST_NAME + WORDS,
        middle + np.arange(WORDS),
    ]
    small = MemNN(len(seen), embedding_dim=WIDTH, supports=2)
    for table in tables(small, "O"):
        table.assign(codes[[*seen, VOCABULARY]])
    stories = [story(rng) for _ in range(STORIES)]
    x: dict[str, Any] = {
        name: np.stack([s[name] for s in stories])
        for name in ("story", "question", "supporting_facts")
    }
    y = {
        "facts": x["supporting_facts"],
        "answer": np.array([s["answer"] for s in stories]),
    }
    names = Names(
        {"O": codes[:VOCABULARY], "R": np.zeros((VOCABULARY, WIDTH), "float32")},
        {"O": np.arange(WIDTH) >= sum(PARTS), "R": np.ones(WIDTH, bool)},
        [np.arange(world.FIRST_NAME, middle), np.arange(middle, VOCABULARY)],
        seen,
    )
    fit(small, x, y, names, EPOCHS, BATCH, RATE, MARGIN)
    return names.extended(small, MemNN(VOCABULARY, embedding_dim=WIDTH, supports=2))


class Names(NamedTuple):
    """Words of names, of which a network learns what they have in common.

    The row of a word of a kind is m + a · v in each table. v is the word's own vector.
    m and a are the same for all words of the kind, so a word that was never in a story
    has a row, too.

    Attributes:
        codes: for the layers O and R, the vectors v of all words, (V, D).
        shared: for the layers O and R, booleans (D,): the part of the width that m and
            all other words use.
        kinds: the words of each kind.
        seen: the words of the trained network.
    """

    codes: dict[str, np.ndarray]
    shared: dict[str, np.ndarray]
    kinds: Sequence[np.ndarray]
    seen: np.ndarray

    def table(self, name: str, trained_rows: np.ndarray) -> np.ndarray:
        """Fits m and a to the rows of the seen words: the rows of all words (V, D)."""
        codes, shared = self.codes[name], self.shared[name]
        table = np.zeros_like(codes)
        table[self.seen] = trained_rows * shared
        for kind in self.kinds:
            known = np.isin(self.seen, kind)
            row, code = trained_rows[known], codes[self.seen[known]]
            size = (code**2).sum()
            a = (row * code).sum() / size if size else 0.0
            table[kind] = a * codes[kind] + (row - a * code).mean(0) * shared
        return table

    def tie(self, model: MemNN) -> None:
        """Gives all words of a kind the same m and a."""
        for name in "OR":
            for variable in tables(model, name):
                new, count = rows(variable), len(self.seen)
                new[:count] = self.table(name, new[:count])[self.seen]
                variable.assign(new)

    def extended(self, small: MemNN, model: MemNN) -> MemNN:
        """Gives a network with all words the rows of the trained one, and others."""
        for name in "OR":
            for new, old in zip(tables(model, name), tables(small, name)):
                table = np.zeros(new.shape, "float32")
                whole = self.table(name, rows(old)[: len(self.seen)])
                table[: len(whole)] = whole
                new.assign(table)
        new, old = (m.get_layer("O").times for m in (model, small))
        if new is not None:
            new.kernel.assign(rows(old.kernel))
        return model


def fit(
    model: MemNN,
    x: Any,
    y: Any,
    names: Names,
    epochs: int,
    batch: int,
    rate: float,
    margin: float,
) -> None:
    """Trains a network with supporting facts; ties its names after each epoch."""
    loss = SupportingFactLoss(margin)
    steps = epochs * -(-len(y["answer"]) // batch)
    optimizer = keras.optimizers.Adam(
        keras.optimizers.schedules.CosineDecay(rate, steps)
    )
    model.compile(optimizer, {"facts": loss, "answer": loss})
    for _ in range(epochs):
        model.fit(x, y, batch_size=batch, epochs=1, verbose=2)
        names.tie(model)


def vectors(rng: np.random.Generator) -> np.ndarray:
    """Draws the first vectors (V + 1, D) of all words and of m_∅.

    The width has three parts: for people's words, for objects' words, and for all
    others.
    """
    vectors = np.zeros((VOCABULARY + 1, WIDTH), "float32")
    middle = world.FIRST_NAME + world.PERSON_WORDS
    people, objects = PARTS[0], sum(PARTS)
    for words, place in (
        (slice(world.FIRST_NAME, middle), slice(people)),
        (slice(middle, VOCABULARY), slice(people, objects)),
        (np.r_[: world.FIRST_NAME, VOCABULARY], slice(objects, None)),
    ):
        sampled = rng.normal(size=vectors[words, place].shape)
        vectors[words, place] = (
            NORM * sampled / np.linalg.norm(sampled, axis=1)[:, None]
        )
    return vectors


def story(rng: np.random.Generator) -> dict[str, Any]:
    """Generates a short story with a question. Many of its names share words."""
    while True:
        people, objects = (
            cast(rng, world.FIRST_NAME + kind * WORDS) for kind in range(2)
        )
        who, what = rng.integers(CAST, size=(2, STORY))
        where = rng.integers(world.FIRST_ROOM, world.FIRST_NAME, STORY)
        goes = rng.random(STORY) < world.GOES
        asked = rng.choice(what[~goes])
        took = np.flatnonzero(~goes & (what == asked))[-1]
        went = np.flatnonzero(goes & (who == who[took]))
        if len(went):
            return {
                "story": world.told(people[who], objects[what], where, goes),
                "question": world.asked(objects[asked][None])[0],
                "supporting_facts": np.array([took, went[-1]]),
                "answer": where[went[-1]],
            }


def cast(rng: np.random.Generator, first: int) -> np.ndarray:
    """Draws different names (CAST, 3) from a few of the trained words."""
    words = first + rng.choice(WORDS, STORY_WORDS, replace=False)
    found: set[tuple[int, ...]] = set()
    while len(found) < CAST:
        length = rng.integers(1, 4)
        found.add(tuple(sorted(rng.choice(words, length, replace=False))))
    return np.array([(*name, 0, 0)[:3] for name in sorted(found)])


def tables(model: MemNN, name: str) -> list[Any]:
    """Returns the embeddings of the layer O or R."""
    layer = model.get_layer(name)
    parts = [layer.question, *layer.found]
    parts += [layer.candidate] if name == "O" else [layer.words]
    return [part.embedding.embeddings for part in parts]


def rows(variable: Any) -> np.ndarray:
    """Returns the values of a variable, float32."""
    return np.array(keras.ops.convert_to_numpy(variable))
