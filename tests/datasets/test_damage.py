"""Damaged files: bytes cut, flipped and put in, by seed.

A reader returns something, or raises a ValueError or an OSError that names the file.
"""

import gzip
import io
import struct
import tarfile
import zipfile
import zlib

import numpy as np
import pytest

from keras_attention.datasets import (
    archives,
    babi,
    bags,
    files,
    graphs,
    mnist,
    sentences,
    translation,
    triples,
)
from keras_attention.datasets.babi.vectors import Vocabulary as BabiVocabulary
from keras_attention.text import Vocabulary
from keras_attention.text.encoding import decode_text

CASES = 40  # of each kind of file
STORY = "1 Mary went to the kitchen.\n2 Where is Mary?\tkitchen\t1\n" * 3


def element(kind, data):
    return struct.pack("<II", kind, len(data)) + data + bytes(-len(data) % 8)


def matrix(name, kind, shape, *values):
    """A variable of a MATLAB file; `values` are pairs of a type and bytes."""
    flags = element(6, struct.pack("<II", kind, 0))
    shape = element(5, struct.pack(f"<{len(shape)}i", *shape))
    parts = b"".join(element(*value) for value in values)
    return element(14, flags + shape + element(1, name.encode()) + parts)


def ints(*numbers):
    return 5, struct.pack(f"<{len(numbers)}i", *numbers)


def doubles(*numbers):
    return 9, struct.pack(f"<{len(numbers)}d", *numbers)


def mat(*variables):
    return b"MATLAB 5.0 MAT-file".ljust(124) + b"\x00\x01IM" + b"".join(variables)


def instances(packed):
    variables = [
        matrix("features", 5, (3, 2), ints(0, 1, 2), ints(0, 1, 3), doubles(1, 2, 3)),
        matrix("bag_ids", 6, (1, 3), doubles(1, 1, 2)),
        matrix("labels", 6, (1, 3), doubles(1, 1, -1)),
    ]
    if packed:
        pack = [zlib.compress(variable) for variable in variables]
        variables = [struct.pack("<II", 15, len(data)) + data for data in pack]
    return mat(*variables)


def tar(format):
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=format) as archive:
        for name in ("en/qa1.txt", "ü" * 120 + "/b.txt"):
            info = tarfile.TarInfo(name)
            info.size = len(STORY)
            archive.addfile(info, io.BytesIO(STORY.encode()))
    return stream.getvalue()


def zipped():
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("nld.txt", "Go.\tGa.\tCC\nHi.\tHoi.\tCC\n" * 5)
    return stream.getvalue()


def saved(vocabulary, tmp_path):
    vocabulary.save(tmp_path / "saved.txt")
    return (tmp_path / "saved.txt").read_bytes()


def babi_story(path):
    return babi.parse(decode_text(path.read_bytes(), path), source=str(path))


IDX = bytes((0, 0, 8, 3)) + struct.pack(">3I", 2, 3, 4) + bytes(24)
READERS = {
    "x.mat": (bags.read_mat, lambda _: instances(packed=False)),
    "packed.mat": (bags.read_mat, lambda _: instances(packed=True)),
    "x.csv": (bags.read_table, lambda _: b"1,1,2.5,3\n1,1,0.5,1\n0,2,1,1\n"),
    "gnu.tar": (
        lambda path: archives.read_members(path, ["en/qa1.txt"]),
        lambda _: tar(tarfile.GNU_FORMAT),
    ),
    "pax.tar": (
        lambda path: archives.read_members(path, ["en/qa1.txt"]),
        lambda _: tar(tarfile.PAX_FORMAT),
    ),
    "x.tar.gz": (
        lambda path: archives.read_members(path, ["en/qa1.txt"]),
        lambda _: gzip.compress(tar(tarfile.GNU_FORMAT)),
    ),
    "story.txt": (babi_story, lambda _: STORY.encode()),
    "babi_words.txt": (
        BabiVocabulary.load,
        lambda folder: saved(BabiVocabulary(["kitchen", "mary"]), folder),
    ),
    "words.txt": (
        Vocabulary.load,
        lambda folder: saved(Vocabulary(["ein", "hund"]), folder),
    ),
    "text.tsv": (
        sentences.read_tabbed,
        lambda _: "good\t1\nschön\t0\n".encode(),
    ),
    "text.tsv.gz": (
        sentences.read_tabbed,
        lambda _: gzip.compress("good\t1\nschön\t0\n".encode()),
    ),
    "facts.txt": (triples.load, lambda _: b"Heat|directed_by|Mann\n" * 3),
    "map.csv": (
        graphs.read_network,
        lambda _: b"from,to,line\nA,B,red\nB,C,red\n",
    ),
    "stations.csv": (
        lambda path: graphs.read_railway(path, *others_of_a_railway(path.parent)),
        lambda _: (
            "id,latitude,longitude,name,zone\n1,51.5,-0.1,Böck,1\n2,51.6,-0.2,B,2\n"
        ).encode(),
    ),
    "idx.gz": (lambda path: mnist.read_idx(path, 3), lambda _: gzip.compress(IDX)),
    "idx": (lambda path: mnist.read_idx(path, 3), lambda _: IDX),
    "pairs.zip": (
        lambda path: translation.load("tatoeba", path=path),
        lambda _: zipped(),
    ),
}


