"""The encoder block of a Transformer.

Shapes: B batch, T queries, S keys, H heads, D model width.
"""

from __future__ import annotations

from typing import Any

from keras_attention.layers.base.adapter import as_attention
from keras_attention.layers.base.checked import check_usable
from keras_attention.layers.base.serialization import export
from keras_attention.layers.transformer.block import Block

Tensor = Any


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
        x, weights = self._attend_to_inputs(
            inputs,
            self._check_mask("mask", mask, inputs),
            attention_mask,
            use_causal_mask,
            return_attention_scores,
            training,
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
