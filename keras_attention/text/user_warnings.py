"""Categories of warnings about texts."""


class UntrainedInputWarning(UserWarning):
    """A network gets what its training did not have, so its answer may be wrong."""
