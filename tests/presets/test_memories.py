"""The presets of memories and of dates: right answers, and what they refuse."""

import functools

import h5py
import keras
import numpy as np
import pytest
from calling import refused

from keras_attention import models, presets
from keras_attention.datasets import babi, dates
from keras_attention.presets import cards
from keras_attention.text import ENTITY

STORY = [
    "Sandra travelled to the kitchen.",
    "Sandra grabbed the football.",
    "Daniel went to the office.",
    "Sandra journeyed to the garden.",
    "Sandra dropped the football.",
    "Sandra moved to the bathroom.",
    "Daniel went back to the bedroom.",
]
FACTS = [
    "Night Train | painted by | Olga Brandt",
    "Night Train | hangs_in | The Old Mint",
    "Low Tide | painted by | Olga Brandt",
    "Low Tide | year | 1932",
    ("Low Tide", "hangs in", "Museum of Ships"),
    "The Old Mint | located in | Gdansk",
    "Museum of Ships | located in | Oslo",
    "Olga Brandt | born in | Riga",
    "Olga Brandt | taught by | Per Holm",
    "Per Holm | born in | Oslo",
]
EDGES = [
    "Alexanderplatz | U8 south | Moritzplatz",
    "Alexanderplatz | U2 west | Stadtmitte",
    "Moritzplatz | U8 south | Kottbusser Tor",
    "Kottbusser Tor | U1 west | Hallesches Tor",
    ("Hallesches Tor", "U6 north", "Stadtmitte"),
    "Stadtmitte | U2 east | Alexanderplatz",
]


@functools.cache
def network(name):
    return cards.load(name)


@pytest.mark.backends("all")
def test_a_story_in_the_simulated_world():
    model = network("memnn_world")
    assert type(model) is models.MemNN
    assert model.answer(STORY, "Where is the football?") == "garden"
    assert model.answer(STORY, "Where is Sandra?") == "bathroom"
    assert model.answer(STORY, "Where was Daniel before the bedroom?") == "office"
    found = model(model.preprocessor.encode(STORY, "Where is the football?"))["found"]
    facts = set(keras.ops.convert_to_numpy(found)[0].tolist())
    assert facts == {3, 4}  # where Sandra went, and dropped it


@pytest.mark.backends("all")
def test_facts_with_names_that_no_network_has_seen():
    model = network("kvmemnn_world")
    assert type(model) is models.KeyValueMemNN
    assert model.answer(FACTS, "Who painted Low Tide?") == "Olga Brandt"
    assert model.answer(FACTS, "When was Low Tide painted?") == "1932"
    assert model.answer(FACTS, "Who taught Olga Brandt?") == "Per Holm"
    asked = "Which paintings did Olga Brandt paint?"
    assert model.answer(FACTS, asked) == "Night Train, Low Tide"
    asked = "Where was the painter of [Night Train] born?"
    assert model.answer(FACTS, asked) == "Riga"
    # The answer comes from the facts, and the spelling of a relation does not matter.
    moved = [str(fact).replace("Riga", "Bergen") for fact in FACTS if "Riga" in fact]
    moved += [fact for fact in FACTS if "Riga" not in fact]
    assert model.answer(moved, asked) == "Bergen"


def test_dates():
    model = network("seq2seq_dates")
    assert type(model) is models.Seq2Seq
    assert model.translate("4 May 1979") == "1979-05-04"
    texts = ["Friday, May 4, 1979", " 04.05.79 "]
    assert model.translate(texts) == ["1979-05-04"] * 2


def test_dates_in_twelve_forms():
    """The forms of the card, each also in lower and in upper case."""
    model = network("seq2seq_dates")
    forms = presets.card("seq2seq_dates")["limits"].split("The twelve forms: ")[1]
    forms = forms.split(". For a text")[0].split("; ")
    assert len(forms) == 12
    texts = [*forms, *map(str.lower, forms), *map(str.upper, forms)]
    assert model.translate(texts) == ["1979-05-04"] * 36
    assert model.translate(["2017 January 28", "28 JAN 17"]) == ["2017-01-28"] * 2


def test_a_route():
    model = network("dnc_paths")
    assert type(model) is models.DNCNetwork
    route = "Alexanderplatz | U8 south | U8 south | U1 west | U6 north"
    stops = "Moritzplatz | Kottbusser Tor | Hallesches Tor | Stadtmitte"
    assert model.answer(EDGES, route) == stops
    assert model.answer(EDGES, ("Stadtmitte", "U2 east")) == "Alexanderplatz"


