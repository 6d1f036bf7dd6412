"""Generated bags: bit patterns, latch sequences and bags of digits."""

import numpy as np

from keras_attention.datasets import mnist
from keras_attention.datasets.bags.padding import Bags
from keras_attention.datasets.choices import check_choice
from keras_attention.datasets.ragged import at_least_one

_HELD_OUT = 5  # every fifth image of a digit is held out


def bit_patterns(
    count: int = 2048,
    instances: int = 16,
    bits: int = 8,
    signals: int = 8,
    seed: int = 0,
) -> Bags:
    """Generates bags of bit patterns; bags that contain a signal pattern are positive.

    A few distinct patterns are the signals. Half of the bags contain one signal at a
    random index. All other instances are random patterns that are not signals.

    Args:
        count: B, the number of bags.
        instances: S, the number of patterns per bag.
        bits: F, the number of bits of a pattern, encoded as −1 and 1.
        signals: Number of signal patterns.
        seed: Seed for `numpy.random.default_rng`.

    Returns:
        `Bags` with labels 0 and 1. Training and test bags must come from one call,
        split with `take`, since another seed gives other signals.

    Raises:
        ValueError: A size is below 1, `bits` is above 20, or all patterns are signals.

    Example:
        ```python
        made = bit_patterns(seed=1)
        train, test = made.take(range(1536)), made.take(range(1536, 2048))
        ```
    """
    at_least_one(count=count, instances=instances, bits=bits, signals=signals)
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
    """Generates sequences in which a single character determines the class.

    Sequences of class 0 contain character 0 once, and sequences of class 1 contain
    character 1 once, at a random index. The other characters carry no information. A
    recurrent network must remember the character until the end.

    Args:
        count: B, the number of sequences.
        length: S, the number of characters per sequence.
        characters: F, the size of the alphabet. An instance is a one-hot character.
        seed: Seed for `numpy.random.default_rng`.

    Returns:
        `Bags`, half with label 0 and half with label 1.

    Raises:
        ValueError: A size is below 1, or `characters` is below 3.
    """
    at_least_one(count=count, length=length)
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
    """Generates bags of handwritten digits; bags with the target digit are positive.

    Half of the bags contain at least one image of `target`; the other half contain
    none. The size of a bag is sampled from a normal distribution and is at least 1.

    Args:
        count: B, the number of bags.
        part: `"train"` or `"test"`. The images are split before the bags are built:
            every fifth image of each digit belongs to `"test"`, the others to
            `"train"`.
        target: The target digit.
        mean: Mean number of images per bag.
        deviation: Standard deviation of the number of images per bag.
        seed: Seed for `numpy.random.default_rng`.
        digits: Source images. Defaults to the 10,000 images of MNIST's test file.

    Returns:
        `Bags`. An instance is a flattened image with pixels from 0 to 1.

    Raises:
        ValueError: `count` or `mean` is below 1, `deviation` is below 0, `part` is
            unknown, or the part lacks the target or other digits.
        DataNotFoundError, DamagedDataError: As `mnist.load`.

    Reference:
        Ilse, Tomczak & Welling, "Attention-based deep multiple instance learning"
        (2018), section 4.2. The paper builds its bags from MNIST's training digits.
    """
    at_least_one(count=count)
    check_choice("part", part, ("train", "test"))
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
    """Samples the image indices of a bag. A positive bag begins with a target image."""
    if not label:
        return random.choice(others, size)
    return np.concatenate([random.choice(targets, 1), random.choice(mine, size - 1)])


def _held_out(named: np.ndarray) -> np.ndarray:
    """Selects every fifth image of each digit."""
    held = np.zeros(len(named), bool)
    for digit in np.unique(named):
        held[np.flatnonzero(named == digit)[_HELD_OUT - 1 :: _HELD_OUT]] = True
    return held
