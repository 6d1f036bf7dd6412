"""Hops of end-to-end and key-value memory networks, and the ages of sentences.

Shapes: B batch, T queries, M memory slots, L words, D width.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

import keras
from keras import ops

from keras_attention.layers.base import sampling
from keras_attention.layers.base.arguments import (
    number,
    positive,
    resolve_normalizer,
)
from keras_attention.layers.base.attention_layer import Prepared
from keras_attention.layers.base.checked import check_hop, check_whole
from keras_attention.layers.base.one_head_attention import OneHeadAttention
from keras_attention.layers.base.serialization import Configured, export
from keras_attention.layers.memory_networks.sentence_encoder import normal
from keras_attention.numerics import masks, normalizers
from keras_attention.ops import positions
from keras_attention.ops.attention import weighted_values
from keras_attention.ops.scores import dot

Tensor = Any


@export
class MemoryHop(OneHeadAttention):
    """One hop over a memory with an input vector and an output vector in each slot.

        pᵢ = softmax(uᵀ mᵢ)         the relevance of memory i to the state u
        o  = Σᵢ pᵢ cᵢ
        u′ = f(H u + o)

    The layer has the same call as every attention layer: the query is the state u, the
    key is the input memory m, and the value is the output memory c. The layer may be
    called several times, once per hop.

    Args:
        transform: whether to learn H; otherwise H is the identity.
        activation: f, a name or a function; None for the identity.
        normalizer: "softmax", or another normalizer of `Attention`. With "softmax1", a
            hop may also attend to nothing.
        slots: the total number of memories. Empty memories have score 0 and value 0,
            as in the paper, so a hop may attend to nothing. Masked memories count as
            empty. Requires the softmax. None means that no memory is empty.
        linear_start: whether training starts without the normalizer, p = uᵀm. The
            non-trainable variable `linear` stores the current mode. Set it to False, as
            the callback `LinearStart` does, to use the normalizer.
        kernel_initializer: the initializer of H. Defaults to a normal distribution
            with standard deviation 0.1.

    Call arguments:
        query: u, (B, D) or (B, T, D).
        value: c, (B, M, D).
        key: m, (B, M, D); defaults to the value.
        query_mask: booleans (B,) or (B, T).
        value_mask: booleans (B, M).
        key_mask: booleans (B, M).
        attention_mask: booleans (B, M) or (B, T, M).
        return_attention_scores: whether to return the weights p as well.
        training: unused; part of the call of every attention layer.
        use_causal_mask: whether query t may attend only to memories 0 … t.

    Returns:
        u′, with the shape of the query. With `return_attention_scores=True`, also the
        weights (B, M) or (B, T, M).

    Masking:
        Boolean, True = may attend. If all memories are masked, o is 0.

    Example:

    >>> import numpy as np
    >>> from keras_attention.layers import MemoryHop
    >>> u, m = np.ones((2, 3), "float32"), np.ones((2, 5, 3), "float32")
    >>> c = np.zeros((2, 5, 3), "float32")
    >>> u, p = MemoryHop()(u, c, m, return_attention_scores=True)
    >>> tuple(u.shape), tuple(p.shape)
    ((2, 3), (2, 5))

    Reference:
        Sukhbaatar et al., "End-to-end memory networks" (2015), equations 1, 2 and 4;
        section 2.2 for H; section 4.2 for linear start.
    """

    def __init__(
        self,
        transform: bool = False,
        activation: Any = None,
        normalizer: Any = "softmax",
        slots: int | None = None,
        linear_start: bool = False,
        kernel_initializer: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.transform = transform
        self.activation = keras.activations.get(activation)
        self.normalizer = resolve_normalizer(normalizer)
        self._normalizer = normalizers.get(self.normalizer)
        if slots is not None:
            positive("slots", slots)
            if self.normalizer != "softmax":
                raise ValueError(
                    "`slots` needs normalizer='softmax': a null memory is an entry of "
                    f"it with score 0. Received: normalizer={normalizer!r}"
                )
        self.slots = slots
        self.linear_start = linear_start
        self.kernel_initializer = keras.initializers.get(kernel_initializer or normal())

    def build(
        self, query_shape: Any, value_shape: Any = None, key_shape: Any = None
    ) -> None:
        if self.transform:
            self.state_dense = keras.layers.Dense(
                query_shape[-1],
                use_bias=False,
                kernel_initializer=self.kernel_initializer,
                dtype=self.dtype_policy,
                name="state",
            )
            self.state_dense.build(query_shape)
        if self.linear_start:
            self.linear = self.add_weight(
                name="linear_start",
                shape=(),
                dtype="bool",
                initializer=lambda shape, dtype: ops.ones(shape, dtype),
                trainable=False,
            )
        self.built = True

    def check_widths(self, query: Tensor, value: Tensor, key: Tensor) -> None:
        check_hop(query, value, key)

    def attend_from_state(
        self,
        query: Tensor,
        prepared: Prepared,
        mask: Tensor | None,
        state: Any,
        random: Any,
        return_weights: bool,
    ) -> tuple[Tensor, Tensor | None, Any]:
        # (1) p = softmax(uᵀ m), (2) o = Σ p c
        output, weights = weighted_values(
            query, prepared.key, prepared.value, dot, self._normalize, mask
        )  # (B, T, D), (B, T, M)
        # (4) u′ = f(H u + o), where H is the identity if there is no transform
        transformed = self.state_dense(query) if self.transform else query
        return self.activation(transformed + output), weights, ()

    def _normalize(self, scores: Tensor, mask: Tensor | None) -> Tensor:
        if self.slots is None:
            weights = self._normalizer(scores, mask)
        else:
            weights = normalizers.null_softmax(scores, mask, slots=self.slots)
        if not self.linear_start:
            return weights
        linear = ops.convert_to_tensor(self.linear)
        return ops.where(linear, normalizers.linear(scores, mask), weights)


@export
class KeyValueHop(OneHeadAttention):
    """One hop over a memory of keys and values.

        pᵢ = softmax(qᵀ kᵢ)         the match of key i and question q
        o  = Σᵢ pᵢ vᵢ
        q′ = R (q + o)

    Keys, values and questions are vectors: AΦ_K(k), AΦ_V(v) and AΦ_X(x) in the paper.
    The layer has the same call as every attention layer. Each layer has its own R, so a
    network needs one layer per hop.

    Args:
        features: the number of leading entries of a vector that R multiplies by a
            matrix; R multiplies the other entries by one scalar. A vector may then end
            in an entity code, and R does not mix entities. Defaults to D.
        normalizer: "softmax", or another normalizer of `Attention`.
        kernel_initializer: the initializer of R's matrix. Defaults to the identity, so
            q′ = q + o before training.

    Call arguments:
        query: q, (B, D) or (B, T, D).
        value: v, (B, M, D).
        key: k, (B, M, D); defaults to the value.
        query_mask: booleans (B,) or (B, T).
        value_mask: booleans (B, M).
        key_mask: booleans (B, M).
        attention_mask: booleans (B, M) or (B, T, M).
        return_attention_scores: whether to return the weights p as well.
        training: unused; part of the call of every attention layer.
        use_causal_mask: whether query t may attend only to memories 0 … t.

    Returns:
        q′, with the shape of the query. With `return_attention_scores=True`, also the
        weights (B, M) or (B, T, M).

    Masking:
        Boolean, True = may attend. If all memories are masked, o is 0 and q′ = R q.

    Raises:
        ValueError: if keys or values do not have the width of the query.

    Example:

    >>> import numpy as np
    >>> from keras_attention.layers import KeyValueHop
    >>> q, k = np.ones((2, 3), "float32"), np.ones((2, 5, 3), "float32")
    >>> v = np.zeros((2, 5, 3), "float32")
    >>> q, p = KeyValueHop()(q, v, k, return_attention_scores=True)
    >>> tuple(q.shape), tuple(p.shape)
    ((2, 3), (2, 5))

    Reference:
        Miller et al., "Key-value memory networks for directly reading documents"
        (2016), section 3.1.
    """

    def __init__(
        self,
        features: int | None = None,
        normalizer: Any = "softmax",
        kernel_initializer: Any = "identity",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.features = None if features is None else positive("features", features)
        self.normalizer = resolve_normalizer(normalizer)
        self._normalize = normalizers.get(self.normalizer)
        self.kernel_initializer = keras.initializers.get(kernel_initializer)

    def build(
        self, query_shape: Any, value_shape: Any = None, key_shape: Any = None
    ) -> None:
        width = query_shape[-1]
        features = width if self.features is None else self.features
        if features > width:
            raise ValueError(
                "`features` must not exceed the query's width. "
                f"Received: features={features}, query.shape={tuple(query_shape)}"
            )
        self.query_dense = keras.layers.Dense(
            features,
            use_bias=False,
            kernel_initializer=self.kernel_initializer,
            dtype=self.dtype_policy,
            name="query",
        )
        self.query_dense.build((*query_shape[:-1], features))
        if features < width:
            self.scale = self.add_weight(name="scale", shape=(), initializer="ones")
        self.built = True

    def check_widths(self, query: Tensor, value: Tensor, key: Tensor) -> None:
        check_hop(query, value, key)

    def attend_from_state(
        self,
        query: Tensor,
        prepared: Prepared,
        mask: Tensor | None,
        state: Any,
        random: Any,
        return_weights: bool,
    ) -> tuple[Tensor, Tensor | None, Any]:
        # p = softmax(qᵀ k), o = Σ p v
        output, weights = weighted_values(
            query, prepared.key, prepared.value, dot, self._normalize, mask
        )  # (B, T, D), (B, T, M)
        return self._map(query + output), weights, ()  # q′ = R (q + o)

    def _map(self, query: Tensor) -> Tensor:
        """Returns R q: R multiplies features by a matrix, other entries by a scalar."""
        features = self.query_dense.units
        if features == query.shape[-1]:
            return self.query_dense(query)
        mapped = self.query_dense(query[..., :features])
        scaled = query[..., features:] * ops.cast(self.scale, query.dtype)
        return ops.concatenate([mapped, scaled], axis=-1)


@export
class MemoryAge(Configured, keras.layers.Layer):
    """The age of each sentence of a story: 1 for the last, 0 for an empty slot.

    An embedding of these ages is the temporal encoding T_A(i) of a memory network.
    During training, `noise` inserts random gaps between the ages. The network then
    learns "before" and "after" instead of exact ages.

    Args:
        memory_size: the largest age. All older sentences get this age.
        noise: the largest number of inserted empty memories, as a fraction of the
            story's length. The paper uses 0.1.
        seed: the random seed of the noise.

    Call arguments:
        inputs: integers (B, M, L), sentences in reading order; token 0 is padding.
        training: whether to add noise.

    Returns:
        The ages, int32 (B, M).

    Example:

    >>> import numpy as np
    >>> from keras_attention.layers import MemoryAge
    >>> story = np.array([[[5, 2], [4, 0], [3, 1], [0, 0]]])
    >>> np.asarray(MemoryAge(memory_size=50)(story)).tolist()
    [[3, 2, 1, 0]]

    Reference:
        Sukhbaatar et al., "End-to-end memory networks" (2015), section 4.1.
    """

    input_ranks: ClassVar[Any] = {"inputs": 3}

    def __init__(
        self,
        memory_size: int,
        noise: float = 0.0,
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if number("noise", noise) < 0:
            raise ValueError(f"`noise` must not be negative. Received: noise={noise}")
        self.memory_size = positive("memory_size", memory_size)
        self.noise = noise
        self.seed = seed
        self.seed_generator = keras.random.SeedGenerator(seed) if noise else None
        self.built = True

    def call(self, inputs: Tensor, training: bool | None = None) -> Tensor:
        check_whole("inputs", inputs)
        ages = positions.age(ops.any(masks.padding(inputs), axis=-1))  # (B, M)
        if self.noise and training:
            batch, slots = ops.shape(inputs)[:2]
            size = inputs.shape[1] if inputs.shape[1] is not None else slots
            places = 1 + size + self._most(size)
            draws = sampling.uniform((batch, places), self.seed_generator)
            ages = positions.insert_gaps(ages, draws, self.noise)
        return ops.minimum(ages, self.memory_size)

    def compute_output_spec(
        self, inputs: Tensor, training: bool | None = None
    ) -> keras.KerasTensor:
        return keras.KerasTensor(inputs.shape[:2], "int32")

    def _most(self, slots: Any) -> Any:
        if isinstance(slots, int):
            return math.ceil(self.noise * slots)
        return ops.cast(ops.ceil(self.noise * ops.cast(slots, "float32")), "int32")
