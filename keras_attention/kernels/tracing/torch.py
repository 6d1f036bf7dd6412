"""Detection of traced or symbolic tensors on torch."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import torch

from keras_attention.kernels.tracing.reference import ERRORS, dtypes
from keras_attention.user_warnings import warn_user

__all__ = ["COMPLEX", "ERRORS", "INTEGERS", "changes", "is_readable", "is_traced"]

Tensor = Any
COMPLEX, INTEGERS = dtypes(torch)
is_compiling = torch.compiler.is_compiling
_TRAINER = "keras.src.backend.torch.trainer"  # Keras' `fit` and `predict`
_warned: set[str] = set()


def is_traced(tensor: Tensor) -> bool:
    """Returns whether the tensor is symbolic or in a compiled or exported function."""
    return (
        isinstance(tensor, keras.KerasTensor)
        or torch.compiler.is_compiling()
        or torch.jit.is_tracing()
        or keras.ops.convert_to_tensor(tensor).is_meta
    )


def is_readable(tensor: Tensor) -> bool:
    """Returns whether the values are known and in the memory of the host."""
    if torch.compiler.is_compiling() or torch.jit.is_tracing():
        return False
    if isinstance(tensor, torch.Tensor):
        plain = type(tensor) in (torch.Tensor, torch.nn.Parameter)
        return plain and tensor.device.type == "cpu" and _is_stored(tensor)
    return isinstance(tensor, np.ndarray)


def changes(variables: list[Any]) -> Callable[[], bool]:
    """Returns a function that says whether the values may have changed since.

    A tensor counts the operations that changed it in place, but not those on its
    `data`, which change its bits.
    """
    held = [variable.value for variable in variables]
    if any(value.is_inference() for value in held):  # such a tensor does not count
        return lambda: True
    states = [(value._version, _fingerprint(value)) for value in held]
    return lambda: any(
        variable.value is not value or state != (value._version, _fingerprint(value))
        for variable, value, state in zip(variables, held, states)
    )


@torch.compiler.assume_constant_result  # runs while the compiler traces its caller
def warn_of_compiler() -> bool:
    """Warns, once per process, if Keras' `fit` or `predict` compiles with torch.

    The warning names the line of the user that calls it. A function that the user
    passes to `torch.compile`, or exports, gives no warning.
    """
    trainer: Any = None
    frame: Any = None if _warned else sys._getframe()
    while frame is not None:
        trainer = frame if frame.f_globals.get("__name__") == _TRAINER else trainer
        frame = frame.f_back
    if trainer is not None:
        name = trainer.f_locals["self"].name
        _warned.add(name)
        warn_user(
            f"torch's compiler traces the model {name!r}, which can take minutes, "
            "because the model has the option `jit_compile=True`: JAX saved its file, "
            "or you chose it. To run without the compiler, load the model again and "
            "set `model.jit_compile = False` before `fit`, `evaluate` or `predict`.",
            frame=trainer,
        )
    return True


def _fingerprint(tensor: Tensor) -> tuple[bytes, ...]:
    """Returns the sums of the rows and columns of the bits of a tensor, and the rest.

    A row has 1,024 integers of 8 bytes, so that values which change places change a
    sum.
    """
    values = tensor.detach().cpu().contiguous().reshape(-1)
    bits = values.view(torch.uint8).numpy()
    count = len(bits) // 8192 * 8192
    table = bits[:count].view(np.int64).reshape(-1, 1024)
    return table.sum(0).tobytes(), table.sum(1).tobytes(), bits[count:].tobytes()


def _is_stored(tensor: Tensor) -> bool:
    """Returns whether a tensor has numbers; inside `torch.func.vmap` it has none."""
    try:
        tensor.data_ptr()
    except RuntimeError:
        return False
    return True
