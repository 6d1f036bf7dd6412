"""Words outside a vocabulary: their numbers, and known words that get such numbers."""

import numpy as np
import pytest

from keras_attention.datasets import babi

EXAMPLE = babi.Example(
    1,
    (("mary", "went", "to", "the", "glade"), ("zoe", "left", "the", "glade")),
    ("where", "is", "zoe"),
    "glade",
    (0,),
)
KNOWN = babi.Vocabulary(["is", "left", "mary", "the", "to", "went", "where"])


def test_new_words_are_numbered_in_each_example():
    vocabulary = babi.with_new_words(KNOWN, 3)
    assert babi.new_words_of(EXAMPLE, KNOWN) == ("glade", "zoe")
    (told,) = babi.number_new_words([EXAMPLE], KNOWN, 3)
    assert told.story[1] == ("<new-2>", "left", "the", "<new-1>")
    assert (told.question, told.answer) == (("where", "is", "<new-2>"), "<new-1>")
    vectors = babi.vectorize([told], vocabulary, 2)
    assert vectors.answers.tolist() == [len(KNOWN)]
    assert vectors.inputs["story"].max() == len(KNOWN) + 1 == len(vocabulary) - 2
    # An answer that does not occur has no number.
    strange = babi.renamed(EXAMPLE, {"glade": "mary"})
    other = babi.Example(1, strange.story, strange.question, "far")
    assert babi.number_new_words([other], KNOWN, 3)[0].answer == "far"


def test_dropped_words_are_replaced_everywhere_by_numbers_of_their_own():
    examples = babi.simulate(1, 400, seed=1)
    vocabulary = babi.Vocabulary.from_examples(examples)
    vectors = babi.vectorize(examples, vocabulary, 10)
    story, question = (vectors.inputs[name] for name in ("story", "question"))
    size, new_words = len(vocabulary), 16
    dropout = babi.WordDropout(size, new_words, rate=0.4, seed=5)
    after = dropout(story, question, vectors.answers)
    assert [x.dtype for x in after] == [np.int32] * 3
    dropped = words = 0
    numbers = set()
    for b in range(len(examples)):
        old = [*story[b].ravel(), *question[b], vectors.answers[b]]
        new = [*after[0][b].ravel(), *after[1][b], after[2][b]]
        pairs = set(zip(old, new))
        # One to one: each word has one number, and each number one word.
        assert len(pairs) == len({o for o, _ in pairs}) == len({n for _, n in pairs})
        assert all(o == n or (o > 1 and size <= n < size + new_words) for o, n in pairs)
        dropped += sum(o != n for o, n in pairs)
        words += sum(o > 1 for o, _ in pairs)
        numbers |= {n for o, n in pairs if o != n}
    assert dropped / words == pytest.approx(0.4, abs=0.03)
    assert numbers == set(range(size, size + new_words))
    again = dropout(story, question, vectors.answers)
    assert (again[0] != after[0]).any()


def test_no_more_words_are_dropped_than_there_are_numbers():
    story = np.arange(2, 14).reshape(1, 3, 4)
    question, answers = np.array([[2, 3]]), np.array([13])
    seen = set()
    for seed in range(20):
        dropout = babi.WordDropout(14, 3, rate=1.0, seed=seed)
        new = dropout(story, question, answers)[0]
        assert (new >= 14).sum() == 3
        seen |= set(story[new >= 14].tolist())
    assert len(seen) > 9  # any word, not the first ones
    same = babi.WordDropout(14, 3, rate=0.0)(story, question, answers)
    assert (same[0] == story).all()
    assert (same[2] == answers).all()


def test_errors():
    with pytest.raises(ValueError, match=r"examples\[0\] has 2 words .*`count`.*glade"):
        babi.number_new_words([EXAMPLE], KNOWN, 1)
    with pytest.raises(ValueError, match="`count` must be a whole number"):
        babi.with_new_words(KNOWN, 0)
    with pytest.raises(ValueError, match="`new_words` must be a whole number"):
        babi.WordDropout(5, 0)
    with pytest.raises(ValueError, match="`rate` must be from 0 to 1"):
        babi.WordDropout(5, 2, rate=1.5)


@pytest.mark.parametrize("index", [5, -1])
@pytest.mark.parametrize("wrong", ["story", "question", "answers"])
def test_indices_that_are_no_known_words_are_refused(wrong, index):
    inputs = {
        "story": np.full((1, 1, 2), 3),
        "question": np.full((1, 2), 3),
        "answers": np.full(1, 3),
    }
    dropout = babi.WordDropout(5, 2)
    message = f"`{wrong}` must hold known words, at least 0 .* 5. Received: {index}"
    with pytest.raises(ValueError, match=message):
        dropout(**{**inputs, wrong: np.full_like(inputs[wrong], index)})
    with pytest.raises(ValueError, match=f"`{wrong}` must hold integers"):
        dropout(**{**inputs, wrong: inputs[wrong] * 1.0})


@pytest.mark.parametrize(
    ("dtype", "size", "wider"),
    [("uint8", 250, "uint16"), ("int8", 120, "int16"), ("int8", 112, "int8")],
)
def test_new_indices_do_not_wrap_around(dtype, size, wider):
    story = np.arange(2, 14).reshape(1, 3, 4)
    question, answers = np.array([[2, 3]]), np.array([13])
    expected = babi.WordDropout(size, 16, rate=1.0)(story, question, answers)
    narrow = story.astype(dtype), question.astype("int32"), answers.astype(dtype)
    found = babi.WordDropout(size, 16, rate=1.0)(*narrow)
    assert [x.dtype for x in found] == [wider, "int32", wider]
    for x, y in zip(found, expected):
        np.testing.assert_array_equal(x, y)
    assert found[0].min() >= size


def test_no_examples():
    x = np.zeros((0, 3, 4), "int32")
    assert babi.WordDropout(5, 2)(x, x[:, 0], x[:, 0, 0])[0].shape == (0, 3, 4)
