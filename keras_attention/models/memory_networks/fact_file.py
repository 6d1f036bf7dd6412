"""The SQLite file of a `LargeMemory`: its facts, and the lists of its hash.

    about     a JSON text: the format, the model's sizes, the hash and its options
    facts     the words of each chunk, 2¹⁶ consecutive facts
    postings  the facts of a bucket in a chunk; id = bucket · 2¹⁶ + number of the chunk

SQLite undoes a change that does not end, and lets one process write at a time.

Shapes: n facts, L words.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import pathlib
import sqlite3
import urllib.parse
import weakref
import zlib
from collections.abc import Iterable, Iterator
from typing import Any, NoReturn

import numpy as np

from keras_attention.layers.base.checked import check_ids
from keras_attention.models.memory_networks.hashes import (
    ClusterHash,
    Hash,
    WordHash,
    checked,
    grouped,
    progress,
)

FORMAT = "keras_attention.LargeMemory 4"
NAME, NEW = "memory.sqlite", "memory.new"
FILES = {NAME, NEW, f"{NAME}-journal"}  # of a folder
# How a journal ends that names another file, which SQLite then reads and deletes.
NAMES_A_FILE = bytes.fromhex("d9d505f920a163d7")
BITS = 16
CHUNK = 1 << BITS  # facts
PLACE = CHUNK - 1  # the bits of a fact's number that tell its place in its chunk
GROUP = 8 * CHUNK  # facts that are written and indexed at a time
CACHE = 2**29  # words of facts in memory
PAGES = 2**17  # KiB of the file in memory while it is built
WAIT = 60  # seconds for another process that writes
SCHEMA = [
    "CREATE TABLE about (text TEXT, crc INTEGER)",
    "CREATE TABLE facts (id INTEGER PRIMARY KEY, data BLOB, crc INTEGER, width)",
    "CREATE TABLE postings (id INTEGER PRIMARY KEY, data BLOB, crc INTEGER)",
]
ADD_FACTS = "REPLACE INTO facts VALUES (?1, ?2, crc(?1, ?2), ?3)"
ADD_POSTINGS = """
    INSERT INTO postings VALUES (?1, ?2, crc(?1, ?2)) ON CONFLICT DO UPDATE SET
        data = CAST(data || ?2 AS BLOB), crc = crc(?1, CAST(data || ?2 AS BLOB))"""
LAST = """SELECT id * ?2 + length(data) / (width * ?1), width FROM facts
    ORDER BY id DESC LIMIT 1"""
COUNTS = """SELECT COUNT(*), TOTAL(length(data) / (width * ?1)) FROM facts
    WHERE length(data) % (width * ?1) = 0"""

HASHES: dict[str, type[Hash]] = {"WordHash": WordHash, "ClusterHash": ClusterHash}


class FactFile:
    """Facts in a SQLite file or, for the path ":memory:", in a database in memory.

    `size` is the number of facts that the file had when it was opened, or after the
    last `append` of this object. Other processes may append to the file.
    """

    def __init__(self, path: Any) -> None:
        in_memory = path == ":memory:"
        self.path = path if in_memory else os.path.realpath(path)
        self.size, self.width, self.dtype = 0, 0, np.dtype("uint8")
        self._chunks: dict[int, np.ndarray] = {}
        self._counts: dict[int, float] = {}
        is_new = in_memory or not os.path.exists(path)
        if not is_new:
            check_journals(pathlib.Path(path))
        # Before the file is opened: see `locked`. Not by another descriptor: closing it
        # would drop the locks of this process.
        self._status = None if is_new else os.stat(path)
        mode = "memory" if in_memory else "rwc" if is_new else "rw"
        self._db = sqlite3.connect(
            f"file:{urllib.parse.quote(self.path)}?mode={mode}",
            timeout=WAIT,
            isolation_level=None,
            check_same_thread=False,
            uri=True,
        )
        self._db.create_function(
            "crc", 2, lambda n, data: zlib.crc32(data, zlib.crc32(b"%d" % n))
        )
        self.close = weakref.finalize(self, self._db.close)

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "A LargeMemory, or its index, cannot be copied: use its `save` and `load`. "
            f"Received: a memory with the file {self.path}"
        )

    def build(
        self,
        about: dict[str, Any],
        groups: Iterable[list[np.ndarray]],
        index: Hash | None = None,
    ) -> None:
        """Writes facts to a new file, which is of no use after an error."""
        pragmas = "PRAGMA journal_mode = OFF", f"PRAGMA cache_size = -{PAGES}"
        for statement in (*pragmas, "BEGIN", *SCHEMA):
            self._db.execute(statement)
        text = json.dumps(about)
        crc = zlib.crc32(text.encode())
        self._db.execute("INSERT INTO about VALUES (?, ?)", [text, crc])
        self.dtype = dtype_of(about)
        for group in groups:
            self._add(group, index)
        self._db.execute("COMMIT")
        self.size, self.width = self._last()
        if not self.size:
            raise ValueError("`facts` must hold at least one. Received: none")

    def append(self, facts: np.ndarray, index: Hash | None) -> None:
        """Adds facts after the last one of the file: all, or none if it fails."""
        with self.locked():
            self._add([facts], index)
            self._db.execute("COMMIT")
        size, width = self._last()
        self._counts.clear()
        self._chunks.pop(self.size >> BITS, None)  # it may have been incomplete
        if width != self.width:
            self._chunks.clear()
        self.size, self.width = size, width

    @contextlib.contextmanager
    def locked(self, journal: str = "DELETE") -> Iterator[None]:
        """A transaction, while no other process writes; undone without a commit."""
        try:
            self._db.execute(f"PRAGMA journal_mode = {journal}")
            self._db.execute("BEGIN IMMEDIATE")
            try:
                self.check_file()
                yield
            finally:
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
        except sqlite3.DatabaseError as error:
            advice = ": delete it first" if "not a database" in str(error) else ""
            raise OSError(
                f"{self.path} could not be written: {error}{advice}"
            ) from error

    def check_file(self) -> None:
        """Raises a ValueError if another memory has replaced the file.

        SQLite looks for a journal by the file's name, so a connection to the old file
        would take the journal of the new one for its own.
        """
        if self._status and not os.path.samestat(os.stat(self.path), self._status):
            raise ValueError(
                f"The memory in {os.path.dirname(self.path)} was changed since it was "
                "opened: load it again."
            )

    def _last(self) -> tuple[int, int]:
        """Returns the number of facts in the file, and the words of the longest."""
        row = self._db.execute(LAST, [self.dtype.itemsize, CHUNK]).fetchone()
        return row or (0, 0)

    def _add(self, blocks: list[np.ndarray], index: Hash | None) -> None:
        """Writes blocks of facts after the last one of the file, in a transaction."""
        size, width = self._last()
        chunk, incomplete = size >> BITS, size & PLACE
        if incomplete:
            blocks = [self._read(chunk), *blocks]
        width = max(width, *(block.shape[1] for block in blocks))
        words = np.concatenate([padded(b.astype(self.dtype), width) for b in blocks])
        parts = [words[n : n + CHUNK].tobytes() for n in range(0, len(words), CHUNK)]
        chunks = zip(itertools.count(chunk), parts, itertools.repeat(width))
        self._db.executemany(ADD_FACTS, chunks)
        if index is not None:
            lists = grouped(index.pairs(words[incomplete:], size), BITS)
            postings = ((number, facts.tobytes()) for number, facts in lists)
            self._db.executemany(ADD_POSTINGS, postings)

    def _read(self, chunk: int) -> np.ndarray:
        self.check_file()
        rows = self._db.execute("SELECT data, width FROM facts WHERE id = ?", [chunk])
        data, width = rows.fetchone()
        return np.frombuffer(data, self.dtype).reshape(-1, width)

    def chunk(self, number: int) -> np.ndarray:
        """Returns the facts of a chunk (n, L), which may be more than `size` tells."""
        words = self._chunks.get(number)
        if words is None:
            if (len(self._chunks) + 1) * CHUNK * self.width > CACHE:
                self._chunks.clear()
            words = padded(self._read(number)[:, : self.width], self.width)
            self._chunks[number] = words
        return words

    def rows(self, facts: np.ndarray) -> np.ndarray:
        """Returns the words of the facts `facts` (n,): (n, L)."""
        words = np.empty((len(facts), self.width), self.dtype)
        chunks, places = facts >> BITS, facts & PLACE
        starts = np.flatnonzero(np.diff(chunks, prepend=-1)).tolist()
        for start, stop in itertools.pairwise([*starts, len(facts)]):
            here = slice(start, stop)  # "clip": without a copy of the rows
            self.chunk(int(chunks[start])).take(places[here], 0, words[here], "clip")
        return words

    def facts_of(self, bucket: int, most: float) -> np.ndarray:
        """Returns the facts of a bucket, ascending; none for more than `most`."""
        self.check_file()
        where = "FROM postings WHERE id BETWEEN ? AND ? ORDER BY id"
        first = bucket << 32 - BITS
        span = first, first | self.size - 1 >> BITS
        if bucket not in self._counts:  # SQLite does not read the lists for this
            count = self._db.execute(f"SELECT TOTAL(length(data)) / 4 {where}", span)
            self._counts[bucket] = count.fetchone()[0]
        if self._counts[bucket] > most + CHUNK:
            return np.zeros(0, "uint32")
        rows = self._db.execute(f"SELECT data {where}", span)
        facts = np.frombuffer(b"".join([data for (data,) in rows]), "<u4")
        facts = facts[: np.searchsorted(facts, self.size)]
        return facts if len(facts) <= most else facts[:0]

    def read(self, verify: bool) -> tuple[dict[str, Any], Hash | None]:
        """Checks the file; returns what it tells about the memory, and the hash."""
        tables = [sql for (sql,) in self._db.execute("SELECT sql FROM sqlite_master")]
        if tables != SCHEMA:
            raise ValueError("it has other tables")
        text, crc = self._db.execute("SELECT text, crc FROM about").fetchone()
        if zlib.crc32(text.encode()) != crc:
            raise ValueError("its table `about` has another checksum: it is damaged")
        about = json.loads(text)
        if about["format"] != FORMAT:
            raise ValueError(f"its format is {about['format']!r}")
        self.dtype = dtype_of(about)
        self._db.execute("BEGIN")  # another process may append between both
        self.size, self.width = self._last()
        counts = self._db.execute(COUNTS, [self.dtype.itemsize]).fetchone()
        self._db.execute("COMMIT")
        if not self.size or counts != ((self.size - 1 >> BITS) + 1, self.size):
            raise ValueError("it holds no fact, or is damaged: it lacks facts")
        for name in ("facts", "postings") if verify else ():
            wrong = f"SELECT COUNT(*) FROM {name} WHERE crc IS NOT crc(id, data)"
            if self._db.execute(wrong).fetchone()[0]:
                raise ValueError(f"its {name} have another checksum: it is damaged")
        state = verify and self._db.execute("PRAGMA quick_check(1)").fetchone()[0]
        if state and state != "ok":
            raise ValueError(f"it is damaged: {state}")
        name = about["hash"]
        return about, name and HASHES[name].restored(self, about["options"])


def write(
    path: str | os.PathLike[str],
    about: dict[str, Any],
    groups: Iterable[list[np.ndarray]],
    index: Hash | None,
) -> None:
    """Writes a memory to a folder, and replaces the one in it at the end."""
    folder = pathlib.Path(path)
    is_new = not folder.exists()
    if not is_new and not (
        folder.is_dir()
        and all(p.name in FILES and is_file(p) for p in folder.iterdir())
    ):
        raise ValueError(
            "`path` must be a new folder or the folder of a saved memory, without "
            f"other files. Received: path={os.fspath(path)!r}"
        )
    folder.mkdir(parents=True, exist_ok=True)
    file, new_file = folder / NAME, folder / NEW
    file.touch()
    try:
        # The old file is locked: nobody appends to it, or writes a new one. A journal
        # on the disk would be taken for one of the new file.
        with contextlib.closing(FactFile(file)) as old, old.locked("MEMORY"):
            new_file.unlink(missing_ok=True)
            with contextlib.closing(FactFile(new_file)) as new:
                new.build(about, groups, index)
            os.replace(new_file, file)
            if hasattr(os, "O_DIRECTORY"):  # wait until the disk has the name
                descriptor = os.open(folder, os.O_DIRECTORY)
                os.fsync(descriptor)
                os.close(descriptor)
    finally:
        new_file.unlink(missing_ok=True)
        if not file.stat().st_size:
            file.unlink()
        if is_new and not any(folder.iterdir()):
            folder.rmdir()


def opened(
    path: str | os.PathLike[str], verify: bool
) -> tuple[FactFile, dict[str, Any], Hash | None]:
    """Opens the file of a folder; see `FactFile.read`."""
    file = pathlib.Path(path) / NAME
    os.stat(path)
    try:
        if not is_file(file):
            raise ValueError(f"it is no folder with a file {NAME}")
        facts = FactFile(file)
        return facts, *facts.read(verify)
    except (KeyError, TypeError, ValueError, sqlite3.Error) as error:
        raise ValueError(f"{path} is not a saved memory: {error}") from error


def check_journals(file: pathlib.Path) -> None:
    """Raises a ValueError if SQLite would follow a journal to another place."""
    for journal in file.parent.glob(f"{file.name}-*"):
        wrong = journal.is_symlink() or journal.is_dir()
        if not wrong:
            # A process that commits deletes its journal.
            with contextlib.suppress(FileNotFoundError), open(journal, "rb") as data:
                data.seek(max(0, data.seek(0, os.SEEK_END) - len(NAMES_A_FILE)))
                wrong = data.read() == NAMES_A_FILE
        if wrong:
            raise ValueError(
                f"The journal of the memory in {file.parent} must be a file, no links, "
                f"and name no other file. Received: {journal}"
            )


def is_file(path: pathlib.Path) -> bool:
    """Whether a path is a file, and no link."""
    return path.is_file() and not path.is_symlink()


def dtype_of(about: dict[str, Any]) -> np.dtype:
    """Returns the smallest unsigned dtype that holds all words."""
    return np.min_scalar_type(about["sizes"]["vocabulary_size"] - 1).newbyteorder("<")


def padded(facts: np.ndarray, width: int) -> np.ndarray:
    """Returns facts of `width` words; 0 is padding."""
    return np.pad(facts, ((0, 0), (0, width - facts.shape[1])))


def groups_of(
    facts: np.ndarray | Iterable[np.ndarray], vocabulary_size: int, verbose: int = 0
) -> Iterator[list[np.ndarray]]:
    """Yields blocks of checked facts, `GROUP` or more at a time; shows their number."""
    parts = [facts] if isinstance(facts, np.ndarray) else facts
    bar = progress(len(facts) if isinstance(facts, np.ndarray) else None, verbose)
    done, group = 0, list[np.ndarray]()
    for part in parts:
        for start in range(0, max(len(part), 1), GROUP):
            block = checked(part[start : start + GROUP])
            check_ids("facts", block, vocabulary_size)
            done += len(block)
            bar.update(done)
            group.append(block)
            if sum(map(len, group)) >= GROUP:
                yield group
                group = []
    if group:
        yield group
