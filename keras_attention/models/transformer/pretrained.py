"""Converts the config and the weights of GPT-2 and BERT, of Hugging Face and KerasHub.

Shapes: D model width, H heads, E width of a head, F width inside the MLP, V words of
the vocabulary.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any, NamedTuple

import keras
import numpy as np

from keras_attention.models.base.weight_folder import (
    Array,
    Path,
    Recipe,
    WeightFolder,
    build,
    open_folder,
)
from keras_attention.ops.activations import gelu_approximate

Config = dict[str, Any]
Recipes = dict[str, Recipe]
Shape = tuple[int, ...]

# By the names that configs of Hugging Face use.
ACTIVATIONS = {
    "gelu": "gelu",
    "gelu_new": gelu_approximate,
    "gelu_python": "gelu",
    "gelu_pytorch_tanh": gelu_approximate,
    "relu": "relu",
}
WORDS = "token_embedding/embeddings"
POSITIONS = "token_embedding_position/embedding/embeddings"
PROJECTIONS = "self_attention/query", "self_attention/key", "self_attention/value"
EMBEDDINGS, HEAD = "bert.embeddings", "cls.predictions"


class Format(NamedTuple):
    """What a kind of folder calls the entries of its config and its tensors."""

    sizes: tuple[str, ...]  # entries: V, blocks, D, H, F and the number of positions
    dropout: str
    attention_dropout: str
    activation: tuple[str, str]  # the entry, "" for none, and its default
    epsilon: tuple[str, float]
    names: tuple[str, str]  # of a kernel and a bias, behind the name of the layer
    words: str
    positions: str
    norm: tuple[str, str]  # ours and theirs, before or after all blocks
    block: str  # with the number {n}, or {suffix}, which the first block lacks
    sublayers: dict[str, str]  # theirs by ours
    supported: dict[str, Any]  # entries of the config that must be missing or so
    unused: str  # a regular expression for tensors that have no effect
    # Pairs of tensors that are equal if the embeddings are tied. The very first tensor
    # is the output projection.
    copies: tuple[tuple[str, str], ...] = ()
    is_flat: bool = False  # whether kernels are matrices, and biases vectors
    is_transposed: bool = False  # whether kernels have the outputs first, as in torch
    is_fused: bool = False  # whether query, key and value are stored side by side

    def read(self, folder: WeightFolder, has_head: bool = True) -> tuple[Config, Any]:
        """Returns the arguments of the model, and the recipes of its weights.

        Raises:
            ValueError: for a missing entry of the config, or one that the model cannot
                follow.
        """
        folder.check_entries(self.supported)
        dim_name, heads_name, inside_name = self.sizes[2:5]
        dim = folder.size(dim_name)
        default = {inside_name: 4 * dim}
        vocabulary, layers, dim, heads, inside, positions = (
            folder.size(name, default.get(name)) for name in self.sizes
        )
        if dim % heads:
            raise folder.refusal(heads_name, f"a divisor of {dim_name}={dim}", heads)
        is_tied = bool(folder.entry("tie_word_embeddings", True))
        config = {
            "vocabulary_size": vocabulary,
            "num_layers": layers,
            "dim": dim,
            "num_heads": heads,
            "intermediate_dim": inside,
            "dropout": folder.number(self.dropout, 0.1),
            "max_length": positions,
            "tie_embeddings": is_tied,
            "block": {
                "activation": folder.one_of(*self.activation, ACTIVATIONS),
                "attention": {"dropout": folder.number(self.attention_dropout, 0.1)},
                "epsilon": folder.number(*self.epsilon),
                "norm_first": self.norm[0] == "final_norm",
            },
        }
        recipes = {
            WORDS: Recipe({self.words: (vocabulary, dim)}),
            POSITIONS: Recipe({self.positions: (positions, dim)}),
            **self.norm_recipes(*self.norm, dim),
        }
        if has_head and not is_tied:
            recipes["token_embedding/reverse_embeddings"] = Recipe(
                {self.copies[0][0]: (vocabulary, dim)}, lambda values: values.T
            )
        for n in range(layers):
            recipes |= self._block(n, dim, heads, inside)
        return config, recipes

    def _block(self, n: int, dim: int, heads: int, inside: int) -> Recipes:
        """Returns the recipes of a block."""
        block = self.block.format(n=n, suffix=f"_{n}" if n else "")
        split = heads, dim // heads  # (H, E)
        recipes: Recipes = {}
        for name, theirs in self.sublayers.items():
            ours, stored = f"block_{n}/{name}", block + theirs
            if name.endswith("norm"):
                recipes |= self.norm_recipes(ours, stored, dim)
            elif name in PROJECTIONS:
                third = PROJECTIONS.index(name) if self.is_fused else None
                recipes |= self.dense(ours, stored, (dim, *split), third=third)
            elif name == "self_attention/attention_output":
                recipes |= self.dense(ours, stored, (*split, dim), inputs=2)
            elif name == "feedforward_in":
                recipes |= self.dense(ours, stored, (dim, inside))
            else:
                recipes |= self.dense(ours, stored, (inside, dim))
        return recipes

    def norm_recipes(self, ours: str, stored: str, dim: int) -> Recipes:
        """Returns the recipes of a normalization."""
        gamma, beta = (Recipe({stored + name: (dim,)}) for name in self.names)
        return {f"{ours}/gamma": gamma, f"{ours}/beta": beta}

    def dense(
        self,
        ours: str,
        stored: str,
        shape: Shape,
        inputs: int = 1,
        third: int | None = None,
    ) -> Recipes:
        """Returns the recipes of a kernel and a bias.

        `shape` is that of our kernel, whose first axes are the `inputs`. `third` is the
        index of a layer that is stored side by side with two others.
        """
        kernel, bias = shape, shape[inputs:]
        if self.is_flat:
            width = math.prod(bias) * (1 if third is None else 3)
            kernel, bias = (math.prod(shape[:inputs]), width), (width,)
        if self.is_transposed:
            kernel = kernel[::-1]

        def as_ours(values: Array) -> Array:
            """Converts a kernel, or a bias."""
            is_bias = values.ndim == len(bias)
            if self.is_transposed:
                values = values.T
            if third is not None:
                values = np.split(values, 3, axis=-1)[third]
            return values.reshape(shape[inputs:] if is_bias else shape)

        return {
            f"{ours}/kernel": Recipe({stored + self.names[0]: kernel}, as_ours),
            f"{ours}/bias": Recipe({stored + self.names[1]: bias}, as_ours),
        }


GPT2 = Format(
    sizes=("vocab_size", "n_layer", "n_embd", "n_head", "n_inner", "n_positions"),
    dropout="resid_pdrop",
    attention_dropout="attn_pdrop",
    activation=("activation_function", "gelu_new"),
    epsilon=("layer_norm_epsilon", 1e-5),
    names=(".weight", ".bias"),
    words="wte.weight",
    positions="wpe.weight",
    norm=("final_norm", "ln_f"),
    block="h.{n}.",
    sublayers={
        **dict.fromkeys(PROJECTIONS, "attn.c_attn"),
        "self_attention/attention_output": "attn.c_proj",
        "feedforward_in": "mlp.c_fc",
        "feedforward_out": "mlp.c_proj",
        "self_attention_norm": "ln_1",
        "feedforward_norm": "ln_2",
    },
    # Masks that older files store with the weights, and a copy of the embedding.
    unused=r"h\.\d+\.attn\.(masked_)?bias|lm_head\.weight",
    copies=(("lm_head.weight", "wte.weight"),),
    supported={
        "scale_attn_weights": True,
        "scale_attn_by_inverse_layer_idx": False,
        "add_cross_attention": False,
        "quantization_config": None,
    },
    is_flat=True,
    is_fused=True,
)
BERT = Format(
    sizes=(
        "vocab_size",
        "num_hidden_layers",
        "hidden_size",
        "num_attention_heads",
        "intermediate_size",
        "max_position_embeddings",
    ),
    dropout="hidden_dropout_prob",
    attention_dropout="attention_probs_dropout_prob",
    activation=("hidden_act", "gelu"),
    epsilon=("layer_norm_eps", 1e-12),
    names=(".weight", ".bias"),
    words=f"{EMBEDDINGS}.word_embeddings.weight",
    positions=f"{EMBEDDINGS}.position_embeddings.weight",
    norm=("embedding_norm", f"{EMBEDDINGS}.LayerNorm"),
    block="bert.encoder.layer.{n}.",
    sublayers={
        "self_attention/query": "attention.self.query",
        "self_attention/key": "attention.self.key",
        "self_attention/value": "attention.self.value",
        "self_attention/attention_output": "attention.output.dense",
        "feedforward_in": "intermediate.dense",
        "feedforward_out": "output.dense",
        "self_attention_norm": "attention.output.LayerNorm",
        "feedforward_norm": "output.LayerNorm",
    },
    # The second task of BERT, numbers 0, 1, 2 … that older files store, and weights
    # that the model has once: the head's copy of the embedding, and one of two equal
    # biases.
    unused=(
        r"bert\.pooler\..*|cls\.seq_relationship\..*|bert\.embeddings\.position_ids"
        r"|cls\.predictions\.(decoder\.weight|decoder\.bias|bias)"
    ),
    copies=(
        (f"{HEAD}.decoder.weight", f"{EMBEDDINGS}.word_embeddings.weight"),
        (f"{HEAD}.decoder.bias", f"{HEAD}.bias"),
    ),
    supported={
        "position_embedding_type": "absolute",
        "is_decoder": False,
        "add_cross_attention": False,
        "pad_token_id": 0,
        "quantization_config": None,
    },
    is_flat=True,
    is_transposed=True,
)
HUB_GPT2 = Format(
    sizes=(
        "vocabulary_size",
        "num_layers",
        "hidden_dim",
        "num_heads",
        "intermediate_dim",
        "max_sequence_length",
    ),
    dropout="dropout",
    attention_dropout="dropout",
    activation=("", "gelu_new"),
    epsilon=("", 1e-5),
    names=("/vars/0", "/vars/1"),
    words="layers/reversible_embedding/vars/0",
    positions="layers/position_embedding/vars/0",
    norm=("final_norm", "layers/layer_normalization"),
    block="layers/transformer_decoder{suffix}/",
    sublayers={
        "self_attention/query": "_self_attention_layer/query_dense",
        "self_attention/key": "_self_attention_layer/key_dense",
        "self_attention/value": "_self_attention_layer/value_dense",
        "self_attention/attention_output": "_self_attention_layer/output_dense",
        "feedforward_in": "_feedforward_intermediate_dense",
        "feedforward_out": "_feedforward_output_dense",
        "self_attention_norm": "_self_attention_layer_norm",
        "feedforward_norm": "_feedforward_layer_norm",
    },
    supported={},
    unused="task/optimizer.*",
)
HUB_BERT = HUB_GPT2._replace(
    epsilon=("", 1e-12),
    norm=("embedding_norm", "layers/layer_normalization"),
    block="layers/transformer_encoder{suffix}/",
)


def load_gpt2(cls: Any, path: Path, **options: Any) -> Any:
    """Makes a `CausalLM` with the weights of a folder; see `CausalLM.from_gpt2`."""
    folder, files = open_folder(path, "gpt2", "GPT2Backbone"), HUB_GPT2
    if not folder.is_hub:
        files = GPT2
        folder = folder.renamed(lambda name: name.removeprefix("transformer."))
    config, recipes = files.read(folder)
    if not folder.is_hub:
        folder.check_entries({"embd_pdrop": config["dropout"]})
    copies = files.copies if config["tie_embeddings"] else ()
    return build(cls, folder, {**config, **options}, recipes, files.unused, copies)


def load_bert(cls: Any, path: Path, new_head: bool, dtype: Any) -> Any:
    """Makes a `MaskedLM` with the weights of a folder; see `MaskedLM.from_bert`."""
    folder = open_folder(path, "bert", "BertBackbone")
    if folder.is_hub:
        files, unused = HUB_BERT, "layers/dense/.*|task/optimizer.*"  # and the pooler
        segments, count = "layers/embedding/vars/0", "num_segments"
        head = "task/layers/masked_lm_head"
        dense, norm = f"{head}/_intermediate_dense", f"{head}/_intermediate_layer_norm"
        bias, ours = f"{head}/vars/0", ("head/dense", "head/norm")
    else:
        files, unused = BERT, BERT.unused
        folder = folder.renamed(_bert_names(folder))
        segments, count = (
            f"{EMBEDDINGS}.token_type_embeddings.weight",
            "type_vocab_size",
        )
        dense, norm = f"{HEAD}.transform.dense", f"{HEAD}.transform.LayerNorm"
        # The one that is used where both are stored.
        bias = f"{HEAD}.decoder.bias"
        bias = bias if bias in folder.tensors else f"{HEAD}.bias"
        ours = "head", "head_norm"
    has_head = (kernel := dense + files.names[0]) in folder.tensors
    if not has_head and not new_head:
        raise ValueError(
            "The folder must hold a masked-language-model head, or `new_head` must be "
            "True, which gives the model a head with random weights. Received: "
            f"{str(folder.path)!r}, a {folder.kind} without {kernel!r}"
        )
    config, recipes = files.read(folder, has_head)
    dim, vocabulary = config["dim"], config["vocabulary_size"]
    rows = {segments: (folder.size(count, 2), dim)}
    recipes[POSITIONS] = Recipe(
        {**recipes[POSITIONS].shapes, **rows},
        lambda positions, segments: positions + segments[:1],
    )
    if has_head:
        recipes |= files.dense(ours[0], dense, (dim, dim))
        recipes |= files.norm_recipes(ours[1], norm, dim)
        recipes["logits/bias"] = Recipe({bias: (vocabulary,)})
    elif folder.is_hub:
        unused = "layers/dense/.*|task/.*"  # the weights of another task
    if folder.is_hub:  # whose head has another activation and ε than the blocks
        config["head"] = keras.Sequential(
            [
                keras.layers.Dense(dim, activation="gelu", dtype=dtype, name="dense"),
                keras.layers.LayerNormalization(epsilon=1e-5, dtype=dtype, name="norm"),
            ],
            name="head",
        )
    copies = files.copies if config["tie_embeddings"] else ()
    return build(cls, folder, {**config, "dtype": dtype}, recipes, unused, copies)


def _bert_names(folder: WeightFolder) -> Callable[[str], str]:
    """Returns the function of a name to the one in `BertForMaskedLM` now."""
    has_prefix = any(name.startswith("bert.") for name in folder.tensors)

    def rename(name: str) -> str:
        is_inner = not has_prefix and not name.startswith("cls.")
        new = f"bert.{name}" if is_inner else name
        new = re.sub(r"LayerNorm\.gamma$", "LayerNorm.weight", new)
        return re.sub(r"LayerNorm\.beta$", "LayerNorm.bias", new)

    return rename
