"""Multi-head self-attention step by step: keys and values are kept, not recomputed.

Shapes: B batch, T queries, P places of a cache, D width, V width of a value, G heads of
keys and values, E width of a head.
"""

from __future__ import annotations

from numbers import Integral
from typing import Any, NamedTuple

from keras import ops

from keras_attention.layers.base import check_usable
from keras_attention.layers.headed import HeadedAttention
from keras_attention.layers.heads import FoldedMasks, as_boolean, positive
from keras_attention.layers.recording import is_recording, record
from keras_attention.ops import kernels, masks

Tensor = Any


class Cache(NamedTuple):
    """The keys and values of the steps so far; the batch is the first axis of each."""

    key: Tensor  # (B, P, G, E)
    value: Tensor  # (B, P, G, V)
    mask: Tensor  # (B, P), True where there is something to attend to


class CachedAttention(HeadedAttention):
    """Causal self-attention that goes on where it left off. Abstract."""

    def initial_cache(self, batch: Any, length: int) -> Cache:
        """An empty cache.

        With a sliding window shorter than that, it holds no more than the window, and
        what has fallen out of it is written over.

        Args:
            batch: B, a number or a tensor.
            length: how many steps there will be at most.

        Raises:
            RuntimeError: if this layer is not built.
        """
        check_usable(self, "initial_cache", None)
        places = positive("length", length)
        if self.sliding_window is not None:
            places = min(places, self.sliding_window)
        heads = (batch, places, self.num_key_value_heads)
        return Cache(
            ops.zeros((*heads, self.key_dim), self.compute_dtype),
            ops.zeros((*heads, self.value_dim), self.compute_dtype),
            ops.zeros((batch, places), "bool"),
        )

    def step(
        self, inputs: Tensor, cache: Cache, index: Any, mask: Tensor | None = None
    ) -> tuple[Tensor, Cache]:
        """Causal self-attention of the next inputs over all that came before.

        The same as `layer(x, x, use_causal_mask=True)` at these places of x. For use
        inside another layer's `call`, once this layer is built, and where no gradient
        flows.

        Args:
            inputs: (B, T, D) the next T, such as a prompt, or (B, D) the next one.
            cache: what `initial_cache` or the last step returned. It must not be used
                any more: torch writes to it.
            index: the position of the first of them, a number or a tensor. Whether the
                cache has room can be seen of a number alone.
            mask: booleans (B, T), or (B,) for one; nobody ever attends to what is
                False, such as the padding of a prompt.

        Returns:
            The output (B, T, ·), without the T axis where the inputs had none, and the
            cache.

        Raises:
            RuntimeError: if this layer is not built, or the tensors are symbolic.
            ValueError: if the cache is full, or not one of this layer and batch.
        """
        check_usable(self, "step", inputs)
        inputs = ops.cast(inputs, self.compute_dtype)
        single = len(inputs.shape) == 2
        mask = as_boolean("mask", mask)
        mask = masks.check("mask", mask, tuple(inputs.shape[:-1]))
        if mask is None:
            mask = ops.ones(ops.shape(inputs)[:-1], "bool")
        if single:
            inputs, mask = inputs[:, None], mask[:, None]
        self._check_cache(inputs, cache, index)
        q, k, v = (
            dense(inputs)
            for dense in (self._query_dense, self._key_dense, self._value_dense)
        )
        t = ops.arange(inputs.shape[1]) + ops.cast(index, "int32")
        new = Cache(self._rotate(k, t), v, mask)
        seen, s, cache = self._write(cache, new, index, t)
        allowed = s[None, :] <= t[:, None]  # (T, ·)
        if self.sliding_window is not None:
            allowed = masks.merge(allowed, masks.near(t, s, self.sliding_window))
        pairs = masks.merge(seen.mask[:, None, None, :], allowed[None, None])
        heads, weights = self._attend(
            self._rotate(q, t),
            seen.key,
            seen.value,
            FoldedMasks(pairs, None),
            self._add_bias(None, t, s),
            explicit=is_recording(),
        )
        output = self._close(heads, inputs)
        if is_recording():
            record(self.path, ops.squeeze(weights, axis=-2) if single else weights)
        return (ops.squeeze(output, axis=1) if single else output), cache

    def _write(
        self, cache: Cache, new: Cache, index: Any, t: Tensor
    ) -> tuple[Cache, Tensor, Cache]:
        """What is attended to, at which positions (·,), and the cache of the next step.

        A cache that rolls holds position p at place p mod P.
        """
        places, steps = cache.key.shape[1], new.key.shape[1]
        rolls = places == self.sliding_window
        if not rolls or steps == 1:
            at = index % places if rolls else index
            cache = Cache(*(_written(a, b, at) for a, b in zip(cache, new)))
            held = _held(t[-1], places) if rolls else ops.arange(places)
            return cache, held, cache
        before = _held(t[0] - 1, places)
        seen = Cache(*(ops.concatenate(pair, axis=1) for pair in zip(cache, new)))
        after = _held(t[-1], places)  # (P,)
        source = ops.clip(after - t[0], 0, steps - 1)

        def rolled(old: Tensor, late: Tensor) -> Tensor:
            fresh = ops.reshape(after >= t[0], (1, places, *[1] * (len(old.shape) - 2)))
            return ops.where(fresh, ops.take(late, source, axis=1), old)

        cache = Cache(*(rolled(old, late) for old, late in zip(cache, new)))
        return seen, ops.concatenate([before, t]), cache

    def _check_cache(self, inputs: Tensor, cache: Cache, index: Any) -> None:
        places, groups = cache.key.shape[1], self.num_key_value_heads
        wanted = (
            (inputs.shape[0], places, groups, self.key_dim),
            (inputs.shape[0], places, groups, self.value_dim),
        )
        for name, found, expected in zip(("key", "value"), cache, wanted):
            if any(
                a is not None and b is not None and a != b
                for a, b in zip(found.shape, expected)
            ):
                raise ValueError(
                    "`cache` must be one of this layer and for this batch: its "
                    f"{name} must have shape {expected}. Received: "
                    f"cache.{name}.shape={tuple(found.shape)}"
                )
        rolls = places == self.sliding_window
        if not rolls and inputs.shape[1] > places:
            raise ValueError(
                "`inputs` must not be longer than the cache. Received: "
                f"inputs.shape={tuple(inputs.shape)}, length={places}"
            )
        ends = isinstance(index, Integral) and index + inputs.shape[1] > places
        if ends and not rolls:
            raise ValueError(
                f"`cache` is full: it has {places} places. Received: index={index}, "
                f"inputs.shape={tuple(inputs.shape)}"
            )


def _written(old: Tensor, new: Tensor, index: Any) -> Tensor:
    """A part of a cache (B, P, ...) with (B, T, ...) from place `index` on."""
    if new.shape[1] == 1:
        return kernels.write(old, index, new[:, 0])
    return ops.slice_update(old, (0, index, *[0] * (len(old.shape) - 2)), new)


def _held(last: Tensor, places: int) -> Tensor:
    """The positions that a cache holds which rolls, once `last` is written: (P,).

    At place j it is the greatest p ≤ last with p mod P = j; below 0, there is none yet.
    """
    place = ops.arange(places)
    return last - (last - place) % places
