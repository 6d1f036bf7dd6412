"""Checks that a layer can be used as another layer wants to use it."""

from __future__ import annotations

from typing import Any


def check_learns_by_output(attention: Any, name: str = "attention") -> None:
    """Raises a ValueError if an attention layer learns only by its returned weights.

    Models that do not use these weights call this function.

    Args:
        attention: an attention layer, as returned by `as_attention`.
        name: the name of the argument, for the error message.
    """
    if attention.learns_by_weights:
        raise ValueError(
            f"`{name}` must learn by its output. Layer {attention.name!r} learns by "
            "the weights that it returns, if they reach a `CarryChoices`. Here they do "
            f"not, so it would never learn. Received: {name}={attention!r}"
        )
