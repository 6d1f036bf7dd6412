"""Masks as objects, which a kernel can evaluate for some queries and keys at a time.

A mask is a tree of the four public classes, joined by `&` and `|`. It has no array of
size T · S. It gives:

- `allows`: the booleans of any queries and keys, from their positions and from the
  arrays of the mask (such as segment ids);
- `bounds`: for each tile of queries, a range of keys outside of which it allows
  nothing.

Keras, JAX and optree walk a mask as a structure of arrays, so it can hold symbolic
tensors. `aligned` gives these arrays the axes of the scores, so that a tile of an array
is cut like a tile of a boolean mask.

Shapes: B batch, T queries, S keys, N tiles of queries, C queries of a tile.
"""

from __future__ import annotations

import abc
from collections.abc import Callable
from numbers import Integral
from typing import Any, ClassVar, NamedTuple

import keras
import numpy as np
from keras import ops

from keras_attention.numerics import masks

Tensor = Any
Bounds = tuple[Any, Any]  # the first key and the one after the last, int32 (..., N)
BLOCK = 32  # keys whose segment ids are compared with those of a tile together

export = keras.saving.register_keras_serializable(package="keras_attention")


class Tiles(NamedTuple):
    """The sizes of the tiles of a call."""

    size: int  # C
    count: int  # N
    keys: int  # S

    @property
    def starts(self) -> Tensor:
        """The first query of each tile, int32 (N,)."""
        return ops.arange(self.count, dtype="int32") * self.size


class Mask(abc.ABC):
    """Abstract base class of the masks that are objects."""

    arguments: ClassVar[tuple[str, ...]] = ()

    @abc.abstractmethod
    def allows(self, t: Tensor, s: Tensor) -> Tensor:
        """Returns whether queries may attend to keys, for an aligned mask.

        Args:
            t: positions of queries, int32 (C, 1).
            s: positions of keys, int32 (1, ·).

        Returns:
            Booleans that broadcast to (..., C, ·).
        """

    @abc.abstractmethod
    def bounds(self, tiles: Tiles) -> Bounds:
        """Returns a range of keys for each tile of queries, for an aligned mask.

        The mask allows no key outside of the range, which may end after the last key.
        """

    def _aligned(self, heads: bool) -> Mask:
        return self

    def _check(self, name: str, batch: Any, queries: Any, keys: Any) -> None:  # noqa: B027
        """Raises a ValueError if an array does not fit the sizes; None is unknown."""

    def _lengths(self) -> dict[str, int]:
        """Returns the lengths of queries and keys that the mask has, if known."""
        return {}

    def array(self, queries: Any, keys: Any = None) -> Tensor:
        """Returns the mask as an array.

        Args:
            queries: T, the number of queries.
            keys: S, the number of keys; defaults to `queries`.

        Returns:
            Booleans (B, T, S), or (1, T, S) if the mask is the same for all examples;
            True = may attend.

        Raises:
            ValueError: if the mask holds segments of another length.
        """
        keys = queries if keys is None else keys
        sizes = [n if isinstance(n, Integral) else None for n in (queries, keys)]
        self._check("mask", None, *sizes)
        t, s = masks.positions(queries), masks.positions(keys)
        visible = self._aligned(False).allows(t[:, None], s[None])
        for _ in range(3 - len(visible.shape)):
            visible = visible[None]
        return ops.broadcast_to(visible, (ops.shape(visible)[0], queries, keys))

    def __and__(self, other: Any) -> Mask:
        return _joined(And, self, other)

    def __or__(self, other: Any) -> Mask:
        return _joined(Or, self, other)

    def __bool__(self) -> bool:
        raise TypeError(
            "Masks must be joined by `&` and `|`, not by `and` and `or`, which use the "
            f"truth value of a mask. Received: {self!r}"
        )

    def __len__(self) -> int:  # Keras asks each structure among arguments
        return len(self.tree_flatten()[0])

    def __array__(self, *args: Any, **kwargs: Any) -> np.ndarray:
        raise ValueError(
            "A mask object must be passed as `attention_mask` of a layer, or `mask` of "
            "an operation, where its pairs of queries and keys have a meaning; for "
            "an array, call its method `array(queries, keys)`. "
            f"Received: {self!r}"
        )

    def __repr__(self) -> str:
        values = (getattr(self, name) for name in self.arguments)
        return f"{type(self).__name__}({', '.join(_show(x) for x in values)})"

    def tree_flatten(self) -> tuple[tuple, tuple]:
        """Returns the arrays and masks among the arguments, and all other values."""
        values = [getattr(self, name) for name in self.arguments]
        nested = [not (x is None or isinstance(x, int)) for x in values]
        children = tuple(x for x, is_child in zip(values, nested) if is_child)
        fixed = tuple(_CHILD if y else x for x, y in zip(values, nested))
        return children, fixed

    @classmethod
    def tree_unflatten(cls, fixed: tuple, children: Any) -> Mask:
        """Returns a mask of other arrays; nothing is checked."""
        mask, left = object.__new__(cls), iter(children)
        for name, value in zip(cls.arguments, fixed):
            setattr(mask, name, next(left) if value == _CHILD else value)
        return mask

    def get_config(self) -> dict[str, Any]:
        serialize = keras.saving.serialize_keras_object
        return {name: serialize(getattr(self, name)) for name in self.arguments}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Mask:
        values = [
            keras.saving.deserialize_keras_object(config[name])
            for name in cls.arguments
        ]
        return cls.tree_unflatten((_CHILD,) * len(values), values)


