"""The blocks of a Transformer: attention, residuals, norms and the MLP.

Shapes: B batch, T queries, S keys, H heads, D model width, F width inside the MLP.
"""

from __future__ import annotations

import abc
from inspect import signature
from typing import Any, NamedTuple

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
from keras_attention.layers.base.attention_layer import Prepared, hide_queries
from keras_attention.layers.base.checked import (
    as_boolean,
    call_arguments,
    check_usable,
)
from keras_attention.layers.base.serialization import Configured, as_config, export
from keras_attention.layers.multi_head.multi_head_attention import MultiHeadAttention
from keras_attention.numerics import masks

Tensor = Any
NORMALIZATIONS = {
    "layer": keras.layers.LayerNormalization,
    "rms": keras.layers.RMSNormalization,
}

# The arguments of multi-head attention that a dict may contain.
KNOWN = [
    name
    for name in signature(MultiHeadAttention.__init__).parameters
    if name not in ("self", "num_heads", "output_shape", "attention_axes", "kwargs")
]
# Only for self-attention: positions of a memory are not positions of the inputs.
ORDERED = ("position", "sliding_window")


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
        self.intermediate_dim = positive("intermediate_dim", intermediate_dim)
        self.dropout = fraction("dropout", dropout)
        self.activation = keras.activations.get(activation)
        self.gated = gated
        self.norm_first = norm_first
        self.normalization = one_of("normalization", normalization, NORMALIZATIONS)
        self.epsilon = epsilon
        self.num_heads: Any = None
        self.attention: Any = None  # a dict; None if a layer is given
        if is_layer(attention):
            as_attention(attention)
            if num_heads is not None:
                raise ValueError(
                    "`num_heads` must be None where `attention` is a layer, which has "
                    f"heads of its own. Received: num_heads={num_heads!r}, "
                    f"attention={attention!r}"
                )
            self.self_attention = attention
        elif num_heads is None:
            raise ValueError(
                "`num_heads` must be given unless `attention` is a layer. Received: "
                f"num_heads=None, attention={attention!r}"
            )
        else:
            self.num_heads = positive("num_heads", num_heads)
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
        norm.axis = [-1]  # for steps (B, D), too; Keras 3.16 counts from the front
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

    def _attend(
        self,
        name: str,
        x: Tensor,
        memory: Tensor,
        return_attention_scores: bool,
        training: bool | None,
        **options: Any,
    ) -> tuple[Tensor, Tensor | None]:
        """Returns an attention with its residual (B, T, D), and its weights or None.

        `name` is that of the sublayer. Self-attention gets the inputs as its memory.
        """
        width = x.shape[-1]
        if isinstance(width, int) and width != self._dim:  # width 1 would broadcast
            raise ValueError(
                f"`inputs` must have width {self._dim} (last axis), for which layer "
                f"{self.name!r} was built. Received: inputs.shape={tuple(x.shape)}"
            )
        norm = getattr(self, f"{name}_norm")
        read = self._sublayer_input(norm, x)
        result = as_attention(getattr(self, name))(
            read,
            read if memory is x else memory,
            return_attention_scores=return_attention_scores,
            training=training,
            **options,
        )
        output, weights = result if return_attention_scores else (result, None)
        return self._add_residual(norm, x, output, training), weights

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


