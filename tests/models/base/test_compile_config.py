"""How a model is compiled travels with its file, from backend to backend."""

import json
import zipfile

import keras
import numpy as np
import pytest

from keras_attention import models

INPUTS = {
    "story": np.ones((2, 3, 4), "int32"),
    "question": np.ones((2, 4), "int32"),
}


def memn2n():
    return models.MemN2N(9, memory_size=3, embedding_dim=4)


def saved_choice(path):
    with zipfile.ZipFile(path) as file:
        return json.loads(file.read("config.json"))["compile_config"]["jit_compile"]


@pytest.mark.backends("all")
def test_a_file_leaves_the_choice_to_the_backend_that_loads_it(tmp_path):
    """JAX compiles by default, torch does not; each loads the files of the other."""
    model, path = memn2n(), tmp_path / "model.keras"
    model.compile("sgd", "mse")
    model.save(path)
    assert saved_choice(path) == "auto"
    loaded = keras.saving.load_model(path)
    assert loaded.jit_compile == model.jit_compile
    assert loaded.compiled
    found, expected = (m.predict(INPUTS, verbose=0) for m in (loaded, model))
    np.testing.assert_allclose(found, expected, rtol=1e-6)


@pytest.mark.backends("all")
def test_another_choice_than_that_of_the_backend_is_kept(tmp_path):
    model, path = memn2n(), tmp_path / "model.keras"
    model.compile("sgd", "mse")
    other = not model.jit_compile
    model.compile("sgd", "mse", jit_compile=other)
    model.save(path)
    assert saved_choice(path) is other
    assert keras.saving.load_model(path).jit_compile is other


def test_a_model_that_is_not_compiled_has_no_choice():
    assert memn2n().get_compile_config() == {}
