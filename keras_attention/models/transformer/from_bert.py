"""Converts the config and the weights of BERT, of Hugging Face and KerasHub.

Shapes: D model width, H heads, E width of a head, V words of the vocabulary.
"""

from __future__ import annotations

import re
from typing import Any

import keras

from keras_attention.models.base.stored_tensors import Array, StoredTensor
from keras_attention.models.base.weight_folder import (
    Path,
    Recipe,
    WeightFolder,
    build,
    check_kind,
    open_folder,
    renamed,
)
from keras_attention.models.transformer.stored_blocks import (
    ACTIVATIONS,
    HUB,
    HUB_ENTRIES,
    TORCH,
    Sizes,
    arguments,
    hub_blocks,
    sizes,
)

ENTRIES = (
    "vocab_size",
    "num_hidden_layers",
    "hidden_size",
    "num_attention_heads",
    "intermediate_size",
    "max_position_embeddings",
)
SUPPORTED = {
    "position_embedding_type": "absolute",
    "is_decoder": False,
    "add_cross_attention": False,
    "pad_token_id": 0,
    "quantization_config": None,
}
EMBEDDINGS, DECODER = "bert.embeddings", "cls.predictions.decoder"
WORDS, BIAS = f"{EMBEDDINGS}.word_embeddings.weight", "cls.predictions.bias"
# The second task of BERT, numbers 0, 1, 2 … that older files store, and weights that
# the model has once: the head's copy of the embedding, and one of two equal biases.
UNUSED = (
    r"bert\.pooler\..*|cls\.seq_relationship\..*|bert\.embeddings\.position_ids"
    r"|cls\.predictions\.(decoder\.weight|decoder\.bias|bias)"
)
BLOCK = {
    "self_attention/query": "attention.self.query",
    "self_attention/key": "attention.self.key",
    "self_attention/value": "attention.self.value",
    "self_attention/attention_output": "attention.output.dense",
    "feedforward_in": "intermediate.dense",
    "feedforward_out": "output.dense",
    "self_attention_norm": "attention.output.LayerNorm",
    "feedforward_norm": "output.LayerNorm",
}
HUB_HEAD = "task/layers/masked_lm_head"


def load(cls: Any, path: Path, new_head: bool, dtype: Any) -> Any:
    """Makes a `MaskedLM` with the weights of a folder; see `MaskedLM.from_bert`."""
    folder = open_folder(path)
    check_kind(folder, "bert", "BertBackbone")
    if folder.is_hub:
        head_name = f"{HUB_HEAD}/vars/0"
    else:
        folder = folder._replace(tensors=_renamed(folder.tensors))
        head_name = "cls.predictions.transform.dense.weight"
    has_head = head_name in folder.tensors
    if not has_head and not new_head:
        raise ValueError(
            "The folder must hold a masked-language-model head, or `new_head` must be "
            "True, which gives the model a head with random weights. Received: "
            f"{str(folder.path)!r}, a {folder.kind} without {head_name!r}"
        )
    if folder.is_hub:
        config, recipes = _hub(folder, has_head, dtype)
        # The pooler; without a head, the weights of a task are those of another one.
        unused = f"layers/dense/.*|task/{'optimizer' if has_head else ''}.*"
    else:
        (config, recipes), unused = _hugging_face(folder, has_head), UNUSED
    tied = [(f"{DECODER}.weight", WORDS), (f"{DECODER}.bias", BIAS)]
    copies = tied if config.get("tie_embeddings") else []
    return build(cls, folder, {**config, "dtype": dtype}, recipes, unused, copies)


def _renamed(tensors: dict[str, StoredTensor]) -> dict[str, StoredTensor]:
    """Returns the tensors under the names that `BertForMaskedLM` gives them now."""
    has_prefix = any(name.startswith("bert.") for name in tensors)

    def rename(name: str) -> str:
        is_inner = not has_prefix and not name.startswith("cls.")
        new = f"bert.{name}" if is_inner else name
        new = re.sub(r"LayerNorm\.gamma$", "LayerNorm.weight", new)
        return re.sub(r"LayerNorm\.beta$", "LayerNorm.bias", new)

    return renamed(tensors, rename)


