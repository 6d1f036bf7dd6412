"""Tokens hidden for a `MaskedLM`: which, by what, and how often."""

import keras
import numpy as np
import pytest
from calling import needs_training

pytest.importorskip("keras_hub", reason="the extra `text` is not installed")
pytest.importorskip("tensorflow_text", reason="the extra `text` is not installed")
import tensorflow as tf

from keras_attention.models import MaskedLM, PackedModel
from keras_attention.text import TokenMasking, pack

V, P = 31, 6
MASK = V - 1


def sentences(rows, seed=0):
    """Words from 4 on, between a start and an end, padding behind."""
    rng = np.random.default_rng(seed)
    tokens = rng.integers(4, MASK, (rows, 23)).astype("int32")
    tokens[:, 0] = 2
    for row, end in zip(tokens, rng.integers(3, 23, rows)):
        row[end], row[end + 1 :] = 3, 0
    return tokens


def test_what_is_hidden_can_be_put_back():
    tokens = sentences(300)
    inputs, labels, weights = TokenMasking(V, places=P, rate=0.2)(tokens)
    hidden, places = inputs["tokens"], inputs["mask_positions"]
    for array in (hidden, places, labels):
        assert array.dtype == np.int32
    assert weights.dtype == np.float32
    assert places.shape == labels.shape == weights.shape == (300, P)
    assert places.min() >= 0
    assert places.max() < tokens.shape[1]
    words = (tokens > 3).sum(1)
    wanted = np.minimum(np.ceil(0.2 * words - 1e-6), P)
    np.testing.assert_array_equal(weights.sum(1), wanted)
    for row, found, place, label, weight in zip(
        tokens, hidden, places, labels, weights
    ):
        count = int(weight.sum())
        assert (weight[:count] == 1).all()
        assert (place[count:] == 0).all()
        assert (label[count:] == 0).all()
        assert len(set(place[:count])) == count
        np.testing.assert_array_equal(row[place[:count]], label[:count])
        assert (label[:count] > 3).all()
        back = found.copy()
        back[place[:count]] = label[:count]
        np.testing.assert_array_equal(back, row)


def test_packed_rows_are_masked_in_a_pipeline():
    texts = [row[row > 0] for row in sentences(40)]
    rows = pack(texts, 40)
    masking = TokenMasking(V, places=P, rate=0.2)
    batches = tf.data.Dataset.from_tensor_slices(rows.inputs).batch(8).map(masking)
    reader = PackedModel(MaskedLM(V, 1, 8, 2, 12))
    for inputs, labels, weights in batches:
        assert {*inputs} == {"tokens", "segment_ids", "mask_positions"}
        ids = tf.gather(inputs["segment_ids"], inputs["mask_positions"], batch_dims=1)
        assert (ids.numpy()[weights.numpy() > 0] > 0).all()
        assert reader(inputs).shape == (*labels.shape, V)
    inputs, _, _ = masking(rows.inputs)
    assert inputs["segment_ids"] is rows.inputs["segment_ids"]


def test_how_often_it_is_the_mask_token_another_word_or_the_same():
    keras.utils.set_random_seed(0)
    tokens = sentences(4000)
    inputs, labels, weights = TokenMasking(V, places=P)(tokens)
    found = np.take_along_axis(inputs["tokens"], inputs["mask_positions"], 1)
    found, labels = found[weights > 0], labels[weights > 0]
    assert len(found) > 5000
    assert abs((found == MASK).mean() - 0.8) < 0.03
    others = (found != MASK) & (found != labels)
    assert abs(others.mean() - 0.1 * 25 / 26) < 0.03
    assert set(found[others]) == set(range(4, MASK))  # and no special token


def test_the_mask_token_may_be_a_special_one():
    masking = TokenMasking(V, P, mask_token_id=1, mask_token_rate=0.5)
    inputs, _, weights = masking(sentences(2000))
    found = np.take_along_axis(inputs["tokens"], inputs["mask_positions"], 1)
    found = found[weights > 0]
    assert abs((found == 1).mean() - 0.5) < 0.05
    assert V - 1 in set(found)  # a word as others
    assert found[found != 1].min() == 4


def test_a_mask_token_in_the_text_is_left_alone():
    tokens = np.full((5, 11), MASK, "int32")
    _, labels, weights = TokenMasking(V, P, rate=0.5)(tokens)
    assert not weights.any()
    assert not labels.any()


def test_one_sequence_and_lists():
    masking = TokenMasking(V, places=2, rate=0.5)
    inputs, labels, _ = masking([5, 6, 7])
    assert inputs["tokens"].shape == (3,)
    assert inputs["mask_positions"].shape == labels.shape == (2,)
    assert masking([[5, 6, 7], [8, 9, 0]])[1].shape == (2, 2)


def test_a_pipeline_draws_anew_unless_it_is_kept():
    tokens = sentences(40)
    data = tf.data.Dataset.from_tensor_slices(tokens).batch(40)
    anew = data.repeat(2).map(TokenMasking(V, P))
    assert anew.element_spec[0]["tokens"].shape.as_list() == [None, 23]
    assert anew.element_spec[0]["mask_positions"].shape.as_list() == [None, P]
    one, two = [inputs["tokens"].numpy() for inputs, _, _ in anew]
    assert not np.array_equal(one, two)
    kept = data.map(TokenMasking(V, P)).cache().repeat(2)
    one, two = [inputs["tokens"].numpy() for inputs, _, _ in kept]
    np.testing.assert_array_equal(one, two)


def test_one_row_is_repeated_by_a_seed():
    def drawn():
        keras.utils.set_random_seed(1)
        return TokenMasking(V, P)(sentences(1))[0]["tokens"]

    np.testing.assert_array_equal(drawn(), drawn())


@pytest.mark.release
@needs_training
def test_a_model_learns_from_it():
    tokens = sentences(64)
    data = tf.data.Dataset.from_tensor_slices(tokens).batch(32).map(TokenMasking(V, P))
    model = MaskedLM(V, num_layers=1, dim=8, num_heads=2, intermediate_dim=12)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("adam", loss)
    history = model.fit(data, epochs=2, shuffle=False, verbose=0)
    assert np.isfinite(history.history["loss"]).all()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"places": 0}, "`places` must be at least 1"),
        ({"rate": 1.5}, "`rate` must be from 0 to 1. Received: rate=1.5"),
        ({"random_token_rate": 0.3}, "must sum to 1 at most"),
        ({"mask_token_id": 7}, "`mask_token_id` must be the last.*mask_token_id=7"),
        ({"mask_token_id": 0}, "`mask_token_id` must be the last.*mask_token_id=0"),
        ({"vocabulary_size": 5}, "must leave a word.*vocabulary_size=5"),
    ],
)
def test_constructor_errors(arguments, message):
    with pytest.raises(ValueError, match=message):
        TokenMasking(**{"vocabulary_size": V, "places": P, **arguments})


@pytest.mark.parametrize("tokens", [[[5.0]], [[[5]]]])
def test_tokens_are_integers_of_one_or_two_axes(tokens):
    with pytest.raises(ValueError, match="`tokens` must be integers of shape"):
        TokenMasking(V, P)(tokens)
