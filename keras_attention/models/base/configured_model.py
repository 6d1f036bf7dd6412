"""The base class of functional models: arguments and config."""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

import keras
import numpy as np

from keras_attention import kernels
from keras_attention.layers.base.arguments import check_model_keywords, positive
from keras_attention.layers.base.checked import (
    Checked,
    check_batches,
    check_real,
    check_zeros_and_ones,
    given_to,
)
from keras_attention.layers.base.recording import is_recording
from keras_attention.layers.base.serialization import (
    QUANTIZED,
    argument_names,
    arguments_of,
    as_config,
    from_entries,
    quantize_parts,
    quantized_parts,
)
from keras_attention.models.base import preset_folder

T = TypeVar("T")  # editors complete the methods of a class, but not for `Self`
# Seconds of calls with one signature before `fit` and `predict` on torch trace it.
# Tracing takes about as long.
TRACE_AFTER = 1.0
# The model whose step runs and may be replayed
_replaying: ContextVar[Any] = ContextVar("replaying", default=None)


def _checked(name: str) -> Any:
    """Returns the next class' method of this name, after a check of data."""

    @functools.wraps(getattr(keras.Model, name))
    def checked(model: Any, *args: Any, **kwargs: Any) -> Any:
        model._check_data(name, args, kwargs)
        return getattr(super(ConfiguredModel, model), name)(*args, **kwargs)

    return checked


class PortableCompilation:
    """A mixin for models: a file leaves `jit_compile="auto"` to who loads it.

    Keras saves what "auto" was on the backend of the writer. torch's compiler then runs
    for a model from JAX (42 s for the first `predict` of a `MemN2N`, 0.06 s without),
    and JAX does not compile a model from torch.
    """

    def get_compile_config(self) -> dict[str, Any]:
        model: Any = super()
        config: dict[str, Any] = model.get_compile_config()
        # Keras keeps no record of the argument, and has no public name for its choice.
        if config and config["jit_compile"] == model._resolve_auto_jit_compile():
            config["jit_compile"] = "auto"
        return config


