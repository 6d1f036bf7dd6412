"""What skip-gram learns from: pairs, kept words and noise, held to their equations."""

import collections
import itertools

import numpy as np
import pytest

from keras_attention.datasets import words

TEXTS = ["a b c d e f", "b c", "d", "", "e a zebra a"]


@pytest.fixture
def vocabulary():
    return words.Vocabulary.from_sentences(["a b c d e f"])


def expected_pairs(rows, window):
    """How often each pair comes on the average, by a loop over places."""
    found = collections.Counter()
    for row in rows:
        for i, j in itertools.permutations(range(len(row)), 2):
            if abs(i - j) <= window:
                # Of the reaches 1 to the window, those that are as far or farther.
                share = (window - abs(i - j) + 1) / window
                found[row[i], row[j]] += share
    return found


def first_batches(pairs, passes=1):
    return list(itertools.islice(iter(pairs), passes * len(pairs)))


def test_pairs_are_those_within_the_reach(vocabulary):
    passes, window = 400, 3
    pairs = words.SkipGrams(TEXTS, vocabulary, window, subsample=None, batch_size=8)
    rows = [[i for i in vocabulary.encode(t) if i > 3] for t in TEXTS]
    expected = expected_pairs(rows, window)
    counted = collections.Counter()
    rng = np.random.default_rng(5)
    for _ in range(passes):
        (chunk,) = pairs._chunks(rng)
        centers, contexts = pairs.pairs(chunk, rng)
        counted.update(zip(centers.tolist(), contexts.tolist()))
    assert {*counted} == {*expected}  # "zebra" is left out, its neighbours are near
    for pair, mean in expected.items():
        spread = 4 * np.sqrt(mean / passes)
        assert abs(counted[pair] / passes - mean) <= spread, pair


def test_batches_and_their_number(vocabulary):
    texts = TEXTS * 100
    pairs = words.SkipGrams(
        texts, vocabulary, 3, negatives=4, subsample=None, batch_size=32
    )
    rows = [[i for i in vocabulary.encode(t) if i > 3] for t in texts]
    total = sum(expected_pairs(rows, 3).values())
    assert len(pairs) == round(total / 32)
    assert pairs.words == 1200
    assert pairs.counts.tolist() == [0, 0, 0, 0, 300, 200, 200, 200, 200, 100]
    for inputs, labels in first_batches(pairs, passes=2):
        assert inputs["center"].shape == (32,)
        assert inputs["context"].shape == labels.shape == (32, 5)
        assert {x.dtype for x in inputs.values()} == {np.dtype("int32")}
        np.testing.assert_array_equal(labels, np.eye(5, dtype="float32")[[0] * 32])
        assert (inputs["context"][:, 1:] != inputs["context"][:, :1]).all()
        assert min(inputs["context"].min(), inputs["center"].min()) > 3


def test_frequent_words_are_kept_less(vocabulary):
    texts = ["a a a a a a a a b", "c d e f a a a a a"] * 500
    pairs = words.SkipGrams(texts, vocabulary, subsample=0.05)
    share = pairs.counts / pairs.words
    t_over_f = 0.05 / share[4:]
    np.testing.assert_allclose(
        pairs._keep[4:], np.minimum(1, np.sqrt(t_over_f) + t_over_f)
    )
    assert pairs._keep[4] < 0.4
    rng = np.random.default_rng(0)
    kept = collections.Counter()
    for chunk in pairs._chunks(rng):
        kept.update(pairs._subsampled(chunk, rng).tokens.tolist())
    frequency = kept[4] / pairs.counts[4]
    spread = 4 * np.sqrt(pairs._keep[4] / pairs.counts[4])
    assert abs(frequency - pairs._keep[4]) < spread
    assert kept[5] == pairs.counts[5] * pairs._keep[5] == pairs.counts[5]


def test_a_pass_is_as_long_as_it_says(vocabulary):
    rng = np.random.default_rng(3)
    texts = [" ".join(rng.choice([*"aaaabbcdef"], 9)) for _ in range(30_000)]
    pairs = words.SkipGrams(texts, vocabulary, subsample=0.02, batch_size=64)
    rng = np.random.default_rng(8)
    chunks = list(pairs._chunks(rng))
    assert len(chunks) == 3
    made = sum(len(pairs.pairs(pairs._subsampled(c, rng), rng)[0]) for c in chunks)
    assert abs(made / 64 / len(pairs) - 1) < 0.01
    tokens = np.concatenate([chunk.tokens for chunk in chunks])
    np.testing.assert_array_equal(np.bincount(tokens, minlength=10), pairs.counts)


def test_noise_is_a_power_of_the_counts(vocabulary):
    texts = ["a a a a a a a a a a a a a a a a b c c d d d d e f f f"] * 3
    pairs = words.SkipGrams(texts, vocabulary, power=0.75, subsample=None)
    drawn = pairs.draw((200_000,), np.random.default_rng(0))
    counts = pairs.counts.astype(float)
    expected = counts**0.75 / (counts**0.75)[counts > 0].sum()
    found = np.bincount(drawn, minlength=10) / len(drawn)
    np.testing.assert_allclose(found, expected, atol=4 * 0.5 / np.sqrt(len(drawn)))
    assert found[:4].sum() == 0


