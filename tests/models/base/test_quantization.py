"""Models of Transformers with 8-bit integers for weights, saved and loaded."""

import keras
import numpy as np
import pytest
from calling import few_compiled
from gradients import to_numpy

from keras_attention import models

SMALL = {"num_layers": 1, "dim": 16, "num_heads": 2, "intermediate_dim": 32}
TOKENS = np.array([[5, 7, 3, 2, 0], [4, 6, 1, 0, 0]], "int32")
MADE = {
    "transformer": lambda: models.Transformer(11, 13, **SMALL),
    "causal_lm": lambda: models.CausalLM(11, **SMALL, position="rotary"),
    "masked_lm": lambda: models.MaskedLM(11, **SMALL, tie_embeddings=False),
}
INPUTS = {
    "transformer": {"source": TOKENS, "target": TOKENS},
    "causal_lm": {"tokens": TOKENS},
    "masked_lm": {"tokens": TOKENS, "mask_positions": np.array([[1, 2], [0, 1]])},
}


@pytest.mark.backends("torch", "jax", "tensorflow")  # NumPy multiplies no integers
# Keras warns of each layer that has no `quantize`, an input for one.
@pytest.mark.filterwarnings("ignore:Layer .* does not have a `quantize`")
# Keras transposes scales of one axis.
@pytest.mark.filterwarnings("ignore:The use of `x.T` on tensors:UserWarning")
@few_compiled("name", MADE)
@pytest.mark.usefixtures("without_collection")
def test_integers_are_saved_and_loaded(name, tmp_path):
    keras.utils.set_random_seed(0)
    model, inputs = MADE[name](), INPUTS[name]
    before = to_numpy(model(inputs, training=False))
    model.quantize("int8")
    after = to_numpy(model(inputs, training=False))
    assert any("int8" in w.dtype for w in model.weights)
    assert 0 < np.abs(after - before).max() < 0.05 * np.abs(before).max()
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    assert type(again) is type(model)
    np.testing.assert_array_equal(to_numpy(again(inputs, training=False)), after)
