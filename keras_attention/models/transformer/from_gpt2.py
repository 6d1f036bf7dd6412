"""Converts the config and the weights of GPT-2, of Hugging Face and KerasHub.

Shapes: D model width, H heads, E width of a head, V words of the vocabulary.
"""

from __future__ import annotations

from typing import Any

from keras_attention.models.base.stored_tensors import Array
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
    CONV1D,
    HUB,
    HUB_ENTRIES,
    Sizes,
    arguments,
    hub_blocks,
    sizes,
)

ENTRIES = ("vocab_size", "n_layer", "n_embd", "n_head", "n_inner", "n_positions")
SUPPORTED = {
    "scale_attn_weights": True,
    "scale_attn_by_inverse_layer_idx": False,
    "add_cross_attention": False,
    "quantization_config": None,
}
PREFIX, HEAD = "transformer.", "lm_head.weight"
# Masks that older files store with the weights, and a copy of the embedding.
UNUSED = r"h\.\d+\.attn\.(masked_)?bias|lm_head\.weight"
BLOCK = {
    "self_attention/attention_output": "attn.c_proj",
    "feedforward_in": "mlp.c_fc",
    "feedforward_out": "mlp.c_proj",
    "self_attention_norm": "ln_1",
    "feedforward_norm": "ln_2",
}


def load(cls: Any, path: Path, **options: Any) -> Any:
    """Makes a `CausalLM` with the weights of a folder; see `CausalLM.from_gpt2`."""
    folder = open_folder(path)
    check_kind(folder, "gpt2", "GPT2Backbone")
    if folder.is_hub:
        config, recipes = _hub(folder)
    else:
        tensors = renamed(folder.tensors, lambda name: name.removeprefix(PREFIX))
        folder = folder._replace(tensors=tensors)
        config, recipes = _hugging_face(folder)
    unused = "task/optimizer.*" if folder.is_hub else UNUSED
    copies = [(HEAD, "wte.weight")] if config.get("tie_embeddings") else []
    return build(cls, folder, {**config, **options}, recipes, unused, copies)


def _hub(folder: WeightFolder) -> tuple[dict[str, Any], dict[str, Recipe]]:
    """Returns the arguments of the model and its recipes."""
    size = sizes(folder, HUB_ENTRIES)
    dropout = folder.number("dropout", 0.1)
    words = {"layers/reversible_embedding/vars/0": (size.vocabulary, size.dim)}
    positions = {"layers/position_embedding/vars/0": (size.positions, size.dim)}
    config = arguments(size, dropout, dropout, norm_first=True, epsilon=1e-5)
    return config, {
        "token_embedding/embeddings": Recipe(words),
        "token_embedding_position/embedding/embeddings": Recipe(positions),
        **hub_blocks("transformer_decoder", size),
        **HUB.norm("final_norm", "layers/layer_normalization", size.dim),
    }


def _hugging_face(folder: WeightFolder) -> tuple[dict[str, Any], dict[str, Recipe]]:
    """Returns the arguments of the model and its recipes."""
    folder.check_entries(SUPPORTED)
    size = sizes(folder, ENTRIES)
    dropout = folder.number("resid_pdrop", 0.1)
    folder.check_entries({"embd_pdrop": dropout})
    config = arguments(
        size,
        dropout,
        folder.number("attn_pdrop", 0.1),
        norm_first=True,
        activation=folder.one_of("activation_function", ACTIVATIONS, "gelu_new"),
        epsilon=folder.number("layer_norm_epsilon", 1e-5),
    )
    config["tie_embeddings"] = bool(folder.entry("tie_word_embeddings", True))
    words, positions = (size.vocabulary, size.dim), (size.positions, size.dim)
    recipes = {
        "token_embedding/embeddings": Recipe({"wte.weight": words}),
        "token_embedding_position/embedding/embeddings": Recipe(
            {"wpe.weight": positions}
        ),
        **CONV1D.norm("final_norm", "ln_f", size.dim),
    }
    if not config["tie_embeddings"]:
        recipes["token_embedding/reverse_embeddings"] = Recipe(
            {HEAD: words}, lambda values: values.T
        )
    for n in range(size.layers):
        recipes |= _block(f"block_{n}", f"h.{n}.", size)
    return config, recipes


def _block(ours: str, stored: str, size: Sizes) -> dict[str, Recipe]:
    """Returns the recipes of a block, with three projections stored side by side."""
    recipes = CONV1D.block(ours, stored, BLOCK, size)
    for n, name in enumerate(("query", "key", "value")):
        for part, kind, inputs in (
            ("kernel", "weight", (size.dim,)),
            ("bias", "bias", ()),
        ):
            recipes[f"{ours}/self_attention/{name}/{part}"] = Recipe(
                {f"{stored}attn.c_attn.{kind}": (*inputs, 3 * size.dim)},
                _third(n, (*inputs, *size.split[1:])),
            )
    return recipes


def _third(n: int, shape: tuple[int, ...]) -> Any:
    """Returns a function that takes the n-th third of the last axis, by heads."""

    def convert(values: Array) -> Array:
        width = values.shape[-1] // 3
        return values[..., n * width : (n + 1) * width].reshape(shape)

    return convert
