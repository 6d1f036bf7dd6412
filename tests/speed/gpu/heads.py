"""Attention over heads: our operation, its peers, and their check on a slice.

The inputs are in bfloat16. Each side gets them in the layout that it asks for.

Shapes: B batch, T queries and keys, H heads, D width of a head, N valid positions of
all examples.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

from keras_attention.ops.positions import alibi_slopes
from speed.gpu import timing
from speed.gpu.masks import Mask, exact
from speed.harness import SEED

MOST_SCORES = 8e9  # bytes of the scores of the explicit softmax


class Side(NamedTuple):
    """One side of a row: a call, and a function that returns its error."""

    call: timing.Call
    check: Callable[[], float]  # NaN if nothing is compared


class Form(NamedTuple):
    """A function of query, key and value in one layout, and of more tensors.

    Attributes:
        function: A function that returns the output in the same layout.
        layout: "BTHD", "BHTD", or "NHD" for the valid positions of all examples.
        extras: Arrays, or structures of tensors.
    """

    function: Callable[..., Any]
    layout: str = "BTHD"
    extras: tuple[Any, ...] = ()


def make(backend: str, sizes: Any) -> tuple[dict[str, Callable], dict[str, str]]:
    """Returns functions that build the sides of a row, and why others are left out."""
    mask = Mask(sizes["mask"], sizes)
    forms: Any = importlib.import_module(f"speed.gpu.heads_{backend}")
    made, skipped = forms.peers(mask, sizes)
    scores = 2.0 * sizes["B"] * sizes["H"] * sizes["T"] ** 2
    if sizes["group"] == "core" and scores <= MOST_SCORES:
        made["explicit softmax"] = forms.explicit(mask, sizes)
    elif sizes["group"] == "core":
        skipped["explicit softmax"] = f"its scores take {scores / 1e9:.0f} GB"
    shape = tuple(sizes[name] for name in "BTHD")
    count = int(np.prod(shape))
    right = exact(mask, *(x.reshape(shape) for x in _numbers(count)))
    *inputs, slope = (x.reshape(shape) for x in _tensors(backend, count))

    def build(form: Form) -> Side:
        move = functools.partial(forms.laid_out, layout=form.layout, valid=mask.valid)
        tensors = [move(x) for x in inputs]
        extras = tuple(forms.extra(x) for x in form.extras)
        timed = checked = None
        if sizes["mode"] != "fwd":
            place = right.example, right.queries, right.head
            timed, checked = move(slope), move(forms.alone(slope, place))
        call = timing.call_of(backend, form.function, tensors, extras, timed)

        def check() -> float:
            results = call.again(checked)
            results = results if isinstance(results, list) else [results]
            place = right.example, right.head
            picked = [forms.array(_pick(form.layout, x, *place, mask)) for x in results]
            if form.layout == "NHD":
                picked = [_spread(x, mask.valid[right.example]) for x in picked]
            return right.error(picked)

        return Side(call, check)

    return {
        name: functools.partial(build, form) for name, form in made.items()
    }, skipped


def ours(mask: Mask) -> Form:
    """Returns our operation with the mask as users write it."""
    from keras_attention import masks, ops

    attend = ops.dot_product_attention
    options: dict[str, Any] = {"is_causal": mask.causal}
    if mask.hides:  # what a layer makes of `value_mask`
        valid = mask.valid[:, None, None]  # (B, 1, 1, T)
        return Form(lambda q, k, v, m: attend(q, k, v, m, **options), extras=(valid,))
    if mask.name == "texts":

        def texts(q: Any, k: Any, v: Any, ids: Any) -> Any:
            return attend(q, k, v, masks.Causal() & masks.Segments(ids))

        return Form(texts, extras=(mask.ids,))
    if mask.name == "window":
        options["sliding_window"] = mask.window
    if mask.slopes is not None:
        bias = alibi(mask)
        return Form(
            lambda q, k, v, b: attend(q, k, v, bias=b, **options), extras=(bias,)
        )
    return Form(lambda q, k, v: attend(q, k, v, **options))


def alibi(mask: Mask) -> np.ndarray:
    """Returns the bias (1, H, T, T) in bfloat16."""
    t = np.arange(mask.length, dtype="float32")
    slopes = alibi_slopes(mask.heads).astype("float32")[None, :, None, None]
    return (-slopes * np.abs(t[:, None] - t)).astype(ml_dtypes.bfloat16)


def full(mask: Mask) -> np.ndarray:
    """Returns the mask as booleans (B, 1, T, T), or (1, 1, T, T) if all are alike."""
    t = np.arange(mask.length)
    alike = mask.name != "texts" and not mask.hides
    examples = range(1 if alike else len(mask.lengths))
    return np.stack([mask.allowed(n, t) for n in examples])[:, None]


@functools.cache
def _numbers(count: int) -> tuple[np.ndarray, ...]:
    """Returns four arrays of normal numbers, rounded to bfloat16, as float32."""
    random = np.random.default_rng(SEED)
    numbers = (random.standard_normal(count, "float32") for _ in range(4))
    return tuple(x.astype(ml_dtypes.bfloat16).astype("float32") for x in numbers)


@functools.cache
def _tensors(backend: str, count: int) -> list[Any]:
    """Returns the numbers on the device, in bfloat16; moving them takes long."""
    forms: Any = importlib.import_module(f"speed.gpu.heads_{backend}")
    return [forms.tensor(x) for x in _numbers(count)]


def _pick(layout: str, x: Any, example: int, head: int, mask: Mask) -> Any:
    """Returns the numbers of an example and a head, (T, D), or of valid positions."""
    if layout == "NHD":
        first = int(mask.lengths[:example].sum())
        return x[first : first + int(mask.lengths[example]), head]
    return x[example, head] if layout == "BHTD" else x[example, :, head]


def _spread(x: np.ndarray, valid: np.ndarray) -> np.ndarray:
    """Returns (T, D) with rows of zeros where a position is not valid."""
    spread = np.zeros((len(valid), x.shape[-1]))
    spread[valid] = x
    return spread
