"""Four algorithmic tasks for networks with a memory.

Copy, repeat copy, associative recall and priority sort are from Graves et al., 2014,
*Neural Turing Machines*, https://arxiv.org/abs/1410.5401, section 4. Repeat copy
follows the code published with Graves et al., 2016, *Hybrid computing using a neural
network with dynamic external memory*. A network reads one binary vector per step. It
then writes the answer while it reads zeros.

```python
from keras_attention.datasets import algorithms

data = algorithms.copy(count=32, length=(1, 20), seed=1)
data["inputs"].shape  # (32, 41, 9)
```

Every task returns a dictionary of arrays:

- `"inputs"`: (N, T, D) float32, the input of each step;
- `"answer_mask"`: (N, T) bool, True at the answer steps;
- `"targets"`: (N, T, V) float32 zeros and ones, zero outside the answer;
- `"lengths"`: (N,) int32, the number of steps of each sequence; the rest is padding.
"""

import numpy as np

from keras_attention.datasets.ragged import (
    Range,
    Seed,
    at_least_one,
    empty_sequences,
    places,
    span,
)


def copy(
    count: int,
    length: Range = (1, 20),
    bits: int = 8,
    seed: Seed = 0,
    steps: int | None = None,
) -> dict[str, np.ndarray]:
    """Copy: write the input vectors in their original order.

    The inputs have `bits` channels and one more for the mark that ends the sequence. A
    sequence of L vectors takes 2 L + 1 steps.

    Args:
        count: N, the number of sequences.
        length: Number of vectors, or a (minimum, maximum) range to sample from for each
            sequence. The paper trains with 1 to 20.
        bits: V, the width of a vector.
        seed: Seed for `numpy.random.default_rng`. The same seed gives the same
            sequences.
        steps: T. Defaults to the length of the longest sequence. Batches with the same
            T share one compilation.

    Returns:
        The dictionary described above; `"inputs"` has D = `bits` + 1.

    Raises:
        ValueError: a size below 1, a range with its minimum above its maximum, or too
            few `steps`.

    Example:
        ```python
        data = copy(count=2, length=3, bits=4)
        data["answer_mask"][0]  # three vectors, the mark, then three answer steps
        ```
    """
    low, high = span(length, "length")
    at_least_one(count=count, bits=bits)
    random = np.random.default_rng(seed)
    read = random.integers(low, high + 1, count)  # (N,)
    lengths = 2 * read + 1
    data = empty_sequences(lengths, bits + 1, bits, steps)
    vectors = random.integers(0, 2, (read.sum(), bits), np.int8)  # all, row by row
    row, place = places(read)
    data["inputs"][row, place, :bits] = vectors
    data["inputs"][np.arange(count), read, bits] = 1
    data["targets"][row, read[row] + 1 + place] = vectors
    data["answer_mask"][row, read[row] + 1 + place] = True
    return data


def repeat_copy(
    count: int,
    length: Range = (1, 2),
    repeats: Range = (1, 2),
    bits: int = 4,
    scale: float = 10.0,
    seed: Seed = 0,
    steps: int | None = None,
) -> dict[str, np.ndarray]:
    """Repeat copy: write the vectors several times, then an end mark.

    The encoding and the default ranges follow the published DNC code. Channel `bits` of
    the inputs marks the start, one step before the first vector. Channel `bits` + 1
    contains the number of repetitions divided by `scale`, one step after the last
    vector. The last channel of the targets marks the end, after the last repetition. L
    vectors with R repetitions take L (R + 1) + 3 steps.

    Args:
        count: N, the number of sequences.
        length: Number of vectors, or a (minimum, maximum) range.
        repeats: Number of repetitions, or a (minimum, maximum) range. Graves et al.,
            2014, train with 1 to 10 vectors and 1 to 10 repetitions.
        bits: The width of a vector.
        scale: Divisor of the number of repetitions.
        seed: Seed for `numpy.random.default_rng`.
        steps: T. Defaults to the length of the longest sequence.

    Returns:
        The dictionary described above, with D = `bits` + 2, V = `bits` + 1.

    Raises:
        ValueError: a size below 1, a range with its minimum above its maximum, too few
            `steps`, or a `scale` of 0 or less.

    Example:
        ```python
        data = repeat_copy(count=16, length=(1, 2), repeats=(1, 2))
        data["inputs"].shape, data["targets"].shape  # (16, 9, 6), (16, 9, 5)
        ```
    """
    low, high = span(length, "length")
    fewest, most = span(repeats, "repeats")
    at_least_one(count=count, bits=bits)
    if not scale > 0:
        raise ValueError(f"`scale` must be above 0. Received: scale={scale}")
    random = np.random.default_rng(seed)
    read = random.integers(low, high + 1, count)  # (N,)
    times = random.integers(fewest, most + 1, count)  # (N,)
    lengths = read * (times + 1) + 3
    data = empty_sequences(lengths, bits + 2, bits + 1, steps)
    vectors = random.integers(0, 2, (read.sum(), bits), np.int8)
    every = np.arange(count)
    row, place = places(read)
    data["inputs"][every, 0, bits] = 1
    data["inputs"][row, 1 + place, :bits] = vectors
    data["inputs"][every, 1 + read, bits + 1] = times / scale
    first = np.cumsum(read) - read  # (N,), first vector of each sequence
    row, place = places(read * times)
    written = vectors[first[row] + place % read[row]]
    data["targets"][row, read[row] + 2 + place, :bits] = written
    data["targets"][every, lengths - 1, bits] = 1
    row, place = places(read * times + 1)
    data["answer_mask"][row, read[row] + 2 + place] = True
    return data