def test_routes_are_encoded_as_in_training():
    tools = presets.RoutePreprocessor(max_edges=6, max_length=2)
    found = tools.encode(EDGES, "Alexanderplatz | U8 south | U8 south")
    inputs, answer_mask = found["inputs"][0], found["answer_mask"][0]
    assert inputs.shape == (16, 92)
    assert answer_mask.nonzero()[0].tolist() == [8, 9]
    assert inputs[:, 90].nonzero()[0].tolist() == [0, 6, 8]  # the phases
    assert inputs[:, 91].nonzero()[0].tolist() == [8, 9]
    digits = inputs[:, :90].reshape(16, 3, 30).sum(-1)  # three for each name
    blank = [3 * (digits[step] > 0) for step in range(16)]
    np.testing.assert_array_equal(digits, blank)
    filled = (digits > 0).astype(int).tolist()
    assert filled == 6 * [[1, 1, 1]] + [[1, 1, 0], [0, 1, 0]] + 8 * [[0, 0, 0]]
    # Where the network writes the digits of an edge, its end is decoded.
    logits = 9 * inputs[[0, 4], :90]
    assert tools.decode(logits, EDGES) == ["Moritzplatz", "Stadtmitte"]


def test_facts_are_numbered_as_in_training():
    vocabulary = babi.Vocabulary([ENTITY, "taught", "who"])
    tools = presets.FactPreprocessor(vocabulary, ["year", "taught by"], 5, 1, 4)
    found = tools.encode(["Ida | taught_by | Bo"], "Who taught Ida?")
    assert found["question"].tolist() == [[4, 3, 2, 0]]
    assert found["keys"][0, 0].tolist() == [1, 2]  # the question's entity; taught by
    found = tools.encode(["Ida | taught_by | Bo"], "[Bo] taught who?")
    assert found["question"].tolist() == [[2, 3, 4, 0]]
    assert found["keys"][0, 0].tolist() == [1, 4]  # the inverse, after both relations


def test_filters_of_warnings_are_those_of_the_user():
    facts = [
        f"{place} | year | {place}-{n}" for place in ("Ann", "Bob") for n in range(5)
    ]
    vocabulary = babi.Vocabulary([ENTITY, "was", "when"])
    tools = presets.FactPreprocessor(vocabulary, ["year"], 2, 1, 4)
    with pytest.warns(UserWarning, match="were left out"):
        tools.encode(facts, "When was Ann?")
    with pytest.raises(UserWarning, match="were left out"):  # pytest's filter: error
        tools.encode(facts, "When was Ann?")


def test_characters_are_encoded_and_decoded():
    tools = network("seq2seq_dates").preprocessor
    source = tools.encode(["4 May 1979", "1/2/03"])
    assert source.shape == (2, dates.SOURCE_LENGTH)
    texts = [tools.source_vocabulary.decode(row) for row in source]
    assert texts == ["4 May 1979", "1/2/03"]
    target = tools.target_vocabulary.encode("1979-05-04")
    assert tools.decode([[*target, 3, 5, 0]]) == ["1979-05-04"]


@pytest.mark.parametrize(
    ("given", "parts"),
    [
        (([], "Who?"), ("`sentences` must be a list of at least one fact", "[]")),
        (("a|b|c", "Who?"), ("`sentences` must be a list", "'a|b|c'")),
        ((None, "Who?"), ("`sentences` must be a list", "None")),
        (([7], "Who?"), ("`sentences[0]` must be a fact", "7")),
        ((["a | year"], "Who?"), ("`sentences[0]` must be a fact", "'a | year'")),
        ((["a | year | "], "Who?"), ("`sentences[0]` must be a fact", "year")),
        ((["a | likes | b"], "Who?"), ("`sentences[0]`", "painted_by", "'likes'")),
        ((FACTS, ""), ("`question` must be a text with at least one word", "''")),
        ((FACTS, None), ("`question` must be a text", "None")),
        ((FACTS, "Who painted The Sea?"), ("`question` must name one entity",)),
        ((FACTS, "Who sold Low Tide?"), ("`question` must consist of", "'sold'")),
        ((FACTS, "Low Tide " + 10_000 * "who "), ("`question`", "at most", "10002")),
    ],
)
def test_facts_that_are_refused(given, parts):
    refused(lambda: network("kvmemnn_world").answer(*given), *parts)


