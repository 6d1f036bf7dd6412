"""The forms of the questions in training, and how other questions differ from them."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from keras_attention.datasets.babi.archive import Example


def question_forms(examples: Iterable[Example]) -> list[dict[str, Any]]:
    """Finds the forms of questions, such as "where is" and a name.

    Words that alone distinguish two questions are of one class. Questions whose words
    have the same classes have one form.

    Args:
        examples: Training questions, of one task or of several.

    Returns:
        A list of forms, which JSON can hold. "words" has the words of each position,
        "in_story" the positions with several words, of which each story had the one
        that was asked about, and "sentences" the length of the longest story.

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
    classes: dict[str, set[str]] = {}
    for words in words_between.values():
        merged = words.union(*(classes.get(word, ()) for word in words))
        classes.update(dict.fromkeys(merged, merged))
    groups: dict[tuple[str, ...], list[Example]] = defaultdict(list)
    for example in examples:
        groups[tuple(min(classes[word]) for word in example.question)].append(example)
    forms = []
    for _, group in sorted(groups.items()):
        words_of = [sorted({*words}) for words in zip(*(e.question for e in group))]
        stories = [{*itertools.chain(*example.story)} for example in group]
        in_story = [
            i
            for i, words in enumerate(words_of)
            if len(words) > 1
            and all(e.question[i] in story for e, story in zip(group, stories))
        ]
        forms.append(
            {
                "words": words_of,
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
    told = {*itertools.chain(*story)}
    missing = [
        [asked[i] for i in form["in_story"] if asked[i] not in told] for form in alike
    ]
    found = []
    if all(missing):
        found.append(
            f"The story does not mention {' and '.join(min(missing, key=len))}."
        )
    longest = max(form["sentences"] for form in alike)
    if len(story) > longest:
        found.append(
            f"The story has {len(story)} sentences. In training, a story with such a "
            f"question had at most {longest}."
        )
    return found
