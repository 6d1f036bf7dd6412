"""The Transformers with other attentions than multi-head attention."""

import keras
import numpy as np
import pytest
from calling import TRAINS
from gradients import to_numpy
from keras import ops
from writing import assert_greedy_is_argmax, assert_scores_are_chances, sharper

from keras_attention import layers, models, record_attention

V, D, T = 13, 12, 4
SMALL = {"num_layers": 1, "dim": D, "intermediate_dim": 8, "dropout": 0.0}
PROMPTS = [[5, 6, 7], [8], [9, 3, 4, 5, 6]]
SOURCE = np.array([[4, 5, 6, 7, 8], [9, 10, 0, 0, 0], [11, 4, 5, 0, 0]], "int32")
KINDS = {
    "hopfield": lambda: layers.Hopfield(2, update_steps=2),
    "scaled_dot": lambda: layers.Attention("scaled_dot"),
    "keras_heads": lambda: keras.layers.MultiHeadAttention(2, 4),
}
kinds = pytest.mark.parametrize("kind", KINDS)
everywhere = pytest.mark.backends("all")


def make(cls, attention, **more):
    keras.utils.set_random_seed(0)
    sizes = (V,) if cls in (models.CausalLM, models.MaskedLM) else (V, V)
    model = cls(*sizes, **{**SMALL, **more}, attention=attention)
    return sharper(model, 2, rank=2)


def learn(model, inputs, labels):
    if TRAINS:
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile(keras.optimizers.Adam(0.01), loss)
        found = model.fit(inputs, labels, verbose=0).history["loss"]
        assert np.isfinite(found).all()


def reload(model, path):
    model.save(path / "model.keras")
    again = keras.saving.load_model(path / "model.keras")
    assert type(again) is type(model)
    for one, other in zip(model.weights, again.weights):
        np.testing.assert_array_equal(to_numpy(one.value), to_numpy(other.value))
    return again


def logits_of(model, inputs):
    return to_numpy(model({k: ops.convert_to_tensor(x) for k, x in inputs.items()}))


def assert_continues(model):
    """Greedy tokens are the argmax of the whole sequence at once."""
    found = model.generate(PROMPTS, T)
    for prompt, written in zip(PROMPTS, found):
        tokens = np.array([[*prompt, *written]], "int32")
        logits = logits_of(model, {"tokens": tokens})[0, len(prompt) - 1 : -1]
        np.testing.assert_array_equal(logits.argmax(-1), written)


@pytest.mark.slow_on("jax")
@pytest.mark.parametrize(
    "kind",
    # In a compiled loop, steps of another's layer.
    ["hopfield", "scaled_dot", pytest.param("keras_heads", marks=everywhere)],
)
def test_a_language_model_goes_on_by_it(kind, tmp_path):
    model = make(models.CausalLM, KINDS[kind]())
    tokens = np.random.default_rng(0).integers(1, V, (4, T)).astype("int32")
    learn(model, {"tokens": tokens[:, :-1]}, tokens[:, 1:])
    assert_continues(reload(model, tmp_path))


@kinds
def test_a_transformer_writes_by_it(kind, tmp_path):
    model = make(models.Transformer, KINDS[kind]())
    target = np.random.default_rng(0).integers(1, V, (3, T)).astype("int32")
    learn(model, {"source": SOURCE, "target": target[:, :-1]}, target[:, 1:])
    assert_greedy_is_argmax(reload(model, tmp_path), T, source=SOURCE)


@pytest.mark.slow_on("jax")
@pytest.mark.parametrize(
    ("own", "cross"),
    [
        # In a compiled loop, a state of the attention to the source.
        pytest.param(
            "keras_heads", layers.MonotonicAttention(units=5), marks=everywhere
        ),
        ("scaled_dot", layers.BahdanauAttention(5, coverage=True)),
        ("hopfield", keras.layers.AdditiveAttention()),
    ],
    ids=["monotonic", "coverage", "keras_additive"],
)
def test_another_attention_to_the_source(own, cross):
    """A beam search has to take its state along."""
    model = make(models.Transformer, KINDS[own](), cross_attention=cross)
    assert_scores_are_chances(model, T, 3, 1e-3, source=SOURCE)


