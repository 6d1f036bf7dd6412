"""The environment of the processes that the interop tests start."""

import os

# Quick to compile, slow to run: what these processes run is small.
FLAGS = (
    "--xla_cpu_parallel_codegen_split_count=1 --xla_backend_optimization_level=0 "
    "--xla_cpu_use_fusion_emitters=false"
)


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
