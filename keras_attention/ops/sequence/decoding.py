"""Decoding: a loop with early stopping, operations of samplers, and compilation.

Unlike :func:`keras_attention.ops.sequence.loop.scan`, this loop collects no outputs and
is not differentiable.

Shapes: B batch, T tokens, V words of the vocabulary, S keys.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence, Set
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
    """Repeats `step` for the indices from `start` to `stop` − 1, or until `done`.

        while index < stop and not done(state):
            state = step(index, state)
            index = index + 1

    Inside a compiled function on JAX and TensorFlow, this is a single loop operation.
    On torch and NumPy, it is a Python loop with an integer index. Inside
    `CompiledFunctions`, torch traces the operations of the first step and replays
    them; the index is then a tensor. A traced step may close over weights. Other
    tensors belong in the state. A step that closes over another tensor or reads the
    value of a tensor is not replayed. On an accelerator, torch evaluates `done` only
    every few steps, because each check blocks Python. A step after the end must
    therefore not change the result. Sample random numbers before the loop, not inside
    it.

    Args:
        step: f(index, state) that returns the next state, of the same structure, shapes
            and dtypes.
        state: the first state, a structure of tensors.
        start: the first index, an integer or a scalar tensor.
        stop: the index after the last one, an integer or a scalar tensor.
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
    """Reads the values (B, ...) at `index` of a buffer (B, T, ...).

    Args:
        tensor: (B, T, ...).
        index: an integer of at least 0, or a scalar tensor.
    """
    return kernels.read(tensor, index)


def write(tensor: Tensor, index: Any, values: Tensor) -> Tensor:
    """Writes one value per row at `index` of a buffer, such as a cache.

    Torch modifies the buffer in place, without a copy. Use the returned tensor and
    discard the argument. Use this function only for decoding, because no gradient
    flows.

    Args:
        tensor: (B, T, ...).
        index: an integer of at least 0, or a scalar tensor.
        values: (B, ...).

    Returns:
        The updated buffer (B, T, ...).
    """
    return kernels.write(tensor, index, values)


def draw(probabilities: Tensor, uniforms: Tensor) -> Tensor:
    """Samples one index per row with the given probabilities.

    Returns the first index at which the cumulative sum of the row exceeds u times its
    total. It needs one uniform number per row, which can be sampled before a loop.

    Args:
        probabilities: (B, V), at least 0 and not all 0; they need not sum to one.
        uniforms: u, (B,), in [0, 1).

    Returns:
        int32 (B,). An index with probability 0 is never sampled.
    """
    sums = ops.cumsum(probabilities, axis=-1)  # (B, V)
    # A parallel cumulative sum may decrease slightly, so its maximum is the total.
    total = ops.max(sums, axis=-1, keepdims=True)
    beyond = ops.cast(sums > uniforms[:, None] * total, "int32")
    # Rounding may select an index with probability 0.
    rank = ops.where(probabilities > 0, 1 + beyond, ops.zeros_like(beyond))
    return ops.cast(ops.argmax(rank, axis=-1), "int32")


def nucleus(probabilities: Tensor, p: float) -> Tensor:
    """Keeps the fewest probabilities with a sum of at least p; sets the others to 0.

    The threshold is found by bisection instead of sorting, with a precision of a
    millionth of the largest probability. Values that are equal within this precision
    are kept or removed together.

    Args:
        probabilities: (B, V), in any order.
        p: in (0, 1].

    Returns:
        (B, V). The largest value of each row is always kept. All values are kept if
        their sum is below p.

    Reference:
        Holtzman et al., "The curious case of neural text degeneration" (2020),
        section 3.1.
    """
    low = ops.zeros_like(probabilities[:, :1])  # (B, 1): the sum reaches p
    high = 2 * ops.max(probabilities, axis=-1, keepdims=True)  # the sum does not
    zeros = ops.zeros_like(probabilities)
    for _ in range(21):
        middle = (low + high) / 2
        inside = ops.where(probabilities >= middle, probabilities, zeros)
        reached = ops.sum(inside, axis=-1, keepdims=True) >= p
        low = ops.where(reached, middle, low)
        high = ops.where(reached, high, middle)
    return ops.where(probabilities >= low, probabilities, zeros)


def length_penalty(length: Tensor, alpha: float) -> Tensor:
    """Computes ((5 + |y|) / 6)^α, the divisor of a sequence's log-probability.

    Args:
        length: |y|, integers of any shape.
        alpha: α; 0 has no effect, 1 is close to an average over tokens.

    Returns:
        float32, in the shape of the lengths.

    Reference:
        Wu et al., "Google's neural machine translation system" (2016), equation 14.
    """
    return ops.power((5.0 + ops.cast(length, "float32")) / 6.0, alpha)


def coverage_penalty(alignment_sum: Tensor, beta: float) -> Tensor:
    """Computes β Σ_s log(min(Σ_t α_ts, 1)), a penalty for keys with little attention.

    Args:
        alignment_sum: Σ_t α_ts, the sum of the weights of each key over all queries,
            (..., S). It is clipped to at least `keras.config.epsilon()`, because sparse
            attention may give a sum of 0. Set the sum to 1 or more for padding keys.
        beta: β.

    Returns:
        float32 (...), at most 0, to add to the log-probability of a sequence.

    Reference:
        Wu et al., "Google's neural machine translation system" (2016), equation 14.
    """
    covered = ops.cast(alignment_sum, "float32")
    covered = ops.clip(covered, keras.config.epsilon(), 1.0)
    return beta * ops.sum(ops.log(covered), axis=-1)


