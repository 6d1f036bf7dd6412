"""Loads the MovieLens film ratings.

The data belong to GroupLens. Without permission, their terms forbid redistribution and
commercial use. This module therefore downloads nothing: get `ml-latest-small.zip` or
`ml-100k.zip` from https://grouplens.org/datasets/movielens/, and unpack it into the
subfolder `movielens` of the folder named by `KERAS_ATTENTION_DATA`, or into any other
folder.

```python
from keras_attention.datasets import movielens

ratings = movielens.load("ml-latest-small")     # or movielens.load("my/ml-100k")
train, test = ratings.split(0.1, seed=0)
ratings.items[train.item[0]]                    # 'Toy Story (1995)'
```

Reference:
    Harper & Konstan, "The MovieLens datasets: history and context" (2015).
"""

from __future__ import annotations

import csv
import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from keras_attention.datasets.files import (
    DATA_VARIABLE,
    DamagedDataError,
    DataNotFoundError,
)
from keras_attention.datasets.ratings import Ratings

NAMES = ("ml-latest-small", "ml-100k")
_ADDRESS = "https://grouplens.org/datasets/movielens/"
_RATINGS = ["userId", "movieId", "rating", "timestamp"]
_MOVIES = ["movieId", "title", "genres"]


def load(path: str | os.PathLike[str] = "ml-latest-small") -> Ratings:
    """Reads ratings and film titles from a MovieLens folder.

    Args:
        path: a folder with `ratings.csv` and `movies.csv`, or with `u.data` and
            `u.item`. The names "ml-latest-small" and "ml-100k" refer to subfolders of
            `movielens` in the folder named by `KERAS_ATTENTION_DATA`.

    Returns:
        `Ratings` with film titles as items. If two films share a title, the film number
        is added. The scale is 0.5 to 5 for `ratings.csv` and 1 to 5 for `u.data`.

    Raises:
        DataNotFoundError: the folder or one of its files is missing; the message says
            where to get the data.
        DamagedDataError: a file has an invalid header, line or rating; the message
            gives the line number.
    """
    folder = _folder(path)
    if (folder / "ratings.csv").exists():
        rows = read_csv(folder / "ratings.csv")
        titles = read_titles(folder / "movies.csv")
        scale = (0.5, 5.0)
    elif (folder / "u.data").exists():
        rows = read_tabbed(folder / "u.data")
        titles = read_titles(folder / "u.item")
        scale = (1.0, 5.0)
    else:
        raise DataNotFoundError(
            f"{folder} has neither `ratings.csv` nor `u.data`: it is no unpacked "
            f"folder of MovieLens. Get one from {_ADDRESS} and unpack it."
        )
    users, films, ratings = zip(*rows)
    untold = sorted(set(films) - set(titles))
    if untold:
        raise DamagedDataError(
            f"{folder} has ratings of films without a title: {untold[:5]}"
        )
    counts = Counter(titles[film] for film in set(films))
    names = {  # with the number of the film where a title stands for several
        film: title if counts[title] == 1 else f"{title} [{film}]"
        for film, title in titles.items()
    }
    return Ratings.of(users, [names[film] for film in films], ratings, scale)


def read_csv(path: str | os.PathLike[str]) -> list[tuple[int, int, float]]:
    """Reads `ratings.csv`, with rows of userId,movieId,rating,timestamp.

    Returns:
        (user, film, rating) of each row.

    Raises:
        DataNotFoundError, DamagedDataError: same as `load`.
    """
    return _checked(path, _records(path, _RATINGS), (0.5, 5.0))


def read_tabbed(path: str | os.PathLike[str]) -> list[tuple[int, int, float]]:
    """Reads `u.data`, with tab-separated rows of user, film, rating and time.

    Returns:
        (user, film, rating) of each row.

    Raises:
        DataNotFoundError, DamagedDataError: as `load`.
    """
    return _checked(path, _records(path, None, "\t", columns=4), (1.0, 5.0))


