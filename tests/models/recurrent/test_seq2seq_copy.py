"""`Seq2Seq(copy=…)`: what it copies, its decoding, its strings and its errors."""

import keras
import numpy as np
import pytest
from calling import refused
from keras import ops
from writing import (
    START,
    STOP,
    B,
    assert_greedy_is_argmax,
    assert_one_beam_is_greedy,
    assert_scores_are_chances,
    attention_weights,
    sharper,
)

from keras_attention import presets, samplers
from keras_attention.datasets import translation
from keras_attention.layers import (
    BahdanauAttention,
    FastWeightAttention,
    MultiHeadAttention,
)
from keras_attention.models import Seq2Seq
from keras_attention.ops import normalizers
from keras_attention.text import Vocabulary

V, X, T = 8, 3, 9
SOURCE = np.array([[4, 8, 5, 9, 8], [9, 8, 0, 0, 0], [4, 5, 6, 7, 5]], "int32")
KINDS = {
    "coverage": lambda: BahdanauAttention(5, coverage=True),
    "luong": lambda: "luong",
    "heads": lambda: MultiHeadAttention(2, 3),
}


def make(kind="coverage", size=V, **arguments):
    keras.utils.set_random_seed(0)
    arguments = {"attention": KINDS[kind](), "copy": X, **arguments}
    return sharper(Seq2Seq(size, size, embedding_dim=4, units=6, **arguments), 2.5)


def always_copying(model):
    """Closes the gate, so that the model only copies."""
    (gate,) = (w for w in model.weights if w.path.endswith("generation_gate/bias"))
    gate.assign([-1000.0])
    return model


@pytest.mark.parametrize("kind", KINDS)
def test_decoding_is_that_of_teacher_forcing(kind):
    model = make(kind)
    _, logits = assert_greedy_is_argmax(model, T, source=SOURCE)
    assert logits.shape == (B, T, V + X)
    np.testing.assert_allclose(np.exp(logits).sum(-1), 1, rtol=1e-5)


@pytest.mark.backends("all")
def test_a_copying_decoder_reads_its_own_copies():
    model = always_copying(make())
    written, logits = assert_greedy_is_argmax(model, T, source=SOURCE)
    for row, source in zip(written, SOURCE):
        assert {*row} <= {*source[source > 0]}
    assert (written >= V).any()
    weights = attention_weights(
        model, source=SOURCE, target=np.full((B, T), START, "int32")
    )
    first = np.exp(logits[:, 0])
    np.testing.assert_allclose(first[0, 8], weights[0, 0, [1, 4]].sum(), rtol=1e-4)


@pytest.mark.slow  # beams and random samples of extra ids are only tested here
def test_beams_and_samples():
    model = make()
    assert_one_beam_is_greedy(model, T, source=SOURCE)
    assert_scores_are_chances(model, T, source=SOURCE)
    for seed in range(2):
        written = always_copying(model).generate(
            {"source": SOURCE}, T, "random", stop_token_ids=STOP, seed=seed
        )
        assert {*written[1]} <= {*SOURCE[1]}


def test_encoder_and_decoder_read_extra_ids_as_the_unknown_word():
    model = make()
    target = np.array([[START, 8, 10]] * B, "int32")
    extra = model.predict({"source": SOURCE, "target": target}, verbose=0)
    unknown = {"source": np.where(SOURCE < V, SOURCE, 1)}
    unknown["target"] = np.where(target < V, target, 1)
    plain = model.predict(unknown, verbose=0)
    words = [n for n in range(V) if n != 1]  # 1 is copied instead
    np.testing.assert_allclose(extra[..., words], plain[..., words], atol=1e-5)


def test_strings_go_in_and_come_out(tmp_path):
    vocabulary = Vocabulary(["meet", "on", "monday", "friday"], lowercase=False)
    model = always_copying(make(size=len(vocabulary), copy=True))
    model.preprocessor = presets.TranslationPreprocessor(vocabulary, vocabulary, 16)
    texts = ["meet Okonkwo", "Adeyemi on friday"]
    written = model.translate(texts, max_length=7)
    for text, answer in zip(texts, written):
        assert {*answer.lower().split()} <= {*text.lower().split()}
    assert any("Okonkwo" in w or "Adeyemi" in w for w in written)
    scored = model.translate(texts, max_length=7, return_scores=True)
    assert [text for text, _ in scored] == written
    assert all(0 < score <= 1 for _, score in scored)
    model.save_to_preset(tmp_path / "copies")
    again = Seq2Seq.from_preset(tmp_path / "copies")
    assert again.translate(texts, max_length=7) == written


