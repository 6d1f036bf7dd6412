"""MemNN: what it learns, what it is taught by, and what it keeps of it."""

import keras
import numpy as np
import pytest
from calling import needs_data, needs_training

from keras_attention.datasets import babi
from keras_attention.losses import SupportingFactLoss
from keras_attention.models import MemNN

B, M, L, K, WORDS = 4, 5, 3, 2, 17


def random_inputs():
    rng = np.random.default_rng(0)
    facts = np.stack([rng.permutation(M)[:K] for _ in range(B)]).astype("int32")
    x = {
        "story": rng.integers(1, WORDS, (B, M, L)).astype("int32"),
        "question": rng.integers(1, WORDS, (B, L)).astype("int32"),
        "supporting_facts": facts,
    }
    return x, {"facts": facts, "answer": rng.integers(0, WORDS, B)}


def compiled(model, rate=0.01):
    loss = SupportingFactLoss(0.1)
    model.compile(keras.optimizers.Adam(rate), {"facts": loss, "answer": loss})
    return model


def arrays(examples, vocabulary, slots):
    vectors = babi.vectorize(examples, vocabulary, slots, 7)
    facts = np.full((len(examples), K), -1, "int32")
    for row, example in zip(facts, examples):
        row[: len(example.supporting_facts)] = example.supporting_facts
    return vectors.inputs, facts, vectors.answers


def teach(model, examples, vocabulary):
    x, facts, answers = arrays(examples, vocabulary, 24)
    targets = {"facts": facts, "answer": answers}
    model.fit({**x, "supporting_facts": facts}, targets, epochs=12, verbose=0)


def short(examples, slots=24):
    return [example for example in examples if len(example.story) <= slots]


@pytest.mark.release
@needs_training
@pytest.mark.parametrize("adaptive", [False, True])
def test_two_supporting_facts_are_learned(adaptive):
    """The simulated task 2, with task 1 where the number of facts may vary."""
    train, test = (short(babi.simulate(2, n, seed=n)) for n in (700, 200))
    if adaptive:
        train += short(babi.simulate(1, 200, seed=1))
        test += short(babi.simulate(1, 100, seed=2))
    vocabulary = babi.Vocabulary.from_examples(train + test)
    keras.utils.set_random_seed(1)
    model = MemNN(len(vocabulary), 20, supports=K, adaptive=adaptive)
    teach(compiled(model, 0.02), train, vocabulary)
    x, facts, answers = arrays(test, vocabulary, 24)
    found = model.predict(x, batch_size=100, verbose=0)
    assert (found["answer"].argmax(-1) == answers).mean() > 0.95
    assert (found["found"] == facts).all(-1).mean() > 0.95


@needs_training
def test_a_fact_that_is_not_there_teaches_nothing():
    """Where the number of facts is fixed, −1 and an empty slot cost nothing."""
    keras.utils.set_random_seed(0)
    x, y = random_inputs()
    x["story"][:, -1] = 0
    facts = np.array([[0, -1], [0, -1], [1, M - 1], [2, 0]], "int32")
    x, y = {**x, "supporting_facts": facts}, {**y, "facts": facts}
    model = compiled(MemNN(WORDS, 6, supports=K))
    history = model.fit(x, y, verbose=0, epochs=2, shuffle=False).history
    assert np.isfinite(history["loss"]).all()
    assert all(np.isfinite(w).all() for w in model.get_weights())


def fitted(x, y, adaptive):
    """The weights after steps on a generator, whose arrays nobody can check ahead."""
    keras.utils.set_random_seed(0)
    model = compiled(MemNN(WORDS, 6, supports=K, adaptive=adaptive))
    batches = ((x, y) for _ in range(2))
    found = model.fit(batches, verbose=0, steps_per_epoch=2, shuffle=False)
    assert np.isfinite(found.history["loss"]).all()
    return [np.array(keras.ops.convert_to_numpy(w.value)) for w in model.weights]


@needs_training
@pytest.mark.parametrize("adaptive", [False, True])
def test_a_fact_past_the_story_counts_as_none(adaptive):
    x, y = random_inputs()
    wrong = np.array([[0, M + 1], [2, 999], [-7, 1], [M + 3, 2]], "int32")
    right = np.where(wrong > M, -1, wrong)
    right[2, 0] = -1
    found = fitted({**x, "supporting_facts": wrong}, {**y, "facts": wrong}, adaptive)
    # As targets they cost nothing, where −1 teaches an adaptive model to stop.
    expected = fitted({**x, "supporting_facts": right}, {**y, "facts": wrong}, adaptive)
    for ours, theirs in zip(found, expected):
        assert np.isfinite(ours).all()
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)


