"""Beam search: several sequences per row; the best one is returned.

Shapes: B batch, K beams, T tokens, V words of the vocabulary, S keys.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import keras
from keras import ops

from keras_attention.layers.base.arguments import number, positive
from keras_attention.layers.base.serialization import export
from keras_attention.numerics.precision import to_float32
from keras_attention.ops.sequence import decoding
from keras_attention.samplers.sampler import Request, Sampler, is_one_of

Tensor = Any
Structure = Any
NONE = float("-inf")  # the log-probability of an unused beam


class Beams(NamedTuple):
    """The state of the beams; beam k of row b has the index b·K + k."""

    tokens: Tensor  # (B·K, T)
    cache: Structure  # (B·K, ...)
    log_probability: Tensor  # (B, K) float32, −∞ for unused beams
    score: Tensor  # (B, K) float32, of finished beams
    finished: Tensor  # (B, K)
    length: Tensor  # (B,), the number of generated tokens


@export
class BeamSampler(Sampler):
    """Beam search, which keeps the K best sequences at each step.

        s(y) = log P(y) / ((5 + |y|) / 6)^α + β Σ_s log(min(Σ_t α_ts, 1))

    Beams are extended by log-probability. A beam that generates a stop token is
    finished and receives its score s, where |y| is the number of generated tokens
    including the stop token. It keeps its slot among the K beams. Beams that reach the
    end of the prompt without a stop token are scored in the same way. A row is done
    when no running beam can exceed the best finished beam (with `return_all_beams`, the
    worst of K finished beams). Stopping early therefore does not change the result.

    The coverage penalty needs the attention weights of `next`. The cache must be a dict
    with `cache["alignment_sum"]`, (B, S), the sum of the weights of each key so far.
    Initialize it with 1 for padding keys, which count as covered, and with 0 for all
    other keys. `next` adds the weights of its step and returns the sum with the cache.

    Call arguments: see `Sampler`. In `next`, the batch size is B·K.

    Args:
        num_beams: K, at most V; 1 is greedy.
        length_penalty: α, at least 0. With α = 0, short sequences win, because each
            token lowers the probability of a sequence.
        coverage_penalty: β, at least 0.
        return_all_beams: whether to return all beams and their scores.

    Returns:
        (B, T), see `Sampler`; with `return_all_beams`, all beams (B, K, T), the best
        beam first, and their scores, float32 (B, K), −∞ for unused beams.

    Raises:
        ValueError: if an argument is out of range, there are more beams than words, or
            the cache has no "alignment_sum" for the coverage penalty.

    Reference:
        Wu et al., "Google's neural machine translation system" (2016), section 7.
    """

    def __init__(
        self,
        num_beams: int = 5,
        length_penalty: float = 0.0,
        coverage_penalty: float = 0.0,
        return_all_beams: bool = False,
    ) -> None:
        self.num_beams = positive("num_beams", num_beams)
        self.length_penalty = number("length_penalty", length_penalty, 0)
        self.coverage_penalty = number("coverage_penalty", coverage_penalty, 0)
        self.return_all_beams = bool(return_all_beams)

    def search(self, request: Request) -> Any:
        self._check_cache(request.cache, request.model)
        request = request._replace(static=self._tiled(request.static))

        def step(index: Any, state: tuple) -> tuple:
            *beams, longest, tensors = state
            new = self._step(request.with_tensors(tensors), index, Beams(*beams))
            return (*new, longest, tensors)

        def done(state: tuple) -> Tensor:
            *beams, longest, _ = state
            return self._is_done(Beams(*beams), longest)

        *beams, _, _ = decoding.generate(
            step,
            (*self._first(request), _longest(request), request.tensors),
            request.start,
            request.stop,
            done if request.stop_tokens else None,
        )
        return self._best(request, Beams(*beams))

    def _first(self, request: Request) -> Beams:
        """Returns one beam per row, and K − 1 unused beams."""
        none = ops.zeros_like(request.prompt[:, :1])  # (B, 1)
        finished = ops.repeat(none, self.num_beams, axis=1) > 0  # (B, K)
        zero = ops.zeros_like(finished, dtype="float32")
        first = ops.arange(self.num_beams) == 0
        return Beams(
            tokens=self._tiled(request.prompt),
            cache=self._tiled(request.cache),
            log_probability=ops.where(first, zero, NONE),
            score=zero + NONE,
            finished=finished,
            length=ops.zeros_like(none[:, 0], dtype="int32"),
        )

    def _step(self, request: Request, index: Any, beams: Beams) -> Beams:
        logits, cache = request.next(beams.tokens, beams.cache, index, request.static)
        parent, token, log_probability = self._extend(beams, logits)
        added = ops.ones_like(beams.length)
        if request.mask is not None:
            # A given token is appended to every beam at no cost.
            is_known = decoding.read(request.mask, index)[:, None]  # (B, 1)
            parent = ops.where(
                is_known, ops.arange(self.num_beams, dtype="int32"), parent
            )
            log_probability = ops.where(
                is_known, beams.log_probability, log_probability
            )
            added = added - ops.cast(is_known[:, 0], "int32")
        # A continuation with probability 0 becomes an unused beam.
        is_valid = log_probability > NONE  # (B, K)
        stays = ops.take_along_axis(beams.finished, parent, axis=1)
        stays = ops.logical_and(stays, is_valid)
        runs = ops.logical_and(is_valid, ops.logical_not(stays))
        runs = ops.logical_and(runs, added[:, None] > 0)
        ends = ops.logical_and(runs, is_one_of(token, request.stop_tokens))
        here = ops.cast(decoding.read(request.prompt, index), "int32")[:, None]
        token = ops.where(runs, token, here)
        tokens = decoding.write(
            self._gathered(beams.tokens, parent),
            index,
            ops.reshape(ops.cast(token, beams.tokens.dtype), [-1]),
        )
        now = Beams(
            tokens=tokens,
            cache=self._gathered(cache, parent),
            log_probability=log_probability,
            score=ops.take_along_axis(beams.score, parent, axis=1),
            finished=ops.logical_or(stays, ends),
            length=beams.length + added,
        )
        return now._replace(score=ops.where(ends, self._score(now), now.score))

    def _extend(self, beams: Beams, logits: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Returns beams, tokens and log-probabilities of the K best, each (B, K)."""
        k, size = self.num_beams, logits.shape[-1]
        if size is not None and k > size:
            raise ValueError(
                "`num_beams` must not be above the number of words. "
                f"Received: num_beams={k}, logits.shape={tuple(logits.shape)}"
            )
        logits = to_float32(logits)
        # The K best of all continuations are among the K best of each beam.
        best, words = ops.top_k(logits, k)  # (B·K, K)
        best = best - ops.logsumexp(logits, axis=-1, keepdims=True)
        each = beams.log_probability[:, :, None] + ops.reshape(best, (-1, k, k))
        # A finished beam ranks first and is kept only once.
        stays = ops.where(ops.arange(k) == 0, float("inf"), NONE)
        each = ops.where(beams.finished[:, :, None], stays, each)
        each = ops.reshape(ops.cast(each, "float32"), (-1, k * k))
        totals, place = ops.top_k(each, k)  # (B, K)
        place = ops.cast(place, "int32")
        parent = place // k
        words = ops.reshape(ops.cast(words, "int32"), (-1, k * k))
        token = ops.take_along_axis(words, place, axis=1)
        old = ops.take_along_axis(beams.log_probability, parent, axis=1)
        return parent, token, ops.where(totals == float("inf"), old, totals)

    def _score(self, beams: Beams) -> Tensor:
        """Computes the score of each beam if it ends here, (B, K)."""
        penalty = decoding.length_penalty(beams.length, self.length_penalty)
        score = beams.log_probability / penalty[:, None]
        if self.coverage_penalty:
            seen = beams.cache["alignment_sum"]  # (B·K, S)
            coverage = decoding.coverage_penalty(seen, self.coverage_penalty)
            score = score + ops.reshape(coverage, (-1, self.num_beams))
        return score

    def _is_done(self, beams: Beams, longest: Tensor) -> Tensor:
        """Returns whether no running beam can become better than the kept beams."""
        # An upper bound: the probability stays, length and coverage are maximal.
        running = ops.where(beams.finished, NONE, beams.log_probability)
        penalty = decoding.length_penalty(longest, self.length_penalty)
        bound = ops.max(running, axis=1) / penalty
        scores = ops.where(beams.finished, beams.score, NONE)
        pick = ops.min if self.return_all_beams else ops.max
        return ops.all(bound <= pick(scores, axis=1))

    def _best(self, request: Request, beams: Beams) -> Any:
        score = ops.where(beams.finished, beams.score, self._score(beams))
        score, order = ops.top_k(score, self.num_beams)  # (B, K)
        tokens = self._gathered(beams.tokens, ops.cast(order, "int32"))
        shape = (-1, self.num_beams, ops.shape(tokens)[1])
        tokens = ops.reshape(tokens, shape)  # (B, K, T)
        if not self.return_all_beams:
            return tokens[:, 0]
        is_valid = score[:, :, None] > NONE
        return ops.where(is_valid, tokens, request.prompt[:, None]), score

    def _tiled(self, structure: Structure) -> Structure:
        """Repeats each row K times: (B, ...) becomes (B·K, ...)."""
        return keras.tree.map_structure(
            lambda x: x if x is None else ops.repeat(x, self.num_beams, axis=0),
            structure,
        )

    def _gathered(self, structure: Structure, parent: Tensor) -> Structure:
        """Selects the rows (B·K, ...) of the parent beams (B, K)."""
        if self.num_beams == 1:
            return structure
        rows = ops.arange(ops.shape(parent)[0], dtype="int32")[:, None]
        flat = ops.reshape(rows * self.num_beams + parent, [-1])  # (B·K,)
        return keras.tree.map_structure(
            lambda x: x if x is None else ops.take(x, flat, axis=0), structure
        )

    def _check_cache(self, cache: Structure, model: Any) -> None:
        names = sorted(map(str, cache)) if isinstance(cache, dict) else [type(cache)]
        if self.coverage_penalty and "alignment_sum" not in names:
            raise ValueError(
                "`coverage_penalty` needs a cache that is a dict with the entry "
                '"alignment_sum", (batch, keys). It is missing if the attention layer '
                "returns no weights, or if its weights can be negative. Received: "
                f"coverage_penalty={self.coverage_penalty}, cache={names}, "
                f"attention={getattr(model, 'attention', None)!r}"
            )


def _longest(request: Request) -> Tensor:
    """Returns the maximum number of tokens that each row may generate, (B,)."""
    places = ops.arange(ops.shape(request.prompt)[1], dtype="int32")
    open_ = ops.logical_and(places >= request.start, places < request.stop)
    free = ops.broadcast_to(open_, ops.shape(request.prompt))
    if request.mask is not None:
        free = ops.logical_and(free, ops.logical_not(request.mask))
    return ops.sum(ops.cast(free, "int32"), axis=1)
