"""Bags: padding, what is made, and the files of Tiger, Elephant and Musk1."""

import struct
import zlib

import numpy as np
import pytest
from calling import needs_data

from keras_attention.datasets import DamagedDataError, DataNotFoundError, bags, mnist

SETS = [np.arange(6).reshape(3, 2), np.full((1, 2), 7), np.full((2, 2), -1)]


def made():
    return bags.Bags.of(SETS, [1, 0, 1])


# Bags


def test_padded():
    padded = made().padded()
    assert padded["instances"].dtype == np.float32
    assert padded["instances_mask"].tolist() == [[1, 1, 1], [1, 0, 0], [1, 1, 0]]
    for row, mask, one in zip(padded["instances"], padded["instances_mask"], SETS):
        np.testing.assert_array_equal(row[mask], one)
        assert (row[~mask] == 0).all()
    assert made().padded(length=5)["instances"].shape == (3, 5, 2)
    assert made().sizes.tolist() == [3, 1, 2]
    with pytest.raises(ValueError, match=r"`length` must be at least .* 3.* length=2"):
        made().padded(length=2)


def test_instances_may_come_in_any_order():
    order = np.array([3, 0, 5, 1, 4, 2])
    one = made()
    mixed = bags.Bags(one.instances[order], one.bag[order], one.labels)
    for name, array in one.padded().items():
        np.testing.assert_array_equal(mixed.padded()[name], array)


def test_take():
    taken = made().take([2, 0, 2])
    assert len(taken) == 3
    assert taken.labels.tolist() == [1, 1, 1]
    assert taken.sizes.tolist() == [2, 3, 2]
    expected = bags.Bags.of([SETS[2], SETS[0], SETS[2]], [1, 1, 1])
    np.testing.assert_array_equal(taken.instances, expected.instances)
    mask = np.array([True, False, True])
    np.testing.assert_array_equal(
        made().take(mask).instances, made().take([0, 2]).instances
    )
    assert made().take(mask.tolist()).sizes.tolist() == [3, 2]
    assert len(made().take(~mask & mask)) == 0
    assert len(made().take([])) == 0
    assert made().take([]).padded()["instances"].shape == (0, 1, 2)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([True, False], r"`rows` must be \(B,\), \(3,\).*rows.shape=\(2,\)"),
        (np.ones((3, 1), bool), r"rows.shape=\(3, 1\)"),
        ([0, 3], "`rows` must be from 0 to 2. Received: rows with 3"),
        ([-1], "rows with -1"),
        ([0.5], "`rows` must be whole numbers"),
    ],
)
def test_rows_that_are_none_are_refused(rows, message):
    with pytest.raises(ValueError, match=message):
        made().take(rows)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((np.ones(3), [0, 0, 1], [0, 1]), r"`instances` must be \(n, F\)"),
        ((np.ones((3, 2)), [0, 1], [0, 1]), r"`bag` \(n,\).*bag.shape=\(2,\)"),
        (
            (np.ones((3, 2)), [0, 1, 2], [0, 1]),
            r"`labels` must be \(B,\), one for each",
        ),
        ((np.ones((3, 2)), [0, -1, 1], [0, 1]), "bag from -1 to 1"),
        ((np.ones((3, 2)), [0, 0, 2], [0, 1, 1]), "none in 1 of 3 bags.* 1$"),
        ((np.ones((3, 2)), [0, 0, 1], [0, 0.5]), "`labels` must be whole numbers"),
        ((np.ones((2, 2)), [0, 1], ["a", "b"]), "`labels` must be whole .* <U1$"),
        ((np.ones((2, 2)), [0, 1], [0, np.nan]), "`labels` must be whole numbers"),
        (([[1, 1], [np.nan, 0]], [0, 1], [0, 1]), r"instances\[1\], of bag 1"),
        (([[1, 1], [1e99, 0]], [0, 1], [0, 1]), "must be finite"),
    ],
)
def test_what_does_not_fit_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        bags.Bags(*arguments)


@pytest.mark.parametrize(
    ("sets", "labels", "message"),
    [
        ([*SETS, np.ones((2, 3))], [1] * 4, r"one width F.*sets\[3\].shape=\(2, 3\)"),
        (SETS, [1, 0], "one label for each bag. Received: 2 labels, 3 bags"),
        ([*SETS, np.ones((0, 2))], [1] * 4, "Each bag must have an instance"),
        ([np.ones(5)], [1], r"must be \(S, F\). Received: sets\[0\].shape=\(5,\)$"),
        ([SETS[0], np.ones(2)], [1, 0], r"\(S, F\). Received: sets\[1\].shape=\(2,\)$"),
        (SETS, ["a", "b", "c"], "`labels` must be whole numbers"),
    ],
)
def test_lists_that_do_not_fit_are_refused(sets, labels, message):
    with pytest.raises(ValueError, match=message):
        bags.Bags.of(sets, labels)


# What is made


