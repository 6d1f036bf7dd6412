"""The base class of samplers, with KerasHub's call and the loop over positions.

Shapes: B batch, T tokens, V words of the vocabulary, S keys.
"""

from __future__ import annotations

import abc
import inspect
import json
from collections.abc import Callable, Hashable
from numbers import Integral
from typing import Any, NamedTuple

import keras
import numpy as np
from keras import ops

from keras_attention.numerics.precision import to_float32
from keras_attention.ops.sequence import decoding

Tensor = Any
Structure = Any
Next = Callable[[Tensor, Structure, Any, Structure], tuple[Tensor, Structure]]


class Request(NamedTuple):
    """The checked arguments of a sampler's call."""

    next: Next  # returns logits and cache
    prompt: Tensor  # (B, T)
    mask: Tensor | None  # (B, T), True where a token is given
    cache: Structure
    static: Structure
    start: Any  # the first index to generate
    stop: Any  # the index after the last one
    stop_tokens: tuple[int, ...]
    draws: Tensor | None  # (B, T), uniform in [0, 1)

    @property
    def tensors(self) -> tuple:
        """Returns the tensors that steps read besides the cache, for the loop state."""
        return self.prompt, self.mask, self.static, self.draws

    def with_tensors(self, tensors: tuple) -> Request:
        """Returns the same request with the tensors of the current loop step."""
        prompt, mask, static, draws = tensors
        return self._replace(prompt=prompt, mask=mask, static=static, draws=draws)


