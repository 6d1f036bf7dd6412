"""The network around a memory: what comes in, what is asked for, and what counts."""

import keras
import numpy as np
import pytest
from calling import TRAINS, carries_masks, needs_training, plain
from keras import ops

from keras_attention.kernels.memory_step.reference import content_weights
from keras_attention.layers import DNCCell, NTMCell
from keras_attention.models import DNCNetwork

B, T, D, V, M, W, R, U, WORDS = 3, 7, 5, 4, 6, 8, 2, 11, 13


def cell(slots=M, heads=R, **more):
    lstm = keras.layers.LSTMCell(U)
    return DNCCell(lstm, memory_slots=slots, word_width=W, read_heads=heads, **more)


def network(**more):
    """A network of vectors with weights that are large enough to tell steps apart."""
    keras.utils.set_random_seed(3)
    model = DNCNetwork(cell(), V, **{"input_dim": D, **more})
    for weight in model.trainable_weights:
        weight.assign(2 * weight)
    return model


def answers(model, inputs):
    """What the model answers, compiled: on JAX each call of a loop is compiled anew."""
    return model.predict(inputs, verbose=0)


@pytest.fixture
def inputs():
    """Three sequences that are asked at two steps, at one, and at all of six."""
    asked = np.zeros((B, T), bool)
    asked[0, 3:5] = asked[1, 1] = asked[2, :6] = True
    vectors = np.random.default_rng(0).normal(size=(B, T, D)).astype("float32")
    return {"inputs": vectors, "answer_mask": asked}


@pytest.fixture
def tokens(inputs):
    words = np.random.default_rng(1).integers(1, WORDS, (B, T)).astype("int32")
    words[0, 5:] = words[1, 2:] = words[2, 6:] = 0
    return {**inputs, "inputs": words}


