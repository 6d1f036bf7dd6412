"""Calls each row on a device without memory, and prints what a GPU would wait for.

`python tests/accelerator_worker.py` prints a line of JSON for each case: its name, and
an error or "". With names of cases, it runs only these.
It is a process of its own because a device is registered with torch for good.

Tensors on the device have a shape, a dtype and the device, but no values. The device is
no CPU, so that the package takes the path of a GPU, which it does not on the device
"meta", on which Keras traces. A value that is read, for which the host would wait for a
GPU, is an error, and so is an operation of tensors on two devices.
"""

import contextlib
import functools
import itertools
import json
import sys
import traceback

import catalogue
import keras
import numpy as np
import torch
from keras import ops
from keras.src.backend.torch import core, random
from long_calls import long_calls
from torch._subclasses import FakeTensorMode
from torch.utils import backend_registration

from keras_attention import kernels, models
from keras_attention.models.hopfield import steps

NAME = "elsewhere"
# Retrieval until all states rest reads after each step whether they do.
UNTIL_REST = ("hopfield_rest", "associative_memory")


class Device(backend_registration._DummyBackendModule):
    """What torch asks a device for."""

    def get_amp_supported_dtype(self):
        return [torch.float16, torch.bfloat16]


class Tensors(FakeTensorMode):
    """Makes tensors without values, and refuses those that are not on the device."""

    avoid_device_init = True  # numbers are copied to a device that is not there

    def dispatch(self, function, types, args=(), kwargs=None):
        found = super().dispatch(function, types, args, kwargs)
        made = devices(found)
        if made - {NAME}:
            given = devices((args, kwargs))
            # A Python number begins in the memory of the host, and is copied at once.
            if NAME in given or not given:
                raise AssertionError(f"{function} makes a tensor on {made}")
        return found


def devices(structure):
    leaves = torch.utils._pytree.tree_leaves(structure)
    return {x.device.type for x in leaves if isinstance(x, torch.Tensor)}


def moved(tensor):
    """A tensor on the device, without values; floats have a gradient."""
    return torch.empty(
        tuple(tensor.shape),
        dtype=tensor.dtype,
        device=NAME,
        requires_grad=tensor.is_floating_point(),
    )


def error_of(made, call, inputs):
    """Calls forward and backward on the device; returns the error or ""."""
    real = {name: ops.convert_to_tensor(array) for name, array in inputs.items()}
    call(real)  # builds it
    core.DEFAULT_DEVICE = NAME
    try:
        with Tensors():
            for variable in made.variables:
                value = moved(variable._value)
                variable._value = torch.nn.Parameter(value, value.requires_grad)
            if isinstance(made, models.AssociativeMemory):
                made._table = moved(made._table).detach()
            given = {name: moved(tensor) for name, tensor in real.items()}
            loss = call(given).float().sum()
            if loss.requires_grad:
                loss.backward()
            assert devices(loss) == {NAME}
    except Exception as error:
        where = traceback.format_exception(error)
        own = [line for line in where if "keras_attention" in line]
        return f"{type(error).__name__}: {error}\n{''.join(own)}"
    finally:
        core.DEFAULT_DEVICE = "cpu"
    return ""


def rows():
    """The rows of the catalogue, with dropout where they have it."""
    for row in catalogue.ROWS:
        made = row.make()
        # A cell draws no dropout by itself, and a search until rest does not train.
        once = isinstance(row, catalogue.CellRow) or row.name in UNTIL_REST
        trains = kernels.takes_training(made) and not once
        more = {"training": True} if trains else {}
        call = functools.partial(row.call, made, **more)
        inputs = row.inputs(np.random.default_rng(0))
        with at_rest() if row.name in UNTIL_REST else contextlib.nullcontext():
            yield row.name, made, call, inputs


@contextlib.contextmanager
def at_rest():
    """Answers after one step that all states rest; on a GPU, this is a wait."""
    held = kernels.any_left, steps.as_numpy
    answers = iter([True])
    kernels.any_left = lambda moving: next(answers, False)
    steps.as_numpy = lambda moved: np.zeros(moved.shape)
    yield
    kernels.any_left, steps.as_numpy = held


class Reads(keras.layers.Layer):
    """Chooses by a value, for which the host must wait."""

    def call(self, x):
        return x if ops.any(x > 0) else -x


class Makes(keras.layers.Layer):
    """Makes a tensor in the memory of the host."""

    def call(self, x):
        return x + torch.ones(x.shape).to(x.device)


class Copies(keras.layers.Layer):
    """Copies a tensor to the memory of the host."""

    def call(self, x):
        return x + x.detach().cpu().sum().to(x.device)


def mistakes():
    """What must be an error here."""
    for made in (Reads(), Makes(), Copies()):

        def call(given, made=made):
            return made(given["x"])

        yield type(made).__name__, made, call, {"x": np.ones((2, 3), "float32")}


def main():
    backend_registration._setup_privateuseone_for_python_backend(NAME, Device())
    random.torch_seed_generator = lambda seed: None  # would be on a real device
    # In inference mode, torch itself would copy numbers to the device.
    torch.inference_mode = lambda on=True: torch.set_grad_enabled(not on)
    for name, *case in itertools.chain(rows(), long_calls(), mistakes()):
        if sys.argv[1:] and name not in sys.argv[1:]:
            continue
        print(json.dumps([name, error_of(*case)]), flush=True)


if __name__ == "__main__":
    main()
