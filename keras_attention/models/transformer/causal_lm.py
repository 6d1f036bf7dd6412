"""A causal language model, as in GPT.

Shapes: B batch, T tokens, P positions for prompts, D model width, V vocabulary.
"""

from __future__ import annotations

from typing import Any, ClassVar

import keras
import numpy as np
from keras import ops

from keras_attention.layers.base.serialization import export
from keras_attention.models.base.configured_model import ConfiguredModel
from keras_attention.models.base.generation import ContinuesPrompts
from keras_attention.models.base.strings import Completes
from keras_attention.models.base.weight_folder import Path
from keras_attention.models.transformer.backbone import Architecture, Backbone
from keras_attention.models.transformer.pretrained import load_gpt2
from keras_attention.numerics import masks
from keras_attention.ops.sequence import decoding

Tensor = Any
BLOCK: dict[str, Any] = {"norm_first": True, "activation": "gelu"}


@export
class CausalLM(Completes, ContinuesPrompts, ConfiguredModel):
    """A language model that predicts the next token at each position.

        x₀ = dropout(E[y] + p)
        xₗ = block(xₗ₋₁), in which position t attends only to 0 … t
        p(yₜ₊₁ | y₀ … yₜ) = softmax(E norm(x_L))

    With "sinusoidal" positions, the embedding is √D E[y] instead of E[y]. Blocks
    without `norm_first` end with a normalization; x_L is then not normalized again.

    Train the model with sequences as inputs and the same sequences, shifted by one
    token, as labels. The loss `SparseCategoricalCrossentropy(from_logits=True,
    ignore_class=0)` ignores padding.

    Args:
        vocabulary_size: V, the number of tokens, including padding.
        num_layers: the number of blocks.
        dim: D, the width of the model.
        num_heads: the number of heads of each block's attention; defaults to 8. Must be
            None if `attention` is a layer.
        intermediate_dim: the width of the hidden layer of each block's MLP.
        dropout: the dropout rate of the embedding and of each sublayer's output.
        position: "learned" or "sinusoidal" (added to the embedding); "rotary", "alibi"
            or "relative" (in each attention); a position layer; or None. A layer is
            copied for each use; the copies have separate weights.
        max_length: the number of learned positions. A prompt and the tokens that
            `generate` adds to it must not exceed this number. The `max_length` of
            `generate` is different: it is the number of generated tokens.
        tie_embeddings: whether the output projection uses the embedding matrix.
        block: further arguments of the blocks, see `TransformerEncoderBlock`. They
            override the defaults of GPT, {"norm_first": True, "activation": "gelu"}.
            For instance, use {"normalization": "rms", "gated": True, "activation":
            "silu", "attention": {"num_key_value_heads": 2, "sliding_window": 256}}.
        attention: an attention layer that replaces multi-head attention: any layer of
            this package, or a Keras layer that is called like Keras' attention layers.
            Its output must have the width of its queries. It must not be built: each
            block creates a new layer from its config.
        pad_token_id: the token that is padding, 0 by default. With None, no token is
            padding, as in GPT-2, in which 0 is "!": prompts of unequal length are then
            given to `generate` as lists.

    Inputs: a dict of
        tokens: int32 (B, T), with padding after the sequence.

    Unlike `generate`, a call does not check the tokens. A token outside the vocabulary
    gives NaN on JAX and a backend error on the other backends.

    Returns:
        Logits (B, T, V).

    Masking:
        A token does not attend to later tokens. Padding therefore only affects the
        logits at padding, which are meaningless.

    Raises:
        ValueError: for sizes below 1; heads that do not divide D; a dropout outside [0,
            1); an unknown position; arguments that a block does not have; an
            `attention` that is not an attention layer, is built, or is given together
            with `num_heads`; a `pad_token_id` that is no integer or outside the
            vocabulary; or, in a call, more tokens than learned positions. Calls also
            raise it for ids in NumPy arrays that are below 0 or not below the number of
            ids.

    Example:

    >>> import numpy as np
    >>> from keras_attention.models import CausalLM
    >>> model = CausalLM(11, num_layers=2, dim=8, num_heads=2, intermediate_dim=16)
    >>> prompts = np.array([[5, 6, 7], [8, 0, 0]])
    >>> model.generate({"tokens": prompts}, max_length=4).shape
    (2, 4)

    Reference:
        Radford et al., "Improving language understanding by generative pre-training"
        (2018); normalization before each sublayer and after the last block: Radford et
        al., "Language models are unsupervised multitask learners" (2019), section 2.3;
        tied embeddings: Press & Wolf, "Using the output embedding to improve language
        models" (2017).
    """

    id_sizes: ClassVar[dict[str, str]] = {"tokens": "vocabulary_size"}

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
        pad_token_id: int | None = 0,
        dtype: Any = None,
        **kwargs: Any,
    ) -> None:
        architecture = Architecture(locals(), **BLOCK)
        if pad_token_id is not None:
            is_integer = isinstance(pad_token_id, (int, np.integer))
            if not is_integer or isinstance(pad_token_id, bool):
                raise ValueError(
                    "`pad_token_id` must be an integer or None. "
                    f"Received: {pad_token_id=}"
                )
            decoding.check_tokens("pad_token_id", pad_token_id, vocabulary_size)
        num_heads = architecture.num_heads
        backbone = Backbone(
            architecture.embedding(
                vocabulary_size, max_length=max_length, tied=tie_embeddings
            ),
            [architecture.encoder(f"block_{n}") for n in range(num_layers)],
            norm="final_norm",
        )

        def read(tokens: Tensor, segment_ids: Tensor | None = None) -> Tensor:
            hidden = backbone(tokens, segment_ids=segment_ids, use_causal_mask=True)
            return backbone.logits(hidden)  # (B, T, V)

        tokens = keras.Input((None,), dtype="int32", name="tokens")  # (B, T)
        super().__init__({"tokens": tokens}, read(tokens), locals())
        self._backbone = backbone
        self._read = read  # for `PackedModel`

    @classmethod
    def from_gpt2(
        cls, path: Path, pad_token_id: int | None = None, dtype: Any = None
    ) -> Any:
        """Loads the weights of GPT-2, of Hugging Face or KerasHub, from a folder.

        The model gives the same numbers as `transformers.GPT2LMHeadModel` and
        `keras_hub.models.GPT2CausalLM`.

        Reading needs neither package, and nothing is downloaded. The tokenizer is not
        read: give the model the ids of the tokenizer that belongs to the weights.

        Args:
            path: a folder. Of Hugging Face, it has `config.json` and
                `model.safetensors`, or `model.safetensors.index.json` and the files
                that it names. Of KerasHub, it was written by `save_to_preset`.
            pad_token_id: the token that is padding. By default, no token is padding,
                since all tokens of GPT-2 are words.
            dtype: the dtype policy of the model. The weights are converted to it.

        Returns:
            A new `CausalLM`. Its dropout rates are those of the config.

        Raises:
            ValueError: for a folder that is not there, or has another model or format,
                such as pickled weights; an entry of the config that this model cannot
                follow; tensors that are missing, have another shape, or have no place
                in the model; or a damaged file.

        Example:

        ```python
        model = CausalLM.from_gpt2("gpt2")
        prompts = tokenizer(["A memory network", "In short,"])["input_ids"]
        ids = model.generate(prompts, max_length=20, stop_token_ids=50256)
        print(tokenizer.batch_decode(ids, skip_special_tokens=True))
        ```
        """
        return load_gpt2(cls, path, pad_token_id=pad_token_id, dtype=dtype)

    @property
    def positions(self) -> int | None:
        """The number of learned positions; None if the length is unlimited."""
        return self._backbone.positions

    def begin(
        self, inputs: dict[str, Tensor], length: int
    ) -> tuple[list[Any], dict[str, Tensor]]:
        """Processes all tokens of each prompt except the last one.

        The prompts are aligned to end at position P.

        Args:
            inputs: {"tokens": (B, P), padded at the end, "length": (B,) of each
                prompt}.
            length: the maximum total number of tokens per row, including the P
                positions.

        Returns:
            The caches of the blocks, which `next` updates, and the read-only arguments
            of `next`.
        """
        tokens = ops.cast(inputs["tokens"], "int32")  # (B, P)
        count = ops.shape(tokens)[1]
        gap = count - ops.cast(inputs["length"], "int32")[:, None]  # (B, 1)
        column = masks.positions(count - 1)[None]
        is_valid = column >= gap  # (B, P - 1)
        x = self._backbone.embedding(tokens)
        source = ops.where(is_valid, column - gap, 0)
        x = ops.take_along_axis(x, source[:, :, None], axis=1)  # (B, P - 1, D)
        caches = []
        for block in self._backbone.blocks:
            score = getattr(block.self_attention, "score", None)
            if getattr(score, "uses_positions", False):
                raise ValueError(
                    "`attention` must not use the positions of keys to generate: the "
                    f"padding of shorter prompts shifts them. Received: {score=}"
                )
            cache = block.initial_cache(ops.shape(tokens)[0], length)
            x, cache = block.step(x, cache, 0, mask=is_valid)
            caches.append(cache)
        return caches, {"gap": gap}

    def next(
        self, prompt: Tensor, cache: list[Any], index: Any, static: dict[str, Tensor]
    ) -> tuple[Tensor, Tensor, list[Any]]:
        token = decoding.read(prompt, index - 1)  # (B,)
        position = index - 1 - static["gap"]
        hidden, cache = self._backbone.step(token, position, cache, index - 1)
        return self._backbone.logits(hidden), hidden, cache
