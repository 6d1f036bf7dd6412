"""Errors of the benchmark commands."""


class UsageError(ValueError):
    """A usage error, printed as one line; the command ends with status 2."""