def _positions(name: str, segments: str, size: Sizes, kinds: int) -> Recipe:
    """Returns the recipe of p + s₀, the positions with the vector of segment 0."""

    def convert(positions: Array, rows: Array) -> Array:
        return positions + rows[:1]

    shapes = {name: (size.positions, size.dim), segments: (kinds, size.dim)}
    return Recipe(shapes, convert)


def _hub(
    folder: WeightFolder, has_head: bool, dtype: Any
) -> tuple[dict[str, Any], dict[str, Recipe]]:
    """Returns the arguments of the model and its recipes."""
    size, kinds = sizes(folder, HUB_ENTRIES), folder.size("num_segments", 2)
    dim, dropout = size.dim, folder.number("dropout", 0.1)
    config = arguments(size, dropout, dropout, epsilon=1e-12)
    # The head of KerasHub has another activation and ε than the blocks.
    config["head"] = keras.Sequential(
        [
            keras.layers.Dense(dim, activation="gelu", dtype=dtype, name="dense"),
            keras.layers.LayerNormalization(epsilon=1e-5, dtype=dtype, name="norm"),
        ],
        name="head",
    )
    words = {"layers/reversible_embedding/vars/0": (size.vocabulary, dim)}
    positions, segments = "layers/position_embedding", "layers/embedding"
    recipes = {
        "token_embedding/embeddings": Recipe(words),
        "token_embedding_position/embedding/embeddings": _positions(
            f"{positions}/vars/0", f"{segments}/vars/0", size, kinds
        ),
        **HUB.norm("embedding_norm", "layers/layer_normalization", dim),
        **hub_blocks("transformer_encoder", size),
    }
    if has_head:
        recipes |= {
            **HUB.dense("head/dense", f"{HUB_HEAD}/_intermediate_dense", (dim, dim)),
            **HUB.norm("head/norm", f"{HUB_HEAD}/_intermediate_layer_norm", dim),
            "logits/bias": Recipe({f"{HUB_HEAD}/vars/0": (size.vocabulary,)}),
        }
    return config, recipes


def _hugging_face(
    folder: WeightFolder, has_head: bool
) -> tuple[dict[str, Any], dict[str, Recipe]]:
    """Returns the arguments of the model and its recipes."""
    folder.check_entries(SUPPORTED)
    size, kinds = sizes(folder, ENTRIES), folder.size("type_vocab_size", 2)
    dim = size.dim
    dropout = folder.number("hidden_dropout_prob", 0.1)
    config = arguments(
        size,
        dropout,
        folder.number("attention_probs_dropout_prob", 0.1),
        activation=folder.one_of("hidden_act", ACTIVATIONS, "gelu"),
        epsilon=folder.number("layer_norm_eps", 1e-12),
    )
    config["tie_embeddings"] = bool(folder.entry("tie_word_embeddings", True))
    positions = f"{EMBEDDINGS}.position_embeddings.weight"
    segments = f"{EMBEDDINGS}.token_type_embeddings.weight"
    recipes = {
        "token_embedding/embeddings": Recipe({WORDS: (size.vocabulary, dim)}),
        "token_embedding_position/embedding/embeddings": _positions(
            positions, segments, size, kinds
        ),
        **TORCH.norm("embedding_norm", f"{EMBEDDINGS}.LayerNorm", dim),
    }
    for n in range(size.layers):
        recipes |= TORCH.block(f"block_{n}", f"bert.encoder.layer.{n}.", BLOCK, size)
    if has_head:
        recipes |= _head(folder, size, config["tie_embeddings"])
    return config, recipes


def _head(folder: WeightFolder, size: Sizes, is_tied: bool) -> dict[str, Recipe]:
    """Returns the recipes of the head."""
    transform, dim = "cls.predictions.transform", size.dim
    bias = f"{DECODER}.bias"  # the one that is used where both are stored
    bias = bias if bias in folder.tensors else BIAS
    recipes = {
        **TORCH.dense("head", f"{transform}.dense", (dim, dim)),
        **TORCH.norm("head_norm", f"{transform}.LayerNorm", dim),
        "logits/bias": Recipe({bias: (size.vocabulary,)}),
    }
    if not is_tied:
        decoder = {f"{DECODER}.weight": (size.vocabulary, dim)}
        recipes["token_embedding/reverse_embeddings"] = Recipe(
            decoder, lambda values: values.T
        )
    return recipes
