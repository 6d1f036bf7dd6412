"""Positions: what a sum over words or a set of memories would lose.

Shapes: B batch, T queries, S keys, H heads, E width of a head, M memory slots, L words,
D width.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from keras import ops

from keras_attention import kernels
from keras_attention.numerics.precision import wide

Tensor = Any
Array = np.ndarray

ENCODINGS = ("position", "centered_position")


def sentence_position(
    word: Tensor, words: Tensor, width: int, encoding: str = "position"
) -> Tensor:
    """The position encoding of MemN2N: how much word j counts in dimension k.

        position           l_kj = (1 − j/J) − (k/d) (1 − 2j/J)
        centered_position  l_kj = 1 + 4 (k − (d + 1)/2) (j − (J + 1)/2) / (d J)

    with j = 1 … J and k = 1 … d. Summed over words with these weights, a sentence keeps
    the order of its words.

    Args:
        word: j, numbers (..., L).
        words: J, the length of the sentence, broadcast against `word`.
        width: d, the width of an embedding.
        encoding: "position", as in the paper, or "centered_position", as in its
            authors' code: the same ramps about twice as high, and mean 1.

    Returns:
        (..., L, d), floats.

    Raises:
        ValueError: if there is no such encoding.

    Reference:
        Sukhbaatar et al., "End-to-end memory networks" (2015), section 4.1.
    """
    constant, ramp, k = _parts(word, words, width, encoding)
    return constant[..., None] + ramp[..., None] * k  # (..., L, d)


def position_weighted_sum(
    word: Tensor,
    words: Tensor,
    tokens: Tensor,
    table: Tensor,
    encoding: str = "position",
) -> Tensor:
    """Σⱼ lⱼ ∘ A xⱼ without an embedding for each word: the encoding has rank 2.

        l_kj = pⱼ + rⱼ κₖ   ⇒   m = C₁ A + κ ∘ C₂ A,   C₁ = Σⱼ pⱼ xⱼ,   C₂ = Σⱼ rⱼ xⱼ

    C₁ and C₂ are counts of words, (..., V), so that the sum and its gradient are
    products of matrices. That pays where the vocabulary is small, and above all in
    the gradient: that of looking up every word is a scatter.

    Args:
        word: j, numbers (..., L), 0 where there is no word.
        words: J, broadcast against `word`.
        tokens: integers (..., L).
        table: A, (V, d).
        encoding: as in `sentence_position`.

    Returns:
        (..., d), in the dtype of the table.

    Raises:
        ValueError: if there is no such encoding.

    Reference:
        Sukhbaatar et al., "End-to-end memory networks" (2015), section 4.1.
    """
    size, width = table.shape
    constant, ramp, k = _parts(word, words, width, encoding)
    is_valid = ops.cast(word > 0, "float32")
    c_1 = kernels.word_counts(tokens, is_valid * constant, size)  # (..., V)
    c_2 = kernels.word_counts(tokens, is_valid * ramp, size)
    c_1, c_2, k = (ops.cast(x, table.dtype) for x in (c_1, c_2, k))
    return ops.matmul(c_1, table) + k * ops.matmul(c_2, table)  # (..., d)


def _parts(
    word: Tensor, words: Tensor, width: int, encoding: str
) -> tuple[Tensor, Tensor, Tensor]:
    """pⱼ and rⱼ, (..., L), and κₖ, (d,), of l_kj = pⱼ + rⱼ κₖ."""
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
    constant = ops.ones_like(word)
    return (
        constant,
        (word - (words + 1) / 2) / words,
        4 * (k / width - (width + 1) / (2 * width)),
    )


def age(filled: Tensor) -> Tensor:
    """How far back a memory lies: 1 for the last one written, 0 for an empty slot.

    Args:
        filled: booleans (B, M), True where a slot holds something.

    Returns:
        Integers (B, M).
    """
    filled = ops.cast(filled, "int32")
    after = ops.flip(ops.cumsum(ops.flip(filled, axis=1), axis=1), axis=1)
    return after * filled  # (B, M)


def gaps(age: Tensor, draws: Tensor, rate: float) -> Tensor:
    """Random noise in time: ages as if empty memories had been slipped in between.

    A story of n facts is given u empty memories, u drawn from 0 … ⌈rate·n⌉, at
    places drawn among the n + u; the facts keep their order and none is dropped.

    Args:
        age: integers (B, M): 1 … n for the facts of a story, 0 for empty slots.
        draws: numbers between 0 and 1, (B, 1 + M + ⌈rate·M⌉). The first decides how
            many empty memories there are, the others where.
        rate: how many there may be at most, as a part of n.

    Returns:
        Integers (B, M), each at least as large as the age it replaces.

    Reference:
        Sukhbaatar et al., "End-to-end memory networks" (2015), section 4.1, "Learning
        time invariance by injecting random noise".
    """
    facts = ops.cast(ops.max(age, axis=1, keepdims=True), "float32")  # n, (B, 1)
    # In float32, rate·n may lie a rounding above the whole number that it is.
    most = ops.ceil(rate * (1 - 1e-6) * facts)
    blanks = ops.floor(draws[:, :1] * (most + 1))  # u, (B, 1)
    lots = draws[:, 1:]  # (B, P), P places
    places = ops.cumsum(ops.ones_like(lots), axis=1)  # 1 … P
    lots = ops.where(places <= facts + blanks, lots, 2.0)
    # The facts take the places of the n lowest lots; a rank counts the lower ones.
    rank = ops.sum(ops.cast(lots[:, :, None] > lots[:, None, :], "float32"), axis=2)
    taken = ops.cast(rank < facts, "float32")  # (B, P)
    # The a-th fact sits behind every place at which fewer than a are taken.
    before = ops.cumsum(taken, axis=1)[:, None, :] < ops.cast(age, "float32")[..., None]
    moved = 1 + ops.sum(ops.cast(before, "int32"), axis=2)  # (B, M)
    return ops.where(age > 0, moved, 0)


def sinusoid(position: Tensor, width: int, max_wavelength: float = 1e4) -> Tensor:
    """The sine and cosine waves of the Transformer, in float32.

        PE(p, 2i) = sin(p / m^(2i/d)),   PE(p, 2i + 1) = cos(p / m^(2i/d))

    Args:
        position: p, numbers (...).
        width: d, which may be odd; the last wave is then a sine alone.
        max_wavelength: m.

    Returns:
        (..., d), float32: in half precision a position above 256 would already be
        rounded before its sine is taken.

    Reference:
        Vaswani et al., "Attention is all you need" (2017), section 3.5.
    """
    pairs = 2 * (np.arange(width) // 2)
    rate = ops.convert_to_tensor(float(max_wavelength) ** (-pairs / width), "float32")
    angle = ops.expand_dims(ops.cast(position, "float32"), -1) * rate  # (..., d)
    odd = ops.convert_to_tensor(np.arange(width) % 2 == 1)
    return ops.where(odd, ops.cos(angle), ops.sin(angle))


def rotary_rates(width: int, max_wavelength: float = 1e4, factor: float = 1.0) -> Array:
    """How fast each pair of a rotary embedding turns: m^(−2i/E) / factor.

    Args:
        width: E, the width of a head, even.
        max_wavelength: m.
        factor: how many times further the positions are to reach than in training;
            all are divided by it (linear scaling).

    Returns:
        Float64 numbers (E/2,), a NumPy array.

    Raises:
        ValueError: if the width is odd.

    Reference:
        Su et al., "RoFormer" (2021), section 3.2.2; linear scaling: Chen et al.,
        "Extending context window of large language models via positional
        interpolation" (2023).
    """
    if width % 2:
        raise ValueError(
            "A rotary embedding turns pairs: `width` (the `key_dim` of an attention) "
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
    """The rates of YaRN: fast pairs turn as they did, slow ones are scaled linearly.

    A pair that turns more than `fast` times within the original length keeps its
    rate, one that turns less than `slow` times has it divided by `factor`, and between
    them lies a ramp over the index of the pair.

    Args:
        width: E, the width of a head, even.
        max_wavelength: m.
        factor: how many times further the positions are to reach.
        original_length: the length in training.
        fast: β of the paper.
        slow: α of the paper.

    Returns:
        Float64 numbers (E/2,), a NumPy array.

    Raises:
        ValueError: if the width is odd.

    Reference:
        Peng et al., "YaRN: efficient context window extension of large language
        models" (2023), section 3.2, with the ramp of its authors' code.
    """
    rates = rotary_rates(width, max_wavelength)

    def pair(turns: float) -> float:  # which pair turns so often
        waves = np.log(original_length / (turns * 2 * np.pi))
        return width * waves / (2 * np.log(max_wavelength))

    low = max(np.floor(pair(fast)), 0)
    high = min(np.ceil(pair(slow)), width - 1)
    ramp = (np.arange(width // 2) - low) / max(high - low, 1e-3)
    kept = 1 - np.clip(ramp, 0, 1)
    return rates * kept + rates / factor * (1 - kept)


def rotate(
    x: Tensor,
    position: Tensor,
    rates: Array,
    amplitude: float = 1.0,
    interleaved: bool = False,
) -> Tensor:
    """Turns pairs of numbers by angles that grow with the position.

    The dot product of a query at p and a key at r then depends on p − r alone.

    Args:
        x: (..., T, H, E).
        position: numbers (T,), or (B, T).
        rates: (E/2,), from :func:`rotary_rates` or :func:`yarn_rates`.
        amplitude: what the result is multiplied by.
        interleaved: whether pairs are neighbours, as in the paper, or number i goes
            with number i + E/2, as in most published weights.

    Returns:
        (..., T, H, E), in the dtype of x; the angles are computed in float32.

    Reference:
        Su et al., "RoFormer" (2021), equation 34.
    """
    turns = ops.convert_to_tensor(rates, "float32")
    angle = (
        ops.expand_dims(ops.cast(position, "float32"), (-2, -1)) * turns
    )  # (T, 1, E/2)
    cos, sin = (wave(angle) * amplitude for wave in (ops.cos, ops.sin))
    z = wide(x)
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


def alibi_slopes(heads: int) -> Array:
    """How much each head of ALiBi minds a distance: 2^(−8h/H) for h = 1 … H.

    Where H is no power of two, the slopes of the next smaller one come first, and then
    every other one of those of twice as many heads.

    Args:
        heads: H.

    Returns:
        Float64 numbers (H,), a NumPy array.

    Reference:
        Press et al., "Train short, test long" (2022), section 3 and its code.
    """

    def of(count: int) -> Array:
        return 2.0 ** (-8 * np.arange(1, count + 1) / count)

    power = 2 ** int(np.log2(heads))
    more = of(2 * power)[0::2][: heads - power]
    return np.concatenate([of(power), more])


def relative_buckets(
    distance: Tensor,
    buckets: int = 32,
    max_distance: int = 128,
    bidirectional: bool = True,
) -> Tensor:
    """T5's bucket of each distance: near ones have their own, far ones share.

    Args:
        distance: position of the key less that of the query, integers (...).
        buckets: how many there are; half of them for either direction if both count.
        max_distance: from here on, all distances share the last bucket.
        bidirectional: whether keys ahead are told from keys behind; if not, all keys
            ahead are in bucket 0.

    Returns:
        Integers (...), from 0 to `buckets` − 1.

    Raises:
        ValueError: if there are too few buckets, or `max_distance` is within reach of
            those for single distances.

    Reference:
        Raffel et al., "Exploring the limits of transfer learning with a unified
        text-to-text transformer" (2020), section 2.1, and its code.
    """
    table = ops.convert_to_tensor(bucket_table(buckets, max_distance, bidirectional))
    distance = ops.cast(distance, "int32")
    if bidirectional:
        ahead = ops.cast(distance > 0, "int32") * (buckets // 2)
        behind = ops.abs(distance)
    else:
        ahead = 0
        behind = ops.maximum(-distance, 0)
    # A column, since torch's exporters get the look-up in a row of numbers wrong.
    column = ops.expand_dims(table, 1)
    found = ops.take(column, ops.minimum(behind, max_distance), axis=0)
    return ahead + ops.squeeze(found, axis=-1)


@cache
def bucket_table(buckets: int, max_distance: int, bidirectional: bool) -> Array:
    """The buckets of the distances 0 … max_distance behind, all in whole numbers.

    Bucket e + k, with e the buckets of single distances and f the others, begins where
    f log(n/e) / log(max/e) reaches k: where nᶠ eᵏ ≥ maxᵏ eᶠ.

    Args:
        buckets: as in :func:`relative_buckets`, like the others.
        max_distance: the greatest distance.
        bidirectional: whether half of the buckets are for keys ahead.

    Returns:
        Integers (max_distance + 1,), a NumPy array.

    Raises:
        ValueError: as :func:`relative_buckets` does.
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
