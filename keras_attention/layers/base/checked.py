"""Clear errors for bad calls of layers and models.

Some rules are checked before a call: real numbers, declared ranks, one batch size, and
valid ids where their values are known and in the memory of the host. The other rules
are checked after a call fails, so that a successful call takes no time for them.

`check_call` checks the tensors and masks of an attention layer.

Shapes: B batch, T queries, S keys, H heads, Dq, Dk widths, V width of a value.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import keras
import numpy as np
from keras import ops

from keras_attention import kernels
from keras_attention.layers.base.arguments import check_shape
from keras_attention.numerics import axes as folding
from keras_attention.numerics import mask_objects, masks
from keras_attention.numerics.mask_objects import Mask
from keras_attention.user_warnings import warn_user

Tensor = Any
Shape = Sequence[Any]
Arguments = dict[str, Any]


class Checked:
    """Mixin, before Keras' class, that names what is wrong with inputs of a call."""

    # Rank of an argument, or its least and its largest rank
    input_ranks: ClassVar[Mapping[str, int | tuple[int, int]]] = {}
    # Attribute that holds the number of valid ids of an argument
    id_sizes: ClassVar[Mapping[str, str]] = {}
    # Arguments that hold floats; integers are cast to the compute dtype
    float_inputs: ClassVar[Collection[str]] = ()
    takes_lists: ClassVar[bool] = True  # whether a call may get a list of tensors
    _has_rules: ClassVar[bool] = False

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        overrides = cls.check_given is not Checked.check_given
        cls._has_rules = overrides or bool(cls.input_ranks or cls.id_sizes)

    def __call__(self: Any, *args: Any, **kwargs: Any) -> Any:
        if kernels.is_compiling():
            kernels.warn_of_compiler()
        # Loops, because every call passes here: comprehensions and sets take longer.
        whole = False
        for x in args:
            dtype = getattr(x, "dtype", None)
            whole = whole or dtype in kernels.INTEGERS
            if dtype in kernels.COMPLEX:
                check_real(all_given(self, args, kwargs))
            if isinstance(x, (list, tuple)) and not self.takes_lists:
                refuse_list(self, x)
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

    def symbolic_call(self: Any, *args: Any, **kwargs: Any) -> Any:
        warn_of_lost_masks(self, all_given(self, args, kwargs))
        base: Any = super()
        return base.symbolic_call(*args, **kwargs)

    def check_given(self, given: Arguments) -> None:
        """Raises a ValueError if the tensors of a call break declared ranks or ids."""
        check_ranks(given, self.input_ranks)
        for name, attribute in self.id_sizes.items():
            count = getattr(self, attribute)
            if name in given and count is not None:
                check_ids(name, given[name], count)

    def _as_floats(self: Any, args: tuple, kwargs: Arguments) -> tuple[tuple, dict]:
        """Casts the integers among the arguments that hold floats."""
        names = inspect.signature(self.call).parameters
        floats = [self._as_float(name, x) for name, x in zip(names, args)]
        kwargs = {name: self._as_float(name, x) for name, x in kwargs.items()}
        return (*floats, *args[len(floats) :]), kwargs

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


def given_to(layer: Any, args: tuple, kwargs: Arguments) -> Arguments:
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
    parameters = inspect.signature(layer.call).parameters.values()
    arguments = all_given(layer, args, kwargs)
    return {
        p.name: arguments[p.name]
        for p in parameters
        if p.annotation in ("Tensor", "Tensor | None") and p.name in arguments
        if arguments[p.name] is not None or p.default is inspect.Parameter.empty
    }


def call_arguments(layer: Any, args: tuple, kwargs: Arguments) -> Arguments:
    """Returns all arguments of a call by their names, with the defaults."""
    call = inspect.signature(layer.call).bind(*args, **kwargs)
    call.apply_defaults()
    return call.arguments


def all_given(layer: Any, args: tuple, kwargs: Arguments) -> Arguments:
    """Returns all arguments of a call by their names."""
    return {**dict(zip(inspect.signature(layer.call).parameters, args)), **kwargs}


def warn_of_lost_masks(layer: Any, arguments: Arguments) -> None:
    """Warns of symbolic sequences without a mask that a layer before has dropped."""
    passed = {name for name, x in arguments.items() if x is not None}
    if passed & {"mask", "value_mask", "key_mask", "memory_mask", "attention_mask"}:
        return
    names = inspect.signature(layer.call).parameters
    for name in ("inputs", "value", "key", "memory"):
        mask = "mask" if name == "inputs" else f"{name}_mask"
        loser = kernels.mask_loser(arguments.get(name)) if mask in names else None
        if loser is not None:
            warn_user(
                f"`{name}` of layer {layer.name!r} has no mask; padding counts: layer "
                f"{loser.name!r} ({type(loser).__name__}) drops the mask of its input. "
                f"Wrap it, keras_attention.layers.KeepMask(layer), or pass `{mask}`."
            )


