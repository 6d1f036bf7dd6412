"""What subclasses of Keras' multi-head attention read, call or override.

A class that subclasses `keras.layers.MultiHeadAttention` can subclass our layer
instead: `KerasMethods` has the names and methods of Keras 3.12 to 3.15. Our own class
calls none of them. In a call of a subclass, `attend` uses each override as Keras does.
An override that a call would not use is refused when the subclass is defined
(`INSTEAD`). An override of `_compute_attention` may have the signature of an older
Keras. Steps over a memory or a cache refuse overrides that they would leave out.

Shapes: B batch, T queries, S keys, H heads, G heads of keys and values, E width of a
head, V width of a value.
"""

from __future__ import annotations

from inspect import signature
from itertools import chain, takewhile
from operator import attrgetter
from string import ascii_lowercase
from typing import Any

import keras
from keras import ops

from keras_attention.layers.base.arguments import clone_initializer
from keras_attention.layers.base.checked import (
    MASK_NAMES,
    Masks,
    as_boolean,
    merge_masks,
)
from keras_attention.layers.base.serialization import is_ours
from keras_attention.layers.multi_head.projections import part
from keras_attention.numerics import axes as folding
from keras_attention.numerics import masks, normalizers
from keras_attention.ops.heads import attend_projected

Tensor = Any

# The methods whose overrides change how a layer computes.
HOOKS = [
    "call",
    "attend_from_state",
    "_compute_attention",
    "_compute_attention_mask",
    "_compute_causal_mask",
    "_compute_sliding_window_mask",
    "_masked_softmax",
]

# The methods of Keras' layer that a subclass must not override, and what to do instead.
_ARGUMENT = "pass the argument of this name to `super().__init__`"
_DENSE = "set the attribute `_{}_dense` in `build`"
INSTEAD = {
    "_build_attention": "override `_compute_attention` for other scores or weights, "
    "`_masked_softmax` for another softmax, or `build` for further sublayers",
    **dict.fromkeys(("num_heads", "key_dim", "value_dim", "dropout"), _ARGUMENT),
    **dict.fromkeys(("use_bias", "output_shape", "attention_axes"), _ARGUMENT),
    **{f"{x}_dense": _DENSE.format(x) for x in ("query", "key", "value", "output")},
}


def _public(name: str) -> property:
    """Returns a property that reads and sets the attribute `name`."""
    return property(attrgetter(name), lambda layer, value: setattr(layer, name, value))


