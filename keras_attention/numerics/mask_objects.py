"""Masks as objects, which a kernel can evaluate for some queries and keys at a time.

`allows` gives the booleans of any queries and keys from their positions and the arrays
of the mask. `bounds` gives, for each tile of queries, a range of keys outside of which
the mask allows nothing. Both need an `aligned` mask, whose arrays have the axes of the
scores: a tile of them is cut like a tile of a boolean mask. Keras and JAX walk a mask
as a structure of arrays, which may be symbolic.

Shapes: B batch, T queries, S keys, N tiles of queries, C queries of a tile.
"""

from __future__ import annotations

import abc
from collections.abc import Callable
from functools import reduce
from numbers import Integral
from typing import Any, ClassVar

import keras
import numpy as np
from keras import ops

from keras_attention.numerics import masks

Tensor = Any
Sizes = tuple[int | None, int | None, int | None]  # B, T and S; None for any number
Bounds = tuple[Any, Any]  # the first key and the one after the last, int32 (..., N)
BLOCK = 32  # keys whose segment ids are compared with those of a tile together
ARRAY = "array"  # where an argument is an array or a mask
FIXED = int, str, type(None)
export = keras.saving.register_keras_serializable(package="keras_attention")


class Holder(str):
    """Text in the config of a mask that keeps the mask alive while a model is saved.

    Keras saves copies of the masks of a functional model, and takes objects with one
    address for one object. A later copy could have the address of this mask.
    """

    mask: Mask

    def __deepcopy__(self, memo: Any) -> Holder:
        return self


class Mask(abc.ABC):
    """Abstract base class of the mask objects."""

    arguments: ClassVar[tuple[str, ...]] = ()

    @abc.abstractmethod
    def allows(self, t: Tensor, s: Tensor) -> Tensor:
        """Returns whether queries t (C, 1) may attend to keys s (1, ·), if aligned."""

    @abc.abstractmethod
    def bounds(self, starts: Tensor, size: int, keys: int) -> Bounds:
        """Returns the keys of tiles of C queries from `starts` (N,) on, if aligned."""

    def aligned(self) -> Mask:
        """Returns the mask with arrays that broadcast to (B, H, T, S)."""
        return self

    def map(self, function: Callable) -> Any:
        """Returns the mask of f(x) for each array x; faster than Keras' tree."""
        children, fixed = self.tree_flatten()
        return self.tree_unflatten(fixed, map(function, children))

    def _sizes(self) -> Sizes:
        """Returns the sizes for which the arrays of the mask were made."""
        return None, None, None

    def array(self, queries: Any, keys: Any = None) -> Tensor:
        """Returns the mask as booleans (B, T, S), True = may attend.

        B is 1 if all examples have the same mask.

        Args:
            queries: T, the number of queries.
            keys: S, the number of keys; defaults to `queries`.

        Raises:
            ValueError: if the mask holds segments of another length.
        """
        keys = queries if keys is None else keys
        check("mask", self, None, queries, keys)
        mask = as_array(self, queries, keys)[:, 0]
        return ops.logical_and(mask, ops.ones((queries, keys), "bool"))

    def __and__(self, other: Any) -> Mask:
        return _join("&", self, other)

    def __or__(self, other: Any) -> Mask:
        return _join("|", self, other)

    def __bool__(self) -> bool:
        raise TypeError(f"Masks must be joined by & and |. Received: bool of {self!r}")

    def __len__(self) -> int:  # Keras asks each structure among arguments
        return len(self.tree_flatten()[0])

    def __array__(self, *args: Any, **kwargs: Any) -> np.ndarray:
        raise ValueError(
            "A mask object must be the `attention_mask` of a layer or the `mask` of an "
            f"operation on queries and keys, or its `array`. Received: {self!r}"
        )

    def __repr__(self) -> str:
        values = (getattr(self, name) for name in self.arguments)
        shown = (tuple(x.shape) if hasattr(x, "shape") else x for x in values)
        named = (f"{name}={x}" for name, x in zip(self.arguments, shown))
        return f"{type(self).__name__}({', '.join(named)})"

    def tree_flatten(self) -> tuple[tuple, tuple]:
        """Returns the arrays and masks among the arguments, and all other values."""
        values = [getattr(self, name) for name in self.arguments]
        fixed = tuple(x if isinstance(x, FIXED) else ARRAY for x in values)
        return tuple(x for x, y in zip(values, fixed) if y is ARRAY), fixed

    @classmethod
    def tree_unflatten(cls, fixed: tuple, children: Any) -> Any:
        """Returns a mask of other arrays; nothing is checked."""
        mask, left = object.__new__(cls), iter(children)
        for name, value in zip(cls.arguments, fixed):
            setattr(mask, name, next(left) if value == ARRAY else value)
        return mask

    def get_config(self) -> dict[str, Any]:
        serialize = keras.saving.serialize_keras_object
        holder = Holder(type(self).__name__)
        holder.mask = self
        config = {name: serialize(getattr(self, name)) for name in self.arguments}
        return {**config, "kind": holder}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Any:
        deserialize = keras.saving.deserialize_keras_object
        return cls(**{name: deserialize(config[name]) for name in cls.arguments})