class ConfiguredModel(PortableCompilation, Checked, keras.Model):
    """Base class of functional models that saves the arguments of the constructor.

    Args:
        inputs: the symbolic inputs of the graph.
        outputs: the symbolic outputs of the graph.
        arguments: `locals()` of the constructor. Its entries that are arguments of the
            constructor become attributes and entries of the config. If the graph
            contains only copies of a layer, the config of the layer is stored instead.

    `id_sizes` maps the name of each input that holds ids to the argument with the
    number of ids. Ids in NumPy arrays, and in tensors in the memory of the host, are
    checked before each call of the model. Ids in an array, or in a list or dict of
    arrays, are checked before `fit`, `evaluate`, `predict` and their forms for one
    batch.

    On torch, the steps of `fit`, `evaluate` and `predict` replay traced calls of the
    graph, as they run compiled functions on JAX and TensorFlow. Direct calls of the
    model, models compiled with `run_eagerly=True`, and subclasses that override
    `train_step` or `compute_loss` are never replayed.

    The config of each layer is taken before training, because `quantize` changes it.

    `preprocessor` turns strings into inputs, and outputs into strings, for the methods
    that take and return strings. `from_preset` sets it, and `save_to_preset` saves it;
    the config and `.keras` files do not hold it.
    """

    def __init__(self, inputs: Any, outputs: Any, arguments: dict[str, Any]) -> None:
        dtype, name = arguments["dtype"], arguments["__class__"].__name__
        keywords = check_model_keywords(name, arguments["kwargs"])
        super().__init__(inputs=inputs, outputs=outputs, **keywords)
        if dtype is not None:
            self.dtype_policy = keras.dtype_policies.get(dtype)
        self._replayer = kernels.Replayer(
            super().call,
            lambda: list(self._flatten_layers(include_self=False)),
            after=TRACE_AFTER,
        )
        parts = {id(layer) for layer in self._flatten_layers()}
        self._layer_configs = {}
        self.preprocessor: Any = None
        for name in argument_names(type(self)):
            if not isinstance(getattr(type(self), name, None), property):
                value = arguments[name]
                if id(value) in parts:
                    self._layer_configs[name] = as_config(value)
                elif isinstance(value, (keras.layers.Layer, dict, list)):
                    value = as_config(value)
                setattr(self, name, value)

    @classmethod
    def from_preset(
        cls: type[T],
        preset: str | os.PathLike[str],
        load_weights: bool = True,
        **kwargs: Any,
    ) -> T:
        """Loads a trained network, with its `preprocessor`.

        Args:
            preset: the name of a preset that the package ships, or a folder that
                `save_to_preset` wrote. `keras_attention.presets.names()` lists the
                names, and `keras_attention.presets.card(name)` tells how a network was
                trained, and how well it does.
            load_weights: whether to load the weights; otherwise they are initialized.
            **kwargs: arguments of the constructor that replace those of the preset,
                such as `dtype`.

        Returns:
            A model of this class.

        Raises:
            ValueError: for an unknown preset, a preset of another class, or a damaged
                file. The message names it.
        """
        # The one exception from the arrows of docs/architecture.md.
        from keras_attention import presets

        return presets.load(preset, cls, load_weights, **kwargs)

    def save_to_preset(
        self, path: str | os.PathLike[str], weights_dtype: str | None = None
    ) -> None:
        """Saves the model and its `preprocessor` in a folder for `from_preset`.

        Args:
            path: a new or empty folder, or the folder of a preset, which is replaced.
            weights_dtype: "float32" or "float16", the dtype of the stored weights; by
                default that of the variables.

        Raises:
            ValueError: for another dtype, weights that are not finite in it, a folder
                with other files, or a preprocessor that is no
                `keras_attention.presets.Preprocessor`.
        """
        preset_folder.write(self, path, weights_dtype)

    def call(
        self, inputs: Any, training: bool | None = None, mask: Any = None, **kwargs: Any
    ) -> Any:
        call: Any = super().call
        if _replaying.get() is self and not is_recording():
            call = self._replayer
        return call(inputs, training=training, mask=mask, **kwargs)

    def train_step(self, *args: Any, **kwargs: Any) -> Any:
        with self._replaying():
            return super().train_step(*args, **kwargs)

    def test_step(self, *args: Any, **kwargs: Any) -> Any:
        with self._replaying():
            return super().test_step(*args, **kwargs)

    def predict_step(self, *args: Any, **kwargs: Any) -> Any:
        with self._replaying():
            return super().predict_step(*args, **kwargs)

    @contextmanager
    def _replaying(self) -> Iterator[None]:
        """Context manager for a step, which on torch replays traced calls."""
        # A step of a subclass may need second derivatives, which no replay has.
        is_plain = self.run_eagerly or self._overrides_training()
        token = _replaying.set(None if is_plain else self)
        try:
            yield
        finally:
            _replaying.reset(token)

    def _overrides_training(self) -> bool:
        """Returns whether a subclass overrides the training step or the loss."""
        return any(
            getattr(type(self), name) is not getattr(ConfiguredModel, name)
            for name in ("train_step", "compute_loss")
        )

    fit = _checked("fit")
    evaluate = _checked("evaluate")
    predict = _checked("predict")
    train_on_batch = _checked("train_on_batch")
    test_on_batch = _checked("test_on_batch")
    predict_on_batch = _checked("predict_on_batch")

    def _check_data(self, method: str, args: tuple, kwargs: dict[str, Any]) -> None:
        check_batches_divide(self, method, args, kwargs)
        inputs = args[0] if args else kwargs.get("x")
        parts = inputs if isinstance(inputs, (list, tuple)) else [inputs]
        if isinstance(inputs, dict) or all(isinstance(x, np.ndarray) for x in parts):
            self.check_given(given_to(self, (inputs,), {}))

    def check_given(self, given: dict[str, Any]) -> None:
        """Raises a ValueError if batch sizes, ids or masks of a call do not fit."""
        check_real(given)
        self._check_ranks(given)
        check_batches(given)
        super().check_given(given)
        for name, x in given.items():
            if name.endswith("_mask"):
                check_zeros_and_ones(name, x)

    def _check_ranks(self, given: dict[str, Any]) -> None:
        """Raises a ValueError for a rank that Keras will not adapt."""
        for symbol in self.inputs:
            shape = getattr(given.get(symbol.name), "shape", None)
            if shape is None:
                continue
            wanted, rank = symbol.shape, len(shape)
            expands = rank == len(wanted) - 1 and wanted[-1] == 1
            squeezes = rank == len(wanted) + 1 and shape[-1] == 1
            if rank != len(wanted) and not (expands or squeezes):
                name = symbol.name
                raise ValueError(
                    f"`{name}` must have the shape {wanted}, where None is any size. "
                    f"Received: {name}.shape={tuple(shape)}"
                )

    def get_config(self) -> dict[str, Any]:
        arguments = {**arguments_of(self), **as_config(self._layer_configs)}
        config = {**super().get_config(), **arguments}
        quantized = quantized_parts(self)
        return {**config, QUANTIZED: quantized} if quantized else config

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> Any:
        arguments = {k: v for k, v in config.items() if k != QUANTIZED}
        model = cls(**from_entries(arguments))
        quantize_parts(model, config.get(QUANTIZED, []))
        return model


