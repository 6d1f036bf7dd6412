"""Sentences to words without marks."""


def tokenize(text: str) -> tuple[str, ...]:
    """Splits a sentence at white space into lower-case words.

    Leading and trailing `. ? ! ,` are removed. Marks inside a word stay, so
    `"apple,milk"` is one word.

    Example:
        ```python
        tokenize("Where is Mary?")  # ("where", "is", "mary")
        ```
    """
    words = (word.strip(".?!,") for word in text.lower().split())
    return tuple(word for word in words if word)
