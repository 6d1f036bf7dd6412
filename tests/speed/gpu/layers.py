"""Layers with the same weights: multi-head attention and a Transformer block.

They compute in bfloat16 with weights in float32: ours and Keras' by the policy
"mixed_bfloat16", torch's by autocast. The reference is Keras' layer in float32.

Shapes: B batch, T queries and keys, D model width, H heads, F width of an MLP.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import keras
import numpy as np

from keras_attention import recorded
from keras_attention.layers import MultiHeadAttention, TransformerEncoderBlock
from speed.gpu import timing
from speed.gpu.masks import TOLERANCE, Mask, relative_error
from speed.gpu.timing import KERAS, TORCH, Side, call_of
from speed.harness import SEED, Step

POLICY = "mixed_bfloat16"
REFERENCE = "reference"


def steps(sizes: Any) -> tuple[Step, ...]:
    """Counts the products of the projections, the MLP and the core."""
    width, rows = sizes["D"], sizes["B"] * sizes["T"]
    numbers = 4 * width**2  # of the weights
    numbers += 2 * width * sizes["F"] if sizes["of"] == "block" else 0
    factor = 1 if sizes["mode"] == "fwd" else 3
    core = 4 * sizes["B"] * width * Mask(sizes["mask"], sizes).pairs
    moved = factor * 4 * (rows * width + numbers)
    return (Step(factor * (2 * rows * numbers + core), moved, (1, rows, width, width)),)


def make(backend: str, sizes: Any) -> dict[str, Callable[[], Side]]:
    """Returns functions that build the sides of a row."""
    random = np.random.default_rng(SEED)
    shape = tuple(sizes[name] for name in "BTD")
    inputs, slope = (random.standard_normal(shape, "float32") for _ in range(2))
    arrays = inputs, slope, Mask(sizes["mask"], sizes).valid
    call = partial(_call, backend, sizes)
    layers = _layers(sizes)
    with timing.true_float32(backend):
        first = call(layers.pop(REFERENCE), [x[:1] for x in arrays])
        right = _arrays(first[0]())
    names = timing.layer_sides(backend)
    if "replayed" in sizes:
        names += timing.replayed_sides(backend)[1:]

    def build(name: str) -> Side:
        layer = layers.get(name.removesuffix(timing.XLA), layers["ours"])
        if name == TORCH:
            layer = _torch_layer(sizes, layer)
        with timing.graphs(name):
            if "replayed" in sizes and name in ("ours", timing.GRAPHS):
                layer = recorded(layer)
            run, memory = call(layer, arrays, name.endswith(timing.XLA))
            for _ in range(3 if "replayed" in sizes else 0):
                run()
        if name == timing.GRAPHS:
            timing.check_graphs(layer._replayer)

        def check() -> float:
            what = "the output or the gradient of the inputs"
            results = zip(_arrays(run()), right)
            return max(relative_error(what, x[:1], y, TOLERANCE) for x, y in results)

        return Side(run, check, memory)

    return {name: partial(build, name) for name in names}


def _arrays(results: Any) -> list[np.ndarray]:
    """Returns the output and the gradient of the inputs as arrays."""
    results = results[:2] if isinstance(results, list) else [results]
    return [keras.ops.convert_to_numpy(keras.ops.cast(x, "float32")) for x in results]


def _call(
    backend: str, sizes: Any, layer: Any, arrays: Any, xla: bool = False
) -> tuple[Callable[..., Any], int | None]:
    """Returns a call of a layer, with gradients of the inputs and the weights."""
    inputs, slope, valid = map(keras.ops.convert_to_tensor, arrays)
    hides = sizes["mask"].startswith("padding")
    options: Any = {"use_causal_mask": sizes["mask"] == "causal"}
    variables = getattr(layer, "trainable_variables", [])  # none if it is torch's
    weights = [v.value for v in variables] if variables else [*layer.parameters()]

    def apply(x: Any, *tensors: Any) -> Any:
        mask: Any = tensors[-1] if hides else None
        if not variables or isinstance(layer, KerasBlock):
            return layer(x, mask=mask)
        if sizes["of"] == "block":
            mask = mask[:, None] if hides else None  # (B, 1, T)
            return layer(x, attention_mask=mask, **options)
        return layer(x, x, value_mask=mask, **options)

    def stateless(x: Any, *tensors: Any) -> Any:
        values = tensors[: len(variables)]
        with keras.StatelessScope(list(zip(variables, values, strict=True))):
            return apply(x, *tensors)

    function = stateless if backend == "jax" else apply
    tensors, extras = [inputs, *weights], [valid] if hides else []
    cotangent = None if sizes["mode"] == "fwd" else slope
    return call_of(backend, function, tensors, extras, cotangent, xla)


def parts_of(block: Any) -> list[Any]:
    """Returns the layers of our block."""
    names = "self_attention_norm self_attention feedforward_norm feedforward_in"
    return [getattr(block, name) for name in (*names.split(), "feedforward_out")]


class KerasBlock(keras.layers.Layer):
    """A pre-norm Transformer block of Keras' layers, with the weights of ours."""

    def __init__(self, sizes: Any, ours: Any, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        layers, width, dtype = keras.layers, sizes["D"], self.dtype_policy
        self.causal, self.supports_masking = sizes["mask"] == "causal", True
        self.parts = [
            layers.LayerNormalization(epsilon=1e-5, dtype=dtype),
            layers.MultiHeadAttention(sizes["H"], width // sizes["H"], dtype=dtype),
            layers.LayerNormalization(epsilon=1e-5, dtype=dtype),
            layers.Dense(sizes["F"], activation="gelu", dtype=dtype),
            layers.Dense(width, dtype=dtype),
        ]
        self(keras.ops.zeros((1, 1, width)))
        for part, other in zip(self.parts, parts_of(ours)):
            part.set_weights(other.get_weights())

    def call(self, x: Any, mask: Any = None) -> Any:
        norm, attention, second_norm, inside, outside = self.parts
        read = norm(x)
        x = x + attention(read, read, value_mask=mask, use_causal_mask=self.causal)
        return x + outside(inside(second_norm(x)))


def _layers(sizes: Any) -> dict[str, Any]:
    """Returns our layer, Keras' layer and the reference."""
    keras.utils.set_random_seed(SEED)
    heads, width, inside = (sizes[name] for name in "HDF")
    x = keras.ops.zeros((1, 1, width))
    policies = {KERAS: POLICY, REFERENCE: "float32"}
    if sizes["of"] == "block":
        ours: Any = TransformerEncoderBlock(
            heads, inside, norm_first=True, activation="gelu", dtype=POLICY
        )
        ours(x)
        return {
            "ours": ours,
            **{n: KerasBlock(sizes, ours, dtype=p) for n, p in policies.items()},
        }
    layers = {"ours": MultiHeadAttention(heads, width // heads, dtype=POLICY)}
    for name, policy in policies.items():
        make = keras.layers.MultiHeadAttention
        layers[name] = make(heads, width // heads, dtype=policy)
    for layer in layers.values():
        layer(x, x)
        layer.set_weights(layers["ours"].get_weights())
    return layers


def torch_block(sizes: Any, ours: Any) -> Any:
    """Returns torch's pre-norm block with the weights of ours."""
    import torch

    from studies.translation import torch_peer

    shape = sizes["D"], sizes["H"], sizes["F"], 0.0
    options: dict[str, Any] = {"batch_first": True, "norm_first": True}
    block = torch.nn.TransformerEncoderLayer(*shape, activation="gelu", **options)
    torch_peer.take_block(block, ours)
    return block


def _torch_layer(sizes: Any, ours: Any) -> Any:
    """Returns torch's layer with our weights, in autocast."""
    import torch

    from studies.translation import torch_peer

    is_block, causal = sizes["of"] == "block", sizes["mask"] == "causal"
    core: Any
    if is_block:
        core = torch_block(sizes, ours)
    else:
        core = torch.nn.MultiheadAttention(sizes["D"], sizes["H"], batch_first=True)
        torch_peer.take_attention(core, ours)
    device, ahead = ours.trainable_variables[0].value.device, None
    if causal:
        square = torch.nn.Transformer.generate_square_subsequent_mask
        ahead = square(sizes["T"], device=device)

    class Layer(torch.nn.Module):
        """Calls the layer with a mask of the keys, True = may attend."""

        def __init__(self) -> None:
            super().__init__()
            self.core = core

        def forward(self, x: Any, mask: Any = None) -> Any:
            hidden = None if mask is None else ~mask
            with torch.autocast(device.type, torch.bfloat16):
                if is_block:
                    return core(x, ahead, hidden, causal)
                options = {"attn_mask": ahead, "is_causal": causal}
                return core(x, x, x, hidden, need_weights=False, **options)[0]

    return Layer().to(device).train(sizes["mode"] != "fwd")
