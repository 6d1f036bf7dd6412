"""The Universal Transformer: its equations, empty sentences, halting, learning."""

import keras
import numpy as np
import pytest
from calling import needs_training
from gradients import to_numpy

import keras_attention
from keras_attention import layers, models

WORDS, D, B, M, L = 17, 8, 3, 5, 4


def made(**more):
    keras.utils.set_random_seed(0)
    sizes = {"dim": D, "num_heads": 2, "intermediate_dim": 13, "steps": 3}
    return models.UniversalTransformer(WORDS, **{**sizes, **more})


def questions(rows=B, seed=0):
    rng = np.random.default_rng(seed)
    story = rng.integers(1, WORDS, (rows, M, L)).astype("int32")
    story[0, 1, 2:] = story[0, 3] = story[1, 2:] = 0
    question = rng.integers(1, WORDS, (rows, L)).astype("int32")
    return {"story": story, "question": question}


def encode(encoder, words):
    """√D Σⱼ fⱼ ∘ E wⱼ, word by word; a padding word has no position."""
    table, masks = (to_numpy(w) for w in encoder.weights)
    out = np.zeros((*words.shape[:-1], D))
    for where in np.ndindex(words.shape[:-1]):
        for j, word in enumerate(w for w in words[where] if w):
            out[where] += D**0.5 * masks[min(j, len(masks) - 1)] * table[word]
    return out


@pytest.mark.parametrize("norm_first", [False, True])
def test_logits_are_those_of_the_equations(norm_first):
    """The question and the sentences that are not empty, with their ages."""
    model, inputs = made(block={"norm_first": norm_first}), questions()
    encoder = model.get_layer("sentence_encoder")
    masks = encoder.weights[1]
    masks.assign(np.random.default_rng(1).normal(size=masks.shape))
    depth = model.get_layer("depth")
    kernel, bias = map(to_numpy, model.get_layer("answer").get_weights())
    for row, found in enumerate(to_numpy(model(inputs))):
        story, question = (inputs[k][row] for k in ("story", "question"))
        story = story[story.any(-1)]
        x = np.concatenate([encode(encoder, question[None]), encode(encoder, story)])
        ages = np.concatenate([[0], np.arange(len(story), 0, -1)])
        state = to_numpy(depth(x[None].astype("float32"), positions=ages))[0, 0]
        if norm_first:
            state = (state - state.mean()) / np.sqrt(state.var() + 1e-5)
        expected = state @ kernel + bias
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


def test_old_sentences_share_an_age():
    model, inputs = made(memory_size=2), questions()
    swapped = {**inputs, "story": inputs["story"][:, [1, 0, 2, 3, 4]]}
    close = np.testing.assert_allclose
    close(to_numpy(model(inputs))[2], to_numpy(model(swapped))[2], atol=1e-5)
    assert np.abs(to_numpy(made()(inputs)) - to_numpy(made()(swapped)))[2].max() > 1e-3


def test_time_noise_moves_the_ages_in_training_only():
    model, inputs = made(time_noise=1.0, dropout=0.0), questions()
    first, second = (to_numpy(model(inputs)) for _ in range(2))
    np.testing.assert_array_equal(first, second)
    assert np.abs(to_numpy(model(inputs, training=True)) - first).max() > 1e-4


def test_ponder_times_count_the_steps():
    halting = layers.AdaptiveHalting(0.9, initial_bias=-0.5)
    model, inputs = made(halting=halting, steps=6), questions()
    model.get_layer("depth").halting.weights[0].assign(
        np.random.default_rng(1).normal(size=(D, 1))
    )
    found = model.ponder_times(inputs, batch_size=2)
    assert found["story"].shape == (B, M)
    assert found["question"].shape == (B,)
    filled = inputs["story"].any(-1)
    assert not found["story"][~filled].any()
    assert {*found["story"][filled]} <= {*range(1, 7)}
    assert len({*found["story"][filled]}) > 1
    fixed = made().ponder_times(inputs)
    np.testing.assert_array_equal(fixed["story"], 3 * filled)
    np.testing.assert_array_equal(fixed["question"], 3)
    without = made(position=None).ponder_times(inputs)
    np.testing.assert_array_equal(without["story"], 3 * filled)
    with pytest.raises(ValueError, match="`inputs` must hold 'question'"):
        model.ponder_times({"story": inputs["story"]})
    with pytest.raises(ValueError, match="`story` must"):
        model.ponder_times({**inputs, "story": inputs["story"] + WORDS})
    message = "`inputs` must be a dict with the entries .* Received: .* type ndarray"
    with pytest.raises(ValueError, match=message):
        model.ponder_times(inputs["story"])


