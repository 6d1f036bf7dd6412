"""Skip-gram: its equation, what it learns, and what it is asked."""

import keras
import numpy as np
import pytest
from calling import needs_training, plain

from keras_attention.datasets import words
from keras_attention.losses import NegativeSamplingLoss
from keras_attention.models import SkipGram, TransformerClassifier

NAMES = ("<pad>", "man", "woman", "king", "queen", "apple")


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


@pytest.fixture
def royal():
    """Two directions, one of rank and one of sex, and a word apart."""
    vectors = np.array(
        [[0, 1, 1], [1, 0, 0.2], [1, 1, 0.2], [1, 0, 3], [1, 1, 3], [-2, 0.5, 0]]
    )
    return SkipGram.from_vectors(NAMES, vectors)


def test_logits_and_loss_equal_their_equations():
    rng = np.random.default_rng(0)
    model = SkipGram(11, dim=5)
    tables = [rng.normal(size=(11, 5)).astype("float32") for _ in range(2)]
    model.set_weights(tables)
    center, context = rng.integers(0, 11, 3), rng.integers(0, 11, (3, 4))
    v, u = tables[0].astype(float)[center], tables[1].astype(float)[context]
    expected = (u * v[:, None]).sum(-1)  # (B, P)
    inputs = {"center": center, "context": context}
    logits = model(inputs)
    np.testing.assert_allclose(plain(logits), expected, rtol=1e-5, atol=1e-6)

    labels = np.eye(4)[[0, 0, 0]]
    loss = keras.losses.BinaryCrossentropy(from_logits=True, reduction="sum")
    paper = -np.log(sigmoid(expected[:, 0])).sum()
    paper -= np.log(sigmoid(-expected[:, 1:])).sum()
    np.testing.assert_allclose(plain(loss(labels, logits)) * 4, paper, rtol=1e-5)


def test_shared_negatives_equal_their_equations(tmp_path):
    rng = np.random.default_rng(0)
    model = SkipGram(11, dim=5, shared_negatives=True)
    tables = [rng.normal(size=(11, 5)).astype("float32") for _ in range(2)]
    model.set_weights(tables)
    center, context = rng.integers(0, 11, (2, 3)), rng.integers(0, 11, (2, 6))
    v, u = tables[0].astype(float)[center], tables[1].astype(float)[context]
    expected = np.einsum("bsd,bpd->bsp", v, u)
    inputs = {"center": center, "context": context}
    logits = model(inputs)
    np.testing.assert_allclose(plain(logits), expected, rtol=1e-5, atol=1e-6)

    weights = rng.choice([1, 0, -0.5, -2], (2, 3, 6))
    each = -np.abs(weights) * np.log(sigmoid(np.sign(weights) * expected))
    loss = NegativeSamplingLoss(reduction="none")
    np.testing.assert_allclose(
        plain(loss(weights, logits)), each.sum(-1), rtol=1e-5, atol=1e-6
    )
    far = NegativeSamplingLoss()(
        np.array([[[1.0, -1, 0]]]), np.array([[[-90.0, 80, 99]]])
    )
    assert float(plain(far)) == pytest.approx(170)

    model.save(tmp_path / "shared.keras")
    loaded = keras.saving.load_model(tmp_path / "shared.keras")
    np.testing.assert_array_equal(plain(loaded(inputs)), plain(logits))


@pytest.mark.release
@pytest.mark.parametrize("shared", [None, 16])
@needs_training
def test_words_that_stand_alike_become_neighbours(shared):
    """Fruit and vehicles never meet, and each has its own words around it."""
    fruit, cars = ("apple", "pear", "plum"), ("car", "bus", "van")
    texts = [f"eat a ripe {one} from the tree" for one in fruit] * 60
    texts += [f"drive the old {one} down this road" for one in cars] * 60
    vocabulary = words.Vocabulary.from_sentences(texts)
    pairs = words.SkipGrams(
        texts,
        vocabulary,
        4,
        subsample=None,
        batch_size=256 if shared is None else 64,
        shared_negatives=shared,
    )
    keras.utils.set_random_seed(0)
    model = SkipGram(
        len(vocabulary), 8, vocabulary.tokens, shared_negatives=shared is not None
    )
    loss = keras.losses.BinaryCrossentropy(from_logits=True)
    loss = loss if shared is None else NegativeSamplingLoss()
    model.compile(keras.optimizers.Adam(0.03), loss)
    history = model.fit(
        iter(pairs), steps_per_epoch=len(pairs), epochs=8, shuffle=False, verbose=0
    ).history["loss"]
    assert history[-1] < 0.75 * history[0]
    for group in (fruit, cars):
        for word in group:
            near = {name for name, _ in model.nearest(word, count=2)}
            assert near == {*group} - {word}


