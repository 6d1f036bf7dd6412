"""Facts of three names and questions about them, for key-value memory networks.

Shapes: M facts of a memory, L words of a question, R relations.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from keras_attention.datasets import babi, triples
from keras_attention.layers.base.arguments import positive
from keras_attention.layers.base.serialization import export
from keras_attention.models.base.preset_folder import Preprocessor
from keras_attention.presets.preprocessors.running import hops_of, packed, run
from keras_attention.presets.preprocessors.sentences import check_lines, names_of
from keras_attention.presets.preprocessors.stories import (
    WORDS_OF_STORIES,
    check_story_vocabulary,
    read_json,
    write_json,
)
from keras_attention.text import EntityLinker, UnknownEntityError

SHARE = 0.2  # of the likeliest answer's probability, which all answers have


def _relation(name: str) -> str:
    return "_".join(name.replace("_", " ").split())


@export
class FactPreprocessor(Preprocessor):
    """Turns facts and a question into the inputs of a `KeyValueMemNN`.

    A fact is a text of a subject, a relation and an object with `|` between them, such
    as "The Mill | painted by | Ann Lee", or a tuple of the three. The names of subjects
    and objects are free, those of relations are the ones that the network has learned.
    In their names, a space is the same as `_`.

    A question names one subject or object of the facts, as written there; brackets may
    mark it. See `text.EntityLinker` for other spellings.

    Args:
        vocabulary: a `datasets.babi.Vocabulary` of the words of questions, with
            `text.ENTITY`.
        relations: the names of R relations, in the order of the network.
        memory_size: M, the maximum number of facts around a question's entity.
        hops: the maximum number of facts on the path to an answer.
        question_length: L, the length of the longest question in training. A name
            counts as one word.
        min_score: the score below which an answer is flagged, by an
            `UntrainedInputWarning`.

    Raises:
        ValueError: a size is below 1, there are no relations, or `vocabulary` is not of
            that class.
    """

    _assets = WORDS_OF_STORIES | {
        "relations": ("relations.json", read_json, write_json)
    }

    def __init__(
        self,
        vocabulary: babi.Vocabulary,
        relations: Sequence[str],
        memory_size: int,
        hops: int,
        question_length: int,
        min_score: float = 0.0,
    ) -> None:
        self.vocabulary = check_story_vocabulary(vocabulary)
        self.relations = tuple(_relation(name) for name in relations)
        if not self.relations or len({*self.relations}) < len(self.relations):
            raise ValueError(
                "`relations` must be different names, at least one. "
                f"Received: relations={relations!r}"
            )
        self.memory_size = positive("memory_size", memory_size)
        self.hops = positive("hops", hops)
        self.question_length = positive("question_length", question_length)
        self.min_score = min_score

    def encode(self, sentences: Sequence[Any], question: str) -> dict[str, np.ndarray]:
        """Returns "question" (1, L), "keys" (1, M, 2) and "values" (1, M).

        Args:
            sentences: the facts. Of more than M facts around the question's entity,
                some are left out, with a `UserWarning`.
            question: the question; a question mark is not needed.

        Raises:
            ValueError: there are no facts, a fact is not three names or has an unknown
                relation; or the question names no entity of the facts or several, has
                more than L words, or words that the vocabulary lacks.
        """
        knowledge = self.knowledge(sentences)
        return self.vectorize(knowledge, [self._checked(knowledge, question)]).inputs

    def answer(self, model: Any, sentences: Any, question: str, **wanted: bool) -> Any:
        """Returns the names that the network finds, with ", " between several.

        All answers have at least a fifth of the probability of the likeliest one. They
        stand in the order of the facts. The score is the sum of their probabilities
        among the names in the memory. The attention has a column for each fact: the sum
        of its weights in both directions.
        """
        knowledge = self.knowledge(sentences)
        vectors = self.vectorize(knowledge, [self._checked(knowledge, question)])
        outputs, named = run(model, vectors.inputs), [*knowledge.entities, ""]
        (names,) = self.decode(outputs, vectors.entities, knowledge)
        entities = [named[n] for n in vectors.entities[0]]
        score = float(outputs[0][[name in names for name in entities]].sum())

        def attend() -> np.ndarray:
            weights = hops_of(model, vectors.inputs, outputs)  # (K, M)
            facts = [(a, _relation(b), c) for a, b, c in map(names_of, sentences)]
            hops = np.zeros((len(weights), len(facts)))
            keys, values = (vectors.inputs[name][0] for name in ("keys", "values"))
            for slot in np.flatnonzero(values):
                (start, number), count = keys[slot], len(self.relations)
                ends = [entities[start], entities[values[slot]]]
                first, last = ends if number <= count else ends[::-1]
                fact = first, self.relations[(number - 1) % count], last
                hops[:, facts.index(fact)] += weights[:, slot]
            return hops

        return packed(", ".join(names), score, attend, self.min_score, **wanted)

    def knowledge(self, sentences: Sequence[Any]) -> triples.KnowledgeBase:
        """Returns the knowledge base of facts.

        Raises:
            ValueError: there are no facts, or one is not three names or has an unknown
                relation.
        """
        check_lines(sentences, "fact")
        facts = []
        for i, fact in enumerate(sentences):
            names = names_of(fact)
            if len(names) != 3 or not all(names):
                raise ValueError(
                    f"`sentences[{i}]` must be a fact: a subject, a relation and an "
                    f"object with '|' between them. Received: sentences[{i}]={fact!r}"
                )
            subject, relation, target = names
            if _relation(relation) not in self.relations:
                raise ValueError(
                    f"The relation of `sentences[{i}]` must be one that the network "
                    f"has learned: {', '.join(self.relations)}. "
                    f"Received: {relation!r}"
                )
            facts.append(triples.Fact(subject, _relation(relation), target))
        return triples.KnowledgeBase(facts)

    def vectorize(
        self,
        knowledge: triples.KnowledgeBase,
        questions: Sequence[triples.Question],
        linker: EntityLinker | None = None,
    ) -> triples.Vectors:
        """Turns questions into arrays with the network's numbers of the relations.

        See `datasets.triples.vectorize`.
        """
        vectors = triples.vectorize(
            questions, knowledge, self.vocabulary, self.memory_size, self.hops, linker
        )
        keys, words = vectors.inputs["keys"].copy(), vectors.inputs["question"]
        keys[..., 1] = self._numbers(knowledge)[keys[..., 1]]
        missing = max(self.question_length - words.shape[1], 0)
        words = np.pad(words, [(0, 0), (0, missing)])
        return vectors._replace(
            inputs={**vectors.inputs, "keys": keys, "question": words}
        )

    def decode(
        self,
        probabilities: np.ndarray,
        entities: np.ndarray,
        knowledge: triples.KnowledgeBase,
    ) -> list[tuple[str, ...]]:
        """Returns the answers of each row of probabilities (N, M + 2).

        Args:
            probabilities: the network's outputs.
            entities: (N, M + 2), of `datasets.triples.Vectors`.
            knowledge: the knowledge base.
        """
        known = np.where(entities >= 0, probabilities, 0.0)
        likely = (known > 0) & (known >= SHARE * known.max(1, keepdims=True))
        return [
            tuple(knowledge.entities[entity] for entity in sorted(row[chosen].tolist()))
            for row, chosen in zip(entities, likely)
        ]

    def _numbers(self, knowledge: triples.KnowledgeBase) -> np.ndarray:
        """Returns the network's number of each relation of a knowledge base."""
        count = len(self.relations)
        names = knowledge.relations[1 : len(knowledge.relations) // 2 + 1]
        numbers = [1 + self.relations.index(name) for name in names]
        return np.array([0, *numbers, *(count + n for n in numbers)], np.int32)

    def _checked(
        self, knowledge: triples.KnowledgeBase, question: Any
    ) -> triples.Question:
        if not isinstance(question, str) or not babi.tokenize(question):
            raise ValueError(
                "`question` must be a text with at least one word. "
                f"Received: question={question!r}"
            )
        longest = max(len(name.split()) for name in knowledge.entities)
        words = len(question.split())
        if words > self.question_length + longest:
            raise ValueError(
                f"`question` must have at most {self.question_length} words, and a "
                f"name of the facts. Received: {words} words"
            )
        linker = EntityLinker(knowledge.entities)
        try:
            link = linker.link(question)
        except UnknownEntityError as error:
            raise type(error)(
                f"`question` must name one entity of the facts. {error}",
                error.candidates,
            ) from error
        if len(link.words) > self.question_length:
            raise ValueError(
                f"`question` must have at most {self.question_length} words, where a "
                f"name counts as one. Received: {len(link.words)} words"
            )
        unknown = self.vocabulary.unknown_words(link.words)
        if unknown:
            raise ValueError(
                f"Apart from a name, here {link.entity!r}, `question` must consist of "
                "words that the network has learned; "
                "`model.preprocessor.vocabulary.words` lists them. "
                f"Received: {', '.join(map(repr, unknown))}"
            )
        return triples.Question(question)