def check_tokens(name: str, tokens: Any, size: int | None) -> tuple[int, ...]:
    """Returns tokens as a tuple; raises a ValueError unless all are in the vocabulary.

    Args:
        name: the name of the argument.
        tokens: an integer; integers, in any collection, array or tensor; or None.
        size: V, or None if unknown.
    """
    if tokens is None:
        return ()
    listed = [*tokens] if isinstance(tokens, (Set, Iterator)) else tokens
    ids = np.atleast_1d(np.asarray(ops.convert_to_numpy(listed)))
    integers = ids.ndim == 1 and (ids.dtype.kind in "iu" or not ids.size)
    if not integers or any(ids < 0) or (size is not None and any(ids >= size)):
        raise ValueError(
            f"`{name}` must be of the vocabulary, integers of at least 0 and below its "
            f"size. Received: {name}={tokens!r}, a vocabulary of {size or 'any size'}"
        )
    return tuple(ids.tolist())


def check_max_length(max_length: int, prompt_length: int) -> None:
    """Raises a ValueError if the maximum length is below the length of the prompt."""
    if max_length < prompt_length:
        raise ValueError(
            "`max_length` includes the prompt, and must not be below its length. "
            f"Received: max_length={max_length}, a prompt of {prompt_length} tokens"
        )


def bucket(size: int, step: int = 16) -> int:
    """Returns the padded length, a multiple of 16 (32 above 128, 64 above 256, etc.).

    A compiled function is recompiled for each new length. Buckets limit the number of
    lengths. For sizes of 64 or more, less than a quarter of the length is padding.
    """
    while size > 8 * step:
        step *= 2
    return -(-size // step) * step


class Prompt(NamedTuple):
    """Tokens to continue, padded to the length of a bucket."""

    tokens: np.ndarray  # (B, T) int32
    mask: np.ndarray  # (B, T), True for given tokens
    start: int  # the first position at which a row has no token


def open_prompt(
    tokens: Any, max_length: int, mask: Any = None, padding_token: int = 0
) -> Prompt:
    """Pads a prompt in NumPy, with space for the generated tokens.

    Args:
        tokens: integers (B, ·), at least one per row.
        max_length: the maximum number of tokens per row, including the prompt.
        mask: booleans (B, ·), True for given tokens, which start at the first position;
            by default, all tokens are given.
        padding_token: the token for all other positions.

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
    lengths = mask.sum(1)
    if not lengths.size or lengths.min() < 1:
        raise ValueError(
            "`prompt` must hold a token for each row, such as a start token. "
            f"Received: prompt.shape={tokens.shape}, rows of {lengths.tolist()} tokens"
        )
    length = int(np.flatnonzero(mask.any(0))[-1]) + 1
    check_max_length(max_length, length)
    tokens = np.where(mask, tokens, padding_token)[:, :length].astype("int32")
    room = ((0, 0), (0, bucket(max_length) - length))
    return Prompt(
        np.pad(tokens, room, constant_values=padding_token),
        np.pad(mask[:, :length], room),
        int(lengths.min()),
    )


class CompiledFunctions:
    """A cache of functions that use a model's weights, each compiled once per shape.

    A generating model creates an instance in its constructor and runs its step-by-step
    functions through it:

        self.compiled = CompiledFunctions(self)
        …
        tokens = self.compiled(("decode", sampler.key), decode, prompt, encoded)

    Each call reads the current weights, so training between calls takes effect. A
    function is recompiled if the owner's variables are replaced (on torch, also their
    `.data`), its `run_eagerly` or `jit_compile` changes, or an attribute of its layers
    or an item of one is set (see `kernels.State`). A change by the call itself, and of
    other Python values (globals, closures, items of arrays), has no effect. `clear`
    empties the cache. The cache of a loaded model is empty.

    Args:
        owner: the layer or model whose variables the functions use.
        most: the maximum number of cached functions; the oldest one is removed first.

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
        self._functions: dict[Hashable, tuple[Any, Any]] = {}

    def __call__(
        self,
        key: Hashable,
        function: Callable[..., Structure],
        *args: Structure,
        variables: Sequence[Any] = (),
        objects: Sequence[Any] = (),
    ) -> Structure:
        """Runs `function(*args)` in compiled form.

        Args:
            key: identifies the behaviour of the function. It must contain everything
                that affects the function, except `args` and variables: if several
                functions have equal keys, only the first is compiled and used.
            function: a function of structures of tensors. Numbers become tensors on JAX
                and TensorFlow and stay numbers on torch and NumPy. Python branches are
                evaluated once, during compilation. Torch only replays the steps of
                `generate`.
            *args: structures of arrays, tensors, numbers and None. The function is
                compiled once for each combination of shapes and dtypes (on torch, also
                of numbers).
            variables: further variables of the function that the owner does not have,
                such as the variables of a sampler.
            objects: further objects whose attributes the function reads.

        Returns:
            The result of the function, a structure of tensors.
        """
        eager = bool(getattr(self.owner, "run_eagerly", False))
        xla = bool(getattr(self.owner, "jit_compile", False))
        name = (key, eager, xla, *map(id, variables))

        def now() -> kernels.State:
            return kernels.State([*self.owner._flatten_layers(), *objects], variables)

        state, run = self._functions.get(name, (None, None))
        if state is None or not state.is_current():
            state = now()
            compiles = state.is_current() and not eager  # not with a hook of torch
            compile_ = kernels.compiled if compiles else kernels.uncompiled
            run = compile_(function, state.variables, xla)
            self._functions.pop(name, None)
            self._functions[name] = state, run
            if len(self._functions) > self.most:
                del self._functions[next(iter(self._functions))]
        output = run(*args)
        if not state.is_current():  # the call set attributes itself
            self._functions[name] = after, _ = now(), run
            if [*map(id, after.variables)] != [*map(id, state.variables)]:
                del self._functions[name]
        return output

    def clear(self) -> None:
        """Removes all compiled functions."""
        self._functions.clear()
