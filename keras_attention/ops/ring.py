"""Attention over a sequence that is split over devices, on JAX."""

from __future__ import annotations

from typing import Any

from keras_attention import kernels
from keras_attention.numerics import masks
from keras_attention.ops.attention import check_heads

Tensor = Any


def ring_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    device_mesh: Any,
    axis: str = "sequence",
    mask: Tensor | None = None,
    scale: float | None = None,
    is_causal: bool = False,
) -> Tensor:
    """Computes softmax(q kᵀ / √E) v for a sequence that is split over devices.

    Each of n devices holds T/n queries and S/n keys and values. The keys and values go
    round the devices, and each device adds up the softmax of its queries, so the result
    is exact. The memory of a device grows with (T + S)/n, also for the gradient, which
    goes round once more. With `is_causal`, all devices still compute all scores.

    Only JAX splits tensors. The batch and the heads can be split over other axes of the
    mesh.

    Args:
        query: (B, T, H, E).
        key: (B, S, G, E), where G divides H: H/G consecutive query heads share one head
            of keys and values.
        value: (B, S, G, V).
        device_mesh: a `keras.distribution.DeviceMesh` or a `jax.sharding.Mesh`.
        axis: the axis of the mesh over which the sequence is split. Its size must
            divide T and S.
        mask: booleans that broadcast to (B, S), True for keys that may be attended to;
            or None.
        scale: the factor of q kᵀ; 1/√E by default.
        is_causal: whether query t may attend only to keys 0 … t.

    Returns:
        (B, T, H, V), split as the queries; 0 for each query that may attend to no key.

    Raises:
        RuntimeError: if the backend is not JAX, or JAX has no `jax.shard_map`.
        ValueError: if the mesh is no mesh or lacks the axis, the size of the axis does
            not divide a length, or a tensor does not fit, as in
            :func:`dot_product_attention`.

    Reference:
        Liu, Zaharia & Abbeel, "Ring attention with blockwise Transformers for
        near-infinite context" (2023).
    """
    sizes = kernels.axis_sizes(device_mesh, axis, "`ring_attention`")
    check_heads(query, key, value)
    if query.shape[1] % sizes[axis] or key.shape[1] % sizes[axis]:
        raise ValueError(
            f"The {sizes[axis]} devices of the axis {axis!r} must divide the lengths "
            "of `query` and `key` (axis 1). Received: "
            f"query.shape={tuple(query.shape)}, key.shape={tuple(key.shape)}"
        )
    if query.shape[0] != key.shape[0] or key.shape[:2] != value.shape[:2]:
        raise ValueError(
            "`query`, `key` and `value` must have the same batch size, and `key` and "
            f"`value` the same length. Received: query.shape={tuple(query.shape)}, "
            f"key.shape={tuple(key.shape)}, value.shape={tuple(value.shape)}"
        )
    mask = masks.check("mask", mask, (key.shape[0], key.shape[1]))
    scale = query.shape[-1] ** -0.5 if scale is None else scale
    return kernels.ring_attention(
        query, key, value, mask, scale, is_causal, device_mesh, axis
    )