class KerasMethods:
    """The names and methods of Keras' layer, for subclasses of `MultiHeadAttention`."""

    _is_subclass = False  # whether the class is defined outside this package
    _overridden: frozenset[str] = frozenset()  # the names in `HOOKS` that it defines
    _takes_causal = _takes_window = True  # whether the kernels may apply these masks
    _options: frozenset[str] | None = None  # of its `_compute_attention`; None: all

    num_heads: Any = part("_num_heads", "H, the number of query heads.")
    key_dim: Any = part("_key_dim", "E, the width of each head's queries and keys.")
    value_dim: Any = part("_value_dim", "The width of each head's values.")
    dropout: Any = part("_dropout", "The fraction of weights dropped during training.")
    use_bias: Any = part("_use_bias", "Whether the projections have biases.")
    # The base class of Keras has a property of this name, the shape of the outputs.
    output_shape: Any = part("_output_shape", "The argument `output_shape`.")
    query_dense: Any = part("_query_dense", "The projection of the queries.")
    key_dense: Any = part("_key_dense", "The projection of the keys.")
    value_dense: Any = part("_value_dense", "The projection of the values.")
    output_dense: Any = part("_output_dense", "The projection of the heads.")
    _use_gate: Any = part("use_gate", "The argument `use_gate`.")
    _flash_attention: Any = part("flash_attention", "The argument `flash_attention`.")
    _sliding_window: Any = part("sliding_window", "The argument `sliding_window`.")
    kernel_initializer = _public("_kernel_initializer")
    bias_initializer = _public("_bias_initializer")
    kernel_regularizer = _public("_kernel_regularizer")
    bias_regularizer = _public("_bias_regularizer")
    kernel_constraint = _public("_kernel_constraint")
    bias_constraint = _public("_bias_constraint")

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if is_ours(cls):
            return
        check_subclass(cls)
        cls._is_subclass = True
        definers = {n: next(c for c in cls.__mro__ if n in vars(c)) for n in HOOKS}
        cls._overridden = frozenset(n for n, c in definers.items() if not is_ours(c))
        # The kernels know only the usual masks.
        causal = {"_compute_attention", "_compute_causal_mask"}
        cls._takes_causal = not causal & cls._overridden
        window = {"_compute_attention_mask", "_compute_sliding_window_mask"}
        window.add("_compute_attention")
        cls._takes_window = not window & cls._overridden
        options = signature(cls._compute_attention).parameters
        if not any(x.kind is x.VAR_KEYWORD for x in options.values()):
            cls._options = frozenset(options)

    def _get_common_kwargs_for_sublayer(self: Any) -> dict[str, Any]:
        """Returns the arguments of each projection, with cloned initializers."""
        return {
            "kernel_initializer": clone_initializer(self._kernel_initializer),
            "bias_initializer": clone_initializer(self._bias_initializer),
            "kernel_regularizer": self._kernel_regularizer,
            "bias_regularizer": self._bias_regularizer,
            "activity_regularizer": self._activity_regularizer,
            "kernel_constraint": self._kernel_constraint,
            "bias_constraint": self._bias_constraint,
            "dtype": self.dtype_policy,
        }

    def _make_output_dense(
        self: Any, query_shape: Any, common_kwargs: dict[str, Any], name: Any = None
    ) -> Any:
        """Returns the projection of the heads (B, ..., H, V) to the output."""
        width = self._output_shape or (query_shape[-1],)
        rank = len(query_shape) + 1
        return self._make_dense(rank, width, name, common_kwargs, bound=2)

    def _build_attention(self: Any, rank: int) -> None:
        """Sets the attributes that Keras' layer has for projections of this rank."""
        self._attention_axes = folding.resolve(self.attention_axes, rank - 1)
        equations = attention_equations(rank, self._attention_axes)
        self._dot_product_equation, self._combine_equation = equations
        scores = len(equations[1].partition(",")[0])  # the rank of the scores
        keys = tuple(range(scores - len(self._attention_axes), scores))
        self._softmax = keras.layers.Softmax(keys, dtype=self.dtype_policy)
        self._dropout_layer = keras.layers.Dropout(
            self._dropout, seed=self.seed, dtype=self.dtype_policy
        )
        self._parts = parts_of(self)

    def _compute_attention_mask(
        self: Any,
        query: Tensor,
        value: Tensor,
        query_mask: Tensor | None = None,
        value_mask: Tensor | None = None,
        key_mask: Tensor | None = None,
        attention_mask: Tensor | None = None,
        use_causal_mask: bool = False,
        use_sliding_window: bool = True,
    ) -> Tensor | None:
        """Merges all masks but the query mask to (B, T, S) or (B, H, T, S), or None.

        The outputs of masked queries are set to 0 after the attention.
        """
        mask = merge_masks(Masks(None, value_mask, key_mask, attention_mask))
        if use_causal_mask:
            mask = masks.merge(mask, self._compute_causal_mask(query, value))
        if self.sliding_window is not None and use_sliding_window:
            mask = masks.merge(mask, self._compute_sliding_window_mask(query, value))
        return mask

    def _compute_causal_mask(
        self: Any, query: Tensor, value: Tensor | None = None
    ) -> Tensor:
        """Returns the causal mask (1, T, S), True where a query may attend to a key."""
        keys = query if value is None else value
        return masks.causal(ops.shape(query)[1], ops.shape(keys)[1])[None]

    def _compute_sliding_window_mask(
        self: Any, query: Tensor, value: Tensor | None = None
    ) -> Tensor:
        """Returns the window mask (1, T, S), True for distances below the window."""
        keys = query if value is None else value
        sizes = ops.shape(query)[1], ops.shape(keys)[1]
        return masks.sliding_window(*sizes, self.sliding_window or 0)[None]

    def _compute_attention(
        self: Any,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attention_mask: Tensor | None = None,
        training: bool | None = None,
        return_attention_scores: bool = False,
        use_causal_mask: bool = False,
        bias: Tensor | None = None,
        dropout_mask: Tensor | None = None,
        sliding_window: int | None = None,
    ) -> tuple[Tensor, Tensor | None]:
        """Returns softmax(q kᵀ / √E) v of projected heads, and the weights or None.

        A mask (B, T, S) or (B, H, T, S) may lack the causal mask and the window that
        `use_causal_mask` and `sliding_window` ask for.
        """
        mask = checked_mask(self, attention_mask)
        if use_causal_mask and not self._takes_causal:
            mask = masks.merge(mask, self._compute_causal_mask(query, value))
        if mask is not None and len(mask.shape) == 3:
            mask = ops.expand_dims(mask, 1)  # (B, 1, T, S)
        has_softmax = "_masked_softmax" in self._overridden
        dropout: Any = 0.0
        if self._dropout and training:  # a subclass may have replaced this layer
            dropout = lambda weights: self._dropout_layer(weights, training=True)  # noqa: E731
        return attend_projected(
            *(query, key, value, mask, self._inverse_sqrt_key_dim),
            self._masked_softmax if has_softmax else self.normalizer,
            bias,
            dropout=dropout,
            dropout_mask=dropout_mask,
            soft_cap=self.soft_cap,
            sink=None if has_softmax else self._sinks,
            is_causal=use_causal_mask and self._takes_causal,
            sliding_window=sliding_window,
            return_weights=return_attention_scores,
            fused=self.flash_attention is not False,
        )

    def _masked_softmax(
        self: Any, attention_scores: Tensor, attention_mask: Tensor | None = None
    ) -> Tensor:
        """Normalizes scores (B, H, T, S), with a mask (B, T, S) or (B, H, T, S)."""
        mask = checked_mask(self, attention_mask)
        if mask is not None and len(mask.shape) == 3:
            mask = ops.expand_dims(mask, 1)  # (B, 1, T, S)
        if self._sinks is None:
            return normalizers.get(self.normalizer)(attention_scores, mask)
        sink = ops.cast(self._sinks, "float32")[:, None, None]  # (H, 1, 1)
        return normalizers.sink_softmax(attention_scores, mask, sink=sink)


