"""Trains the network that answers questions about a large memory.

It is trained on short stories with a small part of the words of names. All other words
of names then get the mean row of the trained ones, plus a random vector of their own.
The network has never seen these words.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras
import numpy as np

from keras_attention.benchmarks.memnn import large_world as world
from keras_attention.losses import SupportingFactLoss
from keras_attention.models import MemNN

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
    codes = vectors(rng)
    seen = np.r_[
        : world.FIRST_NAME + WORDS,
        world.FIRST_NAME + world.PERSON_WORDS + np.arange(WORDS),
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
    loss = SupportingFactLoss(MARGIN)
    rate = keras.optimizers.schedules.CosineDecay(RATE, EPOCHS * -(-STORIES // BATCH))
    small.compile(keras.optimizers.Adam(rate), {"facts": loss, "answer": loss})
    small.fit(x, y, batch_size=BATCH, epochs=EPOCHS, verbose=2)
    middle = world.FIRST_NAME + world.PERSON_WORDS
    return extended(
        small,
        MemNN(VOCABULARY, embedding_dim=WIDTH, supports=2),
        {"O": codes[:VOCABULARY], "R": np.zeros_like(codes[:VOCABULARY])},
        seen,
        [np.arange(world.FIRST_NAME, middle), np.arange(middle, VOCABULARY)],
    )


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


def extended(
    small: MemNN,
    model: MemNN,
    codes: dict[str, np.ndarray],
    seen: np.ndarray,
    kinds: Sequence[np.ndarray],
) -> MemNN:
    """Gives a network the rows of a smaller one, and rows for all other words.

    The row of a word of a kind is m + a · v. v is the vector of the word. m and a are
    fitted to the trained rows of the kind by least squares.

    Args:
        small: the trained network.
        model: the network with all V words, of the same sizes otherwise.
        codes: for the layers O and R, the vectors of the words, (V, D).
        seen: the words of `small` in `model`, integers.
        kinds: the words of each kind. The rows of other words are copied.
    """
    for name in "OR":
        for new, old in zip(tables(model, name), tables(small, name)):
            trained_rows, table = rows(old), np.zeros(new.shape, "float32")
            table[seen] = trained_rows[: len(seen)]
            if len(table) > len(codes[name]):
                table[-1] = trained_rows[-1]  # the feature of m_∅
            for kind in kinds:
                known = np.isin(seen, kind)
                row, code = trained_rows[: len(seen)][known], codes[name][seen[known]]
                mean, centre = row.mean(0), code.mean(0)
                spread = code - centre
                size = (spread**2).sum()
                a = float(((row - mean) * spread).sum() / size) if size else 0.0
                table[kind] = mean + a * (codes[name][kind] - centre)
            new.assign(table)
    new, old = (m.get_layer("O").times for m in (model, small))
    if new is not None:
        new.kernel.assign(rows(old.kernel))
    return model


def tables(model: MemNN, name: str) -> list[Any]:
    """Returns the embeddings of the layer O or R."""
    layer = model.get_layer(name)
    parts = [layer.question, *layer.found]
    parts += [layer.candidate] if name == "O" else [layer.words]
    return [part.embedding.embeddings for part in parts]


def rows(variable: Any) -> np.ndarray:
    """Returns the values of a variable, float32."""
    return np.array(keras.ops.convert_to_numpy(variable))
