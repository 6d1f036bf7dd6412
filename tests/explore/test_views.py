"""The views of the live page, without Gradio."""

import itertools
import warnings

import keras
import numpy as np
import pytest
from small_networks import MADE, small_networks, two_layers

import keras_attention
from keras_attention import layers, presets
from keras_attention.datasets import babi
from keras_attention.explore import examples, glyphs
from keras_attention.explore.views import (
    hopfield,
    memory,
    networks,
    own_model,
    sentence,
    story,
    temperature,
    texts,
    translation,
)
from keras_attention.presets import UntrainedInputWarning

STORY = (
    "John got the apple there.\nJohn went to the hallway.\n\nMary went to the kitchen."
)
CAUSAL, MASKED = examples.READERS
TRANSLATOR, DATES = examples.TASKS


@pytest.fixture(scope="module", autouse=True)
def loaded():
    before = dict(networks._loaded)
    networks._loaded.update(small_networks())
    yield networks._loaded
    networks._loaded.clear()
    networks._loaded.update(before)


@pytest.mark.slow
def test_a_story_has_the_weights_and_the_answer_of_the_network(loaded):
    view = story.look(STORY, "Where is Daniel?")
    model = loaded["memn2n_babi_joint"]
    inputs = model.preprocessor.encode(
        STORY.replace("\n\n", "\n").splitlines(), "where is daniel"
    )
    with keras_attention.record_attention() as maps:
        model(inputs)
    weights = np.stack([w[0] for w in maps.values()])
    filled = inputs["story"][0].any(-1)
    np.testing.assert_allclose(view.data["weights"], weights[:, filled], atol=5e-5)
    assert view.data["sentences"][2] == "Mary went to the kitchen."
    best, share = view.data["answers"][0]
    assert best == model.answer(
        STORY.replace("\n\n", "\n").splitlines(), "Where is Daniel?"
    )
    assert 0 < share < 1


# The page itself says which words are unknown.
@pytest.mark.filterwarnings("ignore:.*has words that the network has not learned")
def test_a_sentence_has_its_words_and_maps(loaded):
    view = sentence.look(CAUSAL, "The dog sleeps in the garden")
    groups = view.data["groups"]
    assert [group["name"] for group in groups] == ["layer 1", "layer 2"]
    tokens = ["(start)", "the", "dog", "sleeps (unknown)", "in", "the", "garden"]
    assert groups[0]["queries"] == groups[0]["keys"] == tokens
    weights = np.array(groups[1]["weights"])
    assert weights.shape == (2, 7, 7)
    assert not np.triu(weights, 1).any()  # no word attends to a later one
    assert view.data["word"] == 6
    view = sentence.look(MASKED, "She is ___ a book.")
    tokens = ["(start)", "she", "is", "___", "a", "book", ".", "(end)"]
    assert view.data["groups"][0]["queries"] == tokens
    assert view.data["word"] == 3
    ((best, share),) = loaded["masked_lm_tatoeba"].fill("She is ___ a book.", 1)
    assert f"“{best}” {100 * share:.0f} %" in view.caption


# The page itself says which words are unknown.
@pytest.mark.filterwarnings("ignore:.*has words that the network has not learned")
@pytest.mark.parametrize(
    ("task", "text", "source"),
    [
        (TRANSLATOR, "Ik heb een kat.", ["ik", "heb", "een", "kat (unknown)", "."]),
        (DATES, " 4 May 1979", ["4", "␣", "M", "a", "y", "␣", "1", "9", "7", "9"]),
    ],
)
def test_a_translation_has_a_row_for_each_written_token(loaded, task, text, source):
    view = translation.look(task, text)
    model = loaded[examples.TASKS[task].preset]
    groups = view.data["groups"]
    assert len(groups) == (2 if task == TRANSLATOR else 1)
    assert [key.lower() for key in groups[0]["keys"]] == [key.lower() for key in source]
    weights = np.array(groups[0]["weights"])
    assert weights.shape[1:] == (len(groups[0]["queries"]), len(source))
    np.testing.assert_allclose(weights.sum(-1), 1.0, atol=1e-3)
    written = model.translate(text, max_length=translation.MOST_WRITTEN)
    assert view.data["query_text"] == written


def test_half_a_digit_is_completed():
    for digit in range(10):
        view = hopfield.look(glyphs.half(digit, "lower half"), 40)
        found = np.array(view.data["weights"])[-1].argmax()
        assert found == digit
    energies = view.data["energies"]
    assert all(a >= b - 1e-6 for a, b in itertools.pairwise(energies))
    assert len(np.unique(glyphs.digits().reshape(10, -1), axis=0)) == 10
    for hidden in glyphs.HALVES:
        assert len(glyphs.half(3, hidden)) == glyphs.SIZE
    mixed = hopfield.look(glyphs.half(3, "nothing"), 0.5).data["weights"][-1]
    assert max(mixed) < 0.2  # a small β mixes all digits


