"""Clear errors for bad calls of layers and models.

Some rules are checked before a call: real numbers, declared ranks, one batch size, and
valid ids where their values are known and in the memory of the host. The other rules
are checked after a call fails, so that a successful call takes no time for them.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Collection, Iterator, Mapping
from typing import Any, ClassVar

import keras
import numpy as np
from keras import ops

from keras_attention import kernels

Tensor = Any
Given = dict[str, Any]


class Checked:
    """Mixin that names the argument and the rule if a call gets bad inputs.

    List it before Keras' class among the base classes. A subclass may declare ranks and
    ids of its call arguments.
    """

    # Rank of an argument, or its least and its largest rank
    input_ranks: ClassVar[Mapping[str, int | tuple[int, int]]] = {}
    # Attribute that holds the number of valid ids of an argument
    id_sizes: ClassVar[Mapping[str, str]] = {}
    # Arguments that hold floats; integers are cast to the compute dtype
    float_inputs: ClassVar[Collection[str]] = ()
    _has_rules: ClassVar[bool] = False

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        overrides = cls.check_given is not Checked.check_given
        cls._has_rules = overrides or bool(cls.input_ranks or cls.id_sizes)

    def __call__(self: Any, *args: Any, **kwargs: Any) -> Any:
        whole = False
        for x in args:
            dtype = getattr(x, "dtype", None)
            whole = whole or dtype in kernels.INTEGERS
            if dtype in kernels.COMPLEX:
                check_real(all_given(self, args, kwargs))
        for name, x in kwargs.items():
            dtype = getattr(x, "dtype", None)
            whole = whole or (name in self.float_inputs and dtype in kernels.INTEGERS)
            if dtype in kernels.COMPLEX:
                check_real(all_given(self, args, kwargs))
        if whole and self.float_inputs:
            args, kwargs = self._as_floats(args, kwargs)
        if self._has_rules:
            self.check_given(given_to(self, args, kwargs))
        try:
            base: Any = super()
            return base.__call__(*args, **kwargs)
        except kernels.ERRORS as error:
            if "Received: " not in str(error):
                explain(self, given_to(self, args, kwargs), error)
            raise

    def check_given(self, given: Given) -> None:
        """Raises a ValueError if the declared ranks or ids do not fit.

        Args:
            given: the tensors of a call by their names.
        """
        check_ranks(given, self.input_ranks)
        for name, attribute in self.id_sizes.items():
            count = getattr(self, attribute)
            if name in given and count is not None:
                check_ids(name, given[name], count)

    def _as_floats(self: Any, args: tuple, kwargs: Given) -> tuple[tuple, Given]:
        """Casts the integers among the arguments that hold floats."""
        names = inspect.signature(self.call).parameters
        found = [self._as_float(name, x) for name, x in zip(names, args)]
        more = {name: self._as_float(name, x) for name, x in kwargs.items()}
        return (*found, *args[len(found) :]), more

    def _as_float(self: Any, name: str, x: Any) -> Any:
        if name not in self.float_inputs:
            return x
        if getattr(x, "dtype", None) not in kernels.INTEGERS:
            return x
        if isinstance(x, keras.KerasTensor):
            return _Floats(dtype=self.compute_dtype)(x)
        return kernels.cast_with_mask(x, self.compute_dtype)


@keras.saving.register_keras_serializable(package="keras_attention")
class _Floats(keras.layers.Layer):
    """Casts integers in a functional model; an operation would lose their mask."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True
        self.built = True

    def call(self, inputs: Tensor) -> Tensor:
        return ops.cast(inputs, self.compute_dtype)


