"""Strings in and strings out: in Python, and from a SavedModel without this package."""

import json
import os
import pathlib
import sys

import keras
import numpy as np
import pytest
from calling import printed_by

pytest.importorskip("keras_hub", reason="the extra `text` is not installed")
pytest.importorskip("tensorflow_text", reason="the extra `text` is not installed")
from processes import environment
from text_worker import MOST, PAIRS, TEXTS, samplers

from keras_attention.datasets.translation import Vocabulary
from keras_attention.layers import PositionEmbedding
from keras_attention.models import CausalLM, Seq2Seq, Transformer, WordRNN
from keras_attention.samplers import BeamSampler, TopKSampler
from keras_attention.text import (
    Subwords,
    complete,
    export_completer,
    export_translator,
    translate,
)

WORKER = pathlib.Path(__file__).parent / "text_worker.py"
on_tensorflow = pytest.mark.skipif(
    keras.config.backend() != "tensorflow", reason="exports on TensorFlow alone"
)


def work(command, folder, *options, **more):
    printed_by(*options, WORKER, command, folder, env={**os.environ, **more})


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A folder with a model that JAX has trained, and what it translates there."""
    folder = tmp_path_factory.mktemp("translator")
    given = environment("jax", folder)
    work("train", folder, **given)
    return folder


def load(folder):
    languages = (Subwords.load(folder / f"{n}.spm") for n in ("english", "german"))
    return keras.saving.load_model(folder / "model.keras"), *languages


@pytest.fixture(scope="module")
def untrained():
    english = Subwords.from_sentences([source for source, _ in PAIRS], size=37)
    german = Subwords.from_sentences([target for _, target in PAIRS], size=37)
    keras.utils.set_random_seed(0)
    return Seq2Seq(37, 37, embedding_dim=5, units=7), english, german


@on_tensorflow
def test_saved_model_gives_what_generate_gives(trained):
    """Trained on JAX, exported on TensorFlow, run where this package is missing."""
    model, english, german = load(trained)
    expected = json.loads((trained / "trained.json").read_text("utf-8"))
    found = {}
    for name, sampler in samplers().items():
        found[name] = translate(model, english, german, TEXTS, sampler, MOST)
        path = trained / f"{name}.saved_model"
        export_translator(model, english, german, path, sampler, MOST)
    assert found == expected
    (trained / "texts.json").write_text(json.dumps(TEXTS), "utf-8")
    # Isolated: neither PYTHONPATH nor the folder it runs in is looked through.
    work("serve", trained, "-I")
    served = json.loads((trained / "served.json").read_text("utf-8"))
    assert served == {
        name: {"together": texts, "alone": texts, "none": []}
        for name, texts in expected.items()
    }
    assert len(set(expected["greedy"])) > len(TEXTS) // 2
    assert expected["greedy"] != expected["beam"]
    assert expected["greedy"][0] == PAIRS[0][1]


@on_tensorflow
def test_a_saved_model_serves_its_own_vocabularies(untrained, tmp_path):
    """Two translators in one process, both ways: names of tokenizers do not collide."""
    import tensorflow as tf

    model, english, german = untrained
    texts = [source for source, _ in PAIRS[:5]]
    served = {}
    for name, first, second in (("there", english, german), ("back", german, english)):
        export_translator(model, first, second, tmp_path / name, max_length=5)
        served[name] = tf.saved_model.load(str(tmp_path / name)), first, second
    for translator, first, second in served.values():
        found = [text.decode() for text in translator.serve(texts).numpy()]
        assert found == translate(model, first, second, texts, max_length=5)


@on_tensorflow
def test_a_transformer_is_exported(untrained, tmp_path):
    import tensorflow as tf

    _, english, german = untrained
    keras.utils.set_random_seed(1)
    small = {"num_layers": 1, "dim": 8, "num_heads": 2, "intermediate_dim": 5}
    model = Transformer(37, 37, **small, position=PositionEmbedding(41))
    export_translator(model, english, german, tmp_path / "one", BeamSampler(2), 7)
    served = tf.saved_model.load(str(tmp_path / "one"))
    texts = [*(source for source, _ in PAIRS[:3]), "", "the dog " * 5]
    found = [text.decode() for text in served.serve(texts).numpy()]
    assert found == translate(model, english, german, texts, BeamSampler(2), 7)
    with pytest.raises(tf.errors.InvalidArgumentError):  # beyond the positions
        served.serve(["the dog " * 19])


@on_tensorflow
@pytest.mark.parametrize("kind", ["causal_lm", "word_rnn"])
def test_a_completer_gives_what_complete_gives(untrained, tmp_path, kind):
    import tensorflow as tf

    english = untrained[1]
    keras.utils.set_random_seed(2)
    if kind == "causal_lm":
        small = {"num_layers": 1, "dim": 8, "num_heads": 2, "intermediate_dim": 5}
        model, sampler = CausalLM(37, **small, max_length=48), "greedy"
    else:
        model, sampler = WordRNN(37, embedding_dim=5, units=7), BeamSampler(2)
    export_completer(model, english, tmp_path / "one", sampler, 7)
    served = tf.saved_model.load(str(tmp_path / "one"))
    texts = ["a dog", "", "the fox runs in the", "Zoë"]
    expected = complete(model, english, texts, sampler, 7)
    found = [text.decode() for text in served.serve(texts).numpy()]
    assert found == expected
    assert expected[1] == ""
    assert expected[0].startswith("a dog")
    assert expected[0] != "a dog"
    alone = [served.serve([text]).numpy()[0].decode() for text in texts]
    assert alone == expected
    if kind == "causal_lm":
        with pytest.raises(
            tf.errors.InvalidArgumentError, match="at most 41 positions"
        ):
            served.serve(["the dog " * 19])
        with pytest.raises(ValueError, match="37, and vocabulary_size=11"):
            export_completer(WordRNN(11), english, tmp_path / "no")


@on_tensorflow
def test_a_saved_model_draws_anew(untrained, tmp_path):
    import tensorflow as tf

    export_translator(*untrained, tmp_path / "draws", TopKSampler(7, seed=1), 13)
    translator = tf.saved_model.load(str(tmp_path / "draws"))
    texts = [source for source, _ in PAIRS[:5]]
    one, two = (translator.serve(texts).numpy().tolist() for _ in range(2))
    assert one != two
    again = tf.saved_model.load(str(tmp_path / "draws"))
    assert again.serve(texts).numpy().tolist() == one


def test_translate_takes_words_too():
    english, german = (
        Vocabulary.from_sentences([pair[side] for pair in PAIRS]) for side in (0, 1)
    )
    texts = ["a dog sleeps", "", "the fox runs in the field ."]
    small = Seq2Seq(len(english), len(german), embedding_dim=5, units=7)
    found = translate(small, english, german, texts, max_length=7)
    assert found[1] == ""
    source = np.zeros((2, 7), "int32")
    for row, text in zip(source, (texts[0], texts[2])):
        ids = english.encode(text)
        row[: len(ids)] = ids
    tokens = small.generate(source, max_length=7)
    assert [found[0], found[2]] == [german.decode(row) for row in tokens]
    assert translate(small, english, german, ["", " "]) == ["", ""]
    assert translate(small, english, german, []) == []
    one, two = (
        translate(small, english, german, texts, "random", 7, seed=s) for s in (1, 1)
    )
    assert one == two
    with pytest.raises(ValueError, match="several texts, not one"):
        translate(small, english, german, "a dog sleeps")
    beams = BeamSampler(2, return_all_beams=True)
    with pytest.raises(ValueError, match="one sequence for each text"):
        translate(small, english, german, texts, beams)


@pytest.fixture(scope="module")
def fond_of_unknown(untrained):
    """A model that finds the unknown piece most probable at every step."""
    _, english, german = untrained
    model = Seq2Seq(37, 37, embedding_dim=5, units=7)
    model(model_inputs())
    for weight in model.weights:
        if weight.shape == (37,):  # the bias of the logits
            weight.assign(30.0 * np.eye(37)[1])
    return model, english, german


def model_inputs():
    return {"source": np.ones((1, 3), "int32"), "target": np.ones((1, 3), "int32")}


def test_the_unknown_piece_is_not_written(fond_of_unknown):
    model, english, german = fond_of_unknown
    texts = [source for source, _ in PAIRS[:5]]
    source = np.array([english.encode(text)[:5] for text in texts], "int32")
    tokens = np.asarray(model.generate(source, 7, "top_p"))
    assert (tokens == german.unknown_token_id).all()  # without a vocabulary
    found = translate(model, english, german, texts, "top_p", max_length=7)
    assert not any("⁇" in text for text in found)
    assert any(found)


@on_tensorflow
def test_a_saved_model_does_not_write_the_unknown_piece(fond_of_unknown, tmp_path):
    import tensorflow as tf

    texts = [source for source, _ in PAIRS[:5]]
    export_translator(*fond_of_unknown, tmp_path / "known", "beam", max_length=7)
    translator = tf.saved_model.load(str(tmp_path / "known"))
    found = [text.decode() for text in translator.serve(texts).numpy()]
    assert not any("⁇" in text for text in found)
    assert found == translate(*fond_of_unknown, texts, "beam", max_length=7)


def test_vocabularies_must_fit_the_model(untrained):
    _, english, german = untrained
    for sizes, message in (
        ((36, 37), "Received: 37, and source_vocabulary_size=36"),
        ((37, 41), "Received: 37, and target_vocabulary_size=41"),
    ):
        other = Seq2Seq(*sizes, embedding_dim=5, units=7)
        with pytest.raises(ValueError, match=message):
            translate(other, english, german, ["a dog"])


@on_tensorflow
def test_what_cannot_be_exported(untrained, tmp_path, monkeypatch):
    import keras_hub

    model, english, german = untrained
    words = Vocabulary.from_sentences(["a dog"])
    for vocabularies, more, message in (
        (
            (words, german),
            {},
            "`source_vocabulary` must be a .*<Vocabulary of 6 words>",
        ),
        ((english, words), {}, "`target_vocabulary` must be a "),
        ((english, german), {"max_length": 0}, "at least 1.* max_length=0"),
        ((english, german), {"max_length": 2.5}, "whole number. .* max_length=2.5"),
        ((english, german), {"sampler": "best"}, "Received: sampler='best'"),
        (
            (english, german),
            {"sampler": keras_hub.samplers.GreedySampler()},
            "must be one of `keras_attention.samplers`",
        ),
        (
            (english, german),
            {"sampler": BeamSampler(2, return_all_beams=True)},
            "one sequence for each text. Received: a BeamSampler",
        ),
    ):
        with pytest.raises(ValueError, match=message):
            export_translator(model, *vocabularies, tmp_path / "no", **more)
    other = Seq2Seq(37, 41, embedding_dim=5, units=7)
    with pytest.raises(ValueError, match="Received: 37, and target_vocabulary_size=41"):
        export_translator(other, english, german, tmp_path / "no")
    monkeypatch.setattr(keras.config, "backend", lambda: "jax")
    with pytest.raises(ValueError, match=r"load_model.*Received: the backend 'jax'"):
        export_translator(model, english, german, tmp_path / "no")
    assert not (tmp_path / "no").exists()


def test_a_missing_package_is_named(monkeypatch):
    for name in ("sentencepiece", "keras_hub"):
        with monkeypatch.context() as patch:
            patch.setitem(sys.modules, name, None)
            with pytest.raises(ImportError, match=rf"`{name}`.*family\[text\]"):
                Subwords.from_sentences(["a dog"])
