"""Attention over heads: our operation, its peers, and their check on a slice.

The inputs are in bfloat16. Each side gets them in the layout that it asks for.

Shapes: B batch, T queries and keys, H heads, E width of a head.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from keras import ops

from keras_attention.ops.positions import alibi_slopes
from speed.gpu.masks import Mask, exact
from speed.gpu.timing import Side, call_of
from speed.harness import SEED, Step

FACTOR = {"fwd": 1.0, "fwd+bwd": 3.5}  # of operations, as the FlashAttention papers


def same(x: Any) -> Any:
    """Returns a tensor as it is."""
    return x


class Form(NamedTuple):
    """A function of query, key and value in its own layout, and of more tensors.

    Attributes:
        function: A function that returns the output in the same layout.
        extras: Arrays or tensors.
        into: A function from a tensor (B, T, H, E) to the layout.
        back: A function from a tensor in the layout to (B, T, H, E).
    """

    function: Callable[..., Any]
    extras: tuple[Any, ...] = ()
    into: Callable[[Any], Any] = same
    back: Callable[[Any], Any] = same


def steps(sizes: Any) -> tuple[Step, ...]:
    """Counts two products of each pair, and reads and writes of the tensors."""
    forward = 4 * sizes["B"] * sizes["H"] * sizes["E"]
    forward *= Mask(sizes["mask"], sizes).pairs
    tensor = 2 * sizes["B"] * sizes["T"] * sizes["H"] * sizes["E"]
    moved = tensor * (4 if sizes["mode"] == "fwd" else 12)
    return (Step(forward * FACTOR[sizes["mode"]], moved, (1, 1, 1, 1)),)


def make(backend: str, sizes: Any) -> dict[str, Callable[[], Side]]:
    """Returns functions that build the sides of a row."""
    mask = Mask(sizes["mask"], sizes)
    shape = tuple(sizes[name] for name in "BTHE")
    numbers = [x.reshape(shape) for x in _numbers(int(np.prod(shape)))]
    right = exact(mask, *numbers)
    *inputs, slope = (ops.reshape(x, shape) for x in _tensors(int(np.prod(shape))))

    def build(make_form: Callable[[], Form]) -> Side:
        form = make_form()
        cotangent = None if sizes["mode"] == "fwd" else form.into(slope)
        tensors = [form.into(x) for x in inputs]
        extras = [ops.convert_to_tensor(x) for x in form.extras]
        run, memory = call_of(backend, form.function, tensors, extras, cotangent)

        def check() -> float:
            results = [run()]
            if cotangent is not None:  # that of the slice alone
                alone = np.zeros_like(numbers[3])
                alone[right[:3]] = numbers[3][right[:3]]
                results = run(form.into(bfloat16(alone)))
            picked = [form.back(x)[right.example, :, right.head] for x in results]
            return right.error([array(x) for x in picked])

        return Side(run, check, memory)

    peers = importlib.import_module(f"speed.gpu.heads_{backend}").peers
    forms = {"ours": functools.partial(_ours, mask), **peers(mask, sizes)}
    return {name: functools.partial(build, form) for name, form in forms.items()}


def _ours(mask: Mask) -> Form:
    """Returns our operation with the mask as users write it."""
    from keras_attention import masks
    from keras_attention import ops as our_ops

    attend = functools.partial(our_ops.dot_product_attention, is_causal=mask.causal)
    if mask.hides:  # what a layer makes of `value_mask`
        return Form(attend, (mask.valid[:, None, None],))  # (B, 1, 1, T)
    if mask.name == "texts":

        def texts(q: Any, k: Any, v: Any, ids: Any) -> Any:
            packed = masks.Causal() & masks.Segments(ids)
            return our_ops.dot_product_attention(q, k, v, packed)

        return Form(texts, (mask.ids,))
    if mask.slopes is not None:
        return Form(lambda q, k, v, b: attend(q, k, v, bias=b), (alibi(mask),))
    window = mask.window if mask.name == "window" else None
    return Form(functools.partial(attend, sliding_window=window))


def alibi(mask: Mask) -> Any:
    """Returns the bias (1, H, T, T)."""
    t = ops.arange(mask.length, dtype="float32")
    slopes = ops.convert_to_tensor(
        alibi_slopes(mask.heads).astype("float32")[:, None, None]
    )
    bias = -slopes * ops.abs(t[:, None] - t)  # (H, T, T)
    return ops.cast(bias[None], "bfloat16")


def bfloat16(x: np.ndarray) -> Any:
    """Returns an array of the device in bfloat16."""
    return ops.cast(ops.convert_to_tensor(x), "bfloat16")


def array(x: Any) -> np.ndarray:
    """Returns a tensor as an array in float32."""
    return np.asarray(ops.convert_to_numpy(ops.cast(x, "float32")))


@functools.cache
def _numbers(count: int) -> list[np.ndarray]:
    """Returns four arrays of normal numbers, rounded to bfloat16, as float32."""
    return [array(x) for x in _tensors(count)]


@functools.cache
def _tensors(count: int) -> list[Any]:
    """Returns four tensors of the device, in bfloat16. To make them takes long."""
    random = np.random.default_rng(SEED)
    return [bfloat16(random.standard_normal(count, "float32")) for _ in range(4)]
