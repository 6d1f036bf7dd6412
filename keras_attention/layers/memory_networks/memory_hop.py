"""One hop of an end-to-end memory network.

Shapes: B batch, M memory slots, L words, D width.
"""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from keras_attention.layers.base.arguments import positive, resolve_normalizer
from keras_attention.layers.base.attention_layer import Prepared
from keras_attention.layers.base.checked import check_hop
from keras_attention.layers.base.one_head_attention import OneHeadAttention
from keras_attention.layers.base.serialization import export
from keras_attention.layers.memory_networks.sentence_encoder import normal
from keras_attention.numerics import normalizers
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
