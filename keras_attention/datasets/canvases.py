"""Handwritten digits on a canvas, each with a caption.

Canvases combine MNIST digits (CC BY-SA 3.0; see `keras_attention.datasets.mnist`).
Captions are "a 5", "a 3 left of a 7" or "a 3 above a 7". The position of each digit is
known, so attention can be scored: `share_on_box` returns the share of attention on the
digit that a word names.

```python
from keras_attention.datasets import canvases

train = canvases.generate(5000, seed=0)
vectors = canvases.vectorize(train)
vectors.inputs["image"].shape  # (5000, 64, 64, 1)
canvases.VOCABULARY.decode(vectors.labels[0])  # train.captions[0]
```
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from keras_attention.datasets import mnist
from keras_attention.datasets.choices import check_choice
from keras_attention.datasets.sizes import check_size
from keras_attention.text.vocabulary import END, START, Vocabulary

RELATIONS = ("left of", "above", "alone")
VOCABULARY = Vocabulary(["a", "left", "of", "above", *"0123456789"])
LENGTH = 7  # tokens of the longest caption, "a 3 left of a 7", and the end token

_PARTS = ("train", "test")
_HELD_OUT = 5  # every fifth digit is held out
_GAP = 4  # minimum number of pixels between two digits
_SLANT = 6  # maximum offset in pixels between the digits' centers, before rounding


class Canvases(NamedTuple):
    """N canvases of H by H pixels, with captions, digits and boxes.

    Attributes:
        images: (N, H, H, 1) float32 in [0, 1], 0 for the background.
        captions: N captions.
        digits: (N, 2) int32, the digits in caption order; −1 for a missing second
            digit.
        boxes: (N, 2, 4) int32, the bounding box of each digit's ink: top, left, bottom
            and right in pixels, the last two exclusive; −1 for a missing second digit.
    """

    images: np.ndarray
    captions: list[str]
    digits: np.ndarray
    boxes: np.ndarray


class Vectors(NamedTuple):
    """The output of `vectorize`, with T = 7 tokens.

    Attributes:
        inputs: `"image"`, (N, H, H, 1) float32; `"target"`, (N, T) int32, the start
            token and the caption, padded with 0: the decoder input for training.
        labels: (N, T) int32, the caption and the end token: the target shifted by one.
        sample_weight: (N, T) float32, 1 for labels and 0 for padding.
        boxes: (N, T, 4) int32, the box of the digit that each label names; −1 for other
            labels.
    """

    inputs: dict[str, np.ndarray]
    labels: np.ndarray
    sample_weight: np.ndarray
    boxes: np.ndarray


def generate(
    count: int = 5000,
    seed: int | Sequence[int] | np.random.SeedSequence | np.random.Generator = 0,
    part: str = "train",
    size: int = 64,
    relations: Sequence[str] = RELATIONS,
    digits: mnist.Digits | None = None,
) -> Canvases:
    """Generates canvases with one or two digits at random positions.

    The caption names the left or the upper digit first, so each canvas has exactly one
    correct caption. Two digits are at least four pixels apart. Perpendicular to the
    relation, their centers differ by at most seven pixels.

    Args:
        count: N, the number of canvases.
        seed: Seed for `numpy.random.default_rng`. The same seed gives the same
            canvases.
        part: `"train"` or `"test"`. The parts share no digit images: every fifth image
            belongs to `"test"`.
        size: H, the side length in pixels.
        relations: Relations to sample from: `"left of"`, `"above"` and `"alone"`.
            Repeat a relation to make it more frequent.
        digits: Source images. Defaults to the 10,000 images of MNIST's test file.

    Raises:
        ValueError: `count` is below 0, `part` is unknown, `relations` is empty or has
            an unknown name, `size` is too small for two digits, or `digits` has
            mismatched shapes, too few images or a blank image.
        DataNotFoundError, DamagedDataError: As `mnist.load`.

    Example:
        ```python
        test = generate(500, seed=1, part="test")
        ```
    """
    check_size("count", count, least=0)
    check_choice("part", part, _PARTS)
    several = not isinstance(relations, str) and len(relations)
    if not several or any(relation not in RELATIONS for relation in relations):
        raise ValueError(
            f"`relations` must be a sequence of {RELATIONS}. "
            f"Received: relations={relations!r}"
        )
    images, labels = mnist.load("test") if digits is None else digits
    _check_digits(images, labels)
    held_out = np.arange(len(labels)) % _HELD_OUT == _HELD_OUT - 1
    mine = np.flatnonzero(held_out == (part == "test"))
    inks = [_ink(images[i], i) for i in mine.tolist()]
    largest = max((max(ink.shape) for ink in inks), default=0)
    if not isinstance(size, int) or size < 2 * largest + _GAP:
        raise ValueError(
            f"`size` must be a whole number of at least {2 * largest + _GAP}, for two "
            f"digits side by side. Received: size={size!r}"
        )
    random = np.random.default_rng(seed)
    canvas = np.zeros((count, size, size, 1), np.float32)
    named = np.full((count, 2), -1, np.int32)
    boxes = np.full((count, 2, 4), -1, np.int32)
    captions = []
    for i in range(count):
        relation = relations[int(random.integers(len(relations)))]
        chosen = random.integers(len(mine), size=1 if relation == "alone" else 2)
        shapes = [inks[j].shape for j in chosen]
        for n, (top, left) in enumerate(_places(random, shapes, size, relation)):
            ink = inks[chosen[n]]
            bottom, right = top + ink.shape[0], left + ink.shape[1]
            canvas[i, top:bottom, left:right, 0] = ink / np.float32(255)
            boxes[i, n] = top, left, bottom, right
            named[i, n] = labels[mine[chosen[n]]]
        captions.append(f" {relation} ".join(f"a {d}" for d in named[i] if d >= 0))
    return Canvases(canvas, captions, named, boxes)


def vectorize(canvases: Canvases) -> Vectors:
    """Turns canvases and captions into a captioner's inputs and labels.

    Args:
        canvases: The N canvases.

    Raises:
        ValueError: A caption has more than six words or words outside `VOCABULARY`.

    Example:
        ```python
        vectors = vectorize(generate(1000))
        model.fit(vectors.inputs, vectors.labels, sample_weight=vectors.sample_weight)
        ```
    """
    total = len(canvases.captions)
    target = np.zeros((total, LENGTH), np.int32)  # (N, T)
    labels = np.zeros((total, LENGTH), np.int32)  # (N, T)
    boxes = np.full((total, LENGTH, 4), -1, np.int32)  # (N, T, 4)
    for i, caption in enumerate(canvases.captions):
        words = caption.split()
        if len(words) >= LENGTH or not all(word in VOCABULARY for word in words):
            raise ValueError(
                f"A caption must be up to {LENGTH - 1} words of VOCABULARY. "
                f"Received: captions[{i}]={caption!r}"
            )
        numbers = VOCABULARY.encode(caption)
        target[i, : len(numbers) + 1] = [START, *numbers]
        labels[i, : len(numbers) + 1] = [*numbers, END]
        at = [t for t, word in enumerate(words) if word.isdigit()]
        boxes[i, at] = canvases.boxes[i, : len(at)]
    inputs = {"image": canvases.images, "target": target}
    return Vectors(inputs, labels, (labels > 0).astype(np.float32), boxes)


def share_on_box(
    weights: np.ndarray,
    boxes: np.ndarray,
    grid: tuple[int, int],
    size: int | tuple[int, int] = 64,
    by: str = "touch",
) -> np.ndarray:
    """Returns the share of attention on the digit that each token names.

    The S grid cells cover the canvas row by row, like the outputs of a convolutional
    network with padding "same".

    Args:
        weights: (B, T, S), the attention of each token to each cell. The weights need
            not sum to one.
        boxes: (B, T, 4), for example `Vectors.boxes`: top, left, bottom and right.
        grid: Number of rows and columns of cells; their product is S.
        size: The height and width of the canvas in pixels, or one number for both.
        by: `"touch"` counts a cell fully if it overlaps the box. `"area"` weights a
            cell by the share of its area inside the box. With `"touch"`, a cell may
            count for two nearby digits. To get the score of uniform attention, pass
            `numpy.ones_like(weights)` as the weights.

    Returns:
        (B, T) float64 from 0 to 1. Tokens that name no digit or have all-zero weights
        get NaN, which `numpy.nanmean` ignores.

    Raises:
        ValueError: Shapes do not match, or `by` is unknown.

    Example:
        ```python
        weights = ...  # (B, 7, 64), of a grid of 8 by 8 cells
        numpy.nanmean(share_on_box(weights, vectors.boxes, grid=(8, 8)))
        ```
    """
    weights, boxes = np.asarray(weights, np.float64), np.asarray(boxes)
    rows, columns = grid
    sound = weights.ndim == 3 and weights.shape[2] == rows * columns
    if not sound or boxes.shape != (*weights.shape[:2], 4):
        raise ValueError(
            "`weights` must be (B, T, rows · columns) and `boxes` (B, T, 4). Received: "
            f"weights.shape={weights.shape}, boxes.shape={boxes.shape}, grid={grid}"
        )
    check_choice("by", by, ("touch", "area"))
    height, width = (size, size) if isinstance(size, int) else size
    down = _covered(boxes[..., 0], boxes[..., 2], rows, height)  # one number per row
    across = _covered(boxes[..., 1], boxes[..., 3], columns, width)  # one per column
    covered = down[..., :, None] * across[..., None, :]
    if by == "touch":
        covered = covered > 0
    total = weights.sum(-1)  # (B, T)
    share = (weights * covered.reshape(weights.shape)).sum(-1)  # (B, T)
    known = (boxes[..., 2] > boxes[..., 0]) & (total > 0)
    return np.where(known, share / np.where(known, total, 1), np.nan)


def _covered(low: np.ndarray, high: np.ndarray, cells: int, pixels: int) -> np.ndarray:
    """Returns the share of each cell that lies between `low` and `high` on one axis."""
    edges = np.arange(cells + 1) * (pixels / cells)
    inside = np.minimum(high[..., None], edges[1:]) - np.maximum(
        low[..., None], edges[:-1]
    )
    return np.clip(inside, 0, None) * (cells / pixels)


def _places(
    random: np.random.Generator, shapes: list[tuple[int, ...]], size: int, relation: str
) -> list[tuple[int, int]]:
    """Returns the (top, left) corner of each digit, in caption order."""
    if relation == "alone":
        ((height, width),) = shapes
        top, left = random.integers((size - height + 1, size - width + 1)).tolist()
        return [(top, left)]
    along = 1 if relation == "left of" else 0  # the axis of the relation
    first, second = shapes[0][along], shapes[1][along]
    spare = size - first - second - _GAP
    before, between = np.sort(random.integers(spare + 1, size=2)).tolist()
    starts = before, between + first + _GAP
    # On the other axis, both centers are near a common center where both digits fit.
    sides = [shape[1 - along] for shape in shapes]
    room = max(sides)
    middle = random.uniform(room / 2, size - room / 2)
    slants = random.uniform(-_SLANT / 2, _SLANT / 2, size=2)
    others = [
        int(np.clip(round(middle + slant - side / 2), 0, size - side))
        for slant, side in zip(slants, sides)
    ]
    pairs = list(zip(others, starts)) if along else list(zip(starts, others))
    return [(int(top), int(left)) for top, left in pairs]


def _ink(image: np.ndarray, index: int) -> np.ndarray:
    """Crops an image to the bounding box of its ink."""
    rows, columns = np.nonzero(image)
    if not len(rows):
        raise ValueError(
            f"A digit's picture must have ink. Received: digits.images[{index}] is 0"
        )
    return image[rows.min() : rows.max() + 1, columns.min() : columns.max() + 1]


def _check_digits(images: np.ndarray, labels: np.ndarray) -> None:
    sound = images.ndim == 3 and labels.shape == images.shape[:1]
    if not sound or images.dtype != np.uint8 or len(labels) < _HELD_OUT:
        raise ValueError(
            f"`digits` must be at least {_HELD_OUT} uint8 images (N, height, width) "
            f"and as many labels. Received: images of shape {images.shape} and "
            f"{images.dtype}, labels of shape {labels.shape}"
        )
    if labels.min() < 0 or labels.max() > 9:
        raise ValueError(
            f"`digits` must have labels from 0 to 9. Received: {labels.max()}"
        )
