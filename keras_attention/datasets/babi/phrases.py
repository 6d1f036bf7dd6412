"""Finds phrases that act as one word, such as "red square", and joins them.

A phrase acts as one word if it stands where some single word stands: "the red square is
above the triangle" and "the pink rectangle is above the triangle" put *red square* and
*pink rectangle* in the place of one noun. Joined to one word, phrases can be exchanged
like other words, see `interchangeable`.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections import defaultdict
from collections.abc import Iterator, Sequence

from keras_attention.datasets.babi.archive import Example

LONGEST = 4  # maximum number of words per phrase
_ALIKE = 0.3  # minimum share of a phrase's contexts that also occur with the other
_LEAST = 5  # minimum number of contexts of a phrase
_JOINT = "_"  # stands between the words of a joined phrase
_ASKED = "?"  # last word of questions; a fact and a question share no context

Words = tuple[str, ...]
Contexts = dict[Words, set[tuple[Words, Words]]]


def find_phrases(examples: Sequence[Example]) -> tuple[Words, ...]:
    """Finds phrases that stand in the same contexts as a word or another phrase.

    The context of a phrase is the rest of its sentence or question. Two phrases are
    compared if they differ in their first and in their last word; words with the same
    contexts count as equal here. *John moved* and *Mary travelled* differ in single
    words only, so neither becomes a phrase. The shortest phrases are found first.

    Args:
        examples: Questions of one task.

    Returns:
        The phrases, each a tuple of two to four words, in the order in which they were
        found.

    Example:
        ```python
        babi.find_phrases(babi.load(17))
        # (('red', 'square'), ('pink', 'rectangle'), …, ('to', 'the', 'left', 'of'), …)
        ```
    """
    sentences = {fact for example in examples for fact in example.story}
    sentences |= {(*example.question, _ASKED) for example in examples}
    by_name: dict[str, Words] = {}  # by the joined phrase
    while (phrase := _next_phrase(sentences)) is not None:
        # A part of the phrase may be a joined phrase, too.
        words = [word for part in phrase for word in by_name.get(part, (part,))]
        by_name[_JOINT.join(phrase)] = tuple(words)
        sentences = {_joined(sentence, [phrase]) for sentence in sentences}
    return tuple(by_name.values())


def needed_phrases(
    phrases: Sequence[Words], groups: Sequence[Sequence[str]]
) -> tuple[Words, ...]:
    """Selects the phrases that an exchange of single words cannot replace.

    Some member of their group has another first word, and some has another last word.
    """
    needed = set()
    by_name = {_JOINT.join(phrase): phrase for phrase in phrases}
    for group in groups:
        split = [by_name.get(word, (word,)) for word in group]
        for phrase in split:
            first = any(phrase[0] != other[0] for other in split)
            if len(phrase) > 1 and first and any(phrase[-1] != o[-1] for o in split):
                needed.add(phrase)
    return tuple(phrase for phrase in phrases if phrase in needed)


def join_phrases(
    examples: Sequence[Example], phrases: Sequence[Words]
) -> list[Example]:
    """Joins each phrase to one word, such as `"red_square"`.

    Long phrases are joined first, in facts and questions. Answers stay.

    Args:
        examples: Questions.
        phrases: Phrases; see `find_phrases`.
    """
    phrases = sorted(phrases, key=len, reverse=True)
    return [
        dataclasses.replace(
            example,
            story=tuple(_joined(fact, phrases) for fact in example.story),
            question=_joined(example.question, phrases),
        )
        for example in examples
    ]


def _next_phrase(sentences: set[Words]) -> Words | None:
    contexts = _contexts(sentences)
    word_class = _classes(contexts)
    by_length: dict[int, list[Words]] = defaultdict(list)
    for words, its_contexts in contexts.items():
        if len(its_contexts) >= _LEAST:
            by_length[len(words)].append(words)
    for total in range(3, 2 * LONGEST + 1):
        best: tuple[int, Words] | None = None
        for short, other in _pairs(by_length, total):
            if word_class.get(short[0]) == word_class.get(other[0]) or word_class.get(
                short[-1]
            ) == word_class.get(other[-1]):
                continue
            shared = len(contexts[short] & contexts[other])
            if shared < _ALIKE * min(len(contexts[short]), len(contexts[other])):
                continue
            if shared >= _LEAST and (best is None or (shared, other) > best):
                best = shared, other
        if best is not None:
            return best[1]
    return None


def _pairs(
    by_length: dict[int, list[Words]], total: int
) -> Iterator[tuple[Words, Words]]:
    """Yields pairs with `total` words, the longer one last and at least two words."""
    for long in range(max(2, (total + 1) // 2), LONGEST + 1):
        if total - long == long:
            yield from itertools.permutations(by_length[long], 2)
        elif total - long > 0:
            yield from itertools.product(by_length[total - long], by_length[long])


def _contexts(sentences: set[Words]) -> Contexts:
    contexts: Contexts = defaultdict(set)
    for sentence in sentences:
        for start in range(len(sentence)):
            for end in range(start + 1, min(start + LONGEST, len(sentence)) + 1):
                if end - start < len(sentence):
                    context = sentence[:start], sentence[end:]
                    contexts[sentence[start:end]].add(context)
    return contexts


def _classes(contexts: Contexts) -> dict[str, int]:
    """Numbers the words; words with shared contexts get the same number."""
    words = sorted(words[0] for words in contexts if len(words) == 1)
    number = {word: n for n, word in enumerate(words)}
    for first, other in itertools.combinations(words, 2):
        mine, theirs = contexts[first,], contexts[other,]
        if len(mine & theirs) >= _ALIKE * min(len(mine), len(theirs)):
            old, new = number[other], number[first]
            number = {word: new if n == old else n for word, n in number.items()}
    return number


def _joined(sentence: Words, phrases: Sequence[Words]) -> Words:
    for phrase in phrases:
        size, at, joined = len(phrase), 0, []
        while at < len(sentence):
            if sentence[at : at + size] == phrase:
                joined.append(_JOINT.join(phrase))
                at += size
            else:
                joined.append(sentence[at])
                at += 1
        sentence = tuple(joined)
    return sentence
