"""Reads the map of a railway: stations with positions, lines and connections.

The format is that of the "tubemaps" project: three files of comma-separated values. The
stations have the columns `id`, `latitude`, `longitude`, `name` and `zone`; the lines
have `line`, `name` and `colour`; the connections have `station1`, `station2` and
`line`. Other columns are ignored.
"""

import csv
import io
import os
from collections import defaultdict

import numpy as np

from keras_attention.datasets import files
from keras_attention.datasets.graphs.maps import LABELS, Network
from keras_attention.datasets.ragged import at_least_one

_FILES = {
    "london.stations.csv": (
        17233,
        "5891d940113c9941d5a10e26f0d54c5b67abe9365834716600997d6e3177832a",
    ),
    "london.lines.csv": (
        502,
        "e09a1c60226b80f213d8c0f89cd4f09da3b326139402dd365476c368f1e8265b",
    ),
    "london.connections.csv": (
        5113,
        "a4eb232dfa07c6b591032c12c9df5a6c4a718f6e788cb8d5c9b298813752d810",
    ),
}
_URL = (
    "https://raw.githubusercontent.com/nicola/tubemaps/"
    "31d8c26d5bde5dcf300d79f87388b0fbed3d5999/datasets/"
)
_DIRECTIONS = (("westbound", "eastbound"), ("southbound", "northbound"))
_Rows = list[tuple[int, dict[str, str]]]  # line numbers of a file, and their cells


def load_underground(max_zone: float | None = 1.0, min_lines: int = 3) -> Network:
    """Loads the map of the London Underground, with the lines of about 2015.

    The three files `london.*.csv` of the "tubemaps" project (ISC licence) are searched
    in `graphs` in the folder named by `KERAS_ATTENTION_DATA`, then downloaded.

    Args:
        max_zone: The largest zone of a station; see `read_railway`.
        min_lines: The smallest number of lines of a station; see `read_railway`.

    Returns:
        A `Network`. With the default arguments, it has 19 stations and 110 edges.

    Raises:
        DataNotFoundError: The files cannot be found or downloaded.
        ValueError: as for `read_railway`.

    Example:
        ```python
        underground = load_underground()
        data = traversal(count=32, length=7, network=underground, seed=1)
        ```
    """
    stations, lines, connections = (
        files.find(f"graphs/{name}", _URL + name, digest, size=size)
        for name, (size, digest) in _FILES.items()
    )
    return read_railway(stations, lines, connections, max_zone, min_lines)


def read_railway(
    stations: str | os.PathLike[str],
    lines: str | os.PathLike[str],
    connections: str | os.PathLike[str],
    max_zone: float | None = None,
    min_lines: int = 1,
) -> Network:
    """Reads a railway, or a part of it, from three files of comma-separated values.

    Trains run in both directions, and each direction of a line has its own name, such
    as "Central Line eastbound". A line that extends farther from east to west has the
    directions east and west; otherwise north and south.

    A part consists of the stations that `max_zone` and `min_lines` select. Stations
    within `max_zone` with too few lines become part of the edges: a line then joins two
    selected stations that follow each other.

    Args:
        stations: Path of the stations.
        lines: Path of the lines.
        connections: Path of the connections.
        max_zone: Keep only stations in zones up to this number; None for all stations.
        min_lines: Keep only stations with at least this number of lines.

    Returns:
        A `Network` with positions and colors.

    Raises:
        DataNotFoundError: one of the files is missing.
        ValueError: a missing column, an invalid number, an unknown or repeated station
            or line (the message gives the line number), no connection between the
            selected stations, or more stations or lines than the 1,000 labels.

    Example:
        ```python
        names = ("stations", "lines", "connections")
        paths = [f"graphs/london.{name}.csv" for name in names]
        network = read_railway(*paths, max_zone=1, min_lines=2)
        network.stations[0]
        ```
    """
    at_least_one(min_lines=min_lines)
    columns = ("latitude", "longitude", "zone")
    table = _by_key(stations, _rows(stations, ("id", "name", *columns)), "id")
    named = _by_key(lines, _rows(lines, ("line", "name", "colour")), "line")
    where = {
        key: np.array([_number(stations, at, row, name) for name in columns])
        for key, (at, row) in table.items()
    }  # latitude, longitude and zone
    joined: dict[str, dict[str, set[str]]] = {
        line: defaultdict(set) for line in named
    }  # the neighbors of each station on each line
    for at, row in _rows(connections, ("station1", "station2", "line")):
        ends = row["station1"], row["station2"]
        if not set(ends) <= set(table) or row["line"] not in named or len({*ends}) < 2:
            raise ValueError(
                f"{connections}, line {at}: a connection must be two stations of "
                f"{stations} and a line of {lines}. Received: "
                f"{','.join(row.values())!r}"
            )
        for station, other in (ends, ends[::-1]):
            joined[row["line"]][station].add(other)
    inside = {key for key in table if max_zone is None or where[key][2] <= max_zone}
    selected = [
        key
        for key in table
        if key in inside and sum(key in by for by in joined.values()) >= min_lines
    ]
    edges = [
        (start, line, end)
        for line, by in joined.items()
        for start in selected
        for end in _next_stations(start, by, inside, set(selected))
    ]
    return _network(edges, table, named, where, joined, stations)


