"""The base class of preprocessors: strings to a model's inputs, outputs to strings."""

from __future__ import annotations

import inspect
import pathlib
from collections.abc import Callable
from typing import Any, ClassVar, Self

import keras

from keras_attention.layers.base.recording import is_recording


class Preprocessor:
    """Stands between a model and the strings of its users.

    A model holds its preprocessor in `model.preprocessor`, and `save_to_preset` saves
    both. A subclass has a method for each string method of its models, with the model
    as the first argument: `answer(model, sentences, question)`, `translate(model,
    texts)`, and so on.

    A subclass is registered by `keras.saving.register_keras_serializable`, as layers
    are, so that `from_preset` finds it.
    """

    # The file, the reader and the writer of each argument that is an asset.
    _assets: ClassVar[dict[str, tuple[str, Callable, Callable]]] = {}

    @property
    def model_sizes(self) -> dict[str, int]:
        """Sizes that the model must have, by the name of its argument."""
        names = [name for name in self._assets if name.endswith("vocabulary")]
        return {f"{name}_size": len(getattr(self, name)) for name in names}

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

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments that JSON can hold, for `from_assets`."""
        names = inspect.signature(type(self)).parameters
        return {n: getattr(self, n) for n in names if n not in self._assets}

    def save_assets(self, folder: pathlib.Path) -> None:
        """Writes files, such as a vocabulary, into a folder that exists."""
        for name, (file, _, save) in self._assets.items():
            save(getattr(self, name), folder / file)

    @classmethod
    def from_assets(cls, folder: pathlib.Path, config: dict[str, Any]) -> Self:
        """Makes the preprocessor from what `save_assets` and `get_config` gave.

        Raises:
            ValueError: a file is damaged. The message names it.
        """
        assets = {k: load(folder / file) for k, (file, load, _) in cls._assets.items()}
        return cls(**assets, **config)


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
