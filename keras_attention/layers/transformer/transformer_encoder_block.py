"""The encoder's block of a Transformer.

Shapes: B batch, T queries, S keys, H heads, D model width.
"""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from keras_attention.layers.base.attention_layer import check_usable
from keras_attention.layers.base.serialization import export
from keras_attention.layers.multi_head.cached import Cache
from keras_attention.layers.transformer.block import Block

Tensor = Any


@export
class TransformerEncoderBlock(Block):
    """Self-attention and an MLP, each with a residual and a normalization.

        x ← norm(x + dropout(attention(x, x, x)))
        x ← norm(x + dropout(W₂ f(W₁ x + b₁) + b₂))

    That is the paper's form, "post-norm"; with `norm_first=True` each sublayer reads
    norm(x), and x itself is never normalized ("pre-norm"). With `use_causal_mask=True`
    it is the block of a decoder without an encoder, as in GPT; that one can also go on
    step by step, see `step`.

    Args:
        num_heads: H.
        intermediate_dim: the width inside the MLP.
        dropout: of what each sublayer returns, while training.
        activation: f, by name or as a function.
        gated: whether the MLP is W₂ (f(W₁ x) ⊙ W₃ x); with `activation="silu"` it is
            known as SwiGLU, with "gelu" as GEGLU.
        norm_first: whether normalization comes before each sublayer.
        normalization: "layer" or "rms".
        epsilon: of the normalization.
        attention: further arguments of the `MultiHeadAttention`, by name, such as
            {"position": "rotary", "num_key_value_heads": 2, "dropout": 0.1}. Its
            `key_dim` is by default D / H. A position that is a layer is copied: each
            block has its own.

    Call arguments:
        inputs: (B, T, D).
        mask: booleans (B, T), True where there is something to attend to; by default
            the mask that the inputs carry.
        attention_mask: booleans (T, T), (B, T, T) or (B, H, T, T).
        use_causal_mask: whether position t may see only 0 … t.
        return_attention_scores: whether to return the weights, too.
        training: whether to drop.

    Returns:
        (B, T, D) in the compute dtype; with `return_attention_scores=True` also the
        weights (B, H, T, T). The output carries the mask of the inputs.

    Raises:
        ValueError: for sizes that are not positive, heads that do not divide D, an
            unknown normalization, or arguments that the attention does not have.

    Example:

    >>> import numpy as np
    >>> from keras_attention.layers import TransformerEncoderBlock
    >>> words = np.random.default_rng(0).normal(size=(2, 5, 8)).astype("float32")
    >>> block = TransformerEncoderBlock(4, 32, norm_first=True)
    >>> tuple(block(words).shape)
    (2, 5, 8)

    Reference:
        Vaswani et al., "Attention is all you need" (2017), section 3.1 and equation 2;
        pre-norm: Xiong et al., "On layer normalization in the Transformer
        architecture" (2020); gated: Shazeer, "GLU variants improve Transformer" (2020).
    """

    def build(self, inputs_shape: Any) -> None:
        shape = self._width(inputs_shape)
        self.self_attention = self._attention("self_attention", shape[-1])
        self.self_attention.build(shape, shape)
        self.self_attention_norm = self._norm("self_attention_norm", shape)
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
        mask = self._given("mask", mask, inputs)
        read = self._before(self.self_attention_norm, inputs)
        found = self.self_attention(
            read,
            read,
            query_mask=mask,
            value_mask=mask,
            attention_mask=attention_mask,
            return_attention_scores=return_attention_scores,
            use_causal_mask=use_causal_mask,
            training=training,
        )
        found, weights = found if return_attention_scores else (found, None)
        x = self._behind(self.self_attention_norm, inputs, found, training)
        x = self._feed_forward(x, training)  # (B, T, D)
        return (x, weights) if return_attention_scores else x

    def compute_output_spec(
        self,
        inputs: Tensor,
        mask: Tensor | None = None,
        attention_mask: Tensor | None = None,
        use_causal_mask: bool = False,
        return_attention_scores: bool = False,
        training: bool | None = None,
    ) -> Any:
        batch, length, _ = self._width(inputs.shape)
        output = keras.KerasTensor(inputs.shape, self.compute_dtype)
        if not return_attention_scores:
            return output
        shape = (batch, self.num_heads, length, length)
        return output, keras.KerasTensor(shape, self.compute_dtype)

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
        self, inputs: Tensor, cache: Cache, index: Any, mask: Tensor | None = None
    ) -> tuple[Tensor, Cache]:
        """The next positions, with self-attention over all that came before.

        The same as `block(x, use_causal_mask=True)` at these places of x. For use
        inside another layer's `call`, once this layer is built, and where no gradient
        flows.

        Args:
            inputs: (B, T, D), or (B, D) for one position.
            cache: what `initial_cache` or the last step returned, which must not be
                used any more.
            index: the position of the first of them.
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
        return self._feed_forward(x, False), cache