def read_titles(path: str | os.PathLike[str]) -> dict[int, str]:
    """Reads film titles by number from `movies.csv` or `u.item`.

    Raises:
        DataNotFoundError, DamagedDataError: as `load`.
    """
    if Path(path).suffix == ".csv":
        records = _records(path, _MOVIES)
    else:
        records = _records(path, None, "|", columns=24, encoding="latin-1")
    titles: dict[int, str] = {}
    for line, record in records:
        film = _number(path, line, record[0], int)
        if film in titles:
            raise _damaged(path, line, f"the film {film} was there before")
        titles[film] = record[1]
    return titles


def _folder(path: str | os.PathLike[str]) -> Path:
    folder = Path(path)
    if folder.is_dir():
        return folder
    if str(path) not in NAMES:
        raise DataNotFoundError(
            f"{folder} is no folder. It must be an unpacked folder of MovieLens, or "
            f"one of the names {list(NAMES)}."
        )
    data = os.environ.get(DATA_VARIABLE)
    where = f"{DATA_VARIABLE} is not set"
    if data is not None:
        unpacked = Path(data) / "movielens" / folder
        if unpacked.is_dir():
            return unpacked
        where = f"{unpacked} is no folder"
    raise DataNotFoundError(
        f"{path} is not there: {where}. Its terms want you to get it yourself: "
        f"download {path}.zip from {_ADDRESS}, and unpack it into `movielens` in the "
        f"folder named by {DATA_VARIABLE}, or give the folder's path."
    )


def _records(
    path: str | os.PathLike[str],
    header: list[str] | None,
    delimiter: str = ",",
    columns: int = 0,
    encoding: str = "utf-8-sig",
) -> Iterator[tuple[int, list[str]]]:
    """Yields the number and the fields of each line after the header."""
    path = Path(path)
    if not path.is_file():
        raise DataNotFoundError(f"{path} is no file. Get it from {_ADDRESS}.")
    columns = columns if header is None else len(header)
    with path.open(encoding=encoding, newline="") as file:
        reader = csv.reader(
            file,
            delimiter=delimiter,
            quoting=csv.QUOTE_MINIMAL if delimiter == "," else csv.QUOTE_NONE,
        )
        try:
            if header is not None:
                first = next(reader, [])
                if first != header:
                    wanted = ",".join(header)
                    raise _damaged(path, 1, f"the header must be {wanted!r}", first)
            for record in reader:
                if len(record) != columns:
                    wrong = f"there must be {columns} fields"
                    raise _damaged(path, reader.line_num, wrong, record)
                yield reader.line_num, record
        except (UnicodeDecodeError, csv.Error) as error:
            raise _damaged(path, reader.line_num + 1, str(error)) from error


def _checked(
    path: str | os.PathLike[str],
    records: Iterator[tuple[int, list[str]]],
    scale: tuple[float, float],
) -> list[tuple[int, int, float]]:
    """Converts users, films and ratings to numbers and checks the scale."""
    rows: list[tuple[int, int, float]] = []
    for line, (user, film, rating, _) in records:
        number = _number(path, line, rating, float)
        if not scale[0] <= number <= scale[1]:
            rule = f"a rating must be from {scale[0]:g} to {scale[1]:g}"
            raise _damaged(path, line, rule, rating)
        rows.append(
            (_number(path, line, user, int), _number(path, line, film, int), number)
        )
    if not rows:
        raise DamagedDataError(f"{path} holds no rating.")
    return rows


def _number(path: str | os.PathLike[str], line: int, text: str, kind: type) -> int:
    try:
        return kind(text)
    except ValueError as error:
        raise _damaged(path, line, "a number must stand there", text) from error


def _damaged(
    path: str | os.PathLike[str], line: int, rule: str, received: object = None
) -> DamagedDataError:
    came = "" if received is None else f". Received: {received!r}"
    return DamagedDataError(f"{path}, line {line}: {rule}{came}")