def attend(
    layer: Any,
    heads: tuple[Tensor, Tensor, Tensor],
    call_masks: Masks | Tensor | None,
    bias: Tensor | None,
    return_weights: bool,
    training: bool | None = None,
    causal: bool = False,
    dropout_mask: Tensor | None = None,
) -> tuple[Tensor, Tensor | None]:
    """Attends by the methods that a subclass may have overridden.

    The arguments are those of `attend_projected`; `call_masks` are the masks of a
    call, or the mask of steps over a memory or a cache.

    Raises:
        ValueError: if an override does not take an option that changes the output, or
            steps would leave an override out.
    """
    mask, masks_causal, window = call_masks, causal and not layer._takes_causal, None
    if isinstance(call_masks, Masks):
        window = layer.sliding_window if layer._takes_window else None
        local = {} if window is None else {"use_sliding_window": False}
        named = {**dict(zip(MASK_NAMES, call_masks)), **local}
        mask = layer._compute_attention_mask(
            heads[0], heads[2], **named, use_causal_mask=masks_causal
        )
    else:
        check_steps(layer)
    options = {
        "return_attention_scores": return_weights,
        "use_causal_mask": causal and not masks_causal,
        "bias": bias,
        "dropout_mask": dropout_mask,
        "sliding_window": window,
    }
    lacking = () if layer._options is None else options.keys() - layer._options
    for name in lacking:
        value = options.pop(name)
        needed = name != "return_attention_scores" and value is not None
        if needed and value is not False:
            raise ValueError(
                f"`_compute_attention` of {type(layer).__name__} must take the "
                f"argument `{name}`, which this call of layer {layer.name!r} needs. "
                f"Received: _compute_attention{signature(layer._compute_attention)}"
            )
    return layer._compute_attention(*heads, mask, training, **options)