@export
class Causal(Mask):
    """Query t may attend to keys 0 … t."""

    def allows(self, t: Tensor, s: Tensor) -> Tensor:
        return s <= t

    def bounds(self, starts: Tensor, size: int, keys: int) -> Bounds:
        return ops.zeros_like(starts), starts + size


@export
class Window(Mask):
    """Query t may attend to keys s with |t − s| < w, before and after t.

    Args:
        size: w, at least 1. `Causal() & Window(w)` allows the w most recent keys.

    Raises:
        ValueError: if `size` is no whole number of at least 1.
    """

    arguments = ("size",)

    def __init__(self, size: int) -> None:
        self.size = whole("size", size, 1)

    def allows(self, t: Tensor, s: Tensor) -> Tensor:
        return abs(t - s) < self.size

    def bounds(self, starts: Tensor, size: int, keys: int) -> Bounds:
        near = self.size - 1
        return starts - near, starts + (size + near)


@export
class Segments(Mask):
    """A query may attend to the keys of its segment, such as one of several texts.

    Args:
        ids: integers (B, T), the segment of each query, or (1, T) for all examples. 0
            is padding, which attends to nothing and is attended by nothing. Ids in
            increasing order are fast.
        key_ids: integers (B, S), the segment of each key; defaults to `ids`.

    Raises:
        ValueError: if ids are no integers of rank 2.

    Example:

    >>> import numpy as np
    >>> from keras_attention import masks
    >>> from keras import ops
    >>> mask = masks.Causal() & masks.Segments(np.array([[1, 1, 2, 0]]))
    >>> ops.convert_to_numpy(mask.array(4))[0].astype(int).tolist()
    [[1, 0, 0, 0], [1, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 0]]
    """

    arguments = ("ids", "key_ids")

    def __init__(self, ids: Tensor, key_ids: Tensor | None = None) -> None:
        self.ids = _integers("ids", ids, "(batch, queries)")
        if key_ids is not None:
            key_ids = _integers("key_ids", key_ids, "(batch, keys)")
        self.key_ids: Any = key_ids
        self._sizes()  # raises an error where they differ

    def _sizes(self) -> Sizes:
        keys = self.ids if self.key_ids is None else self.key_ids
        sizes = _examples(self.ids), self.ids.shape[1], None
        others = _examples(keys), None, keys.shape[1]
        return _join_sizes(sizes, others, self, "`ids` and `key_ids`")

    def aligned(self) -> Mask:
        ids = ops.convert_to_tensor(self.ids)
        keys = ids if self.key_ids is None else ops.convert_to_tensor(self.key_ids)
        sides = ids[:, None, :, None], keys[:, None, None]  # (B, 1, ·, ·)
        return self.tree_unflatten((ARRAY, ARRAY), sides)

    def allows(self, t: Tensor, s: Tensor) -> Tensor:
        # Not `==`, which compares the identity of Keras' symbols
        same = ops.equal(self.ids, self.key_ids)
        return ops.logical_and(same, ops.not_equal(self.ids, 0))

    def bounds(self, starts: Tensor, size: int, keys: int) -> Bounds:
        low, high = _extremes(self.ids[..., 0], size)  # (..., N)
        first, last = _extremes(self.key_ids[..., 0, :], BLOCK)
        low, high = low[..., :, None], high[..., :, None]
        first, last = first[..., None, :], last[..., None, :]
        meets = (first <= high) & (last >= low)  # (..., N, ·)
        blocks = meets.shape[-1]
        index = ops.arange(blocks, dtype="int32")
        start = ops.min(ops.where(meets, index, blocks), axis=-1)
        return start * BLOCK, ops.max(ops.where(meets, index + 1, 0), axis=-1) * BLOCK