def test_answers_are_a_dense_layer_of_what_the_memory_returns(inputs):
    model = network()
    logits = plain(model(inputs))
    outputs = plain(model.get_layer("dnc")(inputs["inputs"]))  # (B, T, ·)
    assert outputs.shape[-1] == U + R * W  # the controller, beside what was read
    kernel, bias = (plain(w) for w in model.get_layer("logits").weights)
    expected = outputs @ kernel + bias
    asked = inputs["answer_mask"]
    np.testing.assert_allclose(logits[asked], expected[asked], rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(logits[~asked], 0)
    assert np.abs(expected[~asked]).min() > 0
    np.testing.assert_allclose(model.predict(inputs, verbose=0), logits, 1e-5, 1e-5)


@carries_masks
def test_the_steps_asked_at_are_the_mask_of_the_answers(inputs):
    mask = network()(inputs)._keras_mask
    np.testing.assert_array_equal(plain(mask), inputs["answer_mask"])


@pytest.mark.backends("all")
@needs_training
def test_loss_and_metrics_count_the_steps_asked_at_alone(inputs):
    model = network()
    model.compile(
        keras.optimizers.SGD(0.0),
        loss=keras.losses.BinaryCrossentropy(from_logits=True),
        metrics=[keras.metrics.BinaryAccuracy(threshold=0.0, name="right")],
    )
    targets = np.random.default_rng(2).integers(0, 2, (B, T, V)).astype("float32")
    found = model.evaluate(inputs, targets, verbose=0, return_dict=True)
    logits, asked = model.predict(inputs, verbose=0), inputs["answer_mask"]
    each = np.logaddexp(0, logits) - targets * logits
    np.testing.assert_allclose(found["loss"], each[asked].mean(), rtol=1e-5)
    right = (logits > 0) == (targets > 0)
    np.testing.assert_allclose(found["right"], right[asked].mean(), rtol=1e-5)
    targets[~asked] = 1 - targets[~asked]
    again = model.evaluate(inputs, targets, verbose=0, return_dict=True)
    assert again == found
    history = model.fit(inputs, targets, verbose=0).history
    for name, value in found.items():
        np.testing.assert_allclose(history[name], [value], rtol=1e-5)


@pytest.mark.slow
@needs_training
def test_one_right_answer_a_step(tokens):
    """Targets as numbers, and the gradient of what is asked for alone."""
    model = network(input_dim=None, vocabulary_size=WORDS, embedding_dim=9)
    model.compile(
        keras.optimizers.Adam(0.02),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    targets = np.random.default_rng(2).integers(0, V, (B, T))
    history = model.fit(tokens, targets, epochs=30, verbose=0).history
    assert history["loss"][-1] < 0.5 * history["loss"][0]
    assert history["accuracy"][-1] > 0.8
    logits = model.predict(tokens, verbose=0)[tokens["answer_mask"]]
    right = logits.argmax(-1) == targets[tokens["answer_mask"]]
    assert right.mean() > 0.8


def test_words_begin_as_large_as_other_inputs():
    model = DNCNetwork(cell(), V, vocabulary_size=200, embedding_dim=100)
    numbers = plain(model.get_layer("embedding").embeddings)
    assert numbers.std() == pytest.approx(1, rel=0.02)
    assert abs(numbers.mean()) < 0.03


def test_what_stands_behind_changes_nothing(inputs, tokens):
    model = network()
    expected = answers(model, inputs)
    changed = inputs["inputs"].copy()
    changed[0, 5:] = changed[1, 2:] = changed[2, 6:] = 1e3
    np.testing.assert_allclose(
        answers(model, {**inputs, "inputs": changed}), expected, rtol=1e-5, atol=1e-6
    )


@needs_training
def test_what_stands_behind_does_not_train(inputs):
    """Not even where it is no number."""
    moved = []
    for behind in (0.0, np.nan):
        keras.utils.set_random_seed(0)
        model = network()
        model.compile("sgd", keras.losses.BinaryCrossentropy(from_logits=True))
        asked = inputs["answer_mask"]
        steps = np.arange(asked.shape[1])
        last = np.where(asked, steps, -1).max(1, keepdims=True)
        x = np.where((steps <= last)[..., None], inputs["inputs"], behind)
        assert (steps > last).any()
        model.train_on_batch(
            {"inputs": x.astype("float32"), "answer_mask": asked},
            np.ones((*asked.shape, V)),
        )
        moved.append(model.get_weights())
    for one, other in zip(*moved):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("width", [None, 9])
def test_padding_between_tokens_changes_nothing(tokens, width):
    """The memory stands still there: steps behind a hole know nothing of it."""
    model = network(input_dim=None, vocabulary_size=WORDS, embedding_dim=width)
    expected = answers(model, tokens)
    at = [0, 1, 2, 2, 2, 3, 4, 5, 6]  # two steps more, in front of step 3
    holes = {name: x[:, at] for name, x in tokens.items()}
    holes["inputs"][:, 2:4] = 0
    holes["answer_mask"][:, 2:4] = False
    holes["inputs"][:, 4] = tokens["inputs"][:, 2]
    holes["answer_mask"][:, 4] = tokens["answer_mask"][:, 2]
    found = answers(model, holes)[:, [0, 1, 4, 5, 6, 7, 8]]
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_a_token_is_its_one_hot_vector(tokens):
    words = network(input_dim=None, vocabulary_size=WORDS)
    vectors = network(input_dim=WORDS)
    vectors.set_weights(words.get_weights())
    one_hot = np.eye(WORDS, dtype="float32")[tokens["inputs"]]
    same = {**tokens, "inputs": one_hot}
    np.testing.assert_allclose(
        answers(words, tokens), answers(vectors, same), rtol=1e-5, atol=1e-6
    )
    one, other = words.trace(tokens), vectors.trace(same)
    there = tokens["inputs"] != 0
    for name in ("write_weights", "read_weights", "memory", "usage", "modes"):
        found, expected = getattr(one, name), getattr(other, name)
        np.testing.assert_allclose(found[there], expected[there], 1e-5, 1e-6)


def test_the_trace_is_of_what_the_network_reads(inputs):
    model = network()
    trace = model.trace(inputs)
    assert isinstance(trace.memory, np.ndarray)
    assert trace.memory.shape == (B, T, M, W)
    assert trace.read_weights.shape == (B, T, R, M)
    assert trace.write_weights.shape == (B, T, 1, M)
    read = np.einsum("btrm,btmw->btrw", trace.read_weights, trace.memory)
    outputs = plain(model.get_layer("dnc")(inputs["inputs"]))[:, :, U:]
    np.testing.assert_allclose(read.reshape(B, T, R * W), outputs, 1e-5, 1e-5)
    alone = model.trace(inputs["inputs"])
    np.testing.assert_array_equal(alone.memory, trace.memory)


def test_more_slots_after_training(inputs, tmp_path):
    model = network()
    larger = model.resized(29, scale_epsilon=True)
    assert larger.cell.memory_slots == 29
    assert model.cell.memory_slots == M
    for one, other in zip(model.get_weights(), larger.get_weights(), strict=True):
        np.testing.assert_array_equal(one, other)
    assert larger.trace(inputs).memory.shape == (B, T, 29, W)
    model.save_weights(tmp_path / "some.weights.h5")
    read = DNCNetwork(cell((29, M)), V, input_dim=D)
    read.load_weights(tmp_path / "some.weights.h5")
    found = answers(read, inputs)
    np.testing.assert_allclose(found, answers(larger, inputs), 1e-6, 1e-6)
    assert np.abs(found - answers(model, inputs)).max() > 1e-4


def test_blank_slots_are_as_similar_to_a_key_in_any_number_of_slots():
    """The ε of the similarity goes down as the square of what a blank slot holds."""
    model = network()
    same = model.resized(M)
    assert same.cell.get_config()["memory_slots"] == M
    larger, unscaled = model.resized(10 * M, True), model.resized(10 * M)
    smaller = larger.resized(M, True)  # M₀ is still that of training
    assert larger.cell.get_config()["memory_slots"] == [10 * M, M]
    assert unscaled.cell.get_config()["memory_slots"] == 10 * M
    assert smaller.cell.get_config()["memory_slots"] == M
    key, strength = np.ones((1, 1, W), "float32"), np.ones((1, 1), "float32")
    found = {}
    for name, one in {"M": model, "scaled": larger, "not": unscaled}.items():
        slots = one.cell.memory_slots
        left = np.full((1, slots, W), 0.01 / slots, "float32")  # of a blurred write
        tensors = map(ops.convert_to_tensor, (left, key, strength))
        content = content_weights(*tensors, epsilon=one.cell.options.epsilon)
        found[name] = plain(content.cosine)[0, 0, 0]
    assert abs(found["M"] - found["scaled"]) < 1e-6
    assert found["not"] < 0.5 * found["M"]


def test_copies_of_copies_keep_the_slots_of_training(inputs):
    model = network()

    def scale(one):  # ε / 1e-6
        return one.cell.options.epsilon / 1e-6

    plain, scaled = model.resized(4 * M), model.resized(4 * M, True)
    for one in (plain, scaled, plain.resized(2 * M), scaled.resized(2 * M)):
        saved = DNCNetwork.from_config(one.get_config())
        assert scale(saved) == scale(one)
        found = saved.resized(16 * M, scale_epsilon=True)
        assert scale(found) == pytest.approx(1 / 256)
    assert scale(plain) == scale(scaled.resized(2 * M)) == 1
    old = {k: v for k, v in model.get_config().items() if k != "trained_slots"}
    assert DNCNetwork.from_config(old).resized(2 * M, True).cell.trained_slots == M
    if not TRAINS:
        return
    for one, wanted in ((plain, 1 / 16), (scaled, 1 / 256)):
        one.compile("sgd", "mse")
        one.train_on_batch(inputs, np.zeros((B, T, V)))
        assert scale(one.resized(16 * M, True)) == pytest.approx(wanted)


@pytest.mark.filterwarnings("ignore:Skipping nested container")
def test_weights_of_another_number_of_heads_are_refused(tmp_path):
    network().save_weights(tmp_path / "some.weights.h5")
    other = DNCNetwork(cell(heads=R + 1), V, input_dim=D)
    with pytest.raises(ValueError, match=r"must be \[2, 1, 8\]; the number of memory"):
        other.load_weights(tmp_path / "some.weights.h5")


@pytest.mark.parametrize("kind", ["dnc", "ntm"])
def test_files_give_the_same_answers(inputs, tmp_path, kind):
    keras.utils.set_random_seed(5)
    made = cell() if kind == "dnc" else NTMCell(keras.layers.GRUCell(U), M, W, R)
    model = DNCNetwork(made, V, input_dim=D)
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    assert type(again) is DNCNetwork
    assert type(again.cell) is type(made)
    np.testing.assert_allclose(
        answers(again, inputs), answers(model, inputs), 1e-6, 1e-6
    )


@needs_training
@pytest.mark.parametrize("way", ["fit", "evaluate", "train_on_batch", "test_on_batch"])
def test_a_sequence_that_is_never_asked(inputs, way):
    model = network()
    model.compile("sgd", "mse")
    inputs["answer_mask"][1] = False
    with pytest.raises(ValueError, match="at one step of each sequence") as error:
        getattr(model, way)(inputs, np.zeros((B, T, V)))
    assert "Received: 1 of 3 sequences" in str(error.value)
    assert "answer_mask[1] the first" in str(error.value)


@needs_training
@pytest.mark.parametrize("kind", ["NumPy", "backend"])
def test_what_is_asked_of_padding(tokens, kind):
    model = DNCNetwork(cell(), V, vocabulary_size=WORDS)
    model.compile("sgd", "mse")
    tokens["inputs"][2, 3] = 0
    given = tokens
    if kind == "backend":
        given = {name: ops.convert_to_tensor(a) for name, a in tokens.items()}
    with pytest.raises(ValueError, match="False where a token is 0") as error:
        model.fit(given, np.zeros((B, T, V)), verbose=0)
    assert "Received: 1 steps to answer at among the padding" in str(error.value)
    assert "answer_mask[2, 3] the first" in str(error.value)


@pytest.mark.backends("all")
@needs_training
def test_a_sequence_of_tensors_that_is_never_asked(inputs):
    model = network()
    model.compile("sgd", "mse")
    inputs["answer_mask"][1] = False
    given = {name: ops.convert_to_tensor(a) for name, a in inputs.items()}
    with pytest.raises(ValueError, match="at one step of each sequence"):
        model.fit(given, np.zeros((B, T, V)), verbose=0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"output_units": 0, "input_dim": 3}, "`output_units` must be at least 1"),
        ({"output_units": 2}, "`input_dim` for vectors or `vocabulary_size`"),
        (
            {"output_units": 2, "input_dim": 3, "vocabulary_size": 4},
            "one of the two. Received: input_dim=3, vocabulary_size=4",
        ),
        (
            {"output_units": 2, "input_dim": 3, "embedding_dim": 4},
            "`embedding_dim` is for tokens",
        ),
        ({"output_units": 2, "input_dim": 0}, "`input_dim` must be at least 1"),
        (
            {"output_units": 2, "vocabulary_size": 5, "embedding_dim": 0},
            "`embedding_dim` must be at least 1",
        ),
        ({"output_units": 2, "input_dim": 3, "slots": 4}, "no such argument"),
    ],
)
def test_bad_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        DNCNetwork(cell(), **arguments)


def test_a_cell_without_a_memory():
    with pytest.raises(ValueError, match="`cell` must be a DNCCell or an NTMCell"):
        DNCNetwork(keras.layers.LSTMCell(3), 2, input_dim=3)


def test_resizing_to_nothing():
    with pytest.raises(ValueError, match="`memory_slots` must be at least 1"):
        network().resized(0)