@export
class TransformerEncoderBlock(Block):
    """Self-attention and an MLP, each with a residual and a normalization.

        x ← norm(x + dropout(attention(x, x, x)))
        x ← norm(x + dropout(W₂ f(W₁ x + b₁) + b₂))

    This is the form of the paper, "post-norm". With `norm_first=True`, each sublayer
    reads norm(x), and x itself is never normalized ("pre-norm"). With
    `use_causal_mask=True`, it is the block of a decoder without an encoder, as in GPT.
    This decoder can also run step by step; see `step`.

    Args:
        num_heads: H, the number of heads of the block's `MultiHeadAttention`. Must be
            None if `attention` is a layer.
        intermediate_dim: F, the width of the hidden layer of the MLP.
        dropout: the fraction of each sublayer's output dropped during training.
        activation: f, a name or a function.
        gated: whether the MLP is W₂ (f(W₁ x) ⊙ W₃ x): SwiGLU with `activation="silu"`,
            GEGLU with "gelu".
        norm_first: whether to normalize before each sublayer instead of after it.
        normalization: "layer" or "rms".
        epsilon: the ε of the normalization.
        attention: the block's `self_attention`, a layer or a dict. A layer is an
            attention layer of this package, or a Keras layer with the call of Keras'
            attention layers. Its output must have the width D of its queries. A dict
            contains further arguments of the `MultiHeadAttention` with `num_heads`
            heads, such as {"position": "rotary", "num_key_value_heads": 2, "dropout":
            0.1}. The `key_dim` defaults to D / H, and a position layer is copied.

    Call arguments:
        inputs: (B, T, D).
        mask: booleans (B, T), True = may attend; defaults to the mask that the inputs
            carry.
        attention_mask: booleans (T, T) or (B, T, T); with heads also (B, H, T, T).
        use_causal_mask: whether position t may attend only to inputs 0 … t.
        return_attention_scores: whether to return the weights as well.
        training: whether to apply dropout.

    Returns:
        (B, T, D) in the compute dtype. With `return_attention_scores=True`, also the
        weights (B, H, T, T), or (B, T, T) for a layer without heads. The output
        carries the mask of the inputs.

    Raises:
        ValueError: for sizes that are not positive; a dropout outside [0, 1); an
            unknown activation or normalization; an `attention` that is neither a dict
            nor an attention layer, or whose output does not have the width D; arguments
            that multi-head attention does not have; `num_heads` together with a layer,
            or missing without a layer; heads that do not divide D, unless `attention`
            has a `key_dim`; inputs that are not of rank 3; or masks that do not fit.

    Example:

    >>> import numpy as np
    >>> from keras_attention.layers import TransformerEncoderBlock
    >>> words = np.random.default_rng(0).normal(size=(2, 5, 8)).astype("float32")
    >>> block = TransformerEncoderBlock(4, 32, norm_first=True)
    >>> tuple(block(words).shape)
    (2, 5, 8)

    With another attention layer:

    >>> from keras_attention.layers import Hopfield
    >>> block = TransformerEncoderBlock(intermediate_dim=32, attention=Hopfield(2))
    >>> tuple(block(words).shape)
    (2, 5, 8)

    Reference:
        Vaswani et al., "Attention is all you need" (2017), section 3.1 and equation 2;
        pre-norm: Xiong et al., "On layer normalization in the Transformer
        architecture" (2020); gated: Shazeer, "GLU variants improve Transformer" (2020).
    """

    def build(self, inputs_shape: Any) -> None:
        shape = self._build_self_attention(inputs_shape)
        self._build_feedforward(shape)
        self.built = True

    def call(
        self,
        inputs: Tensor,
        mask: Tensor | None = None,
        attention_mask: Tensor | None = None,
        use_causal_mask: bool = False,
        return_attention_scores: bool = False,
        training: bool | None = None,
    ) -> Any:
        mask = self._check_mask("mask", mask, inputs)
        x, weights = self._attend(
            "self_attention",
            inputs,
            inputs,
            return_attention_scores,
            training,
            query_mask=mask,
            value_mask=mask,
            attention_mask=attention_mask,
            use_causal_mask=use_causal_mask,
        )
        x = self._feed_forward(x, training)  # (B, T, D)
        return (x, weights) if return_attention_scores else x

    def initial_cache(self, batch: Any, length: int) -> Any:
        """Returns an empty cache for `step`: the cache of the self-attention.

        Args:
            batch: B, an integer or a tensor.
            length: the largest number of steps.

        Raises:
            RuntimeError: if this layer is not built.
            ValueError: if a step of the attention depends on the previous one.
        """
        check_usable(self, "initial_cache", None)
        attention = as_attention(self.self_attention)
        return attention.initial_cache(batch, length, self._dim)

    def step(
        self, inputs: Tensor, cache: Any, index: Any, mask: Tensor | None = None
    ) -> tuple[Tensor, Any]:
        """Computes the outputs for new inputs, which attend to all inputs so far.

        The output equals `block(x, use_causal_mask=True)` at these positions of x. Use
        it inside the `call` of another layer, after this layer is built, and without
        gradients.

        Args:
            inputs: (B, T, D), or (B, D) for one position.
            cache: the cache from `initial_cache` or the previous step. Do not reuse it
                afterwards.
            index: the position of the first new input.
            mask: booleans (B, T), or (B,). Inputs with False are never attended to.

        Returns:
            The output, with the shape of the inputs, and the cache.

        Raises:
            RuntimeError: if this layer is not built, or the tensors are symbolic.
            ValueError: if the cache is full, or belongs to another layer or batch; or
                if a step of the attention depends on the previous one.
        """
        check_usable(self, "step", inputs)
        x, cache = self._step_over_inputs(inputs, cache, index, mask)
        return self._feed_forward(x, False), cache


