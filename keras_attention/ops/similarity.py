"""Similar vectors: the nearest rows of a table, and the vector that an analogy yields.

Shapes: V rows of the table, D width, K rows to find; "..." for any leading axes.
"""

from __future__ import annotations

from typing import Any

from keras import ops

from keras_attention.numerics.precision import mask_value
from keras_attention.ops import scores

Tensor = Any


def nearest_rows(
    query: Tensor, table: Tensor, count: int, hidden: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Finds the rows of a table that are most similar to each query, best first.

        cos(q, tᵢ) = qᵀtᵢ / (‖q‖ ‖tᵢ‖)

    Args:
        query: (..., D).
        table: (V, D).
        count: K, at most V.
        hidden: booleans that broadcast to (..., V), True for a row to exclude. If fewer
            than K rows remain, excluded rows follow with the mask value of the dtype as
            their cosine.

    Returns:
        Cosines (..., K) in the dtype of the query, and indices (..., K) int32.

    Raises:
        ValueError: if queries and table differ in width, or the table has fewer than K
            rows.

    Example:

    >>> import numpy as np
    >>> from keras_attention.ops import similarity
    >>> table = np.array([[2.0, 0.0], [0.0, 1.0], [1.0, 1.0]], "float32")
    >>> cosines, rows = similarity.nearest_rows(table[:1], table, count=2)
    >>> [int(row) for row in rows[0]], round(float(cosines[0, 1]), 3)
    ([0, 2], 0.707)
    """
    query, table = ops.convert_to_tensor(query), ops.convert_to_tensor(table)
    rows = table.shape[0]
    if not 1 <= count <= rows:
        raise ValueError(
            "`count` must be at least 1 and at most the number of rows of `table`. "
            f"Received: count={count}, table.shape={tuple(table.shape)}"
        )
    alike = scores.cosine(ops.expand_dims(query, -2), table)[..., 0, :]  # (..., V)
    if hidden is not None:
        alike = ops.where(hidden, ops.cast(mask_value(alike.dtype), alike.dtype), alike)
    cosines, indices = ops.top_k(alike, count)
    return cosines, ops.cast(indices, "int32")


def parallelogram(a: Tensor, b: Tensor, c: Tensor) -> Tensor:
    """Computes b − a + c, which completes the analogy "a is to b as c is to …".

    The vectors are normalized first. The result points to vectors that are similar to b
    and c but not to a ("3CosAdd").

    Args:
        a: (..., D), *man*.
        b: (..., D), *king*.
        c: (..., D), *woman*.

    Returns:
        (..., D), near *queen*.

    Reference:
        Mikolov, Yih & Zweig, "Linguistic regularities in continuous space word
        representations" (2013), section 4.
    """
    a, b, c = (scores.unit(ops.convert_to_tensor(x)) for x in (a, b, c))
    return b - a + c
