"""A Hopfield network that classifies a bag of instances.

Shapes: B batch, S instances of a bag, F features of an instance, D width, C classes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import keras
from keras import ops

from keras_attention.layers.base import sampling
from keras_attention.layers.base.arguments import fraction, positive
from keras_attention.layers.base.serialization import export
from keras_attention.layers.hopfield.learned import HopfieldPooling
from keras_attention.models.base.configured_model import ConfiguredModel

Tensor = Any
OWN = ("num_heads", "key_dim", "update_steps", "beta", "dropout", "name", "dtype")


@export
class HopfieldClassifier(ConfiguredModel):
    """Classifies bags of instances, pooled by a Hopfield network.

        hₛ = norm(relu(W … relu(W xₛ + b)))              for each instance
        z  = HopfieldPooling(h₁, …, h_S)
        logits = W relu(z) + b

    This is multiple-instance learning: a bag has one label, and the instances that
    determine it are unknown. The pooling weights show which instances the network
    attends to.

    With one logit, labels are 0 or 1, (B,); the loss is
    `keras.losses.BinaryCrossentropy(from_logits=True)`, metrics are
    `keras.metrics.AUC(from_logits=True)` and
    `keras.metrics.BinaryAccuracy(threshold=0.0)`, and `keras.ops.sigmoid(logits)` gives
    probabilities. With C > 1 logits, labels are 0 … C − 1, (B,); the loss is
    `keras.losses.SparseCategoricalCrossentropy(from_logits=True)`, the metric is
    `keras.metrics.SparseCategoricalAccuracy()`.

    Args:
        input_dim: F, the number of features of an instance.
        num_classes: C, the number of logits; 1 for binary classification.
        dims: the widths of the layers that embed instances; the last width is D. If
            empty, D = F and instances are only normalized.
        num_heads: the number of heads of the pooling.
        key_dim: the width of each pooling head; None for D / num_heads.
        update_steps: the number of softmax updates in the pooling.
        beta: β of the pooling, a number or a list with one number per head; 1/√key_dim
            by default.
        dropout: the dropout rate of the pooling weights.
        instance_dropout: the fraction of a bag's instances to drop during training.
            Each step samples the instances to drop, and at least one instance is kept.
        pooling: a dict of further arguments of `HopfieldPooling`, such as
            `num_patterns`, `value_dim`, `trainable_beta`, `normalizer` and
            `projections`. `{"projections": False}` requires `num_heads=1` and
            `key_dim=None`.

    Inputs: a dict of
        instances: floats (B, S, F).
        instances_mask: booleans (B, S), False for padding.

    `keras_attention.datasets.bags.Bags.of(sets, labels).padded()` builds both inputs
    from a list of arrays (S, F), one per bag. S may differ between bags.

    Returns:
        Logits (B, C).

    Masking:
        Masked instances are ignored. The logits of a bag without instances do not
        depend on its padding.

    Raises:
        ValueError: for sizes below 1, a dropout outside [0, 1), or arguments that
            `HopfieldPooling` does not accept.

    Example:

    >>> import numpy as np
    >>> from keras_attention.models import HopfieldClassifier
    >>> model = HopfieldClassifier(input_dim=5, dims=(8,), num_heads=2, key_dim=4)
    >>> bags = np.random.default_rng(0).normal(size=(3, 7, 5)).astype("float32")
    >>> there = np.arange(7) < np.array([[7], [2], [4]])
    >>> logits = model({"instances": bags, "instances_mask": there})
    >>> tuple(logits.shape)
    (3, 1)

    Reference:
        Ramsauer et al., "Hopfield networks is all you need" (2021), section 4: the
        network of the multiple-instance learning experiments, with "bag dropout" as
        `instance_dropout`. As in the authors' layer, the stored patterns are
        normalized.
    """

    def __init__(
        self,
        input_dim: int,
        num_classes: int = 1,
        dims: Sequence[int] = (32,),
        num_heads: int = 8,
        key_dim: int | None = 8,
        update_steps: int = 1,
        beta: float | list[float] | None = None,
        dropout: float = 0.0,
        instance_dropout: float = 0.0,
        pooling: dict[str, Any] | None = None,
        dtype: Any = None,
        **kwargs: Any,
    ) -> None:
        positive("input_dim", input_dim)
        positive("num_classes", num_classes)
        if not isinstance(dims, Iterable):
            raise ValueError(
                "`dims` must be a sequence of widths, such as (32,), or () for none. "
                f"Received: dims={dims!r}"
            )
        dims = tuple(positive(f"dims[{n}]", width) for n, width in enumerate(dims))
        further = _further(pooling, num_heads, key_dim)
        pool = HopfieldPooling(
            num_heads=num_heads,
            key_dim=key_dim,
            update_steps=update_steps,
            beta=beta,
            dropout=dropout,
            **further,
            dtype=dtype,
            name="pooling",
        )
        dropped = InstanceDropout(instance_dropout, name="instance_dropout")
        instances = keras.Input((None, input_dim), name="instances")  # (B, S, F)
        is_valid = keras.Input((None,), dtype="bool", name="instances_mask")  # (B, S)
        x = instances
        for n, width in enumerate(dims):
            x = keras.layers.Dense(
                width, activation="relu", dtype=dtype, name=f"embedding_{n}"
            )(x)  # (B, S, D)
        normalize = keras.layers.LayerNormalization(
            epsilon=1e-5, dtype=dtype, name="normalization"
        )
        x = pool(normalize(x), mask=dropped(is_valid))  # (B, T, D)
        x = keras.layers.Flatten(dtype=dtype, name="pooled")(x)
        x = keras.layers.ReLU(dtype=dtype, name="relu")(x)
        logits = keras.layers.Dense(num_classes, dtype=dtype, name="logits")(x)
        inputs = {"instances": instances, "instances_mask": is_valid}
        super().__init__(inputs, logits, locals())
        self.beta = pool.beta
        stored = pool.get_config()
        self.pooling = {name: stored[name] for name in further}


def _further(pooling: Any, num_heads: Any, key_dim: Any) -> dict[str, Any]:
    """Checks the further arguments in `pooling`."""
    if pooling is None:
        return {}
    if not isinstance(pooling, dict):
        raise ValueError(
            "`pooling` must be a dict of arguments of `HopfieldPooling`. "
            f"Received: pooling={pooling!r}"
        )
    twice = [name for name in OWN if name in pooling]
    if twice:
        raise ValueError(
            f"`pooling` must not hold {twice}, which `HopfieldClassifier` takes itself "
            f"or does not take. Received: pooling={pooling!r}"
        )
    if pooling.get("projections") is False and (num_heads, key_dim) != (1, None):
        raise ValueError(
            'pooling={"projections": False} needs `num_heads=1` and `key_dim=None`, '
            "since heads and their widths are made by projections. Received: "
            f"num_heads={num_heads}, key_dim={key_dim}"
        )
    return pooling


@export
class InstanceDropout(keras.layers.Layer):
    """Drops random members of a set during training, but never all of them.

    Args:
        rate: the fraction of members to drop, in [0, 1).

    Call arguments:
        mask: booleans (B, S), True for valid members.
        training: whether to drop members.

    Returns:
        Booleans (B, S), True for the members that are kept.
    """

    def __init__(self, rate: float, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.rate = fraction("instance_dropout", rate)
        self.seed_generator = keras.random.SeedGenerator()
        self.built = True

    def call(self, mask: Tensor, training: bool | None = None) -> Tensor:
        if not training or not self.rate:
            return mask
        samples = sampling.uniform(ops.shape(mask), self.seed_generator)
        samples = ops.where(mask, samples, -1.0)  # (B, S)
        # Not `initial=-1`: on torch, Keras reads it back from the device.
        least = ops.pad(samples, [(0, 0), (0, 1)], constant_values=-1.0)
        most = ops.max(least, axis=1, keepdims=True)
        stays = ops.logical_or(samples >= self.rate, samples == most)
        return ops.logical_and(mask, stays)

    def compute_output_spec(
        self, mask: Tensor, training: bool | None = None
    ) -> keras.KerasTensor:
        return keras.KerasTensor(mask.shape, "bool")

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "rate": self.rate}
