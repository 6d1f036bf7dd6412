"""The reader of Flickr8k's format, on files made here."""

import numpy as np
import pytest

from keras_attention.datasets import DamagedDataError, DataNotFoundError, flickr8k
from keras_attention.text import Vocabulary

NAMES = ("1_a.jpg", "2_b.jpg", "3_c.jpg", "2_b.jpg.1")
CAPTIONS = {
    "1_a.jpg": ("A dog , and a cat .", "Two animals #1"),
    "2_b.jpg": ('A "child" climbs .', "A girl\t on stairs ."),
    "3_c.jpg": ("A boy",),
    "2_b.jpg.1": ("The same girl",),
}
PLAIN = {**CAPTIONS, "2_b.jpg": ('A "child" climbs .', "A girl on stairs .")}


@pytest.fixture
def folder(tmp_path):
    """The files as the authors name them."""
    lines = [
        f"{name}#{n}\t{text}"
        for name, texts in CAPTIONS.items()
        for n, text in enumerate(texts)
    ]
    text = "\n".join(lines) + "\n"
    (tmp_path / "Flickr8k.token.txt").write_text(text, encoding="utf-8")
    for split, names in (("train", "3_c.jpg\n1_a.jpg\n"), ("dev", "2_b.jpg\r\n")):
        path = tmp_path / f"Flickr_8k.{split}Images.txt"
        path.write_bytes(names.encode())
    images = tmp_path / "Flicker8k_Dataset"
    images.mkdir()
    for name in NAMES[:3]:
        (images / name).write_bytes(b"")
    return tmp_path


def write(path, *lines):
    path.write_bytes(
        b"\n".join(x if isinstance(x, bytes) else x.encode() for x in lines)
    )
    return path


def test_the_files_of_the_authors(folder):
    assert flickr8k.read_captions(folder / "Flickr8k.token.txt") == CAPTIONS
    assert [*flickr8k.load(folder).names] == [*NAMES]
    train = flickr8k.load(folder, "train")
    assert train.names == ("3_c.jpg", "1_a.jpg")  # in the order of the list
    assert train.captions == (CAPTIONS["3_c.jpg"], CAPTIONS["1_a.jpg"])
    assert train.images is None
    assert flickr8k.load(folder, "dev").names == ("2_b.jpg",)


def test_the_folder_of_the_environment(folder, monkeypatch):
    (folder / "flickr8k").symlink_to(folder, target_is_directory=True)
    monkeypatch.setenv("KERAS_ATTENTION_DATA", str(folder))
    assert flickr8k.load(split="dev").names == ("2_b.jpg",)
    # Without the variable, the folder is that of the process.
    monkeypatch.delenv("KERAS_ATTENTION_DATA")
    monkeypatch.chdir(folder)
    assert flickr8k.load(split="dev").names == ("2_b.jpg",)


