"""A check of sizes."""

from numbers import Integral


def check_size(name: str, size: int) -> None:
    """Raises a ValueError unless a size is an integer of at least 1."""
    whole = isinstance(size, Integral) and not isinstance(size, bool)
    if not whole or size < 1:
        raise ValueError(
            f"`{name}` must be a whole number of at least 1. Received: {name}={size!r}"
        )