class DecoderCache(NamedTuple):
    """The state between two steps of a decoder; the first axis is the batch."""

    self_attention: Any  # keys and values of the inputs so far
    cross_state: Any  # the last state of the attention to the memory; often `()`


@export
class TransformerDecoderBlock(Block):
    """Causal self-attention, attention to a memory, and an MLP, each with a residual.

        x ← norm(x + dropout(attention(x, x, x)))            to the positions so far
        x ← norm(x + dropout(attention(x, memory, memory)))
        x ← norm(x + dropout(W₂ f(W₁ x + b₁) + b₂))

    Args:
        num_heads: H, the number of heads of the block's `MultiHeadAttention`. Must be
            None if `attention` is a layer.
        intermediate_dim: F, the width of the hidden layer of the MLP.
        dropout: the fraction of each sublayer's output dropped during training.
        activation: f, a name or a function.
        gated: whether the MLP is W₂ (f(W₁ x) ⊙ W₃ x).
        norm_first: whether to normalize before each sublayer instead of after it.
        normalization: "layer" or "rms".
        epsilon: the ε of the normalization.
        attention: the block's `self_attention`: a layer, or a dict of further arguments
            of a `MultiHeadAttention`; see `TransformerEncoderBlock`.
        cross_attention: the attention to the memory: a layer whose output has the width
            D of its queries; or, unless `attention` is a layer, a dict of arguments. By
            default, it is created from the arguments or the config of `attention`,
            without position and window, because positions of the memory are not
            positions of the inputs.

    Call arguments:
        inputs: (B, T, D).
        memory: (B, S, ·), for instance the output of an encoder.
        inputs_mask: booleans (B, T); defaults to the mask that the inputs carry.
        memory_mask: booleans (B, S); defaults to the mask that the memory carries.
        attention_mask: the mask of the self-attention, booleans (T, T) or (B, T, T);
            with heads also (B, H, T, T).
        use_causal_mask: whether position t may attend only to inputs 0 … t.
        return_attention_scores: whether to return the weights as well.
        training: whether to apply dropout.

    Returns:
        (B, T, D) in the compute dtype. With `return_attention_scores=True`, also a
        tuple of the weights of the self-attention (B, H, T, T) and of the attention to
        the memory (B, H, T, S), without the H axis for a layer without heads. The
        output carries the mask of the inputs.

    Raises:
        ValueError: for sizes that are not positive; a dropout outside [0, 1); an
            unknown activation or normalization; an `attention` or `cross_attention`
            that is neither a dict nor an attention layer, or whose output does not have
            the width D; arguments that multi-head attention does not have; `num_heads`
            together with a layer, or missing without a layer; a `cross_attention` that
            is the same layer as `attention`, a dict with a position or a window, or a
            dict although `attention` is a layer; heads that do not divide D, unless
            `attention` has a `key_dim`; inputs that are not of rank 3; or a memory or
            masks that do not fit.

    Example:

    >>> import numpy as np
    >>> from keras_attention.layers import TransformerDecoderBlock
    >>> words = np.random.default_rng(0).normal(size=(2, 5, 8)).astype("float32")
    >>> memory = np.random.default_rng(1).normal(size=(2, 7, 8)).astype("float32")
    >>> block = TransformerDecoderBlock(4, 32)
    >>> output, (own, cross) = block(words, memory, return_attention_scores=True)
    >>> tuple(output.shape), tuple(own.shape), tuple(cross.shape)
    ((2, 5, 8), (2, 4, 5, 5), (2, 4, 5, 7))

    Reference:
        Vaswani et al., "Attention is all you need" (2017), section 3.1.
    """

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
        cross_attention: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            num_heads,
            intermediate_dim,
            dropout,
            activation,
            gated,
            norm_first,
            normalization,
            epsilon,
            attention,
            **kwargs,
        )
        self._cross_arguments: Any = None  # only if they differ from `attention`
        self.cross_attention: Any = None
        if is_layer(cross_attention):
            as_attention(cross_attention, "cross_attention")
            if cross_attention is attention:
                raise ValueError(
                    "`cross_attention` must be another layer than `attention`. "
                    f"Received: {attention!r} for both"
                )
            self.cross_attention = cross_attention
        elif is_layer(attention):
            if cross_attention is not None:
                raise ValueError(
                    "`cross_attention` must be a layer, or None, where `attention` is "
                    "a layer: arguments need the block's `num_heads`. Received: "
                    f"cross_attention={cross_attention!r}"
                )
            self.cross_attention = copy_layer(attention, "cross_attention", ORDERED)
        elif cross_attention is not None:
            wrong = {n: cross_attention[n] for n in ORDERED if cross_attention.get(n)}
            if wrong:
                raise ValueError(
                    f"`cross_attention` must have none of {list(ORDERED)} as "
                    "arguments: positions of the memory are not positions of the "
                    f"inputs. Received: cross_attention with {wrong}"
                )
            arguments = check_arguments("cross_attention", cross_attention)
            self._multi_head("cross_attention", 1, arguments)
            self._cross_arguments = arguments
        self._makes_cross_attention = self.cross_attention is None

    def build(self, inputs_shape: Any, memory_shape: Any) -> None:
        shape, memory = self._build_self_attention(inputs_shape), tuple(memory_shape)
        if self._makes_cross_attention:
            arguments = self._cross_arguments
            if arguments is None:
                arguments = {
                    k: v for k, v in self.attention.items() if k not in ORDERED
                }
            self.cross_attention = self._multi_head(
                "cross_attention", shape[-1], arguments
            )
        build_attention("cross_attention", self.cross_attention, shape, memory)
        self.cross_attention_norm = self._norm("cross_attention_norm", shape)
        self._build_feedforward(shape)
        self.built = True

    def call(
        self,
        inputs: Tensor,
        memory: Tensor,
        inputs_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        attention_mask: Tensor | None = None,
        use_causal_mask: bool = True,
        return_attention_scores: bool = False,
        training: bool | None = None,
    ) -> Any:
        inputs_mask = self._check_mask("inputs_mask", inputs_mask, inputs)
        memory_mask = self._check_mask("memory_mask", memory_mask, memory)
        x, weights = self._attend(
            "self_attention",
            inputs,
            inputs,
            return_attention_scores,
            training,
            query_mask=inputs_mask,
            value_mask=inputs_mask,
            attention_mask=attention_mask,
            use_causal_mask=use_causal_mask,
        )
        x, cross = self._attend(
            "cross_attention",
            x,
            memory,
            return_attention_scores,
            training,
            query_mask=inputs_mask,
            value_mask=memory_mask,
        )
        x = self._feed_forward(x, training)  # (B, T, D)
        return (x, (weights, cross)) if return_attention_scores else x

    def prepare(self, memory: Tensor, mask: Tensor | None = None) -> Prepared:
        """Projects the keys and values of a memory once, for all steps.

        Args:
            memory: (B, S, ·).
            mask: booleans (B, S).

        Raises:
            RuntimeError: if this layer is not built, or the tensors are symbolic.
        """
        check_usable(self, "prepare", memory)
        return as_attention(self.cross_attention).prepare(memory, mask=mask)

    def initial_cache(
        self, batch: Any, length: int, prepared: Prepared | None = None
    ) -> DecoderCache:
        """Returns an empty cache for `step`.

        Args:
            batch: B, an integer or a tensor.
            length: the largest number of steps.
            prepared: the result of `prepare`. Required if a step of the attention to
                the memory depends on the previous one, as in `MonotonicAttention`.

        Raises:
            RuntimeError: if this layer is not built.
            ValueError: if a step of the self-attention depends on the previous one, or
                `prepared` is missing.
        """
        check_usable(self, "initial_cache", None)
        attention = as_attention(self.self_attention)
        cache = attention.initial_cache(batch, length, self._dim)
        cross = as_attention(self.cross_attention)
        if not cross.state_shapes((1, 1)):
            return DecoderCache(cache, ())
        if prepared is None:
            raise ValueError(
                "`prepared` must be given, since a step of `cross_attention` depends "
                f"on the last one. Received: prepared=None, cross_attention={cross!r}"
            )
        return DecoderCache(cache, cross.initial_state(prepared))

    def step(
        self,
        inputs: Tensor,
        cache: DecoderCache,
        index: Any,
        prepared: Prepared,
        mask: Tensor | None = None,
    ) -> tuple[Tensor, DecoderCache]:
        """Computes the outputs for new inputs, which attend to all inputs so far.

        The output equals `block(x, memory)` at these positions of x. Use it inside the
        `call` of another layer, after this layer is built, and without gradients.

        Args:
            inputs: (B, T, D), or (B, D) for one position.
            cache: the cache from `initial_cache` or the previous step. Do not reuse it
                afterwards.
            index: the position of the first new input.
            prepared: the result of `prepare`.
            mask: booleans (B, T), or (B,). Inputs with False are never attended to.

        Returns:
            The output, with the shape of the inputs, and the cache.

        Raises:
            RuntimeError: if this layer is not built, or the tensors are symbolic.
            ValueError: if the cache is full, or belongs to another layer or batch.
        """
        check_usable(self, "step", inputs)
        x, inputs_cache = self._step_over_inputs(
            inputs, cache.self_attention, index, mask
        )
        read = self._sublayer_input(self.cross_attention_norm, x)
        attention = as_attention(self.cross_attention)
        memory = hide_queries(prepared, mask)
        output, state = attention.context(read, memory, cache.cross_state)
        x = self._add_residual(self.cross_attention_norm, x, output, False)
        return self._feed_forward(x, False), DecoderCache(inputs_cache, state)

    def get_config(self) -> dict[str, Any]:
        config = super().get_config()
        if self._makes_cross_attention:
            config["cross_attention"] = as_config(self._cross_arguments)
        return config