class Sampler(abc.ABC):
    """Generates sequences from next-token scores. Abstract base class.

    The call follows KerasHub's protocol: these samplers work with KerasHub's models,
    and KerasHub's samplers with the models of this package. Subclasses implement
    `search`.

    Call arguments:
        next: f(prompt, cache, index) that returns (logits, hidden_states, cache): the
            logits (B, V) of the token at position `index`, given the tokens before it;
            an ignored value; and the updated cache. With `static`, it is called as
            f(prompt, cache, index, static). `index` is a Python integer, or a scalar
            tensor in compiled functions on JAX, TensorFlow and torch.
        prompt: (B, T) integers, padded to the maximum length.
        cache: the state of `next`, a structure of tensors with the batch as their first
            axis.
        index: the first position at which a row has no token, an integer or a scalar.
        mask: booleans (B, T), True for given tokens, which are kept. By default, no
            token is given from `index` on.
        stop_token_ids: an integer or a sequence of integers that end a sequence when
            they are generated; or None.
        hidden_states, model: unused; KerasHub's models pass them.
        static: inputs of `next` that are the same at every position, such as the
            projected memory of an encoder: a structure of tensors with the batch as
            their first axis, or None. A beam search tiles it once and never gathers it.
        max_length: the length at which generation stops, at most T; an integer or a
            scalar tensor. It saves steps if the prompt is padded to the length of a
            bucket.
        draws: random numbers (B, T) from `draw`; by default, the call samples them.

    Returns:
        (B, T), in the dtype of the prompt: the prompt with the generated tokens. After
        a generated stop token, a row keeps the values of the prompt.

    Raises:
        ValueError: if `max_length` is below `index` or exceeds the prompt, a shape does
            not fit, or a stop token is outside the vocabulary.
    """

    @abc.abstractmethod
    def search(self, request: Request) -> Any:
        """Generates the sequences, (B, T)."""

    def draw(self, batch: Any, length: Any, seed: int | None = None) -> Tensor | None:
        """Samples the random numbers of one call before its loop starts.

        Pass them to a compiled function as an input to make its results reproducible.

        Args:
            batch: B.
            length: T.
            seed: an integer, or None for the sampler's seed generator, which gives new
                numbers in each call.

        Returns:
            float32 (B, T), uniform in [0, 1); None for a deterministic sampler.
        """
        return None

    @property
    def variables(self) -> list:
        """The states of the seed generators."""
        return []

    @property
    def key(self) -> Hashable:
        """A key that is equal for samplers that differ in nothing but the seed."""
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
        prompt = ops.copy(ops.convert_to_tensor(prompt))  # modified in place below
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
        tokens = () if stop_token_ids is None else np.atleast_1d(stop_token_ids)
        request = Request(
            next=_checked(next, stop_token_ids),
            prompt=prompt,
            mask=mask,
            cache=() if cache is None else cache,
            static=static,
            start=index,
            stop=stop,
            stop_tokens=tuple(map(int, tokens)),
            draws=draws,
        )
        return self.search(request)

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of the constructor that are attributes."""
        names = inspect.signature(type(self)).parameters
        return {name: vars(self)[name] for name in names if name in vars(self)}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Sampler:
        """Creates a sampler from the config of `get_config`."""
        return cls(**config)


class StochasticSampler(Sampler):
    """Samples one token after another with random numbers. Abstract base class.

    Subclasses implement `choose`.

    Args:
        temperature: τ, above 0, by which `choose` divides the logits.
        seed: an integer, or None for a random seed.
    """

    def __init__(self, temperature: float = 1.0, seed: int | None = None) -> None:
        self.temperature = above_zero("temperature", temperature)
        self.seed = seed
        self.generator = keras.random.SeedGenerator(seed)

    @abc.abstractmethod
    def choose(self, logits: Tensor, uniforms: Tensor) -> Tensor:
        """Returns a token for each row, (B,), by logits (B, V) and numbers (B,)."""

    def search(self, request: Request) -> Tensor:
        return one_by_one(request, self.choose)

    def draw(self, batch: Any, length: Any, seed: int | None = None) -> Tensor:
        source = self.generator if seed is None else seed
        return keras.random.uniform((batch, length), seed=source, dtype="float32")

    @property
    def variables(self) -> list:
        return [self.generator.state]


def one_by_one(
    request: Request, choose: Callable[[Tensor, Tensor | None], Tensor]
) -> Tensor:
    """Generates one sequence per row, (B, T), token by token.

    `choose` maps logits (B, V), float32 or float64, and uniforms (B,), or None, to a
    token for each row, (B,).
    """

    def step(index: Any, state: tuple) -> tuple:
        prompt, cache, finished, tensors = state
        now = request.with_tensors(tensors)
        logits, cache = now.next(prompt, cache, index, now.static)
        uniforms = None if now.draws is None else decoding.read(now.draws, index)
        token = ops.cast(choose(to_float32(logits), uniforms), prompt.dtype)  # (B,)
        token, finished = _keep_given(now, index, token, finished)
        return decoding.write(prompt, index, token), cache, finished, tensors

    finished = ops.zeros_like(request.prompt[:, 0], dtype="bool")  # (B,)
    state = (request.prompt, request.cache, finished, request.tensors)
    done = (lambda state: ops.all(state[2])) if request.stop_tokens else None
    return decoding.generate(step, state, request.start, request.stop, done)[0]


def _keep_given(
    request: Request, index: Any, token: Tensor, finished: Tensor
) -> tuple[Tensor, Tensor]:
    """Returns the tokens to write and the finished rows."""
    fixed: list[Tensor] = [finished] if request.stop_tokens else []
    ends = is_one_of(token, request.stop_tokens) if request.stop_tokens else None
    if request.mask is not None:
        known = decoding.read(request.mask, index)
        fixed.append(known)
        ends = None if ends is None else ops.logical_and(ends, ops.logical_not(known))
    if fixed:
        is_fixed = fixed[0] if len(fixed) == 1 else ops.logical_or(*fixed)
        token = ops.where(is_fixed, decoding.read(request.prompt, index), token)
    return token, finished if ends is None else ops.logical_or(finished, ends)


def is_one_of(tokens: Tensor, wanted: tuple[int, ...]) -> Tensor:
    """Returns whether each token is one of the given static tokens."""
    is_wanted = ops.zeros_like(tokens, dtype="bool")
    for token in wanted:
        is_wanted = ops.logical_or(is_wanted, ops.equal(tokens, token))
    return is_wanted


def above_zero(name: str, value: float, most: float = float("inf")) -> float:
    """Returns `value`; raises a ValueError unless it is above 0 and at most `most`."""
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
    """Returns the end index; checks it against the prompt if both are known."""
    if max_length is None:
        return length
    if isinstance(max_length, Integral):
        max_length = int(max_length)
        if known is not None and max_length > known:
            raise ValueError(
                "`max_length` must not exceed the length of the padded prompt. "
                f"Received: max_length={max_length}, prompt.shape=(·, {known})"
            )
        if isinstance(index, Integral):
            decoding.check_max_length(max_length, int(index))
    return max_length


def _checked(next: Callable, stop_token_ids: Any) -> Next:
    """Wraps `next` with a uniform signature and a check of the stop tokens."""

    def checked(
        prompt: Tensor, cache: Structure, index: Any, static: Structure
    ) -> tuple[Tensor, Structure]:
        extra = () if static is None else (static,)
        logits, _, cache = next(prompt, cache, index, *extra)
        if len(logits.shape) != 2:
            raise ValueError(
                "`next` must return logits of shape (batch, vocabulary). "
                f"Received: logits.shape={tuple(logits.shape)}"
            )
        decoding.check_tokens("stop_token_ids", stop_token_ids, logits.shape[-1])
        return logits, () if cache is None else cache

    return checked