def test_bit_patterns():
    found = bags.bit_patterns(count=211, instances=5, bits=6, signals=3, seed=1)
    instances = found.padded()["instances"]
    assert instances.shape == (211, 5, 6)
    assert set(np.unique(instances)) == {-1, 1}
    assert found.labels.sum() == 105
    numbers = ((instances > 0) << np.arange(6)).sum(-1)
    ordinary = set(numbers[found.labels == 0].ravel())
    signals = [set(row) - ordinary for row in numbers[found.labels == 1]]
    assert all(len(one) == 1 for one in signals)  # one, which no negative bag has
    assert len(set.union(*signals)) == 3
    places = [
        [number in ordinary for number in row].index(False)
        for row in numbers[found.labels == 1].tolist()
    ]
    assert set(places) == set(range(5))
    again = bags.bit_patterns(count=211, instances=5, bits=6, signals=3, seed=1)
    np.testing.assert_array_equal(again.instances, found.instances)
    for wrong in ({"bits": 3, "signals": 8}, {"bits": 21}):
        with pytest.raises(ValueError, match="`signals` fewer than"):
            bags.bit_patterns(**wrong)
    with pytest.raises(ValueError, match="`count` must be at least 1"):
        bags.bit_patterns(count=0)


def test_latch_sequences():
    found = bags.latch_sequences(count=101, length=7, characters=5, seed=2)
    instances = found.padded()["instances"]
    assert instances.shape == (101, 7, 5)
    assert (instances.sum(-1) == 1).all()
    counts = instances.sum(1)
    np.testing.assert_array_equal(counts[:, 1], found.labels)
    np.testing.assert_array_equal(counts[:, 0], 1 - found.labels)
    assert (counts[:, 2:].sum(0) > 0).all()
    assert found.labels.sum() == 50
    assert set(instances[:, :, :2].sum(-1).argmax(1)) == set(range(7))
    with pytest.raises(ValueError, match="`characters` must be at least 3"):
        bags.latch_sequences(characters=2)


def pictures():
    """Ten of each digit; each picture has a grey of its own in its first pixel."""
    images = np.zeros((100, 2, 3), np.uint8)
    images[:, 0, 0] = np.arange(100)
    return mnist.Digits(images, (np.arange(100) // 10).astype(np.uint8))


def test_digits():
    parts = {}
    for part in ("train", "test"):
        found = bags.digits(
            count=80, part=part, target=4, mean=5, seed=3, digits=pictures()
        )
        assert found.instances.shape[1] == 6
        assert 4.5 < found.sizes.mean() < 5.5
        greys = np.rint(found.instances[:, 0] * 255).astype(int)
        has = np.bincount(found.bag, greys // 10 == 4, minlength=80) > 0
        np.testing.assert_array_equal(has, found.labels == 1)
        assert found.labels.sum() == 40
        first = np.unique(found.bag, return_index=True)[1]
        assert 0 < (greys[first][found.labels == 1] // 10 == 4).mean() < 0.8
        parts[part] = set(greys)
    assert not parts["train"] & parts["test"]
    assert len(parts["train"]) > 70
    assert len(parts["test"]) == 20


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"part": "val"}, "`part` must be 'train' or 'test'. Received: part='val'"),
        ({"target": 10}, "must have pictures of `target`.*target=10"),
        ({"mean": 0.5}, "`mean` must be at least 1.*mean=0.5"),
        ({"deviation": float("nan")}, "`deviation` at least 0"),
        ({"count": 0}, "`count` must be at least 1"),
    ],
)
def test_digits_say_what_is_wrong(arguments, message):
    with pytest.raises(ValueError, match=message):
        bags.digits(**{"digits": pictures(), **arguments})


# Files


def element(kind, data, order="<"):
    """An element of MATLAB's format 5, written anew."""
    if len(data) <= 4:
        return struct.pack(f"{order}I", len(data) << 16 | kind) + data.ljust(4, b"\0")
    head = struct.pack(f"{order}II", kind, len(data))
    return head + data + b"\0" * (-len(data) % 8)


def matrix(name, array, order="<", sparse=False, flags=0):
    array = np.asarray(array)
    parts = [
        element(6, struct.pack(f"{order}II", (5 if sparse else 6) | flags, 9), order),
        element(5, np.array(array.shape, f"{order}i4").tobytes(), order),
        element(1, name.encode(), order),
    ]
    if sparse:
        columns, rows = np.nonzero(array.T)
        starts = np.searchsorted(columns, np.arange(array.shape[1] + 1))
        parts += [
            element(5, x.astype(f"{order}i4").tobytes(), order) for x in (rows, starts)
        ]
        array = array[rows, columns]
    parts.append(element(9, array.astype(f"{order}f8").tobytes("F"), order))
    return element(14, b"".join(parts), order)


def mat(*parts, order="<"):
    mark = b"IM" if order == "<" else b"MI"
    return b"MATLAB 5.0 MAT-file".ljust(124) + b"\0\1" + mark + b"".join(parts)


FEATURES = np.array([[0.5, 0, 2], [0, 0, 0], [1, -3, 0], [0, 4, 0.25]])
NUMBERS, LABELS = np.array([[7, 3, 7, 3]]), np.array([[-1, 1, -1, 1]])


def variables(**more):
    return [
        matrix("features", FEATURES, **{"sparse": True, **more}),
        matrix("bag_ids", NUMBERS, **more),
        matrix("labels", LABELS, **{"sparse": True, **more}),
    ]


