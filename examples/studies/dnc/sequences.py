"""Turns stories into sequences of words for a differentiable neural computer.

Graves et al., 2016, *Hybrid computing using a neural network with dynamic external
memory*, Nature 538, Methods, "bAbI task descriptions". Each step reads a word or a
mark. `.` ends a fact and `?` ends a question. After a question, one `-` stands for each
word of the answer. At each `-`, the network predicts the word. A sequence holds all
facts and questions of a story in their original order.
"""

from collections.abc import Iterable, Sequence

import numpy as np

from keras_attention.datasets.babi import Example, Vocabulary
from keras_attention.datasets.ragged import steps_for

FACT_END, QUESTION_END, ANSWER = ".", "?", "-"
BLANK = "<blank>"


def sequence_vocabulary(examples: Iterable[Example]) -> Vocabulary:
    """Builds the vocabulary of all stories, questions, answers and marks.

    A list such as `"apple,milk"` counts as separate words. The marks come first: `.`,
    `?`, `-` and `<blank>`, which fills steps without input.
    """
    words: set[str] = set()
    for example in examples:
        words.update(*example.story, example.question, _answer_words(example))
    return Vocabulary([FACT_END, QUESTION_END, ANSWER, BLANK, *sorted(words)])


def sequences(
    examples: Sequence[Example],
    vocabulary: Vocabulary,
    blanks: int = 0,
    whole_stories: bool = True,
    steps: int | None = None,
) -> dict[str, np.ndarray]:
    """Turns examples into N sequences of words.

    Args:
        examples: Q questions. Questions of one story must be adjacent, as in the output
            of `babi.load` and `babi.simulate`.
        vocabulary: Maps words to indices; see `sequence_vocabulary`.
        blanks: Number of blank steps between a question and its answer; 3 in Csordás
            and Schmidhuber, 2019.
        whole_stories: Whether all questions of a story share one sequence. Otherwise
            each question gets its own sequence, which begins with all earlier facts.
        steps: T. Defaults to the length of the longest sequence.

    Returns:
        A dictionary of arrays: `"inputs"`, (N, T) int32 words, padded with 0;
        `"answer_mask"`, (N, T) bool, True at each `-`; `"targets"`, (N, T) int32, the
        answer's word at each `-`, 0 elsewhere; `"lengths"`, (N,) int32; and
        `"question"`, (N, T) int32, the index of the answered example at each `-`, -1
        elsewhere.

    Raises:
        ValueError: no examples, negative `blanks`, a word outside the vocabulary, an
            example without an answer, or too few `steps`.

    Example:
        ```python
        examples = babi.simulate(task=1, count=100)
        data = sequences(examples, sequence_vocabulary(examples), blanks=3)
        ```
    """
    if not examples:
        raise ValueError("`examples` must hold at least one. Received: examples=[]")
    if blanks < 0:
        raise ValueError(f"`blanks` must not be negative. Received: {blanks=}")
    words: list[list[str]] = []  # of each sequence
    answers: list[tuple[int, int, str, int]] = []  # sequence, step, word, question
    told: tuple[tuple[str, ...], ...] = ()
    for number, example in enumerate(examples):
        goes_on = whole_stories and number and _goes_on(told, example.story)
        if not goes_on:
            told = ()
            words.append([])
        for fact in example.story[len(told) :]:
            words[-1] += [*fact, FACT_END]
        told = example.story
        words[-1] += [*example.question, QUESTION_END, *[BLANK] * blanks]
        given = _answer_words(example)
        if not given:
            raise ValueError(
                f"examples[{number}] must have an answer. Received: {example}"
            )
        for word in given:
            answers.append((len(words) - 1, len(words[-1]), word, number))
            words[-1].append(ANSWER)
    return _arrays(words, answers, vocabulary, steps)


def _answer_words(example: Example) -> list[str]:
    """Returns the words of an answer; a list has several words."""
    return example.answer.split(",") if example.answer else []


def _goes_on(
    told: tuple[tuple[str, ...], ...], story: tuple[tuple[str, ...], ...]
) -> bool:
    """Returns whether `story` continues the story `told`."""
    return len(told) > 0 and story[: len(told)] == told


def _arrays(
    words: list[list[str]],
    answers: list[tuple[int, int, str, int]],
    vocabulary: Vocabulary,
    steps: int | None,
) -> dict[str, np.ndarray]:
    known = {word for row in words for word in row} | {
        word for _, _, word, _ in answers
    }
    if unknown := vocabulary.unknown_words(sorted(known)):
        raise ValueError(
            "`vocabulary` must hold every word and mark, see `sequence_vocabulary`. "
            f"Received none of: {unknown}"
        )
    lengths = np.array([len(row) for row in words])
    shape = (len(words), steps_for(lengths, steps))
    inputs, targets = np.zeros(shape, np.int32), np.zeros(shape, np.int32)
    question = np.full(shape, -1, np.int32)
    for row, told in zip(inputs, words, strict=True):
        row[: len(told)] = vocabulary.encode(told)
    sequence, step, given, number = zip(*answers, strict=True)
    targets[sequence, step] = vocabulary.encode(given)
    question[sequence, step] = number
    return {
        "inputs": inputs,
        "answer_mask": question >= 0,
        "targets": targets,
        "lengths": lengths.astype(np.int32),
        "question": question,
    }
