"""MovieLens' files, as they are laid out; the ratings in them are made up."""

import numpy as np
import pytest

from keras_attention.datasets import (
    DamagedDataError,
    DataNotFoundError,
    movielens,
)

RATINGS = """\
userId,movieId,rating,timestamp
1,1,4.0,964982703
1,50,0.5,964981247
7,1,5.0,1106635946
7,9,3.5,1106635947
"""
MOVIES = """\
movieId,title,genres
1,Toy Story (1995),Adventure|Animation
9,"American President, The (1995)",Comedy|Drama
50,Toy Story (1995),Comedy
77,"Nobody's ""Film"" (1999)",(no genres listed)
"""
DATA = "196\t242\t3\t881250949\n186\t302\t5\t891717742\n196\t302\t1\t881250950\n"
GENRES = "|".join("0" * 19)
FILMS = (
    f"242|Kolya (1996)|24-Jan-1997||http://example.org|{GENRES}\n"
    f"302|Misérables, Les (1995)|01-Jan-1995||http://example.org|{GENRES}\n"
)


@pytest.fixture
def small(tmp_path):
    folder = tmp_path / "movielens" / "ml-latest-small"
    folder.mkdir(parents=True)
    (folder / "ratings.csv").write_text(RATINGS, "utf-8")
    (folder / "movies.csv").write_text(MOVIES, "utf-8")
    return folder


@pytest.fixture
def old(tmp_path):
    folder = tmp_path / "movielens" / "ml-100k"
    folder.mkdir(parents=True)
    (folder / "u.data").write_text(DATA, "utf-8")
    (folder / "u.item").write_text(FILMS, "latin-1")
    return folder


def test_the_small_set(small, monkeypatch, tmp_path):
    found = movielens.load(small)
    assert found.users == (1, 7)
    assert found.items == (
        "American President, The (1995)",
        "Toy Story (1995) [1]",
        "Toy Story (1995) [50]",
    )
    np.testing.assert_array_equal(found.user, [0, 0, 1, 1])
    np.testing.assert_array_equal(found.item, [1, 2, 1, 0])
    np.testing.assert_array_equal(found.rating, [4.0, 0.5, 5.0, 3.5])
    assert found.scale == (0.5, 5.0)
    monkeypatch.setenv("KERAS_ATTENTION_DATA", str(tmp_path))
    np.testing.assert_array_equal(movielens.load().rating, found.rating)


def test_the_old_set(old, monkeypatch, tmp_path):
    monkeypatch.setenv("KERAS_ATTENTION_DATA", str(tmp_path))
    found = movielens.load("ml-100k")
    assert found.users == (186, 196)
    assert found.items == ("Kolya (1996)", "Misérables, Les (1995)")
    np.testing.assert_array_equal(found.rating, [3, 5, 1])
    assert found.scale == (1.0, 5.0)


def test_what_is_not_there_is_told(small, monkeypatch, tmp_path):
    monkeypatch.delenv("KERAS_ATTENTION_DATA", raising=False)
    with pytest.raises(DataNotFoundError, match=r"KERAS_ATTENTION_DATA is not set"):
        movielens.load()
    monkeypatch.setenv("KERAS_ATTENTION_DATA", str(tmp_path))
    with pytest.raises(DataNotFoundError, match=r"ml-100k is no folder. Its terms"):
        movielens.load("ml-100k")
    with pytest.raises(DataNotFoundError, match="one of the names"):
        movielens.load("ml-9000")
    with pytest.raises(DataNotFoundError, match=r"neither `ratings.csv` nor `u.data`"):
        movielens.load(tmp_path)
    (small / "movies.csv").unlink()
    with pytest.raises(DataNotFoundError, match=r"movies.csv is no file"):
        movielens.load(small)


@pytest.mark.parametrize(
    ("name", "old", "new", "message"),
    [
        ("ratings.csv", "userId", "user", "line 1: the header must be 'userId,movie"),
        ("ratings.csv", ",964981247", "", "line 3: there must be 4 fields"),
        (
            "ratings.csv",
            "0.5",
            "5.5",
            "line 3: a rating must be from 0.5 to 5.*'5.5'",
        ),
        ("ratings.csv", "0.5", "nan", "line 3: a rating must be from 0.5 to 5"),
        ("ratings.csv", "0.5", "good", "line 3: a number must stand .*'good'"),
        ("ratings.csv", "7,9", "x,9", "line 5: a number must stand there"),
        ("ratings.csv", RATINGS[32:], "", "holds no rating"),
        ("movies.csv", "title", "name", "line 1: the header must be 'movieId,title"),
        ("movies.csv", "50,Toy", "1,Toy", "line 4: the film 1 was there before"),
        ("movies.csv", "50,Toy", "51,Toy", r"films without a title: \[50\]"),
    ],
)
def test_damaged_files_are_told(small, name, old, new, message):
    path = small / name
    text = path.read_text("utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), "utf-8")
    with pytest.raises(DamagedDataError, match=message):
        movielens.load(small)


@pytest.mark.parametrize(
    ("old_text", "new", "message"),
    [
        ("\t3\t", "\t0\t", "line 1: a rating must be from 1 to 5"),
        ("302\t5\t891717742", "302\t5", "line 2: there must be 4 fields"),
    ],
)
def test_damaged_tables_are_told(old, old_text, new, message):
    path = old / "u.data"
    path.write_text(path.read_text("utf-8").replace(old_text, new, 1), "utf-8")
    with pytest.raises(DamagedDataError, match=message):
        movielens.load(old)


def test_bytes_that_are_no_text_are_told(small):
    path = small / "movies.csv"
    path.write_bytes(path.read_bytes().replace(b"President", b"\xff\xfe"))
    with pytest.raises(DamagedDataError, match=r"movies.csv, line .*utf-8"):
        movielens.load(small)
