"""The common parts of Transformer blocks: residuals, normalization and the MLP.

Shapes: B batch, T queries, D model width, F width inside the MLP.
"""

from __future__ import annotations

import abc
from typing import Any

import keras
from keras import ops

from keras_attention import kernels
from keras_attention.layers.base.adapter import as_attention
from keras_attention.layers.base.arguments import (
    check_shape,
    fraction,
    one_of,
    pass_on_policies,
    policy_of,
    positive,
)
from keras_attention.layers.base.checked import as_boolean, call_arguments
from keras_attention.layers.base.serialization import Configured, as_config
from keras_attention.layers.multi_head.multi_head_attention import MultiHeadAttention
from keras_attention.layers.transformer.attentions import (
    build_attention,
    check_arguments,
    check_num_heads,
    is_layer,
)
from keras_attention.numerics import masks

Tensor = Any
NORMALIZATIONS = {
    "layer": keras.layers.LayerNormalization,
    "rms": keras.layers.RMSNormalization,
}


class Block(Configured, keras.layers.Layer, abc.ABC):
    """Abstract base class of blocks: sublayers with residual connections.

        post-norm:  x ← norm(x + dropout(sublayer(x)))
        pre-norm:   x ← x + dropout(sublayer(norm(x)))

    The arguments are described in `TransformerEncoderBlock`.
    """

    float_inputs = ("inputs", "memory")

    def __init__(
        self,
        num_heads: int | None = None,
        intermediate_dim: int = 2048,
        dropout: float = 0.0,
        activation: Any = "relu",
        gated: bool = False,
        norm_first: bool = False,
        normalization: str = "layer",
        epsilon: float = 1e-5,
        attention: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True
        self.num_heads: Any = check_num_heads(num_heads, attention)
        self.intermediate_dim = positive("intermediate_dim", intermediate_dim)
        self.dropout = fraction("dropout", dropout)
        self.activation = keras.activations.get(activation)
        self.gated = gated
        self.norm_first = norm_first
        self.normalization = one_of("normalization", normalization, NORMALIZATIONS)
        self.epsilon = epsilon
        self.attention: Any = None  # a dict; None if a layer is given
        if is_layer(attention):
            self.self_attention = attention
        else:
            self.attention = check_arguments("attention", attention)
            # Raises errors for wrong arguments now, not when the block is built.
            self._multi_head("self_attention", 1, self.attention)
        self._dropout_layer = keras.layers.Dropout(dropout, dtype=self.dtype_policy)

    @abc.abstractmethod
    def call(self, inputs: Tensor, *args: Any, **kwargs: Any) -> Any:
        """Applies the sublayers of the block in order."""

    def _build_self_attention(self, inputs_shape: Any) -> tuple:
        """Builds the first sublayer, and returns the shape of the block's inputs."""
        shape = self._check_shape(inputs_shape)
        self._dim = shape[-1]
        if self.attention is not None:
            self.self_attention = self._multi_head(
                "self_attention", shape[-1], self.attention
            )
        build_attention("attention", self.self_attention, shape, shape)
        self.self_attention_norm = self._norm("self_attention_norm", shape)
        self._width = shape[-1]
        return shape

    def _build_feedforward(self, shape: tuple) -> None:
        """Builds the MLP: D → F → D."""
        self.feedforward_norm = self._norm("feedforward_norm", shape)
        inside = (*shape[:-1], self.intermediate_dim)
        self.feedforward_in = self._dense("feedforward_in", shape, inside[-1], True)
        self.feedforward_gate = None
        if self.gated:
            self.feedforward_gate = self._dense("feedforward_gate", shape, inside[-1])
        self.feedforward_out = self._dense("feedforward_out", inside, shape[-1])

    def _check_shape(self, shape: Any) -> tuple:
        """Checks the shape of the inputs against `num_heads`, and returns it."""
        form = "(batch, length, width)"
        shape = check_shape("inputs", shape, form, what="rank 3,")
        if self.attention is None or "key_dim" in self.attention:
            return shape
        if shape[-1] % self.num_heads:
            raise ValueError(
                "`num_heads` must divide the width of the inputs, unless `attention` "
                f"holds 'key_dim'. Received: num_heads={self.num_heads}, "
                f"inputs.shape={shape}"
            )
        return shape

    def _multi_head(
        self, name: str, width: int, arguments: dict[str, Any]
    ) -> MultiHeadAttention:
        """Returns a new attention layer for inputs of this width."""
        arguments = {"key_dim": max(1, width // self.num_heads), **arguments}
        attention = MultiHeadAttention(
            self.num_heads, **arguments, dtype=self.dtype_policy, name=name
        )
        pass_on_policies(self, attention)
        return attention

    def _norm(self, name: str, shape: tuple) -> keras.layers.Layer:
        norm = norm_like(self, name)
        norm.build(shape)
        return norm

    def _dense(
        self, name: str, shape: tuple, units: int, active: bool = False
    ) -> keras.layers.Dense:
        dense = keras.layers.Dense(
            units,
            activation=self.activation if active else None,
            dtype=policy_of(self, name),
            name=name,
        )
        dense.build(shape)
        return dense

    def _check_mask(self, name: str, mask: Any, inputs: Tensor) -> Tensor | None:
        """Checks the shape of a mask, and returns the mask as booleans."""
        return masks.check(name, as_boolean(name, mask), tuple(inputs.shape[:-1]))

    def _sublayer_input(self, norm: Any, x: Tensor) -> Tensor:
        """Returns the input of a sublayer: norm(x) in the pre-norm form, else x."""
        return kernels.normalize(norm, x) if self.norm_first else x

    def _add_residual(
        self, norm: Any, x: Tensor, output: Tensor, training: bool | None
    ) -> Tensor:
        """Adds a sublayer's output, of any dtype, to the residual x."""
        output = ops.cast(output, self.compute_dtype)
        x = x + self._dropout_layer(output, training=training)
        return x if self.norm_first else kernels.normalize(norm, x)

    def _attend_to_inputs(
        self,
        inputs: Tensor,
        mask: Tensor | None,
        attention_mask: Tensor | None,
        use_causal_mask: bool,
        return_weights: bool,
        training: bool | None,
    ) -> tuple[Tensor, Tensor | None]:
        """Returns self-attention with its residual (B, T, D), and weights or None."""
        width = inputs.shape[-1]
        if isinstance(width, int) and width != self._width:  # width 1 would broadcast
            raise ValueError(
                f"`inputs` must have width {self._width} (last axis), for which layer "
                f"{self.name!r} was built. Received: inputs.shape={tuple(inputs.shape)}"
            )
        read = self._sublayer_input(self.self_attention_norm, inputs)
        result = as_attention(self.self_attention)(
            read,
            read,
            query_mask=mask,
            value_mask=mask,
            attention_mask=attention_mask,
            return_attention_scores=return_weights,
            training=training,
            use_causal_mask=use_causal_mask,
        )
        output, weights = result if return_weights else (result, None)
        x = self._add_residual(self.self_attention_norm, inputs, output, training)
        return x, weights

    def _step_over_inputs(
        self, inputs: Tensor, cache: Any, index: Any, mask: Tensor | None
    ) -> tuple[Tensor, Any]:
        """Computes self-attention with its residual for new inputs, using a cache."""
        inputs = ops.cast(inputs, self.compute_dtype)
        read = self._sublayer_input(self.self_attention_norm, inputs)
        attention = as_attention(self.self_attention)
        output, cache = attention.step(read, cache, index, mask)
        x = self._add_residual(self.self_attention_norm, inputs, output, False)
        return x, cache

    def _feed_forward(self, x: Tensor, training: bool | None = None) -> Tensor:
        """Applies the MLP, W₂ f(W₁ x) or W₂ (f(W₁ x) ⊙ W₃ x), and its residual."""
        read = self._sublayer_input(self.feedforward_norm, x)
        inside = self.feedforward_in(read)  # (B, T, F)
        if self.feedforward_gate is not None:
            inside = inside * self.feedforward_gate(read)
        output = self.feedforward_out(inside)
        return self._add_residual(self.feedforward_norm, x, output, training)

    def compute_output_spec(self, *args: Any, **kwargs: Any) -> Any:
        call = call_arguments(self, args, kwargs)
        batch, length, _ = self._check_shape(call["inputs"].shape)
        output = keras.KerasTensor(call["inputs"].shape, self.compute_dtype)
        if not call.get("return_attention_scores"):
            return output
        weights = self._weights_spec("self_attention", batch, length, length)
        if "memory" not in call:
            return output, weights
        sizes = batch, length, call["memory"].shape[1]
        return output, (weights, self._weights_spec("cross_attention", *sizes))

    def _weights_spec(
        self, name: str, batch: Any, queries: Any, keys: Any
    ) -> keras.KerasTensor:
        """Returns the spec of the weights of an attention layer, built or not."""
        layer = getattr(self, name, None)
        if layer is None:
            shape = (batch, self.num_heads, queries, keys)
            return keras.KerasTensor(shape, self.compute_dtype)
        attention = as_attention(layer)
        shape = attention.weights_shape(batch, queries, keys)
        return keras.KerasTensor(shape, attention.compute_dtype)

    def compute_output_shape(self, inputs_shape: Any, *others: Any) -> tuple:
        return tuple(inputs_shape)

    def get_config(self) -> dict[str, Any]:
        config = super().get_config()
        if self.attention is None:
            config["attention"] = as_config(self.self_attention)
        return config


def norm_like(block: Block, name: str) -> keras.layers.Layer:
    """Returns a new normalization layer, not built, of the kind that a block uses."""
    norm = NORMALIZATIONS[block.normalization](
        epsilon=block.epsilon, dtype=block.dtype_policy, name=name
    )
    norm.supports_masking = True  # prevents a warning of RMSNormalization
    return norm
