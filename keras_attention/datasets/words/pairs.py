"""Skip-gram training pairs: a word, a nearby word, and negative samples.

Shapes: N words per chunk, B batch, K negatives, V vocabulary.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from keras_attention.datasets.sizes import check_size
from keras_attention.datasets.words.rows import ROW, Rows, rows_of, signed_weights
from keras_attention.text.vocabulary import END, Vocabulary

_CHUNK = 100_000  # number of words per shuffled chunk

Batch = tuple[dict[str, np.ndarray], np.ndarray]


class _Chunk(NamedTuple):
    """Concatenated sentences: (N,) words, and the sentence index of each word."""

    tokens: np.ndarray
    sentence: np.ndarray


class SkipGrams:
    """Endless batches of pairs for `fit`; `len` is the number of batches per pass.

    Each pass works as in word2vec:

    1. A word with relative frequency f is kept with probability √(t / f) + t / f, which
       thins out frequent words.
    2. A window size from 1 to `window` is sampled for each kept word. The word is
       paired with all words of its sentence within that window.
    3. Each pair gets K negatives, sampled in proportion to countᵖ. A negative that
       equals the pair's context word is resampled.

    Sentences are shuffled for each pass. Pairs are shuffled in chunks of about 100,000
    words. Unknown words are removed first, so the words around them become neighbors.
    Words are dropped at random, so passes differ in length; `len` is the average.

    With `shared_negatives`, batches hold rows of 32 consecutive words of the shuffled
    sentences instead of shuffled pairs. The pairs are the same, but each word of a row
    is looked up once, and all pairs of a row have the same negatives, each with the
    weight K / `shared_negatives`. The mean gradient is that of separate negatives that
    may equal the context word. Training is several times as fast.

    Args:
        sentences: Texts.
        vocabulary: The vocabulary. Special tokens are never sampled.
        window: Maximum distance between the two words of a pair.
        negatives: K, the number of negatives per pair.
        subsample: t; 0 or None keeps every word.
        power: p, the exponent of the noise distribution.
        batch_size: B, the number of pairs; or, with shared negatives, the number of
            center words, a multiple of 32.
        seed: Seed for all random numbers. Each iterator starts again from this seed.
        shared_negatives: the number of negatives that the pairs of a row share; None
            for K negatives of each pair.

    Attributes:
        counts: (V,) int64, the count of each word in the sentences.
        words: Number of known words in the sentences.

    Raises:
        ValueError: The sentences have fewer than two different known words, or no
            sentence has two known words. Also if `sentences` is a single string, a size
            is below 1, `subsample` or `power` is below 0, or `batch_size` is not a
            multiple of 32 with shared negatives.
        TypeError: `vocabulary` is not a `Vocabulary`.

    Yields:
        `(inputs, labels)`: `"center"`, (B,) int32, and `"context"`, (B, 1 + K) int32,
        the true context word followed by the negatives; labels, (B, 1 + K) float32, 1
        for the true word and 0 for the negatives.

        With shared negatives, for R = `batch_size` / 32 rows and P = 32 + 2 `window` +
        `shared_negatives`: `"center"`, (R, 32) int32, and `"context"`, (R, P) int32,
        the words of the row with `window` words before and after, followed by the
        negatives; labels, (R, 32, P) float32, 1 for pairs, a negative weight for
        negatives, and 0 for the rest, as `NegativeSamplingLoss` expects.

    Example:
        ```python
        pairs = SkipGrams(sentences, vocabulary, window=5, batch_size=1024)
        model.fit(iter(pairs), steps_per_epoch=len(pairs), shuffle=False)
        ```

    Reference:
        Mikolov, Sutskever, Chen, Corrado & Dean, "Distributed representations of words
        and phrases and their compositionality" (2013), sections 2.2 and 2.3, with the
        keep probability of the authors' code instead of the paper's √(t / f). Shared
        negatives: Ji, Satish, Li & Dubey, "Parallelizing word2vec in multi-core and
        many-core architectures" (2016), where the words of one window share them.
    """

    def __init__(
        self,
        sentences: Iterable[str],
        vocabulary: Vocabulary,
        window: int = 5,
        negatives: int = 5,
        subsample: float | None = 1e-3,
        power: float = 0.75,
        batch_size: int = 1024,
        seed: int = 0,
        shared_negatives: int | None = None,
    ) -> None:
        if isinstance(sentences, str):
            raise ValueError(
                "`sentences` must be several texts, not one. "
                f"Received: sentences={sentences!r}"
            )
        if not hasattr(vocabulary, "encode"):
            raise TypeError(
                "`vocabulary` must be a `Vocabulary`. "
                f"Received: vocabulary={vocabulary!r}"
            )
        for name, size in (
            ("window", window),
            ("negatives", negatives),
            ("batch_size", batch_size),
            ("shared_negatives", 1 if shared_negatives is None else shared_negatives),
        ):
            check_size(name, size)
        for name, number in (("subsample", subsample or 0), ("power", power)):
            if number < 0:
                raise ValueError(
                    f"`{name}` must be at least 0. Received: {name}={number!r}"
                )
        if shared_negatives is not None and batch_size % ROW:
            raise ValueError(
                f"`batch_size` must be a multiple of {ROW} with shared negatives. "
                f"Received: batch_size={batch_size}"
            )
        self.window, self.negatives, self.batch_size = window, negatives, batch_size
        self.shared_negatives = shared_negatives
        self._seed = seed
        self._tokens, self._starts = _encoded(sentences, vocabulary)
        self.counts = np.bincount(self._tokens, minlength=len(vocabulary))  # (V,)
        self.words = len(self._tokens)
        if (self.counts > 0).sum() < 2:
            raise ValueError(
                "`sentences` must hold at least two different words of the vocabulary. "
                f"Received: {len(self._starts) - 1} sentences with "
                f"{self.words} such words"
            )
        self._keep = _kept_share(self.counts, subsample)  # (V,)
        noise = np.cumsum(np.where(self.counts, self.counts**power, 0.0))
        self._noise = noise / noise[-1]  # (V,)
        count = self._expected_pairs()
        if shared_negatives is not None:
            count = self._keep[self._tokens].sum()
        self._length = max(1, round(count / batch_size))

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[Batch]:
        rng = np.random.default_rng(self._seed)
        if self.shared_negatives is None:
            return self._pair_batches(rng)
        return self._row_batches(rng, self.shared_negatives)

    def _pair_batches(self, rng: np.random.Generator) -> Iterator[Batch]:
        labels = np.zeros((self.batch_size, 1 + self.negatives), np.float32)
        labels[:, 0] = 1
        centers, contexts = _nothing(), _nothing()
        while True:
            for chunk in self._chunks(rng):
                pairs = self.pairs(self._subsampled(chunk, rng), rng)
                centers, contexts = (
                    np.concatenate(both) for both in zip((centers, contexts), pairs)
                )
                whole = len(centers) // self.batch_size * self.batch_size
                words = self._with_noise(contexts[:whole], rng)  # (·, 1 + K)
                for start in range(0, whole, self.batch_size):
                    rows = slice(start, start + self.batch_size)
                    inputs = {"center": centers[rows], "context": words[rows]}
                    yield inputs, labels.copy()
                centers, contexts = centers[whole:], contexts[whole:]

    def _row_batches(self, rng: np.random.Generator, shared: int) -> Iterator[Batch]:
        step, waiting = self.batch_size // ROW, []
        while True:
            for chunk in self._chunks(rng):
                chunk = self._subsampled(chunk, rng)
                if not len(chunk.tokens):
                    continue
                reach = rng.integers(1, self.window + 1, len(chunk.tokens))
                waiting.append(rows_of(*chunk, reach, self.window))
                joined = Rows(*(np.concatenate(parts) for parts in zip(*waiting)))
                noise = self.draw((len(joined.center), shared), rng)
                words = np.concatenate([joined.near, noise], axis=1)
                whole = len(words) // step * step
                for start in range(0, whole, step):
                    rows = slice(start, start + step)
                    part = Rows(*(array[rows] for array in joined))
                    inputs = {"center": part.center, "context": words[rows]}
                    yield inputs, signed_weights(part, self.negatives, shared)
                waiting = [Rows(*(array[whole:] for array in joined))]

    def pairs(
        self, chunk: _Chunk, rng: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray]:
        """Returns the shuffled pairs of a chunk: int32 centers and contexts."""
        tokens, sentence = chunk
        reach = rng.integers(1, self.window + 1, len(tokens))  # (N,)
        centers, contexts = [_nothing()], [_nothing()]
        for apart in range(1, self.window + 1):
            first, second = tokens[:-apart], tokens[apart:]
            together = sentence[:-apart] == sentence[apart:]
            for center, context, its_reach in (
                (first, second, reach[:-apart]),
                (second, first, reach[apart:]),
            ):
                near = together & (its_reach >= apart)
                centers.append(center[near])
                contexts.append(context[near])
        order = rng.permutation(sum(map(len, centers)))
        return np.concatenate(centers)[order], np.concatenate(contexts)[order]

    def draw(self, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
        """Samples int32 words from the noise distribution."""
        samples = np.searchsorted(self._noise, rng.random(shape), side="right")
        return samples.astype(np.int32)

    def _with_noise(self, contexts: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Appends negatives to each context, (·, 1 + K)."""
        samples = self.draw((len(contexts), self.negatives), rng)
        equal = np.nonzero(samples == contexts[:, None])
        while len(equal[0]):
            samples[equal] = self.draw(equal[0].shape, rng)
            still = samples[equal] == contexts[equal[0]]
            equal = equal[0][still], equal[1][still]
        return np.concatenate([contexts[:, None], samples], axis=1)

    def _chunks(self, rng: np.random.Generator) -> Iterator[_Chunk]:
        """Yields all sentences once, shuffled, in chunks of about 100,000 words."""
        lengths = np.diff(self._starts)
        order = rng.permutation(len(lengths))
        parts = np.cumsum(lengths[order]) // _CHUNK  # chunk index of each sentence end
        for rows in np.split(order, np.flatnonzero(np.diff(parts)) + 1):
            sizes = lengths[rows]
            # From a place in the chunk to its place in `_tokens`.
            moved = self._starts[rows] - np.cumsum(sizes) + sizes
            places = np.arange(sizes.sum()) + np.repeat(moved, sizes)
            yield _Chunk(self._tokens[places], np.repeat(np.arange(len(rows)), sizes))

    def _subsampled(self, chunk: _Chunk, rng: np.random.Generator) -> _Chunk:
        sampled = rng.random(len(chunk.tokens)) < self._keep[chunk.tokens]
        return _Chunk(*(array[sampled] for array in chunk))

    def _expected_pairs(self) -> float:
        """Estimates the number of pairs per pass from sampled sentence lengths."""
        rng = np.random.default_rng(self._seed)
        sampled = rng.random(self.words) < self._keep[self._tokens]
        # The zero after the last word ends the last sentence.
        totals = np.concatenate([[0], np.cumsum(sampled)])
        lengths = np.diff(totals[self._starts])  # per sentence
        pairs = 0.0
        for apart in range(1, self.window + 1):
            reached = (self.window + 1 - apart) / self.window
            pairs += 2 * reached * np.maximum(lengths - apart, 0).sum()
        if not pairs:
            raise ValueError(
                "`sentences` must hold two words of the vocabulary in one sentence, "
                "also after frequent ones are dropped: try a larger `subsample`. "
                f"Received: {len(lengths)} sentences with {self.words} such words"
            )
        return pairs


def _encoded(
    sentences: Iterable[str], vocabulary: Vocabulary
) -> tuple[np.ndarray, np.ndarray]:
    """Returns the known words of all sentences, (N,) int32, and sentence boundaries."""
    rows = [
        np.array([i for i in vocabulary.encode(text) if i > END], np.int32)
        for text in sentences
    ]
    starts = np.concatenate(
        [[0], np.cumsum([len(row) for row in rows], dtype=np.int64)]
    )
    return np.concatenate([_nothing(), *rows]), starts.astype(np.int64)


def _kept_share(counts: np.ndarray, subsample: float | None) -> np.ndarray:
    """Returns the keep probability of each word, (V,)."""
    if not subsample:
        return np.ones(len(counts))
    rare = subsample * counts.sum() / np.maximum(counts, 1)  # t / f
    return np.minimum(np.sqrt(rare) + rare, 1)


def _nothing() -> np.ndarray:
    return np.zeros(0, np.int32)
