"""A world of millions of facts about people and objects with names of several words.

A person goes to a room, or takes an object. The questions ask for the place of an
object. Names have one to three words. Words occur in names by Zipf's law, and names in
facts, too. Two names never have the same words.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

WHERE, IS, THE, WENT, TO, TOOK = range(1, 7)
ROOMS = 200
FIRST_ROOM = 7
FIRST_NAME = FIRST_ROOM + ROOMS
# Names of people and names of objects have different words.
PERSON_WORDS, OBJECT_WORDS = 6_000, 4_000
LENGTHS = (0.02, 0.5, 0.48)  # shares of names with one, two and three words
WIDTH = 8  # words of a fact
GOES = 0.6  # share of facts that tell of a move
BLOCK = 2**18  # facts of a block


class World:
    """A story of `size` facts, generated in blocks.

    Iterate over the world once: it yields uint16 arrays (n, 8). Afterwards the
    attributes of each object tell where it is.

    Args:
        size: the number of facts.
        seed: the random seed.

    Attributes:
        people: names of people, integers (P, 3), padded with 0.
        objects: names of objects, integers (O, 3).
        took: int64 (O,), the last fact in which each object is taken; −1 for none.
        carrier: int64 (O,), who took it last.
        went: int64 (P,), the last move of each person; −1 for none.
        room: int64 (P,), where the person went.
    """

    def __init__(self, size: int, seed: int) -> None:
        self.size = size
        self._rng = np.random.default_rng([seed, 1])
        first_object = FIRST_NAME + PERSON_WORDS
        self.people = names(self._rng, 3 * size // 14 + 1, FIRST_NAME, PERSON_WORDS)
        self.objects = names(self._rng, size // 7 + 1, first_object, OBJECT_WORDS)
        self.took, self.carrier = np.full((2, len(self.objects)), -1)
        self.went, self.room = np.full((2, len(self.people)), -1)

    def __iter__(self) -> Iterator[np.ndarray]:
        rng = self._rng
        people, objects = zipf(len(self.people)), zipf(len(self.objects))
        for start in range(0, self.size, BLOCK):
            number = np.arange(start, min(start + BLOCK, self.size))
            size = len(number)
            who, what = sampled(rng, people, size), sampled(rng, objects, size)
            where = rng.integers(FIRST_ROOM, FIRST_ROOM + ROOMS, size)
            goes = rng.random(size) < GOES
            # Of several assignments to one place, NumPy keeps the last.
            self.went[who[goes]] = number[goes]
            self.room[who[goes]] = where[goes]
            self.took[what[~goes]] = number[~goes]
            self.carrier[what[~goes]] = who[~goes]
            yield told(self.people[who], self.objects[what], where, goes)

    def known(self) -> np.ndarray:
        """Returns the objects whose place is known, ascending integers."""
        found = np.flatnonzero(self.took >= 0)
        return found[self.went[self.carrier[found]] >= 0]

    def mentioned(self) -> int:
        """Returns the number of different names in the facts, at least.

        A person who only took things before others took them is not counted.
        """
        people = self.went >= 0
        people[self.carrier[self.took >= 0]] = True
        return int(people.sum() + (self.took >= 0).sum())


def told(
    people: np.ndarray, objects: np.ndarray, rooms: np.ndarray, goes: np.ndarray
) -> np.ndarray:
    """Writes facts about people (n, 3) and objects (n, 3), or rooms (n,): (n, 8)."""
    facts = np.zeros((len(goes), WIDTH), "uint16")
    facts[:, :3] = people
    facts[goes, 3:6] = WENT, TO, THE
    facts[goes, 6] = rooms[goes]
    facts[~goes, 3:5] = TOOK, THE
    facts[~goes, 5:] = objects[~goes]
    return facts


def asked(objects: np.ndarray) -> np.ndarray:
    """Encodes questions for objects (B, 3): int64 (B, 6)."""
    start = np.broadcast_to([WHERE, IS, THE], (len(objects), 3))
    return np.concatenate([start, objects], axis=1).astype("int64")


def names(
    rng: np.random.Generator, count: int, first_word: int, words: int
) -> np.ndarray:
    """Generates different names from `words` words by Zipf's law: uint16 (count, 3)."""
    table = zipf(words)
    found = np.zeros(0, "int64")
    while len(found) < count:
        size = count + count // 2
        length = rng.choice(3, size, p=LENGTHS) + 1
        name = sampled(rng, table, 3 * size).reshape(-1, 3) + 1
        name[np.arange(3) >= length[:, None]] = 0
        name = np.sort(name, axis=1)
        whole = ((name[:, :-1] != name[:, 1:]) | (name[:, 1:] == 0)).all(1)
        key = (name @ [(words + 1) ** 2, words + 1, 1])[whole]
        found = np.unique(np.concatenate([found, key]))
    found = rng.permutation(found)[:count]  # no relation of words and frequency
    name = np.stack(
        [found // (words + 1) ** 2, found // (words + 1) % (words + 1), found], -1
    )
    name[:, 2] %= words + 1
    name = np.where(name > 0, name + first_word - 1, 0)
    return np.sort(name, axis=1)[:, ::-1].astype("uint16")


def zipf(count: int) -> np.ndarray:
    """Returns the cumulative shares of `count` ranks by Zipf's law, float64."""
    total = np.cumsum(1 / np.arange(1, count + 1))
    return total / total[-1]


def sampled(rng: np.random.Generator, table: np.ndarray, size: int) -> np.ndarray:
    """Draws `size` ranks from a table of `zipf`."""
    return np.minimum(np.searchsorted(table, rng.random(size)), len(table) - 1)