def check_usable(layer: keras.layers.Layer, method: str, tensor: Tensor) -> None:
    """Raises a RuntimeError if the layer is not built or the tensor is symbolic."""
    if not layer.built:
        raise RuntimeError(
            f"`{method}` needs a layer that is built: call or build layer "
            f"{layer.name!r} first, or its weights would have no owner."
        )
    if isinstance(tensor, keras.KerasTensor):
        raise RuntimeError(
            f"`{method}` is for use inside a layer's `call`; on symbolic tensors "
            f"the weights of layer {layer.name!r} would be left out of the model. "
            "Call the layer instead."
        )


MASK_NAMES = "query_mask", "value_mask", "key_mask", "attention_mask"


class Masks(NamedTuple):
    """The masks of a call: booleans, True = may attend, or None."""

    query: Tensor | None = None  # (B, T); (B,) for one query
    value: Tensor | None = None  # (B, S)
    key: Tensor | None = None  # (B, S)
    pairs: Any = None  # a mask object, or booleans (T, S), (B, T, S) or (B, H, T, S)


def check_call(
    query: Tensor,
    value: Tensor,
    key: Tensor,
    call_masks: Masks,
    heads: int | None = None,
    axes: Any = None,
    bias: Tensor | None = None,
) -> tuple[Tensor, Masks, Tensor | None, bool]:
    """Checks that the tensors and the masks of an attention layer's call fit.

    A layer with heads (H) also takes inputs with more axes between the first and the
    last, of which it attends over `axes`, masks of numbers 0 and 1, and a bias. It gets
    a mask object unchanged; for any other layer, the object becomes an array.

    Returns:
        The query with a T axis, the masks as booleans with a T axis, the bias with all
        axes of the weights, and whether the query had no T axis, (B, Dq).
    """
    single = len(query.shape) == 2 and (heads is None or len(value.shape) == 3)
    rows = tuple(query.shape[:-1])
    if single:
        query = ops.expand_dims(query, 1)  # (B, 1, Dq)
    q, v, k = tuple(query.shape), tuple(value.shape), tuple(key.shape)
    plain = len(q) == len(v) == 3 and v[:2] == k[:2] and q[0] == v[0] and v[1] != 0
    attended: folding.Axes = (1,)
    if heads is None:
        if not (plain and len(k) == 3):
            check_memory(query, value, key)
    elif not plain or axes is not None:
        attended = check_inputs(q, v, k, axes)
    if bias is not None:
        bias = ops.expand_dims(bias, -2) if single else bias
        bias = folding.full_bias(bias, q, k, heads or 1, attended)
    if any(mask is not None for mask in call_masks):
        call_masks = _checked_masks(call_masks, rows, q, v, k, heads, attended)
        if heads is None and not isinstance(query, keras.KerasTensor):
            call_masks = with_array(call_masks, query, key)
    return query, call_masks, bias, single


def _checked_masks(
    call_masks: Masks,
    rows: tuple,
    query: tuple,
    value: tuple,
    key: tuple,
    heads: int | None,
    axes: folding.Axes,
) -> Masks:
    """Checks the masks of a call; `rows` is the shape of the user's query mask."""
    single = len(rows) < len(query) - 1
    if heads is not None:
        named = zip(MASK_NAMES, call_masks)
        call_masks = Masks(*[None if x is None else as_boolean(n, x) for n, x in named])
    shapes = rows, value[:-1], key[:-1]
    queries, values, keys = [
        None if mask is None else masks.check(name, mask, shape)
        for name, mask, shape in zip(MASK_NAMES, call_masks, shapes)
    ]
    if single and queries is not None:
        queries = ops.expand_dims(queries, 1)  # (B, 1)
    name, pairs = "attention_mask", call_masks.pairs
    if isinstance(pairs, Mask):
        if len(query) > 3:
            raise ValueError(
                f"`{name}` must be a boolean array if inputs have more axes than "
                f"(batch, length, width). Received: query.shape={query}, {name}={pairs}"
            )
        mask_objects.check(name, pairs, query[0], query[1], key[1])
    elif pairs is not None and heads is not None:
        pairs = ops.expand_dims(pairs, -2) if single else pairs
        pairs = folding.check_mask(name, pairs, query, key, heads, axes)
    elif pairs is not None:
        without_batch = not single and len(pairs.shape) == 2
        pairs = masks.check(name, pairs, (*rows[without_batch:], key[1]))
        pairs = ops.expand_dims(pairs, 1) if single else pairs
    return Masks(queries, values, keys, pairs)


