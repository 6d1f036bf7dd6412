"""What every sampler has in common: KerasHub's call, and the loop over one sequence.

Shapes: B batch, T tokens, V words of the vocabulary, S keys.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable
from numbers import Integral
from typing import Any, NamedTuple

import keras
from keras import ops

from keras_attention.numerics.precision import to_float32
from keras_attention.ops.sequence import decoding

Tensor = Any
Structure = Any
Next = Callable[[Tensor, Structure, Any, Structure], tuple[Tensor, Structure]]


class Request(NamedTuple):
    """What a sampler is asked for, with its arguments checked."""

    next: Next  # of prompt, cache, index and static: logits and cache
    prompt: Tensor  # (B, T)
    mask: Tensor | None  # (B, T), True where a token is given
    cache: Structure
    static: Structure
    start: Any  # the first index to look at
    stop: Any  # the index behind the last one
    stop_tokens: tuple[int, ...]
    draws: Tensor | None  # (B, T), uniform in [0, 1)

    @property
    def tensors(self) -> tuple:
        """What its steps read besides the cache, to be carried through the loop."""
        return self.prompt, self.mask, self.static, self.draws

    def having(self, tensors: tuple) -> Request:
        """The same request, of the tensors that a step of the loop was given."""
        prompt, mask, static, draws = tensors
        return self._replace(prompt=prompt, mask=mask, static=static, draws=draws)


class Sampler:
    """From scores of the next token to sequences: the call that all samplers share.

    The call is KerasHub's, so that these samplers drive its models, and its samplers
    those of this package. Abstract: `search` is a subclass's own.

    Call arguments:
        next: f(prompt, cache, index) that returns (logits, hidden_states, cache): the
            logits (B, V) of the token at place `index`, from the tokens in front of it;
            anything; and the cache after that. With `static` given it is
            f(prompt, cache, index, static). `index` is a Python integer or, in compiled
            functions on JAX, TensorFlow and torch, a scalar tensor.
        prompt: (B, T) integers, padded to the length that may be reached at most.
        cache: what `next` carries from place to place, a structure of tensors with the
            batch as their first axis.
        index: the first place at which a row has no token, an integer or a scalar.
        mask: booleans (B, T), True where a token is given, which is then kept. By
            default no place from `index` on has one.
        stop_token_ids: an integer or a sequence of integers that end a sequence where
            they are generated; or None.
        hidden_states, model: what KerasHub's models hand over; not used.
        static: what `next` reads at every place alike, such as the projected memory of
            an encoder; a structure of tensors with the batch as their first axis, or
            None. A beam search tiles it once and never gathers it.
        max_length: stop at this length, at most T; an integer or a scalar tensor. A
            prompt that is padded to a bucket then costs no further steps.
        draws: (B, T) numbers from `draw`, by default drawn in the call.

    Returns:
        (B, T), of the dtype of the prompt: the prompt, and in it what was generated.
        Behind a stop token that was generated, a row holds what the prompt held.

    Raises:
        ValueError: if `max_length` is below `index` or beyond the prompt, a shape does
            not fit, or a stop token is outside the vocabulary.
    """

    def search(self, request: Request) -> Any:
        """The sequences, (B, T)."""
        raise TypeError(f"{type(self).__name__} has to define `search`")

    def draw(self, batch: Any, length: Any, seed: int | None = None) -> Tensor | None:
        """The random numbers of one call, drawn before its loop.

        Handed to a compiled function as an input, they let it repeat with a seed.

        Args:
            batch: B.
            length: T.
            seed: an integer, or None for the sampler's own seed generator, which gives
                others each time.

        Returns:
            float32 (B, T), uniform in [0, 1); None where nothing is left to chance.
        """
        return None

    @property
    def variables(self) -> list:
        """The states of seed generators."""
        return []

    @property
    def key(self) -> Hashable:
        """What it does, its seed apart: equal for samplers that do the same."""
        config = {k: v for k, v in self.get_config().items() if k != "seed"}
        return type(self), json.dumps(config, sort_keys=True)

    def __call__(
        self,
        next: Callable,
        prompt: Tensor,
        cache: Structure = None,
        index: Any = 0,
        mask: Tensor | None = None,
        stop_token_ids: Any = None,
        hidden_states: Any = None,
        model: Any = None,
        static: Structure = None,
        max_length: Any = None,
        draws: Tensor | None = None,
    ) -> Any:
        prompt = ops.copy(ops.convert_to_tensor(prompt))  # it will be written to
        if len(prompt.shape) != 2:
            raise ValueError(
                "`prompt` must have shape (batch, length). "
                f"Received: prompt.shape={tuple(prompt.shape)}"
            )
        mask = _mask(mask, prompt)
        batch, length = ops.shape(prompt)
        stop = _stop(max_length, index, prompt.shape[1], length)
        if draws is None:
            draws = self.draw(batch, length)
        else:
            draws = ops.convert_to_tensor(draws)
        request = Request(
            next=_checked(next, stop_token_ids),
            prompt=prompt,
            mask=mask,
            cache=() if cache is None else cache,
            static=static,
            start=index,
            stop=stop,
            stop_tokens=_tokens(stop_token_ids),
            draws=draws,
        )
        return self.search(request)

    def get_config(self) -> dict[str, Any]:
        return {}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Sampler:
        """Makes the sampler of which `get_config` told."""
        return cls(**config)


class Chance:
    """Where the random numbers of a sampler come from: KerasHub's seed, drawn ahead.

    Args:
        seed: an integer, or None for one that differs from run to run.
    """

    def __init__(self, seed: int | None) -> None:
        self.generator = keras.random.SeedGenerator(seed)

    def draw(self, batch: Any, length: Any, seed: int | None) -> Tensor:
        """See `Sampler.draw`."""
        source = self.generator if seed is None else seed
        return keras.random.uniform((batch, length), seed=source, dtype="float32")

    @property
    def variables(self) -> list:
        """The state of the seed generator."""
        return [self.generator.state]


def one_by_one(
    request: Request, choose: Callable[[Tensor, Tensor | None], Tensor]
) -> Tensor:
    """Goes on with one sequence a row, one token after the other.

    Args:
        request: what the sampler is asked for.
        choose: f(logits, uniforms) that returns a token for each row, (B,); the logits
            (B, V) are float32 at least, the uniforms (B,) or None.

    Returns:
        The sequences, (B, T).
    """

    def step(index: Any, state: tuple) -> tuple:
        prompt, cache, finished, tensors = state
        now = request.having(tensors)
        logits, cache = now.next(prompt, cache, index, now.static)
        uniforms = None if now.draws is None else decoding.read(now.draws, index)
        token = ops.cast(choose(to_float32(logits), uniforms), prompt.dtype)  # (B,)
        token, finished = _kept(now, index, token, finished)
        return decoding.write(prompt, index, token), cache, finished, tensors

    finished = ops.zeros_like(request.prompt[:, 0], dtype="bool")  # (B,)
    state = (request.prompt, request.cache, finished, request.tensors)
    done = (lambda state: ops.all(state[2])) if request.stop_tokens else None
    return decoding.generate(step, state, request.start, request.stop, done)[0]


def _kept(
    request: Request, index: Any, token: Tensor, finished: Tensor
) -> tuple[Tensor, Tensor]:
    """The tokens to write, where nothing is given or finished, and what is finished."""
    kept: list[Tensor] = [finished] if request.stop_tokens else []
    ends = is_one_of(token, request.stop_tokens) if request.stop_tokens else None
    if request.mask is not None:
        given = decoding.read(request.mask, index)
        kept.append(given)
        ends = None if ends is None else ops.logical_and(ends, ops.logical_not(given))
    if kept:
        stays = kept[0] if len(kept) == 1 else ops.logical_or(*kept)
        token = ops.where(stays, decoding.read(request.prompt, index), token)
    return token, finished if ends is None else ops.logical_or(finished, ends)


def is_one_of(tokens: Tensor, wanted: tuple[int, ...]) -> Tensor:
    """Whether each token is one of the wanted ones, which are known beforehand."""
    found = ops.zeros_like(tokens, dtype="bool")
    for token in wanted:
        found = ops.logical_or(found, ops.equal(tokens, token))
    return found


def above_zero(name: str, value: float, most: float = float("inf")) -> float:
    """Returns a number above 0 and at most `most`, or raises a ValueError."""
    if not 0 < value <= most:
        rule = "above 0" if most == float("inf") else f"above 0 and at most {most}"
        raise ValueError(f"`{name}` must be {rule}. Received: {name}={value!r}")
    return value


def _mask(mask: Tensor | None, prompt: Tensor) -> Tensor | None:
    if mask is None:
        return None
    if tuple(mask.shape) != tuple(prompt.shape):
        raise ValueError(
            "`mask` must have the shape of `prompt`. Received: "
            f"mask.shape={tuple(mask.shape)}, prompt.shape={tuple(prompt.shape)}"
        )
    return ops.cast(mask, "bool")


def _stop(max_length: Any, index: Any, known: int | None, length: Any) -> Any:
    """The index behind the last one, held to the prompt as far as numbers are known."""
    if max_length is None:
        return length
    if isinstance(max_length, Integral):
        max_length = int(max_length)
        if known is not None and max_length > known:
            raise ValueError(
                "`max_length` must not be beyond the prompt, padding included. "
                f"Received: max_length={max_length}, prompt.shape=(·, {known})"
            )
        if isinstance(index, Integral):
            decoding.check_max_length(max_length, int(index))
    return max_length


def _tokens(stop_token_ids: Any) -> tuple[int, ...]:
    if stop_token_ids is None:
        return ()
    if isinstance(stop_token_ids, Integral):
        return (int(stop_token_ids),)
    return tuple(int(token) for token in stop_token_ids)


def _checked(next: Callable, stop_token_ids: Any) -> Next:
    """`next` with one way to call it, which holds stop tokens to the vocabulary."""

    def checked(
        prompt: Tensor, cache: Structure, index: Any, static: Structure
    ) -> tuple[Tensor, Structure]:
        more = () if static is None else (static,)
        logits, _, cache = next(prompt, cache, index, *more)
        if len(logits.shape) != 2:
            raise ValueError(
                "`next` must return logits of shape (batch, vocabulary). "
                f"Received: logits.shape={tuple(logits.shape)}"
            )
        decoding.check_tokens("stop_token_ids", stop_token_ids, logits.shape[-1])
        return logits, () if cache is None else cache

    return checked
