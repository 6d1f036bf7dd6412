"""The contract that every public layer and model keeps, on each backend.

The rows come from `catalogue.py`. What needs other backends in the same test (export,
files that travel from one backend to another) is in `tests/interop`.
"""

import contextlib
import functools
import inspect
import pathlib

import catalogue
import keras
import numpy as np
import pytest
from calling import (
    BACKEND,
    at_once,
    carries_masks,
    in_checkout,
    needs_training,
    plain,
    printed_by,
)
from catalogue import CORE, ROWS
from gradients import gradient, second, to_numpy
from keras import ops

from keras_attention import models

COMPILERS = ("jax", "tensorflow")
LOADER = pathlib.Path(__file__).parent / "load_files.py"
OBJECTS = (  # arguments with a config
    "model",
    "layer",
    "activation",
    "block",
    "halting",
    "head",
    "score",
    "cell",
    "attention",
    "cross_attention",
    "encoder",
    "decoder",
    "embedding",
    "logits",
    "position",
    "output_shape",
    "kernel_regularizer",
    "bias_regularizer",
    "activity_regularizer",
    "kernel_constraint",
    "bias_constraint",
)


def rows(**wanted):
    """The rows for which these attributes hold, as parameters of a test."""
    parameters = [
        parameter(row)
        for row in ROWS
        if all(bool(getattr(row, name)) == value for name, value in wanted.items())
    ]
    return pytest.mark.parametrize("row", parameters)


def returns_scores(row):
    return "return_attention_scores" in inspect.signature(row.cls.call).parameters


def parameter(row, *values, compiled=(), name=""):
    """A row as a parameter of a test.

    Args:
        row: the row.
        values: further values of the test.
        compiled: which of JAX and TensorFlow run a core row in the ring `all`.
        name: what the test's name says besides the row's.
    """
    marks = [pytest.mark.core] if row.name in CORE else []
    if compiled and marks:
        marks.append(pytest.mark.backends("all"))
        if others := {*COMPILERS} - {*compiled}:
            marks.append(pytest.mark.slow_on(*others))
    return pytest.param(row, *values, marks=marks, id=f"{row.name}{name}")


def arrays(row, seed=0):
    return row.inputs(np.random.default_rng(seed))


def wrapped(row, inputs, unknown=True, **more):
    """A functional model around a layer; a model as it is."""
    keras.utils.set_random_seed(0)
    made = row.make(**more)
    if row.is_model:
        return made
    symbolic = {}
    for name, array in inputs.items():
        shape = list(array.shape[1:])
        if unknown:
            # Batch is always unknown here; time, too, all axes but the last.
            axes = row.unknown.get(name, tuple(range(1, array.ndim - 1)))
            for axis in axes:
                if axis:
                    shape[axis - 1] = None
            if name.endswith("mask"):
                shape = [None] * len(shape)
        symbolic[name] = keras.Input(shape, dtype=str(array.dtype), name=name)
    return keras.Model(symbolic, row.call(made, symbolic))


def eager(row, made, inputs, **more):
    tensors = {name: ops.convert_to_tensor(array) for name, array in inputs.items()}
    return row.call(made, tensors, **more)


def called(row, made, inputs, **more):
    """The result of a built layer; on JAX of one program.

    Eagerly, JAX compiles a program for each operation.
    """
    if BACKEND != "jax":
        return eager(row, made, inputs, **more)
    import jax

    def call(*tensors):  # a dict would be sorted by its keys
        with keras.StatelessScope():
            return row.call(made, dict(zip(inputs, tensors)), **more)

    return jax.jit(call)(*inputs.values())


def numpy(tensor):
    tensor = ops.convert_to_tensor(tensor)
    dtype = keras.backend.standardize_dtype(tensor.dtype)
    return to_numpy(tensor, "float32") if "float" in dtype else plain(tensor)


def carried_mask(mask):
    """A mask as an array; one of no size for None, since a file holds arrays."""
    return np.zeros(0) if mask is None else plain(mask)


def close(a, b, **tolerance):
    np.testing.assert_allclose(a, b, **{"rtol": 1e-5, "atol": 1e-5, **tolerance})


