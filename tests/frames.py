"""How many functions of the package one eager call passes through."""

import pathlib
import sys
from inspect import CO_GENERATOR

import keras_attention

PACKAGE = str(pathlib.Path(keras_attention.__file__).parent)
INLINE = ("<lambda>", "<listcomp>", "<genexpr>", "<dictcomp>", "<setcomp>")


def frames(call):
    """The functions of the package that a call enters, in order.

    Comprehensions, lambdas and generators are not counted. A first call is not counted
    either: it builds and imports.
    """
    call()
    found = []

    def enter(frame, event, argument):
        code = frame.f_code
        if event != "call" or not code.co_filename.startswith(PACKAGE):
            return
        if code.co_name not in INLINE and not code.co_flags & CO_GENERATOR:
            found.append(f"{code.co_filename[len(PACKAGE) + 1 :]}:{code.co_name}")

    sys.setprofile(enter)
    try:
        call()
    finally:
        sys.setprofile(None)
    return found