def others_of_a_railway(folder):
    """The lines and connections of a railway, whole."""
    texts = {
        "lines.csv": "line,name,colour\n1,Red,FF0000\n",
        "connections.csv": "station1,station2,line\n1,2,1\n",
    }
    for name, text in texts.items():
        (folder / name).write_text(text, "utf-8")
    return [folder / name for name in texts]


def damaged(content, rng):
    """Cuts the end, flips bits, sets bytes, or doubles a part."""
    found = bytearray(content)
    kind = rng.integers(4)
    at = int(rng.integers(len(found)))
    if kind == 0:
        return bytes(found[:at])
    if kind == 1:
        for place in rng.integers(len(found), size=3):
            found[place] ^= 1 << int(rng.integers(8))
    elif kind == 2:
        values = rng.choice([0, 1, 0x7F, 0x80, 0xFF, 0xB2], size=4).astype("uint8")
        found[at : at + 4] = values.tobytes()
    else:
        found[at:at] = found[at : at + 8]
    return bytes(found)


@pytest.mark.parametrize("name", READERS)
def test_a_damaged_file_is_read_or_named(name, tmp_path):
    read, content = READERS[name]
    content = content(tmp_path)
    path = tmp_path / name
    path.write_bytes(content)
    read(path)  # the whole file is valid
    rng = np.random.default_rng(len(name))
    for _ in range(CASES):
        path.write_bytes(damaged(content, rng))
        try:
            read(path)
        except (ValueError, OSError) as error:
            assert name in str(error)  # noqa: PT017 - any of many errors


SPARSE = matrix("features", 5, (0, 0), ints(), ints(), doubles())
FRACTION = matrix("features", 5, (2, 1), doubles(0.5), ints(0, 1), doubles(1.0))
FLAGS = element(6, struct.pack("<II", 6, 0))
ENDLESS = element(
    14, FLAGS + element(*doubles(np.inf, 1.0)) + element(1, b"x") + element(*doubles(1))
)


@pytest.mark.parametrize("variable", [SPARSE, FRACTION, ENDLESS])
def test_shapes_and_indices_of_a_matlab_file(variable, tmp_path):
    path = tmp_path / "x.mat"
    path.write_bytes(mat(variable))
    with pytest.raises(files.DamagedDataError, match=r"x.mat is damaged.*Get it again"):
        bags.read_mat(path)


def test_a_tar_file_with_a_huge_member(tmp_path):
    info = tarfile.TarInfo("en/qa1.txt")
    info.size = 2**70
    path = tmp_path / "x.tar"
    path.write_bytes(info.tobuf(tarfile.GNU_FORMAT) + bytes(1024))
    with pytest.raises(files.DamagedDataError, match=r"x.tar is damaged"):
        archives.read_members(path, ["en/qa1.txt"])


@pytest.mark.parametrize(
    "name", ["x.csv", "story.txt", "words.txt", "text.tsv", "facts.txt", "map.csv"]
)
def test_a_byte_order_mark_is_skipped(name, tmp_path):
    read, content = READERS[name]
    content = content(tmp_path)
    plain, marked = tmp_path / name, tmp_path / f"marked_{name}"
    plain.write_bytes(content)
    marked.write_bytes(b"\xef\xbb\xbf" + content)
    assert repr(read(marked)) == repr(read(plain))


@pytest.mark.parametrize("number", ["²", "1" * 5000, "٢"])
def test_digits_that_are_no_number(number, tmp_path):
    story = f"1 Mary went home.\n2 Where is Mary?\thome\t{number}"
    with pytest.raises(ValueError, match="<text>, line 2: a supporting line must be"):
        babi.parse(story)
    with pytest.raises(ValueError, match="<text>, line 1: a line must be a number"):
        babi.parse(f"{number} Mary went home.")
    (tmp_path / "x.tsv").write_text(f"good\t{number}\n", "utf-8")
    with pytest.raises(ValueError, match=r"x.tsv, line 1: must be a text"):
        sentences.read_tabbed(tmp_path / "x.tsv")
