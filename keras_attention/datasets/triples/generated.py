"""Questions about a user's own relations, generated from the names of the relations."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from numbers import Real
from typing import NamedTuple

import numpy as np

from keras_attention.datasets.sizes import check_size
from keras_attention.datasets.triples.knowledge import INVERSE, KnowledgeBase
from keras_attention.datasets.triples.phrases import (
    Phrases,
    participle_of,
    phrases_of,
    phrases_of_times,
)
from keras_attention.datasets.triples.questions import Question

OTHER = "<other>"  # stands for a word that is in no question of the training


@dataclass(frozen=True, slots=True)
class PathQuestion(Question):
    """A generated question.

    Attributes:
        path: The relations from the question's entity to the answers; an inverse
            relation has a `!` prefix.
    """

    path: tuple[str, ...] = ()


def generate_questions(
    knowledge: KnowledgeBase,
    count: int = 4000,
    hops: int = 1,
    templates: Mapping[str, Iterable[str]] | None = None,
    other_words: float = 0.0,
    seed: int = 0,
) -> list[PathQuestion]:
    """Generates English questions with answers about the facts of a knowledge base.

    A `KeyValueMemNN` that is trained on them answers questions about all entities,
    since it learns only words and relations. Each question follows a path of one to
    `hops` relations, or inverse relations, from a random entity. Its text comes from a
    template, which `phrases.phrases_of` makes from the name of the relation: "who
    directed {}" and "what did {} direct" of "directed_by". With two hops, a phrase for
    the first relation stands in place of the entity: "where was the director of {}
    born". The entity is in brackets. The answers are the ends of the path, without the
    entity itself.

    Args:
        knowledge: The knowledge base.
        count: Number of questions.
        hops: Maximum number of relations per question, 1 or 2. With 2, half of the
            questions have two if the facts allow it.
        templates: More templates by relation, for example `{"directed_by": ["who made
            {}"]}`. `{}` is the place of the entity. A `!` in front of the relation's
            name asks for its subjects.
        other_words: Probability that a question gets `"<other>"` before one of its
            words. Leave such questions out of the vocabulary: the word then becomes the
            unknown word, and the network learns that questions may contain words
            that it does not know.
        seed: Seed of the random choices.

    Returns:
        A list of `PathQuestion`, which are `Question`s with the path.

    Raises:
        ValueError: A size is below 1, `hops` is above 2, `other_words` is not a
            probability, a template is for an unknown relation or has not one `{}` as
            its only braces.

    Example:
        ```python
        questions = generate_questions(knowledge, count=1000)
        questions[0].text, questions[0].answers, questions[0].path
        # ("who directed [Heat]", ("Michael Mann",), ("directed_by",))
        ```
    """
    check_size("count", count)
    check_size("hops", hops)
    if hops > 2:
        raise ValueError(f"`hops` must be 1 or 2. Received: hops={hops}")
    if not isinstance(other_words, Real) or not 0 <= other_words <= 1:
        raise ValueError(
            "`other_words` must be a probability from 0 to 1. Received: "
            f"other_words={other_words!r}"
        )
    phrases = _phrases(knowledge, templates or {})
    random = np.random.default_rng(seed)
    about = _about(knowledge)
    starts: dict[str, list[str]] = {}
    for entity, values in about.items():
        for relation in values:
            starts.setdefault(relation, []).append(entity)
    relations = list(starts)
    questions = []
    for _ in range(count):
        first = relations[random.integers(len(relations))]
        start = starts[first][random.integers(len(starts[first]))]
        answers, text = about[start][first], f"[{start}]"
        path: tuple[str, ...] = (first,)
        onward = _onward(about, answers, start) if hops == 2 else {}
        if onward and random.integers(2):
            names = phrases[first].names
            text = names[random.integers(len(names))].format(text)
            seconds = sorted(onward)
            second = seconds[random.integers(len(seconds))]
            asked, answers = phrases[second].questions, onward[second]
            path = (first, second)
        else:
            asked = phrases[first].questions
        text = asked[random.integers(len(asked))].format(text)
        if random.random() < other_words:
            text = _with_other(text, random)
        questions.append(PathQuestion(text, tuple(answers), path))
    return questions


def _phrases(
    knowledge: KnowledgeBase, templates: Mapping[str, Iterable[str]]
) -> dict[str, Phrases]:
    """Returns the phrases of each relation and inverse relation."""
    names = knowledge.relations[1 : len(knowledge.relations) // 2 + 1]
    participles = [p for p in map(participle_of, names) if p]
    phrases = {}
    for name in names:
        both = zip(phrases_of(name), phrases_of_times(name, participles))
        phrases[name] = Phrases(*(first + second for first, second in both))
    phrases.update({INVERSE + n: p.inverse() for n, p in list(phrases.items())})
    for relation, texts in templates.items():
        if relation not in phrases:
            raise ValueError(
                "`templates` must have relations of the knowledge base as its keys, "
                f"which are {', '.join(phrases)}. Received: {relation!r}"
            )
        added = (texts,) if isinstance(texts, str) else tuple(texts)
        for template in added:
            braces = re.findall("[{}]+", template) if isinstance(template, str) else []
            if braces != ["{}"]:
                raise ValueError(
                    "Each of `templates` must be text with one '{}' in place of the "
                    "entity, and without other braces. "
                    f"Received: templates[{relation!r}]={template!r}"
                )
        made = phrases[relation]
        phrases[relation] = made._replace(questions=made.questions + added)
    return phrases


def _about(knowledge: KnowledgeBase) -> dict[str, dict[str, list[str]]]:
    """Returns the values of each entity by relation."""
    about: dict[str, dict[str, list[str]]] = {}
    for entity in knowledge.entities:
        values: dict[str, list[str]] = {}
        for _, relation, value in knowledge.facts_about(entity):
            values.setdefault(relation, []).append(value)
        about[entity] = values
    return about


def _onward(
    about: dict[str, dict[str, list[str]]], entities: list[str], start: str
) -> dict[str, list[str]]:
    """Returns the values of all `entities` by relation, without `start`."""
    onward: dict[str, dict[str, None]] = {}
    for entity in entities:
        if entity == start:
            continue
        for relation, values in about[entity].items():
            others = [value for value in values if value != start]
            if others:
                onward.setdefault(relation, {}).update(dict.fromkeys(others))
    return {relation: list(values) for relation, values in onward.items()}


def _with_other(text: str, random: np.random.Generator) -> str:
    """Inserts `"<other>"` before a word that is outside of the brackets."""
    start, end = text.index("["), text.rindex("]") + 1
    words = [*text[:start].split(), text[start:end], *text[end:].split()]
    words.insert(random.integers(len(words) + 1), OTHER)
    return " ".join(words)


class SeveralValues(NamedTuple):
    """An entity with several values of a relation that nearly always has one.

    Attributes:
        subject: The entity.
        relation: The relation.
        objects: Its values.
        share: The share of the subjects that have one value.
    """

    subject: str
    relation: str
    objects: tuple[str, ...]
    share: float


def several_values(knowledge: KnowledgeBase, share: float = 0.8) -> list[SeveralValues]:
    """Finds facts that may contradict each other.

    A relation such as "born_in" has one value for each subject. The file does not say
    so, but it shows: nearly all subjects have one. Subjects with several values are
    then probably errors. The knowledge base keeps all values, and all are answers.

    Args:
        knowledge: The knowledge base.
        share: A relation counts if more than this share of its subjects, of which there
            are at least three, has one value.

    Returns:
        A list of `SeveralValues`, in the order of the relations and entities.

    Raises:
        ValueError: `share` is not from 0 to 1.

    Example:
        ```python
        for found in several_values(knowledge):
            print(found.subject, found.relation, found.objects)
        ```
    """
    if not 0 <= share <= 1:
        raise ValueError(f"`share` must be from 0 to 1. Received: share={share!r}")
    values: dict[str, dict[str, list[str]]] = {}
    for entity, by_relation in _about(knowledge).items():
        for relation, objects in by_relation.items():
            values.setdefault(relation, {})[entity] = objects
    doubtful = []
    for relation in knowledge.relations[1 : len(knowledge.relations) // 2 + 1]:
        subjects = values[relation]
        single = sum(len(objects) == 1 for objects in subjects.values())
        part = single / len(subjects)
        if len(subjects) < 3 or part <= share or part == 1:
            continue
        doubtful += [
            SeveralValues(subject, relation, tuple(objects), part)
            for subject, objects in subjects.items()
            if len(objects) > 1
        ]
    return doubtful