def with_array(parts: Masks, query: Tensor, key: Tensor) -> Masks:
    """Returns the masks with an array (·, T, S) instead of a mask object, if any."""
    if not isinstance(parts.pairs, Mask):
        return parts
    array = parts.pairs.array(ops.shape(query)[1], ops.shape(key)[1])
    return parts._replace(pairs=array)


def merge_masks(parts: Masks, causal_sizes: tuple | None = None) -> Tensor | None:
    """Merges masks into the smallest possible shape, or None if nothing is masked.

    It broadcasts to (B, T, S), or to (B, H, T, S) like `pairs`. With the sizes (T, S),
    query t may attend only to keys 0 … t.
    """
    merged = [ops.expand_dims(x, 1) for x in (parts.value, parts.key) if x is not None]
    if parts.query is not None:
        merged.append(ops.expand_dims(parts.query, 2))  # (B, T, 1)
    if parts.pairs is not None:
        rank = len(parts.pairs.shape)
        if rank == 4:
            merged = [ops.expand_dims(mask, 1) for mask in merged]  # (B, 1, ·, ·)
        merged.append(ops.expand_dims(parts.pairs, 0) if rank == 2 else parts.pairs)
    if causal_sizes is not None:
        merged.append(ops.expand_dims(masks.causal(*causal_sizes), 0))  # (1, T, S)
    return masks.merge(*merged)


def merge_masks_of_heads(parts: Masks) -> Tensor | Mask | None:
    """Merges all masks but the query mask to (·, ·, ·, S), or returns None.

    If the mask of pairs is an object, then so is the result.
    """
    pairs, is_object = parts.pairs, isinstance(parts.pairs, Mask)
    mask = merge_masks(parts._replace(query=None, pairs=None if is_object else pairs))
    if mask is not None and len(mask.shape) == 3:
        mask = ops.expand_dims(mask, 1)  # (B, 1, T, S)
    return mask_objects.every(pairs, mask, is_causal=False) if is_object else mask


def fold_masks(
    parts: Masks, bias: Tensor | None, query: Tensor, key: Tensor, axes: folding.Axes
) -> tuple[Masks, Tensor | None]:
    """Folds masks and a bias to those of attention over one axis, T and S long."""
    q, k = ops.shape(query), ops.shape(key)
    of_queries, of_values, of_keys = (
        None if mask is None else folding.fold_sequence_mask(mask, shape, axes)
        for mask, shape in zip(parts[:3], (q, k, k))
    )
    pairs, bias = (
        None if x is None else folding.fold_mask(x, q, k, axes)
        for x in (parts.pairs, bias)
    )
    return Masks(of_queries, of_values, of_keys, pairs), bias


def with_time(query: Any, value: Any, key: Any) -> tuple[tuple, tuple, tuple]:
    """Returns the shapes of a call; a single query gets a T axis."""
    query, value = tuple(query), tuple(value)
    key = value if key is None else tuple(key)
    if len(query) == 2 and len(value) == 3:
        query = (query[0], 1, query[1])
    return query, value, key


def check_inputs(query: Shape, value: Shape, key: Shape, axes: Any) -> folding.Axes:
    """Checks the shapes (B, ..., D) of a call; returns the non-negative axes."""
    received = (
        f"Received: query_shape={tuple(query)}, value_shape={tuple(value)}, "
        f"key_shape={tuple(key)}"
    )
    lengths = zip(value[1:-1], key[1:-1])
    if len(value) != len(key) or any(_differ(a, b) for a, b in lengths):
        raise ValueError(
            "All dimensions of `value` and `key`, except the last one, must be equal. "
            f"{received}"
        )
    if len(query) < 3 or len(query) != len(value):
        raise ValueError(
            "`query`, `value` and `key` must have one rank of at least 3, (batch, ..., "
            "width); `query` may be (batch, width) beside a value of rank 3. "
            f"{received}"
        )
    attended = folding.resolve(axes, len(query))
    for axis in (0, *folding.free(attended, len(query))):
        if _differ(query[axis], value[axis]) or _differ(query[axis], key[axis]):
            raise ValueError(
                "`query`, `value` and `key` must have equal sizes along the batch and "
                f"each axis that is not attended over: axis {axis}. {received}"
            )
    if any(value[axis] == 0 or key[axis] == 0 for axis in attended):
        raise ValueError(
            "`value` and `key` must hold at least one entry to attend to; hide entries "
            f"with `value_mask`. {received}"
        )
    return attended


