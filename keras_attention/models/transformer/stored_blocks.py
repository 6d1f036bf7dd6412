"""How the weights of our Transformer blocks are made from stored ones.

Shapes: D model width, H heads, E width of a head, F width inside the MLP.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from keras_attention.models.base.stored_tensors import Array
from keras_attention.models.base.weight_folder import Recipe, WeightFolder
from keras_attention.ops.activations import gelu_approximate

# The entries of a config of KerasHub, in the order of `Sizes`.
HUB_ENTRIES = (
    "vocabulary_size",
    "num_layers",
    "hidden_dim",
    "num_heads",
    "intermediate_dim",
    "max_sequence_length",
)
# By the names that configs of Hugging Face use.
ACTIVATIONS = {
    "gelu": "gelu",
    "gelu_new": gelu_approximate,
    "gelu_pytorch_tanh": gelu_approximate,
    "relu": "relu",
}
# Our sublayers, by their names in the blocks of KerasHub.
HUB_ATTENTION = {
    "query_dense": "query",
    "key_dense": "key",
    "value_dense": "value",
    "output_dense": "attention_output",
}


class Sizes(NamedTuple):
    """The sizes of a model."""

    vocabulary: int
    layers: int
    dim: int
    heads: int
    inside: int
    positions: int

    @property
    def split(self) -> tuple[int, int, int]:
        """The shape (D, H, E) of a projection to all heads."""
        return self.dim, self.heads, self.dim // self.heads


def sizes(folder: WeightFolder, names: tuple[str, ...]) -> Sizes:
    """Reads the sizes of a model from the config of a folder.

    Args:
        folder: the folder.
        names: the names of the entries, in the order of `Sizes`. The width inside the
            MLP defaults to 4 D.

    Raises:
        ValueError: if an entry is missing or no integer of at least 1, or the heads do
            not divide D.
    """
    dim = folder.size(names[2])
    default = {names[4]: 4 * dim}
    size = Sizes(*(folder.size(name, default.get(name)) for name in names))
    if dim % size.heads:
        raise folder.refusal(names[3], f"a divisor of {names[2]}={dim}", size.heads)
    return size


def arguments(
    size: Sizes, dropout: float, attention_dropout: float, **block: Any
) -> dict[str, Any]:
    """Returns the arguments of a model.

    Args:
        size: the sizes of the model.
        dropout: the dropout rate of the embeddings and of the sublayers' outputs.
        attention_dropout: the dropout rate of the attention weights.
        **block: further arguments of the blocks, in place of GELU by tanh.
    """
    return {
        "vocabulary_size": size.vocabulary,
        "num_layers": size.layers,
        "dim": size.dim,
        "num_heads": size.heads,
        "intermediate_dim": size.inside,
        "dropout": dropout,
        "max_length": size.positions,
        "block": {
            "activation": gelu_approximate,
            "attention": {"dropout": attention_dropout},
            **block,
        },
    }


def dense(
    ours: str, stored: str, shape: tuple[int, ...], transposed: bool = False
) -> dict[str, Recipe]:
    """Returns the recipes of a kernel and a bias that differ at most in their layout.

    Args:
        ours: the path of our layer.
        stored: the name of the stored layer.
        shape: (inputs, outputs).
        transposed: whether the kernel is stored as (outputs, inputs), as in torch.
    """
    stored_shape = shape[::-1] if transposed else shape
    turn = (lambda w: w.T) if transposed else (lambda w: w)
    return {
        f"{ours}/kernel": Recipe({f"{stored}.weight": stored_shape}, turn),
        f"{ours}/bias": Recipe({f"{stored}.bias": shape[1:]}),
    }


def norm(ours: str, stored: str, dim: int) -> dict[str, Recipe]:
    """Returns the recipes of a normalization."""
    return {
        f"{ours}/gamma": Recipe({f"{stored}.weight": (dim,)}),
        f"{ours}/beta": Recipe({f"{stored}.bias": (dim,)}),
    }


def output_of_heads(
    ours: str, stored: str, size: Sizes, transposed: bool = False
) -> dict[str, Recipe]:
    """Returns the recipes of the projection of all heads to the width of the model."""
    dim, heads, width = size.split

    def kernel(values: Array) -> Array:
        values = values.T if transposed else values
        return values.reshape(heads, width, dim)

    return {
        f"{ours}/kernel": Recipe({f"{stored}.weight": (dim, dim)}, kernel),
        f"{ours}/bias": Recipe({f"{stored}.bias": (dim,)}),
    }


def hub_pair(ours: str, stored: str, *shapes: tuple[int, ...]) -> dict[str, Recipe]:
    """Returns the recipes of a layer of KerasHub with two weights, such as a Dense.

    Args:
        ours: the path of our layer with the names of its weights: "norm/gamma+beta".
        stored: the path of the stored layer.
        *shapes: the shapes of the two weights.
    """
    layer, names = ours.rsplit("/", 1)
    return {
        f"{layer}/{name}": Recipe({f"{stored}/vars/{n}": shapes[n]})
        for n, name in enumerate(names.split("+"))
    }


def hub_norm(ours: str, stored: str, dim: int) -> dict[str, Recipe]:
    """Returns the recipes of a normalization of KerasHub."""
    return hub_pair(f"{ours}/gamma+beta", stored, (dim,), (dim,))


def hub_dense(ours: str, stored: str, shape: tuple[int, int]) -> dict[str, Recipe]:
    """Returns the recipes of a Dense layer of KerasHub, of shape (inputs, outputs)."""
    return hub_pair(f"{ours}/kernel+bias", stored, shape, shape[1:])


def hub_blocks(stored: str, size: Sizes) -> dict[str, Recipe]:
    """Returns the recipes of all blocks of a model of KerasHub.

    Args:
        stored: the name of the first stored block, such as "transformer_decoder".
        size: the sizes of the model.
    """
    dim, heads, width = size.split
    recipes: dict[str, Recipe] = {}
    for n in range(size.layers):
        block, hub = f"block_{n}", f"layers/{stored}" + (f"_{n}" if n else "")
        attention = f"{hub}/_self_attention_layer"
        for theirs, ours in HUB_ATTENTION.items():
            shapes: tuple = ((dim, heads, width), (heads, width))
            if ours == "attention_output":
                shapes = ((heads, width, dim), (dim,))
            path = f"{block}/self_attention/{ours}/kernel+bias"
            recipes |= hub_pair(path, f"{attention}/{theirs}", *shapes)
        first, second = f"{hub}/_feedforward_intermediate_dense", (dim, size.inside)
        recipes |= hub_dense(f"{block}/feedforward_in", first, second)
        last = f"{hub}/_feedforward_output_dense"
        recipes |= hub_dense(f"{block}/feedforward_out", last, second[::-1])
        for name in ("self_attention", "feedforward"):
            recipes |= hub_norm(
                f"{block}/{name}_norm", f"{hub}/_{name}_layer_norm", dim
            )
    return recipes
