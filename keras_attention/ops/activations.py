"""Activations that Keras does not name.

Shapes: any.
"""

from __future__ import annotations

from typing import Any

import keras

Tensor = Any


@keras.saving.register_keras_serializable("keras_attention")
def gelu_approximate(x: Tensor) -> Tensor:
    """Computes the tanh approximation of GELU, the activation of GPT-2.

        x/2 · (1 + tanh(√(2/π) (x + 0.044715 x³)))

    It differs from GELU, "gelu" in Keras, by at most 0.0005. It can be the activation
    of any layer or block, and is saved with it.

    Args:
        x: a tensor of floats.

    Returns:
        A tensor of the shape and dtype of x.

    Example:

    >>> import numpy as np
    >>> from keras_attention.ops.activations import gelu_approximate
    >>> x = np.array([-1.0, 0.0, 1.0], "float32")
    >>> [round(float(y), 4) for y in gelu_approximate(x)]
    [-0.1588, 0.0, 0.8412]

    Reference:
        Hendrycks & Gimpel, "Gaussian error linear units" (2016), section 2.
    """
    return keras.activations.gelu(x, approximate=True)
