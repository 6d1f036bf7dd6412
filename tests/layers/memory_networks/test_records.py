"""I and G: features of sentences, and the records written of them."""

import numpy as np
import pytest
from gradients import to_numpy

from keras_attention.layers import MemoryWriter, SentenceFeatures

WORDS, BUCKETS = 11, 137


def features(sentence, ngrams):
    """All n-grams that end in each word, by their own hash, in plain Python."""
    factor = 11  # has no factor in common with 137, which is prime
    found = []
    for n in range(1, ngrams + 1):
        for end in range(1, len(sentence) + 1):
            gram = sentence[max(end - n, 0) : end]
            if len(gram) < n or 0 in gram:
                found.append(0)
            elif n == 1:
                found.append(gram[0])
            else:
                hashed = 0
                for word in gram:
                    hashed = (hashed * factor + word) % BUCKETS
                found.append(WORDS + hashed)
    return found


@pytest.mark.parametrize("ngrams", [1, 2, 3])
def test_features_are_words_and_ngrams(ngrams):
    layer = SentenceFeatures(WORDS, ngrams, BUCKETS)
    sentences = [[3, 10, 1, 7, 0], [4, 0, 0, 0, 0], [0, 0, 0, 0, 0], [5, 0, 5, 6, 2]]
    found = to_numpy(layer(np.array([sentences], "int32")), "int64")
    np.testing.assert_array_equal(found[0], [features(s, ngrams) for s in sentences])
    assert found.max() < layer.size == WORDS + (BUCKETS if ngrams > 1 else 0)


def test_pairs_of_words_do_not_collide_where_there_is_room():
    layer = SentenceFeatures(11, 2, 127)  # p = 11, and 11 · 11 < 127
    pairs = np.stack(np.meshgrid(np.arange(1, 11), np.arange(1, 11)), -1)
    found = to_numpy(layer(pairs.reshape(-1, 2)), "int64")[:, 3]
    assert len(set(found.tolist())) == 100


def test_a_sentence_is_written_with_its_time():
    story = np.array([[[3, 1], [0, 0], [2, 0]], [[0, 0], [0, 0], [4, 4]]])
    plain = to_numpy(MemoryWriter()(story), "int64")
    np.testing.assert_array_equal(plain[..., 1:], story)
    np.testing.assert_array_equal(plain[..., 0], [[1, -1, 2], [-1, -1, 1]])
    adaptive = to_numpy(MemoryWriter(nothing=9)(story), "int64")
    np.testing.assert_array_equal(adaptive[:, :3], plain)
    np.testing.assert_array_equal(adaptive[:, 3], [[0, 9, 0]] * 2)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: SentenceFeatures(0), "`vocabulary_size` must be at least 1"),
        (lambda: SentenceFeatures(5, ngrams=0), "`ngrams` must be at least 1"),
        (lambda: SentenceFeatures(5, 2, buckets=0), "`buckets` must be at least 1"),
        (
            lambda: SentenceFeatures(2**16, 2, 2**14),
            "`vocabulary_size` times `buckets` must be below 2³⁰. Received: voc",
        ),
        (lambda: MemoryWriter(nothing=0), "`nothing` must be at least 1"),
    ],
)
def test_bad_arguments(make, message):
    with pytest.raises(ValueError, match=message):
        make()
