"""A check of arguments with a few allowed values."""

from collections.abc import Iterable


def check_choice(
    name: str, value: object, choices: Iterable[object], rule: str = ""
) -> None:
    """Raises a ValueError unless `value` is one of the choices.

    The message says `rule`, or lists the choices.
    """
    choices = list(choices)  # unlike a dict, it compares unhashable values
    if value not in choices:
        *others, last = map(repr, choices)
        rule = rule or (f"{', '.join(others)} or {last}" if others else last)
        raise ValueError(f"`{name}` must be {rule}. Received: {name}={value!r}")