def check_subclass(cls: type) -> None:
    """Raises a TypeError if a subclass overrides what a call does not use."""
    theirs = takewhile(lambda base: not is_ours(base), cls.__mro__)  # and its mixins
    for name in chain.from_iterable(map(vars, theirs)):
        instead = INSTEAD.get(name)
        exists = any(hasattr(base, name) for base in cls.__bases__)
        if name in vars(keras.layers.MultiHeadAttention) and not exists:
            instead = "override `_compute_attention` or `call`"
        if instead is not None:
            raise TypeError(
                f"A subclass must not override `{name}`, which a call of this layer "
                f"does not use: {instead}. Received: class {cls.__name__}"
            )


def parts_of(layer: Any) -> tuple:
    """Returns what `_build_attention` has set, for comparison."""
    softmax = layer._softmax
    axes = getattr(softmax, "axis", None)
    equations = layer._dot_product_equation, layer._combine_equation
    return (*equations, type(softmax), None if axes is None else str(axes))


def checked_mask(layer: Any, mask: Tensor | None) -> Tensor | None:
    """Returns the mask of a subclass as booleans, after a check of its attributes.

    Raises:
        ValueError: if the subclass has replaced the equations or the softmax, which the
            layer does not use; or if the mask has values other than 0 and 1.
    """
    if parts_of(layer) != layer._parts:
        raise ValueError(
            "`_dot_product_equation`, `_combine_equation` and `_softmax` must stay as "
            "`_build_attention` sets them: override `_compute_attention` for other "
            "equations, and `_masked_softmax` for another softmax. Received: "
            f"{parts_of(layer)} in place of {layer._parts} in layer {layer.name!r} of "
            f"class {type(layer).__name__}"
        )
    mask = as_boolean("attention_mask", mask)
    if mask is not None and len(mask.shape) == 2:
        mask = ops.expand_dims(mask, 0)  # (1, T, S)
    return mask


def check_steps(layer: Any, is_causal: bool = False) -> None:
    """Raises a ValueError if steps over a memory or a cache leave an override out."""
    names = {"call", "_compute_attention_mask"}
    if is_causal:
        names.add("_compute_causal_mask")
    if layer.sliding_window is not None:
        names.add("_compute_sliding_window_mask")
    left_out = names & layer._overridden
    if not left_out or "attend_from_state" in layer._overridden:
        return
    raise ValueError(
        f"Layer {layer.name!r} cannot attend to a prepared memory, or step by step: "
        f"its `{min(left_out)}` is overridden, and needs all positions of a call. "
        "Call the layer, and pass other masks as `attention_mask`, or define "
        f"`attend_from_state`. Received: {type(layer).__name__}"
    )


def attention_equations(rank: int, axes: folding.Axes) -> tuple[str, str]:
    """Returns the einsum equations of scores and of heads, for heads of this rank."""
    letters = ascii_lowercase
    query = letters[:rank]
    new = dict(zip(axes, letters[rank:]))
    key = "".join(new.get(n, query[n]) for n in range(rank))
    same = "".join(query[n] for n in range(rank - 1) if n not in axes)
    scores = same + "".join(query[n] for n in axes) + "".join(key[n] for n in axes)
    return f"{key},{query}->{scores}", f"{scores},{key}->{query}"