# The untrained network is wrong.
@pytest.mark.filterwarnings("ignore:The answer is wrong")
def test_a_route_is_followed_step_by_step(loaded):
    view = memory.look(*examples.ROUTES[0])
    steps = view.data["steps"]
    assert steps[0] == "Bank –east→ Tower"
    assert steps[7:] == ["Bank –east→ ?", "–north→ ?", "–west→ ?", *["answer"] * 3]
    model = loaded["dnc_paths"]
    edges = [tuple(memory._names(line)) for line in examples.EDGES.splitlines()]
    answer = model.answer(edges, examples.ROUTES[0][1])
    assert " | ".join(view.data["outputs"][-3:]) == answer
    inputs = model.preprocessor.encode(edges, examples.ROUTES[0][1])
    usage = model.trace(inputs).usage[0, : len(steps), view.data["slots"]]
    np.testing.assert_allclose(np.array(view.data["usage"]), usage.T, atol=1e-3)
    assert view.caption.endswith(answer.split(" | ")[-1] + ".")


def test_what_a_network_did_not_learn_stands_above_the_view(loaded, monkeypatch):
    text = "1 John ran\n2 Where is John?\tx\n1 Daniel ran\n2 Where is Daniel?\tx\n"
    forms = babi.question_forms(babi.parse(text))
    tools = loaded["memn2n_babi_joint"].preprocessor
    monkeypatch.setattr(tools, "questions", forms)
    said = "The story does not mention daniel."
    shown = texts.shown(story.look, STORY, "Where is Daniel?")
    assert said in shown
    assert "Which sentences does each hop read?" in shown
    assert said not in texts.shown(story.look, STORY, "Where is John?")
    with pytest.warns(UntrainedInputWarning, match=said):
        tools.encode(["John got the apple."], "Where is Daniel?")
    monkeypatch.setattr(loaded["seq2seq_dates"].preprocessor, "writes", "date")
    shown = texts.shown(translation.look, DATES, "May")
    assert "There is no such date as" in shown
    shown = texts.shown(memory.look, "A | 1 | B\nB | 3 | A", "A | 3")
    assert "3 does not leave A, so there is no right answer." in shown
    monkeypatch.setattr(tools, "min_score", 0.999)
    assert "is unsure of" in texts.shown(story.look, STORY, "Where is John?")
    with pytest.warns(UserWarning, match="another"):  # of another kind
        texts.shown(_warns)


def _warns():
    warnings.warn("another", stacklevel=1)
    return hopfield.look(glyphs.half(3, "nothing"), 8)


def test_words_keep_their_likeness_in_fewer_numbers(loaded):
    view = temperature.look("mother Father water monday mother")
    assert view.data["words"] == ["mother", "Father", "water", "monday"]
    vectors = np.array(view.data["vectors"])
    rows = temperature._rows(loaded["skip_gram_tatoeba"], view.data["words"])
    given = loaded["skip_gram_tatoeba"].vectors()[rows]
    given /= np.linalg.norm(given, axis=1, keepdims=True)
    np.testing.assert_allclose(vectors @ vectors.T, given @ given.T, atol=1e-3)


def test_ones_own_model_shows_all_its_maps(tmp_path):
    model = own_model.load(two_layers(tmp_path / "mine.keras"))
    given = [own_model.example(tensor) for tensor in model.inputs]
    assert given == ["1 2 3 4 5 6 7 8", "1 2 3 4\n1 2 3 4\n1 2 3 4"]
    view = own_model.look(model, "5 6", "1 2\n3")
    groups = {group["name"]: group for group in view.data["groups"]}
    assert {*groups} == {"self", "cross"}
    assert groups["self"]["keys"] == ["5", "6"]
    assert groups["cross"]["queries"] == ["5", "6"]
    assert groups["cross"]["keys"] == ["1 2 0 0", "3 0 0 0", "0 0 0 0"]
    with keras_attention.record_attention() as maps:
        model(
            {
                "ids": np.array([[5, 6]]),
                "lines": np.array([[[1, 2, 0, 0], [3, 0, 0, 0], [0] * 4]]),
            }
        )
    np.testing.assert_allclose(groups["self"]["weights"], maps["self"][0], atol=5e-5)


LONG = "word " * 10_000


