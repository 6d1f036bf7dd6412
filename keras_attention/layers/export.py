"""How a public class becomes loadable: registered under the package's name."""

from collections.abc import Callable
from typing import TypeVar

import keras

T = TypeVar("T")


def export(cls: type[T]) -> type[T]:
    """Registers a class as `keras_attention>ClassName` in `.keras` files.

    The registered names are part of the file format: they never change.
    """
    register: Callable = keras.saving.register_keras_serializable("keras_attention")
    return register(cls)
