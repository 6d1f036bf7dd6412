"""Multi-head attention step by step: keys and values are kept, not recomputed.

Self-attention keeps those of the steps so far (`step`), cross-attention those of the
memory (`prepare`, then `attend` or `context`).

Shapes: B batch, T queries, S keys, P places of a cache, D width, V width of a value,
H heads, G heads of keys and values, E width of a head.
"""

from __future__ import annotations

from numbers import Integral
from typing import Any, NamedTuple

from keras import ops

from keras_attention import kernels
from keras_attention.layers.base.arguments import positive
from keras_attention.layers.base.attention_layer import Prepared, check_usable
from keras_attention.layers.base.recording import is_recording, record
from keras_attention.layers.multi_head.headed import HeadedAttention
from keras_attention.layers.multi_head.heads import FoldedMasks, as_boolean
from keras_attention.numerics import masks

Tensor = Any


class Cache(NamedTuple):
    """The keys and values of the steps so far; the batch is the first axis of each."""

    key: Tensor  # (B, P, G, E)
    value: Tensor  # (B, P, G, V)
    mask: Tensor  # (B, P), True where there is something to attend to


class CachedAttention(HeadedAttention):
    """Attention that keeps its keys: of the steps so far, or of a memory. Abstract."""

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
        q, k = self._queries(inputs), self._keys(inputs)
        v = self._value_dense(inputs)
        t = masks.places(inputs.shape[1], index)
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

    def initial_state(self, prepared: Prepared) -> tuple:
        """What the first step must know: nothing."""
        return ()

    def prepare(
        self, value: Tensor, key: Tensor | None = None, mask: Tensor | None = None
    ) -> Prepared:
        """Projects a memory's keys and values once, for many calls of `attend`.

        For use inside another layer's `call`, once this layer is built: what a decoder
        keeps of what it attends to.

        Args:
            value: (B, S, V).
            key: (B, S, Dk), by default the value.
            mask: booleans (B, S).

        Returns:
            Keys (B, S, G, E), values (B, S, G, V) and the mask.

        Raises:
            RuntimeError: if this layer is not built, or the tensors are symbolic.
        """
        check_usable(self, "prepare", value)
        mask = masks.check("mask", as_boolean("mask", mask), tuple(value.shape[:2]))
        key = value if key is None else key
        value, key = (ops.cast(x, self.compute_dtype) for x in (value, key))
        k, v = self._keys(key), self._value_dense(value)
        return Prepared(self._rotate(k, masks.places(ops.shape(k)[1])), v, mask)

    def attend(
        self,
        query: Tensor,
        prepared: Prepared,
        state: Any = None,
        *,
        start: Any = 0,
    ) -> tuple[Tensor, Tensor, tuple]:
        """Attention over a prepared memory.

        Args:
            query: (B, T, Dq) or (B, Dq).
            prepared: what `prepare` returned.
            state: `()`, as of every attention that need not know of its last step.
            start: the position of the first query.

        Returns:
            The output (B, T, ·), the weights (B, H, T, S), without the T axis where the
            query had none, and `()`.

        Raises:
            RuntimeError: if this layer is not built, or the tensors are symbolic.
            ValueError: if `prepared` is of another layer or batch.
        """
        check_usable(self, "attend", query)
        output, weights = self._over(query, prepared, start, explicit=True)
        return output, weights, ()

    def context(self, query: Tensor, prepared: Prepared, *, start: Any = 0) -> Tensor:
        """The same as `attend`, the output alone: fused where the backend can.

        Inside `record_attention` the weights are recorded.

        Args:
            query: (B, T, Dq) or (B, Dq).
            prepared: what `prepare` returned.
            start: the position of the first query.

        Returns:
            The output (B, T, ·), without the T axis where the query had none.

        Raises:
            RuntimeError: if this layer is not built, or the tensors are symbolic.
            ValueError: if `prepared` is of another layer or batch.
        """
        check_usable(self, "context", query)
        output, weights = self._over(query, prepared, start, explicit=is_recording())
        if is_recording():
            record(self.path, weights)
        return output

    def _over(
        self, query: Tensor, prepared: Prepared, start: Any, explicit: bool
    ) -> tuple[Tensor, Tensor | None]:
        query = ops.cast(query, self.compute_dtype)
        single = len(query.shape) == 2
        query = query[:, None] if single else query
        self._check_kept("prepared", query, prepared)
        q = self._queries(query)
        t = masks.places(ops.shape(q)[1], start)
        s = masks.places(ops.shape(prepared.key)[1])
        mask = None if prepared.mask is None else prepared.mask[:, None, None, :]
        if self.sliding_window is not None:
            near = masks.near(t, s, self.sliding_window)
            mask = masks.merge(mask, near[None, None])
        heads, weights = self._attend(
            self._rotate(q, t),
            prepared.key,
            prepared.value,
            FoldedMasks(mask, None),
            self._add_bias(None, t, s),
            explicit,
        )
        output = self._close(heads, query)
        if single:
            output = ops.squeeze(output, axis=1)
            weights = None if weights is None else ops.squeeze(weights, axis=-2)
        return output, weights

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

    def _check_kept(self, name: str, inputs: Tensor, kept: Any) -> None:
        """Holds keys and values that were kept to this layer and this batch."""
        for part, width in (("key", self.key_dim), ("value", self.value_dim)):
            found = tuple(getattr(kept, part).shape)
            wanted = (inputs.shape[0], None, self.num_key_value_heads, width)
            fits = len(found) == 4 and all(
                None in (a, b) or a == b for a, b in zip(found, wanted)
            )
            if not fits:
                raise ValueError(
                    f"`{name}` must be one of this layer and for this batch: its "
                    f"{part} must have shape {wanted}. Received: "
                    f"{name}.{part}.shape={found}"
                )

    def _check_cache(self, inputs: Tensor, cache: Cache, index: Any) -> None:
        places = cache.key.shape[1]
        self._check_kept("cache", inputs, cache)
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
