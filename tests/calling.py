"""Marks, and calls of models and scripts, that several tests need."""

import contextlib
import io
import os
import pathlib
import re
import runpy
import subprocess
import sys
import warnings

import keras
import numpy as np
import pytest
from checkout import ROOT
from keras import ops

BACKEND = keras.config.backend()
TRAINS = BACKEND in ("jax", "tensorflow", "torch")
needs_training = pytest.mark.skipif(not TRAINS, reason=f"{BACKEND} does not train")
carries_masks = pytest.mark.skipif(
    BACKEND == "numpy", reason="NumPy arrays carry no mask"
)
DATA = os.environ.get("KERAS_ATTENTION_DATA")
needs_data = pytest.mark.skipif(not DATA, reason="KERAS_ATTENTION_DATA is not set")


def platform():
    """The kind of device that the backend computes on: "cpu", "gpu", …"""
    from studies import clocks  # which a process of a test may not have

    return clocks.own_device()


def needs_file(*parts):
    """Skips a test where the folder of data has no such file or folder."""
    path = pathlib.Path(DATA or "", *parts)
    reason = f"KERAS_ATTENTION_DATA names no folder with {path.name}"
    return pytest.mark.skipif(not (DATA and path.exists()), reason=reason)


def plain(tensor):
    """A tensor as a NumPy array of its own dtype."""
    return np.asarray(ops.convert_to_numpy(ops.convert_to_tensor(tensor)))


def at_once(model, inputs):
    """What a model returns, and the mask that its output carries or None.

    JAX compiles one function: one for each operation would take longer.
    """
    inputs = {name: ops.convert_to_tensor(array) for name, array in inputs.items()}
    if BACKEND != "jax":
        output = model(inputs)
        return output, getattr(output, "_keras_mask", None)
    import jax

    def call(*values):
        output = model.stateless_call(*values)[0]
        return output, getattr(output, "_keras_mask", None)

    state = [model.trainable_variables, model.non_trainable_variables]
    return jax.jit(call)(*([v.value for v in group] for group in state), inputs)


def few_compiled(names, values, most=1, **more):
    """`pytest.mark.parametrize`, where JAX and TensorFlow run the first `most` values.

    They compile a program for each shape and option. In the ring `release`, they run
    all values.
    """
    later = pytest.mark.slow_on("jax", "tensorflow")
    parameters = []
    for n, value in enumerate(values):
        if not hasattr(value, "marks"):
            value = pytest.param(*([value] if isinstance(names, str) else value))
        marks = [*value.marks, later] if n >= most else value.marks
        parameters.append(value._replace(marks=marks))
    return pytest.mark.parametrize(names, parameters, **more)


def short_and_long(short, long):
    """Parameters of a test of an example: its options, and whether it learns.

    The short run shows that the script works, in the process of the tests on torch,
    which compiles nothing. The long one learns, as a user runs it: in a process of its
    own on JAX, the default.
    """
    here = pytest.mark.slow, pytest.mark.backends("torch")
    alone = pytest.mark.release, pytest.mark.backends("jax")
    return [
        pytest.param(short, False, id="short", marks=here),
        pytest.param(long, True, id="long", marks=alone),
    ]


def generate_few(patch, module, name="generate", most=24):
    """Lets a function of a module of data make `most` examples at most."""
    generate = getattr(module, name)
    patch.setattr(module, name, lambda n, *a, **k: generate(min(n, most), *a, **k))


def refused(call, *parts):
    """The message of a call's error, which must have these parts in this order."""
    with pytest.raises(ValueError, match=".*".join(map(re.escape, parts))) as caught:
        call()
    return str(caught.value)


def printed_by(*command, **options):
    """What a process of Python prints, which must end well."""
    command = [sys.executable, *map(str, command)]
    done = subprocess.run(command, capture_output=True, text=True, **options)
    assert done.returncode == 0, f"{command}:\n{done.stderr[-4000:]}"
    return done.stdout


def in_checkout():
    """The environment of a process that imports the package from this checkout."""
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}


def run_example(name, *arguments, folder, patch=None, **environment):
    """Runs a script of examples/ as a user does; returns the finished process.

    With `patch`, it runs in this process: one of its own takes seconds to import Keras.
    """
    if patch:
        patch.chdir(folder)
        for variable, value in environment.items():
            patch.setenv(variable, value)
        with contextlib.redirect_stdout(io.StringIO()) as output:
            run_here(name, arguments, patch)
        return subprocess.CompletedProcess(name, 0, output.getvalue(), "")
    command = [sys.executable, "-W", "ignore", str(ROOT / "examples" / name)]
    return subprocess.run(
        [*command, *map(str, arguments)],
        cwd=folder,
        env={**os.environ, "KERAS_BACKEND": BACKEND, **environment},
        capture_output=True,
        text=True,
    )


def refusal_of_example(name, *arguments, patch):
    """Runs a script of examples/ in this process until it ends by itself.

    Returns:
        The exit status, which is 1 for a message that Python would print, and what
        Python would print.
    """
    try:
        run_here(name, arguments, patch)
    except SystemExit as error:
        said = isinstance(error.code, str)
        return (1, error.code) if said else (error.code, "")
    raise AssertionError(f"{name} ran to its end")


def run_here(name, arguments, patch):
    script = str(ROOT / "examples" / name)
    patch.setattr(sys, "argv", [script, *map(str, arguments)])
    patch.setenv("KERAS_BACKEND", BACKEND)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        runpy.run_path(script, run_name="__main__")