def test_the_table_of_kaggle(tmp_path):
    rows = [
        f"{name},{text}"
        for name, text in (
            ("1_a.jpg", '"A dog , and a cat ."'),
            ("1_a.jpg", "Two animals #1"),
            ("2_b.jpg", '"A ""child"" climbs ."'),
            ("2_b.jpg", " A girl on stairs . "),
            ("3_c.jpg", "A boy"),
            ("2_b.jpg.1", "The same girl"),
        )
    ]
    path = write(tmp_path / "captions.txt", b"\xef\xbb\xbfimage,caption\r", *rows, "")
    assert flickr8k.read_captions(path) == PLAIN
    assert flickr8k.load(tmp_path).captions == tuple(PLAIN.values())
    message = r"Flickr_8k\.trainImages\.txt: captions.txt has no splits; use split=None"
    with pytest.raises(DataNotFoundError, match=message):
        flickr8k.load(tmp_path, "train")


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["a.jpg#0\tA", "a.jpg A"], r"txt, line 2 must be name#number<TAB>caption.*'a"),
        (["a.jpg#0\tA", "", "a.jpg#x\tA"], r"line 3 must be .*Received: 'a\.jpg#x"),
        (["a.jpg#0\t "], r"line 1 must be name#number"),
        (["#0\tA"], r"line 1 must be name#number"),
        (["a.jpg#1\tA", "a.jpg#1\tB"], "line 2 has a caption that was there before"),
        (
            ["image,text", "a.jpg,A"],
            r"line 1 must be the header image,caption of .*image,text",
        ),
        (["image,caption", "a.jpg,A", "a.jpg"], "line 3 must be an image and a cap"),
        (["image,caption", 'a.jpg,"A dog'], "line 2 must be an image and a caption"),
        (["image,caption", "a.jpg,A dog, a cat"], "line 2 must be an image and a"),
        (["image,caption", ",A dog"], "line 2 must be an image and a caption"),
        (["image,caption", ""], "has no captions"),
        ([""], "has no captions"),
        (["a.jpg#0\tA", b"a.jpg#1\t\xff"], "line 2: not UTF-8"),
    ],
)
def test_a_malformed_line_is_named(lines, message, tmp_path):
    path = write(tmp_path / "made.txt", *lines)
    with pytest.raises(DamagedDataError, match=message):
        flickr8k.read_captions(path)


def test_a_damaged_split_is_named(folder):
    path = write(folder / "Flickr_8k.testImages.txt", "1_a.jpg", "", "1_a.jpg")
    with pytest.raises(DamagedDataError, match=r"Images\.txt, line 3 repeats line 1"):
        flickr8k.load(folder, "test")
    write(path, "")
    with pytest.raises(DamagedDataError, match=r"Images\.txt has no names"):
        flickr8k.load(folder, "test")
    write(path, "1_a.jpg", *(f"{n}.jpg" for n in range(7)))
    message = r"without captions in .*token.txt: 0\.jpg, .*4\.jpg and 2 more"
    with pytest.raises(DamagedDataError, match=message):
        flickr8k.load(folder, "test")
    with pytest.raises(ValueError, match=r"`split` must be None or one of .*'val'"):
        flickr8k.load(folder, "val")
    with pytest.raises(DataNotFoundError, match=r"nowhere has neither .*8k-pictures"):
        flickr8k.load(folder / "nowhere")


def test_images_of_a_folder(folder):
    images = folder / "Flicker8k_Dataset"
    train = flickr8k.load(folder, "train", images)
    assert train.images == [images / "3_c.jpg", images / "1_a.jpg"]
    assert train.missing == ()
    with pytest.raises(DataNotFoundError, match=r"no images for 1 of 4 .* 2_b\.jpg\.1"):
        flickr8k.load(folder, images=images)
    found = flickr8k.load(folder, images=images, allow_missing=True)
    assert found.names == NAMES[:3]
    assert found.missing == ("2_b.jpg.1",)
    assert found.captions == tuple(CAPTIONS[name] for name in NAMES[:3])
    (folder / "empty").mkdir()
    with pytest.raises(DataNotFoundError, match="no images for 4 of 4 names"):
        flickr8k.load(folder, images=folder / "empty", allow_missing=True)
    with pytest.raises(DataNotFoundError, match="`images` must be a folder, an NPZ"):
        flickr8k.load(folder, images=folder / "nowhere")


def test_features_of_npz_files(folder):
    rng = np.random.default_rng(0)
    whole = rng.normal(size=(3, 4, 5)).astype("float32")
    named = dict(zip(("1_a", "2_b", "3_c", "other"), (*whole, np.zeros(2))))
    np.savez(folder / "each.npz", **named)
    np.savez(folder / "table.npz", names=np.array(NAMES[:3]), features=whole)
    mapping = dict(zip(NAMES, whole))
    for images in (folder / "each.npz", folder / "table.npz", mapping):
        train = flickr8k.load(folder, "train", images)
        np.testing.assert_array_equal(train.images, whole[[2, 0]])
        assert train.images.dtype == np.float32
    with pytest.raises(DataNotFoundError, match=r"each\.npz has no images for 1 of 4"):
        flickr8k.load(folder, images=folder / "each.npz")


