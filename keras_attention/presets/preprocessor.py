"""The base class of preprocessors: strings to a model's inputs, outputs to strings."""

from __future__ import annotations

import abc
import pathlib
from typing import Any, Self


class Preprocessor(abc.ABC):
    """Stands between a model and the strings of its users.

    A model holds its preprocessor in `model.preprocessor`, and `save_to_preset` saves
    both. A subclass has a method for each string method of its models, with the model
    as the first argument: `answer(model, sentences, question)`, `translate(model,
    texts)`, and so on.

    A subclass is registered by `keras.saving.register_keras_serializable`, as layers
    are, so that `from_preset` finds it.
    """

    @abc.abstractmethod
    def get_config(self) -> dict[str, Any]:
        """Returns the arguments that JSON can hold, for `from_assets`."""

    @abc.abstractmethod
    def save_assets(self, folder: pathlib.Path) -> None:
        """Writes files, such as a vocabulary, into a folder that exists."""

    @classmethod
    @abc.abstractmethod
    def from_assets(cls, folder: pathlib.Path, config: dict[str, Any]) -> Self:
        """Makes the preprocessor from what `save_assets` and `get_config` gave.

        Raises:
            ValueError: a file is damaged. The message names it.
        """