@needs_training
def test_a_label_that_is_no_class_costs_nothing():
    rng = np.random.default_rng(0)
    loss = SupportingFactLoss(2.0, reduction="none")

    def costs(labels, scores):
        return keras.ops.convert_to_numpy(loss(np.array(labels), scores)).tolist()

    words = rng.normal(size=(3, 5)).astype("float32")
    alone = costs([2, 0, 0], words)[0]
    assert costs([2, 5, -1], words) == [alone, 0, 0]
    hops = rng.normal(size=(4, 3, 5)).astype("float32")
    hops[1:] = hops[0]
    one, two, end = costs([[2, 9, 1], [2, 3, 9], [2, -1, 1], [9, 2, -1]], hops)[:3]
    first, second, last = (
        costs([label], hops[0, hop][None])[0] for hop, label in ((0, 2), (1, 3), (1, 4))
    )
    assert one == pytest.approx(first)
    assert two == pytest.approx(first + second)
    assert end == pytest.approx(first + last)
    assert costs([[9, 2, -1]] * 4, hops) == [0] * 4


@needs_training
def test_facts_in_arrays_are_slots_of_the_story():
    x, y = random_inputs()
    model = compiled(MemNN(WORDS, 6, supports=K))
    for fact in (M, -2):
        wrong = x["supporting_facts"].copy()
        wrong[3, 1] = fact
        message = (
            r"`supporting_facts` must be slots of the story, from 0 to 4, or −1 .*"
            rf"Received: supporting_facts\[3, 1\]={fact}"
        )
        bad = {**x, "supporting_facts": wrong}
        with pytest.raises(ValueError, match=message):
            model.fit(bad, y, verbose=0)
        with pytest.raises(ValueError, match=message):
            model.train_on_batch(bad, y)
        with pytest.raises(ValueError, match=message):
            model(bad, training=True)
        found = model.predict(bad, verbose=0)  # which does not go by them
        np.testing.assert_array_equal(
            found["found"], model.predict(x, verbose=0)["found"]
        )


@needs_training
def test_every_weight_is_taught_by_facts_and_answers():
    x, y = random_inputs()
    model = MemNN(WORDS, 7, ngrams=2, buckets=53, nonlinear=True, hop_versions=True)
    loss = SupportingFactLoss(9.0)
    model.compile(keras.optimizers.SGD(0.1), {"facts": loss, "answer": loss})
    before = [np.array(keras.ops.convert_to_numpy(w.value)) for w in model.weights]
    model.fit(x, y, verbose=0)
    for weight, old in zip(model.weights, before):
        new = keras.ops.convert_to_numpy(weight.value)
        assert np.isfinite(new).all(), weight.path
        assert not np.array_equal(new, old), f"{weight.path} did not move"
    # A sample of weight 0 teaches nothing.
    before = [np.array(keras.ops.convert_to_numpy(w.value)) for w in model.weights]
    model.fit(x, y, sample_weight=np.zeros(B), verbose=0)
    for weight, old in zip(model.weights, before):
        np.testing.assert_array_equal(keras.ops.convert_to_numpy(weight.value), old)


@needs_training
def test_metrics_and_evaluation_without_the_facts():
    """`evaluate` goes by the facts found, given or not."""
    x, y = random_inputs()
    y["found"] = y["facts"]  # Keras' metrics want a target for each output
    model = MemNN(WORDS, 7, adaptive=True)
    loss = SupportingFactLoss(0.1)
    model.compile(
        "adam",
        {"facts": loss, "answer": loss},
        metrics={"answer": "accuracy", "found": keras.metrics.Accuracy()},
    )
    history = model.fit(x, y, verbose=0).history
    assert history["found_accuracy"] == [1.0]  # those given
    given = model.evaluate(x, y, verbose=0, return_dict=True)
    del x["supporting_facts"]
    alone = model.evaluate(x, y, verbose=0, return_dict=True)
    assert given.keys() == alone.keys()
    for name, value in alone.items():
        assert float(value) == pytest.approx(float(given[name])), name
        assert np.isfinite(float(value)), name
    model.fit(x, y, verbose=0)  # without the facts, it trains on those it finds


def test_saved_with_all_outputs(tmp_path):
    x, _ = random_inputs()
    model = MemNN(WORDS, 7, supports=K, adaptive=True, ngrams=2, buckets=53)
    expected = model.predict(x, verbose=0)
    assert {name: a.shape for name, a in expected.items()} == {
        "facts": (B, K, M + 1),
        "found": (B, K),
        "answer": (B, WORDS),
    }
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    assert type(again) is MemNN
    assert [again.get_layer(part).name for part in "IGOR"] == list("IGOR")
    del x["supporting_facts"]
    for name, found in again.predict(x, verbose=0).items():
        np.testing.assert_allclose(found, expected[name], rtol=1e-6, atol=1e-6)