def test_features_of_unequal_number_are_padded():
    captions = {"a": ["one"], "b": ["two"]}
    rng = np.random.default_rng(0)
    regions = {"a": rng.normal(size=(2, 5)), "b": rng.normal(size=(3, 5))}
    found = flickr8k.pair(captions, regions).images
    assert found.shape == (2, 3, 5)
    np.testing.assert_array_equal(found[0, :2], regions["a"])
    np.testing.assert_array_equal(found[1], regions["b"])
    assert not found[0, 2].any()
    for other in (np.zeros((3, 4)), np.zeros(5), np.zeros((2, 2, 5))):
        with pytest.raises(DamagedDataError, match=r"The features of b must have the"):
            flickr8k.pair(captions, {**regions, "b": other})


@pytest.mark.parametrize(
    ("first", "second", "common"),
    [
        ("int64", "float32", "float64"),
        ("float16", "float32", "float32"),
        ("bool", "uint8", "uint8"),
        ("float32", "float32", "float32"),
    ],
)
def test_features_of_other_dtypes_lose_no_values(first, second, common):
    captions = {"a": ["one"], "b": ["two"]}
    half = np.full(2, 0.5).astype(second)
    features = {"a": np.ones(2, first), "b": half}
    for names in ("ab", "ba"):  # in both orders
        given = {name: captions[name] for name in names}
        found = flickr8k.pair(given, features).images
        assert found.dtype == common
        np.testing.assert_array_equal(found[names.index("a")], [1, 1])
        np.testing.assert_array_equal(found[names.index("b")], half)


def test_no_captions_are_refused(tmp_path):
    for images in ({}, {"a": np.zeros(2)}, tmp_path):
        with pytest.raises(ValueError, match="`captions` must hold at least one image"):
            flickr8k.pair({}, images)


@pytest.mark.parametrize("images", [["a.jpg"], True, np.zeros((1, 4, 5))])
def test_images_without_names_are_refused(images):
    message = (
        r"`images` must be a folder, .* pass dict\(zip\(names, array\)\)\. Received"
    )
    with pytest.raises(ValueError, match=message):
        flickr8k.pair({"a.jpg": ["one"]}, images)


def test_arrays_that_do_not_fit_are_refused(tmp_path):
    captions = {"a": ["one"]}
    for names in (["a", "a"], ["a"]):
        np.savez(tmp_path / "x.npz", names=np.array(names), features=np.zeros((2, 3)))
        with pytest.raises(DamagedDataError, match=r"`names` \(K,\), each once, and"):
            flickr8k.pair(captions, tmp_path / "x.npz")
    np.save(tmp_path / "x.npy", np.zeros((2, 3)))
    with pytest.raises(DamagedDataError, match=r"x\.npy must be an NPZ file"):
        flickr8k.pair(captions, tmp_path / "x.npy")


def test_vectors_of_captions():
    words = Vocabulary(["a", "dog", "cat"])
    data = flickr8k.Captioned(("x", "y"), (("A dog", "a bird"), ("A cat and a dog",)))
    rows, target, labels = flickr8k.vectorize(data, words)
    assert rows.tolist() == [0, 0, 1]
    assert target[0].tolist() == [2, 4, 5, 0, 0, 0]
    assert labels[0].tolist() == [4, 5, 3, 0, 0, 0]
    assert labels[1].tolist() == [4, 1, 3, 0, 0, 0]
    assert labels[2].tolist() == [4, 6, 1, 4, 5, 3]
    rows, target, labels = flickr8k.vectorize(data, words, length=3)
    assert rows.tolist() == [0, 0]  # the longer caption is left out
    assert target.shape == labels.shape == (2, 3)
    with pytest.raises(ValueError, match=r"`length` must be greater than .*length=2"):
        flickr8k.vectorize(data, words, length=2)
    with pytest.raises(ValueError, match=r"`vocabulary` must have .*vocabulary=100"):
        flickr8k.vectorize(data, 100)
