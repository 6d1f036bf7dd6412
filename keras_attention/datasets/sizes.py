"""A check of sizes."""

from numbers import Integral


def check_size(name: str, size: int, least: int = 1) -> None:
    """Raises a ValueError unless a size is an integer of at least `least`."""
    whole = isinstance(size, Integral) and not isinstance(size, bool)
    if not whole or size < least:
        raise ValueError(
            f"`{name}` must be a whole number of at least {least}. "
            f"Received: {name}={size!r}"
        )
