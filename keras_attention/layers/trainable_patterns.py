"""What layers share whose queries, or whose patterns, are weights of their own."""

from __future__ import annotations

from typing import Any

import keras

from keras_attention.layers.arguments import hand_down, policy_config, positive
from keras_attention.layers.hopfield import Hopfield

Tensor = Any


class TrainablePatterns(keras.layers.Layer):
    """A `Hopfield` that is held, and vectors that are learned. Abstract.

    Args:
        quantity: how many vectors there are.
        arguments: of the `Hopfield`, by name.
        **kwargs: of the layer.
    """

    def __init__(self, quantity: int, arguments: dict[str, Any], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True
        self.quantity = positive("quantity", quantity)
        self.hopfield = Hopfield(**arguments, dtype=self.dtype_policy, name="hopfield")
        self._arguments = sorted(arguments)
        for name in arguments:
            setattr(self, name, getattr(self.hopfield, name))
        hand_down(self, self.hopfield)

    def _add_patterns(self, name: str, width: int) -> Any:
        """Vectors (quantity, D) of length 1 or so."""
        drawn = keras.initializers.RandomNormal(stddev=width**-0.5)
        return self.add_weight((self.quantity, width), drawn, name=name)

    def _close_build(self) -> None:
        self.built = True
        layer: Any = self
        if not layer.trainable:
            # What was made since that was said is not, either. On TensorFlow nothing
            # happens where an attribute is set to what it is.
            layer.trainable = True
            layer.trainable = False

    def get_config(self) -> dict[str, Any]:
        config = self.hopfield.get_config()
        return {
            **super().get_config(),
            "dtype": policy_config(self),
            "quantity": self.quantity,
            **{name: config[name] for name in self._arguments},
        }


def check_rank(name: str, shape: Any, *ranks: int) -> tuple:
    """Returns a shape as a tuple, or raises a ValueError if it is of another rank."""
    shape = tuple(shape)
    if len(shape) not in ranks:
        wanted = " or ".join(
            {2: "(batch, width)", 3: "(batch, length, width)"}[rank] for rank in ranks
        )
        raise ValueError(
            f"`{name}` must have shape {wanted}. Received: {name}.shape={shape}"
        )
    return shape
