"""A fault of Keras on JAX that docs/backends.md describes; torch runs the others there.

If this test fails because Keras is mended, delete the paragraph and the test.
"""

import keras
import numpy as np
import pytest


@pytest.mark.backends("jax")
@pytest.mark.parametrize(
    ("mode", "options"),
    [("full", {}), ("larger_than", {"output_size_threshold": 1})],
)
def test_rematerialization_of_a_call_with_flags_fails(mode, options):
    x = np.ones((2, 8), "float32")
    with keras.RematScope(mode=mode, **options):
        dropout = keras.layers.Dropout(0.1)
        with pytest.raises(Exception, match=r"_error_repr|Tracer"):
            dropout(x, training=True)