def _network(
    edges: list[tuple[str, str, str]],
    table: dict[str, tuple[int, dict[str, str]]],
    named: dict[str, tuple[int, dict[str, str]]],
    where: dict[str, np.ndarray],
    joined: dict[str, dict[str, set[str]]],
    path: str | os.PathLike[str],
) -> Network:
    if not edges:
        raise ValueError(f"{path}: no connection joins two of the selected stations.")
    used = {key for start, _, end in edges for key in (start, end)}
    keys = [key for key in table if key in used]
    if len(keys) > LABELS:
        raise ValueError(
            f"{path}: there must be at most {LABELS} stations, the number of labels. "
            f"Received: {len(keys)}"
        )
    names = [table[key][1]["name"] for key in keys]
    if len(set(names)) < len(names):
        again = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"{path}: two stations are named {again!r}.")
    station = {key: number for number, key in enumerate(keys)}
    number_of: dict[str, int] = {}
    links, colors = [], []
    for start, line, end in edges:
        name = f"{named[line][1]['name']} {_direction(start, end, where, joined[line])}"
        if name not in number_of:
            number_of[name] = len(number_of)
            colors.append(f"#{named[line][1]['colour']}")
        links.append((station[start], number_of[name], station[end]))
    positions = np.array([where[key][1::-1] for key in keys])
    return Network(
        tuple(names), tuple(number_of), np.array(links), positions, tuple(colors)
    )


def _next_stations(
    start: str, joined: dict[str, set[str]], inside: set[str], selected: set[str]
) -> list[str]:
    """Returns the next kept stations on a line, without those that are passed."""
    ahead: list[str] = []
    seen, front = {start}, [start]
    while front:
        for key in sorted(joined.get(front.pop(), ())):
            if key in seen or key not in inside:
                continue
            seen.add(key)
            (ahead if key in selected else front).append(key)
    return ahead


def _direction(
    start: str, end: str, where: dict[str, np.ndarray], joined: dict[str, set[str]]
) -> str:
    """Returns the direction of an edge along the longer extent of its line."""
    positions = np.array([where[key][1::-1] for key in joined])  # longitude, latitude
    scale = np.array([np.cos(np.radians(positions[:, 1].mean())), 1.0])
    axis = int(np.argmax(np.ptp(positions, axis=0) * scale))
    ahead = where[end][1 - axis] > where[start][1 - axis]
    return _DIRECTIONS[axis][int(ahead)]


def _rows(path: str | os.PathLike[str], columns: tuple[str, ...]) -> _Rows:
    """Returns the given columns of each line of a file."""
    text = files.read_text(path)
    try:
        reader = csv.DictReader(io.StringIO(text, newline=""), strict=True)
        missing = [name for name in columns if name not in (reader.fieldnames or ())]
        if missing:
            raise ValueError(
                f"{path}: the first line must name the columns {', '.join(columns)}. "
                f"Received: {','.join(reader.fieldnames or ())!r}"
            )
        rows = []
        for row in reader:
            cells = {name: (row[name] or "").strip() for name in columns}
            if not all(cells.values()):
                raise ValueError(
                    f"{path}, line {reader.line_num}: a line must have values for "
                    f"{', '.join(columns)}. Received: {','.join(cells.values())!r}"
                )
            rows.append((reader.line_num, cells))
    except csv.Error as error:
        raise ValueError(f"{path}: is no table of names ({error}).") from error
    return rows


def _by_key(
    path: str | os.PathLike[str], rows: _Rows, key: str
) -> dict[str, tuple[int, dict[str, str]]]:
    table: dict[str, tuple[int, dict[str, str]]] = {}
    for at, row in rows:
        if row[key] in table:
            raise ValueError(f"{path}, line {at}: {key} {row[key]!r} is there twice.")
        table[row[key]] = (at, row)
    return table


def _number(
    path: str | os.PathLike[str], at: int, row: dict[str, str], name: str
) -> float:
    try:
        number = float(row[name])
    except ValueError:
        number = np.nan
    if not np.isfinite(number):
        raise ValueError(
            f"{path}, line {at}: `{name}` must be a number. Received: {row[name]!r}"
        )
    return number
