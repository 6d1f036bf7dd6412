"""The decoder's block of a Transformer.

Shapes: B batch, T queries, S keys, H heads, D model width.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import keras

from keras_attention.layers.base.adapter import as_attention
from keras_attention.layers.base.attention_layer import Prepared, hide_queries
from keras_attention.layers.base.checks import check_usable
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
    """What the next step needs of those before; the batch is the first axis of each."""

    self_attention: Any  # keys and values of the inputs so far
    cross_state: Any  # where in the memory it attended last; `()` for most attentions


@export
class TransformerDecoderBlock(Block):
    """Causal self-attention, attention to a memory, and an MLP, each with a residual.

        x ← norm(x + dropout(attention(x, x, x)))            each sees what came before
        x ← norm(x + dropout(attention(x, memory, memory)))
        x ← norm(x + dropout(W₂ f(W₁ x + b₁) + b₂))

    Args:
        num_heads: H, of a `MultiHeadAttention` that the block makes; None where
            `attention` is a layer.
        intermediate_dim: F, the width inside the MLP.
        dropout: of what each sublayer returns, while training.
        activation: f, by name or as a function.
        gated: whether the MLP is W₂ (f(W₁ x) ⊙ W₃ x).
        norm_first: whether normalization comes before each sublayer.
        normalization: "layer" or "rms".
        epsilon: of the normalization.
        attention: the block's `self_attention`: a layer, or a dict of further arguments
            of a `MultiHeadAttention`; see `TransformerEncoderBlock`.
        cross_attention: the attention to the memory: a layer, whose output must have
            the width of its queries, D; or, where `attention` is no layer, a dict of
            arguments. By default it is made as `attention` is, from the same arguments
            or the layer's config, without position and window: positions of the memory
            are not positions of the inputs.

    Call arguments:
        inputs: (B, T, D).
        memory: (B, S, ·), such as what an encoder returns.
        inputs_mask: booleans (B, T); by default the mask that the inputs carry.
        memory_mask: booleans (B, S); by default the mask that the memory carries.
        attention_mask: of the self-attention, booleans (T, T) or (B, T, T); with heads
            also (B, H, T, T).
        use_causal_mask: whether position t may see only 0 … t of the inputs.
        return_attention_scores: whether to return the weights, too.
        training: whether to drop.

    Returns:
        (B, T, D) in the compute dtype; with `return_attention_scores=True` also the
        weights of the self-attention (B, H, T, T) and of the attention to the memory
        (B, H, T, S), as a tuple, without the H axis for an attention without heads. The
        output carries the mask of the inputs.

    Raises:
        ValueError: for sizes that are not positive, heads that do not divide D, an
            unknown normalization, an attention that is none or returns another width,
            arguments that multi-head attention does not have, `num_heads` beside a
            layer, or a position or window in `cross_attention`.

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
        self._cross_arguments: Any = None  # where they are not those of `attention`
        self._makes_cross_attention = False
        self.cross_attention: Any = None
        if is_layer(cross_attention):
            self.cross_attention = cross_attention
        elif is_layer(attention):
            self.cross_attention = copy_layer(attention, "cross_attention", ORDERED)
        else:
            self._makes_cross_attention = True
        if isinstance(cross_attention, dict):
            arguments = check_arguments("cross_attention", cross_attention)
            self._multi_head("cross_attention", 1, arguments)
            self._cross_arguments = arguments

    def build(self, inputs_shape: Any, memory_shape: Any) -> None:
        shape, memory = self._build_self_attention(inputs_shape), tuple(memory_shape)
        if self._makes_cross_attention:
            arguments = self._cross_arguments
            if arguments is None:
                own = self.attention
                arguments = {k: v for k, v in own.items() if k not in ORDERED}
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
        x, own = self._attend_to_inputs(
            inputs,
            inputs_mask,
            attention_mask,
            use_causal_mask,
            return_attention_scores,
            training,
        )
        found = as_attention(self.cross_attention)(
            self._sublayer_input(self.cross_attention_norm, x),
            memory,
            query_mask=inputs_mask,
            value_mask=memory_mask,
            return_attention_scores=return_attention_scores,
            training=training,
        )
        output, cross = found if return_attention_scores else (found, None)
        x = self._add_residual(self.cross_attention_norm, x, output, training)
        x = self._feed_forward(x, training)  # (B, T, D)
        return (x, (own, cross)) if return_attention_scores else x

    def compute_output_spec(
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
        batch, length, _ = self._check_shape(inputs.shape)
        output = keras.KerasTensor(inputs.shape, self.compute_dtype)
        if not return_attention_scores:
            return output
        own = self._weights_spec("self_attention", batch, length, length)
        cross = self._weights_spec("cross_attention", batch, length, memory.shape[1])
        return output, (own, cross)

    def prepare(self, memory: Tensor, mask: Tensor | None = None) -> Prepared:
        """Projects a memory's keys and values once, for all steps.

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
        """An empty cache for `step`.

        Args:
            batch: B, a number or a tensor.
            length: how many steps there will be at most.
            prepared: what `prepare` returned. Needed where a step of the attention to
                the memory depends on the last one, as of `MonotonicAttention`.

        Raises:
            RuntimeError: if this layer is not built.
            ValueError: if a step of the self-attention depends on the last one, or
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
        """The next positions, with self-attention over all that came before.

        The same as `block(x, memory)` at these positions of x. For use inside another
        layer's `call`, once this layer is built, and where no gradient flows.

        Args:
            inputs: (B, T, D), or (B, D) for one position.
            cache: what `initial_cache` or the last step returned, which must not be
                used any more.
            index: the position of the first of them.
            prepared: what `prepare` returned.
            mask: booleans (B, T), or (B,); nobody ever attends to what is False.

        Returns:
            The output, of the shape of the inputs, and the cache.

        Raises:
            RuntimeError: if this layer is not built, or the tensors are symbolic.
            ValueError: if the cache is full, or not one of this layer and batch.
        """
        check_usable(self, "step", inputs)
        x, own = self._step_over_inputs(inputs, cache.self_attention, index, mask)
        read = self._sublayer_input(self.cross_attention_norm, x)
        attention = as_attention(self.cross_attention)
        memory = hide_queries(prepared, mask)
        output, state = attention.context(read, memory, cache.cross_state)
        x = self._add_residual(self.cross_attention_norm, x, output, False)
        return self._feed_forward(x, False), DecoderCache(own, state)

    def get_config(self) -> dict[str, Any]:
        config = super().get_config()
        if self._makes_cross_attention:
            config["cross_attention"] = as_config(self._cross_arguments)
        return config
