"""Converts the config and the weights of GPT-2, of Hugging Face and KerasHub.

Shapes: D model width, H heads, E width of a head, V words of the vocabulary.
"""

from __future__ import annotations

import re
from typing import Any

from keras_attention.models.base.stored_tensors import Array
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
    hub_norm,
    norm,
    output_of_heads,
    sizes,
)

ENTRIES = ("vocab_size", "n_layer", "n_embd", "n_head", "n_inner", "n_positions")
SUPPORTED = {
    "scale_attn_weights": True,
    "scale_attn_by_inverse_layer_idx": False,
    "add_cross_attention": False,
    "quantization_config": None,
}
PREFIX = "transformer."
# Masks that older files store with the weights.
MASK = re.compile(r"h\.\d+\.attn\.(masked_)?bias")


def load(cls: Any, path: Path, **options: Any) -> Any:
    """Makes a `CausalLM` with the weights of a folder; see `CausalLM.from_gpt2`."""
    folder = open_folder(path)
    check_kind(folder, "gpt2", "GPT2Backbone")
    if folder.is_hub:
        config, recipes = _hub(folder)
        check_tensors(folder, recipes, lambda name: name.startswith("task/optimizer"))
    else:
        tensors = renamed(folder.tensors, lambda name: name.removeprefix(PREFIX))
        folder = folder._replace(tensors=tensors)
        config, recipes, is_tied = _hugging_face(folder)
        head = {"lm_head.weight"} if is_tied else set()
        check_tensors(
            folder, recipes, lambda name: name in head or bool(MASK.fullmatch(name))
        )
        check_copies(folder, [(name, "wte.weight") for name in head])
    model = cls(**config, **options)
    assign(model, folder, recipes)
    return model


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
        **hub_norm("final_norm", "layers/layer_normalization", size.dim),
    }


def _hugging_face(
    folder: WeightFolder,
) -> tuple[dict[str, Any], dict[str, Recipe], bool]:
    """Returns the arguments of the model, its recipes, and whether it is tied."""
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
    is_tied = bool(folder.entry("tie_word_embeddings", True))
    config["tie_embeddings"] = is_tied
    words = (size.vocabulary, size.dim)
    recipes = {
        "token_embedding/embeddings": Recipe({"wte.weight": words}),
        "token_embedding_position/embedding/embeddings": Recipe(
            {"wpe.weight": (size.positions, size.dim)}
        ),
        **norm("final_norm", "ln_f", size.dim),
    }
    if not is_tied:
        recipes["token_embedding/reverse_embeddings"] = Recipe(
            {"lm_head.weight": words}, lambda values: values.T
        )
    for n in range(size.layers):
        recipes |= _block(f"block_{n}", f"h.{n}", size)
    return config, recipes, is_tied


def _block(ours: str, stored: str, size: Sizes) -> dict[str, Recipe]:
    """Returns the recipes of a block, whose kernels are stored as (inputs, outputs)."""
    attention, dim = f"{ours}/self_attention", size.dim
    recipes = {
        **norm(f"{ours}/self_attention_norm", f"{stored}.ln_1", dim),
        **norm(f"{ours}/feedforward_norm", f"{stored}.ln_2", dim),
        **output_of_heads(
            f"{attention}/attention_output", f"{stored}.attn.c_proj", size
        ),
        **dense(f"{ours}/feedforward_in", f"{stored}.mlp.c_fc", (dim, size.inside)),
        **dense(f"{ours}/feedforward_out", f"{stored}.mlp.c_proj", (size.inside, dim)),
    }
    for n, name in enumerate(("query", "key", "value")):
        for part, shape in (("kernel", size.split), ("bias", size.split[1:])):
            kind = "weight" if part == "kernel" else "bias"
            whole = (*shape[:-2], 3 * dim)  # the three projections side by side
            recipes[f"{attention}/{name}/{part}"] = Recipe(
                {f"{stored}.attn.c_attn.{kind}": whole}, _third(n, shape)
            )
    return recipes


def _third(n: int, shape: tuple[int, ...]) -> Any:
    """Returns a function that takes the n-th third of the last axis, by heads."""

    def convert(values: Array) -> Array:
        width = values.shape[-1] // 3
        return values[..., n * width : (n + 1) * width].reshape(shape)

    return convert
