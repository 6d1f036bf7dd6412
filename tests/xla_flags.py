"""Flags with which JAX compiles the small programs of the tests faster.

XLA ends a process at an unknown flag, and TensorFlow has its own XLA, so only JAX gets
them. JAX 0.10.2 and 0.12.0 know the first two. JAX 0.12 does not know the third, which
saves a third of the time, but hides that fusions round differently. The lane `newest`
therefore compiles without flags.
"""

import importlib.metadata
import importlib.util
import os

FLAGS = "--xla_cpu_parallel_codegen_split_count=1 --xla_backend_optimization_level=0"
if importlib.util.find_spec("jax") and (
    importlib.metadata.version("jax").startswith("0.10.")
):
    FLAGS += " --xla_cpu_use_fusion_emitters=false"


def set_flags():
    """Sets the flags before JAX is imported, unless the environment has some.

    An empty XLA_FLAGS selects the compiler as users have it.
    """
    os.environ.setdefault("XLA_FLAGS", FLAGS)
