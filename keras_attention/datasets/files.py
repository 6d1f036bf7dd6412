"""Finds, downloads and reads the files for the loaders.

`find` searches for a file in the folder named by the environment variable
`KERAS_ATTENTION_DATA`, then in Keras' cache. If the file is in neither, `find`
downloads it into the cache. `read_members` reads files out of a tar archive without
unpacking it.
"""

import gzip
import hashlib
import http.client
import io
import os
import posixpath
import queue
import struct
import threading
import urllib.error
import urllib.request
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from keras_attention.datasets import parts
from keras_attention.text.encoding import decode_text

DATA_VARIABLE = "KERAS_ATTENTION_DATA"
PROBE_SECONDS = 5.0  # timeout in seconds for the first response
STALL_SECONDS = 30.0  # timeout in seconds for a stalled download
ARCHIVE_LIMIT = 2**30  # limit in bytes for a decompressed archive
CHUNK = 2**20
# What `gzip` raises for damaged bytes, and what the readers of archives raise, too.
GZIP_DAMAGES = (gzip.BadGzipFile, zlib.error, EOFError)
DAMAGES = (*GZIP_DAMAGES, struct.error, ValueError, ArithmeticError, LookupError)


class DataNotFoundError(FileNotFoundError):
    """The file was not found; the message lists all searched locations.

    Attributes:
        tried: one sentence per attempt, which explains why the attempt failed.
    """

    tried: tuple[str, ...]

    def __init__(self, *args: object, tried: Iterable[str] = ()) -> None:
        super().__init__(*args)
        self.tried = tuple(tried)


class DamagedDataError(ValueError):
    """A file is truncated, altered, or not in the expected format."""


class UnsafeArchiveError(ValueError):
    """An archive member would be written outside the archive's folder."""