def given_to(layer: Any, args: tuple, kwargs: Given) -> Given:
    """Returns the tensors of a call by their names; {} if the names do not fit."""
    if (
        isinstance(layer, keras.Model)
        and "inputs" in inspect.signature(layer.call).parameters
    ):
        inputs = args[0] if args else kwargs.get("inputs")
        if isinstance(inputs, Mapping):
            return dict(inputs)
        names = [x.name for x in getattr(layer, "inputs", None) or ()]
        if len(names) > 1 and hasattr(inputs, "shape"):  # Keras names the inputs
            return {}
        flat = list(inputs) if isinstance(inputs, (list, tuple)) else [inputs]
        return dict(zip(names or ["inputs"], flat))
    found = inspect.signature(layer.call).parameters.values()
    tensors = [p for p in found if p.annotation in ("Tensor", "Tensor | None")]
    given = {**dict(zip((p.name for p in found), args)), **kwargs}
    required = {p.name for p in tensors if p.default is inspect.Parameter.empty}
    return {
        p.name: given[p.name]
        for p in tensors
        if p.name in given and (given[p.name] is not None or p.name in required)
    }


def all_given(layer: Any, args: tuple, kwargs: Given) -> Given:
    """Returns all arguments of a call by their names."""
    return {**dict(zip(inspect.signature(layer.call).parameters, args)), **kwargs}


def check_real(given: Given) -> None:
    """Raises a ValueError if a tensor is complex; a cast would drop a part of it."""
    for name, x in given.items():
        if getattr(x, "dtype", None) in kernels.COMPLEX:
            raise ValueError(
                f"`{name}` must hold real numbers. Received: {_show(name, x)}"
            )


def check_ranks(given: Given, ranks: Mapping[str, Any]) -> None:
    """Raises a ValueError for another rank, or for different batch sizes."""
    for name, wanted in ranks.items():
        if name not in given:
            continue
        x = given[name]
        least, most = wanted if isinstance(wanted, tuple) else (wanted, wanted)
        shape = getattr(x, "shape", None)
        if shape is None:
            raise ValueError(
                f"`{name}` must be a tensor or an array. Received: {_show(name, x)}"
            )
        if not least <= len(shape) <= most:
            rule = f"{least}" if least == most else f"{least} to {most}"
            raise ValueError(
                f"`{name}` must have rank {rule}. Received: {_show(name, x)}"
            )
    check_batches({name: given[name] for name in ranks if name in given})


def check_batches(given: Given) -> None:
    """Raises a ValueError if the batch sizes of tensors differ."""
    rule = _broken_batch(given)
    if rule:
        raise ValueError(rule)


def _broken_batch(given: Given) -> str | None:
    """Returns the rule of equal batch sizes if the tensors break it."""
    shapes = {name: tuple(getattr(x, "shape", ())) for name, x in given.items()}
    # In traces of torch, sizes are no integers and cannot be compared.
    sizes = {
        shape[0] for shape in shapes.values() if shape[:1] and isinstance(shape[0], int)
    }
    if len(sizes) < 2:
        return None
    names = ", ".join(f"`{name}`" for name in given)
    received = ", ".join(_show(name, x) for name, x in given.items())
    return f"{names} must have the same batch size (axis 0). Received: {received}"


def check_ids(name: str, ids: Any, count: float, least: float = 0) -> None:
    """Raises a ValueError if an id is not a whole number from `least` to `count` − 1.

    Ids in a compiled function or in the memory of an accelerator are not checked.

    Args:
        name: the name of the argument, for the error message.
        ids: integers, or floats that hold whole numbers.
        count: one more than the largest valid id.
        least: the smallest valid id.
    """
    if not is_checkable(ids):
        return
    kernels.expect(lambda: _are_ids(ids, count, least))
    if not kernels.is_readable(ids):
        return
    values = ids if isinstance(ids, np.ndarray) else ops.convert_to_numpy(ids)
    if not values.size or values.dtype.kind not in "iuf":
        return
    first, last = values.min(), values.max()
    whole = values.dtype.kind in "iu" or (values == np.floor(values)).all()
    if not (whole and first >= least and last < count):
        raise ValueError(
            f"`{name}` must hold ids of at least {least} and below {count}, in whole "
            f"numbers. Received: ids from {first} to {last}, {_show(name, ids)}"
        )


def check_whole(name: str, x: Any) -> None:
    """Raises a ValueError if known floats are not whole numbers."""
    if getattr(x, "dtype", None) not in kernels.INTEGERS:
        check_ids(name, x, math.inf, -math.inf)


def is_checkable(tensor: Tensor) -> bool:
    """Returns whether values can be checked now, or when a trace is replayed."""
    return kernels.is_readable(tensor) or kernels.will_be_known(tensor)


