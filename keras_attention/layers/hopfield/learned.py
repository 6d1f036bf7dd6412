"""Hopfield layers with learned patterns or learned queries.

Shapes: B batch, T queries, S keys (patterns), D width, H heads, E width of a head.
"""

from __future__ import annotations

import abc
import math
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_attention.layers.base import checked
from keras_attention.layers.base.arguments import (
    check_shape,
    one_of,
    pass_on_policies,
    policy_of,
    positive,
)
from keras_attention.layers.base.recording import is_recording, record
from keras_attention.layers.base.serialization import Configured, argument_names, export
from keras_attention.layers.hopfield.hopfield import Hopfield, refuse_projected
from keras_attention.numerics import masks, normalizers
from keras_attention.ops.hopfield.retrieval import product_top_k

Tensor = Any
Config = dict[str, Any]
DEFAULT_TOP_K = 32  # of product keys


class TrainablePatterns(Configured, keras.layers.Layer, abc.ABC):
    """Abstract base class of layers that call a `Hopfield` with learned vectors.

    Subclasses define `_build_for`, `_retrieve` and `_shapes_of`.

    Args:
        arguments: `locals()` of the constructor, with arguments of the `Hopfield`.
    """

    forms: tuple[str, ...] = ("(batch, length, width)",)  # of the inputs

    float_inputs = ("inputs", "memory")

    def __init__(self, num_patterns: int, arguments: Config, **kwargs: Any) -> None:
        refuse_projected(kwargs)
        super().__init__(**kwargs)
        self.supports_masking = True
        self.num_patterns = positive("num_patterns", num_patterns)
        names = argument_names(Hopfield)
        network = {name: arguments[name] for name in names if name in arguments}
        self.hopfield = Hopfield(**network, dtype=self.dtype_policy, name="hopfield")
        self._network = tuple(network)
        self._take_arguments()
        pass_on_policies(self, self.hopfield)

    def build(self, inputs_shape: Any) -> None:
        self._build_for(check_shape("inputs", inputs_shape, *self.forms))
        self._take_arguments()
        self.built = True
        layer: Any = self
        if not layer.trainable:
            # Also freeze the weights that were created. Toggle the flag, because
            # TensorFlow ignores an assignment that does not change an attribute.
            layer.trainable = True
            layer.trainable = False

    @property
    def betas(self) -> np.ndarray:
        """The current β of each head, (H,) float64; the layer must be built."""
        return self.hopfield.betas

    def call(
        self,
        inputs: Tensor,
        mask: Tensor | None = None,
        return_attention_scores: bool = False,
        training: bool | None = None,
    ) -> Any:
        shape = check_shape("inputs", inputs.shape, *self.forms)
        mask = masks.check("mask", checked.as_boolean("mask", mask), shape[:-1])
        return_weights = return_attention_scores or is_recording()
        output, weights = self._retrieve(inputs, mask, return_weights, training)
        if is_recording():
            record(self.path, weights)
        return (output, weights) if return_attention_scores else output

    def compute_output_spec(self, *args: Any, **kwargs: Any) -> Any:
        call = checked.call_arguments(self, args, kwargs)
        shape = check_shape("inputs", call["inputs"].shape, *self.forms)
        masks.check("mask", checked.as_boolean("mask", call.get("mask")), shape[:-1])
        output, weights = (
            keras.KerasTensor(s, self.compute_dtype) for s in self._shapes_of(shape)
        )
        return (output, weights) if call.get("return_attention_scores") else output

    def get_config(self) -> Config:
        config = self.hopfield.get_config()
        return {**super().get_config(), **{n: config[n] for n in self._network}}

    @abc.abstractmethod
    def _build_for(self, shape: tuple) -> None:
        """Builds the weights and the `Hopfield` for inputs of this shape."""

    @abc.abstractmethod
    def _retrieve(
        self, inputs: Tensor, mask: Tensor | None, *options: Any
    ) -> tuple[Tensor, Tensor | None]:
        """Returns the output and weights. See `Hopfield.associate` for the options."""

    @abc.abstractmethod
    def _shapes_of(self, shape: tuple) -> tuple[tuple, tuple]:
        """Returns the shapes of the output and the weights for inputs of this shape."""

    def _add_patterns(self, name: str, width: int) -> Any:
        """Adds a weight (num_patterns, D), initialized to vectors of length about 1."""
        samples = keras.initializers.RandomNormal(stddev=width**-0.5)
        return self.add_weight((self.num_patterns, width), samples, name=name)

    def _take_arguments(self) -> None:
        """Copies the arguments of the `Hopfield`, and its widths once it is built."""
        for name in self._network:
            setattr(self, name, getattr(self.hopfield, name))


