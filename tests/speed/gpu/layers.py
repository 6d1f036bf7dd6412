"""Layers with the same weights: multi-head attention and a Transformer block.

They compute in bfloat16 with weights in float32: ours and Keras' by the policy
"mixed_bfloat16", torch's by autocast. The reference is Keras' layer in float32.

Shapes: B batch, T queries and keys, D model width, H heads, F width of an MLP.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import keras
import numpy as np

from keras_attention import recorded
from keras_attention.layers import MultiHeadAttention, TransformerEncoderBlock
from speed.gpu import timing
from speed.gpu.heads import Side
from speed.gpu.masks import TOLERANCE, Mask
from speed.harness import SEED, NumericsError, Step

POLICY = "mixed_bfloat16"
TORCH = "torch.nn"


def steps(sizes: Any) -> tuple[Step, ...]:
    """Counts the products of the projections, the MLP and the core."""
    width, rows = sizes["D"], sizes["B"] * sizes["T"]
    inside = sizes["F"] if sizes["of"] == "block" else 0
    factor = 1 if sizes["mode"] == "fwd" else 3
    dense = 2 * rows * width * (4 * width + 2 * inside)
    mask = Mask(sizes["mask"], sizes)
    core = 4 * sizes["B"] * width * mask.pairs
    weights = 4 * width * (4 * width + 2 * inside)
    moved = factor * (2 * 2 * rows * width + weights)
    return (Step(factor * (dense + core), moved, (1, rows, width, width)),)


def make(backend: str, sizes: Any) -> tuple[dict[str, Callable], dict[str, str]]:
    """Returns functions that build the sides of a row, and why others are left out."""
    random = np.random.default_rng(SEED)
    shape = tuple(sizes[name] for name in "BTD")
    inputs, slope = (random.standard_normal(shape, "float32") for _ in range(2))
    mask = Mask(sizes["mask"], sizes)
    valid = mask.valid if mask.hides else None
    makers = {"layer": _attention_layers, "block": _blocks}
    layers = makers[sizes["of"]](sizes)
    reference = layers.pop("reference")
    if backend == "torch":
        layers[TORCH] = _torch_layer(sizes, layers["ours"])
    right = _results(backend, reference, inputs[:1], valid, slope[:1], sizes["mode"])

    skipped: dict[str, str] = {}
    if "replayed" in sizes:
        names, skipped = timing.replayed_sides(backend)
        eager = layers["ours"]
        forms = {n: eager if n == timing.EAGER else recorded(eager) for n in names}
        layers |= forms

    def build(name: str) -> Side:
        call = _call(backend, layers[name], inputs, valid, slope, sizes["mode"])
        with timing.tracing(name):
            for _ in range(3 if "replayed" in sizes else 0):
                call.run()
        timing.check_graph(name, layers[name])

        def check() -> float:
            results = _arrays(call.run())
            errors = [_error(x[:1], wanted) for x, wanted in zip(results, right)]
            if not max(errors) <= TOLERANCE:
                raise NumericsError(
                    "the output or the gradient of the inputs differs from Keras' "
                    f"layer in float32 by {max(errors):.2g}, more than {TOLERANCE}"
                )
            return max(errors)

        return Side(call, check)

    return {name: functools.partial(build, name) for name in layers}, skipped


def _results(backend: str, *arguments: Any) -> list[np.ndarray]:
    with timing.true_float32(backend):
        return _arrays(_call(backend, *arguments).run())


def _arrays(results: Any) -> list[np.ndarray]:
    """Returns the output and the gradient of the inputs as arrays."""
    results = results[:2] if isinstance(results, list) else [results]
    return [
        np.asarray(keras.ops.convert_to_numpy(x)).astype("float64") for x in results
    ]


def _error(x: np.ndarray, wanted: np.ndarray) -> float:
    return float(np.linalg.norm(x - wanted) / np.linalg.norm(wanted))


def _call(
    backend: str, layer: Any, inputs: Any, valid: Any, slope: Any, mode: str
) -> timing.Call:
    """Returns a call of a layer f(x, mask), with gradients of x and the weights."""
    convert = keras.ops.convert_to_tensor
    extras = () if valid is None else (convert(valid[: len(inputs)]),)
    cotangent = None if mode == "fwd" else convert(slope)
    if not isinstance(layer, keras.layers.Layer):  # torch's

        def apply(x: Any, *more: Any) -> Any:
            return layer(x, *more[len(weights) :])

        weights = [*layer.parameters()]
        return timing.call_of(
            backend, apply, [convert(inputs), *weights], extras, cotangent
        )
    variables = layer.trainable_variables

    def call(x: Any, *more: Any) -> Any:
        values, mask = more[: len(variables)], more[len(variables) :]
        if backend == "torch":  # the values are those of the variables
            return layer(x, *mask)
        with keras.StatelessScope(list(zip(variables, values, strict=True))):
            return layer(x, *mask)

    values = [variable.value for variable in variables]
    return timing.call_of(backend, call, [convert(inputs), *values], extras, cotangent)


class _SelfAttention(keras.layers.Layer):
    """Calls an attention layer with a mask of the keys."""

    def __init__(self, attention: Any, causal: bool) -> None:
        super().__init__(dtype=attention.dtype_policy)
        self.attention, self.causal = attention, causal

    def call(self, x: Any, mask: Any = None) -> Any:
        return self.attention(x, x, value_mask=mask, use_causal_mask=self.causal)


class KerasBlock(keras.layers.Layer):
    """A pre-norm Transformer block of Keras' layers."""

    def __init__(self, sizes: Any, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        width, heads = sizes["D"], sizes["H"]
        options: dict[str, Any] = {"dtype": self.dtype_policy}
        self.causal = sizes["mask"] == "causal"
        self.norms = [
            keras.layers.LayerNormalization(epsilon=1e-5, **options) for _ in range(2)
        ]
        self.attention = keras.layers.MultiHeadAttention(
            heads, width // heads, **options
        )
        self.inside = keras.layers.Dense(sizes["F"], activation="gelu", **options)
        self.outside = keras.layers.Dense(width, **options)

    def build(self, shape: Any) -> None:
        """Builds the sublayers for inputs (B, T, D)."""
        for part in (*self.norms, self.inside):
            part.build(shape)
        self.attention.build(shape, shape)
        self.outside.build((*shape[:-1], self.inside.units))

    def call(self, x: Any, mask: Any = None) -> Any:
        read = self.norms[0](x)
        x = x + self.attention(read, read, value_mask=mask, use_causal_mask=self.causal)
        return x + self.outside(self.inside(self.norms[1](x)))

    def take(self, block: Any) -> None:
        """Copies the weights of our block."""
        for mine, theirs in (
            (self.norms[0], block.self_attention_norm),
            (self.attention, block.self_attention),
            (self.norms[1], block.feedforward_norm),
            (self.inside, block.feedforward_in),
            (self.outside, block.feedforward_out),
        ):
            mine.set_weights(theirs.get_weights())


class _OurBlock(keras.layers.Layer):
    """Calls our block with a mask of the keys alone, as `KerasBlock` does."""

    def __init__(self, block: Any, causal: bool) -> None:
        super().__init__(dtype=block.dtype_policy)
        self.block, self.causal = block, causal

    def call(self, x: Any, mask: Any = None) -> Any:
        mask = None if mask is None else mask[:, None]  # (B, 1, T)
        return self.block(x, attention_mask=mask, use_causal_mask=self.causal)


def _attention_layers(sizes: Any) -> dict[str, Any]:
    keras.utils.set_random_seed(SEED)
    heads, width = sizes["H"], sizes["D"]
    shape = (sizes["B"], sizes["T"], width)
    theirs, causal = keras.layers.MultiHeadAttention, sizes["mask"] == "causal"
    layers = {}
    for name, cls, policy in (
        ("ours", MultiHeadAttention, POLICY),
        ("keras.layers", theirs, POLICY),
        ("reference", theirs, "float32"),
    ):
        layer = cls(heads, width // heads, dtype=policy)
        layer.build(shape, shape)
        layers[name] = _SelfAttention(layer, causal)
    for name in ("keras.layers", "reference"):
        layers[name].attention.set_weights(layers["ours"].attention.get_weights())
    return layers


def _blocks(sizes: Any) -> dict[str, Any]:
    keras.utils.set_random_seed(SEED)
    ours = our_block(sizes)
    ours.build((sizes["B"], sizes["T"], sizes["D"]))
    layers: dict[str, Any] = {"ours": _OurBlock(ours, sizes["mask"] == "causal")}
    for name, policy in (("keras.layers", POLICY), ("reference", "float32")):
        layers[name] = KerasBlock(sizes, dtype=policy)
        layers[name].build((sizes["B"], sizes["T"], sizes["D"]))
        layers[name].take(ours)
    return layers


def our_block(sizes: Any) -> TransformerEncoderBlock:
    """Returns our pre-norm block."""
    options: dict[str, Any] = {"norm_first": True, "activation": "gelu"}
    options["dtype"] = POLICY
    return TransformerEncoderBlock(sizes["H"], sizes["F"], **options)


def _torch_layer(sizes: Any, ours: Any) -> Any:
    """Returns torch's layer with our weights, in autocast."""
    import torch

    from studies.translation import torch_peer

    width, heads, causal = sizes["D"], sizes["H"], sizes["mask"] == "causal"
    if sizes["of"] == "block":
        core: Any = torch.nn.TransformerEncoderLayer(
            width,
            heads,
            sizes["F"],
            0.0,
            activation="gelu",
            batch_first=True,
            norm_first=True,
        )
        torch_peer.take_block(core, ours.block)
    else:
        core = torch.nn.MultiheadAttention(width, heads, batch_first=True)
        torch_peer.take_attention(core, ours.attention)
    device = ours.trainable_variables[0].value.device
    core.to(device).train(sizes["mode"] != "fwd")
    ahead = None
    if causal:
        make = torch.nn.Transformer.generate_square_subsequent_mask
        ahead = make(sizes["T"], device=device)
    autocast = functools.partial(torch.autocast, device.type, torch.bfloat16)

    class Layer(torch.nn.Module):
        """Calls the layer with a mask of the keys, True = may attend."""

        def __init__(self) -> None:
            super().__init__()
            self.core = core

        def forward(self, x: Any, mask: Any = None) -> Any:
            hidden = None if mask is None else ~mask
            with autocast():
                if sizes["of"] == "block":
                    options = {"src_key_padding_mask": hidden, "is_causal": causal}
                    return self.core(x, ahead, **options)
                return self.core(
                    x, x, x, hidden, False, attn_mask=ahead, is_causal=causal
                )[0]

    return Layer()
