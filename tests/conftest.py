"""What all tests share: programs that JAX has compiled do not pile up."""

import gc
from pathlib import Path

import keras

BETWEEN = 100  # tests
MOST = 30_000  # mappings of memory
count = 0


def pytest_runtest_teardown(item, nextitem):
    """JAX keeps what it compiled, and all tests together are too much for a process.

    Each program takes a few mappings of memory, of which a process may have 65,530:
    the next one is then compiled into a segmentation fault. What is thrown away has to
    be made again, so it is done where it is needed, if the system says so.
    """
    global count
    count += 1
    if keras.config.backend() != "jax" or count % BETWEEN:
        return
    maps = Path("/proc/self/maps")
    if not maps.exists() or maps.read_bytes().count(b"\n") > MOST:
        import jax

        jax.clear_caches()
        gc.collect()