def test_a_masked_model_and_a_classifier(tmp_path):
    for kind, attention in KINDS.items():
        model = make(models.MaskedLM, attention())
        given = {"tokens": SOURCE, "mask_positions": np.array([[0], [1], [2]])}
        expected = logits_of(model, given)
        wider = {**given, "tokens": np.pad(SOURCE, ((0, 0), (0, 4)))}
        np.testing.assert_allclose(logits_of(model, wider), expected, atol=1e-4)
        again = reload(model, tmp_path)
        np.testing.assert_allclose(logits_of(again, given), expected, atol=1e-6)
        model = make(models.TransformerClassifier, attention())
        expected = logits_of(model, {"tokens": SOURCE})
        again = reload(model, tmp_path)
        found = logits_of(again, {"tokens": wider["tokens"]})
        np.testing.assert_allclose(found, expected, atol=1e-4, err_msg=kind)


def test_each_block_has_a_layer_of_its_own():
    attention = layers.Hopfield(2, beta=0.3, name="mine")
    model = make(models.Transformer, attention, num_layers=2)
    assert not attention.built
    blocks = [
        model.get_layer(f"{n}coder_block_{k}") for n in ("en", "de") for k in (0, 1)
    ]
    found = [block.self_attention for block in blocks]
    found += [block.cross_attention for block in blocks[2:]]
    assert len({id(layer) for layer in found}) == 6
    assert all(layer.beta == 0.3 for layer in found)
    first = [to_numpy(layer.weights[0].value) for layer in found]
    assert len({kernel.tobytes() for kernel in first}) == 6
    assert model.num_heads is None
    with record_attention() as maps:
        logits_of(model, {"source": SOURCE, "target": SOURCE})
    names = {"encoder_block_0/self_attention", "decoder_block_1/cross_attention"}
    assert len(maps) == 6
    assert names < {*maps}


def test_the_default_is_multi_head_attention():
    for cls, heads in (
        (models.CausalLM, 8),
        (models.MaskedLM, 8),
        (models.Transformer, 8),
        (models.TransformerClassifier, 4),
    ):
        assert make(cls, None, num_layers=1, dim=16).num_heads == heads
    tiny = {"num_layers": 1, "attention": layers.Attention("scaled_dot")}
    model = models.Transformer.from_size("tiny", V, V, **tiny)
    assert (model.dim, model.num_heads) == (128, None)


def test_what_knows_its_last_step_does_not_generate():
    model = make(models.CausalLM, layers.MonotonicAttention(units=5))
    logits_of(model, {"tokens": SOURCE})
    with pytest.raises(ValueError, match="cannot attend to its own inputs step by st"):
        model.generate(PROMPTS, T)


BUILT = layers.Hopfield(2)
BUILT.build((None, None, D), (None, None, D))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"attention": BUILT}, "`attention` must not be built: .*which is built"),
        ({"cross_attention": BUILT}, "`cross_attention` must not be built"),
        ({"attention": "dot"}, "`attention` must be an attention layer.*'dot'"),
        ({"attention": {"dropout": 0.1}}, "`attention` must be an attention layer"),
        ({"cross_attention": "dot"}, "`cross_attention` must be an attention layer"),
        (
            {"num_heads": 2, "attention": layers.Hopfield(2)},
            "`num_heads` must be None where `attention` is a layer.*num_heads=2",
        ),
        (
            {"position": "rotary", "attention": layers.Hopfield(2)},
            "`position` must be None, one of .*position='rotary'",
        ),
        (
            {"block": {"attention": {"dropout": 0}}, "attention": layers.Hopfield(2)},
            "`block` must not hold 'attention' where `attention` is a layer",
        ),
        (
            {"block": {"attention": layers.Hopfield(2)}},
            "The 'attention' of `block` must be a dict.*a layer is given as",
        ),
        (
            {"attention": keras.layers.MultiHeadAttention(2, 4, output_shape=5)},
            "`attention` must return the width of the block's inputs, 12",
        ),
    ],
)
def test_constructor_errors(arguments, message):
    with pytest.raises(ValueError, match=message):
        models.Transformer(V, V, **{**SMALL, **arguments, "dim": D})


@pytest.mark.parametrize("name", ["attention", "cross_attention"])
def test_an_attention_that_learns_by_its_weights_is_refused(name):
    hard = layers.HardAttention(estimator="reinforce")
    message = f"`{name}` must learn by its output"
    with pytest.raises(ValueError, match=message):
        make(models.Transformer, **{"attention": layers.Attention(), name: hard})
