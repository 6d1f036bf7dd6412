"""A masked language model, as in BERT.

Shapes: B batch, T tokens, P positions to predict, D model width, V vocabulary.
"""

from __future__ import annotations

from functools import partial
from typing import Any, ClassVar

import keras
from keras import ops

from keras_attention.layers.base.checked import check_ids
from keras_attention.layers.base.serialization import export
from keras_attention.layers.transformer.blocks import norm_like
from keras_attention.models.base.configured_model import ConfiguredModel
from keras_attention.models.base.strings import FillsBlanks
from keras_attention.models.base.weight_folder import Path
from keras_attention.models.transformer.backbone import Architecture, Backbone
from keras_attention.models.transformer.pretrained import load_bert

Tensor = Any
BLOCK: dict[str, Any] = {"activation": "gelu"}


@export
class MaskedLM(FillsBlanks, ConfiguredModel):
    """A language model that predicts hidden tokens.

        x₀ = dropout(norm(E[y] + p))
        xₗ = block(xₗ₋₁), in which each position attends to all positions
        h  = norm(f(W x_L + b))                      at the positions to predict
        p(word) = softmax(E h + c)

    With "sinusoidal" positions, the embedding is √D E[y] instead of E[y]. With
    `norm_first`, x_L is normalized instead of the embedding.

    `keras_attention.text.TokenMasking` creates inputs, labels and weights from
    sequences. The loss is `SparseCategoricalCrossentropy(from_logits=True)`.

    Args:
        vocabulary_size: V, the number of tokens, including padding 0 and the mask
            token.
        num_layers: the number of blocks.
        dim: D, the width of the model.
        num_heads: the number of heads of each block's attention; defaults to 8. Must be
            None if `attention` is a layer.
        intermediate_dim: the width of the hidden layer of each block's MLP.
        dropout: the dropout rate of the embedding and of each sublayer's output.
        position: "learned" or "sinusoidal" (added to the embedding); "rotary", "alibi"
            or "relative" (in each attention); a position layer; or None. A layer is
            copied for each use; the copies have separate weights.
        max_length: the number of learned positions.
        tie_embeddings: whether the output projection uses the embedding matrix.
        block: further arguments of the blocks, see `TransformerEncoderBlock`. They
            override the default of BERT, {"activation": "gelu"}. The activation f is
            the activation of the blocks.
        attention: an attention layer that replaces multi-head attention: any layer of
            this package, or a Keras layer that is called like Keras' attention layers.
            Its output must have the width of its queries. It must not be built: each
            block creates a new layer from its config.
        head: a layer, such as a `keras.Sequential`, that computes h in place of
            norm(f(W x_L + b)), from (B, P, D) to (B, P, D).

    Inputs: a dict of
        tokens: int32 (B, T), 0 for padding after the sequence.
        mask_positions: int32 (B, P), the positions to predict, at least 0 and below T.

    A call does not check the inputs. A token outside the vocabulary gives NaN on JAX
    and a backend error on the other backends. A position that is not below T has the
    same effect, except on torch, where it gives the logits of another position.
    `TokenMasking` only returns positions below T.

    Returns:
        Logits (B, P, V).

    Masking:
        Tokens never attend to padding. The amount of padding has no effect.

    Raises:
        ValueError: for sizes below 1; heads that do not divide D; a dropout outside [0,
            1); an unknown position; arguments that a block does not have; an
            `attention` that is not an attention layer, is built, or is given together
            with `num_heads`; a `head` that is not a layer or returns another width than
            D; or, in a call, more tokens than learned positions. Calls
            also raise it for ids in NumPy arrays that are below 0 or not below the
            number of ids.

    Example:

    >>> import numpy as np
    >>> from keras_attention.models import MaskedLM
    >>> model = MaskedLM(11, num_layers=2, dim=8, num_heads=2, intermediate_dim=16)
    >>> tokens = np.array([[5, 10, 7, 8], [10, 9, 0, 0]])
    >>> gaps = np.array([[1], [0]])
    >>> tuple(model({"tokens": tokens, "mask_positions": gaps}).shape)
    (2, 1, 11)

    Reference:
        Devlin et al., "BERT: pre-training of deep bidirectional Transformers for
        language understanding" (2019), section 3.1. The second task and the segments
        are left out, as in Liu et al., "RoBERTa" (2019).
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
        max_length: int = 512,
        tie_embeddings: bool = True,
        block: dict[str, Any] | None = None,
        attention: Any = None,
        head: Any = None,
        dtype: Any = None,
        **kwargs: Any,
    ) -> None:
        architecture = Architecture(locals(), **BLOCK)
        num_heads = architecture.num_heads
        blocks = [architecture.encoder(f"block_{n}") for n in range(num_layers)]
        norm = partial(norm_like, blocks[0])
        embedding = architecture.embedding(
            vocabulary_size,
            max_length=max_length,
            tied=tie_embeddings,
            normalization=None if blocks[0].norm_first else norm("embedding_norm"),
        )
        backbone = Backbone(embedding, blocks, norm="final_norm")
        if head is None:
            dense = keras.layers.Dense(
                dim, activation=blocks[0].activation, dtype=dtype, name="head"
            )
            head_norm = norm("head_norm")
        elif not isinstance(head, keras.layers.Layer):
            raise ValueError(
                f"`head` must be a Keras layer or None. Received: head={head!r}"
            )
        bias = _Bias(dtype=dtype, name="logits")

        def read(
            tokens: Tensor, mask_positions: Tensor, segment_ids: Tensor | None = None
        ) -> Tensor:
            mask = ops.not_equal(tokens, 0)
            x = backbone(tokens, segment_ids=segment_ids, mask=mask)  # (B, T, D)
            indices = ops.expand_dims(mask_positions, 2)
            x = ops.take_along_axis(x, indices, axis=1)  # (B, P, D)
            hidden = head_norm(dense(x)) if head is None else head(x)
            if hidden.shape[-1] != dim:
                raise ValueError(
                    f"`head` must return the width of the model, {dim}. Received: "
                    f"head={head!r}, which returns the width {hidden.shape[-1]}"
                )
            return bias(backbone.logits(hidden))  # (B, P, V)

        inputs = {
            name: keras.Input((None,), dtype="int32", name=name)
            for name in ("tokens", "mask_positions")  # (B, T), (B, P)
        }
        super().__init__(inputs, read(**inputs), locals())
        self._read = read  # for `PackedModel`

    @classmethod
    def from_bert(cls, path: Path, new_head: bool = False, dtype: Any = None) -> Any:
        """Loads the weights of BERT, of Hugging Face or KerasHub, from a folder.

        The model gives the same numbers as `transformers.BertForMaskedLM` and
        `keras_hub.models.BertMaskedLM`, for one sentence, whose segment ids are all 0.
        The vector of segment 0 is added to the positions, and the model has no other
        segments, so a pair of sentences is read as one. The pooled output and the head
        for the next sentence are left out.

        Reading needs neither package, and nothing is downloaded. The tokenizer is not
        read: give the model the ids of the tokenizer that belongs to the weights. Its
        padding must have the id 0.

        Args:
            path: a folder. Of Hugging Face, it has `config.json` and
                `model.safetensors`, or `model.safetensors.index.json` and the files
                that it names. Of KerasHub, it was written by `save_to_preset`.
            new_head: whether the model may get a head with random weights, to be
                trained, if the folder has none. A KerasHub folder of a `BertBackbone`
                and a Hugging Face folder of a `BertModel` have none.
            dtype: the dtype policy of the model. The weights are converted to it.

        Returns:
            A new `MaskedLM`. Its dropout rates are those of the config.

        Raises:
            ValueError: for a folder that is not there, or has another model or format,
                such as pickled weights; an entry of the config that this model cannot
                follow; tensors that are missing, have another shape, or have no place
                in the model; no head, without `new_head`; or a damaged file.

        Example:

        ```python
        model = MaskedLM.from_bert("bert-base-uncased")
        ids = np.array([tokenizer("Paris is the [MASK] of France.")["input_ids"]])
        gaps = np.argwhere(ids == tokenizer.mask_token_id)[:, 1:]  # one in each row
        logits = model.predict({"tokens": ids, "mask_positions": gaps})
        ```
        """
        return load_bert(cls, path, new_head, dtype)

    def check_given(self, given: dict[str, Any]) -> None:
        super().check_given(given)
        tokens, positions = given.get("tokens"), given.get("mask_positions")
        if positions is not None and tokens is not None and len(tokens.shape) > 1:
            check_ids("mask_positions", positions, tokens.shape[1])


class _Bias(keras.layers.Layer):
    """Adds a learned bias per word to the logits (..., V)."""

    def build(self, logits_shape: Any) -> None:
        self.bias = self.add_weight(
            shape=(logits_shape[-1],), initializer="zeros", name="bias"
        )
        self.built = True

    def call(self, logits: Tensor) -> Tensor:
        return logits + ops.cast(self.bias, logits.dtype)

    def compute_output_shape(self, logits_shape: Any) -> tuple:
        return tuple(logits_shape)
