"""The controller whose output is followed by its inputs."""

import keras
import numpy as np
import pytest

from keras_attention.layers import DNC, DNCCell
from keras_attention.layers.external_memory.memory_cell import WithInputs


def made():
    """A DNC with one read vector of three numbers, for inputs of two."""
    keras.utils.set_random_seed(0)
    controller = WithInputs(keras.layers.LSTMCell(4), width=5)
    return DNC(DNCCell(controller, memory_slots=3, word_width=3, read_heads=1))


def test_the_output_is_followed_by_the_inputs():
    cell = WithInputs(keras.layers.LSTMCell(4), width=2)
    cell.build((None, 2))
    inputs = keras.ops.convert_to_tensor([[5.0, -7.0]])
    output, states = cell(inputs, cell.get_initial_state(1))
    output = keras.ops.convert_to_numpy(output)
    wanted, _ = cell.cell(inputs, cell.cell.get_initial_state(1))
    wanted = keras.ops.convert_to_numpy(wanted)
    assert cell.output_size == 6
    np.testing.assert_array_equal(output[:, :4], wanted)
    np.testing.assert_array_equal(output[:, 4:], [[5, -7]])
    assert [tuple(state.shape) for state in states] == [(1, 4), (1, 4)]


@pytest.mark.backends("all")
def test_a_file_brings_it_back(tmp_path):
    inputs = keras.Input((None, 2))
    model = keras.Model(inputs, made()(inputs))
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    x = np.random.default_rng(0).normal(size=(2, 3, 2)).astype("float32")
    wanted = model.predict(x, verbose=0)
    found = loaded.predict(x, verbose=0)
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-6)
    (kind,) = {type(layer.cell.cell) for layer in loaded.layers[1:]}
    assert kind is WithInputs
