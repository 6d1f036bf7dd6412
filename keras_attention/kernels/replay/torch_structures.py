"""Structures of tensors: their signatures, and structures with slots for tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import keras
import numpy as np
import torch

Tensor = Any
Structure = Any

PLAIN = (torch.Tensor, torch.nn.Parameter)
VALUES = (type(None), bool, int, float, str)


class Slot(NamedTuple):
    """The place of a tensor in a list, and of the mask that it carries."""

    place: int
    mask: Any


def with_tensors(x: Structure) -> Structure:
    """Converts the NumPy arrays of numbers in a structure to tensors."""
    kind = type(x)
    if kind is np.ndarray and x.dtype.kind in "biuf":
        return keras.ops.convert_to_tensor(x)
    if kind is dict:
        return {name: with_tensors(value) for name, value in x.items()}
    if kind in (list, tuple):
        return kind(with_tensors(value) for value in x)
    return x


def signature(x: Any, leaves: dict[int, Tensor]) -> Any:
    """Returns a hashable description of a structure.

    Args:
        x: a structure of tensors and Python values.
        leaves: gets the tensors by their ids, in their order. The mask that Keras
            attached to a tensor follows it.

    Returns:
        The description, or None if the structure holds other objects.
    """
    kind = type(x)
    if kind in PLAIN:
        if id(x) in leaves:
            return [*leaves].index(id(x))
        if x.is_meta or x.layout is not torch.strided or x.is_inference():
            return None
        leaves[id(x)] = x
        own = (x.shape, x.stride(), x.dtype, x.device, x.requires_grad)
        mask = getattr(x, "_keras_mask", None)
        if mask is None:
            return own
        found = signature(mask, leaves)
        return None if found is None else (own, found)
    if kind in VALUES:
        return (kind, repr(x))  # 0.0 and −0.0 are equal, but not the same
    if kind is dict:
        parts = [(name, signature(value, leaves)) for name, value in x.items()]
        return None if any(part is None for _, part in parts) else (kind, *parts)
    if kind in (list, tuple):
        parts = [signature(value, leaves) for value in x]
        return None if any(part is None for part in parts) else (kind, *parts)
    return None


def plan(x: Structure, tensors: dict[int, Tensor]) -> Structure:
    """Returns a structure with a `Slot` for each tensor.

    Args:
        x: a structure of tensors and Python values.
        tensors: gets the tensors by their ids, in their order.

    Raises:
        TypeError: if the structure holds other objects.
    """
    if isinstance(x, torch.Tensor):
        tensors.setdefault(id(x), x)
        place, mask = [*tensors].index(id(x)), getattr(x, "_keras_mask", None)
        return Slot(place, None if mask is None else plan(mask, tensors))
    if isinstance(x, dict):
        return {name: plan(value, tensors) for name, value in x.items()}
    if hasattr(x, "_fields"):
        return type(x)(*(plan(value, tensors) for value in x))
    if isinstance(x, (list, tuple)):
        return type(x)(plan(value, tensors) for value in x)
    if isinstance(x, VALUES):
        return x
    raise TypeError(f"a call takes or returns a {type(x).__name__}")


def filled(plan: Structure, found: Sequence[Tensor]) -> Structure:
    """Puts tensors into the slots of a structure."""
    if isinstance(plan, Slot):
        x = found[plan.place]
        if plan.mask is not None:
            x._keras_mask = filled(plan.mask, found)
        return x
    if isinstance(plan, dict):
        return {name: filled(value, found) for name, value in plan.items()}
    if hasattr(plan, "_fields"):
        return type(plan)(*(filled(value, found) for value in plan))
    if isinstance(plan, (list, tuple)):
        return type(plan)(filled(value, found) for value in plan)
    return plan
