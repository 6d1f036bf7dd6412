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
    assign,
    check_copies,
    check_kind,
    check_tensors,
    open_folder,
    renamed,
)
from keras_attention.models.transformer.stored_blocks import (
    ACTIVATIONS,
    HUB_ENTRIES,
    Sizes,
    arguments,
    dense,
    hub_blocks,
    hub_dense,
    hub_norm,
    norm,
    output_of_heads,
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
# The second task of BERT, and numbers 0, 1, 2 … that older files store.
UNUSED = re.compile(
    r"bert\.pooler\..*|cls\.seq_relationship\..*|bert\.embeddings\.position_ids"
)
HUB_POOLER, HUB_HEAD = "layers/dense/", "task/layers/masked_lm_head"


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
    convert = _hub if folder.is_hub else _hugging_face
    config, recipes = convert(folder, has_head, dtype)
    # Without a head, the weights of a task are those of another one.
    hub_unused = (HUB_POOLER, "task/optimizer" if has_head else "task/")
    check_tensors(
        folder,
        recipes,
        (lambda name: name.startswith(hub_unused)) if folder.is_hub else _is_unused,
    )
    if config.get("tie_embeddings"):
        copies = [(f"{DECODER}.weight", WORDS), (f"{DECODER}.bias", BIAS)]
        check_copies(folder, copies)
    model = cls(**config, dtype=dtype)
    assign(model, folder, recipes)
    return model


def _renamed(tensors: dict[str, StoredTensor]) -> dict[str, StoredTensor]:
    """Returns the tensors under the names that `BertForMaskedLM` gives them now."""
    has_prefix = any(name.startswith("bert.") for name in tensors)

    def rename(name: str) -> str:
        is_inner = not has_prefix and not name.startswith("cls.")
        new = f"bert.{name}" if is_inner else name
        new = re.sub(r"LayerNorm\.gamma$", "LayerNorm.weight", new)
        return re.sub(r"LayerNorm\.beta$", "LayerNorm.bias", new)

    return renamed(tensors, rename)


def _is_unused(name: str) -> bool:
    # Copies of weights that the model has once, which `check_copies` compares.
    is_copy = name in (f"{DECODER}.weight", f"{DECODER}.bias", BIAS)
    return is_copy or UNUSED.fullmatch(name) is not None


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
        **hub_norm("embedding_norm", "layers/layer_normalization", dim),
        **hub_blocks("transformer_encoder", size),
    }
    if has_head:
        recipes |= {
            **hub_dense("head/dense", f"{HUB_HEAD}/_intermediate_dense", (dim, dim)),
            **hub_norm("head/norm", f"{HUB_HEAD}/_intermediate_layer_norm", dim),
            "logits/bias": Recipe({f"{HUB_HEAD}/vars/0": (size.vocabulary,)}),
        }
    return config, recipes


def _hugging_face(
    folder: WeightFolder, has_head: bool, dtype: Any
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
    is_tied = bool(folder.entry("tie_word_embeddings", True))
    config["tie_embeddings"] = is_tied
    positions = f"{EMBEDDINGS}.position_embeddings.weight"
    segments = f"{EMBEDDINGS}.token_type_embeddings.weight"
    recipes = {
        "token_embedding/embeddings": Recipe({WORDS: (size.vocabulary, dim)}),
        "token_embedding_position/embedding/embeddings": _positions(
            positions, segments, size, kinds
        ),
        **norm("embedding_norm", f"{EMBEDDINGS}.LayerNorm", dim),
    }
    for n in range(size.layers):
        recipes |= _block(f"block_{n}", f"bert.encoder.layer.{n}", size)
    if has_head:
        recipes |= _head(folder, size, is_tied)
    return config, recipes


def _head(folder: WeightFolder, size: Sizes, is_tied: bool) -> dict[str, Recipe]:
    """Returns the recipes of the head."""
    transform, dim = "cls.predictions.transform", size.dim
    bias = f"{DECODER}.bias"  # the one that is used where both are stored
    bias = bias if bias in folder.tensors else BIAS
    recipes = {
        **dense("head", f"{transform}.dense", (dim, dim), transposed=True),
        **norm("head_norm", f"{transform}.LayerNorm", dim),
        "logits/bias": Recipe({bias: (size.vocabulary,)}),
    }
    if not is_tied:
        decoder = {f"{DECODER}.weight": (size.vocabulary, dim)}
        recipes["token_embedding/reverse_embeddings"] = Recipe(
            decoder, lambda values: values.T
        )
    return recipes


def _block(ours: str, stored: str, size: Sizes) -> dict[str, Recipe]:
    """Returns the recipes of a block, whose kernels are stored as (outputs, inputs)."""
    dim, inside = size.dim, size.inside
    attention, theirs = f"{ours}/self_attention", f"{stored}.attention"
    recipes = {
        **norm(f"{ours}/self_attention_norm", f"{theirs}.output.LayerNorm", dim),
        **norm(f"{ours}/feedforward_norm", f"{stored}.output.LayerNorm", dim),
        **output_of_heads(
            f"{attention}/attention_output", f"{theirs}.output.dense", size, True
        ),
        **dense(
            f"{ours}/feedforward_in",
            f"{stored}.intermediate.dense",
            (dim, inside),
            transposed=True,
        ),
        **dense(
            f"{ours}/feedforward_out",
            f"{stored}.output.dense",
            (inside, dim),
            transposed=True,
        ),
    }
    for name in ("query", "key", "value"):
        layer = f"{theirs}.self.{name}"
        recipes[f"{attention}/{name}/kernel"] = Recipe(
            {f"{layer}.weight": (dim, dim)}, lambda w: w.T.reshape(size.split)
        )
        recipes[f"{attention}/{name}/bias"] = Recipe(
            {f"{layer}.bias": (dim,)}, lambda b: b.reshape(size.split[1:])
        )
    return recipes
