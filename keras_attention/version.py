"""The version, and nothing else: the build reads it from here."""

__version__ = "0.1.0"