def test_pairs_and_their_extended_ids():
    pairs = [("Bo met Al on Monday", "Monday Al Bo"), ("Cy met Di", "Di met Ed")]
    vocabulary = Vocabulary(["met", "on", "monday"])
    inputs, labels = translation.vectorize(pairs, vocabulary, vocabulary, extra_ids=2)
    # Al is the second unknown word of its source; Ed is in no source.
    assert inputs["source"].tolist() == [[7, 4, 8, 5, 6], [7, 4, 8, 0, 0]]
    assert labels.tolist() == [[6, 8, 7, 3], [8, 4, 1, 3]]
    extended = vocabulary.extended("Bo met Al on Monday", 1)
    assert len(extended) == 8
    assert "al" not in extended
    assert extended.decode([7, 4, 1, 3]) == "bo met <unk>"
    assert len(vocabulary) == 7  # unchanged
    other = Vocabulary(["met"])
    refused(
        lambda: translation.vectorize(pairs, vocabulary, other, extra_ids=2),
        "must be the same `Vocabulary`",
        "target_vocabulary=<Vocabulary of 5 words>",
    )


@pytest.mark.slow
def test_it_learns_to_copy():
    """Training lowers the loss of labels that can only be copied."""
    if keras.config.backend() == "numpy":
        pytest.skip("NumPy does not train")
    model = make()
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True, ignore_class=0)
    model.compile(keras.optimizers.Adam(0.02), loss)
    labels = np.array([[8, 9, 3], [8, 9, 3], [6, 3, 0]])
    target = np.array([[START, 8, 9], [START, 8, 9], [START, 6, 0]])
    inputs = {"source": SOURCE, "target": target}
    losses = model.fit(inputs, labels, epochs=12, verbose=0).history["loss"]
    assert losses[-1] < 0.7 * losses[0] < 50


class Unreadable(keras.layers.Layer):
    """An attention layer that cannot return its weights."""

    def call(self, query, value, key=None, attention_mask=None):
        return ops.matmul(ops.ones_like(query[..., :1]), value[:, :1])


def test_what_is_refused():
    def model(target=V, **arguments):
        return lambda: Seq2Seq(V, target, 4, 6, **{"copy": True, **arguments})

    refused(model(target=9), "`copy` needs one vocabulary", "target_vocabulary_size=9")
    refused(model(attention=None), "`copy` needs an attention layer", "attention=None")
    refused(model(sampling_probability=0.5), "`sampling_probability=0`", "=0.5")
    refused(model(copy=-1), "`copy` must be at least 1", "-1")
    refused(model(attention=Unreadable()), "attention layer that returns its weights")
    linear = BahdanauAttention(5, normalizer=normalizers.linear)
    for signed in (FastWeightAttention(1, 4), linear):
        refused(model(attention=signed), "none of them negative")
    with pytest.raises(ValueError, match=r"`extra_ids` must be a whole number.*True"):
        Vocabulary(["a"]).extended("b c", True)
    copies = make()
    refused(
        lambda: copies.generate({"source": SOURCE + 3}, T),
        f"`source` must hold ids of at least 0 and below {V + X}",
    )
    assert make(copy=True).extra_ids == 16


def test_negative_weights_cover_nothing():
    sampler = samplers.BeamSampler(2, coverage_penalty=0.2)
    linear = BahdanauAttention(5, normalizer="linear")
    for signed in (FastWeightAttention(1, 4), linear):
        model = Seq2Seq(V, V, 4, 6, attention=signed)
        refused(
            lambda model=model: model.generate({"source": SOURCE % V}, T, sampler),
            "or if its weights can be negative",
            f"attention=<{type(signed).__name__} name={signed.name}",
        )
    model = Seq2Seq(V, V, 4, 6, attention=FastWeightAttention(1, 4, rule="linear"))
    assert model.generate({"source": SOURCE % V}, T, sampler).shape == (len(SOURCE), T)
