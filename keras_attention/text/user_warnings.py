"""Warnings about what users give, at their own line."""

from __future__ import annotations

import os
import sys
import warnings
from typing import Any

_PACKAGE = os.path.join(os.path.dirname(os.path.dirname(__file__)), "")


class UntrainedInputWarning(UserWarning):
    """A network gets what its training did not have, so its answer may be wrong."""


def warn_user(message: str, category: type[Warning] = UserWarning) -> None:
    """Warns at the line outside of this package that called into it."""
    frame: Any = sys._getframe(1)
    level = 2
    while frame and frame.f_code.co_filename.startswith(_PACKAGE):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)