_CHILD = "array"


@export
class Causal(Mask):
    """Query t may attend to keys 0 … t.

    Example:

    >>> from keras_attention import masks
    >>> from keras import ops
    >>> ops.convert_to_numpy(masks.Causal().array(3))[0].astype(int).tolist()
    [[1, 0, 0], [1, 1, 0], [1, 1, 1]]
    """

    def allows(self, t: Tensor, s: Tensor) -> Tensor:
        return s <= t

    def bounds(self, tiles: Tiles) -> Bounds:
        starts = tiles.starts
        return ops.zeros_like(starts), starts + tiles.size


@export
class Window(Mask):
    """Query t may attend to keys s with |t − s| < w, on both sides.

    Args:
        size: w, at least 1. `Causal() & Window(w)` allows the w most recent keys.

    Raises:
        ValueError: if `size` is no whole number of at least 1.

    Example:

    >>> from keras_attention import masks
    >>> from keras import ops
    >>> ops.convert_to_numpy(masks.Window(2).array(3))[0].astype(int).tolist()
    [[1, 1, 0], [1, 1, 1], [0, 1, 1]]
    """

    arguments = ("size",)

    def __init__(self, size: int) -> None:
        self.size = _whole("size", size, 1)

    def allows(self, t: Tensor, s: Tensor) -> Tensor:
        return ops.abs(t - s) < self.size

    def bounds(self, tiles: Tiles) -> Bounds:
        starts = tiles.starts
        return starts - (self.size - 1), starts + (tiles.size + self.size - 1)


