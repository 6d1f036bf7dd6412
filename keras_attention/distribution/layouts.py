"""Layouts of the weights of a model, and moving a model to its devices."""

from __future__ import annotations

import re
from typing import Any

import keras

from keras_attention import kernels
from keras_attention.distribution.roles import split_axes, weights_and_roles


def layout_map(
    model: keras.layers.Layer,
    device_mesh: keras.distribution.DeviceMesh,
    model_axis: str = "model",
    batch_axis: str = "batch",
) -> keras.distribution.LayoutMap:
    """Returns a layout of the weights of a model over an axis of a mesh of devices.

    - Transformers, as in Megatron-LM: the projections of attention by heads, the MLP by
      its inner width.
    - Embeddings by rows; in memory networks by their width.
    - Recurrent cells by gates and units, the interface of a DNC by the units that it
      reads.
    - The stored patterns of a `HopfieldLayer` by rows.
    - Other dense layers and convolutions by units.

    If the size of the axis does not divide such an axis of a weight, another axis of
    the weight is split, or the weight stays whole. Heads are never split: their number
    must be 1 or a multiple of the axis' size. Heads of keys and values that are fewer
    than the heads of queries may stay whole.

    Weights with the same path, as two models in a model can have, share an entry. They
    stay whole if their layouts differ. The map has no entries for the weights of layers
    with other types, so these weights stay whole. You may add entries for them.

    Args:
        model: a built model or layer. It may contain layers of this package anywhere.
        device_mesh: a `keras.distribution.DeviceMesh`.
        model_axis: the name of the axis of the mesh over which weights are split.
        batch_axis: the name of the axis over which batches are split.

    Returns:
        A `keras.distribution.LayoutMap`, for `keras.distribution.ModelParallel`. Its
        keys are the paths of the weights.

    Raises:
        RuntimeError: if the backend is not JAX.
        ValueError: for an axis that the mesh does not have, a model that is not built,
            heads that the mesh does not divide, and a model without a weight to split.

    Example:

    ```python
    mesh = keras.distribution.DeviceMesh((2, 4), ("batch", "model"))
    layout = layout_map(model, mesh)
    parallel = keras.distribution.ModelParallel(layout_map=layout)
    keras.distribution.set_distribution(parallel)
    distribute(model)
    ```

    Reference:
        Shoeybi et al., "Megatron-LM: training multi-billion parameter language models
        using model parallelism" (2019).
    """
    kernels.check_distribution()
    sizes = axis_sizes(device_mesh)
    for name, axis in (("model_axis", model_axis), ("batch_axis", batch_axis)):
        if axis not in sizes:
            raise ValueError(
                f"`{name}` must be an axis of `device_mesh`, one of {list(sizes)}. "
                f"Received: {name}={axis!r}"
            )
    if model_axis == batch_axis:
        raise ValueError(
            "`model_axis` and `batch_axis` must be different axes of `device_mesh`. "
            f"Received: model_axis={model_axis!r}, batch_axis={batch_axis!r}"
        )
    check_built(model)
    splits: dict[str, tuple] = {}
    for variable, roles in weights_and_roles(model, model_axis, sizes[model_axis]):
        axes = split_axes(variable, roles, model_axis, sizes[model_axis])
        # Weights of two models in a model can have the same path.
        splits[variable.path] = axes if splits.get(variable.path, axes) == axes else ()
    if not any(map(any, splits.values())):
        raise ValueError(
            "`model` must have a weight that the mesh divides, in a layer of a known "
            f"type. Received: model={model.name!r} with the weights "
            f"{some(f'{v.path} {tuple(v.shape)}' for v in model.weights)}, "
            f"model_axis={model_axis!r} of size {sizes[model_axis]}"
        )
    layout = keras.distribution.LayoutMap(device_mesh)
    for path, axes in splits.items():
        layout[re.escape(path)] = axes  # keys are regular expressions
    return layout


def distribute(model: keras.Model) -> keras.Model:
    """Moves an existing model to the devices of the current distribution.

    Keras places a weight when it creates the weight. This function places the weights
    of a model that was built or loaded before `keras.distribution.set_distribution`,
    and the variables of its optimizer and of its metrics.

    Args:
        model: a built model.

    Returns:
        The model.

    Raises:
        RuntimeError: if the backend is not JAX, or if no distribution is set.
        ValueError: if the model is not built.
    """
    kernels.check_distribution()
    current = keras.distribution.distribution()
    if current is None:
        raise RuntimeError(
            "`distribute` needs a distribution. Call "
            "`keras.distribution.set_distribution` first, for example with "
            "`keras.distribution.DataParallel()`."
        )
    check_built(model)
    layouts = {}
    for variable in model.variables:
        layout = current.get_variable_layout(variable)
        layouts[variable.path.replace("/", "_"), tuple(variable.shape)] = layout
        kernels.place(variable, layout)
    optimizer = getattr(model, "optimizer", None)
    for variable in optimizer.variables if optimizer else ():
        # An optimizer names its variables after the path of a weight.
        keys = [
            (name, shape)
            for name, shape in layouts
            if shape == tuple(variable.shape) and variable.name.startswith(name + "_")
        ]
        layout = layouts[max(keys, key=lambda key: len(key[0]))] if keys else None
        kernels.place(variable, layout or current.get_variable_layout(variable))
    for variable in getattr(model, "metrics_variables", ()):
        kernels.place(variable, current.get_variable_layout(variable))
    for step in ("train_function", "test_function", "predict_function"):
        if hasattr(model, step):  # compiled for the devices used so far
            setattr(model, step, None)
    return model


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
    texts = [str(name) for name in names]
    others = f" and {len(texts) - count} more" if len(texts) > count else ""
    return f"{texts[:count]}{others}"
