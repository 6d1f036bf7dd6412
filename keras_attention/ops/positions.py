"""Position encodings for sums and sets, which have no order of their own.

Beside positions in a sequence, these are the positions of the words in a sentence and
the ages of the sentences in a story.

Shapes: B batch, T queries, S keys, H heads, E width of a head, M memory slots, L words,
D width, V words of a vocabulary.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from keras import ops

from keras_attention import kernels
from keras_attention.numerics.precision import to_float32

Tensor = Any
Array = np.ndarray

ENCODINGS = ("position", "centered_position")  # of the words in a sentence


def sinusoid(position: Tensor, width: int, max_wavelength: float = 1e4) -> Tensor:
    """Computes the sinusoidal position encoding of the Transformer in float32.

        PE(p, 2i) = sin(p / m^(2i/d)),   PE(p, 2i + 1) = cos(p / m^(2i/d))

    Args:
        position: p, numbers (...).
        width: d, even or odd; an odd width ends in a sine without a cosine.
        max_wavelength: m.

    Returns:
        (..., d), float32, because half precision would round positions above 256. The
        error is below 2e-6 for integer positions up to 2²³.

    Reference:
        Vaswani et al., "Attention is all you need" (2017), section 3.5.
    """
    pairs = 2 * (np.arange(width) // 2)
    rates = float(max_wavelength) ** (-pairs / width)
    angle = _angle(ops.expand_dims(ops.cast(position, "float32"), -1), rates)
    odd = ops.convert_to_tensor(np.arange(width) % 2 == 1)
    return ops.where(odd, ops.cos(angle), ops.sin(angle))


def coordinates(
    position: Tensor, step: Tensor, width: int, max_wavelength: float = 1e4
) -> Tensor:
    """Computes the coordinate embedding of a Universal Transformer in float32.

        P(i, t) = PE(i) + PE(t)

    PE is the position encoding of :func:`sinusoid`, i is a position in the sequence and
    t is a step of the recurrence over depth.

    Args:
        position: i, numbers (...).
        step: t, numbers that broadcast against `position`.
        width: d.
        max_wavelength: m.

    Returns:
        (..., d), float32.

    Reference:
        Dehghani et al., "Universal Transformers" (2019), equations 6 and 7.
    """
    waves = (sinusoid(x, width, max_wavelength) for x in (position, step))
    return next(waves) + next(waves)


def rotary_rates(width: int, max_wavelength: float = 1e4, factor: float = 1.0) -> Array:
    """Computes the rotation rate of each rotary pair: m^(−2i/E) / factor.

    Args:
        width: E, the width of a head, even.
        max_wavelength: m.
        factor: the factor by which the context is extended beyond training; all rates
            are divided by it (linear scaling).

    Returns:
        float64 (E/2,), a NumPy array.

    Raises:
        ValueError: if the width is odd.

    Reference:
        Su et al., "RoFormer" (2021), section 3.2.2; linear scaling: Chen et al.,
        "Extending context window of large language models via positional
        interpolation" (2023).
    """
    if width % 2:
        raise ValueError(
            "A rotary embedding rotates pairs: `width` (the `key_dim` of an attention) "
            f"must be even. Received: width={width}"
        )
    return float(max_wavelength) ** (-2 * np.arange(width // 2) / width) / factor


def yarn_rates(
    width: int,
    max_wavelength: float,
    factor: float,
    original_length: int,
    fast: float = 32.0,
    slow: float = 1.0,
) -> Array:
    """Computes the rotation rate of each rotary pair by YaRN.

    A pair that turns more than `fast` times within the original length keeps its rate.
    For a pair that turns less than `slow` times, the rate is divided by `factor`. For
    pairs in between, the change follows a linear ramp over the pair index.

    Args:
        width: E, the width of a head, even.
        max_wavelength: m.
        factor: the factor by which the context is extended.
        original_length: the length in training.
        fast: β of the paper.
        slow: α of the paper.

    Returns:
        float64 (E/2,), a NumPy array.

    Raises:
        ValueError: if the width is odd.

    Reference:
        Peng et al., "YaRN: efficient context window extension of large language
        models" (2023), section 3.2, with the ramp of its authors' code.
    """
    rates = rotary_rates(width, max_wavelength)

    def pair(turns: float) -> float:  # index of the pair with this many turns
        waves = np.log(original_length / (turns * 2 * np.pi))
        return width * waves / (2 * np.log(max_wavelength))

    low = max(np.floor(pair(fast)), 0)
    high = min(np.ceil(pair(slow)), width - 1)
    ramp = (np.arange(width // 2) - low) / max(high - low, 1e-3)
    share = 1 - np.clip(ramp, 0, 1)  # of the old rate
    return rates * share + rates / factor * (1 - share)


def rotate(
    x: Tensor,
    position: Tensor,
    rates: Array,
    amplitude: float = 1.0,
    interleaved: bool = False,
) -> Tensor:
    """Rotates pairs of features by angles proportional to the position.

    The dot product of a query at p and a key at r then depends only on p − r.

    Args:
        x: (..., T, H, E).
        position: numbers (T,), or (B, T).
        rates: (E/2,), from :func:`rotary_rates` or :func:`yarn_rates`.
        amplitude: a factor for the result.
        interleaved: whether neighbouring features form a pair, as in the paper.
            Otherwise feature i is paired with feature i + E/2, as in most published
            weights.

    Returns:
        (..., T, H, E), in the dtype of x. Sines and cosines are computed in float32;
        their error is below 2e-6 for integer positions up to 2²³.

    Reference:
        Su et al., "RoFormer" (2021), equation 34.
    """
    position = ops.expand_dims(ops.cast(position, "float32"), (-2, -1))
    angle = _angle(position, rates)  # (T, 1, E/2)
    z = to_float32(x)
    cos, sin = (
        ops.cast(wave(angle) * amplitude, z.dtype) for wave in (ops.cos, ops.sin)
    )
    half = x.shape[-1] // 2
    if interleaved:
        first, second = z[..., 0::2], z[..., 1::2]
    else:
        first, second = z[..., :half], z[..., half:]
    turned = (first * cos - second * sin, second * cos + first * sin)
    if interleaved:
        pairs = ops.stack(turned, axis=-1)  # (..., T, H, E/2, 2)
        out = ops.reshape(pairs, (*ops.shape(x)[:-1], x.shape[-1]))
    else:
        out = ops.concatenate(turned, axis=-1)
    return ops.cast(out, x.dtype)  # (..., T, H, E)


def _angle(position: Tensor, rates: Array) -> Tensor:
    """Computes position · rates modulo 2π without the rounding of large products.

    With p = 2048 a + b and the frequency f = rates / 2π, the number of turns is
    a · (2048 f) + b · f. Whole turns do not count and a is an integer, so 2048 f is
    reduced to its fraction. Each factor is split into a multiple of 2⁻¹¹, whose product
    with a or b is exact in float32 if f < 1 and b is an integer, and a small rest. The
    result (..., n) is between −π and π up to rounding.
    """
    frequency = np.asarray(rates, "float64") / (2 * np.pi)
    high = ops.floor(position / 2048)
    low = position - 2048 * high
    turns, small = 0.0, 0.0
    for part, factor in ((high, 2048 * frequency % 1), (low, frequency)):
        coarse = np.floor(factor * 2048) / 2048
        turns = turns + part * ops.convert_to_tensor(coarse, "float32")
        small = small + part * ops.convert_to_tensor(factor - coarse, "float32")
    turns = turns - ops.round(turns) + small
    return (turns - ops.round(turns)) * (2 * np.pi)


def alibi_slopes(heads: int) -> Array:
    """Computes the ALiBi slope of each head: 2^(−8h/H) for h = 1 … H.

    If H is not a power of two, let P be the largest power of two below H. The slopes
    for P heads come first, followed by every other slope for 2P heads.

    Args:
        heads: H.

    Returns:
        float64 (H,), a NumPy array.

    Reference:
        Press et al., "Train short, test long" (2022), section 3 and its code.
    """

    def of(count: int) -> Array:
        return 2.0 ** (-8 * np.arange(1, count + 1) / count)

    power = 2 ** int(np.log2(heads))
    return np.concatenate([of(power), of(2 * power)[0::2][: heads - power]])


def relative_buckets(
    distance: Tensor,
    buckets: int = 32,
    max_distance: int = 128,
    bidirectional: bool = True,
) -> Tensor:
    """Computes T5's bucket of each distance: far distances share buckets.

    Args:
        distance: key position minus query position, integers (...).
        buckets: the number of buckets; half of them per direction if `bidirectional`.
        max_distance: all distances from this one on share the last bucket.
        bidirectional: whether keys after the query have their own buckets. If not, they
            are all in bucket 0.

    Returns:
        Integers (...), from 0 to `buckets` − 1.

    Raises:
        ValueError: if there are too few buckets, or `max_distance` is covered by the
            buckets for single distances.

    Reference:
        Raffel et al., "Exploring the limits of transfer learning with a unified
        text-to-text transformer" (2020), section 2.1, and its code.
    """
    table = ops.convert_to_tensor(bucket_table(buckets, max_distance, bidirectional))
    distance = ops.cast(distance, "int32")
    ahead, behind = 0, ops.maximum(-distance, 0)
    if bidirectional:
        ahead = ops.cast(distance > 0, "int32") * (buckets // 2)
        behind = ops.abs(distance)
    # The table is a column because torch's exporters get lookups in a 1D table wrong.
    column = ops.expand_dims(table, 1)
    bucket = ops.take(column, ops.minimum(behind, max_distance), axis=0)
    return ahead + ops.squeeze(bucket, axis=-1)


@cache
def bucket_table(buckets: int, max_distance: int, bidirectional: bool) -> Array:
    """Computes the buckets of the distances 0 … max_distance in integer arithmetic.

    Let e be the number of buckets for single distances, f the number of other buckets,
    and max the largest distance. Bucket e + k starts at the smallest distance n with f
    log(n/e) / log(max/e) ≥ k. The code uses the equivalent condition nᶠ eᵏ ≥ maxᵏ eᶠ.

    The arguments and errors are those of :func:`relative_buckets`. The result is a
    NumPy array of integers, (max_distance + 1,).
    """
    sides = 2 if bidirectional else 1
    if buckets < 2 * sides or buckets % sides:
        raise ValueError(
            f"`buckets` must be {'even and ' if bidirectional else ''}at least "
            f"{2 * sides}. Received: buckets={buckets}"
        )
    side = buckets // sides
    single = side // 2
    shared = side - single
    if max_distance <= single:
        raise ValueError(
            f"`max_distance` must be greater than {single}, the number of buckets "
            f"for single distances. Received: max_distance={max_distance}"
        )
    starts = [(max_distance**k * single**shared, single**k) for k in range(1, shared)]
    table = [
        n
        if n < single
        else single + sum(n**shared * below >= least for least, below in starts)
        for n in range(max_distance + 1)
    ]
    return np.array(table, "int32")


def sentence_position(
    word: Tensor, words: Tensor, width: int, encoding: str = "position"
) -> Tensor:
    """Computes MemN2N's position encoding: the weight of word j in dimension k.

        position           l_kj = (1 − j/J) − (k/d) (1 − 2j/J)
        centered_position  l_kj = 1 + 4 (k − (d + 1)/2) (j − (J + 1)/2) / (d J)

    with j = 1 … J and k = 1 … d. A sum over words with these weights preserves the word
    order.

    Args:
        word: j, numbers (..., L).
        words: J, the length of the sentence, broadcast against `word`.
        width: d, the width of an embedding.
        encoding: "position", as in the paper, or "centered_position", as in the
            authors' code: the same ramps, about twice as steep, with mean 1.

    Returns:
        (..., L, d), floats.

    Raises:
        ValueError: if the encoding is unknown.

    Reference:
        Sukhbaatar et al., "End-to-end memory networks" (2015), section 4.1.
    """
    constant, ramp, k = _parts(word, words, width, encoding)
    return ops.expand_dims(constant, -1) + ops.expand_dims(ramp, -1) * k  # (..., L, d)


def position_weighted_sum(
    word: Tensor,
    words: Tensor,
    tokens: Tensor,
    table: Tensor,
    encoding: str = "position",
) -> Tensor:
    """Computes Σⱼ lⱼ ∘ A xⱼ without one embedding vector per word.

        l_kj = pⱼ + rⱼ κₖ   ⇒   m = Σⱼ pⱼ A xⱼ + κ ∘ Σⱼ rⱼ A xⱼ

    The encoding has rank 2. On torch, both sums and their gradient store no vector per
    word. On the other backends, the sums are products of the table and weighted word
    counts, (..., V), which is faster for small vocabularies, above all in the backward
    pass: the gradient of an embedding lookup is a scatter.

    The tokens are integers (..., L), and the table is A, (V, d). The other arguments
    and the errors are those of :func:`sentence_position`; a word of padding has j = 0.

    Returns:
        (..., d), in the dtype of the table.

    Reference:
        Sukhbaatar et al., "End-to-end memory networks" (2015), section 4.1.
    """
    constant, ramp, k = _parts(word, words, table.shape[1], encoding)
    is_valid = ops.cast(word > 0, "float32")
    sums = kernels.word_sums(tokens, is_valid * constant, is_valid * ramp, table)
    return sums[0] + ops.cast(k, table.dtype) * sums[1]  # (..., d)


def _parts(
    word: Tensor, words: Tensor, width: int, encoding: str
) -> tuple[Tensor, Tensor, Tensor]:
    """Computes pⱼ and rⱼ, (..., L), and κₖ, (d,), of l_kj = pⱼ + rⱼ κₖ."""
    if encoding not in ENCODINGS:
        raise ValueError(
            f"`encoding` must be one of {list(ENCODINGS)}. "
            f"Received: encoding={encoding!r}"
        )
    word, words = ops.cast(word, "float32"), ops.cast(words, "float32")
    k = ops.arange(1, width + 1, dtype="float32")
    if encoding == "position":
        j = word / words
        return 1 - j, 2 * j - 1, k / width
    ramp = (word - (words + 1) / 2) / words
    return ops.ones_like(word), ramp, 4 * (k / width - (width + 1) / (2 * width))


def age(filled: Tensor) -> Tensor:
    """Computes the age of each memory: 1 for the newest, 0 for an empty slot.

    Args:
        filled: booleans (B, M), True for a slot that holds a memory.

    Returns:
        Integers (B, M).
    """
    filled = ops.cast(filled, "int32")
    after = ops.flip(ops.cumsum(ops.flip(filled, axis=1), axis=1), axis=1)
    return after * filled  # (B, M)


def segment_offsets(segment_ids: Tensor) -> Tensor:
    """Computes what to add to positions 0, 1, … so that they restart in each text.

    The segment ids (B, T) are equal in a text, and different in the next. The id 0 is
    padding, which gets position 0 everywhere. Returns int32 (B, T), minus the index of
    the first token of the text.
    """
    ids = ops.cast(segment_ids, "int32")
    index = ops.cumsum(ops.ones_like(ids), axis=1) - 1  # 0 … T − 1
    previous = ops.pad(ids[:, :-1], ((0, 0), (1, 0)), constant_values=-1)
    is_first = ops.not_equal(ids, previous)
    # The n-th text starts at the n-th smallest of these indices.
    starts = ops.sort(ops.where(is_first, index, 2**30), axis=1)
    text = ops.cumsum(ops.cast(is_first, "int32"), axis=1) - 1
    start = ops.take_along_axis(starts, text, axis=1)
    return -ops.where(ids > 0, start, index)


def insert_gaps(age: Tensor, draws: Tensor, rate: float) -> Tensor:
    """Computes the ages after random time noise, which inserts empty memories.

    A story of n facts receives u empty memories at random positions, with u sampled
    from 0 … ⌈rate·n⌉. The facts keep their order and none is dropped.

    Args:
        age: integers (B, M): 1 … n for the facts of a story, 0 for empty slots.
        draws: numbers between 0 and 1, (B, 1 + M + ⌈rate·M⌉). The first number
            determines how many empty memories are inserted, the others determine where.
        rate: the maximum number of empty memories, as a fraction of n.

    Returns:
        Integers (B, M), each at least as large as the original age.

    Reference:
        Sukhbaatar et al., "End-to-end memory networks" (2015), section 4.1, "Learning
        time invariance by injecting random noise".
    """
    facts = ops.cast(ops.max(age, axis=1, keepdims=True), "float32")  # n, (B, 1)
    # In float32, rate·n may exceed an exact integer by a rounding error.
    most = ops.ceil(rate * (1 - 1e-6) * facts)
    blanks = ops.floor(draws[:, :1] * (most + 1))  # u, (B, 1)
    priorities = draws[:, 1:]  # (B, P), P places
    places = ops.cumsum(ops.ones_like(priorities), axis=1)  # 1 … P
    priorities = ops.where(places <= facts + blanks, priorities, 2.0)
    # The facts occupy the n positions with the lowest numbers. Sorting takes memory
    # proportional to P, comparisons of all pairs would take P².
    count = ops.cast(facts, "int32")
    ordered = ops.sort(priorities, axis=1)
    last = ops.take_along_axis(ordered, ops.maximum(count - 1, 0), axis=1)
    taken = ops.logical_and(priorities <= last, count > 0)  # (B, P)
    # The a-th fact is at the a-th of these positions.
    numbers = ops.cast(ops.where(taken, places, 2.0**30), "int32")
    numbers = ops.sort(numbers, axis=1)
    moved = ops.take_along_axis(numbers, ops.maximum(age - 1, 0), axis=1)  # (B, M)
    return ops.where(age > 0, moved, 0)