@contextlib.contextmanager
def no_device_named():
    """Raises an error if an operation that TensorFlow traces here names its device.

    TensorFlow's own gradients compute shapes, which are integers, on the CPU.
    """
    if BACKEND != "tensorflow":
        yield
        return
    import tensorflow as tf

    graphs, graph = [], tf.__internal__.FuncGraph

    with pytest.MonkeyPatch.context() as patch:
        make = graph.__init__

        def kept(self, *args, **more):
            make(self, *args, **more)
            graphs.append(self)

        patch.setattr(graph, "__init__", kept)
        yield
    named = [op for traced in graphs for op in traced.get_operations() if op.device]
    named = [op for op in named if not all(y.dtype.is_integer for y in op.outputs)]
    assert not named, {(op.type, op.device) for op in named}


@functools.cache
def compiled(index):
    """A row's model with weights that NumPy drew, and what it predicts.

    The model is compiled once, and serves several tests, none of which may change it.
    What is predicted of inputs of which one sample is masked throughout is None for
    rows that have none.
    """
    row = ROWS[index]
    inputs = arrays(row)
    model = wrapped(row, inputs)
    made = model if row.is_model else model.layers[-1]
    rng = np.random.default_rng(7)
    for weight in sorted(made.trainable_weights, key=lambda w: w.path):
        weight.assign(0.5 * rng.normal(size=weight.shape))
    with no_device_named():
        predicted = model.predict(inputs, verbose=0)
        hidden = model.predict(row.hidden(inputs), verbose=0) if row.hidden else None
    return model, made, predicted, hidden


@pytest.mark.backends("all")
@rows()
def test_symbolic_eager_and_compiled_agree(row):
    inputs = arrays(row)
    model, made, predicted, _ = compiled(ROWS.index(row))
    found = called(row, made, inputs)
    close(numpy(found), predicted)
    assert len(model.output.shape) == found.ndim
    for known, real in zip(model.output.shape, found.shape):
        assert known in (None, real)
    expected = keras.backend.standardize_dtype(model.output.dtype)
    assert keras.backend.standardize_dtype(found.dtype) == expected
    static = wrapped(row, inputs, unknown=False)
    assert tuple(static.output.shape[1:]) == predicted.shape[1:] or row.is_model
    if row.attention:
        with_scores = called(row, made, inputs, return_attention_scores=True)
        symbolic = row.call(
            row.make(),
            {k: keras.KerasTensor(v.shape, str(v.dtype)) for k, v in inputs.items()},
            return_attention_scores=True,
        )
        for real, known in zip(with_scores, symbolic):
            assert tuple(real.shape) == tuple(known.shape)
            assert keras.backend.standardize_dtype(real.dtype) == known.dtype


@rows()
def test_every_constructor_argument_survives(row):
    made = row.make(name="mine", dtype="mixed_bfloat16", trainable=False)
    config = made.get_config()
    again = row.cls.from_config(config)
    assert again.get_config() == config
    assert again.name == "mine"
    assert not again.trainable
    assert again.dtype_policy.name == "mixed_bfloat16"
    for name, parameter in inspect.signature(row.cls.__init__).parameters.items():
        if parameter.kind is not parameter.VAR_KEYWORD and name not in (
            "self",
            "dtype",
        ):
            assert name in config, f"`{name}` is not in the config"
    for name, given in row.arguments.items():
        assert (config[name] is None) == (given is None), name
        if "init" not in name and name not in OBJECTS and not callable(given):
            # A pair is stored as two numbers, and in the config as it was given.
            assert given in (getattr(again, name), config[name]), name
    if row.is_model:
        shapes = [tuple(w.shape) for w in made.weights]
        assert [tuple(w.shape) for w in again.weights] == shapes


# A layer, a memory, a loop, a block with dropout, and a model whose outputs are ids.
VARIED = ("multi_head", "memn2n", "attention_rnn", "transformer", "causal_lm")