def check_sizes(**sizes: int) -> None:
    """Raises a ValueError unless all sizes are integers of at least 1."""
    for name, size in sizes.items():
        positive(name, size)


def check_batches_divide(
    model: keras.Model, method: str, args: tuple, kwargs: dict[str, Any]
) -> None:
    """Raises a ValueError before a batch that the current distribution cannot split.

    Keras would raise an error in the middle of `fit`, and leave the model without
    weights. Data other than arrays are not checked. `method` is the name of the called
    method.
    """
    current = keras.distribution.distribution() if kernels.SPLITS_TENSORS else None
    if current is None:
        return
    # A process of several gives its own part of a batch.
    groups = max(1, current.num_model_replicas // current.num_processes)
    call: Any = getattr(keras.Model, method)
    arguments = inspect.signature(call).bind(model, *args, **kwargs).arguments
    takes_all = not (arguments.get("steps_per_epoch") or arguments.get("steps"))
    for count, size in _counts_and_sizes(arguments, method.endswith("on_batch")):
        last = count % size if takes_all else 0
        sizes = dict.fromkeys(n for n in (min(size, count), last) if n)
        if any(n % groups for n in sizes):
            raise ValueError(
                f"The size of a batch must be a multiple of {groups}: the distribution "
                "splits it over so many groups of devices of this process. Choose "
                "another `batch_size`, and drop or pad the last samples. Received: "
                f"{count} samples, in batches of {' and '.join(map(str, sizes))}"
            )


def _counts_and_sizes(
    arguments: dict[str, Any], is_batch: bool
) -> list[tuple[int, int]]:
    """Returns the number of samples and the batch size of each part of the data."""
    count = _count(arguments.get("x"))
    if count is None:
        return []
    if is_batch:
        return [(count, count)]
    size = arguments.get("batch_size") or 32
    tested = arguments.get("validation_batch_size") or size
    validation: Any = arguments.get("validation_data")
    tests = None if validation is None else _count(validation[0])
    if arguments.get("validation_split") and validation is None:
        trained = int(count * (1 - arguments["validation_split"]))
        count, tests = trained, count - trained
    return [(count, size)] + ([] if tests is None else [(tests, tested)])


def _count(x: Any) -> int | None:
    """Returns the number of samples of arrays, or None for other data."""
    shapes: list[Any] = [getattr(part, "shape", None) for part in keras.tree.flatten(x)]
    is_array = shapes and all(isinstance(s, tuple) and s for s in shapes)
    return int(shapes[0][0]) if is_array else None
