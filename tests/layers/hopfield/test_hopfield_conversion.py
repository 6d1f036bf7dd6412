"""With one update step a Hopfield layer is multi-head attention, weights and all."""

import keras
import numpy as np
import pytest
from gradients import to_numpy
from heads import built, close, inputs, shaken

from keras_attention import layers


def hopfield(**arguments):
    layer = layers.Hopfield(3, 4, **arguments)
    layer.build(*(x.shape for x in inputs()))
    return shaken(layer)


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"value_dim": 5, "use_bias": False, "output_shape": 2},
        {"normalizer": "sparsemax", "query_key_normalization": "rms"},
    ],
    ids=str,
)
def test_one_step_is_multi_head_attention(arguments):
    given = inputs()
    attention = built(**arguments)
    layer = layers.Hopfield.from_multi_head(attention)
    assert layer.update_steps == 1
    close(layer(*given), attention(*given), 1e-6)
    for found, expected in zip(
        layer(*given, return_attention_scores=True),
        attention(*given, return_attention_scores=True),
    ):
        close(found, expected, 1e-6)
    again = layer.to_multi_head(name="again")
    assert again.name == "again"
    for found, expected in zip(again.weights, attention.weights):
        np.testing.assert_array_equal(to_numpy(found), to_numpy(expected))
    close(again(*given), attention(*given), 1e-6)


def test_keras_own_attention_is_taken_over():
    given = inputs()
    theirs = keras.layers.MultiHeadAttention(3, 4)
    theirs.build(*(x.shape for x in given))
    layer = layers.Hopfield.from_multi_head(theirs)
    close(layer(*given), theirs(*given), 1e-6)
    unbuilt = layers.Hopfield.from_multi_head(layers.MultiHeadAttention(3, 4))
    assert not unbuilt.built


def test_more_steps_and_a_learned_beta_on_top():
    given = inputs()
    attention = built()
    layer = layers.Hopfield.from_multi_head(
        attention, update_steps=3, trainable_beta=True
    )
    np.testing.assert_allclose(layer.betas, 0.5, rtol=1e-6)  # 1/√4
    plain = layers.Hopfield.from_multi_head(attention, update_steps=3)
    close(layer(*given), plain(*given), 1e-6)
    assert np.abs(to_numpy(plain(*given)) - to_numpy(attention(*given))).max() > 0.01


@pytest.mark.parametrize("learned", [False, True])
def test_beta_goes_into_the_queries_projection(learned):
    given = inputs()
    layer = hopfield(beta=[0.3, 1.0, 2.5], trainable_beta=learned)
    close(layer.to_multi_head()(*given), layer(*given), 2e-6)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"num_key_value_heads": 1}, "num_key_value_heads=1"),
        ({"position": "alibi"}, "position="),
        ({"use_gate": True}, "use_gate=True"),
        ({"soft_cap": 3.0}, r"soft_cap=3\.0"),
        ({"normalizer": "linear"}, "normalizer='linear'"),
    ],
)
def test_what_a_hopfield_layer_has_not_is_refused(arguments, message):
    layer = layers.MultiHeadAttention(3, 4, **arguments)
    with pytest.raises(
        ValueError, match=f"(?s)that a Hopfield layer has not.*{message}"
    ):
        layers.Hopfield.from_multi_head(layer)


def test_what_is_no_attention_is_refused():
    with pytest.raises(ValueError, match=r"(?s)must be a `MultiHeadAttention`.*Dense"):
        layers.Hopfield.from_multi_head(keras.layers.Dense(3))
    steps = hopfield(update_steps=2, projections={"use_bias": False})
    with pytest.raises(ValueError, match=r"one step\. Received: update_steps=2$"):
        steps.to_multi_head()
    plain = layers.Hopfield(projections=False)
    plain.build((2, 3, 7), (2, 5, 7))
    with pytest.raises(ValueError, match=r"has projections\..*projections=False$"):
        plain.to_multi_head()
    with pytest.raises(RuntimeError, match="needs a layer that is built"):
        layers.Hopfield(3).to_multi_head()
    normed = hopfield(beta=0.3, projections={"query_key_normalization": "rms"})
    with pytest.raises(ValueError, match="cannot go into the projection"):
        normed.to_multi_head()