def norm_like(block: Block, name: str) -> keras.layers.Layer:
    """Returns a new normalization layer, not built, of the kind that a block uses."""
    norm = NORMALIZATIONS[block.normalization](
        epsilon=block.epsilon, dtype=block.dtype_policy, name=name
    )
    norm.supports_masking = True  # prevents a warning of RMSNormalization
    return norm


def is_layer(attention: Any) -> bool:
    """Returns whether `attention` is a layer, not a dict of arguments or None."""
    return not (attention is None or isinstance(attention, dict))


def check_arguments(name: str, arguments: dict[str, Any] | None) -> dict[str, Any]:
    """Returns the arguments of multi-head attention, checked, as a config."""
    unknown = sorted({*(arguments or {})} - {*KNOWN})
    if unknown:
        raise ValueError(
            f"`{name}` must be an attention layer, or a dict of further arguments of "
            f"the block's `MultiHeadAttention`, among {KNOWN}. Received: {name} with "
            f"{unknown}"
        )
    # Each attention layer creates separate objects from these configs.
    return {k: as_config(v) for k, v in (arguments or {}).items()}


def copy_layer(layer: Any, name: str, without: tuple[str, ...] = ()) -> Any:
    """Copies a layer, with new weights and None for the arguments in `without`."""
    config = layer.get_config()
    changes = {**dict.fromkeys(without), "name": name}
    changes = {key: value for key, value in changes.items() if key in config}
    return type(layer).from_config({**config, **changes})


def build_attention(
    name: str, attention: Any, query_shape: tuple, memory_shape: tuple
) -> None:
    """Builds an attention layer, and checks that its output has the queries' width."""
    layer = as_attention(attention, name)
    if not layer.built:
        layer.build(query_shape, memory_shape)
    width = layer.output_width(query_shape[-1], memory_shape[-1])
    if width != query_shape[-1]:
        raise ValueError(
            f"`{name}` must return the width of the block's inputs, "
            f"{query_shape[-1]}, to which its output is added. Received: "
            f"{name}={attention!r}, which returns the width {width} for a memory of "
            f"shape {memory_shape}"
        )
