"""Lists and reads tensors in files of weights: safetensors, and Keras' HDF5."""

from __future__ import annotations

import importlib
import pathlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import h5py
import ml_dtypes
import numpy as np

Array = np.ndarray

FLOATS = ("F64", "F32", "F16", "BF16")  # dtypes of safetensors that can be weights


class StoredTensor(NamedTuple):
    """A tensor in a file, which is read when it is needed."""

    file: pathlib.Path
    name: str  # in the file
    dtype: str  # as the file names it
    shape: tuple[int, ...]
    is_float: bool
    is_hdf5: bool

    def read(self) -> Array:
        """Reads the values; those of bfloat16 as float32.

        Raises:
            ValueError: if the values are not floating-point numbers, or the file cannot
                be read.
        """
        if not self.is_float:
            raise ValueError(
                f"{self.file.name} must store {self.name!r} as floating-point numbers. "
                f"Received: the dtype {self.dtype}"
            )
        with _opened(self.file, self.is_hdf5, f"{self.name!r}: ") as file:
            if self.is_hdf5:
                values = np.asarray(file[self.name])
                if values.dtype.kind != "f":
                    values = values.view(ml_dtypes.bfloat16)
            else:
                values = file.get_tensor(self.name)
        return (
            values.astype("float32") if values.dtype == ml_dtypes.bfloat16 else values
        )


def damaged(file: pathlib.Path, reason: str) -> ValueError:
    """Returns the error for a file that is incomplete or of another format."""
    return ValueError(
        f"{file.name} must be a complete file of weights. It is damaged, incomplete or "
        f"of another format: {reason}. Received: {str(file)!r}"
    )


@contextmanager
def _opened(file: pathlib.Path, is_hdf5: bool, what: str = "") -> Iterator[Any]:
    """Opens a file; an error that says it is damaged begins with `what`."""
    errors: tuple[type[Exception], ...] = (OSError,)
    if not is_hdf5:
        try:
            library = importlib.import_module("safetensors")
        except ImportError as error:
            raise ImportError(
                "Weights of Hugging Face need safetensors, which comes with the extra "
                "`safetensors`: python -m pip install "
                f'"keras-attention-family[safetensors]". Received: {error}',
                name="safetensors",
            ) from error
        errors = (OSError, library.SafetensorError)
    try:
        with h5py.File(file) if is_hdf5 else library.safe_open(file, "numpy") as opened:
            yield opened
    except errors as error:
        raise damaged(file, f"{what}{error}") from error


def safetensors(file: pathlib.Path) -> dict[str, StoredTensor]:
    """Lists the tensors of a safetensors file, by name.

    Raises:
        ImportError: if safetensors is not installed; the message names the extra.
        ValueError: if the file is not a complete safetensors file.
    """
    tensors = {}
    with _opened(file, is_hdf5=False) as opened:
        for name in opened.keys():  # noqa: SIM118
            part = opened.get_slice(name)
            dtype, shape = part.get_dtype(), tuple(part.get_shape())
            is_float = dtype in FLOATS
            tensors[name] = StoredTensor(file, name, dtype, shape, is_float, False)
    return tensors


def hdf5(file: pathlib.Path) -> dict[str, StoredTensor]:
    """Lists the tensors of a file that Keras' `save_weights` wrote, by their paths.

    Raises:
        ValueError: if the file is not a complete HDF5 file, or refers to other files.
    """
    tensors = {}

    def visit(name: str, item: Any) -> None:
        if isinstance(item, h5py.Dataset):
            if item.external or item.is_virtual:
                raise damaged(file, f"{name!r} is stored in another file")
            # Keras stores bfloat16 as two bytes of no dtype, with an attribute.
            stored = item.attrs.get("dtype"), item.dtype.str
            is_float = item.dtype.kind == "f" or stored == ("bfloat16", "|V2")
            dtype = item.dtype.str
            tensors[name] = StoredTensor(file, name, dtype, item.shape, is_float, True)

    with _opened(file, is_hdf5=True) as opened:
        opened.visititems(visit)
    return tensors
