"""The Transformer: an encoder and a decoder based on attention.

Shapes: B batch, S tokens of a source, T tokens of a target, D model width, V target
vocabulary.
"""

from __future__ import annotations

from functools import partial
from typing import Any, ClassVar

import keras
from keras import ops

from keras_attention.layers.base.serialization import export
from keras_attention.models.base.configured_model import ConfiguredModel
from keras_attention.models.base.generation import GeneratesTargets
from keras_attention.models.base.strings import Translates
from keras_attention.models.transformer.backbone import Architecture, Backbone
from keras_attention.ops.sequence import decoding

Tensor = Any
SETTINGS = ("num_layers", "dim", "num_heads", "intermediate_dim", "dropout")
SIZES = {
    "base": (6, 512, 8, 2048, 0.1),
    "big": (6, 1024, 16, 4096, 0.3),
    "tiny": (4, 128, 4, 256, 0.3),
}


@export
class Transformer(Translates, GeneratesTargets, ConfiguredModel):
    """An encoder that reads a sequence and a decoder that generates another sequence.

        x  = dropout(√D E_x[source] + p)
        h  = encoder blocks(x)                each position attends to the whole source
        y  = dropout(√D E_y[target] + p)
        z  = decoder blocks(y; h)             each attends to positions 0 … t and to h
        p(yₜ | y₁ … yₜ₋₁) = softmax(E_y zₜ)

    Train the model with teacher forcing: `target` begins with the start token. The
    labels are the same sequence without the start token, padded with 0. The paper uses
    the loss `keras_attention.losses.SmoothedCrossentropy(0.1, ignore_class=0)` and the
    learning rate `keras_attention.schedules.WarmupInverseSqrt(dim)`.

    Args:
        source_vocabulary_size: the number of source tokens, including padding 0.
        target_vocabulary_size: V, the number of target tokens, including padding 0.
        num_layers: the number of encoder blocks, and also the number of decoder blocks.
        dim: D, the width of the model.
        num_heads: the number of heads of each attention; defaults to 8. Must be None if
            `attention` is a layer.
        intermediate_dim: the width of the hidden layer of each block's MLP.
        dropout: the dropout rate of the embeddings and of each sublayer's output.
        position: "sinusoidal", as in the paper, or "learned" (up to 1,024 positions),
            added to the embeddings; "rotary", "alibi" or "relative", in each
            self-attention; a position layer; or None. A layer is copied for each use;
            the copies have separate weights.
        tie_embeddings: "target" if the output projection uses the embedding matrix of
            the target; "all" if source, target and output share one matrix, as in the
            paper (this requires a shared vocabulary); None for separate matrices.
        block: further arguments of the blocks by name, for instance `norm_first`,
            `normalization`, `epsilon`, `gated`, `activation` and `attention`, which is
            a dict; see `TransformerEncoderBlock`. With `norm_first`, encoder and
            decoder end with a normalization.
        attention: an attention layer that replaces multi-head attention: any layer of
            this package, or a Keras layer that is called like Keras' attention layers.
            Its output must have the width of its queries. It must not be built: each
            block creates a new layer from its config.
        cross_attention: an attention layer for the attention of the decoder to the
            encoder, with the same requirements as `attention`. Defaults to `attention`
            without its position and window.

    Inputs: a dict of
        source: int32 (B, S), 0 for padding at the end.
        target: int32 (B, T), beginning with the start token.

    Unlike `generate`, a call does not check the tokens. A token outside its vocabulary
    gives NaN on JAX and a backend error on the other backends.

    Returns:
        Logits (B, T, V).

    Masking:
        The model never reads the padding of the source; the amount of padding has no
        effect. The logits at a position do not depend on later tokens of the target.

    Raises:
        ValueError: for sizes below 1; heads that do not divide `dim`; a dropout outside
            [0, 1); an unknown position or tie; one embedding for vocabularies of
            different sizes; a `block` with unknown arguments; or an attention that is
            not an attention layer, is built, or is given together with `num_heads`.
            Calls also raise it for ids in NumPy arrays that are below 0 or not below
            the number of ids.

    Example:

    >>> import numpy as np
    >>> from keras_attention.models import Transformer
    >>> model = Transformer(11, 7, num_layers=1, dim=6, num_heads=3, intermediate_dim=5)
    >>> source = np.array([[4, 10, 2], [3, 0, 0]])
    >>> model.generate({"source": source}, max_length=6, start_token_id=2,
    ...                stop_token_ids=3).shape
    (2, 6)

    Reference:
        Vaswani et al., "Attention is all you need" (2017); tied embeddings: Press and
        Wolf, "Using the output embedding to improve language models" (2017).
    """

    id_sizes: ClassVar[dict[str, str]] = {
        "source": "source_vocabulary_size",
        "target": "target_vocabulary_size",
    }

    def __init__(
        self,
        source_vocabulary_size: int,
        target_vocabulary_size: int,
        num_layers: int = 6,
        dim: int = 512,
        num_heads: int | None = None,
        intermediate_dim: int = 2048,
        dropout: float = 0.1,
        position: Any = "sinusoidal",
        tie_embeddings: str | None = "target",
        block: dict[str, Any] | None = None,
        attention: Any = None,
        cross_attention: Any = None,
        dtype: Any = None,
        **kwargs: Any,
    ) -> None:
        architecture = Architecture(locals())
        if tie_embeddings not in ("all", "target", None):
            raise ValueError(
                '`tie_embeddings` must be "all", "target" or None. '
                f"Received: tie_embeddings={tie_embeddings!r}"
            )
        if tie_embeddings == "all" and source_vocabulary_size != target_vocabulary_size:
            raise ValueError(
                '`tie_embeddings="all"` needs one vocabulary for source and target. '
                f"Received: source_vocabulary_size={source_vocabulary_size}, "
                f"target_vocabulary_size={target_vocabulary_size}"
            )
        num_heads = architecture.num_heads
        layers = range(num_layers)
        encoder_blocks = [architecture.encoder(f"encoder_block_{n}") for n in layers]
        decoder_blocks = [architecture.decoder(f"decoder_block_{n}") for n in layers]
        embed = partial(architecture.embedding, scale=True)
        if tie_embeddings == "all":
            read = write = embed(source_vocabulary_size, name="embedding")
        else:
            read = embed(source_vocabulary_size, name="source_embedding")
            is_tied = tie_embeddings == "target"
            write = embed(target_vocabulary_size, name="target_embedding", tied=is_tied)
        encoder = Backbone(read, encoder_blocks, norm="encoder_norm")
        decoder = Backbone(write, decoder_blocks, norm="decoder_norm")

        source = keras.Input((None,), dtype="int32", name="source")  # (B, S)
        target = keras.Input((None,), dtype="int32", name="target")  # (B, T)
        is_valid = ops.not_equal(source, 0)
        memory = encoder(source, mask=is_valid)  # (B, S, D)
        # The padding of the target comes after its tokens: no token attends to it.
        hidden = decoder(target, memory, memory_mask=is_valid)  # (B, T, D)
        logits = decoder.logits(hidden)  # (B, T, V)
        super().__init__({"source": source, "target": target}, logits, locals())
        self._encoder, self._decoder = encoder, decoder
        self._positions = decoder.positions

    @classmethod
    def from_size(
        cls,
        size: str,
        source_vocabulary_size: int,
        target_vocabulary_size: int,
        **arguments: Any,
    ) -> Transformer:
        """Creates a model with the settings of a paper.

        Args:
            size: "base" or "big" of Vaswani et al. (table 3), or "tiny" of Wu et al.
                for data sets as small as Multi30k.
            source_vocabulary_size: the number of source tokens, including padding 0.
            target_vocabulary_size: the number of target tokens, including padding 0.
            **arguments: further arguments of the class, in place of those of the size.

        Raises:
            ValueError: if the size is unknown.

        Reference:
            Vaswani et al., "Attention is all you need" (2017), table 3; Wu et al.,
            "Good for misconceived reasons: an empirical revisiting on the need for
            visual context in multimodal machine translation" (2021), section 4.3.
        """
        if size not in SIZES:
            raise ValueError(
                f"`size` must be one of {list(SIZES)}. Received: size={size!r}"
            )
        settings: dict[str, Any] = {**dict(zip(SETTINGS, SIZES[size])), **arguments}
        if arguments.get("attention") is not None:
            settings["num_heads"] = arguments.get("num_heads")
        return cls(source_vocabulary_size, target_vocabulary_size, **settings)

    def begin(self, inputs: dict[str, Tensor], length: int) -> tuple[list, list]:
        """Encodes the source before the first call of `next`.

        Args:
            inputs: {"source": (B, S)}.
            length: the length of the prompt of `next`.

        Returns:
            The empty caches of the decoder blocks, and the projected keys and values of
            the source for each block. `next` updates only the caches.
        """
        source = ops.cast(inputs["source"], "int32")
        is_valid = ops.not_equal(source, 0)
        memory = self._encoder(source, mask=is_valid)
        batch, blocks = ops.shape(source)[0], self._decoder.blocks
        static = [block.prepare(memory, is_valid) for block in blocks]
        cache = [
            block.initial_cache(batch, length, prepared)
            for block, prepared in zip(blocks, static)
        ]
        return cache, static

    def next(
        self, prompt: Tensor, cache: list, index: Any, static: list
    ) -> tuple[Tensor, Tensor, list]:
        token = decoding.read(prompt, index - 1)  # (B,)
        hidden, cache = self._decoder.step(token, index - 1, cache, index - 1, static)
        return self._decoder.logits(hidden), hidden, cache

    def _begin(self, inputs: dict[str, Tensor], length: int) -> tuple[list, list, int]:
        return (*self.begin(inputs, length), 1)
