"""The parts of a `Transformer`: two embeddings, an encoder and a decoder.

Shapes: B batch, S tokens of a source, T tokens of a target, D model width, V target
vocabulary.
"""

from __future__ import annotations

from typing import Any

from keras import ops

from keras_attention.layers.transformer.block import norm_like
from keras_attention.models.transformer.block_maker import BlockMaker
from keras_attention.models.transformer.token_embedding import TokenEmbedding

Tensor = Any
TIES = ("all", "target", None)


class EncoderDecoder:
    """The layers of a `Transformer`, shared by its graph and its generation.

    Args:
        maker: the `BlockMaker` that creates the blocks.
        num_layers: the number of encoder blocks, and also the number of decoder blocks.
    """

    source: TokenEmbedding
    target: TokenEmbedding

    def __init__(self, maker: BlockMaker, num_layers: int) -> None:
        layers = range(num_layers)
        self.encoder = [maker.encoder(f"encoder_block_{n}") for n in layers]
        self.decoder = [maker.decoder(f"decoder_block_{n}") for n in layers]
        self.encoder_norm: Any = None
        self.decoder_norm: Any = None
        last = self.decoder[-1]
        if last.norm_first:
            self.encoder_norm = norm_like(last, "encoder_norm")
            self.decoder_norm = norm_like(last, "decoder_norm")

    def embed(
        self,
        sizes: tuple[int, int],
        dim: int,
        position: Any,
        dropout: float,
        tie: str | None,
        dtype: Any,
    ) -> None:
        """Creates the source and target embeddings, or one shared embedding."""
        more = {"position": position, "dropout": dropout, "dtype": dtype}
        if tie == "all":
            one = TokenEmbedding(sizes[0], dim, name="embedding", **more)
            self.source = self.target = one
            return
        self.source = TokenEmbedding(sizes[0], dim, name="source_embedding", **more)
        self.target = TokenEmbedding(
            sizes[1], dim, tied=tie is not None, name="target_embedding", **more
        )

    def encode(self, source: Tensor) -> tuple[Tensor, Tensor]:
        """Returns h (B, S, D) and the mask of the source (B, S)."""
        mask = ops.not_equal(source, 0)
        x = self.source(source)
        for block in self.encoder:
            x = block(x, mask=mask)
        return (x if self.encoder_norm is None else self.encoder_norm(x)), mask

    def forced(self, target: Tensor, memory: Tensor, mask: Tensor) -> Tensor:
        """Returns the logits (B, T, V) with teacher forcing.

        The padding of the target comes after its tokens, so no token attends to
        padding.
        """
        x = self.target(target)
        for block in self.decoder:
            x = block(x, memory, memory_mask=mask)
        x = x if self.decoder_norm is None else self.decoder_norm(x)
        return self.target.logits(x)

    @property
    def positions(self) -> int | None:
        """The number of learned positions; None if the length is unlimited."""
        return getattr(self.target.position, "max_length", None)


def check_lengths(source: int, target: int, positions: int | None) -> None:
    """Raises a ValueError if a sequence is longer than the learned positions."""
    if positions is not None and max(source, target) > positions:
        raise ValueError(
            "`source` and `max_length` must not exceed the positions that are "
            f"learned. Received: {source} tokens, max_length={target}, "
            f"{positions} positions"
        )


def check_tie(tie: Any, sizes: tuple[int, int]) -> None:
    """Raises a ValueError unless `tie` is valid for vocabularies of these sizes."""
    if tie not in TIES:
        raise ValueError(
            '`tie_embeddings` must be "all", "target" or None. '
            f"Received: tie_embeddings={tie!r}"
        )
    if tie == "all" and sizes[0] != sizes[1]:
        raise ValueError(
            '`tie_embeddings="all"` needs one vocabulary for source and target. '
            f"Received: source_vocabulary_size={sizes[0]}, "
            f"target_vocabulary_size={sizes[1]}"
        )
