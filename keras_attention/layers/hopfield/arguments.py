"""Checks the arguments of Hopfield layers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any

import keras
import numpy as np

from keras_attention.layers.base.arguments import fraction, positive
from keras_attention.layers.multi_head.projections import check_scores

NORMALIZERS = ("softmax", "softmax1", "sparsemax", "entmax15", "hardmax")
# The keys that `projections` may contain, and their defaults.
PROJECTIONS = {
    "use_bias": True,
    "output_shape": None,
    "kernel_initializer": "glorot_uniform",
    "bias_initializer": "zeros",
    "kernel_regularizer": None,
    "bias_regularizer": None,
    "query_key_normalization": None,
}


def check_sizes(
    num_heads: Any,
    key_dim: Any,
    value_dim: Any,
    projections: Any,
    dropout: Any,
    tolerance: Any,
) -> None:
    """Raises a ValueError for invalid or contradictory sizes."""
    positive("num_heads", num_heads)
    for name, width in (("key_dim", key_dim), ("value_dim", value_dim)):
        if width is None:
            continue
        positive(name, width)
        if projections is False:
            raise ValueError(
                f"`{name}` is the width of a projection, so it must be None with "
                f"projections=False. Received: {name}={width}"
            )
    if projections is False and num_heads != 1:
        raise ValueError(
            "`num_heads` must be 1 with projections=False, since heads differ in their "
            f"projections. Received: num_heads={num_heads}"
        )
    fraction("dropout", dropout)
    if not (_is_number(tolerance) and tolerance >= 0):
        raise ValueError(
            "`tolerance` must be a number of at least 0. "
            f"Received: tolerance={tolerance!r}"
        )


def check_steps(steps: Any) -> int | None:
    """Returns the number of update steps, or None to iterate until convergence."""
    whole = isinstance(steps, Integral) and not isinstance(steps, bool)
    if steps is None or (whole and steps >= 1):
        return None if steps is None else int(steps)
    raise ValueError(
        "`update_steps` must be a whole number of at least 1, or None to iterate until "
        f"the states converge. Received: update_steps={steps!r}"
    )


def check_beta(beta: Any, heads: int) -> float | list[float] | None:
    """Returns β as a number, a list with one number per head, or None."""
    if beta is None:
        return None
    found = beta.tolist() if isinstance(beta, (np.ndarray, np.generic)) else beta
    several = isinstance(found, (list, tuple))
    each = list(found) if several else [found]
    if not all(_is_number(b) and b > 0 for b in each):
        raise ValueError(
            "`beta` must be a number above 0, or a list of one for each head. "
            f"Received: beta={beta!r}"
        )
    if several and len(each) != heads:
        raise ValueError(
            f"`beta` must hold a number for each head. Received: beta={beta!r}, "
            f"num_heads={heads}"
        )
    return [float(b) for b in each] if several else float(found)


def check_normalizer(normalizer: Any) -> str:
    """Returns the name of the normalizer, or raises a ValueError."""
    if not isinstance(normalizer, str) or normalizer not in NORMALIZERS:
        raise ValueError(
            f"`normalizer` must be one of {list(NORMALIZERS)}. "
            f"Received: normalizer={normalizer!r}"
        )
    return normalizer


def check_projections(projections: Any) -> tuple[Any, dict[str, Any]]:
    """Returns the config of `projections`, and all arguments of the projections."""
    if isinstance(projections, bool):
        return projections, dict(PROJECTIONS)
    given = projections if isinstance(projections, dict) else {"": projections}
    unknown = sorted(given.keys() - PROJECTIONS.keys())
    if unknown:
        raise ValueError(
            "`projections` must be True, False or a dict of arguments among "
            f"{list(PROJECTIONS)}. Received: projections={projections!r}"
        )
    check_scores(given.get("query_key_normalization"), False, None, "softmax")
    return {k: _config(v) for k, v in given.items()}, {**PROJECTIONS, **given}


def refuse_projected(keywords: dict[str, Any]) -> None:
    """Raises a ValueError for keywords that belong in `projections`."""
    found = {name: keywords[name] for name in PROJECTIONS if name in keywords}
    if found:
        raise ValueError(
            f"{' and '.join(f'`{name}`' for name in found)} must be given as "
            f"`projections={found!r}`, to all projections. Received: "
            + ", ".join(f"{name}={value!r}" for name, value in found.items())
        )


def check_static(query: Sequence, value: Sequence, key: Sequence) -> None:
    """Checks the shapes of a call of a layer without projections.

    All shapes must have rank 3, and query and key must have the same width.
    """
    for name, shape in (("value", value), ("key", key)):
        if len(shape) != 3:
            raise ValueError(
                f"Without projections, `{name}`, which is stored, must have shape "
                f"(batch, patterns, width). Received: {name}_shape={tuple(shape)}"
            )
    if len(query) != 3:
        raise ValueError(
            "Without projections, `query` must have shape (batch, states, width) or "
            f"(batch, width). Received: query_shape={tuple(query)}"
        )
    if query[-1] != key[-1]:
        raise ValueError(
            "Without projections, `query` and the stored patterns must have one width. "
            f"Received: query_shape={tuple(query)}, value_shape={tuple(value)}, "
            f"key_shape={tuple(key)}"
        )


def _is_number(x: Any) -> bool:
    return isinstance(x, Real) and not isinstance(x, bool) and math.isfinite(x)


def _config(value: Any) -> Any:
    """Returns the config entry of an argument of a projection."""
    if value is None or isinstance(value, (bool, int, str, dict)):
        return value
    if isinstance(value, (list, tuple)):
        return list(value)
    return keras.saving.serialize_keras_object(value)
