"""Digits on canvases: captions that are true, boxes, scores of attention, files."""

import gzip

import numpy as np
import pytest
from calling import needs_data

from keras_attention.datasets import (
    DamagedDataError,
    DataNotFoundError,
    canvases,
    mnist,
)


def made(count=30, side=13):
    """Digits of random ink; each picture is of one grey, which tells it apart."""
    random = np.random.default_rng(0)
    images = np.zeros((count, side, side), np.uint8)
    for i, image in enumerate(images):
        top, left = random.integers(side - 3, size=2)
        bottom, right = random.integers((top + 2, left + 2), side + 1)
        image[top:bottom, left:right] = i + 1
    return mnist.Digits(images, (np.arange(count) % 10).astype(np.uint8))


# Canvases


@pytest.fixture(scope="module")
def drawn():
    return canvases.generate(211, seed=1, size=37, digits=made())


def test_boxes_hold_all_the_ink(drawn):
    assert drawn.images.shape == (211, 37, 37, 1)
    assert drawn.images.dtype == np.float32
    assert drawn.digits.shape == (211, 2)
    assert drawn.boxes.shape == (211, 2, 4)
    for image, digits, boxes in zip(drawn.images, drawn.digits, drawn.boxes):
        rest = image.copy()
        for digit, (top, left, bottom, right) in zip(digits, boxes):
            if digit < 0:
                assert (top, left, bottom, right) == (-1, -1, -1, -1)
                continue
            assert 0 <= top < bottom <= 37
            assert 0 <= left < right <= 37
            ink = rest[top:bottom, left:right]
            grey = round(float(ink.max()) * 255) - 1
            assert grey % 10 == digit
            assert ink[0].any()
            assert ink[-1].any()
            assert ink[:, 0].any()
            assert ink[:, -1].any()
            ink[:] = 0
        assert not rest.any()


def test_captions_are_true(drawn):
    kinds = set()
    for caption, digits, (one, other) in zip(
        drawn.captions, drawn.digits, drawn.boxes.tolist()
    ):
        relation = caption[4:-4]
        kinds.add(relation)
        if not relation:
            assert caption == f"a {digits[0]}"
            assert digits[1] == -1
            continue
        assert caption == f"a {digits[0]} {relation} a {digits[1]}"
        along, across = (1, 0) if relation == "left of" else (0, 1)
        assert other[along] - one[along + 2] >= 4
        middles = [box[across] + box[across + 2] for box in (one, other)]
        assert abs(middles[0] - middles[1]) / 2 <= 7
    assert kinds == {"", "left of", "above"}


def test_places_are_spread_over_the_canvas():
    drawn = canvases.generate(500, size=37, relations=["alone"], digits=made())
    assert (drawn.images.sum(0) > 0).mean() > 0.99
    assert all(len(caption) == 3 for caption in drawn.captions)
    for relation in ("left of", "above"):
        pairs = canvases.generate(900, size=37, relations=[relation], digits=made())
        assert (pairs.images.sum(0) > 0).mean() > 0.99


def test_parts_share_no_picture():
    greys = {}
    for part in ("train", "test"):
        drawn = canvases.generate(300, part=part, size=37, digits=made())
        greys[part] = set(np.unique(np.round(drawn.images * 255)).astype(int)) - {0}
    assert not greys["train"] & greys["test"]
    assert len(greys["train"]) == 24
    assert len(greys["test"]) == 6


def test_a_seed_gives_the_same_canvases():
    one, again, other = (
        canvases.generate(11, seed=s, size=37, digits=made()) for s in (3, 3, 4)
    )
    assert one.captions == again.captions
    np.testing.assert_array_equal(one.images, again.images)
    assert one.captions != other.captions
    # The smallest canvas that may be needed.
    inks = made(count=10)
    inks.images[:] = 9
    canvases.generate(20, size=30, digits=inks)
    with pytest.raises(ValueError, match=r"`size` must be .* at least 30.* size=29"):
        canvases.generate(20, size=29, digits=inks)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"count": -1}, "`count` must be .* count=-1"),
        ({"part": "val"}, "`part` must be 'train' or 'test'. Received: part='val'"),
        ({"relations": []}, r"`relations` must be .* relations=\[\]"),
        ({"relations": "above"}, "`relations` must be a sequence"),
        ({"relations": ["below"]}, r"relations=\['below'\]"),
        ({"size": 37.0}, "`size` must be a whole number .*size=37.0"),
    ],
)
def test_generate_says_what_is_wrong(arguments, message):
    with pytest.raises(ValueError, match=message):
        canvases.generate(**{"count": 3, "size": 37, "digits": made(), **arguments})


