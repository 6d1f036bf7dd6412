"""Samplers that write one token after another, and their base class.

Shapes: B batch, T tokens, V words of the vocabulary.
"""

from __future__ import annotations

import abc
import inspect
from collections.abc import Callable, Hashable
from numbers import Integral, Number
from typing import Any, NamedTuple

import keras
import numpy as np
from keras import ops

from keras_attention.layers.base.arguments import number, positive
from keras_attention.layers.base.serialization import export
from keras_attention.numerics import normalizers
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
    model: Any = None  # an error names its `attention`

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
        stop_token_ids: an integer or several, such as a list, a set, an array or a
            tensor, that end a sequence when they are generated; or None.
        hidden_states, model: unused, but for an error; KerasHub's models pass them.
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
        """A key that is equal for samplers that differ in nothing but the seed.

        If an attribute is not a string, a number, None or a structure of these, the key
        is equal for the same object alone.
        """
        values = {k: v for k, v in vars(self).items() if k not in ("seed", "generator")}
        inner = [values.pop(k).key for k in [*values] if isinstance(values[k], Sampler)]
        plain = (str, Number, type(None))
        if not all(isinstance(x, plain) for x in keras.tree.flatten(values)):
            return type(self), self.search  # methods of two objects are not equal
        return type(self), repr(values), *inner

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
        if mask is not None:
            if tuple(mask.shape) != tuple(prompt.shape):
                raise ValueError(
                    "`mask` must have the shape of `prompt`. Received: mask.shape="
                    f"{tuple(mask.shape)}, prompt.shape={tuple(prompt.shape)}"
                )
            mask = ops.cast(mask, "bool")
        if draws is None:
            draws = self.draw(*ops.shape(prompt))
        else:
            draws = ops.convert_to_tensor(draws)
        stops = decoding.check_tokens("stop_token_ids", stop_token_ids, None)
        request = Request(
            next=_checked(next, stops),
            prompt=prompt,
            mask=mask,
            cache=() if cache is None else cache,
            static=static,
            start=index,
            stop=_stop(max_length, index, prompt),
            stop_tokens=stops,
            draws=draws,
            model=model,
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


def _stop(max_length: Any, index: Any, prompt: Tensor) -> Any:
    """Returns the end index; checks it against the prompt if both are known."""
    if max_length is None:
        return ops.shape(prompt)[1]
    length = prompt.shape[1]
    if isinstance(max_length, Integral):
        max_length = int(max_length)
        if length is not None and max_length > length:
            raise ValueError(
                "`max_length` must not exceed the length of the padded prompt. "
                f"Received: max_length={max_length}, prompt.shape=(·, {length})"
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


@export
class GreedySampler(Sampler):
    """Selects the most probable next token at each step; the first one in a tie.

    For call arguments and return values, see `Sampler`.

    Example:

    >>> import numpy as np
    >>> from keras import ops
    >>> from keras_attention.samplers import GreedySampler
    >>> table = ops.one_hot(np.array([1, 2, 3, 0]), 4)  # after 0 comes 1, and so on
    >>> def following(prompt, cache, index):
    ...     return ops.take(table, prompt[:, index - 1], axis=0), None, cache
    >>> prompt = np.array([[1, 0, 0, 0, 0]])
    >>> tokens = GreedySampler()(following, prompt, index=1, stop_token_ids=[0])
    >>> np.asarray(tokens).tolist()
    [[1, 2, 3, 0, 0]]
    """

    def search(self, request: Request) -> Tensor:
        return one_by_one(request, lambda logits, _: ops.argmax(logits, axis=-1))


class StochasticSampler(Sampler):
    """Samples one token after another with random numbers. Abstract base class.

    Subclasses implement `choose`.

    Args:
        temperature: τ, above 0, by which `choose` divides the logits.
        seed: an integer, or None for a random seed.
    """

    def __init__(self, temperature: float = 1.0, seed: int | None = None) -> None:
        self.temperature = number("temperature", temperature, above=0)
        self.seed = int(seed) if isinstance(seed, np.integer) else seed
        self.generator = keras.random.SeedGenerator(self.seed)

    @abc.abstractmethod
    def choose(self, logits: Tensor, uniforms: Tensor) -> Tensor:
        """Returns a token for each row, (B,), by logits (B, V) and numbers (B,)."""

    def search(self, request: Request) -> Tensor:
        return one_by_one(request, self.choose)

    def draw(self, batch: Any, length: Any, seed: int | None = None) -> Tensor:
        source: Any = self.generator if seed is None else seed
        source = int(source) if isinstance(source, np.integer) else source
        return keras.random.uniform((batch, length), seed=source, dtype="float32")

    @property
    def variables(self) -> list:
        return [self.generator.state]


@export
class RandomSampler(StochasticSampler):
    """Samples the next token from the distribution of the model.

        P(w) = softmax(logits / τ)_w

    For call arguments and return values, see `Sampler`.

    Args:
        temperature: τ, above 0. Values below 1 sharpen the distribution; values above 1
            flatten it.
        seed: an integer for reproducible samples, or None.

    Raises:
        ValueError: if the temperature is not above 0.
    """

    def choose(self, logits: Tensor, uniforms: Tensor) -> Tensor:
        return decoding.draw(normalizers.softmax(logits / self.temperature), uniforms)


@export
class TopKSampler(StochasticSampler):
    """Samples the next token from the k most probable tokens.

    The probabilities of these tokens are renormalized. For call arguments and return
    values, see `Sampler`.

    Args:
        k: the number of tokens; if the vocabulary is smaller, all tokens are used.
        temperature: above 0, see `RandomSampler`.
        seed: an integer for reproducible samples, or None.

    Raises:
        ValueError: if k is below 1, or the temperature is not above 0.

    Reference:
        Fan, Lewis & Dauphin, "Hierarchical neural story generation" (2018).
    """

    def __init__(
        self, k: int = 5, temperature: float = 1.0, seed: int | None = None
    ) -> None:
        self.k = positive("k", k)
        super().__init__(temperature, seed)

    def choose(self, logits: Tensor, uniforms: Tensor) -> Tensor:
        best, words = ops.top_k(logits, min(self.k, logits.shape[-1]))  # (B, ·)
        return draw_best(best / self.temperature, words, uniforms)


def draw_best(best: Tensor, words: Tensor, uniforms: Tensor) -> Tensor:
    """Samples one of the k best words of each row with P = softmax(best).

    It samples the same words as `ops.decoding.draw` of the softmax. In sorted rows, the
    number of cumulative sums up to u times the total is the sampled place; XLA computes
    this faster than an argmax and a gather.

    `best` (B, k) has the scores of the words (B, k), the largest first; `uniforms`, u,
    are (B,), in [0, 1). A word with probability 0 is never sampled.
    """
    # Not best[:, :1]: with a slice of its result, top_k is 70 times slower on XLA.
    weights = ops.exp(best - ops.max(best, axis=-1, keepdims=True))
    sums = ops.cumsum(weights, axis=-1)  # (B, ·)
    total = ops.max(sums, axis=-1, keepdims=True)
    # Behind the first sum that equals the total, all weights are 0.
    passed = ops.logical_and(sums <= uniforms[:, None] * total, sums < total)
    place = ops.sum(ops.cast(passed, "int32"), axis=-1, keepdims=True)  # (B, 1)
    chosen = ops.equal(ops.arange(words.shape[-1], dtype="int32"), place)
    return ops.sum(ops.where(chosen, words, ops.zeros_like(words)), axis=-1)


@export
class TopPSampler(StochasticSampler):
    """Samples the next token from the fewest tokens with a total probability of p.

    The nucleus contains the most probable tokens, as many as are needed for a total
    probability of p, but at most k. Their probabilities are renormalized.

    For call arguments and return values, see `Sampler`.

    Args:
        p: the total probability of the nucleus, above 0 and at most 1.
        k: the maximum number of tokens in the nucleus, or None for no limit.
        temperature: above 0, see `RandomSampler`. It is applied before the nucleus is
            selected.
        seed: an integer for reproducible samples, or None.

    Raises:
        ValueError: if p is not in (0, 1], k is below 1, or the temperature is not above
            0.

    Reference:
        Holtzman et al., "The curious case of neural text degeneration" (2020).
    """

    def __init__(
        self,
        p: float = 0.9,
        k: int | None = None,
        temperature: float = 1.0,
        seed: int | None = None,
    ) -> None:
        self.p = number("p", p, above=0)
        if self.p > 1:
            raise ValueError(f"`p` must be above 0 and at most 1. Received: p={p!r}")
        self.k = None if k is None else positive("k", k)
        super().__init__(temperature, seed)

    def choose(self, logits: Tensor, uniforms: Tensor) -> Tensor:
        chances = normalizers.softmax(logits / self.temperature)  # (B, V)
        if self.k is None:
            return decoding.draw(decoding.nucleus(chances, self.p), uniforms)
        best, words = ops.top_k(chances, min(self.k, logits.shape[-1]))  # (B, ·)
        place = decoding.draw(decoding.nucleus(best, self.p), uniforms)
        return ops.take_along_axis(words, place[:, None], axis=-1)[:, 0]


@export
class ExcludingSampler(Sampler):
    """Generates with another sampler, which never selects the excluded tokens.

    The logits of the excluded tokens become −∞, so the probabilities of the other
    tokens sum to 1. For call arguments and return values, see `Sampler`.

    Args:
        sampler: the other sampler, one of this package, or its config.
        tokens: the excluded tokens, integers.

    Raises:
        ValueError: if `sampler` is not a sampler of this package, `tokens` is empty or
            has other values than integers of at least 0; in a call, if an excluded
            token is outside the vocabulary or a stop token, or all tokens are excluded.

    Example:

    ```python
    sampler = ExcludingSampler(BeamSampler(5), tokens=[1])  # 1: the unknown token
    model.generate(source, sampler=sampler)
    ```
    """

    def __init__(self, sampler: Any, tokens: Any) -> None:
        if isinstance(sampler, dict):
            sampler = keras.saving.deserialize_keras_object(sampler)
        if not isinstance(sampler, Sampler):
            raise ValueError(
                "`sampler` must be a sampler of `keras_attention.samplers`. "
                f"Received: sampler={sampler!r}"
            )
        self.sampler = sampler
        self.tokens = tuple(sorted({*decoding.check_tokens("tokens", tokens, None)}))
        if not self.tokens:
            raise ValueError(f"`tokens` must not be empty. Received: tokens={tokens!r}")

    def search(self, request: Request) -> Any:
        stops = sorted(set(self.tokens) & set(request.stop_tokens))
        if stops:
            raise ValueError(
                "`stop_token_ids` must not contain excluded tokens. "
                f"Received: {stops}, which are excluded"
            )

        def without(
            prompt: Tensor, cache: Structure, index: Any, static: Structure
        ) -> tuple[Tensor, Structure]:
            logits, cache = request.next(prompt, cache, index, static)
            size = logits.shape[-1]
            decoding.check_tokens("tokens", self.tokens, size)
            if len(self.tokens) == size:
                raise ValueError(
                    "`tokens` must not exclude the whole vocabulary. "
                    f"Received: tokens={list(self.tokens)}, {size} tokens in all"
                )
            excluded = is_one_of(ops.arange(size), self.tokens)  # (V,)
            return ops.where(excluded, float("-inf"), logits), cache

        return self.sampler.search(request._replace(next=without))

    def draw(self, batch: Any, length: Any, seed: int | None = None) -> Tensor | None:
        return self.sampler.draw(batch, length, seed)

    @property
    def variables(self) -> list:
        return self.sampler.variables

    @property
    def return_all_beams(self) -> bool:
        """Whether a beam search returns all beams of a row."""
        return bool(getattr(self.sampler, "return_all_beams", False))

    def get_config(self) -> dict[str, Any]:
        return {
            "sampler": keras.saving.serialize_keras_object(self.sampler),
            "tokens": list(self.tokens),
        }