@export
class HopfieldLayer(TrainablePatterns):
    """Retrieves from patterns that are weights of the layer.

        ξ ← Σₛ pₛ kₛ,  p = softmax(β K ξ);   o = Σₛ pₛ vₛ

    These are the equations of `Hopfield`. The initial ξ is the projected input, and the
    stored patterns are learned. Patterns are projected once, not once per sample.
    Inputs do not affect each other.

    After the layer is built, `layer.patterns.assign(stored)` sets the patterns (S, D),
    for example to training samples. `layer.patterns.trainable = False` then freezes the
    patterns, but not the projections or the separate values. This flag is not saved
    with the model: set the flag again after loading. `layer.trainable = False` freezes
    the whole layer, including the projections. With product keys, there are no
    `patterns`, and the values are always separate.

    Args:
        num_patterns: S, the number of patterns.
        num_heads: H.
        key_dim: E; defaults to D / H.
        separate_values: whether the values come from separate learned vectors (S, D)
            instead of the patterns.
        update_steps: the number of softmaxes. None iterates each state until it moves
            by at most 1e-4, for at most 100 steps; see `Hopfield`.
        beta: β, a number or a list with one number per head; defaults to 1/√E.
        trainable_beta: whether each head learns its β.
        normalizer: "softmax", "softmax1", "sparsemax", "entmax15" or "hardmax".
        projections: True, False or a dict, as in `Hopfield`. In the dict,
            `output_shape` is the width of the output and defaults to D. With product
            keys, only the queries are projected, and the values have the width of the
            output.
        dropout: the fraction of attention weights dropped during training.
        keys: None, for learned patterns, or "product", for pairs of learned sub-keys.
        top_k: K, the number of patterns that each head reads with product keys;
            defaults to 32, or to S if S is smaller.

    Call arguments:
        inputs: state patterns, (B, T, D) or (B, D).
        mask: booleans (B, T) or (B,), False for inputs to ignore; defaults to the mask
            that the inputs carry.
        return_attention_scores: whether to return the weights as well.
        training: whether to apply dropout.

    Returns:
        The output, (B, T, D) or (B, T, *output_shape), in the compute dtype. With
        `return_attention_scores=True`, also the weights of the last step (B, H, T, S),
        nearly all of them 0 with product keys. Inputs without a T axis give outputs
        without a T axis. The output carries the mask of the inputs.

    Masking:
        For masked inputs, each head returns 0, so the output is the bias of the output
        projection, or 0 with product keys.

    Raises:
        ValueError: if `num_patterns` is below 1, for arguments that do not fit
            `keys="product"`, and as in `Hopfield`.
        RuntimeError: if `patterns` or `values` is read before the layer is built, or
            `patterns` with product keys.

    Example:

    >>> import numpy as np
    >>> from keras_attention.layers import HopfieldLayer
    >>> x = np.random.default_rng(0).normal(size=(5, 8)).astype("float32")
    >>> lookup = HopfieldLayer(num_patterns=11, num_heads=4)
    >>> output, weights = lookup(x, return_attention_scores=True)
    >>> tuple(output.shape), tuple(weights.shape)
    ((5, 8), (5, 4, 11))
    >>> _ = lookup.patterns.assign(np.eye(11, 8))
    >>> lookup.patterns.trainable = False
    >>> len(lookup.weights) - len(lookup.trainable_weights)
    1
    >>> large = HopfieldLayer(100**2, num_heads=2, keys="product", top_k=5)
    >>> tuple(large(x).shape), tuple(large.values.shape)
    ((5, 8), (10000, 8))

    Reference:
        Ramsauer et al., "Hopfield networks is all you need" (2021), the layer
        HopfieldLayer. Product keys: Lample et al., "Large memory layers with product
        keys" (2019).
    """

    forms = ("(batch, width)", "(batch, length, width)")

    def __init__(
        self,
        num_patterns: int,
        num_heads: int = 1,
        key_dim: int | None = None,
        separate_values: bool = False,
        update_steps: int | None = 1,
        beta: float | list[float] | None = None,
        trainable_beta: bool = False,
        normalizer: str = "softmax",
        projections: bool | dict[str, Any] = True,
        dropout: float = 0.0,
        keys: str | None = None,
        top_k: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(num_patterns, locals(), **kwargs)
        self.separate_values = separate_values
        self.keys = one_of("keys", keys, (None, "product"))
        self.top_k = top_k if top_k is None else positive("top_k", top_k)
        size, steps = self.num_patterns, update_steps
        norm = self.hopfield.query_key_normalization
        rules: tuple = (("top_k", top_k, top_k is None, "None, since all are read,"),)
        if keys == "product":
            square = math.isqrt(size) ** 2 == size
            rules = (
                ("num_patterns", size, square, "a square number"),
                ("top_k", top_k, not top_k or top_k <= size, f"at most {size}"),
                ("update_steps", steps, steps == 1, "1, as the memory is read once,"),
                ("query_key_normalization", norm, norm is None, "None"),
            )
        for name, value, fits, rule in rules:
            if not fits:
                raise ValueError(
                    f"`{name}` must be {rule} with {keys=}. Received: {name}={value!r}"
                )

    def _build_for(self, shape: tuple) -> None:
        if self.keys == "product":
            return self._build_products(shape[-1])
        self._patterns = self._add_patterns("patterns", shape[-1])
        self._values = self._patterns
        if self.separate_values:
            self._values = self._add_patterns("values", shape[-1])
        stored = (1, self.num_patterns, shape[-1])
        self.hopfield.build((1, None, shape[-1]), stored, stored)

    def _build_products(self, dim: int) -> None:
        """Builds sub-keys (H, 2, E/2, n), values and the projection of the queries."""
        # Keys and values have a length of about 1, as the patterns have.
        hopfield, size = self.hopfield, math.isqrt(self.num_patterns)
        hopfield.build((1, None, dim), None)
        heads, width = hopfield.num_heads, hopfield.key_dim
        if width % 2:
            raise ValueError(
                '`key_dim` must be even with keys="product", since each sub-key has '
                f"half of it. Received: key_dim={width}"
            )
        self._sub_keys = keras.layers.EinsumDense(
            "abcd,abde->abce",
            output_shape=(2, None, size),
            kernel_initializer=keras.initializers.RandomNormal(stddev=width**-0.5),
            dtype=policy_of(self, "sub_keys"),
            name="sub_keys",
        )
        self._sub_keys.build((heads, 2, None, width // 2))
        output = math.prod(hopfield.output_shape or (dim,))
        self._table = keras.layers.Embedding(
            self.num_patterns,
            output,
            keras.initializers.RandomNormal(stddev=output**-0.5),
            dtype=policy_of(self, "values"),
            name="values",
        )
        self._table.build()
        self._dropout = keras.layers.Dropout(self.dropout, dtype=self.dtype_policy)

    @property
    def patterns(self) -> Any:
        """The stored patterns, a weight (S, D); the layer must be built."""
        checked.check_usable(self, "patterns", None)
        if self.keys == "product":
            raise RuntimeError(
                f"`patterns` are not stored with keys={self.keys!r}: the keys are "
                "pairs of the sub-keys, the weights `sub_keys`."
            )
        return self._patterns

    @property
    def values(self) -> Any:
        """The source of the values, (S, D): the patterns, or a separate weight."""
        checked.check_usable(self, "values", None)
        return self._values if self.keys is None else self._table.embeddings

    def _retrieve(
        self, inputs: Tensor, mask: Tensor | None, *options: Any
    ) -> tuple[Tensor, Tensor | None]:
        # All inputs share the patterns, so treat the inputs as queries of one sample.
        together = ops.reshape(inputs, (1, -1, inputs.shape[-1]))  # (1, B·T, D)
        mask = None if mask is None else ops.reshape(mask, (1, -1))
        if self.keys == "product":
            output, weights = self._read_products(together, mask, *options)
        else:
            stored = (ops.expand_dims(x, 0) for x in (self._values, self._patterns))
            prepared = self.hopfield.prepare(*stored)  # (1, S, H, E)
            states = self.hopfield.states(together)
            output, weights = self.hopfield.associate(states, prepared, mask, *options)
        front = ops.shape(inputs)[:-1]
        output = ops.reshape(output, (*front, *output.shape[2:]))
        if weights is not None:
            weights = ops.moveaxis(weights[0], 0, 1)  # (B·T, H, S)
            weights = ops.reshape(weights, (*front, *weights.shape[1:]))
            weights = ops.moveaxis(weights, -2, 1)  # (B, H, T, S)
        return output, weights

    def _read_products(
        self,
        inputs: Tensor,
        mask: Tensor | None,
        return_weights: bool,
        training: bool | None,
    ) -> tuple[Tensor, Tensor | None]:
        """Returns the output (1, T, ·) and the weights (1, H, T, S) of one sample."""
        hopfield, size = self.hopfield, math.isqrt(self.num_patterns)
        half = (hopfield.num_heads, 2, hopfield.key_dim // 2)
        queries = ops.reshape(hopfield.scaled_states(inputs), (-1, *half))
        scores = self._sub_keys(ops.transpose(queries, (1, 2, 0, 3)))  # (H, 2, T, ·)
        count = self.top_k or min(DEFAULT_TOP_K, self.num_patterns)
        scores, best = product_top_k(scores[:, 0], scores[:, 1], count)  # (H, T, K)
        weights = normalizers.get(self.normalizer)(scores)
        if mask is not None:
            weights = ops.where(mask[..., None], weights, 0)
        weights = ops.cast(weights, self.compute_dtype)
        values = self._table(ops.swapaxes(best, 0, 1))  # (T, H, K, V)
        dropped = self._dropout(ops.swapaxes(weights, 0, 1), training=training)
        output = ops.einsum("thk,thkv->tv", dropped, values)
        shape = hopfield.output_shape or output.shape[-1:]
        output = ops.reshape(output, (1, -1, *shape))
        if not return_weights:
            return output, None
        places = best // size, best % size
        halves = (ops.one_hot(i, size, dtype=weights.dtype) for i in places)
        weights = ops.einsum("htk,htki,htkj->htij", weights, *halves)
        shape = (1, hopfield.num_heads, -1, self.num_patterns)
        return output, ops.reshape(weights, shape)

    def _shapes_of(self, shape: tuple) -> tuple[tuple, tuple]:
        stored = (1, self.num_patterns, shape[-1])
        width = self.hopfield.compute_output_shape((1, None, shape[-1]), stored)[2:]
        weights = (shape[0], self.hopfield.num_heads, *shape[1:-1], self.num_patterns)
        return (*shape[:-1], *width), weights


@export
class HopfieldPooling(TrainablePatterns):
    """Pools a set into a few vectors: each learned state retrieves one vector.

        ξ ← Σₛ pₛ kₛ,  p = softmax(β K ξ);   o = Σₛ pₛ vₛ

    These are the equations of `Hopfield`. The members of the set are the stored
    patterns. The initial states ξ are projections of learned vectors. The layer
    computes these projections once, not once per sample.

    Args:
        num_patterns: T, the number of learned states and of returned vectors.
        num_heads: H.
        key_dim: E; defaults to D / H.
        value_dim: the width of each head's values; defaults to `key_dim`.
        update_steps: the number of softmaxes. None iterates each state until it moves
            by at most 1e-4, for at most 100 steps; see `Hopfield`.
        beta: β, a number or a list with one number per head; defaults to 1/√E.
        trainable_beta: whether each head learns its β.
        normalizer: "softmax", "softmax1", "sparsemax", "entmax15" or "hardmax".
        projections: True, False or a dict, as in `Hopfield`. In the dict,
            `output_shape` is the width of the output and defaults to D.
        dropout: the fraction of attention weights dropped during training.

    Call arguments:
        inputs: the members of each set, (B, S, D).
        mask: booleans (B, S), True for valid members; defaults to the mask that the
            inputs carry.
        return_attention_scores: whether to return the weights as well.
        training: whether to apply dropout.

    Returns:
        The output, (B, T, D) or (B, T, *output_shape), in the compute dtype. With
        `return_attention_scores=True`, also the weights of the last step (B, H, T, S).
        The output carries no mask.

    Masking:
        For an empty set, each head returns 0, so the output is the bias of the output
        projection.

    Raises:
        ValueError: if `num_patterns` is below 1, and as in `Hopfield`.

    Example:

    >>> import numpy as np
    >>> from keras_attention.layers import HopfieldPooling
    >>> bags = np.random.default_rng(0).normal(size=(3, 7, 8)).astype("float32")
    >>> pooling = HopfieldPooling(num_patterns=2, num_heads=4)
    >>> tuple(pooling(bags).shape)
    (3, 2, 8)

    Reference:
        Ramsauer et al., "Hopfield networks is all you need" (2021), the layer
        HopfieldPooling.
    """

    def __init__(
        self,
        num_patterns: int = 1,
        num_heads: int = 1,
        key_dim: int | None = None,
        value_dim: int | None = None,
        update_steps: int | None = 1,
        beta: float | list[float] | None = None,
        trainable_beta: bool = False,
        normalizer: str = "softmax",
        projections: bool | dict[str, Any] = True,
        dropout: float = 0.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(num_patterns, locals(), **kwargs)

    def _build_for(self, shape: tuple) -> None:
        self._queries = self._add_patterns("queries", shape[-1])
        self.hopfield.build((shape[0], self.num_patterns, shape[-1]), shape)

    @property
    def queries(self) -> Any:
        """The learned queries, a weight (T, D); the layer must be built."""
        checked.check_usable(self, "queries", None)
        return self._queries

    def _retrieve(
        self, inputs: Tensor, mask: Tensor | None, *options: Any
    ) -> tuple[Tensor, Tensor | None]:
        prepared = self.hopfield.prepare(inputs, mask=mask)
        state = self.hopfield.states(ops.expand_dims(self._queries, 0))  # (1, T, H, E)
        size = (ops.shape(inputs)[0], *ops.shape(state)[1:])
        return self.hopfield.associate(
            ops.broadcast_to(state, size), prepared, None, *options
        )

    def _shapes_of(self, shape: tuple) -> tuple[tuple, tuple]:
        batch, length, width = shape
        query = (batch, self.num_patterns, width)
        output = self.hopfield.compute_output_shape(query, shape)
        return output, (batch, self.hopfield.num_heads, self.num_patterns, length)

    def compute_mask(self, inputs: Any, previous_mask: Any = None) -> None:
        return None
