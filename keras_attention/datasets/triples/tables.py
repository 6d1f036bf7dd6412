"""Facts from CSV and TSV tables."""

import csv
import warnings
from collections.abc import Iterator
from typing import NamedTuple

from keras_attention.datasets.triples.facts import Fact

SEPARATORS = ",;\t|"
# The column names of a header, in lower case.
COLUMNS = (
    ("subject", "head", "entity"),
    ("relation", "predicate", "property"),
    ("object", "tail", "value"),
)


class Row(NamedTuple):
    """One record of a table and the line on which it begins."""

    line: int
    fields: list[str]


def parse_csv(
    text: str,
    separator: str | None = None,
    header: bool | None = None,
    source: str = "<text>",
) -> list[Fact]:
    r"""Parses a CSV or TSV table with one fact per row.

    A field with separators, quotes or line breaks stands in double quotes, and a quote
    inside it is written twice (RFC 4180). Empty rows are skipped. A line break inside a
    name becomes a space.

    Args:
        text: The table. A byte order mark at its start is ignored.
        separator: The separator of the columns; None to find it in the first row, as
            the one of `,`, `;`, tab and `|` that gives three columns.
        header: Whether the first row names the columns. None: it does if it holds one
            of the names subject, head or entity, one of relation, predicate or
            property, and one of object, tail or value, in any order. A header may
            name more columns, which are ignored. Without these names, or if False, the
            order is subject, relation, object.
        source: The name of the text in error messages, for example its file name.

    Returns:
        A list of `Fact`, in the order of the rows.

    Raises:
        ValueError: The separator is not one character, it is not given and the first
            row does not show it, the quotes do not match, or a row is not three names;
            the message gives `source` and the line.

    Example:
        ```python
        parse_csv("subject,relation,object\nHeat,directed by,Michael Mann\n")
        # [Fact("Heat", "directed by", "Michael Mann")]
        ```
    """
    if separator is not None and len(separator) != 1:
        raise ValueError(
            "`separator` must be one character, or None to find it. Received: "
            f"separator={separator!r}"
        )
    text = text.removeprefix("\ufeff")  # a byte order mark
    rows = _rows(text, separator or _separator(text, header, source), source)
    first = next(rows, None)
    if first is None:
        return []
    order = None if header is False else _order(first.fields)
    is_header = order is not None if header is None else header
    facts = [] if is_header else [_fact(first, (0, 1, 2), 3, source)]
    width = len(first.fields) if is_header else 3
    facts += [_fact(row, order or (0, 1, 2), width, source) for row in rows]
    if header is None and not is_header:
        _warn_of_header(facts, first.line, source)
    return facts


def _rows(text: str, separator: str, source: str) -> Iterator[Row]:
    """Yields the rows that are not empty, with stripped fields."""
    # `splitlines` also splits inside some names.
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    reader = csv.reader(
        (line + "\n" for line in lines), delimiter=separator, strict=True
    )
    while True:
        line = reader.line_num + 1
        try:
            fields = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise ValueError(
                f"{source}, line {line}: the row that begins here is not CSV "
                f"({error}). A field with quotes must stand in quotes, and each quote "
                "inside it must be doubled"
            ) from error
        fields = [" ".join(map(str.strip, field.split("\n"))) for field in fields]
        if any(fields):
            yield Row(line, [field.strip() for field in fields])


def _separator(text: str, header: bool | None, source: str) -> str:
    """Returns the separator that splits the first row into the columns of a fact."""
    fitting = []
    for separator in SEPARATORS:
        try:
            row = next(_rows(text, separator, source), None)
        except ValueError:  # its quotes are not beside this separator
            continue
        if row is None:
            continue
        named = header is not False and _order(row.fields) is not None
        if named or len(_trimmed(row.fields, 3)) == 3:
            fitting.append(separator)
    if len(fitting) > 1:
        raise ValueError(
            f"{source}, line 1: several separators give three columns, so `separator` "
            f"must be given. Received: separator=None, which may be any of {fitting}"
        )
    return fitting[0] if fitting else ","


def _order(fields: list[str]) -> tuple[int, ...] | None:
    """Returns the columns of subject, relation and object if the row names them."""
    names = [field.lower() for field in fields]
    places = [[i for i, name in enumerate(names) if name in known] for known in COLUMNS]
    return tuple(f[0] for f in places) if all(len(f) == 1 for f in places) else None


def _trimmed(fields: list[str], width: int) -> list[str]:
    """Removes empty fields after the last column, which spreadsheets write."""
    while len(fields) > width and not fields[-1]:
        fields = fields[:-1]
    return fields


def _fact(row: Row, order: tuple[int, ...], width: int, source: str) -> Fact:
    fields = _trimmed(row.fields, width)
    if len(fields) != width or not all(fields[i] for i in order):
        columns = "" if width == 3 else f" in a row of {width} columns"
        raise ValueError(
            f"{source}, line {row.line}: a fact must be a subject, a relation and an "
            f"object{columns}. Received: {row.fields}"
        )
    return Fact(*(fields[i] for i in order))


def _warn_of_header(facts: list[Fact], line: int, source: str) -> None:
    """Warns if the first row may be a header with other names."""
    first, others = facts[0], facts[1:]
    names = {name for fact in others for name in fact}
    if len(others) > 1 and names.isdisjoint(first):
        warnings.warn(
            f"{source}, line {line} is read as a fact, but no other row has one of its "
            f"names: {', '.join(first)}. If it names the columns, pass header=True.",
            UserWarning,
            stacklevel=4,
        )
