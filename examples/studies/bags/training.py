"""Trains many HopfieldClassifiers at once on subsets of one set of bags, with JAX.

Each network is a `HopfieldClassifier`, called with `stateless_call` and updated with
Keras' AdamW. The networks differ in their training bags and random numbers. One
compiled loop trains all of them in parallel over all steps and epochs.

Shapes: B bags, S instances of the largest bag, F features, K networks.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import keras
import numpy as np
from jax import numpy as jnp

from keras_attention.datasets.bags import Bags
from keras_attention.models import HopfieldClassifier

Array = Any


class Learnt(NamedTuple):
    """The outputs of K trained networks for all bags.

    Attributes:
        logits: (K, B) float32.
        losses: (K, epochs) float32, the mean loss of each epoch's batches.
    """

    logits: np.ndarray
    losses: np.ndarray


class Learner:
    """Trains networks with common settings. The first call compiles the training.

    Args:
        bags: all bags, labelled 0 and 1.
        model: arguments of `HopfieldClassifier` except `input_dim`.
        training: `rate`, `decay` (factor of the rate after each epoch), `weight_decay`,
            `batch_size`, `epochs`; `bags`, the number of distinct bags per epoch; and
            `bound`. Standardized features x are replaced by bound · tanh(x / bound).
    """

    def __init__(
        self, bags: Bags, model: dict[str, Any], training: dict[str, Any]
    ) -> None:
        self._bags, self._arguments = bags, model
        self._steps = training["bags"] // training["batch_size"]
        self._training = training
        self._loop = jax.jit(jax.vmap(self._learn, (None, None, 0, 0, 0, 0, 0)))
        self._network: Any = None

    def __call__(self, parts: np.ndarray, seed: int) -> Learnt:
        """Trains K networks from the same initial weights.

        Args:
            parts: (K, B) bool, the training bags of each network.
            seed: the seed of the weights, the order of bags, and dropout.
        """
        keras.utils.set_random_seed(seed)
        width = self._bags.instances.shape[1]
        network = HopfieldClassifier(width, **self._arguments)
        weights = [variable.value for variable in network.trainable_variables]
        if self._network is None:  # the network that the compiled loop traces
            self._network = network
            self._optimizer = self._made_optimizer()
        means, scales = zip(*(standards(self._bags, part) for part in parts))
        rows = np.argsort(~parts, axis=1, kind="stable")  # training bags first
        counts = parts.sum(1)
        keys = jax.random.split(jax.random.key(seed), len(parts))
        logits, losses = self._loop(
            weights,
            self._data(),
            np.stack(means),
            np.stack(scales),
            rows,
            counts,
            keys,
        )
        return Learnt(np.asarray(logits), np.asarray(losses))

    def _made_optimizer(self) -> keras.optimizers.Optimizer:
        rate = keras.optimizers.schedules.ExponentialDecay(
            self._training["rate"],
            decay_steps=self._steps,
            decay_rate=self._training["decay"],
            staircase=True,
        )
        optimizer = keras.optimizers.AdamW(
            rate, weight_decay=self._training["weight_decay"]
        )
        optimizer.build(self._network.trainable_variables)
        return optimizer

    def _data(self) -> dict[str, np.ndarray]:
        return {**self._bags.padded(), "labels": self._bags.labels.astype("float32")}

    def _learn(
        self,
        weights: list[Array],
        data: dict[str, Array],
        mean: Array,
        scale: Array,
        rows: Array,
        count: Array,
        key: Array,
    ) -> tuple[Array, Array]:
        """Trains one network. Returns its logits for all bags and its losses."""
        key, own = jax.random.split(key)
        state = _with_seeds(self._network, own)
        moments = [variable.value for variable in self._optimizer.variables]
        is_valid = data["instances_mask"]
        standard = self._standardizer(mean, scale)

        def step(carry: tuple, batch: Array) -> tuple[tuple, Array]:
            weights, state, moments = carry

            def loss(weights: list[Array]) -> tuple[Array, Any]:
                logits, new = self._network.stateless_call(
                    weights,
                    state,
                    standard(data["instances"][batch], is_valid[batch]),
                    training=True,
                )
                return _loss(data["labels"][batch], logits[:, 0]), new

            (value, state), slopes = jax.value_and_grad(loss, has_aux=True)(weights)
            weights, moments = self._optimizer.stateless_apply(moments, slopes, weights)
            return (weights, state, moments), value

        def epoch(carry: tuple, key: Array) -> tuple[tuple, Array]:
            carry, values = jax.lax.scan(step, carry, self._order(key, rows, count))
            return carry, jnp.mean(values)

        keys = jax.random.split(key, self._training["epochs"])
        carry, losses = jax.lax.scan(epoch, (weights, state, moments), keys)
        weights, state, _ = carry
        inputs = standard(data["instances"], is_valid)
        logits, _ = self._network.stateless_call(weights, state, inputs)
        return logits[:, 0], losses

    def _order(self, key: Array, rows: Array, count: Array) -> Array:
        """Samples an epoch's bags, (steps, batch), from the first `count` of `rows`."""
        place = jnp.arange(len(rows))
        samples = jnp.where(place < count, jax.random.uniform(key, rows.shape), 2.0)
        size = self._training["batch_size"]
        chosen = rows[jnp.argsort(samples)[: self._steps * size]]
        return chosen.reshape(self._steps, size)

    def _standardizer(self, mean: Array, scale: Array) -> Callable[..., dict]:
        bound = self._training["bound"]

        def standard(instances: Array, is_valid: Array) -> dict[str, Array]:
            x = bound * jnp.tanh((instances - mean) / scale / bound)
            return {
                "instances": jnp.where(is_valid[..., None], x, 0.0),
                "instances_mask": is_valid,
            }

        return standard


def standards(bags: Bags, part: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns the mean and standard deviation of each feature over selected bags.

    Args:
        bags: all bags.
        part: (B,) bool, the selected bags.

    Returns:
        Two float32 arrays (F,); the standard deviation of constant features is 1.
    """
    seen = bags.instances[part[bags.bag]].astype("float64")
    deviation = seen.std(0)
    scale = np.where(deviation > 1e-6, deviation, 1.0)
    return seen.mean(0).astype("float32"), scale.astype("float32")


def _loss(labels: Array, logits: Array) -> Array:
    """Returns the mean binary cross-entropy of logits."""
    return jnp.mean(jax.nn.softplus(logits) - labels * logits)


def _with_seeds(network: keras.Model, key: Array) -> list[Array]:
    """Returns the state of a network with new dropout seeds."""
    state = []
    for variable in network.non_trainable_variables:
        value = variable.value
        if "seed_generator" in variable.path:
            key, own = jax.random.split(key)
            value = jax.random.bits(own, value.shape, value.dtype)
        state.append(value)
    return state