@pytest.mark.parametrize(
    ("look", "given", "said"),
    [
        (story.look, ("", "Where is John?"), "write a story first"),
        (story.look, (STORY, " "), "write a question first"),
        (story.look, (STORY, "Where is the <b>zebra</b>?"), "never learned.*zebra"),
        (
            story.look,
            (LONG, "Where is John?"),
            "at most 8 words, and there are 10,000",
        ),
        (story.look, ("John got\n" * 99, "Where?"), "at most 50 sentences"),
        (sentence.look, (CAUSAL, ""), "write a sentence first"),
        (story.look, ("!!!", "Where is John?"), "sentence 1 of the .* “!!!”"),
        (story.look, (STORY, "?"), "write a question with at least one word"),
        (sentence.look, (CAUSAL, LONG), "at most 16 words .* there are 10,000"),
        (sentence.look, (CAUSAL, "the " * 16 + "."), "at most 16 words and marks"),
        (sentence.look, (CAUSAL, "xyzzy"), r"“xyzzy”.*words such as: \w"),
        (sentence.look, (CAUSAL, "!!!"), "a sentence with at least one word.*“!!!”"),
        (sentence.look, (MASKED, "She is here"), "three underscores"),
        (translation.look, (TRANSLATOR, None), "write a text first"),
        (translation.look, (DATES, "4 Mäy"), "never learned “ä”.*knows characters"),
        (translation.look, (DATES, "4" * 37), "at most 36 characters"),
        (translation.look, (TRANSLATOR, "hond " * 17), "at most 16 words"),
        (translation.look, (TRANSLATOR, "a" * 30_000), "at most 20,000 characters"),
        (translation.look, (TRANSLATOR, "xyzzy"), "never learned “xyzzy”"),
        (hopfield.look, ("?" * glyphs.SIZE, 8), "Nothing is drawn"),
        (hopfield.look, ("#", 8), "drawing is damaged"),
        (hopfield.look, ("#" * glyphs.SIZE, 0), "β must be above 0"),
        (memory.look, ("", "A | 1"), "write edges first"),
        (memory.look, ("A | 1", "A | 1"), "An edge is a place"),
        (memory.look, ("A | 1 | B", ""), "You wrote: nothing"),
        (memory.look, ("A | 1 | B", "C | 1"), "must begin with a place"),
        (memory.look, ("A | 1 | B", "A | 2"), "must take lines of .* You wrote: 2"),
        (memory.look, ("A | 1 | B\nA | 1 | C", "A | 1"), "one of two lines another"),
        (memory.look, ("A | 1 | A", "A" + " | 1" * 7), "at most 6 lines"),
        (memory.look, ("A | 1 | B\n" * 99, "A | 1"), "at most 60"),
        (temperature.look, ("mother",), "two different words"),
        (temperature.look, ("mother xyzzy",), "never learned “xyzzy”"),
    ],
)
def test_bad_input_is_told_in_words(look, given, said):
    with pytest.raises(ValueError, match=said) as caught:
        look(*given)
    assert len(str(caught.value)) < 500
    assert "`" not in str(caught.value)  # an argument says nothing to a reader
    shown = texts.shown(look, *given)
    assert 'role="alert"' in shown
    assert "<b>" not in shown


def test_bad_input_of_ones_own_model(tmp_path):
    path = two_layers(tmp_path / "mine.keras")
    model = own_model.load(path)
    for given, said in (
        (("1 x", "1"), "takes whole numbers.*“x”"),
        (("1.5", "1"), "takes whole numbers"),
        (("", "1"), "type numbers"),
        ((LONG.replace("word", "1"), "1"), "at most 100 numbers a line"),
        (("1", "1 2 3 4 5"), "at most 4 numbers a line"),
        (("1", "1\n" * 4), "at most 3 lines"),
    ):
        with pytest.raises(texts.InputError, match=said):
            own_model.look(model, *given)
    damaged = tmp_path / "damaged.keras"
    for content in (b"", b"no archive", path.read_bytes()[:-500]):
        damaged.write_bytes(content)
        with pytest.raises(texts.InputError, match=r"damaged.keras cannot be opened"):
            own_model.load(damaged)


def attends(ids):
    """A model of one attention layer, with four ids."""
    x = keras.layers.Embedding(4, 3)(ids)
    return keras.Model(ids, layers.Attention()(x, x))


@pytest.mark.parametrize(
    ("dtype", "text", "said"),
    [
        ("int32", "3000000000", "from -2147483648 to 2147483647. You .* “3000000000”"),
        ("uint8", "300", "from 0 to 255. You typed “300”"),
        ("uint8", "-1", "from 0 to 255. You typed “-1”"),
    ],
)
def test_numbers_that_a_dtype_cannot_hold(dtype, text, said):
    model = attends(keras.Input((None,), dtype=dtype, name="ids"))
    assert own_model.look(model, "1 3").data["groups"]
    assert 'role="alert"' in texts.shown(own_model.look, model, text)
    with pytest.raises(texts.InputError, match=said):
        own_model.look(model, text)


def test_a_model_that_cannot_be_shown():
    ids = keras.Input((None,), dtype="int32", name="ids")
    with pytest.raises(texts.InputError, match=r"does not have|between 0"):
        own_model.look(attends(ids), "9")
    x = keras.layers.Embedding(4, 3)(ids)
    own = keras.Model(ids, keras.layers.Attention()([x, x]), name="mine")
    with pytest.raises(texts.InputError, match="“mine” has no attention layer of this"):
        own_model.look(own, "1 2")


def test_a_network_that_is_not_shipped_is_named(monkeypatch):
    monkeypatch.setattr(networks, "_loaded", {})
    monkeypatch.setattr(presets, "names", list)
    with pytest.raises(texts.InputError, match="the trained network dnc_paths"):
        networks.network("dnc_paths")


def test_each_view_asks_for_a_network_of_the_list():
    asked = {examples.STORY_PRESET, examples.ROUTE_PRESET, examples.WORDS_PRESET}
    asked |= {*examples.READERS.values()}
    asked |= {task.preset for task in examples.TASKS.values()}
    assert asked == {*MADE}