def check_memory(query: Tensor, value: Tensor, key: Tensor) -> None:
    """Checks that the ranks, batch sizes and lengths of query, value and key fit."""
    for name, tensor in (("query", query), ("value", value), ("key", key)):
        check_shape(name, tensor.shape, "(batch, length, width)")
        if _differ(query.shape[0], tensor.shape[0]):
            raise ValueError(
                f"`query` and `{name}` must have the same batch size (axis 0). "
                f"Received: query.shape={tuple(query.shape)}, "
                f"{name}.shape={tuple(tensor.shape)}"
            )
    if 0 in (key.shape[1], value.shape[1]):
        raise ValueError(
            "`value` and `key` must hold at least one entry to attend to; hide entries "
            f"with `value_mask`. Received: value.shape={tuple(value.shape)}, "
            f"key.shape={tuple(key.shape)}"
        )
    if _differ(key.shape[1], value.shape[1]):
        raise ValueError(
            "`key` and `value` must have the same length (axis 1). "
            f"Received: key.shape={tuple(key.shape)}, value.shape={tuple(value.shape)}"
        )


def check_hop(query: Tensor, value: Tensor, key: Tensor) -> None:
    """Checks that keys and values have the width of the query, as a hop requires."""
    if query.shape[-1] != key.shape[-1]:
        raise ValueError(
            "`query` and `key` must have the same width (last axis) for this score. "
            f"Received: query.shape={tuple(query.shape)}, key.shape={tuple(key.shape)}"
        )
    if query.shape[-1] != value.shape[-1]:
        raise ValueError(
            "`value` must be as wide as `query`, to which what is found is added. "
            f"Received: query.shape={tuple(query.shape)}, "
            f"value.shape={tuple(value.shape)}"
        )


def check_order(layer: Any, axes: folding.Axes, causal: bool) -> None:
    """Raises a ValueError for options that need one axis if there are several axes."""
    ordered = {
        "use_causal_mask": causal,
        "sliding_window": getattr(layer, "sliding_window", None),
        "position": getattr(layer, "position", None),
    }
    for name, value in ordered.items():
        if value and len(axes) > 1:
            raise ValueError(
                f"`{name}` needs one axis to attend over, along which there is an "
                f"order. Received: {name}={value}, attention_axes={axes}"
            )


def as_boolean(name: str, mask: Any) -> Any:
    """Returns a mask as booleans; of numbers that are known, only 0 and 1 are legal."""
    if mask is None or isinstance(mask, Mask):
        return mask
    if not hasattr(mask, "dtype"):
        mask = ops.convert_to_tensor(mask)
    if keras.backend.standardize_dtype(mask.dtype) == "bool":
        return mask
    if isinstance(mask, keras.KerasTensor):
        return keras.KerasTensor(mask.shape, "bool")
    if not kernels.is_traced(mask):
        values = np.unique(ops.convert_to_numpy(mask).astype("float32"))
        if not np.isin(values, (0, 1)).all():
            raise ValueError(
                f"`{name}` must be boolean, True where attention is allowed, or hold "
                "nothing but 0 and 1; what is to be added to scores is `bias`. "
                f"Received: dtype={keras.backend.standardize_dtype(mask.dtype)}, "
                f"values={values[:5].tolist()}"
            )
    return ops.cast(mask, "bool")


def _differ(a: int | None, b: int | None) -> bool:
    return a is not None and b is not None and a != b


def refuse_list(layer: Any, inputs: Sequence) -> None:
    """Raises a TypeError for a call as that of `keras.layers.Attention`."""
    name = type(layer).__name__
    raise TypeError(
        f"`{name}` takes no list: call layer(query, value) or layer(query, value, "
        "key), not layer([query, value]) as keras.layers.Attention. "
        f"Received: a {type(inputs).__name__} of {len(inputs)}"
    )


def check_real(arguments: Arguments) -> None:
    """Raises a ValueError if a tensor is complex; a cast would drop a part of it."""
    for name, x in arguments.items():
        if getattr(x, "dtype", None) in kernels.COMPLEX:
            raise ValueError(
                f"`{name}` must hold real numbers. Received: {_show(name, x)}"
            )


def check_ranks(arguments: Arguments, ranks: Mapping[str, Any]) -> None:
    """Raises a ValueError for another rank, or for different batch sizes."""
    for name, wanted in ranks.items():
        if name not in arguments:
            continue
        x = arguments[name]
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
    check_batches({name: arguments[name] for name in ranks if name in arguments})


