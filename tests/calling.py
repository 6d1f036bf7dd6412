"""Calls of models and scripts that several tests need."""

import os
import pathlib
import runpy
import subprocess
import sys
import warnings

import keras
import numpy as np
from keras import ops

ROOT = pathlib.Path(__file__).resolve().parents[1]
BACKEND = keras.config.backend()


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


def run_example(name, *arguments, folder, **environment):
    """Runs a script of examples/ as a user does; returns the finished process."""
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

    A process of its own takes seconds to import Keras; `run_example` holds that the
    script works there.

    Returns:
        The exit status, which is 1 for a message that Python would print, and what
        Python would print.
    """
    script = str(ROOT / "examples" / name)
    patch.setattr(sys, "argv", [script, *map(str, arguments)])
    patch.setenv("KERAS_BACKEND", BACKEND)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            runpy.run_path(script, run_name="__main__")
        except SystemExit as error:
            said = isinstance(error.code, str)
            return (1, error.code) if said else (error.code, "")
    raise AssertionError(f"{name} ran to its end")
