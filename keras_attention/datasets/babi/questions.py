"""The forms of the questions in training, and how other questions differ from them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from keras_attention.datasets.babi.archive import Example


def question_forms(examples: Iterable[Example]) -> list[dict[str, Any]]:
    """Finds the forms of questions, such as "where is" and a name.

    A word of a question is free if another question differs from it in this word alone.
    Questions with the same other words have one form.

    Args:
        examples: Training questions, of one task or of several.

    Returns:
        A list of forms, which JSON can hold. "words" has the words of each position,
        "in_story" the free positions whose word the story always had, and "sentences"
        the length of the longest story.

    Example:
        ```python
        babi.question_forms(babi.load(1))
        # [{'words': [['where'], ['is'], ['daniel', 'john', …]], 'in_story': [2],
        #   'sentences': 10}]
        ```
    """
    examples = list(examples)
    words_between: dict[Any, set[str]] = defaultdict(set)
    for question in {example.question for example in examples}:
        for i, word in enumerate(question):
            words_between[question[:i], question[i + 1 :]].add(word)
    groups: dict[tuple, list[Example]] = defaultdict(list)
    for example in examples:
        asked = example.question
        is_free = [
            len(words_between[asked[:i], asked[i + 1 :]]) > 1 for i in range(len(asked))
        ]
        groups[tuple("" if f else w for f, w in zip(is_free, asked))].append(example)
    forms = []
    for fixed, group in sorted(groups.items()):
        stories = [{w for s in example.story for w in s} for example in group]
        in_story = [
            i
            for i, word in enumerate(fixed)
            if not word
            and all(e.question[i] in story for e, story in zip(group, stories))
        ]
        forms.append(
            {
                "words": [sorted({*w}) for w in zip(*(e.question for e in group))],
                "in_story": in_story,
                "sentences": max(len(example.story) for example in group),
            }
        )
    return forms


def differences(example: Example, forms: Sequence[dict[str, Any]]) -> list[str]:
    """Returns a sentence for each difference of a question from those of training.

    Args:
        example: The question and its story.
        forms: The `question_forms` of the training questions.
    """
    asked, story = example.question, example.story
    alike = [
        form
        for form in forms
        if len(form["words"]) == len(asked)
        and all(word in known for word, known in zip(asked, form["words"]))
    ]
    if not alike:
        question = " ".join(asked).replace("_", " ")
        return [f"Training had no question of this form: {question}?"]
    told = {word for sentence in story for word in sentence}
    missing = [
        [asked[i] for i in form["in_story"] if asked[i] not in told] for form in alike
    ]
    found = []
    if all(missing):
        found.append(f"The story does not mention {' and '.join(min(missing, key=len))}.")
    longest = max(form["sentences"] for form in alike)
    if len(story) > longest:
        found.append(
            f"The story has {len(story)} sentences. In training, a story with such a "
            f"question had at most {longest}."
        )
    return found
