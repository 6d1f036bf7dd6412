"""What a command raises when it was asked for something it cannot do."""


class UsageError(ValueError):
    """Shown as one line; the command then ends with status 2."""
