"""The environment of the processes that the interop tests start."""

import os
import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1]))  # of scripts
from xla_flags import FLAGS


def environment(backend, folder):
    """That of a process on a backend; JAX keeps its programs in a folder.

    It is `folder`, if the environment names none that all tests share.

    The flags are for JAX alone: TensorFlow has an XLA of its own, which ends a process
    at a flag that it does not know.
    """
    given = {**os.environ, "KERAS_BACKEND": backend}
    if backend == "jax":
        given["XLA_FLAGS"] = FLAGS
        given.setdefault("JAX_COMPILATION_CACHE_DIR", str(folder / "programs"))
        given["JAX_TRACEBACK_IN_LOCATIONS_LIMIT"] = "0"
        given["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
        given["JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES"] = "-1"
    return given
