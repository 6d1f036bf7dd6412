"""Flags with which JAX compiles the small programs of the tests faster.

JAX 0.10.2 and 0.12.0 know them. XLA ends a process at a flag that it does not know, so
they are for JAX alone: TensorFlow has an XLA of its own.
"""

import os

FLAGS = "--xla_cpu_parallel_codegen_split_count=1 --xla_backend_optimization_level=0"


def set_flags():
    """Sets the flags before JAX is imported, unless the environment has some.

    An empty XLA_FLAGS selects the compiler as users have it.
    """
    os.environ.setdefault("XLA_FLAGS", FLAGS)
