"""Pairs of sentences: the formats, the vectors, the buckets, the real files."""

import gzip
import os
import zipfile

import numpy as np
import pytest
from calling import DATA, needs_file

from keras_attention.datasets import (
    DamagedDataError,
    DataNotFoundError,
    UnsafeArchiveError,
    files,
    translation,
)
from keras_attention.datasets.translation import Pair, Vocabulary, corpora

needs_multi30k = needs_file("multi30k")
needs_tatoeba = needs_file("tatoeba", "nld-eng.zip")
ENGLISH = "A green kite.\nTwo kites, one string.\n Where is the kite? \n"
GERMAN = "Ein grüner Drachen.\nZwei Drachen, eine Schnur.\nWo ist der Drachen?\n"
TABBED = "Kite!\tVlieger!\tCC #1 (zoe) & #2 (max)\nA kite.\tEen vlieger.\tCC #3\n"


@pytest.fixture
def folder(tmp_path):
    for stem in ("train", "val", "test_2016_flickr"):
        for language, text in (("en", ENGLISH), ("de", GERMAN)):
            path = tmp_path / f"{stem}.{language}.gz"
            path.write_bytes(gzip.compress(text.encode()))
    return tmp_path


@pytest.fixture
def nowhere(tmp_path, monkeypatch):
    monkeypatch.setenv("KERAS_ATTENTION_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("KERAS_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(files, "_probe", lambda url, seconds: "no network")
    return tmp_path


def zipped(path, members):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path


def test_multi30k_format(folder):
    pairs = translation.load("multi30k", "train", path=folder)
    assert pairs[0] == Pair("A green kite.", "Ein grüner Drachen.", "")
    assert [pair.source for pair in pairs][2] == "Where is the kite?"
    back = translation.load("multi30k", "test", source="de", target="en", path=folder)
    assert [(p.target, p.source) for p in back] == [p[:2] for p in pairs]
    assert translation.load("multi30k", "valid", "de", path=folder) == back


def test_files_may_be_plain(tmp_path):
    source, target = tmp_path / "a.en", tmp_path / "a.de"
    source.write_bytes(b"\xef\xbb\xbfone\r\n\r\nthree")  # a mark and DOS lines
    target.write_bytes("eins\nzwei\u2028\ndrei\n".encode())  # \u2028 ends no line
    assert translation.read_files(source, target) == [
        ("one", "eins", ""),
        ("", "zwei", ""),
        ("three", "drei", ""),
    ]


def test_tatoeba_format(tmp_path):
    members = {"_about.txt": "terms", "nld.txt": TABBED}
    path = zipped(tmp_path / "mine.zip", members)
    pairs = translation.load("tatoeba", "all", path=path)
    first = Pair("Kite!", "Vlieger!", "CC #1 (zoe) & #2 (max)")
    assert pairs == [first, Pair("A kite.", "Een vlieger.", "CC #3")]
    (back, _) = translation.load("tatoeba", "all", "nl", path=path)
    assert back == Pair("Vlieger!", "Kite!", first.attribution)
    plain = tmp_path / "two.txt"
    plain.write_text("Kite!\tVlieger!\n", encoding="utf-8")
    assert translation.read_tabbed(plain) == [Pair("Kite!", "Vlieger!")]


def test_pairs_are_linked_by_shared_sentences():
    texts = ["a x", "b y", "c y", "x a", "d x", "e w", "c w", "d d"]
    pairs = [Pair(*text.split()) for text in texts]
    assert corpora._groups(pairs) == [0, 1, 1, 3, 0, 1, 1, 0]


def test_tatoeba_splits_keep_a_sentence_together(tmp_path):
    path = tmp_path / "many.txt"
    lines = [f"Kite {i // 3}.\tVlieger {i // 2}.\n" for i in range(6)]
    lines += [f"Kite {i // 3}.\tVlieger {i}.\n" for i in range(6, 1803)]
    path.write_text("".join(lines), encoding="utf-8")
    parts = [
        translation.load("tatoeba", split, path=path)
        for split in ("train", "valid", "test")
    ]
    assert sorted(parts[0] + parts[1] + parts[2]) == sorted(
        translation.read_tabbed(path)
    )
    train, valid, test = ({pair.source for pair in part} for part in parts)
    assert not train & valid
    assert not train & test
    assert not valid & test
    assert len(train) > 8 * len(test) > 0
    assert valid
    train, valid, test = ({pair.target for pair in part} for part in parts)
    assert not train & valid
    assert not train & test
    assert not valid & test
    for back, part in zip(("train", "valid", "test"), parts, strict=True):
        again = translation.load("tatoeba", back, "nl", "en", path=path)
        assert [pair.source for pair in again] == [pair.target for pair in part]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("wmt",), "'multi30k' or 'tatoeba'. Received: name='wmt'"),
        (("multi30k", "all"), "one of train, valid, test. Received: split='all'"),
        (("tatoeba", "dev"), "train, valid, test, all. Received: split='dev'"),
        (("multi30k", "train", "en", "fr"), "source='en', target='fr'"),
        (("multi30k", "train", "cs"), "'en' and 'de', .* source='cs', target='en'"),
        (("tatoeba", "train", "en", "en"), "'en' and 'nl', .* target='en'"),
    ],
)
def test_load_refuses(arguments, message):
    with pytest.raises(ValueError, match=message):
        translation.load(*arguments)