def _are_ids(ids: Tensor, count: float, least: float) -> Tensor:
    """Returns whether all ids are valid, as a boolean tensor."""
    ids = ops.convert_to_tensor(ids)
    dtype = keras.backend.standardize_dtype(ids.dtype)
    if dtype == "bool":
        return ops.convert_to_tensor(True)
    valid = ops.logical_and(ids >= least, ids < count)
    if "float" in dtype:
        valid = ops.logical_and(valid, ops.equal(ids, ops.floor(ids)))
    return ops.all(valid)


def check_zeros_and_ones(name: str, mask: Tensor) -> None:
    """Raises a ValueError if a mask holds other numbers than 0 and 1.

    A mask in a compiled function or in the memory of an accelerator is not checked.
    """
    if not is_checkable(mask):
        return
    kernels.expect(
        lambda: ops.all(ops.logical_or(ops.equal(mask, 0), ops.equal(mask, 1)))
    )
    if not kernels.is_readable(mask):
        return
    values = mask if isinstance(mask, np.ndarray) else ops.convert_to_numpy(mask)
    if values.dtype.kind in "iuf" and not np.isin(values, (0, 1)).all():
        raise ValueError(
            f"`{name}` must be boolean, or hold 0 and 1 alone. "
            f"Received: {_show(name, mask)}, values={np.unique(values)[:5].tolist()}"
        )


def explain(layer: Any, given: Given, error: Exception) -> None:
    """Raises a ValueError that names the rule that a failed call has broken, if any."""
    rule = next(_broken(layer, given), None)
    if rule is not None:
        raise ValueError(rule) from error


def _broken(layer: Any, given: Given) -> Iterator[str]:
    """Yields the rules that the inputs of a call break."""
    for name, x in given.items():
        if not hasattr(x, "shape") or not hasattr(x, "dtype"):
            yield f"`{name}` must be a tensor or an array. Received: {_show(name, x)}"
        elif isinstance(x, np.ndarray) and x.dtype.kind not in "biuf":
            yield f"`{name}` must hold numbers. Received: {_show(name, x)}"
        elif not len(x.shape):
            yield f"`{name}` must have a batch axis. Received: {_show(name, x)}"
    tensors = {n: x for n, x in given.items() if len(getattr(x, "shape", ()))}
    for name, built in _built_shapes(layer, given).items():
        if name in tensors and name in layer.float_inputs:
            x, shape = tensors[name], tuple(tensors[name].shape)
            if len(shape) != len(built):
                yield (
                    f"`{name}` must have rank {len(built)}, as when layer "
                    f"{layer.name!r} was built. Received: {_show(name, x)}"
                )
            elif None not in (shape[-1], built[-1]) and shape[-1] != built[-1]:
                yield (
                    f"`{name}` must have width {built[-1]} (last axis), for which "
                    f"layer {layer.name!r} was built. Received: {_show(name, x)}"
                )
    shared = ("attention_mask", "bias", "positions")  # one for all samples is legal
    rule = _broken_batch({n: x for n, x in tensors.items() if n not in shared})
    if rule:
        yield rule
    for name, x in tensors.items():
        if 0 in tuple(x.shape):
            yield f"`{name}` must not be empty. Received: {_show(name, x)}"


def _built_shapes(layer: Any, given: Given) -> dict[str, tuple]:
    """Returns the shapes with which a layer was built, by the names of arguments."""
    if isinstance(layer, keras.Model) or not layer.built:
        return {}
    shapes = getattr(layer, "_build_shapes_dict", None) or {}
    if len(shapes) == 1 and given:
        return {next(iter(given)): next(iter(shapes.values()))}
    found = {name.removesuffix("_shape"): shape for name, shape in shapes.items()}
    return {name: shape for name, shape in found.items() if shape is not None}


def _show(name: str, x: Any) -> str:
    """Describes an argument for an error message."""
    if hasattr(x, "shape") and hasattr(x, "dtype"):
        return f"{name}.shape={tuple(x.shape)}, {name}.dtype={x.dtype}"
    return f"{name}={repr(x)[:80]}"