def associative_recall(
    count: int,
    items: Range = (2, 6),
    item_length: int = 3,
    bits: int = 6,
    seed: Seed = 0,
    steps: int | None = None,
) -> dict[str, np.ndarray]:
    """Associative recall: given one of several items, write the item that followed it.

    An item is a few vectors. Channel `bits` of the inputs marks the step before each
    item. Channel `bits` + 1 marks the steps before and after the queried item. The
    queried item is never the last item, and no other item equals it. I items of L
    vectors take (I + 2)(L + 1) steps.

    Args:
        count: N, the number of sequences.
        items: Number of items, or a (minimum, maximum) range; 2 to 6 in the paper.
        item_length: Number of vectors per item.
        bits: V, the width of a vector.
        seed: Seed for `numpy.random.default_rng`.
        steps: T. Defaults to the length of the longest sequence.

    Returns:
        The dictionary described above; `"inputs"` has D = `bits` + 2.

    Raises:
        ValueError: fewer than two `items`, another size below 1, a range with its
            minimum above its maximum, or too few `steps`.

    Example:
        ```python
        data = associative_recall(count=16, items=(2, 6))
        data["inputs"].shape  # (16, 32, 8)
        ```
    """
    low, high = span(items, "items", least=2)
    at_least_one(count=count, item_length=item_length, bits=bits)
    random = np.random.default_rng(seed)
    shown = random.integers(low, high + 1, count)  # (N,)
    samples = (count, high, item_length, bits)
    item = random.integers(0, 2, samples, np.int8)
    asked = random.integers(0, shown - 1)  # (N,), any but the last
    every, each = np.arange(count), item_length + 1
    while len(same := _equals(item, asked)):
        item[same[:, 0], same[:, 1]] = random.integers(
            0, 2, (len(same), item_length, bits), np.int8
        )
    data = empty_sequences(each * (shown + 2), bits + 2, bits, steps)
    row, place = places(shown)
    data["inputs"][row, each * place, bits] = 1
    vector = np.arange(item_length)
    data["inputs"][row[:, None], each * place[:, None] + 1 + vector, :bits] = item[
        row, place
    ]
    query = (each * shown)[:, None]  # (N, 1)
    data["inputs"][every, query[:, 0], bits + 1] = 1
    data["inputs"][every[:, None], query + 1 + vector, :bits] = item[every, asked]
    data["inputs"][every, query[:, 0] + each, bits + 1] = 1
    answer = query + each + 1 + vector  # (N, L)
    data["targets"][every[:, None], answer] = item[every, asked + 1]
    data["answer_mask"][every[:, None], answer] = True
    return data


def priority_sort(
    count: int,
    length: Range = 20,
    answers: int | None = 16,
    bits: int = 8,
    seed: Seed = 0,
    steps: int | None = None,
) -> dict[str, np.ndarray]:
    """Priority sort: write the vectors in order of decreasing priority.

    Channel `bits` of the inputs contains each vector's priority, sampled uniformly from
    -1 to 1. Channel `bits` + 1 marks the end of the sequence.

    Args:
        count: N, the number of sequences.
        length: Number of vectors, or a (minimum, maximum) range; 20 in the paper.
        answers: Number of vectors to write; 16 in the paper. A shorter sequence is
            written in full. None writes all vectors.
        bits: V, the width of a vector.
        seed: Seed for `numpy.random.default_rng`.
        steps: T. Defaults to the length of the longest sequence.

    Returns:
        The dictionary described above; `"inputs"` has D = `bits` + 2.

    Raises:
        ValueError: a size below 1, a range with its minimum above its maximum, or too
            few `steps`.

    Example:
        ```python
        data = priority_sort(count=16)
        data["inputs"].shape  # (16, 37, 10)
        ```
    """
    low, high = span(length, "length")
    at_least_one(count=count, answers=high if answers is None else answers, bits=bits)
    random = np.random.default_rng(seed)
    read = random.integers(low, high + 1, count)  # (N,)
    written = read if answers is None else np.minimum(read, answers)
    data = empty_sequences(read + 1 + written, bits + 2, bits, steps)
    vectors = random.integers(0, 2, (count, high, bits), np.int8)
    priority = random.uniform(-1, 1, (count, high)).astype(np.float32)
    priority[np.arange(high) >= read[:, None]] = -np.inf  # unused items
    row, place = places(read)
    data["inputs"][row, place, :bits] = vectors[row, place]
    data["inputs"][row, place, bits] = priority[row, place]
    data["inputs"][np.arange(count), read, bits + 1] = 1
    order = np.argsort(-priority, axis=1, kind="stable")  # one row per example
    row, place = places(written)
    data["targets"][row, read[row] + 1 + place] = vectors[row, order[row, place]]
    data["answer_mask"][row, read[row] + 1 + place] = True
    return data


def _equals(item: np.ndarray, asked: np.ndarray) -> np.ndarray:
    """Returns the (row, index) of the other items that equal the `asked` item."""
    target = item[np.arange(len(item)), asked][:, None]  # (N, 1, L, V)
    same = (item == target).all((2, 3))
    same[np.arange(len(item)), asked] = False
    return np.argwhere(same)