def check_batches(arguments: Arguments) -> None:
    """Raises a ValueError if the batch sizes of tensors differ."""
    rule = _broken_batch(arguments)
    if rule:
        raise ValueError(rule)


def _broken_batch(arguments: Arguments) -> str | None:
    """Returns the rule of equal batch sizes if the tensors break it."""
    shapes = {name: tuple(getattr(x, "shape", ())) for name, x in arguments.items()}
    # In traces of torch, sizes are no integers and cannot be compared.
    sizes = {
        shape[0] for shape in shapes.values() if shape[:1] and isinstance(shape[0], int)
    }
    if len(sizes) < 2:
        return None
    names = ", ".join(f"`{name}`" for name in arguments)
    received = ", ".join(_show(name, x) for name, x in arguments.items())
    return f"{names} must have the same batch size (axis 0). Received: {received}"


def check_ids(name: str, ids: Any, count: float, least: float = 0) -> None:
    """Raises a ValueError if an id is not a whole number from `least` to `count` − 1.

    Ids in a compiled function or in the memory of an accelerator are not checked.
    """
    values = _known_numbers(ids, lambda: _are_ids(ids, count, least))
    if values is None:
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


def _known_numbers(tensor: Tensor, is_valid: Callable) -> np.ndarray | None:
    """Returns numbers that are known now, or None; a replay checks `is_valid`."""
    if not is_checkable(tensor):
        return None
    kernels.expect(is_valid)
    if not kernels.is_readable(tensor):
        return None
    values = tensor if isinstance(tensor, np.ndarray) else ops.convert_to_numpy(tensor)
    return values if values.size and values.dtype.kind in "iuf" else None


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
    """Raises a ValueError if known numbers of a mask are not 0 or 1."""
    values = _known_numbers(
        mask, lambda: ops.all(ops.logical_or(ops.equal(mask, 0), ops.equal(mask, 1)))
    )
    if values is not None and not np.isin(values, (0, 1)).all():
        raise ValueError(
            f"`{name}` must be boolean, or hold 0 and 1 alone. "
            f"Received: {_show(name, mask)}, values={np.unique(values)[:5].tolist()}"
        )


def explain(layer: Any, arguments: Arguments, error: Exception) -> None:
    """Raises a ValueError that names the rule that a failed call has broken, if any."""
    rule = next(_broken(layer, arguments), None)
    if rule is not None:
        raise ValueError(rule) from error


def _broken(layer: Any, arguments: Arguments) -> Iterator[str]:
    """Yields the rules that the inputs of a call break."""
    for name, x in arguments.items():
        if isinstance(x, Mask):
            continue
        if not hasattr(x, "shape") or not hasattr(x, "dtype"):
            yield f"`{name}` must be a tensor or an array. Received: {_show(name, x)}"
        elif isinstance(x, np.ndarray) and x.dtype.kind not in "biuf":
            yield f"`{name}` must hold numbers. Received: {_show(name, x)}"
        elif not len(x.shape):
            yield f"`{name}` must have a batch axis. Received: {_show(name, x)}"
    tensors = {n: x for n, x in arguments.items() if len(getattr(x, "shape", ()))}
    for name, built in _built_shapes(layer, arguments).items():
        if name in tensors and name in layer.float_inputs:
            x, shape = tensors[name], tuple(tensors[name].shape)
            if len(shape) != len(built):
                yield (
                    f"`{name}` must have rank {len(built)}, as when layer "
                    f"{layer.name!r} was built. Received: {_show(name, x)}"
                )
            elif _differ(shape[-1], built[-1]):
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


def _built_shapes(layer: Any, arguments: Arguments) -> dict[str, tuple]:
    """Returns the shapes with which a layer was built, by the names of arguments."""
    if isinstance(layer, keras.Model) or not layer.built:
        return {}
    shapes = getattr(layer, "_build_shapes_dict", None) or {}
    if len(shapes) == 1 and arguments:
        return {next(iter(arguments)): next(iter(shapes.values()))}
    known = {name: shape for name, shape in shapes.items() if shape is not None}
    return {name.removesuffix("_shape"): shape for name, shape in known.items()}


def _show(name: str, x: Any) -> str:
    """Describes an argument for an error message."""
    if hasattr(x, "shape") and hasattr(x, "dtype"):
        return f"{name}.shape={tuple(x.shape)}, {name}.dtype={x.dtype}"
    return f"{name}={repr(x)[:80]}"