@pytest.mark.parametrize(
    ("given", "parts"),
    [
        (([], "a | b"), ("`sentences` must be a list of at least one edge", "[]")),
        ((None, "a | b"), ("`sentences` must be a list", "None")),
        (([7], "a | b"), ("`sentences[0]` must be an edge", "7")),
        ((["a | b"], "a | b"), ("`sentences[0]` must be an edge", "'a | b'")),
        ((["a | b | a"], "a | b"), ("`sentences[0]` must be an edge", "'a | b | a'")),
        ((["a|b|c", "a|b|d"], "a | b"), ("leave a place once", "sentences[1]", "'c'")),
        (
            ([f"{n} | b | {n + 1}" for n in range(10_000)], "0 | b"),
            ("`sentences` must have at most", "edges", "10000 edges"),
        ),
        ((EDGES, ""), ("`question` must be a place and at least one line", "''")),
        ((EDGES, "Alexanderplatz"), ("`question` must be a place and", "line")),
        ((EDGES, "Zoo | U2 west"), ("`question` must begin with a place", "'Zoo'")),
        ((EDGES, "Stadtmitte | S1"), ("`question` must have lines of", "'S1'")),
        ((EDGES, "Stadtmitte" + 9999 * " | S1"), ("`question`", "at most", "9999")),
    ],
)
def test_routes_that_are_refused(given, parts):
    refused(lambda: network("dnc_paths").answer(*given), *parts)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("", ("`text` must be a text with at least one character", "''")),
        ([], ("`text` must be a string or a list of at least one string", "[]")),
        (7, ("`text` must be a string or a list", "7")),
        (["4 May 1979", " "], ("`text[1]` must be a text", "' '")),
        ("4 Mai – 1979", ("`text` must consist of characters", "'–'")),
        ("4 May " * 10_000, ("`text` must have at most 36 characters", "59999")),
    ],
)
def test_dates_that_are_refused(text, parts):
    refused(lambda: network("seq2seq_dates").translate(text), *parts)


@pytest.mark.parametrize("count", [2, 9, 40])
def test_a_fact_is_remembered_while_others_move(count):
    model = network("memn2n_babi_joint")
    random = np.random.default_rng(count)
    right = 0
    for _ in range(20):
        who, *others = random.permutation(["Mary", "John", "Sandra", "Daniel"])
        place, *places = random.permutation(["garden", "kitchen", "hallway", "office"])
        story = [f"{who} moved to the {place}."]
        for _ in range(count):
            other, elsewhere = random.choice(others), random.choice(places)
            story.append(f"{other} went to the {elsewhere}.")
        right += model.answer(story, f"Where is {who}?") == place
    assert right >= 18


def test_a_story_of_unknown_words_is_refused():
    model = network("memnn_world")
    refused(
        lambda: model.answer(["Bilbo went to the shire."], "Where is Bilbo?"),
        "must consist of words that the network has learned",
        "'bilbo' in sentences[0]",
    )


@pytest.mark.parametrize(
    ("make", "parts"),
    [
        (
            lambda: presets.CharacterPreprocessor(None, dates.TARGET_VOCABULARY, 9, 9),
            ("`source_vocabulary` must be", "of characters", "None"),
        ),
        (
            lambda: presets.FactPreprocessor(None, ["year"], 9, 1, 9),
            ("`vocabulary` must be a `datasets.babi.Vocabulary`", "None"),
        ),
        (
            lambda: presets.FactPreprocessor(
                babi.Vocabulary([]), ["a b", "a_b"], 9, 1, 9
            ),
            ("`relations` must be different names", "a_b"),
        ),
        (lambda: presets.RoutePreprocessor(0, 1), ("`max_edges`", "max_edges=0")),
    ],
)
def test_wrong_preprocessors_are_refused(make, parts):
    refused(make, *parts)


@pytest.mark.parametrize("name", ["kvmemnn_world", "dnc_paths", "seq2seq_dates"])
def test_preprocessors_are_saved(name, tmp_path):
    tools = network(name).preprocessor
    tools.save_assets(tmp_path)
    again = type(tools).from_assets(tmp_path, tools.get_config())
    assert vars(again) == vars(tools)


@pytest.mark.parametrize("dtype", [None, "float16"])
def test_the_optimizer_is_not_stored(dtype, tmp_path):
    model = models.MemN2N(5, embedding_dim=3, hops=1, memory_size=4)
    model.compile("adam", "mse")
    model.optimizer.build(model.trainable_variables)
    model.save_weights(tmp_path / "all.weights.h5")
    model.save_to_preset(tmp_path / "mine", dtype)
    with h5py.File(tmp_path / "all.weights.h5") as file:
        assert "optimizer" in file
    with h5py.File(tmp_path / "mine" / "model.weights.h5") as file:
        assert "optimizer" not in file
    again = models.MemN2N.from_preset(tmp_path / "mine")
    for old, new in zip(model.get_weights(), again.get_weights(), strict=True):
        np.testing.assert_allclose(old, new, rtol=1e-3)