def test_wrong_digits_are_refused():
    images, labels = made()
    empty = images.copy()
    empty[3] = 0
    cases = [
        ((images[:4], labels[:4]), "at least 5 uint8 images"),
        ((images, labels[1:]), r"labels of shape \(29,\)"),
        ((images.astype("float32"), labels), "uint8 images .* float32"),
        ((images, labels + 1), "labels from 0 to 9. Received: 10"),
        ((empty, labels), r"must have ink. Received: digits.images\[3\]"),
    ]
    for digits, message in cases:
        with pytest.raises(ValueError, match=message):
            canvases.generate(3, size=37, digits=mnist.Digits(*digits))


# Arrays


def test_vectorize(drawn):
    vectors = canvases.vectorize(drawn)
    target, labels = vectors.inputs["target"], vectors.labels
    assert vectors.inputs["image"] is drawn.images
    assert target.shape == labels.shape == vectors.sample_weight.shape == (211, 7)
    assert target.dtype == labels.dtype == np.int32
    assert vectors.boxes.shape == (211, 7, 4)
    assert (target[:, 0] == 2).all()
    np.testing.assert_array_equal(vectors.sample_weight, labels > 0)
    for i, caption in enumerate(drawn.captions):
        assert canvases.VOCABULARY.decode(labels[i]) == caption
        assert canvases.VOCABULARY.decode(target[i]) == caption
        words = [canvases.VOCABULARY.tokens[n] for n in labels[i]]
        named = [box.tolist() for w, box in zip(words, vectors.boxes[i]) if w.isdigit()]
        assert named == [b.tolist() for b in drawn.boxes[i] if b[0] >= 0]
        others = [box for w, box in zip(words, vectors.boxes[i]) if not w.isdigit()]
        assert (np.array(others) == -1).all()


def test_a_caption_of_other_words_is_refused(drawn):
    for caption in ("a 3 below a 4", "a 3 left of a 7 a"):
        with pytest.raises(ValueError, match=rf"captions\[0\]='{caption}'"):
            canvases.vectorize(drawn._replace(captions=[caption]))


# Scores


def test_share_on_box_by_hand():
    # A canvas of 12 by 12 pixels under a grid of 2 rows and 3 columns.
    boxes = np.array([[[1, 2, 5, 6], [-1, -1, -1, -1], [6, 4, 12, 8], [0, 0, 1, 1]]])
    weights = np.array(
        [
            [
                [0.4, 0.3, 0.1, 0.1, 0.1, 0.0],
                [0.4, 0.3, 0.1, 0.1, 0.1, 0.0],
                [0.0, 0.0, 0.0, 0.5, 1.5, 0.0],  # need not sum to one
                [0.0] * 6,
            ]
        ]
    )
    share = canvases.share_on_box(weights, boxes, (2, 3), size=12)
    np.testing.assert_allclose(share, [[0.7, np.nan, 0.75, np.nan]])
    # The first box has 4 of 6 rows, and 2 of 4 columns in each of two cells.
    area = canvases.share_on_box(weights, boxes, (2, 3), size=12, by="area")
    np.testing.assert_allclose(area, [[0.7 / 3, np.nan, 0.75, np.nan]])


def test_share_on_box_of_a_canvas_that_is_not_square():
    boxes = np.array([[[0, 3, 2, 6]]])
    weights = np.arange(1, 7)[None, None] / 21
    share = canvases.share_on_box(weights, boxes, (3, 2), size=(6, 6))
    np.testing.assert_allclose(share, [[2 / 21]])
    share = canvases.share_on_box(weights, boxes, (3, 2), size=(3, 12))
    np.testing.assert_allclose(share, [[4 / 21]])