@export
class Segments(Mask):
    """A query may attend to the keys of its segment, such as one of several texts.

    Args:
        ids: integers (B, T), the segment of each query, or (1, T) for all examples. 0
            is padding: it attends to nothing, and nothing attends to it. The ids need
            no order, but runs of equal ids in increasing order are fast.
        key_ids: integers (B, S), the segment of each key; by default, the keys are the
            queries.

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
        self.ids = _integers("ids", ids, (2,), "(batch, queries)")
        if key_ids is not None:
            key_ids = _integers("key_ids", key_ids, (2,), "(batch, keys)")
        self.key_ids = key_ids

    def _sides(self) -> tuple[Tensor, Tensor]:
        return self.ids, self.ids if self.key_ids is None else self.key_ids

    def _aligned(self, heads: bool) -> Mask:
        ids, key_ids = map(ops.convert_to_tensor, self._sides())
        ids, key_ids = ids[:, :, None], key_ids[:, None]  # (B, T, 1), (B, 1, S)
        sides = (ids[:, None], key_ids[:, None]) if heads else (ids, key_ids)
        return self.tree_unflatten((_CHILD, _CHILD), sides)

    def _check(self, name: str, batch: Any, queries: Any, keys: Any) -> None:
        rule = "queries" if self.key_ids is not None else "queries and keys"
        for what, ids, sizes in (
            ("ids", self.ids, {rule: queries}),
            ("key_ids", self._sides()[1], {"keys": keys}),
        ):
            shape = tuple(ids.shape)
            for of, size in sizes.items():
                fits = None in (size, shape[1]) or size == shape[1]
                fits &= batch is None or shape[0] in (None, 1, batch)
                if not fits:
                    what = "ids" if self.key_ids is None else what
                    raise ValueError(
                        f"`{name}` must hold segments of the batch and the length of "
                        f"the {of}, here ({_size(batch)}, {_size(size)}). "
                        f"Received: {what}.shape={shape}"
                    )

    def _lengths(self) -> dict[str, int]:
        lengths = {n: x.shape[1] for n, x in zip(("queries", "keys"), self._sides())}
        return {name: n for name, n in lengths.items() if isinstance(n, int)}

    def allows(self, t: Tensor, s: Tensor) -> Tensor:
        return ops.logical_and(self.ids == self.key_ids, self.ids != 0)

    def bounds(self, tiles: Tiles) -> Bounds:
        low, high = _extremes(self.ids[..., 0], tiles.size)  # (..., N)
        first, last = _extremes(self.key_ids[..., 0, :], BLOCK)
        low, high = low[..., :, None], high[..., :, None]
        first, last = first[..., None, :], last[..., None, :]
        meets = ops.logical_and(first <= high, last >= low)  # (..., N, blocks)
        blocks = meets.shape[-1]
        index = ops.arange(blocks, dtype="int32")
        start = ops.min(ops.where(meets, index, blocks), axis=-1)
        stop = ops.max(ops.where(meets, index + 1, 0), axis=-1)
        return start * BLOCK, stop * BLOCK


@export
class Prefix(Mask):
    """All queries may attend to keys 0 … n − 1, as in a prefix language model.

    Args:
        length: n, a whole number, or integers (B,), one for each example.

    Raises:
        ValueError: if `length` is neither a whole number of at least 0 nor integers of
            rank 1.

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
            self.length: Any = _whole("length", length, 0)
        else:
            self.length = _integers("length", length, (1,), "(batch,)")

    def _aligned(self, heads: bool) -> Mask:
        if isinstance(self.length, int):
            return self
        length = ops.cast(ops.convert_to_tensor(self.length), "int32")
        return self.tree_unflatten(
            (_CHILD,), [ops.reshape(length, (-1, *[1] * (3 if heads else 2)))]
        )

    def _check(self, name: str, batch: Any, queries: Any, keys: Any) -> None:
        size = getattr(self.length, "shape", (None,))[0]
        if not (None in (size, batch) or size in (1, batch)):
            raise ValueError(
                f"`{name}` must hold a prefix for each example of the batch, here "
                f"{batch}. Received: length.shape=({size},)"
            )

    def allows(self, t: Tensor, s: Tensor) -> Tensor:
        return s < self.length

    def bounds(self, tiles: Tiles) -> Bounds:
        starts = ops.zeros_like(tiles.starts)
        fixed = isinstance(self.length, int)
        return starts, starts + (self.length if fixed else self.length[..., 0])


