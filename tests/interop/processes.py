"""The environment of the processes that the interop tests start."""

import os
import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1]))  # of scripts
from xla_flags import FLAGS


def environment(backend, folder):
    """The environment variables of a process on a backend.

    JAX stores its programs in `folder`. Only JAX gets flags: TensorFlow has its own
    XLA, which ends a process at an unknown flag.
    """
    given = {**os.environ, "KERAS_BACKEND": backend}
    if backend == "jax":
        given["XLA_FLAGS"] = FLAGS
        given["JAX_COMPILATION_CACHE_DIR"] = str(folder / "programs")
        given["JAX_TRACEBACK_IN_LOCATIONS_LIMIT"] = "0"
        given["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
        given["JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES"] = "-1"
    return given
