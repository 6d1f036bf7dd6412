"""What all tests share: programs that JAX has compiled do not pile up."""

import gc

import keras

BETWEEN = 100  # tests
count = 0


def pytest_runtest_teardown(item, nextitem):
    """JAX keeps what it compiled, and all tests together are too much for a process.

    Each program takes a few mappings of memory, of which a process may have 65,530:
    the next one is then compiled into a segmentation fault.
    """
    global count
    count += 1
    if keras.config.backend() == "jax" and count % BETWEEN == 0:
        import jax

        jax.clear_caches()
        gc.collect()
