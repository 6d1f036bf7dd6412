"""`pack`: every text is in one row, whole, with its labels."""

import numpy as np
import pytest

from keras_attention.text import pack

LENGTHS = (5, 3, 7, 2, 6, 4, 1, 11)


def texts(lengths=LENGTHS):
    rng = np.random.default_rng(0)
    return [rng.integers(1, 99, length) for length in lengths]


def test_every_text_is_in_its_row():
    given = texts()
    rows = pack(given, 11)
    tokens, ids = rows.inputs["tokens"], rows.inputs["segment_ids"]
    assert tokens.dtype == ids.dtype == rows.labels.dtype == np.int32
    assert rows.sample_weight.dtype == np.float32
    assert tokens.shape == (4, 11)  # of 39 tokens
    for text, row, segment in zip(given, rows.rows, rows.segments):
        (index,) = np.nonzero(ids[row] == segment)
        np.testing.assert_array_equal(np.diff(index), 1)
        np.testing.assert_array_equal(tokens[row, index], text)
        np.testing.assert_array_equal(rows.labels[row, index[:-1]], text[1:])
        assert (rows.sample_weight[row, index[:-1]] == 1).all()
        assert rows.labels[row, index[-1]] == 0  # not the next text
        assert rows.sample_weight[row, index[-1]] == 0
    assert (ids > 0).sum() == sum(LENGTHS)
    padding = ids == 0
    for array in (tokens, rows.labels, rows.sample_weight):
        assert not array[padding].any()
    assert (np.diff(padding.astype(int)) >= 0).all()  # at the end
    again = pack(given, 11)
    np.testing.assert_array_equal(again.inputs["tokens"], tokens)


def test_the_first_row_with_room_takes_a_text():
    rows = pack(texts((4, 3, 3, 2, 1)), 7)
    # 4 and 3 fill a row; then 3, 2 and 1.
    assert rows.rows.tolist() == [0, 0, 1, 1, 1]
    assert rows.segments.tolist() == [1, 2, 1, 2, 3]


def test_labels_of_texts():
    labels = np.arange(2 * len(LENGTHS)).reshape(-1, 2) + 1.0
    rows = pack(texts(), 11, labels, max_segments=2)
    assert rows.labels.shape == (5, 2, 2)
    np.testing.assert_array_equal(rows.labels[rows.rows, rows.segments - 1], labels)
    assert rows.sample_weight.sum() == len(LENGTHS)
    assert not rows.labels[rows.sample_weight == 0].any()
    assert pack(texts(), 11, labels).labels.shape == (4, 3, 2)


def test_an_array_ends_in_padding_and_a_list_does_not():
    array = np.array([[5, 9, 0, 0], [0, 3, 4, 0], [7, 7, 7, 7]])
    lengths = [(row > 0).sum() for row in pack(array, 9).inputs["segment_ids"]]
    assert lengths == [9]
    lengths = [(row > 0).sum() for row in pack(array.tolist(), 9).inputs["segment_ids"]]
    assert lengths == [8, 4]
    rows = pack([[5, 6]], 4, pad=50)
    assert rows.inputs["tokens"].tolist() == [[5, 6, 50, 50]]
    assert rows.labels.tolist() == [[6, 50, 50, 50]]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ([[1, 2], [3] * 5], 4),
            r"texts of 1 to `length` integers.*text 1 .*\(5,\), length=4",
        ),
        (([], 4), "`sequences` must hold a text. Received: none"),
        (
            ([[1], []], 4),
            r"of 1 to `length` integers .* Received: text 1 .*shape=\(0,\)",
        ),
        (
            ([[1.5]], 4),
            "of 1 to `length` integers .* Received: text 0 with dtype=float64",
        ),
        (([[3, 2**32 + 1]], 4), "of 32 bits. .* dtype=int64.*, from 3 to 4294967297"),
        (
            (["a dog"], 4),
            "of 1 to `length` integers .* Received: text 0 with dtype=<U5",
        ),
        (
            (np.zeros((1, 3), int), 4),
            r"of 1 to `length` integers .* Received: text 0 .*\(0,\)",
        ),
        (
            ([[1]], 0),
            "`length` must be a whole number of at least 1. .*=0",
        ),
        (([[1]], 4, [1, 2]), "one label for each text. Received: 2 labels, 1 texts"),
        (
            ([[1]], 4, [1], 0),
            "`max_segments` must be a whole number of at least 1",
        ),
    ],
)
def test_bad_input_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        pack(*arguments)