class Joined(Mask):
    """Masks that are joined; `masks` is a tuple of them."""

    arguments = ("masks",)
    sign: ClassVar[str]

    def __init__(self, *masks: Mask) -> None:
        self.masks = masks

    @property
    def _parts(self) -> tuple[Mask, ...]:
        return tuple(self.masks)  # a list in a loaded file

    def __repr__(self) -> str:
        parts = (f"({x!r})" if isinstance(x, Joined) else repr(x) for x in self._parts)
        return f" {self.sign} ".join(parts)

    def tree_flatten(self) -> tuple[tuple, tuple]:
        return self._parts, ()

    @classmethod
    def tree_unflatten(cls, fixed: tuple, children: Any) -> Mask:
        mask = object.__new__(cls)
        mask.masks = tuple(*children) if fixed else tuple(children)
        return mask

    def _aligned(self, heads: bool) -> Mask:
        return type(self)(*(x._aligned(heads) for x in self._parts))

    def _check(self, name: str, batch: Any, queries: Any, keys: Any) -> None:
        for mask in self._parts:
            mask._check(name, batch, queries, keys)

    def _lengths(self) -> dict[str, int]:
        return {k: n for mask in self._parts for k, n in mask._lengths().items()}


@export
class And(Joined):
    """Masks joined by `&`: a pair is allowed if all of them allow it."""

    sign = "&"

    def allows(self, t: Tensor, s: Tensor) -> Tensor:
        return _folded(ops.logical_and, [x.allows(t, s) for x in self._parts])

    def bounds(self, tiles: Tiles) -> Bounds:
        starts, stops = zip(*(x.bounds(tiles) for x in self._parts))
        return _folded(ops.maximum, starts), _folded(ops.minimum, stops)


@export
class Or(Joined):
    """Masks joined by `|`: a pair is allowed if one of them allows it."""

    sign = "|"

    def allows(self, t: Tensor, s: Tensor) -> Tensor:
        return _folded(ops.logical_or, [x.allows(t, s) for x in self._parts])

    def bounds(self, tiles: Tiles) -> Bounds:
        starts, stops = zip(*(x.bounds(tiles) for x in self._parts))
        nothing = [b <= a for a, b in zip(starts, stops)]
        starts = [ops.where(x, tiles.keys, a) for x, a in zip(nothing, starts)]
        stops = [ops.where(x, 0, b) for x, b in zip(nothing, stops)]
        return _folded(ops.minimum, starts), _folded(ops.maximum, stops)


class Array(Mask):
    """A boolean array that broadcasts to (B, H, T, S), joined with a mask object."""

    arguments = ("mask",)

    def __init__(self, mask: Tensor) -> None:
        self.mask = mask

    def allows(self, t: Tensor, s: Tensor) -> Tensor:
        return self.mask

    def bounds(self, tiles: Tiles) -> Bounds:
        starts = ops.zeros_like(tiles.starts)
        return starts, starts + tiles.keys


def add_array(mask: Mask, array: Tensor | None) -> Mask:
    """Returns a mask that also needs a boolean array (·, ·, ·, S), if not None."""
    return mask if array is None else And(*_parts_of(mask), Array(array))


def aligned(mask: Mask) -> Mask:
    """Returns the mask with arrays that broadcast to (B, H, T, S)."""
    return mask._aligned(True)


def check(name: str, mask: Mask, batch: Any, queries: Any, keys: Any) -> Mask:
    """Returns a user's mask if its arrays fit B, T and S, which may be None.

    Raises:
        ValueError: if an array of the mask does not fit.
    """
    mask._check(name, batch, queries, keys)
    return mask


class Split(NamedTuple):
    """A mask in the parts that kernels know."""

    other: Mask | None  # all other conditions
    array: Tensor | None  # booleans that broadcast to (B, H, T, S)
    is_causal: bool
    window: int | None

    @property
    def whole(self) -> Mask:
        """The mask of all parts, if there is an `other` one."""
        parts = [] if self.other is None else [*_parts_of(self.other)]
        parts += [Causal()] if self.is_causal else []
        parts += [] if self.window is None else [Window(self.window)]
        return add_array(And(*parts), self.array)


