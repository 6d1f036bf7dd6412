"""What a CPU can show about calls on a GPU or a TPU.

Nothing is computed there. JAX lowers programs for platforms that are not here. torch
calls on a device without memory. `test_contract.py` holds that TensorFlow's graphs name
no device. docs/accelerators.md says what was not run.
"""

import functools
import importlib
import json
import pathlib
import re

import keras
import numpy as np
import pytest
from calling import in_checkout, printed_by
from catalogue import CORE, ROWS, CellRow
from gradients import gradient
from keras import ops
from long_calls import HEADS, LONG, UNITS, attend, long_calls
from test_contract import arrays, rows, wrapped

from keras_attention import kernels, layers

BACKEND = keras.config.backend()
WORKER = pathlib.Path(__file__).parent / "accelerator_worker.py"
MISTAKES = "Reads", "Makes", "Copies"  # of the worker
PLATFORMS = ("cuda", "tpu")
NAMES = {row.name for row in ROWS}
# A search until states rest is not trained.
NOT_TRAINED = ("hopfield_rest", "associative_memory")


@pytest.mark.release
@pytest.mark.backends("jax", reason="JAX lowers for other platforms")
@rows()
def test_programs_lower_for_accelerators(row):
    """Forward and gradients.

    Rows are too small for the kernels of long sequences, which the next test lowers.
    """
    from lowering import lowered

    inputs = arrays(row)
    model = wrapped(row, inputs)
    made = model if row.is_model else model.layers[-1]
    once = isinstance(row, CellRow) or row.name in NOT_TRAINED
    trains = kernels.takes_training(made) and not once
    call = functools.partial(row.call, made, **({"training": True} if trains else {}))
    program = lowered(made, call, inputs, "gpu", PLATFORMS)
    assert program.platforms == PLATFORMS
    assert "callback" not in program.mlir_module()  # the host would be waited for


@pytest.mark.backends("jax")
def test_long_calls_take_the_path_of_the_platform():
    """Kernels have tiles in loops on a CPU, for its caches, and none elsewhere."""
    from lowering import lowered

    for name, made, call, inputs in long_calls(dtype="mixed_bfloat16"):
        call({k: keras.KerasTensor(v.shape, str(v.dtype)) for k, v in inputs.items()})
        platforms = {"gpu": "cuda", "tpu": "tpu"}
        if name in HEADS:
            platforms["cpu"] = "cpu"
        for platform, target in platforms.items():
            program = lowered(made, call, inputs, platform, (target,))
            assert program.platforms == (target,)
            text = program.mlir_module()
            assert "callback" not in text
            if name != "additive":
                assert ("stablehlo.while" in text) is (platform == "cpu"), name


PADDED = '"mask_type": "PADDING'


@pytest.mark.backends("jax")
@pytest.mark.parametrize(
    ("options", "width", "expected"),
    [
        ({}, 8, {PADDED + '"'}),
        ({"use_causal_mask": True}, 8, {PADDED + '_CAUSAL"'}),
        (
            {"use_causal_mask": True, "sliding_window": 17},
            8,
            {PADDED + '_CAUSAL"', '"sliding_window_length": 17'},
        ),
        ({"num_key_value_heads": 1}, 8, {PADDED + '"'}),
        ({"value_dim": 4}, 8, None),
        ({"dtype": "float32"}, 8, None),
        ({}, 12, None),
        ({}, 136, None),
    ],
    ids=range(8),
)
def test_padded_batches_are_lowered_for_cudnn(options, width, expected, monkeypatch):
    """Forward and gradients, without a tensor of queries times keys."""
    from lowering import CALLS, lowered

    from keras_attention.kernels.attention import jax_cudnn

    monkeypatch.setattr(jax_cudnn, "CHUNK", 2**12)
    options = {"dtype": "mixed_bfloat16", **options}
    causal = options.pop("use_causal_mask", False)
    made = layers.MultiHeadAttention(2, width, **options)
    x = np.zeros((1, LONG, UNITS), "float32")
    inputs = {"x": x, "mask": np.ones((1, LONG), bool)}
    call = functools.partial(attend, made, use_causal_mask=causal)
    call({k: keras.KerasTensor(v.shape, str(v.dtype)) for k, v in inputs.items()})
    text = lowered(made, call, inputs, "gpu", ("cuda",), widest=128).mlir_module()
    text = text.replace(r"\22", '"')
    for name in CALLS:
        assert (f"@{name}(" in text) is (expected is not None)
    assert all(word in text for word in expected or ())
    lengths = rf"({LONG}|{LONG + 1})"  # cuDNN gets an even number
    assert bool(re.search(f"{lengths}x{lengths}x", text)) is (expected is None)


@pytest.mark.backends("jax", "tensorflow")
def test_additive_scores_are_right_on_the_path_of_a_gpu(monkeypatch):
    rng = np.random.default_rng(0)
    shapes = (2, 37, 16), (2, 41, 16), (16,)
    given = [rng.normal(size=shape).astype("float32") for shape in shapes]

    def loss(exact):
        return lambda *x: ops.sum(ops.tanh(kernels.additive(*x, exact)))

    expected = gradient(loss(True), *given)
    name = f"keras_attention.kernels.additive.{BACKEND}"
    module = importlib.import_module(name)
    if BACKEND == "jax":
        monkeypatch.setattr(module, "platform", lambda: "gpu")
        monkeypatch.setattr(module, "GPU_CHUNK", 2**13)  # several chunks of queries
        monkeypatch.setattr(module, "_by_tiles", None)
    else:
        monkeypatch.setattr(module, "_has_xla", lambda: False)
    for found, wanted in zip(gradient(loss(False), *given), expected, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.slow
@pytest.mark.backends("torch")
@pytest.mark.parametrize(
    "names",
    [
        pytest.param({*CORE}, id="core"),
        pytest.param(NAMES - {*CORE}, id="others", marks=pytest.mark.release),
    ],
)
def test_nothing_waits_for_an_accelerator(names):
    """Each row, and long calls, forward and backward in a process of its own.

    A device is registered with torch for good. Nothing else shows what torch does on
    another device.
    """
    names = {*names, *MISTAKES, *(name for name, *_ in long_calls())}
    text = printed_by("-W", "ignore", WORKER, *names, env=in_checkout())
    errors = dict(map(json.loads, text.splitlines()))
    assert errors.keys() == names
    assert all(errors.pop(name) for name in MISTAKES)
    assert not {name: error for name, error in errors.items() if error}
