"""Detection of traced or symbolic tensors on torch."""

from __future__ import annotations

from typing import Any

import keras
import torch

Tensor = Any


def is_traced(tensor: Tensor) -> bool:
    """Returns whether the tensor is symbolic or in a compiled or exported function."""
    return (
        isinstance(tensor, keras.KerasTensor)
        or torch.compiler.is_compiling()
        or torch.jit.is_tracing()
        or keras.ops.convert_to_tensor(tensor).is_meta
    )
