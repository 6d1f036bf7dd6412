"""How public names and arguments are renamed: the old ones work for a while."""

import inspect
import sys
import types

import keras
import pytest

from keras_attention.layers.base.serialization import Configured
from keras_attention.user_warnings import renamed_arguments, renamed_attribute


class Pool(keras.layers.Layer):
    @renamed_arguments("0.2.0", width="units")
    def __init__(self, units=3, **kwargs):
        super().__init__(**kwargs)
        self.units = units


@keras.saving.register_keras_serializable("tests")
class ConfiguredPool(Configured, keras.layers.Layer):
    __module__ = "keras_attention.pools"  # a class of the package

    @renamed_arguments("0.2.0", width="units")
    def __init__(self, units=3, **kwargs):
        super().__init__(**kwargs)
        self.units = units

    def call(self, x):
        return x * self.units


def test_an_old_argument_works_and_warns_at_the_line_of_the_user():
    told = r"`width` is called `units` since version 0\.2\.0"
    with pytest.warns(DeprecationWarning, match=told) as warned:
        layer, line = Pool(width=5), inspect.currentframe().f_lineno
    assert layer.units == 5
    assert (warned[0].filename, warned[0].lineno) == (__file__, line)


def test_the_new_argument_does_not_warn_and_the_signature_is_new():
    assert Pool(units=7).units == Pool(7).units == 7
    assert [*inspect.signature(Pool.__init__).parameters] == ["self", "units", "kwargs"]


def test_both_names_of_an_argument_are_refused():
    with pytest.raises(TypeError, match="`width` is the old name of `units`"):
        Pool(width=5, units=5)


def test_an_old_name_may_be_one_of_the_decorator():
    @renamed_arguments("0.2.0", since="start", call="stop")
    def span(start, stop):
        return stop - start

    with pytest.warns(DeprecationWarning, match="is called"):
        assert span(since=2, call=5) == 3


@pytest.mark.backends("all")
def test_a_saved_layer_has_the_new_name_and_a_config_with_the_old_one_loads(tmp_path):
    with pytest.warns(DeprecationWarning, match="`width` is called `units`"):
        layer = ConfiguredPool(width=5)
    assert layer.get_config()["units"] == 5
    assert "width" not in layer.get_config()
    model = keras.Sequential([keras.Input((2,)), layer])
    model.save(tmp_path / "model.keras")
    assert keras.saving.load_model(tmp_path / "model.keras").layers[-1].units == 5
    config = layer.get_config()
    config["width"] = config.pop("units")  # as a file of an earlier version has it
    with pytest.warns(DeprecationWarning, match="`width` is called `units`"):
        loaded = ConfiguredPool.from_config(config)
    assert "width" not in loaded.get_config()
    assert loaded.units == 5


def test_an_old_name_of_a_module(monkeypatch):
    module = types.ModuleType("pools")
    module.Pool = Pool
    module.__getattr__ = lambda name: renamed_attribute(
        "pools", "0.2.0", name, Pooling="Pool"
    )
    monkeypatch.setitem(sys.modules, "pools", module)
    with pytest.warns(DeprecationWarning, match=r"`pools\.Pooling` is called"):
        assert module.Pooling is Pool
    with pytest.raises(AttributeError, match="'pools' has no attribute 'nowhere'"):
        _ = module.nowhere