def test_all_attention_on_the_digit_scores_one(drawn):
    vectors = canvases.vectorize(drawn)
    top, left, bottom, right = np.moveaxis(vectors.boxes, -1, 0)[..., None, None]
    y, x = np.mgrid[:37, :37]
    weights = ((y >= top) & (y < bottom) & (x >= left) & (x < right)).reshape(
        211, 7, -1
    )
    for by in ("touch", "area"):
        share = canvases.share_on_box(weights, vectors.boxes, (37, 37), 37, by)
        np.testing.assert_allclose(share[vectors.boxes[..., 0] >= 0], 1)
        assert np.isnan(share[vectors.boxes[..., 0] < 0]).all()
        away = canvases.share_on_box(~weights, vectors.boxes, (37, 37), 37, by)
        np.testing.assert_allclose(np.nanmax(away), 0)


def test_share_on_box_says_what_is_wrong():
    boxes = np.zeros((2, 3, 4))
    for weights, grid in (((2, 3, 7), (2, 3)), ((2, 5, 6), (2, 3)), ((2, 6), (2, 3))):
        with pytest.raises(ValueError, match=r"`weights` must be \(B, T, rows"):
            canvases.share_on_box(np.ones(weights), boxes, grid)
    with pytest.raises(ValueError, match=r"`by` must be 'touch' or 'area'.*by='ink'"):
        canvases.share_on_box(np.ones((2, 3, 6)), boxes, (2, 3), by="ink")


# MNIST's files


def idx(array):
    head = bytes((0, 0, 8, array.ndim)) + np.array(array.shape, ">u4").tobytes()
    return head + array.tobytes()


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("KERAS_ATTENTION_DATA", str(tmp_path))
    (tmp_path / "mnist").mkdir()
    images, labels = made()
    for name, array in (("images-idx3", images), ("labels-idx1", labels)):
        packed = gzip.compress(idx(array))
        (tmp_path / "mnist" / f"t10k-{name}-ubyte.gz").write_bytes(packed)
    return tmp_path / "mnist"


def test_mnist_files(folder):
    images, labels = mnist.load("test")
    np.testing.assert_array_equal(images, made().images)
    np.testing.assert_array_equal(labels, made().labels)
    path = folder / "t10k-labels-idx1-ubyte.gz"
    path.write_bytes(idx(labels))  # not gzipped
    np.testing.assert_array_equal(mnist.load("test").labels, labels)
    path.write_bytes(idx(labels[1:]))
    with pytest.raises(DamagedDataError, match=r"30 digits, .* labels of 29"):
        mnist.load("test")
    with pytest.raises(ValueError, match=r"`split` must be 'train' or 'test'.*'val'"):
        mnist.load("val")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (idx(made().labels)[:-1], "must have 38 bytes, and it has 37"),
        (idx(made().labels) + b"x", "must have 38 bytes, and it has 39"),
        (idx(made().images), "no IDX file of unsigned bytes with 1 axes"),
        (b"", "no IDX file"),
        (gzip.compress(idx(made().labels), mtime=0)[:-9], "is truncated or altered"),
    ],
)
def test_damaged_files_are_named(content, message, folder):
    path = folder / "t10k-labels-idx1-ubyte.gz"
    path.write_bytes(content)
    with pytest.raises(DamagedDataError, match=rf"t10k-labels.*{message}"):
        mnist.load("test")
    with pytest.raises(DataNotFoundError, match="There is no file"):
        mnist.read_idx(folder / "nowhere", 1)


@needs_data
def test_canvases_of_real_digits():
    images, labels = mnist.load("test")
    assert images.shape == (10_000, 28, 28)
    assert np.bincount(labels).tolist() == [
        *(980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009)
    ]
    drawn = canvases.generate(53, part="test")
    assert drawn.images.shape == (53, 64, 64, 1)
    assert drawn.images.min() == 0
    assert 0.9 < drawn.images.max() <= 1
    assert canvases.generate(3, size=56).images.shape[1] == 56
