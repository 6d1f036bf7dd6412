"""The decoder block of a Transformer.

Shapes: B batch, T queries, S keys, H heads, D model width.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from keras_attention.layers.base.adapter import as_attention
from keras_attention.layers.base.attention_layer import Prepared, hide_queries
from keras_attention.layers.base.checked import check_usable
from keras_attention.layers.base.serialization import as_config, export
from keras_attention.layers.transformer.attentions import (
    ORDERED,
    build_attention,
    check_arguments,
    check_cross_attention,
    copy_layer,
    is_layer,
)
from keras_attention.layers.transformer.block import Block

Tensor = Any


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
        check_cross_attention(attention, cross_attention)
        self._cross_arguments: Any = None  # only if they differ from `attention`
        self.cross_attention: Any = None
        self._makes_cross_attention = not is_layer(cross_attention or attention)
        if is_layer(cross_attention):
            self.cross_attention = cross_attention
        elif is_layer(attention):
            self.cross_attention = copy_layer(attention, "cross_attention", ORDERED)
        elif cross_attention is not None:
            arguments = check_arguments("cross_attention", cross_attention)
            self._multi_head("cross_attention", 1, arguments)
            self._cross_arguments = arguments

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
        x, weights = self._attend_to_inputs(
            inputs,
            inputs_mask,
            attention_mask,
            use_causal_mask,
            return_attention_scores,
            training,
        )
        result = as_attention(self.cross_attention)(
            self._sublayer_input(self.cross_attention_norm, x),
            memory,
            query_mask=inputs_mask,
            value_mask=memory_mask,
            return_attention_scores=return_attention_scores,
            training=training,
        )
        output, cross = result if return_attention_scores else (result, None)
        x = self._add_residual(self.cross_attention_norm, x, output, training)
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
