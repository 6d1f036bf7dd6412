"""A language model that reads from left to right, as GPT.

Shapes: B batch, T tokens, P positions for prompts, D model width, V vocabulary.
"""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
from keras import ops

from keras_attention import samplers
from keras_attention.layers.base.serialization import export
from keras_attention.layers.transformer.block import norm_like
from keras_attention.layers.transformer.transformer_encoder_block import (
    TransformerEncoderBlock,
)
from keras_attention.models.base.arguments import check_sizes
from keras_attention.models.base.configured_model import ConfiguredModel
from keras_attention.models.base.continuation import Continuation
from keras_attention.models.transformer.block_maker import BlockMaker
from keras_attention.models.transformer.token_embedding import TokenEmbedding
from keras_attention.ops.sequence import decoding

Tensor = Any
BLOCK = {"norm_first": True, "activation": "gelu"}


@export
class CausalLM(ConfiguredModel):
    """A language model: at each token, what the next one may be.

        x₀ = dropout(E[y] + p)
        xₗ = block(xₗ₋₁), in which position t sees 0 … t alone
        p(yₜ₊₁ | y₀ … yₜ) = softmax(E norm(x_L))

    With "sinusoidal" positions √D E[y] is embedded in place of E[y]. Blocks without
    `norm_first` end in a normalization of their own: x_L is not normalized again.

    It is trained on sequences and the same sequences one token further; a loss that
    leaves out padding is `SparseCategoricalCrossentropy(from_logits=True,
    ignore_class=0)`.

    Args:
        vocabulary_size: V, the number of tokens, padding 0 included.
        num_layers: how many blocks.
        dim: D.
        num_heads: of each block's attention; by default 8, and None where `attention`
            is a layer.
        intermediate_dim: the width inside each block's MLP.
        dropout: of the embedding and of what each sublayer returns.
        position: "learned" or "sinusoidal" (added to the embedding), "rotary", "alibi",
            "relative" (in each attention), a layer of positions, or None. A layer is
            copied wherever it is used, with weights of its own.
        max_length: how many positions there are, if they are learned, for a prompt and
            what `generate` writes behind it together. The `max_length` of `generate`
            is another: how many tokens it writes.
        tie_embeddings: whether the logits are products with the embedding itself.
        block: further arguments of the blocks, see `TransformerEncoderBlock`; those of
            GPT, {"norm_first": True, "activation": "gelu"}, hold where it has no other.
            For instance {"normalization": "rms", "gated": True, "activation": "silu",
            "attention": {"num_key_value_heads": 2, "sliding_window": 256}}.
        attention: an attention layer to take the place of multi-head attention: any of
            this package, or a Keras layer with Keras' call, whose output has the width
            of its queries. Each block gets a layer of its own, made from the config of
            this one, which must not be built.

    Inputs: a dict of
        tokens: int32 (B, T), 0 is padding, behind the sequence.

    A call does not look at tokens, as `generate` does: one outside the vocabulary gives
    NaN on JAX, and an error of the backend on others.

    Returns:
        Logits (B, T, V).

    Masking:
        No token sees what stands behind it, so that padding changes no logits but its
        own, which mean nothing.

    Raises:
        ValueError: for sizes below 1, heads that do not divide D, a dropout that is not
            at least 0 and below 1, an unknown position, arguments that a block does not
            have, an `attention` that is none, is built, or is given beside `num_heads`,
            or, where it is called, more tokens than learned positions.

    Example:

    >>> import numpy as np
    >>> from keras_attention.models import CausalLM
    >>> model = CausalLM(11, num_layers=2, dim=8, num_heads=2, intermediate_dim=16)
    >>> prompts = np.array([[5, 6, 7], [8, 0, 0]])
    >>> model.generate({"tokens": prompts}, max_length=4).shape
    (2, 4)

    Reference:
        Radford et al., "Improving language understanding by generative pre-training"
        (2018); normalization in front of each sublayer and behind the last block:
        Radford et al., "Language models are unsupervised multitask learners" (2019),
        section 2.3; tied embeddings: Press & Wolf, "Using the output embedding to
        improve language models" (2017).
    """

    def __init__(
        self,
        vocabulary_size: int,
        num_layers: int = 6,
        dim: int = 512,
        num_heads: int | None = None,
        intermediate_dim: int = 2048,
        dropout: float = 0.1,
        position: Any = "learned",
        max_length: int = 1024,
        tie_embeddings: bool = True,
        block: dict[str, Any] | None = None,
        attention: Any = None,
        dtype: Any = None,
        **kwargs: Any,
    ) -> None:
        check_sizes(
            vocabulary_size=vocabulary_size,
            num_layers=num_layers,
            dim=dim,
            max_length=max_length,
        )
        maker = BlockMaker(
            dim,
            num_heads,
            intermediate_dim,
            dropout,
            position,
            block,
            attention,
            dtype=dtype,
            defaults=BLOCK,
        )
        num_heads = maker.num_heads
        parts = _Parts()
        parts.ends = TokenEmbedding(
            vocabulary_size,
            dim,
            maker.added,
            max_length=max_length,
            dropout=dropout,
            scale=maker.added == "sinusoidal",
            tied=tie_embeddings,
            dtype=dtype,
        )
        parts.blocks = [maker.encoder(f"block_{n}") for n in range(num_layers)]
        last = parts.blocks[-1]
        parts.norm = norm_like(last, "final_norm") if last.norm_first else None

        tokens = keras.Input((None,), dtype="int32", name="tokens")  # (B, T)
        x = parts.ends(tokens)  # (B, T, D)
        for one in parts.blocks:
            x = one(x, use_causal_mask=True)
        logits = parts.logits(x)  # (B, T, V)
        super().__init__({"tokens": tokens}, logits, locals())
        self._parts = parts
        self._continuation = Continuation(self)

    @property
    def positions(self) -> int | None:
        """How many positions have been learned; None if there is no end to them."""
        return getattr(self._parts.ends.position, "max_length", None)

    def begin(
        self, inputs: dict[str, Tensor], length: int
    ) -> tuple[list[Any], dict[str, Tensor]]:
        """Reads prompts, all but the last token of each: what `next` needs behind them.

        The prompts are moved to the end of their P positions.

        Args:
            inputs: {"tokens": (B, P), padding behind, "length": (B,) of each prompt}.
            length: how many tokens a row may have in the end, the P included.

        Returns:
            The cache that `next` changes, one of each block, and what it only reads.
        """
        parts, tokens = self._parts, ops.cast(inputs["tokens"], "int32")
        count = tokens.shape[1]
        gap = count - ops.cast(inputs["length"], "int32")[:, None]  # (B, 1)
        column = ops.arange(count - 1)[None]
        is_valid = column >= gap  # (B, P - 1)
        x = parts.ends(tokens)
        source = ops.where(is_valid, column - gap, 0)
        x = ops.take_along_axis(x, source[:, :, None], axis=1)  # (B, P - 1, D)
        caches = []
        for block in parts.blocks:
            cache = block.initial_cache(ops.shape(tokens)[0], length)
            x, cache = block.step(x, cache, 0, mask=is_valid)
            caches.append(cache)
        return caches, {"gap": gap}

    def next(
        self, prompt: Tensor, cache: list[Any], index: Any, static: dict[str, Tensor]
    ) -> tuple[Tensor, Tensor, list[Any]]:
        """Logits of the token at a position, from the one in front of it.

        KerasHub's protocol; see `keras_attention.samplers`.

        Args:
            prompt: (B, T).
            cache: what `begin` or the last call returned.
            index: the position, at least P.
            static: what `begin` returned.

        Returns:
            Logits (B, V), the last block's output, normalized (B, D), and the cache.
        """
        parts, caches = self._parts, []
        token = decoding.read(prompt, index - 1)  # (B,)
        x = parts.ends.step(token, index - 1 - static["gap"])  # (B, D)
        for block, before in zip(parts.blocks, cache):
            x, after = block.step(x, before, index - 1)
            caches.append(after)
        hidden = parts.norm(x) if parts.norm else x
        return parts.ends.logits(hidden), hidden, caches

    def generate(
        self,
        inputs: Any,
        max_length: int = 64,
        sampler: Any = "greedy",
        stop_token_ids: Any = None,
        seed: int | None = None,
        num_sequences: int = 1,
    ) -> np.ndarray:
        """Goes on from prompts, which may be of unequal length.

        Each prompt is read once, in one pass; then a step for each token works on a
        cache of fixed size. That is compiled once for each batch size and bucket of
        lengths, see `keras_attention.ops.sequence.decoding.bucket`. KerasHub's samplers
        cannot stop at a length, and are compiled for each `max_length`.

        Args:
            inputs: {"tokens": (B, ·)}, or the array alone, integers, 0 behind shorter
                prompts; or a list of lists of integers.
            max_length: how many tokens to write at most, the prompt not counted. With
                learned positions the longest prompt and these together must not exceed
                the model's own `max_length`; the default does where that is 64 or less.
            sampler: "greedy", "beam", "random", "top_k", "top_p", or a sampler of
                `keras_attention.samplers` or of KerasHub.
            stop_token_ids: the token, or tokens, that end a sequence; None for none.
            seed: of a sampler that leaves something to chance.
            num_sequences: N, how many sequences to write for each prompt. They differ
                where the sampler leaves something to chance.

        Returns:
            int32 (B, max_length), or (B, N, max_length) for N above 1: what follows the
            prompts, 0 behind a stop token. The model may also write token 0, padding,
            itself, before any stop token: 0 does not end a sequence. A `BeamSampler`
            that returns all beams has its axis behind these, and their scores beside.

        Raises:
            ValueError: for prompts that are no integers (B, ·), have no token or
                padding that is not behind them, tokens outside the vocabulary, a
                `max_length` or `num_sequences` below 1, more tokens in all than
                learned positions, or an `attention` that cannot go on step by step.
        """
        if isinstance(inputs, dict):
            if "tokens" not in inputs:
                raise ValueError(
                    f"`inputs` must hold 'tokens'. Received: {list(inputs)}"
                )
            inputs = inputs["tokens"]
        return self._continuation(
            inputs,
            max_length,
            samplers.get(sampler),
            stop_token_ids,
            seed,
            num_sequences,
        )


class _Parts:
    """The layers of a `CausalLM`, which its graph and its decoding share."""

    ends: TokenEmbedding
    blocks: list[TransformerEncoderBlock]
    norm: Any

    def logits(self, x: Tensor) -> Tensor:
        """Logits (..., V) of what the last block returned (..., D)."""
        return self.ends.logits(self.norm(x) if self.norm else x)
