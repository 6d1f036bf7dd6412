"""A fact, and the text of the files that hold facts."""

import os
from pathlib import Path
from typing import NamedTuple

from keras_attention.datasets import files
from keras_attention.text.encoding import decode_text


class Fact(NamedTuple):
    """A triple of subject, relation and object, as in the file.

    Attributes:
        subject: The subject entity.
        relation: The relation between subject and object.
        object: The other entity.
    """

    subject: str
    relation: str
    object: str


def read_text(path: str | os.PathLike[str]) -> str:
    """Returns the text of a plain or gzipped UTF-8 file.

    Raises:
        ValueError: The file is not UTF-8; the message gives the line.
        DataNotFoundError: No such file.
        DamagedDataError: A gzipped file is truncated or altered.
    """
    path = Path(path)
    content = files.read_decompressed(path)
    return decode_text(content, path)
