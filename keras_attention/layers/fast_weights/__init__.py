"""Fast weights as a layer: attention with a memory of constant size."""

from keras_attention.layers.fast_weights.fast_weight_attention import (
    FastWeightAttention,
)

__all__ = ["FastWeightAttention"]