def is_the_same(found):
    assert found.labels.tolist() == [1, 0]
    assert found.bag.tolist() == [1, 0, 1, 0]
    np.testing.assert_array_equal(found.instances, FEATURES)


@pytest.mark.parametrize("kind", ["plain", "dense", "big", "compressed"])
def test_mat_files(kind, tmp_path):
    path = tmp_path / "tiger.mat"
    order = ">" if kind == "big" else "<"
    parts = variables(order=order, **({"sparse": False} if kind == "dense" else {}))
    if kind == "compressed":
        packed = [zlib.compress(part) for part in parts]
        parts = [struct.pack("<II", 15, len(one)) + one for one in packed]
    path.write_bytes(
        mat(*parts, matrix("odd", FEATURES, order, flags=0x800), order=order)
    )
    is_the_same(bags.load("tiger", path))


def test_damaged_mat_files(tmp_path):
    path = tmp_path / "elephant.mat"
    whole = mat(*variables())
    short = zlib.compress(variables()[0])[:-9]
    mixed = matrix("labels", [[1, 1, -1, 1]])
    cases = [
        (b"", "it is no MATLAB file of format 5"),
        (b"\x89HDF".ljust(200), "it is no MATLAB file of format 5"),
        (whole[:-9], "it ends within"),
        (mat(struct.pack("<II", 15, len(short)) + short), "cut off"),
        (mat(struct.pack("<II", 15, 8) + b"nonsense"), "cannot be decompressed"),
        (mat(*variables()[:2]), "it has no labels"),
        (mat(*variables()[:2], matrix("labels", LABELS[:, 1:])), "3 labels"),
        (mat(*variables()[:2], mixed), "bag 7 has instances of both labels"),
        (mat(matrix("features", FEATURES * np.nan), *variables()[1:]), "finite"),
    ]
    for content, message in cases:
        path.write_bytes(content)
        with pytest.raises(
            DamagedDataError, match=f"elephant.mat is damaged: .*{message}"
        ):
            bags.read_mat(path)


@pytest.mark.parametrize("sparse", [False, True])
def test_no_byte_of_a_mat_file_breaks_more_than_the_reading(sparse, tmp_path):
    random = np.random.default_rng(0)
    path = tmp_path / "tiger.mat"
    whole = bytearray(mat(*variables(sparse=sparse)))
    refused = 0
    for place in range(0, len(whole), 3):
        changed = whole.copy()
        changed[place] ^= int(random.integers(1, 256))
        path.write_bytes(changed)
        try:
            bags.read_mat(path)
        except DamagedDataError:
            refused += 1
    assert refused > len(whole) / 12


def test_tables(tmp_path):
    path = tmp_path / "musk1.csv"
    rows = np.column_stack([LABELS[0], NUMBERS[0], FEATURES])
    path.write_text("\n".join(",".join(map(str, row)) for row in rows))
    is_the_same(bags.load("musk1", path))
    for text, message in (
        ("1,1,5,6\n1,1,5", "line 2 must have .* it has 3"),
        ("1,1,5\n1,a,5", "line 2: could not convert string to float: 'a'"),
        ("1,1\n", "line 1 must have a label, a bag and features"),
        ("1,1,2\n\n", "line 2"),
        ("", "it has no line"),
        ("1,1,2\n0,1,3", "bag 1 has instances of both labels"),
        ("1,1,2\nnan,2,3", "must be finite. Received: bag 2 and label nan"),
        ("1,nan,2\n1,nan,3", "must be finite. Received: bag nan and label 1"),
    ):
        path.write_text(text)
        with pytest.raises(
            DamagedDataError, match=f"musk1.csv is damaged: .*{message}"
        ):
            bags.read_table(path)


def test_without_the_file_it_says_what_to_do(tmp_path, monkeypatch):
    monkeypatch.delenv("KERAS_ATTENTION_DATA", raising=False)
    with pytest.raises(DataNotFoundError, match=r"is not set.\nNext: get tiger.mat"):
        bags.load("tiger")
    monkeypatch.setenv("KERAS_ATTENTION_DATA", str(tmp_path))
    with pytest.raises(DataNotFoundError, match=r"has no file .*musk1.csv(.|\n)*UCI"):
        bags.load("musk1")
    with pytest.raises(DataNotFoundError, match="There is no file"):
        bags.load("musk1", tmp_path / "nowhere")
    with pytest.raises(ValueError, match=r"`name` must be one of .* name='fox'"):
        bags.load("fox")


@needs_data
@pytest.mark.parametrize(
    ("name", "bag_count", "instances", "features", "longest"),
    [
        ("tiger", 200, 1220, 230, 13),
        ("elephant", 200, 1391, 230, 13),
        ("musk1", 92, 476, 166, 40),
    ],
)
def test_real_files(name, bag_count, instances, features, longest):
    found = bags.load(name)
    assert found.instances.shape == (instances, features)
    assert len(found) == bag_count
    assert found.sizes.max() == longest
    assert found.labels.sum() == {"musk1": 47}.get(name, 100)
