"""Answers with scores and attention, of one text or several, and what is flagged."""

import inspect
import itertools
import warnings

import keras
import numpy as np
import pytest
from calling import refused
from small_networks import WORDS, captioner, classifier, facts, small_networks

import keras_attention
from keras_attention import models, presets
from keras_attention.datasets import babi
from keras_attention.presets import UntrainedInputWarning
from keras_attention.presets.preprocessors import running

STORY = ["John got the apple there.", "John went to the hallway.", "Mary moved there."]
EDGES = ["A | 1 | B", "B | 1 | C", "C | 2 | A"]
FACTS = ["Ida | taught_by | Bo", "Bo | year | 1932", "Ida | year | 1950"]
IGNORED = "ignore::keras_attention.user_warnings.UntrainedInputWarning"
pytestmark = pytest.mark.filterwarnings(IGNORED)


@pytest.fixture(scope="module")
def networks():
    keras.utils.set_random_seed(0)
    made = {"facts": facts(), "classifier": classifier(), "captioner": captioner()}
    return {**small_networks(), **made}


# The name of a network, and a call of its method for one text or a list of two.
CALLS = {
    "memn2n_babi_joint": (
        lambda m, x, **k: m.answer(STORY, x, **k),
        ["Where is John?", "Where is Mary?"],
    ),
    "facts": (
        lambda m, x, **k: m.answer(FACTS, x, **k),
        ["Who taught Ida?", "When Bo?"],
    ),
    "dnc_paths": (
        lambda m, x, **k: m.answer(EDGES, x, **k),
        ["A | 1", ("B", "1", "2")],
    ),
    "transformer_nl_en": (
        lambda m, x, **k: m.translate(x, max_length=5, **k),
        ["Ik heb een hond.", "mijn huis"],
    ),
    "seq2seq_dates": (lambda m, x, **k: m.translate(x, **k), ["4 May", "1979"]),
    "causal_lm_tatoeba": (
        lambda m, x, **k: m.complete(x, max_length=5, **k),
        ["the garden", "she"],
    ),
    "masked_lm_tatoeba": (
        lambda m, x, **k: m.fill(x, **k),
        ["the ___", "___ is big ."],
    ),
    "classifier": (lambda m, x, **k: m.classify(x, **k), ["the garden", "is"]),
    "skip_gram_tatoeba": (lambda m, x, **k: m.nearest(x, 3, **k), ["dog", "house"]),
    "captioner": (
        lambda m, x, **k: m.caption(np.array(x), **k),
        [np.zeros((8, 8)), np.ones((8, 8))],
    ),
}


def flat(answers):
    """Returns the texts and the scores in answers, each in order."""
    leaves = keras.tree.flatten(answers)
    texts = [leaf for leaf in leaves if isinstance(leaf, str)]
    return texts, np.array([leaf for leaf in leaves if isinstance(leaf, float)])


@pytest.mark.parametrize("name", CALLS)
def test_one_or_several_with_and_without_scores(name, networks):
    call, given = CALLS[name]
    model = networks[name]
    always = name in ("masked_lm_tatoeba", "classifier", "skip_gram_tatoeba")
    wanted = {} if always else {"return_scores": True}
    scored = [call(model, x, **wanted) for x in given]
    texts, scores = flat(scored)
    assert len(texts) == len(scores)
    assert (scores <= 1).all()
    if name != "skip_gram_tatoeba":  # cosines
        assert (scores > 0).all()
    together = flat(call(model, given, **wanted))
    assert together[0] == texts
    np.testing.assert_allclose(together[1], scores, atol=1e-6)
    if not always:
        plain = flat(call(model, given))
        assert plain[0] == texts
        assert not len(plain[1])


def test_an_empty_list_is_refused(networks):
    for name, (call, _) in CALLS.items():
        if name != "captioner":
            refused(lambda c=call, n=name: c(networks[n], []), "[]")


@pytest.mark.parametrize("name", [name for name in CALLS if name != "captioner"])
def test_several_are_any_iterable(name, networks):
    call, given = CALLS[name]
    expected = call(networks[name], given)
    assert call(networks[name], (x for x in given)) == expected
    if "answer" not in inspect.getsource(call):  # a tuple is a route
        assert call(networks[name], tuple(given)) == expected
        assert call(networks[name], np.array(given)) == expected


def test_a_list_of_names_is_no_route(networks):
    ask = networks["dnc_paths"].answer
    refused(lambda: ask(EDGES, ["A", "1"]), "a list is several questions", "'A'")


