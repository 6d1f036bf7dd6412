"""The import of FAISS, and the files of a `VectorIndex`.

A file has a header of 4,096 bytes, which is JSON padded with spaces, followed by the
index as FAISS writes it. The header has the length and the digest of what follows.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import json
import os
from typing import Any

FORMAT = "keras_attention.VectorIndex 2"
HEADER = 4096  # bytes
NAMES = (
    "kind",
    "count",
    "probes",
    "ef_search",
    "size",
    "width",
    "keys",
    "marks",
    "memory",
)
BLOCK = 2**20  # bytes read at a time


def faiss() -> Any:
    """Imports FAISS or raises an ImportError with help."""
    try:
        return importlib.import_module("faiss")
    except ImportError as error:
        raise ImportError(
            "A VectorIndex needs FAISS, which comes with the extra `index`: "
            'python -m pip install "keras-attention-family[index]". '
            f"Received: {error}",
            name="faiss",
        ) from error


def write(path: str | os.PathLike[str], about: dict[str, Any], index: Any) -> None:
    """Writes a header and a FAISS index; replaces the file at the end.

    Raises:
        OSError: if the file cannot be written; an existing file stays as it was.
    """
    new = os.fspath(path) + ".new"
    digest, length = hashlib.sha256(), 0
    problems: list[OSError] = []  # FAISS drops the errors of its callback

    def add(data: bytes) -> int:
        nonlocal length
        try:
            file.write(data)
        except OSError as error:
            problems.append(error)
            return 0
        digest.update(data)
        length += len(data)
        return len(data)

    try:
        with open(new, "wb") as file:
            file.write(b" " * HEADER)
            try:
                faiss().write_index(index, faiss().PyCallbackIOWriter(add))
            except RuntimeError:
                if not problems:
                    raise
            if problems:
                raise problems[0]
            file.seek(0)
            header = {**about, "bytes": length, "data": digest.hexdigest()}
            file.write(json.dumps({"format": FORMAT, **header}).encode())
            file.flush()
            os.fsync(file.fileno())
        os.replace(new, path)
    finally:
        with contextlib.suppress(FileNotFoundError):  # already renamed
            os.remove(new)


def read(path: str | os.PathLike[str]) -> tuple[dict[str, Any], Any]:
    """Reads a file written by `write` and returns its header and FAISS index.

    Raises:
        OSError: if the file cannot be read.
        ValueError: if the file is not a saved index, or is damaged.
    """
    own = faiss()
    with open(path, "rb") as file:
        try:
            about = json.loads(file.read(HEADER))
            if about["format"] != FORMAT:
                raise ValueError(f"its format is {about['format']!r}")
            missing = {*NAMES, "bytes", "data"} - {*about}
            if missing:
                raise ValueError(f"its header has no {sorted(missing)}")
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"{path} is not a saved VectorIndex: {error}") from error
        digest, length = hashlib.sha256(), 0
        while block := file.read(BLOCK):
            digest.update(block)
            length += len(block)
        if (length, digest.hexdigest()) != (about["bytes"], about["data"]):
            raise ValueError(
                f"{path} is damaged: it has {length} bytes of an index, and "
                f"{about['bytes']} were written"
            )
        file.seek(HEADER)
        index = own.read_index(own.PyCallbackIOReader(file.read))
    if (index.ntotal, index.d) != (about["size"], about["width"]):
        raise ValueError(
            f"{path} is damaged: it has {index.ntotal} keys of width {index.d}, and "
            f"its header names {about['size']} of width {about['width']}"
        )
    return about, index