@pytest.mark.slow
@pytest.mark.parametrize(
    "names",
    [
        pytest.param(VARIED, id="varied", marks=pytest.mark.backends("all")),
        pytest.param([row.name for row in ROWS if row.name not in VARIED], id="others"),
    ],
)
def test_files_load_in_a_fresh_process(names, tmp_path):
    """One process reads the files of many rows, since its start takes most time."""
    for row in map(catalogue.by_name, names):
        inputs = arrays(row)
        model, _, predicted, _ = compiled(ROWS.index(row))
        model.save(tmp_path / f"{row.name}.keras")
        np.savez(
            tmp_path / f"{row.name}.npz",
            expected=predicted,
            classes=np.array([type(x).__name__ for x in (model, *model.layers)]),
            carried=carried_mask(at_once(model, inputs)[1]),
            **inputs,
        )
    text = printed_by("-W", "ignore", LOADER, tmp_path, env=in_checkout())
    assert len(text.split()) == len(names)


@rows(masked=True)
def test_what_is_masked_changes_nothing(row):
    one, other = row.masked(arrays(row))
    made = row.make()
    close(numpy(eager(row, made, one)), numpy(eager(row, made, other)))
    if row.attention:
        for inputs in (one, other):
            scores = numpy(eager(row, made, inputs, return_attention_scores=True)[1])
            mask = inputs["value_mask"]  # the axes between are those of heads, queries
            mask = np.expand_dims(mask, tuple(range(1, scores.ndim - 1)))
            assert (scores[~np.broadcast_to(mask, scores.shape)] == 0).all()


@rows(attention=True)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_a_row_with_nothing_to_attend_to_is_zero(row, dtype):
    inputs = row.hidden(arrays(row))
    made = row.make(dtype=dtype)
    output, scores = eager(row, made, inputs, return_attention_scores=True)
    if row.residual:
        nothing = {**inputs, "value": np.zeros_like(inputs["value"])}
        np.testing.assert_array_equal(
            numpy(output)[0], numpy(eager(row, made, nothing))[0]
        )
        assert (numpy(output)[0] != 0).any()
    else:
        assert (numpy(output)[0] == 0).all()
        assert (numpy(eager(row, made, inputs))[0] == 0).all()
    assert (numpy(scores)[0] == 0).all()
    assert np.isfinite(numpy(output)).all()


@needs_training
@pytest.mark.parametrize(
    ("row", "dtype"),
    [  # in float16, a mask that is a large number overflows
        parameter(row, dtype, compiled=compiled, name=f"-{dtype}")
        for row in ROWS
        for dtype, compiled in (
            *(("float32", ()), ("bfloat16", ())),
            ("float16", COMPILERS),
        )
        if row.attention
    ],
)
def test_a_row_with_nothing_to_attend_to_has_no_gradient(row, dtype):
    inputs = row.hidden(arrays(row))
    made = row.make(dtype=dtype)
    eager(row, made, inputs)

    def loss(value, key):
        tensors = {**inputs, "value": value, "key": key}
        output = row.call(made, tensors)
        return ops.sum(ops.cast(output, "float32") ** 2)

    for found in gradient(loss, inputs["value"], inputs["key"], dtype=dtype):
        assert (found[0] == 0).all()
        assert np.isfinite(found).all()


@needs_training
@rows(attention=True)
def test_causal_attention_does_not_look_ahead(row):
    inputs = arrays(row)
    query = np.random.default_rng(1).normal(
        size=(catalogue.B, catalogue.T, catalogue.D)
    )
    made = row.make()
    inputs = {**inputs, "query": query.astype("float32")}
    inputs.pop("value_mask")
    eager(row, made, inputs)
    for t in range(catalogue.T):

        def seen(value, key, t=t):
            tensors = {**inputs, "value": value, "key": key}
            output = row.call(made, tensors, use_causal_mask=True)
            return ops.sum(output[:, t])

        value, key = gradient(seen, inputs["value"], inputs["key"])
        assert (value[:, t + 1 :] == 0).all()
        assert (key[:, t + 1 :] == 0).all()
        assert (value[:, : t + 1] != 0).any()


@rows(attention=True)
def test_returned_scores_times_values_are_the_output(row):
    inputs = arrays(row)
    made = row.make()
    fused = numpy(eager(row, made, inputs))
    output, scores = eager(row, made, inputs, return_attention_scores=True)
    close(fused, numpy(output))
    if not (row.residual or row.heads):
        close(numpy(output), numpy(scores) @ inputs["value"])