def test_unequal_lengths_name_the_line(folder):
    path = folder / "train.en.gz"
    path.write_bytes(gzip.compress((ENGLISH + "A fourth.\n").encode()))
    message = "line 4 of .*train.en.gz has no counterpart. Received: 4 and 3 lines"
    with pytest.raises(DamagedDataError, match=message):
        translation.load("multi30k", path=folder)
    path.write_bytes(gzip.compress(b"A green kite.\n"))
    message = "line 2 of .*train.de.gz has no counterpart. Received: 1 and 3 lines"
    with pytest.raises(DamagedDataError, match=message):
        translation.load("multi30k", path=folder)


def test_undecodable_text_names_file_and_line(folder, tmp_path):
    (folder / "val.de.gz").write_bytes(gzip.compress(GERMAN.encode("latin-1")))
    message = "val.de.gz, line 1: is not UTF-8 text .*byte 0xfc"
    with pytest.raises(DamagedDataError, match=message):
        translation.load("multi30k", "valid", path=folder)
    path = tmp_path / "t.txt"
    path.write_bytes(TABBED.encode() + b"\xff\tx\n")
    with pytest.raises(DamagedDataError, match=r"t.txt, line 3: is not UTF-8"):
        translation.read_tabbed(path)


@pytest.mark.parametrize("line", ["Kite!", "\tVlieger!", "a\tb\tc\td", "", "a\t "])
def test_malformed_lines_are_named(tmp_path, line):
    path = tmp_path / "t.txt"
    path.write_text(f"{TABBED}{line}\n", encoding="utf-8")
    with pytest.raises(DamagedDataError, match=r"t.txt, line 3: must be a text, a tab"):
        translation.read_tabbed(path)


@pytest.mark.parametrize("name", ["multi30k", "tatoeba"])
def test_missing_files_say_what_to_try(nowhere, name):
    with pytest.raises(DataNotFoundError) as caught:
        translation.load(name)
    message = str(caught.value)
    assert "KERAS_ATTENTION_DATA names a folder that is not there" in message
    assert "Keras' cache has no file" in message
    assert "cannot be reached: no network" in message
    assert "Next: download http" in message
    with pytest.raises(DataNotFoundError, match=r"There is no file .* Next: check"):
        translation.load(name, path=nowhere / "mine")


def test_the_folder_of_the_variable_is_read(folder, nowhere):
    (nowhere / "data" / "multi30k").mkdir(parents=True)
    for path in folder.glob("*.gz"):
        path.rename(nowhere / "data" / "multi30k" / path.name)
    assert len(translation.load("multi30k")) == 3


def test_damaged_archives(tmp_path, monkeypatch):
    path = tmp_path / "cut.zip"
    whole = zipped(path, {"nld.txt": TABBED}).read_bytes()
    path.write_bytes(whole[:-30])
    with pytest.raises(DamagedDataError, match=r"cut.zip is damaged"):
        translation.read_tabbed(path)
    path.write_bytes(gzip.compress(TABBED.encode())[:-9])
    with pytest.raises(DamagedDataError, match=r"cut.zip is damaged"):
        translation.read_tabbed(path)
    zipped(path, {"a.txt": "", "b.txt": ""})
    with pytest.raises(DamagedDataError, match=r"must have one `.txt` .*'b.txt'"):
        translation.read_tabbed(path)
    path.write_bytes(whole)
    monkeypatch.setattr(files, "ARCHIVE_LIMIT", 20)
    with pytest.raises(UnsafeArchiveError, match="more than 20 bytes"):
        translation.read_tabbed(path)


