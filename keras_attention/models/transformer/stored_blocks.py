"""How the weights of our Transformer blocks are made from stored ones.

Shapes: D model width, H heads, E width of a head, F width inside the MLP.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

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
# The sublayers of a block of KerasHub, by the names of ours.
HUB_BLOCK = {
    "self_attention/query": "_self_attention_layer/query_dense",
    "self_attention/key": "_self_attention_layer/key_dense",
    "self_attention/value": "_self_attention_layer/value_dense",
    "self_attention/attention_output": "_self_attention_layer/output_dense",
    "feedforward_in": "_feedforward_intermediate_dense",
    "feedforward_out": "_feedforward_output_dense",
    "self_attention_norm": "_self_attention_layer_norm",
    "feedforward_norm": "_feedforward_layer_norm",
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

    `names` are the entries in the order of `Sizes`; the width inside the MLP defaults
    to 4 D. A missing or unfit entry raises a ValueError.
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
    """Returns the arguments of a model; `block` has those that replace the defaults."""
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


class Layout(NamedTuple):
    """How files store the two weights of a layer."""

    names: tuple[str, str]  # of the kernel and the bias, behind the name of the layer
    is_flat: bool = False  # whether kernels are matrices, and biases vectors
    is_transposed: bool = False  # whether kernels have the outputs first, as in torch

    def dense(
        self, ours: str, stored: str, shape: tuple[int, ...], inputs: int = 1
    ) -> dict[str, Recipe]:
        """Returns the recipes of a kernel and a bias.

        `shape` is that of our kernel, whose first axes are the `inputs`.
        """
        kernel, bias = shape, shape[inputs:]
        if self.is_flat:
            kernel, bias = (
                (math.prod(shape[:inputs]), math.prod(bias)),
                (math.prod(bias),),
            )
        turned = self.is_transposed
        return {
            f"{ours}/kernel": Recipe(
                {stored + self.names[0]: kernel[::-1] if turned else kernel},
                lambda w: (w.T if turned else w).reshape(shape),
            ),
            f"{ours}/bias": Recipe(
                {stored + self.names[1]: bias}, lambda b: b.reshape(shape[inputs:])
            ),
        }

    def norm(self, ours: str, stored: str, dim: int) -> dict[str, Recipe]:
        """Returns the recipes of a normalization."""
        gamma, beta = (Recipe({stored + name: (dim,)}) for name in self.names)
        return {f"{ours}/gamma": gamma, f"{ours}/beta": beta}

    def block(
        self, ours: str, stored: str, sublayers: dict[str, str], size: Sizes
    ) -> dict[str, Recipe]:
        """Returns the recipes of a block, by the names of its stored sublayers."""
        dim, heads, width = size.split
        recipes: dict[str, Recipe] = {}
        for name, theirs in sublayers.items():
            path, layer = f"{ours}/{name}", stored + theirs
            if name.endswith("norm"):
                recipes |= self.norm(path, layer, dim)
            elif name.endswith("attention_output"):
                recipes |= self.dense(path, layer, (heads, width, dim), inputs=2)
            elif name.startswith("feedforward"):
                shape = (dim, size.inside)
                turned = name == "feedforward_out"
                recipes |= self.dense(path, layer, shape[::-1] if turned else shape)
            else:
                recipes |= self.dense(path, layer, size.split)
        return recipes


TORCH = Layout((".weight", ".bias"), is_flat=True, is_transposed=True)
CONV1D = Layout((".weight", ".bias"), is_flat=True)  # of Hugging Face's GPT-2
HUB = Layout(("/vars/0", "/vars/1"))


def hub_blocks(stored: str, size: Sizes) -> dict[str, Recipe]:
    """Returns the recipes of all blocks of KerasHub; `stored` names the first one."""
    recipes: dict[str, Recipe] = {}
    for n in range(size.layers):
        hub = f"layers/{stored}" + (f"_{n}/" if n else "/")
        recipes |= HUB.block(f"block_{n}", hub, HUB_BLOCK, size)
    return recipes
