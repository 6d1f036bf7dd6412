"""Bags that are made: bit patterns, latch sequences, and handfuls of digits."""

import numpy as np

from keras_attention.datasets import mnist
from keras_attention.datasets.bags.padding import Bags

_HELD_OUT = 5  # every fifth picture of a digit is held out


def bit_patterns(
    count: int = 2048,
    instances: int = 16,
    bits: int = 8,
    signals: int = 8,
    seed: int = 0,
) -> Bags:
    """Bags of random bit patterns; those that hold one of a few signals are positive.

    The signals are drawn first, all different. One half of the bags has one of them, at
    a random place; every other instance is any pattern that is no signal.

    Args:
        count: B, how many bags.
        instances: S, how many patterns in each.
        bits: F, the bits of a pattern, as −1 and 1.
        signals: How many patterns are signals.
        seed: Seed for `numpy.random.default_rng`.

    Returns:
        `Bags` with labels 0 and 1. Bags for training and for testing must be of one
        call, `take`n apart, since another seed has other signals.

    Raises:
        ValueError: A size below 1, more than 20 bits, or as many signals as patterns.

    Example:
        ```python
        made = bit_patterns(seed=1)
        train, test = made.take(range(1536)), made.take(range(1536, 2048))
        ```
    """
    _at_least_one(count=count, instances=instances, bits=bits, signals=signals)
    if bits > 20 or signals >= 2**bits:
        raise ValueError(
            "`bits` must be at most 20, and `signals` fewer than 2 ** bits. "
            f"Received: bits={bits}, signals={signals}"
        )
    random = np.random.default_rng(seed)
    patterns = random.permutation(2**bits)
    labels = random.permutation(np.arange(count) % 2)
    samples = patterns[random.integers(signals, 2**bits, (count, instances))]  # (B, S)
    signal = patterns[random.integers(0, signals, count)]
    place = random.integers(0, instances, count)
    rows = np.flatnonzero(labels)
    samples[rows, place[rows]] = signal[rows]
    unpacked = samples[..., None] >> np.arange(bits) & 1  # (B, S, F)
    return Bags.of(2.0 * unpacked - 1, labels)


def latch_sequences(
    count: int = 4096, length: int = 32, characters: int = 20, seed: int = 0
) -> Bags:
    """Sequences in which a single character, at a random place, tells the class.

    Character 0 is in the sequences of class 0 and character 1 in those of class 1, once
    in each; the others say nothing. To find it, a network must hold on to it.

    Args:
        count: B, how many sequences.
        length: S, how many characters in each.
        characters: F, how many there are; an instance is one of them, one-hot.
        seed: Seed for `numpy.random.default_rng`.

    Returns:
        `Bags` with labels 0 and 1, one half each.

    Raises:
        ValueError: A size below 1, or fewer than 3 characters.
    """
    _at_least_one(count=count, length=length)
    if characters < 3:
        raise ValueError(
            "`characters` must be at least 3: two that tell the class, and others. "
            f"Received: characters={characters}"
        )
    random = np.random.default_rng(seed)
    labels = random.permutation(np.arange(count) % 2)
    samples = random.integers(2, characters, (count, length))  # (B, S)
    samples[np.arange(count), random.integers(0, length, count)] = labels
    return Bags.of(np.eye(characters, dtype=np.float32)[samples], labels)


def digits(
    count: int = 500,
    part: str = "train",
    target: int = 9,
    mean: float = 10.0,
    deviation: float = 2.0,
    seed: int = 0,
    digits: mnist.Digits | None = None,
) -> Bags:
    """Handfuls of handwritten digits; those with a certain digit are positive.

    One half of the bags has at least one picture of `target`, the other has none. How
    many pictures are in a bag is drawn from a normal distribution, and is at least 1.

    Args:
        count: B, how many bags.
        part: `"train"` or `"test"`: no picture is in both. Every fifth picture of each
            digit is of the part `"test"`; the pictures are parted before bags are made.
        target: The digit that is looked for.
        mean: Of the number of pictures in a bag.
        deviation: Of the number of pictures in a bag.
        seed: Seed for `numpy.random.default_rng`.
        digits: Pictures to draw from; by default the 10,000 of MNIST's test file.

    Returns:
        `Bags`, an instance being the pixels of a picture from 0 to 1, row by row.

    Raises:
        ValueError: A `count` below 1, another `part`, a mean below 1 or a deviation
            below 0, or a part without the target or without other digits.
        DataNotFoundError, DamagedDataError: As `mnist.load`.

    Reference:
        Ilse, Tomczak & Welling, "Attention-based deep multiple instance learning"
        (2018), section 4.2, whose bags are of MNIST's training digits.
    """
    _at_least_one(count=count)
    if part not in ("train", "test"):
        raise ValueError(f"`part` must be 'train' or 'test'. Received: part={part!r}")
    if not mean >= 1 or not deviation >= 0:
        raise ValueError(
            "`mean` must be at least 1 and `deviation` at least 0. "
            f"Received: mean={mean}, deviation={deviation}"
        )
    images, named = mnist.load("test") if digits is None else digits
    mine = np.flatnonzero(_held_out(named) == (part == "test"))
    targets, others = mine[named[mine] == target], mine[named[mine] != target]
    if not len(targets) or not len(others):
        raise ValueError(
            "`digits` must have pictures of `target` and of others in each part. "
            f"Received: {len(targets)} and {len(others)}, target={target}, "
            f"part={part!r}"
        )
    random = np.random.default_rng(seed)
    labels = random.permutation(np.arange(count) % 2)
    sizes = np.maximum(np.rint(random.normal(mean, deviation, count)), 1).astype(int)
    samples = [
        random.permutation(_handful(random, size, label, mine, targets, others))
        for size, label in zip(sizes.tolist(), labels)
    ]
    pixels = images.reshape(len(images), -1)[np.concatenate(samples)] / np.float32(255)
    return Bags(pixels, np.repeat(np.arange(count), sizes), labels)


def _handful(
    random: np.random.Generator,
    size: int,
    label: int,
    mine: np.ndarray,
    targets: np.ndarray,
    others: np.ndarray,
) -> np.ndarray:
    """The numbers of a bag's pictures, the target's first where there must be one."""
    if not label:
        return random.choice(others, size)
    return np.concatenate([random.choice(targets, 1), random.choice(mine, size - 1)])


def _held_out(named: np.ndarray) -> np.ndarray:
    """Every fifth picture of each digit."""
    held = np.zeros(len(named), bool)
    for digit in np.unique(named):
        held[np.flatnonzero(named == digit)[_HELD_OUT - 1 :: _HELD_OUT]] = True
    return held


def _at_least_one(**sizes: int) -> None:
    for name, size in sizes.items():
        if size < 1:
            raise ValueError(f"`{name}` must be at least 1. Received: {name}={size}")