PAIRS = [("the red kite", "der Drachen"), ("a kite", "ein roter Drachen")]


def vocabularies():
    sides = zip(*PAIRS, strict=True)
    return [Vocabulary.from_sentences(side) for side in sides]


def test_vectorize():
    english, german = Vocabulary(["the", "kite"]), Vocabulary(["ein", "drachen"])
    vectors = translation.vectorize(PAIRS, english, german)
    inputs, labels = vectors
    assert inputs["source"].tolist() == [[4, 1, 5], [1, 5, 0]]
    assert inputs["target"].tolist() == [[2, 1, 5, 0], [2, 4, 1, 5]]
    assert labels.tolist() == [[1, 5, 3, 0], [4, 1, 5, 3]]
    assert {a.dtype.name for a in (*inputs.values(), labels)} == {"int32"}
    assert vectors.sample_weight.tolist() == [[1, 1, 1, 0], [1, 1, 1, 1]]
    assert vectors.sample_weight.dtype == np.float32


@pytest.mark.parametrize(
    ("reverse", "double", "first"),
    [
        (True, False, [6, 5, 4]),
        (False, True, [4, 5, 6, 4, 5, 6]),
        (True, True, [6, 5, 4, 6, 5, 4]),
    ],
)
def test_old_tricks(reverse, double, first):
    english, german = Vocabulary(["the", "red", "kite"]), vocabularies()[1]
    inputs, _ = translation.vectorize(PAIRS, english, german, reverse, double)
    assert inputs["source"][0].tolist() == first
    second = [x for x in inputs["source"][1].tolist() if x]
    assert second == ([6, 1] if reverse else [1, 6]) * (1 + double)


class Bytes:
    """Another kind of vocabulary, with a start and an end of its own."""

    start_token_id = 300
    end_token_id = 301

    def encode(self, text):
        return np.frombuffer(text.encode(), np.uint8)


def test_any_encoder_serves():
    inputs, labels = translation.vectorize([("ab", "c")], Bytes(), Bytes())
    assert inputs["source"].tolist() == [[97, 98]]
    assert inputs["target"].tolist() == [[300, 99]]
    assert labels.tolist() == [[99, 301]]


def test_vectorize_reports_progress():
    english, german = vocabularies()
    calls = []
    translation.vectorize(
        PAIRS * 1100, english, german, progress=lambda *counts: calls.append(counts)
    )
    assert calls == [(1000, 2200), (2000, 2200), (2200, 2200)]


def test_vectorize_refuses():
    english, german = vocabularies()
    with pytest.raises(ValueError, match=r"at least one. Received: pairs=\[\]"):
        translation.vectorize([], english, german)
    with pytest.raises(ValueError, match=r"source of pairs\[1\] has no .* ' '"):
        translation.vectorize([("a", "b"), (" ", "b")], english, german)
    message = r"`target_length` must be at least 4, which pairs\[1\] needs. .*=3"
    with pytest.raises(ValueError, match=message):
        translation.vectorize(PAIRS, english, german, target_length=3)
    with pytest.raises(ValueError, match=r"target of pairs\[0\] must .*\[0\] for"):
        translation.vectorize([("a", "\0")], english, Bytes())


def ragged(seed=0, count=101, longest=17):
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, longest + 1, (2, count))
    values = rng.integers(4, 50, (2, count, longest))
    source, labels = values * (np.arange(longest) < lengths[..., None])
    return {"source": source, "target": np.roll(labels, 1, 1)}, labels, lengths


@pytest.mark.parametrize("seed", [None, 3])
def test_each_example_counts_once(seed):
    inputs, labels, _ = ragged()
    batches = translation.buckets(inputs, labels, 7, (5, 11, 18), seed)
    assert len(batches) == 15  # 101 of 7
    counted = []
    for index, (x, y, weight) in enumerate(batches):
        width = y.shape[1]
        assert width in (5, 11, 18)
        assert x["source"].shape == x["target"].shape == weight.shape == (7, width)
        for row, i in enumerate(batches.rows(index)):
            for array, all_of_it in ((x["source"], inputs["source"]), (y, labels)):
                assert array[row][array[row] > 0].tolist() == [
                    *filter(None, all_of_it[i])
                ]
            if weight[row].any():
                np.testing.assert_array_equal(weight[row], y[row] != 0)
                counted.append(i)
    assert sorted(counted) == list(range(101))
    with pytest.raises(IndexError):
        batches[15]


