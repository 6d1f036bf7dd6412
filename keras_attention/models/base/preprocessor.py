"""The base class of preprocessors: strings to a model's inputs, outputs to strings."""

from __future__ import annotations

import abc
import pathlib
from typing import Any, Self

import keras

from keras_attention.layers.base.recording import is_recording


class Preprocessor(abc.ABC):
    """Stands between a model and the strings of its users.

    A model holds its preprocessor in `model.preprocessor`, and `save_to_preset` saves
    both. A subclass has a method for each string method of its models, with the model
    as the first argument: `answer(model, sentences, question)`, `translate(model,
    texts)`, and so on.

    A subclass is registered by `keras.saving.register_keras_serializable`, as layers
    are, so that `from_preset` finds it.
    """

    @property
    def model_sizes(self) -> dict[str, int]:
        """Sizes that the model must have, by the name of its argument."""
        return {}

    def check(self, model: Any) -> None:
        """Raises a ValueError if the model does not fit, according to `model_sizes`."""
        for name, size in self.model_sizes.items():
            value = getattr(model, name, None)
            if value != size:
                raise ValueError(
                    f"`model.preprocessor` must fit the model: a "
                    f"{type(self).__name__} with these vocabularies and classes needs "
                    f"{name}={size}. Received: a {type(model).__name__} with "
                    f"{name}={value}"
                )

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


def run(model: Any, inputs: Any) -> Any:
    """Runs a model on one batch, compiled where the backend compiles.

    On JAX, the first call takes 1.4 s instead of the 6.6 s of single operations, for
    the network of 20 bAbI tasks. Inside `record_attention`, the call is not compiled,
    so that the attention can be recorded.

    Returns:
        The outputs, as NumPy arrays.
    """
    if is_recording():
        outputs = model(inputs, training=False)
        return keras.tree.map_structure(keras.ops.convert_to_numpy, outputs)
    return model.predict_on_batch(inputs)
