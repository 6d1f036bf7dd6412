"""The folder of a saved memory: NumPy files of segments, and a manifest.

    memory/manifest.json                 what belongs to the memory; replaced last
    memory/segment-000001/facts.npy      the words of consecutive facts
    memory/segment-000001/members.npy    the hash of these facts, with starts.npy

A change writes new segments and then replaces the manifest in one step. A process that
dies before this step leaves the old memory, and folders that no manifest names. The
next change deletes them.
"""

from __future__ import annotations

import io
import json
import os
import pathlib
import re
import shutil
import zlib
from typing import Any, Self

import numpy as np

FORMAT = "keras_attention.LargeMemory 2"
MANIFEST = "manifest.json"
CHUNK = 2**22  # bytes read or written at a time
NAME = re.compile("segment-[0-9]{6,}")
FILES = {"facts.npy", "members.npy", "starts.npy", "buckets.npy"}  # of a segment

Entry = dict[str, Any]


class Change:
    """A context that writes new segments. Without `commit`, it leaves nothing behind.

    Args:
        path: the folder of the memory; it is created if it does not exist.

    Raises:
        ValueError: if `path` is a file, or a folder with other files.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.folder = pathlib.Path(path)
        if self.folder.exists():
            known = self.folder.is_dir() and all(
                entry.name.removesuffix(".new") == MANIFEST or is_segment(entry)
                for entry in self.folder.iterdir()
            )
            if not known:
                raise ValueError(
                    "`path` must be a new folder or the folder of a saved memory, "
                    f"without other files. Received: path={os.fspath(path)!r}"
                )
        self._is_new = not self.folder.exists()
        self._made: list[pathlib.Path] = []

    def __enter__(self) -> Self:
        self.folder.mkdir(parents=True, exist_ok=True)
        return self

    def segment(self) -> pathlib.Path:
        """Creates the folder of a new segment."""
        numbers = [
            int(entry.name.removeprefix("segment-"))
            for entry in self.folder.iterdir()
            if NAME.fullmatch(entry.name)
        ]
        made = self.folder / f"segment-{max(numbers, default=0) + 1:06d}"
        made.mkdir()
        self._made.append(made)
        return made

    def commit(self, manifest: Entry) -> None:
        """Replaces the manifest, and deletes the segments that it does not name."""
        for folder in (*self._made, self.folder):
            sync_folder(folder)
        new = self.folder / f"{MANIFEST}.new"
        with open(new, "w", encoding="utf-8") as file:
            json.dump(manifest, file, indent=1)
            file.flush()
            os.fsync(file.fileno())
        os.replace(new, self.folder / MANIFEST)
        self._made = []
        sync_folder(self.folder)
        named = {segment["name"] for segment in manifest["segments"]}
        named.add((manifest["index"] or {}).get("name"))
        for entry in [*self.folder.iterdir()]:
            if entry.name not in named and is_segment(entry):
                shutil.rmtree(entry, ignore_errors=True)

    def __exit__(self, *_: object) -> None:
        for made in self._made:  # it was not committed
            shutil.rmtree(made, ignore_errors=True)
        if self._made or not any(self.folder.iterdir()):
            (self.folder / f"{MANIFEST}.new").unlink(missing_ok=True)
            if self._is_new and not any(self.folder.iterdir()):
                self.folder.rmdir()


def is_segment(path: pathlib.Path) -> bool:
    """Whether this is a folder as `Change` makes it, with no other files."""
    return (
        NAME.fullmatch(path.name) is not None
        and path.is_dir()
        and not path.is_symlink()
        and all(file.name in FILES and file.is_file() for file in path.iterdir())
    )


def sync_folder(folder: pathlib.Path) -> None:
    """Waits until the disk has the names in a folder, where the system can."""
    if hasattr(os, "O_DIRECTORY"):
        descriptor = os.open(folder, os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


class RowsFile:
    """Writes a NumPy file whose number of rows is not known in advance.

    Args:
        path: the file.
        dtype: the dtype of the array.
        row: the shape of a row.
    """

    def __init__(
        self, path: pathlib.Path, dtype: Any, row: tuple[int, ...] = ()
    ) -> None:
        self.path, self._dtype, self._row = path, np.dtype(dtype), row
        self.rows, self._crc = 0, 0
        self._file = path.open("wb")
        self._file.write(header(self._dtype, (0, *row)))

    def write(self, rows: np.ndarray) -> None:
        """Appends rows (n, ...)."""
        data = np.ascontiguousarray(rows, self._dtype)
        self._file.write(data.data)
        self._crc = zlib.crc32(data.data, self._crc)
        self.rows += len(data)

    def close(self) -> Entry:
        """Completes the file, and returns its entry in the manifest."""
        with self._file as file:
            size = file.tell()
            file.seek(0)
            file.write(header(self._dtype, (self.rows, *self._row)))
            file.flush()
            os.fsync(file.fileno())
        shape = [self.rows, *self._row]
        return {
            **{"shape": shape, "dtype": self._dtype.str},
            **{"bytes": size, "crc32": self._crc},
        }

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()


def header(dtype: np.dtype, shape: tuple[int, ...]) -> bytes:
    """Returns the start of a NumPy file. NumPy leaves room for more rows in it."""
    text = io.BytesIO()
    about = {"descr": dtype.str, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(text, about)
    return text.getvalue()


def write_array(path: pathlib.Path, array: np.ndarray) -> Entry:
    """Writes an array, and returns its entry in the manifest."""
    with RowsFile(path, array.dtype, array.shape[1:]) as file:
        rows = max(CHUNK // max(array[:1].nbytes, 1), 1)
        for start in range(0, len(array), rows):
            file.write(array[start : start + rows])
        return file.close()


def mapped_array(path: pathlib.Path, length: int, dtype: Any) -> np.ndarray:
    """Creates a file of `length` numbers and maps it, to be written in any order.

    The space on the disk is taken first: a full disk gives an OSError here. Later, it
    would end the process.
    """
    if not length:
        return np.empty(0, dtype)
    start = header(np.dtype(dtype), (length,))
    size = length * np.dtype(dtype).itemsize
    with open(path, "wb") as file:
        file.write(start)
        if hasattr(os, "posix_fallocate"):
            file.flush()
            os.posix_fallocate(file.fileno(), len(start), size)
        else:
            for _ in range(0, size, CHUNK):
                file.write(bytes(CHUNK))
            file.truncate(len(start) + size)
    return np.asarray(np.load(path, mmap_mode="r+"))


def finished_array(path: pathlib.Path, array: np.ndarray) -> Entry:
    """Completes a file of `mapped_array`, and returns its entry in the manifest."""
    if not len(array):
        return write_array(path, array)
    mapping: Any = array.base
    mapping.flush()
    with open(path, "rb+") as file:
        os.fsync(file.fileno())
    return {
        **{"shape": list(array.shape), "dtype": array.dtype.str},
        **{"bytes": path.stat().st_size, "crc32": checksum(path, array.nbytes)},
    }


def read_array(path: pathlib.Path, entry: Entry, verify: bool) -> np.ndarray:
    """Maps an array of a memory.

    Raises:
        ValueError: if the file is not that of its entry in the manifest.
    """
    size = path.stat().st_size
    if size != entry["bytes"]:
        raise ValueError(
            f"{path.name} must have {entry['bytes']} bytes, but has {size}: it is "
            "incomplete, or of another memory"
        )
    mode: Any = "r" if 0 not in entry["shape"] else None  # an empty file is not mapped
    array = np.asarray(np.load(path, mmap_mode=mode, allow_pickle=False))
    if (list(array.shape), array.dtype.str) != (entry["shape"], entry["dtype"]):
        raise ValueError(
            f"{path.name} has another shape or dtype than when it was saved"
        )
    if verify and checksum(path, array.nbytes) != entry["crc32"]:
        raise ValueError(
            f"{path.name} has another checksum than it was saved with: it is damaged, "
            "or of another memory"
        )
    return array


def checksum(path: pathlib.Path, size: int) -> int:
    """Computes the CRC-32 of the last `size` bytes of a file."""
    crc = 0
    with open(path, "rb") as file:
        file.seek(-size, os.SEEK_END)
        while data := file.read(CHUNK):
            crc = zlib.crc32(data, crc)
    return crc


def read_manifest(folder: pathlib.Path) -> Entry:
    """Reads the manifest of a memory.

    Raises:
        ValueError: if there is none, or it has another format.
    """
    try:
        manifest = json.loads((folder / MANIFEST).read_text("utf-8"))
    except FileNotFoundError:
        raise ValueError(f"it has no {MANIFEST}") from None
    if manifest["format"] != FORMAT:
        raise ValueError(f"its format is {manifest['format']!r}")
    return manifest