def test_nearest_are_in_order(royal):
    found = royal.nearest("king", count=9)
    assert [name for name, _ in found] == ["queen", "man", "woman", "apple"]
    table = royal.vectors()[1:]
    unit = table / np.linalg.norm(table, axis=1, keepdims=True)
    cosines = dict(zip(NAMES[1:], unit @ unit[2]))
    for name, cosine in found:
        assert cosine == pytest.approx(cosines[name], abs=1e-6)
    assert [name for name, _ in royal.nearest("king", count=1)] == ["queen"]


def test_a_queen_is_to_a_king_as_a_woman_to_a_man(royal):
    (answer,) = royal.analogy("man", "king", "woman")
    assert answer[0] == "queen"
    assert [name for name, _ in royal.analogy("man", "woman", "king", 5)] == [
        "queen",
        "apple",
    ]


def test_only_a_word_that_is_there(royal):
    assert royal.nearest("apple", count=2)[0][0] != "<pad>"
    lonely = SkipGram(2, 3, words=["<pad>", "one"])
    assert lonely.nearest("one") == []


@pytest.mark.parametrize("word", ["emperor", "<pad>", 3])
def test_a_word_without_a_vector(royal, word):
    message = f"one of the model's 5 words. There is no vector of: {word!r}"
    with pytest.raises(ValueError, match=message):
        royal.nearest(word)
    with pytest.raises(ValueError, match=message):
        royal.analogy("man", "king", word)


def test_arguments(royal):
    with pytest.raises(ValueError, match="`words` must be given to `SkipGram`"):
        SkipGram(3, 4).nearest("a")
    with pytest.raises(ValueError, match="`count` must be at least 1"):
        royal.nearest("king", count=0)
    with pytest.raises(ValueError, match="vocabulary_size=3, 2 words, 2 distinct"):
        SkipGram(3, words=["a", "b"])
    with pytest.raises(ValueError, match="vocabulary_size=2, 2 words, 1 distinct"):
        SkipGram(2, words=["a", "a"])
    with pytest.raises(ValueError, match=r"`words` must be strings. Received: 3"):
        SkipGram(2, words=["a", 3])
    with pytest.raises(ValueError, match=r"row for each word. .*\(2, 3\), 1 words"):
        SkipGram.from_vectors(["a"], np.ones((2, 3)))
    with pytest.raises(ValueError, match="`dim` must be at least 1"):
        SkipGram(2, dim=0)
    with pytest.raises(ValueError, match=r"must be True or False.*shared_negatives=22"):
        SkipGram(2, shared_negatives=22)


def test_labels_of_the_other_kind_are_refused():
    shared = SkipGram(3, shared_negatives=True)
    for loss in ("binary_crossentropy", keras.losses.BinaryCrossentropy()):
        with pytest.raises(
            ValueError, match=r"must be a `NegativeSamplingLoss`.*loss="
        ):
            shared.compile("adam", loss)
    shared.compile("adam", NegativeSamplingLoss())
    with pytest.raises(ValueError, match=r"rows, centers, contexts.*shape=\(2, 3\)"):
        NegativeSamplingLoss()(np.ones((2, 3)), np.ones((2, 3)))


def test_words_are_kept_in_the_file(royal, tmp_path):
    royal.save(tmp_path / "royal.keras")
    loaded = keras.saving.load_model(tmp_path / "royal.keras")
    assert loaded.words == NAMES
    assert loaded.nearest("king") == royal.nearest("king")


def test_another_model_begins_with_them(royal):
    vocabulary = words.Vocabulary(["queen", "apple"])
    known = words.WordVectors(royal.words, royal.vectors())
    table = words.embedding_matrix(known, vocabulary, dim=3)
    model = TransformerClassifier(
        len(vocabulary), 2, num_layers=1, dim=3, num_heads=1, intermediate_dim=4
    )
    embedding = model.get_layer("token_embedding")
    embedding.embeddings.assign(table)
    found = plain(embedding(np.array(vocabulary.encode("Queen apple"))))
    np.testing.assert_allclose(found, royal.vectors()[[4, 5]], rtol=1e-6)