@export
class Prefix(Mask):
    """All queries may attend to keys 0 … n − 1, as in a prefix language model.

    Args:
        length: n, a whole number, or integers (B,), one for each example.

    Raises:
        ValueError: if `length` is no whole number of at least 0, and no integers (B,).

    Example:

    >>> from keras_attention import masks
    >>> from keras import ops
    >>> mask = masks.Causal() | masks.Prefix(2)
    >>> ops.convert_to_numpy(mask.array(3))[0].astype(int).tolist()
    [[1, 1, 0], [1, 1, 0], [1, 1, 1]]
    """

    arguments = ("length",)

    def __init__(self, length: int | Tensor) -> None:
        if isinstance(length, (Integral, float)):
            self.length: Any = whole("length", length, 0)
        else:
            self.length = _integers("length", length, "(batch,)")

    def _sizes(self) -> Sizes:
        whole = isinstance(self.length, int)
        return None if whole else _examples(self.length), None, None

    def aligned(self) -> Mask:
        length = ops.cast(ops.convert_to_tensor(self.length), "int32")
        return self.tree_unflatten((ARRAY,), [ops.reshape(length, (-1, 1, 1, 1))])

    def allows(self, t: Tensor, s: Tensor) -> Tensor:
        return ops.less(s, self.length)

    def bounds(self, starts: Tensor, size: int, keys: int) -> Bounds:
        return ops.zeros_like(starts), ops.zeros_like(starts) + self.length[..., 0]


class Array(Mask):
    """A boolean array that broadcasts to (B, H, T, S), beside a mask object."""

    arguments = ("mask",)

    def __init__(self, mask: Tensor) -> None:
        self.mask = mask

    def allows(self, t: Tensor, s: Tensor) -> Tensor:
        return self.mask

    def bounds(self, starts: Tensor, size: int, keys: int) -> Bounds:
        return ops.zeros_like(starts), ops.full_like(starts, keys)


@export
class Joined(Mask):
    """Masks joined by `&`, where all must allow a pair, or by `|`, where one must."""

    arguments = ("masks", "sign")

    def __init__(self, masks: tuple[Mask, ...], sign: str) -> None:
        self.masks, self.sign = masks, sign

    def __repr__(self) -> str:
        parts = (f"({x!r})" if isinstance(x, Joined) else repr(x) for x in self.masks)
        return f" {self.sign} ".join(parts)

    def _sizes(self) -> Sizes:
        sizes: Sizes = None, None, None
        for mask in self.masks:
            sizes = _join_sizes(sizes, mask._sizes(), mask, "Masks that are joined")
        return sizes

    def map(self, function: Callable) -> Any:
        return Joined(tuple(x.map(function) for x in self.masks), self.sign)

    def aligned(self) -> Mask:
        return Joined(tuple(x.aligned() for x in self.masks), self.sign)

    def allows(self, t: Tensor, s: Tensor) -> Tensor:
        join = ops.logical_and if self.sign == "&" else ops.logical_or
        return reduce(join, [x.allows(t, s) for x in self.masks])

    def bounds(self, starts: Tensor, size: int, keys: int) -> Bounds:
        bounds = [x.bounds(starts, size, keys) for x in self.masks]
        first, last = zip(*bounds)
        if self.sign == "&":
            return reduce(ops.maximum, first), reduce(ops.minimum, last)
        # A part that allows nothing does not count.
        first = tuple(ops.where(a < b, a, keys) for a, b in bounds)
        last = tuple(ops.where(a < b, b, 0) for a, b in bounds)
        return reduce(ops.minimum, first), reduce(ops.maximum, last)


def check(name: str, mask: Mask, batch: Any, queries: Any, keys: Any) -> None:
    """Raises a ValueError if a user's mask does not fit B, T and S, if known."""
    what = f"`{name}` and the tensors of the call"
    _join_sizes((batch, queries, keys), mask._sizes(), mask, what)


def as_array(mask: Any, queries: Any, keys: Any) -> Any:
    """Returns a mask object as booleans (·, ·, ·, S); an array or None is unchanged."""
    if not isinstance(mask, Mask):
        return mask
    t, s = masks.positions(queries), masks.positions(keys)
    array = mask.aligned().allows(t[:, None], s[None])
    return array if len(array.shape) == 4 else array[None, None]


