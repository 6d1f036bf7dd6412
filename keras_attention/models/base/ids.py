"""The rule for ids: each id is at least 0 and below the number of ids."""

from __future__ import annotations

from typing import Any

import numpy as np


def check_ids(name: str, ids: Any, size: int) -> None:
    """Raises a ValueError if an id in a NumPy array is outside 0 … size − 1.

    Other tensors are not checked, because reading their values would wait for the
    device.

    Args:
        name: the name of the input.
        ids: a NumPy array; anything else is ignored, as are numbers with a fraction.
        size: the number of ids, such as the size of the vocabulary.
    """
    if not isinstance(ids, np.ndarray) or ids.dtype.kind not in "iu" or not ids.size:
        return
    least, most = ids.min(), ids.max()
    if least < 0 or most >= size:
        raise ValueError(
            f"`{name}` must hold ids of at least 0 and below {size}, the number of "
            f"ids that the model knows. Received: ids from {least} to {most}"
        )