@needs_training
@pytest.mark.parametrize("row", [parameter(row) for row in ROWS if returns_scores(row)])
def test_second_derivatives_are_those_with_returned_scores(row):
    """A fused kernel has them, too. JAX and TensorFlow test this in `kernels/`."""
    inputs, made = arrays(row), row.make()
    names = [name for name, x in inputs.items() if np.issubdtype(x.dtype, np.floating)]
    tensors = [inputs.pop(name) for name in names]
    eager(row, made, {**dict(zip(names, tensors)), **inputs})

    def loss(*x, **more):
        output = eager(row, made, {**dict(zip(names, x)), **inputs}, **more)
        return ops.sum((output[0] if isinstance(output, tuple) else output) ** 2)

    along = [np.random.default_rng(2).normal(size=x.shape) for x in tensors]
    explicit = functools.partial(loss, return_attention_scores=True)
    fused, wanted = (second(f, tensors, along) for f in (loss, explicit))
    assert any(x.any() for x in wanted)
    for one, other in zip(fused, wanted, strict=True):
        close(one, other, rtol=1e-3, atol=1e-4 * (1 + abs(other).max()))


@rows(attention=True)
def test_a_single_query_leaves_its_axis_out(row):
    inputs = arrays(row)
    made = row.make()
    query = np.random.default_rng(1).normal(size=(catalogue.B, catalogue.D))
    query = query.astype("float32")
    one = eager(row, made, {**inputs, "query": query}, return_attention_scores=True)
    many = eager(
        row, made, {**inputs, "query": query[:, None]}, return_attention_scores=True
    )
    for a, b in zip(one, many):
        close(numpy(a), numpy(b)[..., 0, :])


@rows(attention=True)
def test_a_prepared_memory_gives_the_same(row):
    made = row.make()
    inputs = arrays(row)
    tensors = {k: ops.convert_to_tensor(v) for k, v in inputs.items()}
    expected = row.call(made, tensors, return_attention_scores=True)
    prepared = made.prepare(tensors["value"], tensors["key"], tensors["value_mask"])
    output, scores, state = made.attend(tensors["query"], prepared)
    keras.tree.assert_same_structure(state, made.initial_state(prepared))
    close(numpy(output), numpy(expected[0]))
    close(numpy(scores), numpy(expected[1]))


POLICIES = ["float16", "bfloat16", "mixed_float16", "mixed_bfloat16"]