def test_a_seed_repeats(vocabulary):
    one, same, other = (
        words.SkipGrams(TEXTS * 50, vocabulary, batch_size=16, seed=seed)
        for seed in (1, 1, 2)
    )

    def first(pairs):
        return next(iter(pairs))[0]["context"]

    np.testing.assert_array_equal(first(one), first(same))
    np.testing.assert_array_equal(first(one), first(one))
    assert (first(one) != first(other)).any()


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ([], "two different words .* Received: 0 sentences with 0 such words"),
        (["", "zebra lion"], "two different words .* 2 sentences with 0 such words"),
        (["a", "a a"], "two different words .* 2 sentences with 3 such words"),
        (["a", "b"], "two words of the vocabulary in one sentence, .* 2 sentences"),
        ("a b c", "`sentences` must be several texts, not one"),
    ],
)
def test_a_corpus_without_pairs(vocabulary, texts, message):
    with pytest.raises(ValueError, match=message):
        words.SkipGrams(texts, vocabulary)


@pytest.mark.parametrize(
    ("name", "value"),
    [("window", 0), ("negatives", 0), ("batch_size", 1.5)],
)
def test_sizes_are_whole_numbers(vocabulary, name, value):
    with pytest.raises(ValueError, match=f"`{name}` must be a whole .* {name}={value}"):
        words.SkipGrams(TEXTS, vocabulary, **{name: value})


@pytest.mark.parametrize("name", ["subsample", "power"])
def test_shares_are_not_negative(vocabulary, name):
    with pytest.raises(ValueError, match=f"`{name}` must be at least 0. .*{name}=-1"):
        words.SkipGrams(TEXTS, vocabulary, **{name: -1})


def pairs_of(batches):
    """The pairs of rows with shared negatives, and the labels of their noise."""
    found, noise = collections.Counter(), []
    for inputs, labels in batches:
        width = inputs["context"].shape[1] - SHARED
        for row, place, column in np.argwhere(labels[..., :width] > 0):
            center = inputs["center"][row, place]
            found[int(center), int(inputs["context"][row, column])] += 1
        noise.append((labels[..., :width].sum(-1), labels[..., width:]))
    return found, noise


SHARED = 7


def test_rows_hold_the_pairs_within_the_reach(vocabulary):
    texts, window, passes = TEXTS * 40, 3, 30
    pairs = words.SkipGrams(
        texts,
        vocabulary,
        window,
        negatives=4,
        subsample=None,
        batch_size=64,
        shared_negatives=SHARED,
    )
    assert len(pairs) == round(480 / 64)
    rows = [[i for i in vocabulary.encode(t) if i > 3] for t in texts]
    expected = expected_pairs(rows, window)
    batches = list(itertools.islice(iter(pairs), 15 * passes // 2))
    for inputs, labels in batches:
        assert inputs["center"].shape == (2, 32)
        assert inputs["context"].shape == (2, 32 + 2 * window + SHARED)
        assert labels.shape == (2, 32, 32 + 2 * window + SHARED)
        assert {x.dtype for x in inputs.values()} == {np.dtype("int32")}
        assert labels.dtype == np.float32
        assert inputs["context"][:, -SHARED:].min() > 3
        np.testing.assert_array_equal(
            inputs["context"][:, window : window + 32], inputs["center"]
        )
    counted, noise = pairs_of(batches)
    assert {*counted} == {*expected}
    for pair, mean in expected.items():
        assert abs(counted[pair] / passes / mean - 1) < 0.1, pair
    for count, weights in noise:
        share = np.repeat(count[..., None] * -4 / SHARED, SHARED, -1)
        np.testing.assert_allclose(weights, share, rtol=1e-6)


def test_rows_cross_no_sentence(vocabulary):
    """Sentences of one word twice: a word is only near itself, once each."""
    texts = ["a a", "b b", "c c"] * 30
    pairs = words.SkipGrams(
        texts, vocabulary, 5, subsample=None, batch_size=32, shared_negatives=SHARED
    )
    counted, noise = pairs_of(list(itertools.islice(iter(pairs), 12)))
    assert {a == b for a, b in counted} == {True}
    assert {float(x) for count, _ in noise for x in count.ravel()} == {0.0, 1.0}


def test_rows_repeat_with_their_seed(vocabulary):
    one, same, other = (
        words.SkipGrams(
            TEXTS * 50, vocabulary, batch_size=32, seed=seed, shared_negatives=SHARED
        )
        for seed in (1, 1, 2)
    )
    first, again, differs = (next(iter(x))[0]["context"] for x in (one, same, other))
    np.testing.assert_array_equal(first, again)
    assert (first != differs).any()


def test_arguments_of_rows(vocabulary):
    with pytest.raises(ValueError, match=r"multiple of 32 .* batch_size=48"):
        words.SkipGrams(TEXTS, vocabulary, batch_size=48, shared_negatives=3)
    with pytest.raises(ValueError, match=r"`shared_negatives` must be a whole"):
        words.SkipGrams(TEXTS, vocabulary, batch_size=32, shared_negatives=0)
    with pytest.raises(ValueError, match=r"`shared_negatives` must be .*=True"):
        words.SkipGrams(TEXTS, vocabulary, batch_size=32, shared_negatives=True)


def test_a_list_is_no_vocabulary():
    with pytest.raises(TypeError, match=r"must be a `Vocabulary`. .*\['a', 'b'\]"):
        words.SkipGrams(TEXTS, ["a", "b"])
