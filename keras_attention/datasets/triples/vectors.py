"""Turns questions and facts into the inputs of a key-value memory network."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from keras_attention.datasets.babi import Vocabulary
from keras_attention.datasets.choices import check_choice
from keras_attention.datasets.ragged import padded
from keras_attention.datasets.sizes import check_size
from keras_attention.datasets.triples.knowledge import KnowledgeBase
from keras_attention.datasets.triples.questions import Question
from keras_attention.text import EntityLinker, Link, UnknownEntityError
from keras_attention.user_warnings import warn_user


class Vectors(NamedTuple):
    """The output of `vectorize`.

    Entity numbers are local to a question's memory: 0 is padding, 1 is the question's
    entity, and the other entities get random numbers from 2 to M + 1.

    Attributes:
        inputs: `"question"`, (N, L) int32, words; `"keys"`, (N, M, 2) int32, the
            entity and the relation of each fact's key; `"values"`, (N, M) int32, the
            entity of each fact's value.
        answers: (N, M + 2) float32, uniform over the correct answers in the memory; all
            0 if the memory holds none.
        entities: (N, M + 2) int32, the knowledge base index of each number; −1 for
            unused numbers.
        truncated: Number of memories with more than M facts.
        unanswerable: Number of questions without a correct answer in their memory.
        unknown: Number of questions without a known entity; their memory is empty.
        by_brackets: Number of questions that mark their entity with brackets.
    """

    inputs: dict[str, np.ndarray]
    answers: np.ndarray
    entities: np.ndarray
    truncated: int
    unanswerable: int
    unknown: int
    by_brackets: int


class Asked(NamedTuple):
    """The output of `ask`.

    Attributes:
        questions: (N, L) int32, the words; 0 is padding.
        starts: (N,) int64, the index of each question's entity in
            `KnowledgeBase.entities`; −1 for questions without a known entity.
        answers: For each question, the indices of its correct answers, ascending.
            Answers that the knowledge base does not have are left out.
    """

    questions: np.ndarray
    starts: np.ndarray
    answers: list[list[int]]


def question_vocabulary(
    questions: Iterable[Question], linker: EntityLinker
) -> Vocabulary:
    """Builds a sorted vocabulary of the questions without entity names.

    Questions without a known entity are skipped.
    """
    words: set[str] = set()
    for question in questions:
        link = _link(question, linker, "empty")
        words.update(link.words if link else ())
    return Vocabulary(sorted(words))


def vectorize(
    questions: Iterable[Question],
    knowledge: KnowledgeBase,
    vocabulary: Vocabulary,
    memory_size: int = 64,
    hops: int = 1,
    linker: EntityLinker | None = None,
    unknown: str = "raise",
    seed: int = 0,
) -> Vectors:
    """Turns N questions into arrays with a memory of at most M facts each.

    The memory holds the facts from `KnowledgeBase.around` for the question's entity. A
    `UserWarning` gives the number of questions with more than M facts.

    Args:
        questions: The questions.
        knowledge: The knowledge base.
        vocabulary: Maps words to indices; see `question_vocabulary`.
        memory_size: M.
        hops: Maximum number of facts on a path from the question's entity.
        linker: Finds the questions' entities. Defaults to an `EntityLinker` with all
            entities of the knowledge base.
        unknown: How to handle questions without a known entity: `"raise"` an error, or
            give them an `"empty"` memory.
        seed: Seed for the random entity numbers.

    Raises:
        ValueError: `questions` is empty, a size is below 1, or `unknown` has another
            value.
        UnknownEntityError: With `unknown="raise"`, a question has no known entity; the
            message gives its index.

    Example:
        ```python
        linker = EntityLinker(knowledge.entities)
        vocabulary = question_vocabulary(questions, linker)
        vectors = vectorize(questions, knowledge, vocabulary, linker=linker)
        model.fit(vectors.inputs, vectors.answers)
        ```
    """
    check_size("memory_size", memory_size)
    check_size("hops", hops)
    questions, links = _linked(questions, knowledge, linker, unknown)
    keys = np.zeros((len(questions), memory_size, 2), np.int32)  # (N, M, 2)
    values = np.zeros((len(questions), memory_size), np.int32)  # (N, M)
    entities = np.full((len(questions), memory_size + 2), -1, np.int32)  # (N, M + 2)
    answers = np.zeros(entities.shape, np.float32)
    numbers = np.random.default_rng(seed)
    truncated = 0
    for i, (question, link) in enumerate(zip(questions, links)):
        if link is None:
            continue
        facts, cut = knowledge.around(link.entity, hops, memory_size)
        truncated += cut > 0
        met = dict.fromkeys(e for key, _, value in facts for e in (key, value))
        met.pop(start := knowledge.index(link.entity), None)
        dealt = 2 + numbers.permutation(memory_size)[: len(met)]
        number = {start: 1, **dict(zip(met, dealt.tolist()))}
        entities[i, list(number.values())] = list(number)
        for slot, (key, relation, value) in enumerate(facts):
            keys[i, slot] = number[key], relation
            values[i, slot] = number[value]
        right = {knowledge.index(a) for a in question.answers if a in knowledge}
        for value in right & {value for _, _, value in facts}:
            answers[i, number[value]] = 1
    total = answers.sum(1, keepdims=True)
    if truncated:
        warn_user(
            f"The memories of {truncated} of {len(questions)} questions would have "
            f"more than memory_size={memory_size} facts; those of the entities with "
            "the most facts were left out."
        )
    return Vectors(
        {"question": _words(links, vocabulary), "keys": keys, "values": values},
        answers / np.maximum(total, 1),
        entities,
        truncated,
        unanswerable=int((total == 0).sum()),
        unknown=sum(link is None for link in links),
        by_brackets=sum(link is not None and link.by == "brackets" for link in links),
    )


def ask(
    questions: Iterable[Question],
    knowledge: KnowledgeBase,
    vocabulary: Vocabulary,
    linker: EntityLinker | None = None,
    unknown: str = "raise",
) -> Asked:
    """Turns N questions into words and start entities, for a `HopReader`.

    Args:
        questions: The questions.
        knowledge: The knowledge base.
        vocabulary: Maps words to indices; see `question_vocabulary`.
        linker: Finds the questions' entities. Defaults to an `EntityLinker` with all
            entities of the knowledge base.
        unknown: How to handle questions without a known entity: `"raise"` an error, or
            give them an `"empty"` row of words and the start −1.

    Raises:
        ValueError: `questions` is empty, or `unknown` has another value.
        UnknownEntityError: With `unknown="raise"`, a question has no known entity; the
            message gives its index.

    Example:
        ```python
        asked = ask([Question("who directed [Heat]")], knowledge, vocabulary)
        answers = reader.answer(asked.questions, asked.starts)
        knowledge.entities[answers.entities[0, 0]]
        ```
    """
    questions, links = _linked(questions, knowledge, linker, unknown)
    starts = [-1 if link is None else knowledge.index(link.entity) for link in links]
    answers = [
        sorted({knowledge.index(a) for a in question.answers if a in knowledge})
        for question in questions
    ]
    return Asked(_words(links, vocabulary), np.array(starts), answers)


def decode(
    predictions: np.ndarray, entities: np.ndarray, knowledge: KnowledgeBase
) -> list[str | None]:
    """Returns the name of the best answer of each row; None if there is no candidate.

    Args:
        predictions: (N, M + 2), for example `model.predict(vectors.inputs)`.
        entities: (N, M + 2), `Vectors.entities`.
        knowledge: The knowledge base.

    Returns:
        A list of N names.

    Raises:
        ValueError: The shapes differ.
    """
    if predictions.shape != entities.shape:
        raise ValueError(
            "`predictions` and `entities` must have the same shape. Received: "
            f"predictions.shape={predictions.shape}, entities.shape={entities.shape}"
        )
    best = predictions.argmax(1)
    rows = np.arange(len(best))
    answers = np.where(predictions[rows, best] > 0, entities[rows, best], -1)
    return [None if e < 0 else knowledge.entities[e] for e in answers]


def _linked(
    questions: Iterable[Question],
    knowledge: KnowledgeBase,
    linker: EntityLinker | None,
    unknown: str,
) -> tuple[list[Question], list[Link | None]]:
    """Returns the questions as a list, and their links."""
    check_choice("unknown", unknown, ("raise", "empty"))
    questions = list(questions)
    if not questions:
        raise ValueError("`questions` must hold at least one. Received: questions=[]")
    linker = linker or EntityLinker(knowledge.entities)
    links = [
        _link(question, linker, unknown, f"questions[{i}]: ")
        for i, question in enumerate(questions)
    ]
    return questions, links


def _link(
    question: Question, linker: EntityLinker, unknown: str, where: str = ""
) -> Link | None:
    try:
        return linker.link(question.text)
    except UnknownEntityError as error:
        if unknown == "empty":
            return None
        raise type(error)(f"{where}{error}", error.candidates) from error


def _words(links: Sequence[Link | None], vocabulary: Vocabulary) -> np.ndarray:
    """Encodes the questions' words as an array (N, L), padded with 0."""
    rows = [vocabulary.encode(link.words) if link else [] for link in links]
    return padded(rows, max(1, *map(len, rows)))