def test_a_score_is_the_probability_of_the_tokens(networks):
    model = networks["transformer_nl_en"]
    tools = model.preprocessor
    source = tools.encode("Ik heb een hond.")["source"]
    tokens = model.generate({"source": source}, 4)  # may write padding
    inputs = {"source": source}
    ((text, score),) = running.scored(["x"], model, inputs, [[2]], tokens)
    assert text == "x"
    tokens = tokens[:, : max(1, np.count_nonzero(tokens))]
    read = np.concatenate([[[2]], tokens[:, :-1]], 1)
    logits = keras.ops.convert_to_numpy(model({"source": source, "target": read}))
    shares = running.probabilities(logits)[0]
    expected = np.exp(np.log(shares[range(tokens.size), tokens[0]]).mean())
    assert score == pytest.approx(expected, abs=1e-6)


def test_attention_has_a_row_for_each_hop_and_a_column_for_each_sentence(networks):
    model = networks["memn2n_babi_joint"]
    asked = "Where is John?"
    answer, score, hops = model.answer(STORY, asked, True, True)
    with keras_attention.record_attention() as maps:
        model(model.preprocessor.encode(STORY, asked))
    expected = np.stack([weights[0, : len(STORY)] for weights in maps.values()])
    np.testing.assert_allclose(hops, expected, atol=1e-6)
    assert (answer, score) == model.answer(STORY, asked, return_scores=True)
    assert "hop 1" in keras_attention.visualization.hops_table(hops, STORY)
    with pytest.warns(UserWarning, match="memory_size=12"):
        _, hops = model.answer(STORY * 5, asked, return_attention=True)
    assert hops.shape == (3, 15)
    assert not hops[:, :3].any()  # the memory has 12 slots
    assert hops[:, 3:].all()


def test_attention_to_facts_has_the_order_of_the_user(networks):
    model = networks["facts"]
    _, hops = model.answer(FACTS, "Who taught Ida?", return_attention=True)
    knowledge = model.preprocessor.knowledge(FACTS)
    assert hops.shape == (2, 3)
    inputs = model.preprocessor.encode(FACTS, "Who taught Ida?")
    with keras_attention.record_attention() as maps:
        model(inputs)
    weights = np.stack([w[0] for w in maps.values()])
    slots, _ = knowledge.around("Ida", 2, 4)
    names = [(knowledge.entities[k], knowledge.entities[v]) for k, _, v in slots]
    for i, (start, end) in enumerate([("Ida", "Bo"), ("Bo", "1932"), ("Ida", "1950")]):
        column = weights[:, names.index((start, end))]
        np.testing.assert_allclose(hops[:, i], column, atol=1e-6)


def test_attention_of_other_readers(networks):
    model = models.MemNN(30, embedding_dim=4, supports=2)
    vocabulary = networks["memn2n_babi_joint"].preprocessor.vocabulary
    model.preprocessor = presets.StoryPreprocessor(vocabulary, 12, 8)
    asked = "Where is John?"
    _, hops = model.answer(STORY, asked, return_attention=True)
    outputs = model(model.preprocessor.encode(STORY, asked))
    found = keras.ops.convert_to_numpy(outputs["found"])[0]
    assert hops.argmax(1).tolist() == found.tolist()
    np.testing.assert_array_equal(hops.sum(1), 1)
    model = networks["dnc_paths"]
    _, trace = model.answer(EDGES, "A | 1", return_attention=True)
    assert trace.write_weights.shape[1] == 16


@pytest.mark.backends("all")
@pytest.mark.parametrize("name", ["classifier", "masked_lm_tatoeba"])
def test_texts_of_all_lengths_have_few_shapes_and_the_same_numbers(
    name, networks, monkeypatch
):
    model = networks[name]
    shapes = set()
    predict = type(model).predict_on_batch

    def counted(self, inputs):
        shapes.add(inputs["tokens"].shape)
        return predict(self, inputs)

    monkeypatch.setattr(type(model), "predict_on_batch", counted)
    words = list(itertools.islice(itertools.cycle(WORDS), 20))
    first = ["___"] if name == "masked_lm_tatoeba" else []
    monkeypatch.setattr(model.preprocessor, "max_words", 40)
    for length in range(1, 21):
        inputs = model.preprocessor.encode(" ".join(first + words[:length]))
        outputs = running.run(model, inputs)
        if length % 7 == 1:
            expected = keras.ops.convert_to_numpy(model(inputs, training=False))
            np.testing.assert_allclose(outputs, expected, atol=1e-6)
    assert len(shapes) == 2


def test_learned_positions_limit_the_padding():
    model = models.TransformerClassifier(
        9, 2, 1, 8, 2, 8, position="learned", max_length=19
    )
    outputs = running.run(model, {"tokens": np.ones((1, 18), "int32")})
    assert outputs.shape == (1, 2)


