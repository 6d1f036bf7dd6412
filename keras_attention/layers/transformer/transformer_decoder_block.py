"""The decoder's block of a Transformer.

Shapes: B batch, T queries, S keys, H heads, D model width.
"""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from keras_attention.layers.base.attention_layer import Prepared, check_usable
from keras_attention.layers.base.serialization import export
from keras_attention.layers.multi_head.cached import Cache
from keras_attention.layers.transformer.block import Block

Tensor = Any


@export
class TransformerDecoderBlock(Block):
    """Causal self-attention, attention to a memory, and an MLP, each with a residual.

        x ← norm(x + dropout(attention(x, x, x)))            each sees what came before
        x ← norm(x + dropout(attention(x, memory, memory)))
        x ← norm(x + dropout(W₂ f(W₁ x + b₁) + b₂))

    Args:
        num_heads: H.
        intermediate_dim: the width inside the MLP.
        dropout: of what each sublayer returns, while training.
        activation: f, by name or as a function.
        gated: whether the MLP is W₂ (f(W₁ x) ⊙ W₃ x).
        norm_first: whether normalization comes before each sublayer.
        normalization: "layer" or "rms".
        epsilon: of the normalization.
        attention: further arguments of both `MultiHeadAttention`s, by name. Positions
            and windows are of the self-attention alone: places of the memory are not
            places of the inputs.

    Call arguments:
        inputs: (B, T, D).
        memory: (B, S, ·), such as what an encoder returns.
        inputs_mask: booleans (B, T); by default the mask that the inputs carry.
        memory_mask: booleans (B, S); by default the mask that the memory carries.
        attention_mask: of the self-attention, booleans (T, T), (B, T, T) or
            (B, H, T, T).
        use_causal_mask: whether position t may see only 0 … t of the inputs.
        return_attention_scores: whether to return the weights, too.
        training: whether to drop.

    Returns:
        (B, T, D) in the compute dtype; with `return_attention_scores=True` also the
        weights of the self-attention (B, H, T, T) and of the attention to the memory
        (B, H, T, S), as a tuple. The output carries the mask of the inputs.

    Raises:
        ValueError: for sizes that are not positive, heads that do not divide D, an
            unknown normalization, or arguments that the attention does not have.

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

    def build(self, inputs_shape: Any, memory_shape: Any) -> None:
        shape, memory = self._width(inputs_shape), tuple(memory_shape)
        self.self_attention = self._attention("self_attention", shape[-1])
        self.self_attention.build(shape, shape)
        self.self_attention_norm = self._norm("self_attention_norm", shape)
        self.cross_attention = self._attention("cross_attention", shape[-1])
        self.cross_attention.build(shape, memory)
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
        more = {
            "return_attention_scores": return_attention_scores,
            "training": training,
        }
        inputs_mask = self._given("inputs_mask", inputs_mask, inputs)
        memory_mask = self._given("memory_mask", memory_mask, memory)
        read = self._before(self.self_attention_norm, inputs)
        found = self.self_attention(
            read,
            read,
            query_mask=inputs_mask,
            value_mask=inputs_mask,
            attention_mask=attention_mask,
            use_causal_mask=use_causal_mask,
            **more,
        )
        found, own = found if return_attention_scores else (found, None)
        x = self._behind(self.self_attention_norm, inputs, found, training)
        read = self._before(self.cross_attention_norm, x)
        found = self.cross_attention(
            read, memory, query_mask=inputs_mask, value_mask=memory_mask, **more
        )
        found, cross = found if return_attention_scores else (found, None)
        x = self._behind(self.cross_attention_norm, x, found, training)
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
        batch, length, _ = self._width(inputs.shape)
        output = keras.KerasTensor(inputs.shape, self.compute_dtype)
        if not return_attention_scores:
            return output
        own, cross = (
            keras.KerasTensor((batch, self.num_heads, length, s), self.compute_dtype)
            for s in (length, memory.shape[1])
        )
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
        return self.cross_attention.prepare(memory, mask=mask)

    def initial_cache(self, batch: Any, length: int) -> Cache:
        """An empty cache for `step`; see `MultiHeadAttention.initial_cache`.

        Args:
            batch: B, a number or a tensor.
            length: how many steps there will be at most.

        Raises:
            RuntimeError: if this layer is not built.
        """
        check_usable(self, "initial_cache", None)
        return self.self_attention.initial_cache(batch, length)

    def step(
        self,
        inputs: Tensor,
        cache: Cache,
        index: Any,
        prepared: Prepared,
        mask: Tensor | None = None,
    ) -> tuple[Tensor, Cache]:
        """The next positions, with self-attention over all that came before.

        The same as `block(x, memory)` at these places of x. For use inside another
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
        inputs = ops.cast(inputs, self.compute_dtype)
        read = self._before(self.self_attention_norm, inputs)
        found, cache = self.self_attention.step(read, cache, index, mask)
        x = self._behind(self.self_attention_norm, inputs, found, False)
        read = self._before(self.cross_attention_norm, x)
        found = self.cross_attention.context(read, prepared)
        x = self._behind(self.cross_attention_norm, x, found, False)
        return self._feed_forward(x, False), cache
