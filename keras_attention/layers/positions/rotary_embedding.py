"""Rotary position embedding of queries and keys.

Shapes: B batch, T queries, S keys, H heads, E width of a head, D width.
"""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
from keras import ops

from keras_attention.layers.base.arguments import check_shape, number, positive
from keras_attention.layers.base.serialization import export
from keras_attention.layers.positions.position import Position
from keras_attention.numerics import masks
from keras_attention.ops import positions

Tensor = Any


@export
class RotaryEmbedding(Position):
    """Rotates queries and keys, so that scores depend on relative positions.

    Args:
        max_wavelength: m; pair i rotates by the angle m^(−2i/E) per position.
        scaling: "linear" divides every rate by `factor`. "yarn" keeps the fast rates
            and slightly increases the scores.
        factor: the ratio of the target length to the training length.
        original_length: the training length, for "yarn".
        fast: for "yarn"; pairs that make more than `fast` rotations within
            `original_length` keep their rates.
        slow: for "yarn"; the rates of pairs that make fewer than `slow` rotations are
            divided by `factor`.
        interleaved: True pairs neighbouring entries, as in the paper. False pairs entry
            i with entry i + E/2, as in most published weights.

    Call arguments:
        inputs: queries or keys (B, T, H, E), or (B, T, E).
        start: the position of the first input, for step-by-step decoding.

    Returns:
        A tensor with the shape of the inputs, in the compute dtype. The angles are
        computed in float32.

    Raises:
        ValueError: for an odd width, an unknown scaling, or arguments out of range.

    Example:

    >>> import numpy as np
    >>> from keras_attention.layers import RotaryEmbedding
    >>> x = np.ones((1, 3, 2, 4), "float32")
    >>> y = np.asarray(RotaryEmbedding()(x))
    >>> bool((y[:, 0] == 1).all()), y.shape
    (True, (1, 3, 2, 4))

    Reference:
        Su et al., "RoFormer" (2021); Chen et al., "Extending context window of large
        language models via positional interpolation" (2023); Peng et al., "YaRN"
        (2023).
    """

    float_inputs = ("inputs",)

    def __init__(
        self,
        max_wavelength: float = 1e4,
        scaling: str = "linear",
        factor: float = 1.0,
        original_length: int = 4096,
        fast: float = 32.0,
        slow: float = 1.0,
        interleaved: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if scaling not in ("linear", "yarn"):
            raise ValueError(
                f'`scaling` must be "linear" or "yarn". Received: scaling={scaling!r}'
            )
        if not 0 < number("slow", slow) < number("fast", fast):
            raise ValueError(
                "`slow` must be positive and less than `fast`. "
                f"Received: slow={slow}, fast={fast}"
            )
        self.max_wavelength = number("max_wavelength", max_wavelength, above=1)
        self.scaling = scaling
        self.factor = number("factor", factor, least=1)
        self.original_length = positive("original_length", original_length)
        self.fast = fast
        self.slow = slow
        self.interleaved = interleaved

    def build_for(self, heads: int, width: int) -> None:
        super().build_for(heads, width)
        self.check_same_size("key_dim", 2 * len(self._rates), width)

    def build(self, inputs_shape: Any) -> None:
        self._rates = self._rates_of(inputs_shape[-1])
        self.built = True

    def call(self, inputs: Tensor, start: Any = 0) -> Tensor:
        forms = "(batch, length, heads, width)", "(batch, length, width)"
        check_shape("inputs", inputs.shape, *forms)
        if inputs.shape[-1] != 2 * len(self._rates):
            raise ValueError(
                f"`inputs` must have width {2 * len(self._rates)} (last axis), for "
                f"which layer {self.name!r} was built. "
                f"Received: inputs.shape={tuple(inputs.shape)}"
            )
        position = masks.positions(ops.shape(inputs)[1], start)
        if len(inputs.shape) == 4:
            return self.rotate(inputs, position)
        return ops.squeeze(self.rotate(ops.expand_dims(inputs, 2), position), axis=2)

    def compute_output_spec(self, inputs: Tensor, start: Any = 0) -> Any:
        return keras.KerasTensor(inputs.shape, self.compute_dtype)

    def rotate(self, x: Tensor, position: Tensor) -> Tensor:
        yarn = self.scaling == "yarn"
        amplitude = 0.1 * np.log(self.factor) + 1 if yarn else 1.0
        turned = positions.rotate(
            x, position, self._rates, float(amplitude), self.interleaved
        )
        return ops.cast(turned, self.compute_dtype)

    def _rates_of(self, width: int) -> np.ndarray:
        if self.scaling == "linear":
            return positions.rotary_rates(width, self.max_wavelength, self.factor)
        return positions.yarn_rates(
            width,
            self.max_wavelength,
            self.factor,
            self.original_length,
            self.fast,
            self.slow,
        )
