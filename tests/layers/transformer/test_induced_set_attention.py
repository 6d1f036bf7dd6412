"""Induced set attention against NumPy in float64, and what masks and orders change."""

import keras
import numpy as np
import pytest
from compositions import ATTENTIONS
from gradients import gradient, to_numpy
from heads import close, normal, reference, shaken
from keras import ops
from layers.transformer.test_blocks import FORMS, F, forms, mlp, norm

from keras_attention import layers, record_attention

B, S, M, D = 3, 7, 2, 12
SETS = normal(B, S, D)
# A full set, a set of four elements, and an empty set
VALID = np.arange(S) < np.array([[S], [4], [0]])
ORDER = np.array([3, 0, 6, 4, 1, 5, 2])


def made(form="post", **more):
    layer = layers.InducedSetAttention(M, 3, F, **{**FORMS[form], **more})
    layer.build((B, S, D))
    return shaken(layer)


def mab(block, x, y, mask):
    """MAB(x, y) of the paper and its weights; the pre-norm form normalizes x and y."""

    def normed(name, z):
        return norm(getattr(block, name), z)

    first, last = "self_attention_norm", "feedforward_norm"
    q, k = (normed(first, z) for z in (x, y)) if block.norm_first else (x, y)
    heads, weights = reference(block.self_attention, q, k, k, mask)
    h = x + heads
    if block.norm_first:
        return h + mlp(block, normed(last, h))[0], weights
    h = normed(first, h)
    return normed(last, h + mlp(block, h)[0]), weights


@forms
def test_it_is_its_equations(form):
    layer, x = made(form), SETS.astype("float64")
    points = np.broadcast_to(to_numpy(layer.points), (B, M, D))
    points, to_set = mab(layer.points_block, points, x, VALID[:, None, None])
    valid = VALID[:, None, :, None]
    wanted, to_points = mab(layer.inputs_block, x, points, valid)
    output, weights = layer(SETS, mask=VALID, return_attention_scores=True)
    close(output, wanted)
    close(weights[0], to_set)
    close(weights[1], to_points)
    close(layer(SETS, mask=VALID), wanted)


@forms
def test_elements_in_another_order_are_the_outputs_in_that_order(form):
    layer = made(form)
    output, (to_set, to_points) = layer(SETS, VALID, return_attention_scores=True)
    moved = layer(SETS[:, ORDER], VALID[:, ORDER], return_attention_scores=True)
    close(moved[0], to_numpy(output)[:, ORDER])
    close(moved[1][0], to_numpy(to_set)[..., ORDER])
    close(moved[1][1], to_numpy(to_points)[:, :, ORDER])


@forms
def test_masked_elements_change_no_other_element(form):
    layer = made(form)
    output = to_numpy(layer(SETS, VALID))
    found = to_numpy(layer(np.where(VALID[:, :, None], SETS, 1e4), VALID))
    np.testing.assert_array_equal(found[VALID], output[VALID])
    close(layer(SETS[1:2, :4])[0], output[1, :4])  # as if they were not there


def test_gradients_of_masked_elements_and_of_an_empty_set():
    """They are 0 and finite."""
    layer = made()
    valid = ops.convert_to_tensor(VALID[:, :, None].astype("float32"))
    (slope,) = gradient(lambda x: ops.sum(valid * layer(x, VALID) ** 2), SETS)
    assert (slope[~VALID] == 0).all()
    assert (np.abs(slope[VALID]).max(-1) > 0).all()
    (slope,) = gradient(lambda x: ops.sum(layer(x, VALID) ** 2), SETS)
    assert np.isfinite(slope).all()


def test_an_attention_layer_is_copied_for_the_way_back():
    attention = layers.Hopfield(2, update_steps=2, beta=0.5, name="hopfield")
    layer = layers.InducedSetAttention(M, intermediate_dim=F, attention=attention)
    with record_attention() as maps:
        _, (to_set, to_points) = layer(SETS, return_attention_scores=True)
    first, last = layer.points_block, layer.inputs_block
    assert first.self_attention is attention
    assert last.self_attention is not attention
    assert last.self_attention.get_config() == attention.get_config()
    assert [path.split("/", 1)[1] for path in maps] == [
        "points_block/hopfield",
        "inputs_block/hopfield",
    ]
    for found, wanted in zip(maps.values(), (to_set, to_points)):
        close(found, wanted)


@pytest.mark.parametrize("name", ["additive", "grouped", "rbf", "keras_multi_head"])
def test_other_attentions_keep_the_rules_of_sets(name):
    attention = ATTENTIONS[name]()
    layer = layers.InducedSetAttention(M, intermediate_dim=F, attention=attention)
    output = to_numpy(layer(SETS, VALID))
    found = to_numpy(layer(np.where(VALID[:, :, None], SETS, 1e4), VALID))
    close(found[VALID], output[VALID])
    close(layer(SETS[:, ORDER], VALID[:, ORDER]), output[:, ORDER])


def test_a_set_transformer_without_padding_and_with_it():
    """`HopfieldPooling` gets the mask that the layer passes on."""
    model = keras.Sequential(
        [
            keras.layers.Masking(),
            layers.InducedSetAttention(M, 3, F, norm_first=True),
            layers.HopfieldPooling(num_heads=3),
        ]
    )
    padded = np.where(VALID[:, :, None], SETS, 0)
    found = to_numpy(model(padded))
    close(model(padded[1:2, :4]), found[1:2])
    close(model(padded[:, ORDER]), found)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"num_points": 0}, "`num_points` must be at least 1. Received: num_points=0"),
        ({"num_heads": None}, "`num_heads` must be given unless `attention` is a"),
        ({"attention": {"position": "rotary"}}, r"none of \['position', 'sliding_win"),
        (
            {"num_heads": None, "attention": layers.FastWeightAttention(3, 4)},
            "`attention` must not depend on the order of queries or keys",
        ),
        (
            {"num_heads": None, "attention": layers.LuongAttention("dot", "local-p")},
            "`attention` must not depend on the order of queries or keys",
        ),
        (
            {
                "num_heads": None,
                "attention": layers.MultiHeadAttention(3, 4, sliding_window=5),
            },
            "elements of a set have no order. Received: attention with .*window': 5",
        ),
    ],
)
def test_bad_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        layers.InducedSetAttention(**{"num_points": M, "num_heads": 3, **arguments})


def test_bad_calls():
    with pytest.raises(ValueError, match="`inputs` must have rank 3"):
        layers.InducedSetAttention(M, 3)(SETS[0])
    with pytest.raises(ValueError, match=r"`num_heads` must divide .*\(3, 7, 12\)"):
        layers.InducedSetAttention(M, 5)(SETS)
    with pytest.raises(ValueError, match="`mask` must have shape"):
        made()(SETS, mask=VALID[:, 1:])