def whole(name: str, value: Any, least: int) -> int:
    """Returns a whole number of at least `least`, or raises a ValueError."""
    if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
        raise ValueError(
            f"`{name}` must be a whole number of at least {least}. "
            f"Received: {name}={value!r}"
        )
    return int(value)


def every(mask: Any, array: Any = None, *, is_causal: bool, window: Any = None) -> Mask:
    """Joins a mask, a boolean array, a causal mask and a window, if any, by `&`."""
    parts = [] if mask is None else [*_parts_of(mask)]
    parts += [] if array is None else [Array(array)]
    parts += [Causal()] if is_causal else []
    parts += [] if window is None else [Window(window)]
    return Joined(tuple(parts), "&")


def simple(mask: Mask) -> tuple[Tensor | None, bool, int | None] | None:
    """Returns a mask as an array, `is_causal` and a window, if it has no other part."""
    parts = _parts_of(mask)
    if not all(isinstance(x, (Array, Causal, Window)) for x in parts):
        return None
    arrays = [x.mask for x in parts if isinstance(x, Array)]
    windows = [x.size for x in parts if isinstance(x, Window)]
    is_causal = any(isinstance(x, Causal) for x in parts)
    return masks.merge(*arrays), is_causal, min(windows) if windows else None


def _parts_of(mask: Any, sign: str = "&") -> Any:
    return mask.masks if isinstance(mask, Joined) and mask.sign == sign else (mask,)


def _join(sign: str, first: Any, second: Any) -> Mask:
    if not isinstance(second, Mask):
        raise TypeError(
            f"A mask object must be joined by {sign} with a mask object. "
            f"Received: {second!r}"
        )
    joined = Joined((*_parts_of(first, sign), *_parts_of(second, sign)), sign)
    joined._sizes()  # raises an error where they differ
    return joined


def _join_sizes(sizes: Sizes, others: Sizes, mask: Mask, what: str) -> Any:
    """Returns all sizes that are known, or raises an error if they differ."""
    pairs = [*zip(sizes, others)]
    for axis, (a, b) in zip(("examples", "queries", "keys"), pairs):
        if isinstance(a, int) and isinstance(b, int) and a != b:
            raise ValueError(
                f"{what} must have the same number of {axis}. Received: {a} and {b}, "
                f"of {mask!r}"
            )
    return tuple(a if b is None else b for a, b in pairs)


def _examples(x: Tensor) -> int | None:
    """Returns the size B of the first axis; 1, for all examples, is any number."""
    return None if x.shape[0] == 1 else x.shape[0]


def _extremes(ids: Tensor, size: int) -> tuple[Tensor, Tensor]:
    """Returns the lowest and the highest id of each `size` ids, (..., ·) like ids.

    Id 0 does not count: without any other id, the lowest is above the highest.
    """
    room = -ids.shape[-1] % size
    ids = ops.pad(ids, [(0, 0)] * (len(ids.shape) - 1) + [(0, room)])
    ids = ops.reshape(ids, (*ops.shape(ids)[:-1], ids.shape[-1] // size, size))
    limits = np.iinfo(keras.backend.standardize_dtype(ids.dtype))
    low, high = (ops.full_like(ids, n) for n in (limits.max, limits.min))
    low = ops.min(ops.where(ids == 0, low, ids), axis=-1)
    return low, ops.max(ops.where(ids == 0, high, ids), axis=-1)


def _integers(name: str, x: Any, form: str) -> Tensor:
    x = x if hasattr(x, "shape") and hasattr(x, "dtype") else np.asarray(x)
    dtype = keras.backend.standardize_dtype(x.dtype)
    rank = form.replace(",)", ")").count(",") + 1
    fits, limits = "int" in dtype and len(x.shape) == rank, ""
    if fits and isinstance(x, np.ndarray) and x.size:  # JAX would cut larger numbers
        fits = np.array_equal(x, x.astype("int32"))
        limits = f", from {x.min()} to {x.max()}"
    if not fits:
        raise ValueError(
            f"`{name}` must hold integers of 32 bits, of shape {form}. Received: "
            f"{name}.shape={tuple(x.shape)}, dtype={dtype}{limits}"
        )
    return x
