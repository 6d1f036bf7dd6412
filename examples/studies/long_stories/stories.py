"""bAbI stories whose facts are scattered among the sentences of another text.

As in BABILong (Kuratov et al. 2024), the facts keep their order, and the question
stands at the end. A story has an exact number of tokens: its words, and a full stop
after each sentence. Distractors are single sentences in random order, without the names
of bAbI's people: none of them contradicts a fact.

Shapes: S sentences, L words of a sentence, T tokens, K supporting facts.
"""

from __future__ import annotations

import collections
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from keras_attention.datasets import babi, translation

TASKS = (1, 2, 3, 4, 5)
WORDS = 12  # the most words of a sentence and of a question
VOCABULARY = 1000  # padding and unknown words included
STOP, ASK = ".", "?"
MOST = 480  # tokens of all facts of a story: fewer than half of the shortest test
Sentences = Sequence[Sequence[str]]


class Story(NamedTuple):
    """A story and its question.

    Attributes:
        sentences: uint16 (S, L), 0 is padding.
        question: uint16 (L,).
        answer: the answer's word.
        supports: int64 (K,), the sentences that prove the answer.
    """

    sentences: np.ndarray
    question: np.ndarray
    answer: int
    supports: np.ndarray


def real_text() -> tuple[Sentences, Sentences]:
    """Returns the English sentences of Tatoeba: half for training, half for tests.

    Raises:
        DataNotFoundError: Tatoeba cannot be found.
    """
    pairs = translation.load("tatoeba", "all", source="en")
    texts = sorted({pair.source for pair in pairs})
    words = [[w for w in translation.tokenize(t) if w[0].isalpha()] for t in texts]
    order = np.random.default_rng(0).permutation(len(words))
    parts = np.split(order, 2 * [len(order) // 2])[::2]
    train, test = ([words[n] for n in part] for part in parts)
    return train, test


def made_text() -> tuple[Sentences, Sentences]:
    """Returns sentences of made-up words, with frequencies by Zipf's law."""
    rng = np.random.default_rng(0)
    shares = 1 / np.arange(1, 5001)
    lengths = rng.integers(3, WORDS, 40_000)
    words = rng.choice(5000, lengths.sum(), p=shares / shares.sum())
    texts = [[f"w{w}" for w in t] for t in np.split(words, lengths.cumsum()[:-1])]
    return texts[::2], texts[1::2]


TEXTS = {"tatoeba": real_text, "made": made_text}


def vocabulary_of(text: Sentences) -> babi.Vocabulary:
    """Returns all words of the tasks, and the most frequent ones of a text."""
    known = [STOP, ASK]
    for task in TASKS:
        examples = babi.simulate(task, 500, seed=0)
        known += babi.Vocabulary.from_examples(examples).words[2:]
    counts = collections.Counter(word for sentence in text for word in sentence)
    frequent = [word for word, _ in counts.most_common(2 * VOCABULARY)]
    return babi.Vocabulary([*dict.fromkeys(known + frequent)][: VOCABULARY - 2])


class Text:
    """Sentences that stand between the facts.

    Args:
        sentences: words. Those that are too long, or name a person of bAbI, are left
            out.
        vocabulary: the vocabulary.
    """

    def __init__(self, sentences: Sentences, vocabulary: babi.Vocabulary) -> None:
        names = people()
        usable = [
            sentence
            for sentence in sentences
            if 0 < len(sentence) < WORDS and names.isdisjoint(sentence)
        ]
        self.sentences = np.stack([encoded(s, vocabulary) for s in usable])  # (N, L)
        self.tokens = (self.sentences > 0).sum(1) + 1  # (N,)

    def sample(self, tokens: int, rng: np.random.Generator) -> np.ndarray:
        """Samples sentences (S, L) with so many tokens; the last one may be cut."""
        count = int(1.2 * tokens / self.tokens.mean()) + 20
        rows = rng.integers(len(self.sentences), size=count)
        total = self.tokens[rows].cumsum()
        last = int(np.searchsorted(total, tokens))
        sentences = self.sentences[rows[: last + 1]]
        left = self.tokens[rows[last]] - 1 - (total[last] - tokens)
        sentences[-1, left:] = 0
        return sentences


def people() -> set[str]:
    """Returns the names of bAbI's people."""
    examples = [e for task in (1, 5) for e in babi.simulate(task, 100, seed=0)]
    return {fact[0] for example in examples for fact in example.story}


def encoded(words: Sequence[str], vocabulary: babi.Vocabulary) -> np.ndarray:
    """Returns the integers of a sentence, uint16 (L,)."""
    row = np.zeros(WORDS, "uint16")
    row[: len(words)] = vocabulary.encode(words)
    return row


class Stories:
    """Questions of one task, to be told among the sentences of a text.

    Args:
        task: the number of the task.
        text: the sentences between the facts.
        vocabulary: the vocabulary.
        count: the number of questions.
        seed: the seed of the questions.
    """

    def __init__(
        self,
        task: int,
        text: Text,
        vocabulary: babi.Vocabulary,
        count: int,
        seed: Sequence[int],
    ) -> None:
        self.text = text
        self.told = []
        rows: dict[tuple[str, ...], np.ndarray] = {}  # equal sentences share a row
        for example in babi.simulate(task, count, seed):
            for words in example.story:
                rows.setdefault(words, encoded(words, vocabulary))
            facts = np.stack([rows[words] for words in example.story])
            question = encoded(example.question, vocabulary)
            (answer,) = vocabulary.encode([example.answer or ""])
            supports = np.array(example.supporting_facts)
            self.told.append(Story(facts, question, answer, supports))
        self.tokens = np.array([(s.sentences > 0).sum() for s in self.told])
        self.tokens += [len(s.sentences) for s in self.told]

    def fitting(self, length: int) -> np.ndarray:
        """Returns the questions whose facts fill at most half of a length."""
        return np.flatnonzero(self.tokens <= min(length // 2, MOST))

    def story(self, index: int, length: int, rng: np.random.Generator) -> Story:
        """Scatters the facts of a question in a story of `length` tokens."""
        facts, question, answer, supports = self.told[index]
        between = self.text.sample(length - int(self.tokens[index]), rng)
        size = len(facts) + len(between)
        where = np.sort(rng.choice(size, len(facts), replace=False))
        sentences = np.empty((size, WORDS), "uint16")
        is_fact = np.zeros(size, bool)
        is_fact[where] = True
        sentences[is_fact], sentences[~is_fact] = facts, between
        return Story(sentences, question, answer, where[supports])

    def sample(self, length: int, count: int, seed: Sequence[int]) -> Iterator[Story]:
        """Yields stories of `length` tokens, one after the other."""
        rng = np.random.default_rng(seed)
        fitting = self.fitting(length)
        for _ in range(count):
            yield self.story(int(rng.choice(fitting)), length, rng)


def tokens_of(story: Story, vocabulary: babi.Vocabulary) -> np.ndarray:
    """Returns the story and its question as tokens, int32 (T + L + 1,).

    Full stops fill the space before a short question, so its mark is the last token.
    """
    stop, ask = vocabulary.encode([STOP, ASK])
    text = np.pad(story.sentences, ((0, 0), (0, 1)))  # (S, L + 1)
    text[np.arange(len(text)), (text > 0).sum(1)] = stop
    words = story.question[story.question > 0]
    fill = np.full(WORDS - len(words), stop)
    return np.concatenate([text[text > 0], fill, words, [ask]]).astype("int32")