def rows_and_policies():
    """Each row in each policy. JAX or TensorFlow compiles each core row in one."""
    for index, row in enumerate(ROWS):
        for number, policy in enumerate(POLICIES):
            if row.recurrent and "mixed" not in policy:
                continue  # Keras' orthogonal initializer needs a decomposition in it
            first = 2 + index % 2 if row.recurrent else index % len(POLICIES)
            compilers = COMPILERS[index // len(POLICIES) % 2 :][:1]
            compilers = compilers if number == first else ()
            yield parameter(row, policy, compiled=compilers, name=f"-{policy}")


@pytest.mark.parametrize(("row", "policy"), [*rows_and_policies()])
def test_dtype_policies(row, policy):
    inputs = arrays(row)
    exact, expected = in_float32(ROWS.index(row))
    model = wrapped(row, inputs, dtype=policy)
    made = model if row.is_model else model.layers[-1]
    for weight, source in zip(model.weights, exact, strict=True):
        weight.assign(ops.cast(source, weight.dtype))
        wanted = made.dtype_policy.variable_dtype
        assert weight.dtype in (wanted, "bool", "uint32"), weight.path
    found, _ = at_once(model, inputs)
    dtype = keras.backend.standardize_dtype(found.dtype)
    if "float" in dtype:
        assert dtype == made.dtype_policy.compute_dtype
    assert np.isfinite(numpy(found)).all()
    coarse = 0.01 if policy.removeprefix("mixed_") == "float16" else 0.08
    np.testing.assert_allclose(
        numpy(found), expected, rtol=coarse, atol=coarse * (1 + np.abs(expected).max())
    )


@functools.cache
def in_float32(index):
    """The weights that a row of `test_dtype_policies` has, and what it returns."""
    row = ROWS[index]
    if row.chosen_by is None:
        model, _, predicted, _ = compiled(index)
        return [numpy(weight.value) for weight in model.weights], predicted
    inputs = arrays(row)
    model = wrapped(row, inputs)
    draw = np.random.default_rng(row.chosen_by)
    for weight in model.trainable_weights:
        weight.assign(draw.normal(size=weight.shape))
    weights = [numpy(weight.value) for weight in model.weights]
    return weights, numpy(at_once(model, inputs)[0])


@carries_masks
@rows(attention=True)
def test_input_masks_are_left_alone(row):
    inputs = arrays(row)
    made = row.make()
    eager(row, made, inputs)  # builds it
    tensors = {k: ops.convert_to_tensor(v) for k, v in inputs.items()}
    masks = {}
    for name in ("query", "value", "key"):
        masks[name] = ops.convert_to_tensor(np.ones(inputs[name].shape[:-1], bool))
        tensors[name]._keras_mask = masks[name]
    output = row.call(made, tensors)
    for name, mask in masks.items():
        assert tensors[name]._keras_mask is mask
    np.testing.assert_array_equal(
        carried_mask(output._keras_mask), plain(masks["query"])
    )


@carries_masks
@rows(output_mask=True)
def test_the_output_carries_its_mask(row):
    inputs = arrays(row)
    output = eager(row, row.make(), inputs)
    np.testing.assert_array_equal(
        carried_mask(output._keras_mask), row.output_mask(inputs)
    )


class Batches(keras.utils.PyDataset):
    """A batch of inputs, as a user's generator gives it."""

    def __init__(self, inputs, target, weights):
        super().__init__()
        self.batch = (inputs, target, weights)

    def __len__(self):
        return 1

    def __getitem__(self, index):
        return self.batch


def sources(inputs, target, weights):
    """The same data as each backend's users bring them, besides NumPy's arrays."""
    yield "dataset", {"x": Batches(inputs, target, weights)}
    if BACKEND == "tensorflow":
        import tensorflow as tf

        data = tf.data.Dataset.from_tensor_slices((inputs, target, weights))
        yield "tf.data", {"x": data.batch(2)}
    if BACKEND == "torch":
        import torch

        items = [
            ({k: v[i] for k, v in inputs.items()}, target[i], weights[i])
            for i in range(len(target))
        ]
        yield "DataLoader", {"x": torch.utils.data.DataLoader(items, batch_size=2)}


class Fits:
    """A row's model, fitted to the same targets from the same weights each time."""

    def __init__(self, row):
        self.inputs = arrays(row)
        self.model = wrapped(row, self.inputs)
        self.model.compile(keras.optimizers.SGD(0.1), "mse")
        # Also states of seeds.
        self.start = [plain(v.value).copy() for v in self.model.variables]
        shape = compiled(ROWS.index(row))[2].shape
        self.target = np.random.default_rng(1).normal(size=shape).astype("float32")
        # Keras wants a weight for each number of the loss: (B,), (B, T), …
        self.ones = np.ones(shape[:-1], "float32")

    def fit(self, **data):
        """The trainable weights after one epoch, and before it."""
        if BACKEND == "torch":  # whose dropout has no state of its own
            import torch

            torch.manual_seed(0)
        for variable, value in zip(self.model.variables, self.start, strict=True):
            variable.assign(value)
        weights = self.model.trainable_weights
        before = [plain(v.value).copy() for v in weights]
        # TensorFlow makes the batches of a `PyDataset` on the CPU.
        is_array = isinstance(data["x"], dict)
        with no_device_named() if is_array else contextlib.nullcontext():
            self.model.fit(**data, shuffle=False, verbose=0)
        return [(plain(v.value), old) for v, old in zip(weights, before)]


@needs_training
@pytest.mark.parametrize(
    "row", [parameter(row, compiled=COMPILERS) for row in ROWS if row.trains]
)
def test_fit(row):
    """A step moves each weight, also where one sample may attend to nothing.

    On TensorFlow, which traces for seconds, only there.
    """
    fits = Fits(row)
    assert fits.model.trainable_weights
    batches = [row.hidden(fits.inputs)] if row.hidden else []
    if BACKEND != "tensorflow" or not batches:
        batches.append(fits.inputs)
    for inputs in batches:
        moved = fits.fit(x=inputs, y=fits.target, sample_weight=fits.ones)
        for variable, (new, old) in zip(fits.model.trainable_weights, moved):
            assert np.isfinite(new).all(), variable.path
            assert not np.array_equal(new, old), f"{variable.path} did not move"


@pytest.mark.backends("all")
@needs_training
@pytest.mark.parametrize("name", VARIED)
def test_fit_from_every_kind_of_data(name):
    """Each kind teaches the same, as sample weights say."""
    fits = Fits(catalogue.by_name(name))
    data = {"x": fits.inputs, "y": fits.target}
    # A sample of weight 0 teaches nothing.
    for new, old in fits.fit(**data, sample_weight=0 * fits.ones):
        np.testing.assert_array_equal(new, old)
    weights = 0 * fits.ones
    weights[1] = 2
    expected = [new for new, _ in fits.fit(**data, sample_weight=weights)]
    for kind, source in sources(fits.inputs, fits.target, weights):
        moved = fits.fit(**source)
        assert any(not np.array_equal(new, old) for new, old in moved), kind
        for (new, _), wanted in zip(moved, expected, strict=True):
            np.testing.assert_allclose(new, wanted, 1e-4, 1e-5, err_msg=kind)


QUANTIZED = [  # each row in one mode; in the ring release in all of them
    pytest.param(
        row,
        mode,
        id=f"{row.name}-{mode}",
        marks=[pytest.mark.release] if (index + number) % 3 else [],
    )
    for index, row in enumerate(ROWS)
    for number, mode in enumerate(("int8", "int4", "float8"))
]


@pytest.mark.filterwarnings("ignore:Layer .* does not have a `quantize`")
@pytest.mark.filterwarnings("ignore:.*`custom_gradient` for the numpy backend")
@pytest.mark.filterwarnings("ignore:Invalid quantization mode")  # Embedding, float8
@pytest.mark.filterwarnings("ignore:[\\s\\S]*use of `x.T`")  # Keras' embedding on torch
@pytest.mark.parametrize(("row", "mode"), QUANTIZED)
@pytest.mark.usefixtures("without_collection")
def test_quantized_files_compute_the_same(row, mode, tmp_path):
    inputs = arrays(row)
    model = wrapped(row, inputs)
    model.quantize(mode)
    parts = quantization_modes(model)
    if mode not in parts.values():
        for part in model._flatten_layers(include_self=False):
            is_leaf = not [*part._flatten_layers(include_self=False)]
            if is_leaf and not isinstance(part, models.AssociativeMemory):
                assert "quantize" not in vars(type(part)) or mode == "float8"
                with pytest.raises(NotImplementedError):
                    part.quantize(mode)
        pytest.skip(f"Keras has no {mode} for its sublayers")
    expected = numpy(at_once(model, inputs)[0])
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    assert quantization_modes(again) == parts
    assert [w.dtype for w in again.weights] == [w.dtype for w in model.weights]
    np.testing.assert_array_equal(numpy(at_once(again, inputs)[0]), expected)


def quantization_modes(model):
    """The mode of each sublayer, by its index and its class."""
    parts = model._flatten_layers(include_self=False)
    return {(n, type(p)): p.quantization_mode for n, p in enumerate(parts)}


GOLDEN = pathlib.Path(__file__).parent / "fixtures" / "golden.npz"


@pytest.mark.backends("all")
@rows()
def test_the_same_numbers_on_every_backend(row):
    """Also of what is masked throughout: a mask that a backend ignores shows here."""
    _, _, predicted, hidden = compiled(ROWS.index(row))
    with np.load(GOLDEN) as golden:
        assert row.name in golden, "python tests/test_contract.py writes new numbers"
        close(predicted, golden[row.name])
        if hidden is not None:
            close(hidden, golden[f"{row.name}/hidden"])


def write_golden_arrays():
    found = {}
    for index, row in enumerate(ROWS):
        _, _, found[row.name], hidden = compiled(index)
        if hidden is not None:
            found[f"{row.name}/hidden"] = hidden
    np.savez_compressed(GOLDEN, **found)


if __name__ == "__main__":  # python tests/test_contract.py
    write_golden_arrays()
