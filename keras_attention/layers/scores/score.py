"""The base class of all scores.

Shapes: B batch, T queries, S keys, Dq and Dk widths, U units.
"""

from __future__ import annotations

import abc
from typing import Any, ClassVar

import keras
from keras import ops

from keras_attention.layers.base.arguments import clone_initializer
from keras_attention.layers.base.serialization import Configured
from keras_attention.ops import scores

Tensor = Any


class Score(Configured, keras.layers.Layer, abc.ABC):
    """Abstract base class of scores, which measure the similarity of queries and keys.

    A score projects the queries and the keys separately and then compares them. Keys
    that are used many times are projected once. A subclass defines `compare`.

    Call arguments:
        query: (B, T, Dq).
        key: (B, S, Dk).

    Output shape:
        (B, T, S).
    """

    widths_may_differ = False

    float_inputs = ("query", "key")
    input_ranks: ClassVar[Any] = {"query": 3, "key": 3}

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        # Queries and keys may carry masks; the scores (B, T, S) do not.
        self.supports_masking = True

    def build(self, query_shape: Any, key_shape: Any = None) -> None:
        self.built = True

    def compute_mask(self, inputs: Any, previous_mask: Any = None) -> None:
        return None

    def call(self, query: Tensor, key: Tensor) -> Tensor:
        return self.compare(self.project_query(query), self.project_key(key))

    def compute_output_spec(self, query: Tensor, key: Tensor) -> keras.KerasTensor:
        if not self.widths_may_differ:
            scores.check_widths(query, key)
        shape = (*query.shape[:-1], key.shape[-2])
        return keras.KerasTensor(shape, dtype=self.compute_dtype)

    def project_query(self, query: Tensor) -> Tensor:
        """Returns the projected queries, (B, T, ·)."""
        return query

    def project_key(self, key: Tensor) -> Tensor:
        """Returns the projected keys, (B, S, ·)."""
        return key

    def precompute_key(self, key: Tensor) -> Any:
        """Prepares projected keys (B, S, ·) for many calls of `compare` with one query.

        The result is a structure of tensors (B, S, ...).
        """
        return key

    @abc.abstractmethod
    def compare(self, query: Tensor, key: Any) -> Tensor:
        """Returns the scores (B, T, S) of projected queries and keys.

        Args:
            query: the result of `project_query`, (B, T, ·).
            key: the result of `project_key` or `precompute_key`.
        """


def dense(
    layer: Any, units: int, name: str, bias: bool = False, activation: Any = None
) -> keras.layers.Dense:
    """Returns a Dense layer with the kernel initializer of `layer`."""
    return keras.layers.Dense(
        units,
        activation,
        use_bias=bias,
        kernel_initializer=clone_initializer(layer.kernel_initializer),
        dtype=layer.dtype_policy,
        name=name,
    )


def scale_vector(layer: Any) -> Any:
    """Creates v, a vector of width U, initialized like a kernel (U, 1)."""
    initializer = clone_initializer(layer.kernel_initializer)
    return layer.add_weight(
        name="scale",
        shape=(layer.units,),
        initializer=lambda shape, dtype: ops.reshape(
            initializer((*shape, 1), dtype=dtype), shape
        ),
    )