def split(mask: Any, is_causal: bool = False, window: int | None = None) -> Split:
    """Splits a mask object, an array or None, beside a causal mask and a window."""
    array, others = None, []
    if not isinstance(mask, Mask):
        return Split(None, mask, is_causal, window)
    for part in _parts_of(mask):
        if isinstance(part, Causal):
            is_causal = True
        elif isinstance(part, Window):
            window = part.size if window is None else min(window, part.size)
        elif isinstance(part, Array):
            array = part.mask
        else:
            others.append(part)
    other = others[0] if len(others) == 1 else And(*others) if others else None
    return Split(other, array, is_causal, window)


def as_array(mask: Any, queries: Any, keys: Any) -> Tensor | None:
    """Returns a mask object as booleans (·, ·, T, S); an array or None is unchanged."""
    if not isinstance(mask, Mask):
        return mask
    array = [x.mask for x in _parts_of(mask) if isinstance(x, Array)]
    others = [x for x in _parts_of(mask) if not isinstance(x, Array)]
    return masks.merge(And(*others).array(queries, keys)[:, None], *array)


def _parts_of(mask: Mask) -> tuple[Mask, ...]:
    return mask._parts if isinstance(mask, And) else (mask,)


def _joined(kind: type[Joined], first: Mask, second: Any) -> Any:
    if not isinstance(second, Mask):
        raise TypeError(
            f"A mask object can be joined by `{kind.sign}` with a mask object only; "
            "pass a boolean array beside it as `value_mask`, or join it with "
            f"`mask.array(queries, keys)`. Received: {second!r}"
        )
    before, after = first._lengths(), second._lengths()
    if any(before[name] != after[name] for name in before.keys() & after):
        raise ValueError(
            "Masks that are joined must have the same length. Received: "
            f"{first!r} and {second!r}"
        )
    parts: list[Mask] = []
    for mask in (first, second):
        parts += mask._parts if isinstance(mask, kind) else (mask,)
    return kind(*parts)


def _folded(function: Callable, values: Any) -> Any:
    first, *others = values
    for value in others:
        first = function(first, value)
    return first


def _extremes(ids: Tensor, size: int) -> tuple[Tensor, Tensor]:
    """Returns the lowest and the highest id of each `size` ids, (..., ·) like ids.

    Id 0 does not count: without any other id, the lowest is above the highest.
    """
    length = ids.shape[-1]
    count = -(-length // size)
    ids = ops.pad(ids, [(0, 0)] * (len(ids.shape) - 1) + [(0, count * size - length)])
    ids = ops.reshape(ids, (*ops.shape(ids)[:-1], count, size))
    limits = np.iinfo(keras.backend.standardize_dtype(ids.dtype))
    low, high = (
        ops.cast(ops.full_like(ids, n), ids.dtype) for n in (limits.max, limits.min)
    )
    low = ops.min(ops.where(ids == 0, low, ids), axis=-1)
    return low, ops.max(ops.where(ids == 0, high, ids), axis=-1)


def _whole(name: str, value: Any, least: int) -> int:
    is_whole = isinstance(value, Integral) and not isinstance(value, bool)
    if not is_whole or value < least:
        raise ValueError(
            f"`{name}` must be a whole number of at least {least}. "
            f"Received: {name}={value!r}"
        )
    return int(value)


def _integers(name: str, x: Any, ranks: tuple[int, ...], form: str) -> Tensor:
    x = x if hasattr(x, "shape") and hasattr(x, "dtype") else np.asarray(x)
    dtype = keras.backend.standardize_dtype(x.dtype)
    if "int" not in dtype or len(x.shape) not in ranks:
        raise ValueError(
            f"`{name}` must hold integers of shape {form}. Received: "
            f"{name}.shape={tuple(x.shape)}, dtype={dtype}"
        )
    return x


def _size(size: int | None) -> str:
    return "?" if size is None else str(size)


def _show(x: Any) -> str:
    if hasattr(x, "shape"):
        return f"<{keras.backend.standardize_dtype(x.dtype)} {tuple(x.shape)}>"
    return repr(x)
