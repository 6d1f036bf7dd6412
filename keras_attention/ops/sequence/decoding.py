"""Decoding: a loop that stops early, what samplers compute in it, how it is compiled.

Unlike :func:`keras_attention.ops.sequence.loop.scan`, the loop keeps no outputs and is
not differentiated.

Shapes: B batch, T tokens, V words of the vocabulary, S keys.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple

import keras
import numpy as np
from keras import ops

from keras_attention import kernels

Tensor = Any
Structure = Any


def generate(
    step: Callable[[Any, Structure], Structure],
    state: Structure,
    start: Any,
    stop: Any,
    done: Callable[[Structure], Tensor] | None = None,
) -> Structure:
    """Takes a step for each place from `start` on, until `stop`, or until it is done.

        while index < stop and not done(state):
            state = step(index, state)
            index = index + 1

    Inside a compiled function it is one loop on JAX and TensorFlow. On torch and NumPy
    it is a loop in Python, whose index is a Python integer. Inside a function that
    `CompiledFunctions` runs, torch records what the first step does and then only
    repeats that: its index is then a tensor, too, and a step may close over weights,
    but not over other tensors, which belong into the state; if it does, or asks for a
    number in a tensor, nothing is recorded. On an accelerator torch asks only now and
    then whether it is done, since each answer makes Python wait: a step behind the end
    must leave what matters as it is. No random numbers may be drawn inside; they are
    drawn before the loop.

    Args:
        step: f(index, state) that returns the next state, of the same structure, shapes
            and dtypes.
        state: the first state, a structure of tensors.
        start: the first index, an integer or a scalar tensor.
        stop: the index behind the last, an integer or a scalar tensor.
        done: f(state), one boolean; or None to take all steps.

    Returns:
        The last state.

    Example:

    >>> import numpy as np
    >>> from keras import ops
    >>> from keras_attention.ops import decoding
    >>> double = lambda index, x: x * 2
    >>> x = decoding.generate(double, ops.ones(()), 0, 9, lambda x: x > 20)
    >>> float(np.asarray(x))
    32.0
    """
    return kernels.generate(step, state, start, stop, done)


def read(tensor: Tensor, index: Any) -> Tensor:
    """What stands at place `index` of a buffer: of (B, T, ...) the values (B, ...).

    Args:
        tensor: (B, T, ...).
        index: an integer of at least 0, or a scalar tensor.
    """
    return kernels.read(tensor, index)


def write(tensor: Tensor, index: Any, values: Tensor) -> Tensor:
    """Writes a value for each row into place `index` of a buffer, such as a cache.

    On torch the buffer itself is written to, so nothing is copied: go on with what is
    returned, and forget what was given. For use while decoding: no gradient flows.

    Args:
        tensor: (B, T, ...).
        index: an integer of at least 0, or a scalar tensor.
        values: (B, ...).

    Returns:
        The buffer (B, T, ...), with the values in it.
    """
    return kernels.write(tensor, index, values)


def draw(chances: Tensor, uniforms: Tensor) -> Tensor:
    """One place of each row, as often as its chance says.

    The first place at which the running sum of the row exceeds u times its total. One
    uniform number a row is all that is drawn, and it can be drawn before a loop.

    Args:
        chances: (B, V), at least 0 and not all 0; they need not sum to one.
        uniforms: u, (B,), in [0, 1).

    Returns:
        int32 (B,). A place whose chance is 0 is never drawn.
    """
    sums = ops.cumsum(chances, axis=-1)  # (B, V)
    # Added up in parallel, a running sum may fall a little: its greatest is the total.
    total = ops.max(sums, axis=-1, keepdims=True)
    beyond = ops.cast(sums > uniforms[:, None] * total, "int32")
    # Rounding may put the first one beyond where there is no chance.
    rank = ops.where(chances > 0, 1 + beyond, ops.zeros_like(beyond))
    return ops.cast(ops.argmax(rank, axis=-1), "int32")


def nucleus(chances: Tensor, p: float) -> Tensor:
    """The fewest of the greatest chances whose sum reaches p; the others become 0.

    Nothing is sorted: how great a chance must be is found by halving, to a millionth of
    the greatest one. What is equal to within that stays or goes together.

    Args:
        chances: (B, V) probabilities, in any order.
        p: in (0, 1].

    Returns:
        (B, V); the greatest of each row is always left, and all where they do not
        reach p.

    Reference:
        Holtzman et al., "The curious case of neural text degeneration" (2020),
        section 3.1.
    """
    low = ops.zeros_like(chances[:, :1])  # (B, 1): whose sum reaches p
    high = 2 * ops.max(chances, axis=-1, keepdims=True)  # (B, 1): whose does not
    for _ in range(21):
        middle = (low + high) / 2
        inside = ops.where(chances >= middle, chances, ops.zeros_like(chances))
        reached = ops.sum(inside, axis=-1, keepdims=True) >= p
        low = ops.where(reached, middle, low)
        high = ops.where(reached, high, middle)
    return ops.where(chances >= low, chances, ops.zeros_like(chances))


def length_penalty(length: Tensor, alpha: float) -> Tensor:
    """((5 + |y|) / 6)^α, by which the log-probability of a sequence is divided.

    Args:
        length: |y|, integers of any shape.
        alpha: α; 0 leaves log-probabilities as they are, 1 nearly averages them.

    Returns:
        float32, of the shape of the lengths.

    Reference:
        Wu et al., "Google's neural machine translation system" (2016), equation 14.
    """
    return ops.power((5.0 + ops.cast(length, "float32")) / 6.0, alpha)


def coverage_penalty(alignment_sum: Tensor, beta: float) -> Tensor:
    """β Σ_s log(min(Σ_t α_ts, 1)): at most 0, low where much was never attended to.

    Args:
        alignment_sum: Σ_t α_ts, what each key has got of all queries, (..., S). What is
            below `keras.config.epsilon()`, as a sparse attention leaves it, counts as
            that. It should be 1 or more for keys that are padding.
        beta: β.

    Returns:
        float32 (...), to be added to the log-probability of a sequence.

    Reference:
        Wu et al., "Google's neural machine translation system" (2016), equation 14.
    """
    covered = ops.cast(alignment_sum, "float32")
    covered = ops.clip(covered, keras.config.epsilon(), 1.0)
    return beta * ops.sum(ops.log(covered), axis=-1)


def check_tokens(name: str, tokens: Any, size: int | None) -> None:
    """Raises a ValueError unless every token is one of the vocabulary.

    Args:
        name: what the argument is called.
        tokens: an integer, integers, or None.
        size: V, or None where it is not known.
    """
    if tokens is None or size is None:
        return
    found: list[Any] = [tokens] if np.ndim(tokens) == 0 else list(tokens)
    if not all(int(token) == token and 0 <= token < size for token in found):
        raise ValueError(
            f"`{name}` must be of the vocabulary, at least 0 and below its size. "
            f"Received: {name}={tokens!r}, a vocabulary of {size}"
        )


def check_max_length(max_length: int, prompt_length: int) -> None:
    """Raises a ValueError if what is to be generated ends before its prompt does."""
    if max_length < prompt_length:
        raise ValueError(
            "`max_length` counts the prompt, too, and must not be below its length. "
            f"Received: max_length={max_length}, a prompt of {prompt_length} tokens"
        )


def bucket(size: int, step: int = 16) -> int:
    """The length to pad to: the next multiple of 16, of 32 above 128, of 64 above 256 …

    A compiled function is compiled anew for each length that it meets. Padded to these,
    it meets few, and from 64 on less than a quarter of what it works on is padding.
    """
    while size > 8 * step:
        step *= 2
    return -(-size // step) * step


class Prompt(NamedTuple):
    """Tokens to go on from, padded to the length of a bucket."""

    tokens: np.ndarray  # (B, T) int32
    mask: np.ndarray  # (B, T), True where a token is given
    start: int  # the first place at which a row has no token


def open_prompt(
    tokens: Any, max_length: int, mask: Any = None, padding_token: int = 0
) -> Prompt:
    """Makes room behind a prompt, in NumPy, for what is to be generated.

    Args:
        tokens: integers (B, ·), at least one a row.
        max_length: how many tokens a row may have in the end, its prompt included.
        mask: booleans (B, ·), True where a token is given, from the first place on; by
            default all are.
        padding_token: what stands where nothing is given.

    Returns:
        A `Prompt` of length `bucket(max_length)`.

    Raises:
        ValueError: if shapes do not fit, a row is empty, or the prompt is longer than
            `max_length`.
    """
    tokens = np.asarray(tokens)
    mask = np.ones(tokens.shape, "bool") if mask is None else np.asarray(mask, "bool")
    if tokens.ndim != 2 or mask.shape != tokens.shape:
        raise ValueError(
            "`prompt` must have shape (batch, length), and its mask the same. "
            f"Received: prompt.shape={tokens.shape}, mask.shape={mask.shape}"
        )
    given = mask.sum(1)
    if not given.size or given.min() < 1:
        raise ValueError(
            "`prompt` must hold a token for each row, such as a start token. "
            f"Received: prompt.shape={tokens.shape}, rows of {given.tolist()} tokens"
        )
    length = int(np.flatnonzero(mask.any(0))[-1]) + 1
    check_max_length(max_length, length)
    tokens = np.where(mask, tokens, padding_token)[:, :length].astype("int32")
    room = ((0, 0), (0, bucket(max_length) - length))
    return Prompt(
        np.pad(tokens, room, constant_values=padding_token),
        np.pad(mask[:, :length], room),
        int(given.min()),
    )


class CompiledFunctions:
    """Functions of a model's weights, compiled once for each shape, and kept.

    A model that generates makes one of these in its constructor, and runs through it
    what works on its weights step by step:

        self.compiled = CompiledFunctions(self)
        …
        tokens = self.compiled(("decode", sampler.key), decode, prompt, encoded)

    The weights are read anew at each call, so that what is trained meanwhile counts. A
    function is compiled again if the owner's variables are no longer the same ones, or
    its `run_eagerly` or `jit_compile` changed. `clear` forgets all; a model's own
    `compile` is a good place for it. A model loaded from a file starts with none.

    Args:
        owner: the layer or model whose variables the functions use.
        most: how many functions are kept; the one compiled first goes first.

    Example:

    >>> import keras
    >>> import numpy as np
    >>> from keras_attention.ops.sequence.decoding import CompiledFunctions
    >>> layer = keras.layers.Dense(1, use_bias=False, kernel_initializer="ones")
    >>> layer.build((None, 2))
    >>> compiled = CompiledFunctions(layer)
    >>> x = np.ones((1, 2), "float32")
    >>> np.asarray(compiled("call", layer, x)).tolist()
    [[2.0]]
    >>> layer.set_weights([np.array([[3.0], [4.0]])])
    >>> np.asarray(compiled("call", layer, x)).tolist()
    [[7.0]]
    """

    def __init__(self, owner: keras.layers.Layer, most: int = 16) -> None:
        self.owner = owner
        self.most = most
        self._kept: dict[Hashable, tuple[list, Callable]] = {}

    def __call__(
        self,
        key: Hashable,
        function: Callable[..., Structure],
        *args: Structure,
        variables: Sequence[Any] = (),
    ) -> Structure:
        """Runs `function(*args)`, compiled.

        Args:
            key: names what the function does. All that decides on it and is not in
                `args` or a variable belongs into the key: of the functions given with
                equal keys, the first is compiled and runs for all.
            function: of structures of tensors. Numbers come as tensors on JAX and
                TensorFlow, and as they are on torch and NumPy. Python's own decisions
                in it are taken once, while it is compiled. On torch only the steps of
                `generate` are compiled: they are recorded.
            *args: structures of arrays, tensors, numbers and None; one compilation for
                each of their shapes and dtypes, and on torch of the numbers.
            variables: variables that the function uses and the owner does not have,
                such as those of a sampler.

        Returns:
            What the function returns, a structure of tensors.
        """
        eager = bool(getattr(self.owner, "run_eagerly", False))
        xla = bool(getattr(self.owner, "jit_compile", False))
        used = [*self.owner.variables, *variables]
        kept = self._kept.get((key, eager, xla))
        if kept is None or not _same(kept[0], used):
            compile_ = kernels.uncompiled if eager else kernels.compiled
            self._kept.pop((key, eager, xla), None)
            kept = used, compile_(function, used, xla)
            self._kept[key, eager, xla] = kept
            if len(self._kept) > self.most:
                del self._kept[next(iter(self._kept))]
        return kept[1](*args)

    def clear(self) -> None:
        """Forgets what was compiled."""
        self._kept.clear()


def _same(ours: list, theirs: list) -> bool:
    return len(ours) == len(theirs) and all(a is b for a, b in zip(ours, theirs))
