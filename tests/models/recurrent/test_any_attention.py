"""`Seq2Seq` and `ImageCaptioner` with any attention layer."""

import keras
import numpy as np
import pytest
from calling import BACKEND, few_compiled, needs_training
from gradients import to_numpy
from keras import ops
from writing import (
    START,
    after_start,
    assert_greedy_is_argmax,
    assert_one_beam_is_greedy,
    sharper,
    sources,
)

from keras_attention import layers, samplers
from keras_attention.models import ImageCaptioner, Seq2Seq

B, T, V = 3, 5, 13
SHAPE = (9, 14, 3)

ATTENTIONS = {
    "heads": lambda: layers.MultiHeadAttention(2, 3),
    "hopfield": lambda: layers.Hopfield(2, 3),
    "keras_heads": lambda: keras.layers.MultiHeadAttention(2, 3),
}


def translator(attention):
    model = Seq2Seq(11, V, embedding_dim=4, units=6, attention=attention)
    return model, {"source": sources()}


def captioner(attention):
    image = np.random.default_rng(0).normal(scale=0.1, size=(B, *SHAPE))
    model = ImageCaptioner(
        SHAPE,
        V,
        embedding_dim=4,
        units=6,
        filters=(3, 5),
        attention=attention,
        doubly_stochastic=0.1,
    )
    return model, {"image": image.astype("float32")}


MODELS = {"seq2seq": translator, "captioner": captioner}


def make(model, attention):
    keras.utils.set_random_seed(0)
    model, inputs = MODELS[model](ATTENTIONS[attention]())
    return sharper(model, 1.5), inputs


def targets():
    target = np.random.default_rng(1).integers(4, V, (B, T)).astype("int32")
    target[:, 0] = START
    return target


@pytest.mark.slow
@pytest.mark.parametrize("attention", ATTENTIONS)
@pytest.mark.parametrize("name", MODELS)
def test_it_writes_what_teacher_forcing_says(name, attention):
    model, inputs = make(name, attention)
    written, _ = assert_greedy_is_argmax(model, T, **inputs)
    assert_one_beam_is_greedy(model, T, **inputs)
    sampler = samplers.BeamSampler(3, length_penalty=0.6, coverage_penalty=0.2)
    assert model.generate(inputs, T, sampler).shape == (B, T)
    # Each token attends once, whatever the number of heads.
    tensors = {key: ops.convert_to_tensor(x) for key, x in inputs.items()}
    cache, static = model.begin(tensors)
    first = to_numpy(cache["alignment_sum"])
    prompt = ops.convert_to_tensor(after_start(written))
    _, _, cache = model.next(prompt, cache, 1, static)
    attended = to_numpy(cache["alignment_sum"]) - first
    np.testing.assert_allclose(attended.sum(1), 1, rtol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("attention", ATTENTIONS)
@pytest.mark.parametrize("name", MODELS)
def test_a_file_writes_the_same(name, attention, tmp_path):
    model, inputs = make(name, attention)
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    assert type(again) is type(model)
    assert isinstance(again.attention, keras.layers.Layer)
    assert type(again.attention) is type(model.attention)
    np.testing.assert_array_equal(
        again.generate(inputs, T, "beam"), model.generate(inputs, T, "beam")
    )


@needs_training
@pytest.mark.parametrize(
    ("name", "attention"), [("seq2seq", "heads"), ("captioner", "keras_heads")]
)
def test_all_weights_learn_in_a_compiled_fit(name, attention):
    model, inputs = make(name, attention)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True, ignore_class=0)
    model.compile("sgd", loss)
    before = [to_numpy(w.value) for w in model.trainable_weights]
    model.fit({**inputs, "target": targets()}, targets(), verbose=0)
    for old, weight in zip(before, model.trainable_weights):
        # A bias of keys moves all scores of a query alike: no weight changes.
        if "key/bias" not in weight.path:
            assert (to_numpy(weight.value) != old).any(), weight.path


@pytest.mark.parametrize("name", MODELS)
def test_what_cannot_learn_and_what_is_no_attention_is_refused(name):
    attention = layers.HardAttention(units=5, estimator="reinforce")
    reason = {"seq2seq": "CarryChoices.*Received", "captioner": "learns by REINFORCE"}
    with pytest.raises(ValueError, match=reason[name]):
        MODELS[name](attention)
    with pytest.raises(ValueError, match="`attention` must be an attention layer"):
        MODELS[name](keras.layers.Dense(3))


def test_scheduled_sampling_over_heads():
    keras.utils.set_random_seed(0)
    model = Seq2Seq(
        *(11, V, 4, 6),
        attention=layers.MultiHeadAttention(2, 3, dropout=0.3),
        sampling_probability=0.5,
    )
    inputs = {**translator(None)[1], "target": targets()}
    tensors = {name: ops.convert_to_tensor(x) for name, x in inputs.items()}
    one, other = (to_numpy(model(tensors, training=True)) for _ in range(2))
    assert np.isfinite(one).all()
    assert (one != other).any()


@pytest.mark.filterwarnings("ignore:Layer .* does not have a `quantize`")
@pytest.mark.skipif(BACKEND == "numpy", reason="NumPy has no quantized products")
@pytest.mark.usefixtures("without_collection")
@pytest.mark.parametrize("attention", [*ATTENTIONS, "luong"])
@pytest.mark.parametrize("name", MODELS)
def test_a_quantized_file_computes_the_same(name, attention, tmp_path):
    keras.utils.set_random_seed(0)
    layer = layers.LuongAttention() if attention == "luong" else None
    model, inputs = MODELS[name](layer or ATTENTIONS[attention]())
    inputs = {**inputs, "target": targets()}
    model.quantize("int8")
    expected = model.predict(inputs, verbose=0)
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_allclose(again.predict(inputs, verbose=0), expected, atol=1e-6)


@keras.saving.register_keras_serializable("tests")
class Silent(keras.layers.Layer):
    """A user's attention, which cannot return its weights."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.inner = keras.layers.MultiHeadAttention(2, 3)

    def build(self, query_shape, value_shape):
        self.inner.build(query_shape, value_shape)

    def call(self, query, value, key=None, attention_mask=None):
        return self.inner(query, value, key=key, attention_mask=attention_mask)


@pytest.mark.backends("all")
@needs_training
@few_compiled("name", MODELS)
def test_generation_needs_no_weights(name):
    keras.utils.set_random_seed(0)
    model, inputs = MODELS[name](Silent())
    written = model.generate(inputs, T, samplers.BeamSampler(2))
    assert written.shape == (B, T)
    cache, _ = model.begin({k: ops.convert_to_tensor(x) for k, x in inputs.items()})
    assert "alignment_sum" not in cache
    with pytest.raises(ValueError, match="`coverage_penalty` needs a cache"):
        model.generate(inputs, T, samplers.BeamSampler(2, coverage_penalty=0.2))