# A call that is flagged, and what the warning says. Each is one line of this file.
FLAGGED = {
    "unknown words": ("transformer_nl_en", "words that the network has not learned"),
    "a long story": ("memn2n_babi_joint", "memory_size=12 sentences"),
    "another question": ("memn2n_babi_joint", "no question of this form: who is john"),
    "not in the story": ("memn2n_babi_joint", "does not mention daniel"),
    "more sentences": ("memn2n_babi_joint", "has 6 sentences.* at most 3"),
    "an unsure answer": (
        "memn2n_babi_joint",
        "is unsure of .*: its score is below 0.99",
    ),
    "a wrong route": ("dnc_paths", "1 leads from A to B|3 does not leave A"),
    "no date": ("seq2seq_dates", "no such date"),
}


@pytest.mark.parametrize("kind", FLAGGED)
def test_flags_name_the_line_of_the_user(kind, networks, monkeypatch):
    name, said = FLAGGED[kind]
    model = networks[name]
    tools = model.preprocessor
    examples = babi.parse("1 John ran\n2 Mary sat\n3 Mary sat\n4 Where is John?\tx\n")
    examples += babi.parse("1 Mary ran\n2 Where is Mary?\tx\n")
    examples += babi.parse("1 Daniel ran\n2 Where is Daniel?\tx\n")
    if kind in ("another question", "not in the story", "more sentences"):
        monkeypatch.setattr(tools, "questions", babi.question_forms(examples))
    if kind == "an unsure answer":
        monkeypatch.setattr(tools, "min_score", 0.99)
    if kind == "no date":
        monkeypatch.setattr(tools, "writes", "date")
    calls = {
        "unknown words": lambda: model.translate(["ik heb", "mijn zqxv"], max_length=2),
        "a long story": lambda: model.answer(STORY * 5, "Where is John?"),
        "another question": lambda: model.answer(STORY, ["Who is John?"]),
        "not in the story": lambda: model.answer(STORY, "Where is Daniel?"),
        "more sentences": lambda: model.answer(STORY * 2, "Where is John?"),
        "an unsure answer": lambda: model.answer(STORY, "Where is John?"),
        "a wrong route": lambda: model.answer(["A|1|B", "B|3|C"], "A | 3"),
        "no date": lambda: model.translate("May"),
    }
    if kind == "another question":
        vocabulary = babi.Vocabulary(["who", *tools.vocabulary.words[2:]][:-1])
        monkeypatch.setattr(tools, "vocabulary", vocabulary)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", UserWarning)
        calls[kind]()
    messages = [str(warning.message) for warning in caught]
    assert len(caught) == 1, messages
    with pytest.warns(UserWarning, match=said):
        warnings.warn(messages[0], stacklevel=1)
    _, first = inspect.getsourcelines(calls[kind])
    assert caught[0].filename == __file__
    assert caught[0].lineno == first
    if kind != "a long story":
        assert issubclass(caught[0].category, UntrainedInputWarning)


def test_what_training_had_is_not_flagged(networks, monkeypatch):
    tools = networks["memn2n_babi_joint"].preprocessor
    text = "1 John ran\n2 Where is John?\tx\n1 Mary sat\n2 Where is Mary?\tx\n"
    monkeypatch.setattr(tools, "questions", babi.question_forms(babi.parse(text)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tools.encode(["John went"], "where is john")


def test_folders_of_before_load_and_new_ones_come_back(networks, tmp_path):
    """An older preprocessor.json has neither forms nor a score."""
    model = networks["memn2n_babi_joint"]
    tools = model.preprocessor
    config = {"memory_size": 12, "sentence_length": 8}
    tools.save_assets(tmp_path)
    old = presets.StoryPreprocessor.from_assets(tmp_path, config)
    assert (old.questions, old.min_score) == ((), 0.0)
    forms = babi.question_forms(babi.parse("1 John ran\n2 Where is John?\tx\n"))
    made = presets.StoryPreprocessor(tools.vocabulary, 12, 8, (), forms, 0.25)
    model.preprocessor = made
    model.save_to_preset(tmp_path / "new")
    model.preprocessor = tools
    again = models.MemN2N.from_preset(tmp_path / "new").preprocessor
    assert again.get_config() == made.get_config()
    assert [*again.questions] == forms


def test_a_preprocessor_of_the_user_may_lack_the_options():
    class Mine(presets.Preprocessor):
        def answer(self, model, sentences, question):
            return question.upper()

        def encode(self, question):
            return question.encode()

    model = models.MemN2N(5)
    model.preprocessor = Mine()
    assert model.answer(STORY, ["a", "b"]) == ["A", "B"]
    with pytest.raises(TypeError, match="return_scores"):
        model.answer(STORY, "a", return_scores=True)