@dataclass(frozen=True, slots=True)
class Source:
    """A URL and the known properties of its file: SHA-256, size in bytes, or both.

    If `unpacked`, they describe the gzip-decompressed content, which stays the same if
    the file is recompressed.
    """

    url: str
    sha256: str | None = None
    size: int | None = None
    unpacked: bool = False

    def __post_init__(self) -> None:
        if self.sha256 is None and self.size is None:
            raise ValueError(
                "A source needs a `sha256` or a `size` to be checked by. "
                f"Received: url={self.url!r}, sha256=None, size=None"
            )

    @property
    def largest(self) -> int:
        """The largest size in bytes that the served file can have."""
        if self.size is None:
            return ARCHIVE_LIMIT
        # Compression with gzip adds little, even to random bytes.
        return self.size + (self.size // 1000 + 2**16 if self.unpacked else 0)

    def mismatch(self, path: str | os.PathLike[str]) -> str | None:
        """Returns a description of the mismatch of the file at `path`, or `None`."""
        try:
            size = _size(path, self.unpacked)
            if self.size is not None and size != self.size:
                return f"it has {size} bytes, not {self.size}"
            digest = None if self.sha256 is None else _sha256(path, self.unpacked)
        except GZIP_DAMAGES as error:
            return f"it is no whole gzip file ({error})"
        if digest != self.sha256:
            return f"its SHA-256 is {digest}, not {self.sha256}"
        return None


def find(
    relative: str,
    url: str,
    sha256: str | None = None,
    *,
    size: int | None = None,
    unpacked: bool = False,
    mirrors: Iterable[Source] = (),
    cache_name: str | None = None,
) -> Path:
    """Returns the path of a data file and downloads it if needed.

    A file in the folder named by `KERAS_ATTENTION_DATA`, at `relative`, belongs to the
    user and is not checked. A file in Keras' cache, under `cache_name` or the last part
    of `relative`, or a downloaded file must match the `sha256` and `size` of `url`, or
    those of one of the `mirrors`, which are tried if `url` fails.

    Raises:
        DataNotFoundError: The file cannot be found or downloaded: the folder or file is
            missing, the network is down, or the cache is not writable. The message
            lists what was tried and what to try next.
        DamagedDataError: A downloaded file does not match `sha256` or `size`, and no
            other source works.
    """
    sources = [Source(url, sha256, size, unpacked), *mirrors]
    tried: list[str] = []
    path = _in_data_folder(relative, tried)
    if path is not None:
        return path
    target = cache_folder() / (cache_name or posixpath.basename(relative))
    if _in_cache(target, sources, tried):
        return target
    damaged = False
    for source in sources:
        try:
            return _download(source, target)
        except DamagedDataError as error:
            damaged = True
            tried.append(str(error))
        except DataNotFoundError as error:
            tried.append(str(error))
    steps = "\n".join(f"  {i}. {step}" for i, step in enumerate(tried, 1))
    message = (
        f"{relative} could not be had. What was tried:\n{steps}\n"
        f"Next: download {url} by hand and put it at {relative} in a folder named "
        f"by the environment variable {DATA_VARIABLE}, or at {target}."
    )
    if damaged:
        raise DamagedDataError(message)
    raise DataNotFoundError(message, tried=tried)


def _in_data_folder(relative: str, tried: list[str]) -> Path | None:
    folder = os.environ.get(DATA_VARIABLE)
    if not folder:
        tried.append(f"The environment variable {DATA_VARIABLE} is not set.")
        return None
    if not os.path.isdir(folder):
        tried.append(f"{DATA_VARIABLE} names a folder that is not there: {folder}")
        return None
    path = Path(folder, *relative.split("/"))
    if not path.is_file():
        tried.append(f"The folder named by {DATA_VARIABLE} has no file {path}.")
        return None
    return path


def cache_folder() -> Path:
    """Returns the folder of Keras' cache."""
    home = os.environ.get("KERAS_HOME") or os.path.join("~", ".keras")
    return Path(home).expanduser() / "datasets"


def _in_cache(target: Path, sources: Iterable[Source], tried: list[str]) -> bool:
    if not target.is_file():
        tried.append(f"Keras' cache has no file {target}.")
        return False
    problems = [source.mismatch(target) for source in sources]
    if None in problems:
        return True
    tried.append(
        f"Keras' cache has {target}, but it is truncated or altered: "
        f"{problems[0]}. Delete it."
    )
    return False


def _download(source: Source, target: Path) -> Path:
    """Downloads `source` next to `target`, verifies it, and moves it to `target`."""
    problem = _probe(source.url, PROBE_SECONDS)
    if problem is not None:
        raise DataNotFoundError(f"{source.url} cannot be reached: {problem}.")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        parts.remove_stale(target.parent)
        file = parts.new(target.parent)
    except OSError as error:
        raise DataNotFoundError(
            f"Keras' cache {target.parent} cannot be written ({error}): set the "
            "environment variable KERAS_HOME to a folder that can be written."
        ) from error
    try:
        with file:
            _fetch(source, file)
            file.flush()
            problem = source.mismatch(file.name)
            if problem is not None:
                raise _altered(source, problem)
            parts.finish(file, target)
    finally:
        Path(file.name).unlink(missing_ok=True)
    return target


def _fetch(source: Source, file: BinaryIO) -> None:
    """Writes the answer of the server to a file, up to the expected size."""
    limit = source.largest
    try:
        with urllib.request.urlopen(source.url, timeout=STALL_SECONDS) as answer:
            promised = answer.length  # None if the server does not say
            received = 0
            while received <= limit and (promised or 0) <= limit:
                chunk = answer.read(min(CHUNK, limit + 1 - received))
                if not chunk:
                    break
                file.write(chunk)
                received += len(chunk)
            else:
                raise _altered(source, f"it has more than {limit} bytes")
    except (OSError, http.client.HTTPException) as error:
        raise _broken(source, error) from error
    if promised is not None and received < promised:
        raise _broken(source, f"{received} of {promised} bytes came")


def _broken(source: Source, why: BaseException | str) -> DataNotFoundError:
    return DataNotFoundError(
        f"The download of {source.url} broke off ({why}): try again."
    )


def _altered(source: Source, problem: str) -> DamagedDataError:
    return DamagedDataError(
        f"What {source.url} serves is not the expected file: {problem}. "
        "It was not kept."
    )


def _probe(url: str, seconds: float) -> str | None:
    """Returns why `url` did not respond within `seconds`, or `None` on success.

    The request runs in a thread, since host name lookup has no timeout.
    """
    answer: queue.SimpleQueue[str | None] = queue.SimpleQueue()

    def ask() -> None:
        try:
            with urllib.request.urlopen(url, timeout=seconds):
                answer.put(None)
        except urllib.error.HTTPError as error:
            error.close()
            answer.put(f"it answers {error.code} {error.reason}")
        except (OSError, http.client.HTTPException) as error:
            answer.put(f"no network, or no server there ({error})")

    threading.Thread(target=ask, daemon=True).start()
    try:
        return answer.get(timeout=seconds)
    except queue.Empty:
        return f"no answer within {seconds:g} s"


def _size(path: str | os.PathLike[str], unpacked: bool) -> int:
    """Returns the size in bytes of a file or of its decompressed content."""
    if not unpacked:
        return os.path.getsize(path)
    size = 0
    for chunk in _chunks(path, unpacked):
        size += len(chunk)
        if size > ARCHIVE_LIMIT:
            raise zlib.error(f"unpacked, it has more than {ARCHIVE_LIMIT} bytes")
    return size


def _sha256(path: str | os.PathLike[str], unpacked: bool) -> str:
    digest = hashlib.sha256()
    for chunk in _chunks(path, unpacked):
        digest.update(chunk)
    return digest.hexdigest()


def _chunks(path: str | os.PathLike[str], unpacked: bool) -> Iterator[bytes]:
    with gzip.open(path) if unpacked else open(path, "rb") as file:
        while chunk := file.read(CHUNK):
            yield chunk


def whole_number(text: str) -> int | None:
    """Returns the integer from 0 on of at most nine ASCII digits, else None.

    `str.isdigit` also accepts digits that `int` refuses, such as "²".
    """
    is_number = text.isascii() and text.isdigit() and len(text) <= 9
    return int(text) if is_number else None


def open_decompressed(path: Path) -> gzip.GzipFile | io.BufferedReader:
    """Opens a file for reading bytes; a gzip file is decompressed."""
    if not path.is_file():
        raise DataNotFoundError(f"There is no file {path}.")
    with open(path, "rb") as file:
        is_gzip = file.read(2) == b"\x1f\x8b"
    return gzip.open(path, "rb") if is_gzip else open(path, "rb")


def read_text(path: str | os.PathLike[str]) -> str:
    """Returns the text of a plain or gzipped UTF-8 file.

    Raises:
        DataNotFoundError: No such file.
        DamagedDataError: The file is not UTF-8, and the message gives the line; or a
            gzipped file is truncated or altered.
    """
    content = read_decompressed(Path(path))
    try:
        return decode_text(content, path)
    except ValueError as error:
        raise DamagedDataError(str(error)) from error


def read_decompressed(path: Path) -> bytes:
    """Returns the content of a file; a gzip file is decompressed.

    Raises:
        DataNotFoundError: No such file.
        DamagedDataError: A gzip file is truncated or altered.
    """
    with open_decompressed(path) as file:
        try:
            return file.read()
        except GZIP_DAMAGES as error:
            raise DamagedDataError(
                f"{path} is truncated or altered ({error}). Get it again."
            ) from error
