"""Task 17: positions, as in "Is the triangle to the right of the red sphere?"."""

from collections.abc import Sequence

from keras_attention.datasets.babi.archive import Example
from keras_attention.datasets.babi.simulator.random_source import RandomSource
from keras_attention.datasets.babi.simulator.world import Words

_SHAPES = (
    ("triangle",),
    ("pink", "rectangle"),
    ("blue", "square"),
    ("red", "square"),
    ("yellow", "square"),
    ("red", "sphere"),
)
_SIDES: dict[Words, tuple[int, int]] = {  # steps to the right and up
    ("above",): (0, 1),
    ("below",): (0, -1),
    ("to", "the", "left", "of"): (-1, 0),
    ("to", "the", "right", "of"): (1, 0),
}
_QUESTIONS = 8  # per story
_MIDDLE_FIRST = 2 / 3  # probability that the middle shape is a fact's subject


def story(task: int, random_source: RandomSource) -> list[Example]:
    """Writes a story of task 17: two shapes next to a third, and eight questions."""
    middle, *ends = random_source.some(_SHAPES, 3)
    sides = random_source.some(tuple(_SIDES), 2)
    facts = []
    for shape, side in zip(ends, sides):
        if random_source.draw() < _MIDDLE_FIRST:
            facts.append(_fact(middle, _across(side), shape))
        else:
            facts.append(_fact(shape, side, middle))
    examples = []
    for _ in range(_QUESTIONS):
        first = random_source.below(2)
        right, wrong = _relations(sides[first], sides[1 - first])
        side, answer = random_source.choose(right), "yes"
        if random_source.draw() < 0.5:
            side, answer = random_source.choose(wrong), "no"
        words = ("is", "the", *ends[first], *side, "the", *ends[1 - first])
        support = (first, 1 - first)
        examples.append(Example(task, tuple(facts), words, answer, support))
    return examples


def _fact(subject: Words, side: Words, other: Words) -> Words:
    return ("the", *subject, "is", *side, "the", *other)


def _across(side: Words) -> Words:
    x, y = _SIDES[side]
    return next(name for name, step in _SIDES.items() if step == (-x, -y))


def _relations(first: Words, second: Words) -> tuple[Sequence[Words], Sequence[Words]]:
    """Returns the sides of the second shape on which the first lies, and the others."""
    (x, y), (other_x, other_y) = _SIDES[first], _SIDES[second]
    right: list[Words] = []
    wrong: list[Words] = []
    for name, (step_x, step_y) in _SIDES.items():
        along = (x - other_x) * step_x + (y - other_y) * step_y
        (right if along > 0 else wrong).append(name)
    return right, wrong
