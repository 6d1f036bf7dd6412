"""Reads files from tar archives without unpacking them, and rejects unsafe archives."""

import os
import posixpath
import tarfile
from collections.abc import Collection
from pathlib import Path

from keras_attention.datasets.files import (
    ARCHIVE_LIMIT,
    CHUNK,
    DAMAGES,
    DamagedDataError,
    UnsafeArchiveError,
    open_decompressed,
)


def read_members(
    path: str | os.PathLike[str], names: Collection[str]
) -> dict[str, bytes]:
    """Reads files out of a `.tar` or `.tar.gz`, by name, without unpacking it.

    "en/a.txt" also matches "any/folder/en/a.txt"; missing names are left out. The whole
    archive is read first, so that gzip verifies its checksum before a member is used.

    Raises:
        DamagedDataError: The file is truncated, altered or not an archive.
        UnsafeArchiveError: A member, requested or not, has a path outside the archive's
            folder, links to such a path, or is not a file, a folder or a link.
    """
    path = Path(path)
    contents: dict[str, bytes] = {}
    try:
        total = _read_through(path)
        with (
            open_decompressed(path) as stream,
            tarfile.open(fileobj=stream, mode="r:") as archive,
        ):
            for member in archive:
                if not 0 <= member.size <= total:
                    raise tarfile.ReadError(f"a member has {member.size} bytes")
                _refuse_unsafe(member, path)
                name = _wanted(member, names)
                content = None if name is None else archive.extractfile(member)
                if name is not None and content is not None:
                    contents[name] = content.read()
    except UnsafeArchiveError:
        raise
    except (tarfile.TarError, *DAMAGES) as error:
        raise DamagedDataError(
            f"{path} is damaged or is no tar archive ({error}). "
            "Delete it and download it again."
        ) from error
    return contents


def _wanted(member: tarfile.TarInfo, names: Collection[str]) -> str | None:
    if not member.isreg():
        return None
    parts = posixpath.normpath(member.name).split("/")
    tails = ("/".join(parts[start:]) for start in range(len(parts)))
    return next((tail for tail in tails if tail in names), None)


def _refuse_unsafe(member: tarfile.TarInfo, path: Path) -> None:
    target = member.linkname  # a symbolic link is relative to its own folder
    if member.issym():
        target = posixpath.join(posixpath.dirname(member.name), target)
    is_link = member.issym() or member.islnk()
    if _leaves(member.name):
        reason = "its path leaves the archive's folder"
    elif is_link and _leaves(target):
        reason = f"it links to {member.linkname!r}, outside the archive's folder"
    elif not (is_link or member.isreg() or member.isdir()):
        reason = "it is neither a file, a folder nor a link"
    else:
        return
    raise UnsafeArchiveError(
        f"{path} is refused because of its member {member.name!r}: {reason}. "
        "Delete the archive and download it from the official address."
    )


def _leaves(name: str) -> bool:
    """Returns whether a path that is relative to a folder may leave the folder."""
    name = name.replace("\\", "/")
    drive = len(name) > 1 and name[1] == ":"
    depth = 0
    for part in name.split("/"):
        depth += {"..": -1, ".": 0, "": 0}.get(part, 1)
        if depth < 0:
            return True
    return name.startswith("/") or drive


def _read_through(path: Path) -> int:
    """Reads a file to its end, where gzip verifies the checksum; returns its size."""
    with open_decompressed(path) as stream:
        while stream.read(CHUNK):
            if stream.tell() > ARCHIVE_LIMIT:
                raise UnsafeArchiveError(
                    f"{path} is refused: decompressed, it has more than "
                    f"{ARCHIVE_LIMIT} bytes."
                )
        return stream.tell()
