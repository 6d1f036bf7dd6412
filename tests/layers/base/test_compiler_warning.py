"""The warning that a file from JAX has torch's compiler trace a model."""

import warnings

import keras
import numpy as np
import pytest

from keras_attention import kernels
from keras_attention.layers import Attention

pytestmark = pytest.mark.backends("torch")
X = np.ones((2, 3, 4), "float32")


@pytest.fixture(autouse=True)
def no_earlier_warning(monkeypatch):
    monkeypatch.setattr("keras_attention.kernels.tracing.torch._warned", set())


@pytest.fixture
def seems_compiled(monkeypatch):
    """The layers take each call for one that torch's compiler traces."""
    monkeypatch.setattr(kernels, "is_compiling", lambda: True)


def reader():
    x = keras.Input((3, 4))
    outputs = keras.layers.Dense(4)(Attention()(x, x))
    model = keras.Model(x, outputs, name="reader")
    model.compile("sgd", "mse")
    return model


@pytest.mark.usefixtures("seems_compiled")
@pytest.mark.parametrize("method", ["predict", "evaluate", "fit", "train_on_batch"])
def test_it_names_the_model_the_remedy_and_the_line_of_the_user(method):
    model = reader()
    arguments = (X,) if method == "predict" else (X, X)
    text = r"torch's compiler traces the model 'reader'.*`model\.jit_compile = False`"
    with warnings.catch_warnings(record=True) as raised:
        warnings.filterwarnings("always", text)
        for _ in range(2):
            getattr(model, method)(*arguments)
    places = [w.filename for w in raised if issubclass(w.category, UserWarning)]
    assert places == [__file__]


@pytest.mark.usefixtures("seems_compiled")
def test_a_compiled_function_of_the_user_brings_no_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        reader()(X)


# Only here does the compiler itself run the check. It traces Keras for seconds before.
@pytest.mark.slow
def test_a_loaded_model_with_the_option_warns_before_it_is_compiled(tmp_path):
    model = reader()
    expected = model.predict(X, verbose=0)
    model.compile("sgd", "mse", jit_compile=True)  # as Keras saves it on JAX
    model.save(tmp_path / "reader.keras")
    loaded = keras.saving.load_model(tmp_path / "reader.keras")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of torch itself
        warnings.filterwarnings("error", "torch's compiler traces the model 'reader'")
        with pytest.raises(Exception, match=r"`model\.jit_compile = False`"):
            loaded.predict(X, verbose=0)
    loaded = keras.saving.load_model(tmp_path / "reader.keras")
    loaded.jit_compile = False
    np.testing.assert_array_equal(loaded.predict(X, verbose=0), expected)
