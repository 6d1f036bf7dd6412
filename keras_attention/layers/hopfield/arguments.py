"""Checks the arguments of Hopfield layers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any

import numpy as np

from keras_attention.layers.base.arguments import fraction, positive
from keras_attention.layers.base.serialization import as_config
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
    if steps is None:
        return None
    if isinstance(steps, Integral) and not isinstance(steps, bool) and int(steps) >= 1:
        return int(steps)
    raise ValueError(
        "`update_steps` must be a whole number of at least 1, or None to iterate until "
        f"the states converge. Received: update_steps={steps!r}"
    )


def check_beta(beta: Any, heads: int) -> float | list[float] | None:
    """Returns β as a number, a list with one number per head, or None."""
    if beta is None:
        return None
    value = beta.tolist() if isinstance(beta, (np.ndarray, np.generic)) else beta
    several = isinstance(value, (list, tuple))
    each = [*value] if several else [value]
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
    return [float(b) for b in each] if several else float(value)


def check_projections(projections: Any) -> tuple[Any, dict[str, Any]]:
    """Returns the config of `projections`, and all arguments of the projections."""
    if isinstance(projections, bool):
        return projections, dict(PROJECTIONS)
    options = projections if isinstance(projections, dict) else {"": projections}
    unknown = sorted(options.keys() - PROJECTIONS.keys())
    if unknown:
        raise ValueError(
            "`projections` must be True, False or a dict of arguments among "
            f"{list(PROJECTIONS)}. Received: projections={projections!r}"
        )
    check_scores(options.get("query_key_normalization"), False, None, "softmax")
    return {k: as_config(v) for k, v in options.items()}, {**PROJECTIONS, **options}


def refuse_projected(keywords: dict[str, Any]) -> None:
    """Raises a ValueError for keywords that belong in `projections`."""
    wrong = {name: keywords[name] for name in PROJECTIONS if name in keywords}
    if wrong:
        raise ValueError(
            f"{' and '.join(f'`{name}`' for name in wrong)} must be given as "
            f"`projections={wrong!r}`, to all projections. Received: "
            + ", ".join(f"{name}={value!r}" for name, value in wrong.items())
        )


def check_static(query: Sequence, value: Sequence, key: Sequence) -> None:
    """Checks the shapes of a call of a layer without projections."""
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
