"""The forms of the questions in training, and how other questions differ from them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from itertools import chain
from typing import Any

from keras_attention.datasets.babi.archive import Example


def question_forms(examples: Iterable[Example]) -> list[dict[str, Any]]:
    """Finds the forms of training questions, such as "where is" and a name.

    Words that alone distinguish two questions are of one class. Questions whose words
    have the same classes have one form.

    Returns:
        A list of forms, which JSON can hold: the words of each position; the positions
        with several words, of which each story had the one in the question; and the
        length of the longest story.
    """
    examples = list(examples)
    between: dict[Any, set[str]] = defaultdict(set)
    for question in {example.question for example in examples}:
        for i, word in enumerate(question):
            between[question[:i], question[i + 1 :]].add(word)
    classes: dict[str, set[str]] = {}
    for alike in between.values():
        merged = alike.union(*(classes.get(word, ()) for word in alike))
        classes.update(dict.fromkeys(merged, merged))
    groups: dict[tuple[str, ...], list[Example]] = defaultdict(list)
    for example in examples:
        groups[tuple(min(classes[word]) for word in example.question)].append(example)
    forms = []
    for _, group in sorted(groups.items()):
        words = [sorted({*known}) for known in zip(*(e.question for e in group))]
        told = [(example.question, {*chain(*example.story)}) for example in group]
        in_story = [
            i
            for i, known in enumerate(words)
            if len(known) > 1 and all(question[i] in story for question, story in told)
        ]
        longest = max(len(example.story) for example in group)
        forms.append({"words": words, "in_story": in_story, "sentences": longest})
    return forms


def differences(example: Example, forms: Iterable[dict[str, Any]]) -> list[str]:
    """Returns how a question differs from those of training with these forms."""
    asked, told = example.question, {*chain(*example.story)}
    alike = [
        form
        for form in forms
        if len(form["words"]) == len(asked)
        and all(word in known for word, known in zip(asked, form["words"]))
    ]
    if not alike:
        question = " ".join(asked).replace("_", " ")
        return [f"Training had no question of this form: {question}?"]
    lacking = [
        [asked[i] for i in form["in_story"] if asked[i] not in told] for form in alike
    ]
    fewest = min(lacking, key=len)
    words = " and ".join(fewest).replace("_", " ")
    count, longest = len(example.story), max(form["sentences"] for form in alike)
    unlike = [f"The story does not mention {words}."] if words else []
    if count > longest:
        said = "In training, stories with such a question had at most"
        unlike.append(f"The story has {count} sentences. {said} {longest}.")
    return unlike
