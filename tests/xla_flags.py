"""Flags with which JAX compiles the small programs of the tests faster.

XLA ends a process at a flag that it does not know, so they are for JAX alone:
TensorFlow has an XLA of its own. JAX 0.10.2 and 0.12.0 know the first two. The third,
which JAX 0.12 does not know, saves a third of the time. It also hides that XLA computes
scores again; the lane `newest` compiles without flags.
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
