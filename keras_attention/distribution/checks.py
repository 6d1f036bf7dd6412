"""Checks of models and meshes."""

from __future__ import annotations

from typing import Any

import keras


def axis_sizes(mesh: Any) -> dict[str, int]:
    """Returns the size of each axis of a mesh."""
    if not isinstance(mesh, keras.distribution.DeviceMesh):
        raise ValueError(
            "`device_mesh` must be a keras.distribution.DeviceMesh. "
            f"Received: device_mesh={mesh!r}"
        )
    return dict(zip(mesh.axis_names, mesh.shape, strict=True))


def check_built(model: Any) -> None:
    """Raises a ValueError if a model has no weights yet."""
    if not isinstance(model, keras.layers.Layer):
        raise ValueError(f"`model` must be a Keras model. Received: model={model!r}")
    if not model.built or not model.weights:
        raise ValueError(
            "`model` must be built and have weights. Call it on a batch, or call "
            f"`build`. Received: model={model.name!r}, built={model.built}, "
            f"{len(model.weights)} weights"
        )


def some(names: Any, count: int = 3) -> str:
    """Returns the first names of many, as text."""
    found = [str(name) for name in names]
    more = f" and {len(found) - count} more" if len(found) > count else ""
    return f"{found[:count]}{more}"
