"""Configs of layers that users derive from those of this package."""

import keras
import numpy as np
import pytest

from keras_attention import layers, models


@keras.saving.register_keras_serializable("tests")
class Sharp(layers.Attention):
    """Keras records a number; a layer it does not."""

    def __init__(self, power=2, before=None, **kwargs):
        super().__init__(**kwargs)
        self.power = power
        self.before = before


@keras.saving.register_keras_serializable("tests")
class Forgetful(layers.Attention):
    def __init__(self, before, **kwargs):
        super().__init__(**kwargs)
        del before


@keras.saving.register_keras_serializable("tests")
class Own(layers.Attention):
    def __init__(self, power=2, **kwargs):
        super().__init__(**kwargs)
        self.exponent = power

    def get_config(self):
        return {**super().get_config(), "power": self.exponent}


@pytest.mark.parametrize("before", [None, keras.layers.Dense(3)], ids=["no", "layer"])
def test_arguments_of_a_subclass_are_kept(before):
    layer = Sharp(power=5, before=before, score="rbf", name="sharp")
    again = Sharp.from_config(layer.get_config())
    assert again.power == 5
    assert type(again.before) is type(before)
    assert type(again.score) is type(layer.score)
    assert again.name == "sharp"


def test_its_own_config_is_left_alone():
    assert Own.from_config(Own(power=5).get_config()).exponent == 5


def test_an_argument_that_is_nowhere_is_refused():
    layer = Forgetful(keras.layers.Dense(3))
    with pytest.raises(TypeError, match="store its argument `before`"):
        layer.get_config()


def test_blocks_of_a_model_have_the_arguments_too(tmp_path):
    model = models.CausalLM(11, 2, 8, intermediate_dim=8, attention=Sharp(power=5))
    found = [x.power for x in model._flatten_layers() if isinstance(x, Sharp)]
    assert found == [5, 5]
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    found = [x.power for x in again._flatten_layers() if isinstance(x, Sharp)]
    assert found == [5, 5]
    tokens = {"tokens": np.array([[1, 2, 3]])}
    np.testing.assert_allclose(
        again.predict(tokens, verbose=0), model.predict(tokens, verbose=0), atol=1e-6
    )
