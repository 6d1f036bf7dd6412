"""Loads every file of a folder; `test_contract.py` runs this in a process of its own.

python load_files.py FOLDER
"""

import pathlib
import sys

import keras
import numpy as np
from calling import at_once, plain

import keras_attention  # noqa: F401 - registers what the files hold

for path in sorted(pathlib.Path(sys.argv[1]).glob("*.keras")):
    inputs = dict(np.load(path.with_suffix(".npz")))
    expected, classes, carried = (
        inputs.pop(name) for name in ("expected", "classes", "carried")
    )
    model = keras.saving.load_model(path)
    names = [type(x).__name__ for x in (model, *model.layers)]
    assert names == classes.tolist(), (path.name, names)
    output, mask = at_once(model, inputs)
    # Graphs of TensorFlow, compiled twice, differ by 1.2e-6.
    np.testing.assert_allclose(plain(output), expected, rtol=1e-6, atol=4e-6)
    mask = np.zeros(0) if mask is None else plain(mask)
    np.testing.assert_array_equal(mask, carried, err_msg=path.name)
    print(path.name)