def test_evidence_is_the_question_and_the_facts_found():
    x, _ = random_inputs()
    x["story"][:, :, 2] = 0
    x["question"][0, 1:] = 0
    x["supporting_facts"][1, 1] = -1
    model = MemNN(WORDS, 7, supports=K)

    def words(facts):
        for b in range(B):
            told = [x["story"][b, fact] for fact in facts[b] if fact >= 0]
            row = [w for text in (x["question"][b], *told) for w in text.tolist() if w]
            yield row + [0] * (L + K * L - len(row))

    given = model.evidence(x)
    assert given.tolist() == [*words(x["supporting_facts"])]
    found = model.predict(x, verbose=0)["found"]
    del x["supporting_facts"]
    assert model.evidence(x, batch_size=2).tolist() == [*words(found)]
    with pytest.raises(ValueError, match="`supporting_facts` must be slots of the st"):
        model.evidence({**x, "supporting_facts": np.full((B, K), M)})


def test_what_depends_on_the_question_cannot_be_stored():
    facts = np.array([[1, 2]])
    for more in ({"new_words": 2}, {"exact_match": True}):
        with pytest.raises(ValueError, match="features of words and n-grams only"):
            MemNN(WORDS, 3, **more).remember(facts)


@pytest.mark.release
@needs_training
def test_new_names_are_found_and_answered():
    """Names and rooms of the test are in no story of the training."""
    train, test = (short(babi.simulate(1, n, seed=n)) for n in (500, 150))
    known = babi.Vocabulary.from_examples(train)
    names = {"mary": "zoe", "john": "bo", "sandra": "al", "daniel": "cy"}
    rooms = {"kitchen": "hut", "office": "den", "garden": "bay", "hallway": "inn"}
    names |= rooms | {"bedroom": "pub", "bathroom": "bar"}
    new = [babi.renamed(example, names) for example in test]
    new = babi.number_new_words(new, known, 12)
    vocabulary = babi.with_new_words(known, 12)
    keras.utils.set_random_seed(1)
    model = MemNN(len(known), 20, supports=1, new_words=12, exact_match=True)
    compiled(model, 0.02)
    x, facts, answers = arrays(train, vocabulary, 12)
    dropout = babi.WordDropout(len(known), 12, rate=0.3, seed=1)
    for _ in range(5):
        story, question, answer = dropout(x["story"], x["question"], answers)
        told = {"story": story, "question": question, "supporting_facts": facts[:, :1]}
        model.fit(told, {"facts": facts[:, :1], "answer": answer}, verbose=0)
    for examples in (test, new):
        x, facts, answers = arrays(examples, vocabulary, 12)
        found = model.predict(x, batch_size=150, verbose=0)
        assert (found["answer"].argmax(-1) == answers).mean() > 0.95
        assert (found["found"] == facts[:, :1]).mean() > 0.95


def test_time_tells_facts_of_the_same_words_apart():
    """The third feature of time alone says which of two equal facts is taken."""
    model = MemNN(WORDS, 7, supports=1)
    finder = model.get_layer("O")
    story = np.array([[[3, 4, 5], [3, 4, 5], [0, 0, 0], [3, 4, 5], [0, 0, 0]]])
    x = {"story": story, "question": np.array([[6, 1, 2]])}
    query = keras.ops.convert_to_numpy(finder.question(x["question"]))[0]
    kernel = finder.times.weights[0]
    for sign, slot in ((1, 0), (-1, 3)):
        weights = np.zeros((7, 3))
        weights[:, 2] = sign * query  # "y older than y′" is worth sign · ‖query‖²
        kernel.assign(weights)
        assert model.predict(x, verbose=0)["found"].tolist() == [[slot]]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"vocabulary_size": 0}, "`vocabulary_size` must be at least 1"),
        ({"hops": 3}, "`MemNN` has no such argument. Received: hops=3"),
        ({"embedding_dim": 0}, "`embedding_dim` must be at least 1"),
        ({"supports": 0}, "`supports` must be at least 1. Received: supports=0"),
        ({"ngrams": 0}, "`ngrams` must be at least 1"),
        (
            {"new_words": None},
            "`new_words` must be a whole number.*=None",
        ),
        ({"new_words": 0.0}, "`new_words` must be a whole number"),
        ({"new_words": -1}, "`new_words` must be at least 0"),
    ],
)
def test_bad_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        MemNN(**{"vocabulary_size": WORDS, **arguments})


@pytest.mark.slow
@needs_training
@needs_data
def test_yes_or_no_on_the_real_task():
    """Task 6 wants the nonlinear R: a sum of scores cannot say whether two agree."""
    train, test = (short(babi.load(6, split)) for split in ("train", "test"))
    vocabulary = babi.Vocabulary.from_examples(train + test)
    keras.utils.set_random_seed(0)
    model = MemNN(len(vocabulary), 50, supports=K, adaptive=True, nonlinear=True)
    teach(compiled(model), train, vocabulary)
    x, _, answers = arrays(test, vocabulary, 24)
    found = model.predict(x, batch_size=200, verbose=0)
    assert (found["answer"].argmax(-1) == answers).mean() > 0.95