def test_an_array_is_refused_for_the_dict():
    """Keras lists the entries: sorted; on JAX, `predict` in the order of the inputs."""
    entries = r"\['question', 'story'\]|'story': 'story', 'question': 'question'"
    for call in (made(), made().predict):
        with pytest.raises(ValueError, match=entries):
            call(questions()["story"])


def test_maps_of_each_step_are_recorded():
    model, inputs = made(), questions()
    with keras_attention.record_attention() as maps:
        model(inputs)
    assert len(maps) == 3
    for weights in maps.values():
        assert weights.shape == (B, 2, M + 1, M + 1)
        np.testing.assert_array_equal(weights[0, :, :, 3], 0)  # an empty sentence


def test_a_block_of_your_own():
    block = layers.TransformerEncoderBlock(
        intermediate_dim=5, norm_first=True, attention=layers.Hopfield(2)
    )
    keras.utils.set_random_seed(0)
    model = models.UniversalTransformer(WORDS, D, block=block, steps=2)
    assert model(questions()).shape == (B, WORDS)
    assert not block.built  # a copy is used
    again = models.UniversalTransformer.from_config(model.get_config())
    assert isinstance(again.get_layer("depth").block.self_attention, layers.Hopfield)
    assert again.count_params() == model.count_params()


@pytest.mark.release
@needs_training
def test_it_learns_and_halts_earlier():
    """Which word the newest of five sentences holds; one second of training."""
    rng = np.random.default_rng(0)
    story = np.zeros((64, M, L), "int32")
    story[:, :, 0] = rng.integers(1, WORDS, (64, M))
    inputs = {"story": story, "question": np.ones((64, 1), int)}
    answers = story[:, 4, 0]
    model = made(
        dim=16,
        intermediate_dim=64,
        steps=4,
        halting=layers.AdaptiveHalting(ponder_weight=1.0, initial_bias=-2.0),
        position="learned",
        dropout=0.0,
        block={"norm_first": True},
    )
    before = model.ponder_times(inputs)["question"].mean()
    model.compile(
        keras.optimizers.Adam(0.01),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    )
    for _ in range(40):
        model.train_on_batch(inputs, answers)
    assert np.mean(to_numpy(model(inputs)).argmax(-1) == answers) > 0.9
    assert model.ponder_times(inputs)["question"].mean() < before - 0.5


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"steps": 0}, "`steps` must be at least 1"),
        ({"num_heads": 3}, "`num_heads` must divide `dim`"),
        ({"encoding": "sum"}, "`encoding` must be one of"),
        ({"position": "rotary"}, "`position` must be one of"),
        ({"halting": "now"}, "`halting` must be 'adaptive', an `AdaptiveHalting`"),
        ({"block": {"heads": 3}}, "`block` must be a dict of further arguments"),
        (
            {"block": layers.TransformerEncoderBlock(2, 5)},
            "`num_heads` must be None where `block` is a layer. Received: num_heads=2",
        ),
    ],
)
def test_bad_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        made(**arguments)


def test_dropout_is_checked_with_a_block_of_your_own():
    block = layers.TransformerEncoderBlock(2, 5)
    with pytest.raises(ValueError, match=r"`dropout` must be .*Received: dropout=1\.0"):
        models.UniversalTransformer(WORDS, D, block=block, dropout=1.0)


def test_halting_by_name_has_the_dtype_of_the_model():
    model = made(halting="adaptive", dtype="mixed_bfloat16")
    halting = model.get_layer("depth").halting
    assert halting.dtype_policy.name == "mixed_bfloat16"


def test_a_built_block_is_refused():
    block = layers.TransformerEncoderBlock(2, 5)
    block.build((None, None, D))
    with pytest.raises(ValueError, match="`block` must not be built"):
        models.UniversalTransformer(WORDS, D, block=block)
