"""Loads MNIST, a data set of handwritten digits.

LeCun, Cortes & Burges, *The MNIST database of handwritten digits*. The license of the
data is Creative Commons Attribution-ShareAlike 3.0. The data are downloaded and are not
part of this package.
"""

import math
import os
from pathlib import Path
from typing import NamedTuple

import numpy as np

from keras_attention.datasets import files
from keras_attention.datasets.choices import check_choice

# The authors' site no longer works; these two mirrors hold copies of the files.
_ADDRESS = "https://storage.googleapis.com/cvdf-datasets/mnist/"
_MIRROR = "https://ossci-datasets.s3.amazonaws.com/mnist/"
# Checksums published by TensorFlow Datasets.
_SHA256 = {
    "train-images-idx3-ubyte.gz": (
        "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609"
    ),
    "train-labels-idx1-ubyte.gz": (
        "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c"
    ),
    "t10k-images-idx3-ubyte.gz": (
        "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6"
    ),
    "t10k-labels-idx1-ubyte.gz": (
        "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6"
    ),
}
_PREFIXES = {"train": "train", "test": "t10k"}


class Digits(NamedTuple):
    """Images and labels of digits.

    Attributes:
        images: (N, 28, 28) uint8, from 0 for the background to 255 for ink.
        labels: (N,) uint8, from 0 to 9.
    """

    images: np.ndarray
    labels: np.ndarray


def load(split: str = "test") -> Digits:
    """Loads the digits of a split: 60,000 for `"train"`, 10,000 for `"test"`.

    The files, such as `mnist/t10k-images-idx3-ubyte.gz`, are read from the folder named
    by `KERAS_ATTENTION_DATA` or from Keras' cache. Otherwise they are downloaded.

    Args:
        split: `"train"` or `"test"`.

    Raises:
        ValueError: Unknown `split`.
        DataNotFoundError: A file cannot be found or downloaded; the message lists what
            was tried and what to try next.
        DamagedDataError: A file is truncated, altered, or has another format.
    """
    check_choice("split", split, _PREFIXES)
    names = (f"{_PREFIXES[split]}-{kind}" for kind in ("images-idx3", "labels-idx1"))
    images, labels = (_find(f"{name}-ubyte.gz") for name in names)
    digits = Digits(read_idx(images, 3), read_idx(labels, 1))
    if len(digits.images) != len(digits.labels):
        raise files.DamagedDataError(
            f"{images} has {len(digits.images)} digits, and {labels} has labels of "
            f"{len(digits.labels)}: they do not belong together."
        )
    return digits


def read_idx(path: str | os.PathLike[str], rank: int) -> np.ndarray:
    """Reads unsigned bytes from a plain or gzipped file in MNIST's IDX format.

    Args:
        path: Path of the file.
        rank: Required number of axes of the array.

    Returns:
        A uint8 array.

    Raises:
        DataNotFoundError: No such file.
        DamagedDataError: The file is truncated, altered, or has another format.
    """
    path = Path(path)
    content = files.read_decompressed(path)
    start = 4 + 4 * rank
    if content[:4] != bytes((0, 0, 8, rank)) or len(content) < start:
        raise files.DamagedDataError(
            f"{path} is no IDX file of unsigned bytes with {rank} axes: it begins "
            f"with {content[:4]!r}."
        )
    shape = np.frombuffer(content, ">u4", rank, 4).tolist()
    expected = start + math.prod(shape)
    if len(content) != expected:
        raise files.DamagedDataError(
            f"{path} is truncated or altered: for an array of shape {tuple(shape)} it "
            f"must have {expected} bytes, and it has {len(content)}."
        )
    return np.frombuffer(content, np.uint8, offset=start).reshape(shape)


def _find(name: str) -> Path:
    return files.find(
        f"mnist/{name}",
        _ADDRESS + name,
        _SHA256[name],
        mirrors=[files.Source(_MIRROR + name, _SHA256[name])],
        cache_name=f"mnist-{name}",
    )
