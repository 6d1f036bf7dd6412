"""Bytes to text."""

import codecs
import os


def decode_text(content: bytes, source: str | os.PathLike[str]) -> str:
    """Decodes UTF-8 text, without a byte order mark at its beginning.

    Raises:
        ValueError: The bytes are not UTF-8; the message gives `source` and the line.
    """
    try:
        return content.removeprefix(codecs.BOM_UTF8).decode("utf-8")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ValueError(
            f"{source}, line {line}: not UTF-8 text ({error}). Convert the file to "
            "UTF-8, or get it again."
        ) from error