def test_examples_go_to_the_least_width():
    inputs, labels, _ = ragged(count=211)
    lengths = np.stack(
        [((a != 0) * np.arange(1, 18)).max(1) for a in (*inputs.values(), labels)]
    ).max(0)
    batches = translation.buckets(inputs, labels, 5, (6, 13, 17))
    late = 0
    for index, (_, y, _) in enumerate(batches):
        widths = np.array([6, 13, 17])[np.searchsorted([6, 13, 17], lengths)]
        mine = widths[batches.rows(index)]
        assert np.all(mine <= y.shape[1])
        late += np.sum(mine < y.shape[1])
    assert late <= 2 * 4  # what was left over of the two narrower widths


def test_shuffle():
    inputs, labels, _ = ragged()

    def order(batches):
        return [batches.rows(i).tolist() for i in range(len(batches))]

    batches = translation.buckets(inputs, labels, 7, (9, 17), seed=1)
    assert batches.epoch == 0
    first = order(batches)
    batches.shuffle(1)
    assert batches.epoch == 1
    assert order(batches) != first
    batches.shuffle(0)
    assert order(batches) == first
    assert order(translation.buckets(inputs, labels, 7, (9, 17), seed=1)) == first
    assert order(translation.buckets(inputs, labels, 7, (9, 17), seed=2)) != first
    still = translation.buckets(inputs, labels, 7, (9, 17), seed=None)
    before = order(still)
    still.shuffle(4)
    assert order(still) == before


def test_widths_by_default():
    inputs, labels, _ = ragged(count=401, longest=40)
    batches = translation.buckets(inputs, labels, 3)
    assert len(batches.widths) == 4
    assert batches.widths[-1] == 40
    one = translation.buckets({"source": np.ones((2, 9), int)}, np.ones((2, 3), int), 5)
    assert one.widths == (9,)
    ((x, y, weight),) = one
    assert x["source"].shape == y.shape == (5, 9)
    assert weight.sum() == 6  # two examples; three to fill up


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"batch_size": 0}, "`batch_size` must .* Received: batch_size=0"),
        ({"widths": ()}, r"that ascend. Received: widths=\(\)"),
        ({"widths": (9, 9, 17)}, r"that ascend. Received: widths=\(9, 9, 17\)"),
        ({"widths": (5, 9)}, r"must end in 17 at least, the length of example \d+"),
        ({"labels": np.ones((3, 2))}, r"equally many .* 'labels': \(3, 2\)"),
        ({"labels": np.ones(101)}, r"two axes .* 'labels': \(101,\)"),
    ],
)
def test_buckets_refuse(change, message):
    inputs, labels, _ = ragged()
    arguments = {"inputs": inputs, "labels": labels, "batch_size": 4, **change}
    with pytest.raises(ValueError, match=message):
        translation.buckets(**arguments)


def test_published_checksums_are_whole():
    for sha256, size in corpora._MULTI30K_FILES.values():
        assert len(bytes.fromhex(sha256)) == 32
        assert size > 0


@needs_multi30k
@pytest.mark.parametrize(
    ("split", "count"), [("train", 29_000), ("valid", 1_014), ("test", 1_000)]
)
def test_real_multi30k(split, count):
    pairs = translation.load("multi30k", split, source="en", target="de")
    assert len(pairs) == count
    assert all(pair.source and pair.target for pair in pairs)
    for language in ("en", "de"):
        name = f"{corpora._STEMS[split]}.{language}.gz"
        known = corpora._MULTI30K_FILES[name]
        source = files.Source("https://example.org", *known, unpacked=True)
        assert source.mismatch(os.path.join(DATA, "multi30k", name)) is None
    english = Vocabulary.from_sentences(pair.source for pair in pairs)
    assert not any(1 in english.encode(pair.source) for pair in pairs)


@pytest.mark.slow
@needs_tatoeba
def test_real_tatoeba():
    pairs = translation.load("tatoeba", "all")
    assert len(pairs) == 52_652
    assert all(pair.attribution.startswith("CC-BY 2.0 (France)") for pair in pairs)
    parts = [translation.load("tatoeba", s) for s in ("train", "valid", "test")]
    assert sum(map(len, parts)) == len(pairs)
    for side in (0, 1):
        train, valid, test = ({pair[side] for pair in part} for part in parts)
        assert not train & test
        assert not train & valid
        assert not valid & test
    path = os.path.join(DATA, "tatoeba", "nld-eng.zip")
    assert corpora._TATOEBA.mismatch(path) is None
