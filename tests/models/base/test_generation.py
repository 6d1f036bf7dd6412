"""`GeneratesTargets`: what goes to a model that writes, and which program runs."""

import gc

import keras
import numpy as np
import pytest
from keras import ops

from keras_attention import samplers
from keras_attention.models.base.generation import GeneratesTargets

pytestmark = pytest.mark.backends("all")

V, T = 7, 5


class Counting(GeneratesTargets, keras.layers.Layer):
    """Writes the word behind the last one, from one that its inputs tell."""

    _input = "words"
    source_vocabulary_size = 11
    target_vocabulary_size = V

    def __init__(self):
        super().__init__()
        self.seen = []

    def begin(self, inputs):
        self.seen.append({n: (tuple(x.shape), x.dtype) for n, x in inputs.items()})
        first = sum(
            ops.sum(ops.reshape(ops.cast(x, "int32"), (2, -1)), axis=1)
            for x in inputs.values()
        )
        return {"first": first, "nothing": None}, None

    def next(self, prompt, cache, index, static=None):
        word = (cache["first"] + index) % V
        return ops.one_hot(word, V), None, cache


class CountingInPictures(Counting):
    _input = "picture"

    def _source(self, source, max_length):
        return source


def written(first, length=T):
    return (np.asarray(first)[:, None] + 1 + np.arange(length)) % V


def run(model, source, sampler=None, length=T, start=0, stop=None):
    sampler = samplers.GreedySampler() if sampler is None else sampler
    return model.generate(source, length, sampler, start, stop, None)


class Foreign:
    """A sampler that is none of ours: fills its prompt with one word."""

    def __init__(self, word):
        self.word = word

    def __call__(self, next, prompt, cache, index, mask, stop_token_ids, model):
        assert all(x is not None for x in keras.tree.flatten(cache))
        next(prompt, cache, index)
        words = ops.zeros_like(prompt) + self.word
        return ops.concatenate([prompt[:, :1], words[:, 1:]], axis=1)


def test_pictures_go_through_as_they_are_and_sequences_are_padded():
    model = CountingInPictures()
    picture = np.zeros((2, 3, 5, 1), "float32")
    picture[1, 0, 0] = 2.0
    np.testing.assert_array_equal(run(model, picture), written([0, 2]))
    shape, dtype = model.seen[0]["picture"]
    assert shape == (2, 3, 5, 1)
    assert keras.backend.standardize_dtype(dtype) == "float32"
    model, words = Counting(), np.array([[1, 2, 1], [3, 0, 0]])
    np.testing.assert_array_equal(run(model, words), written([4, 3]))
    assert model.seen[0]["words"][0] == (2, 16)


@pytest.mark.parametrize(
    "bad", [np.ones((2, 3), "float32"), np.ones((2, 3, 1), "int32")]
)
def test_sequences_are_integers_of_two_axes(bad):
    with pytest.raises(ValueError, match="`words` must be integers of shape"):
        run(Counting(), bad)


def test_each_sampler_has_its_own_program_even_where_another_one_was():
    model, words = Counting(), np.ones((2, 3), "int32")
    for word in (3, 5, 6, 1, 2):
        sampler = Foreign(word)  # may be where the last one was
        assert (run(model, words, sampler) == word).all()
        del sampler
        gc.collect()


def test_what_a_foreign_sampler_writes_behind_a_stop_token_is_cut_off():
    model, words = Counting(), np.ones((2, 3), "int32")
    found = run(model, words, Foreign(4), stop=[4, 5])
    np.testing.assert_array_equal(found, [[4, 0, 0, 0, 0]] * 2)
    np.testing.assert_array_equal(
        run(model, words, Foreign(4), stop=5), np.full((2, T), 4)
    )


def test_run_eagerly_is_followed():
    model, words = Counting(), np.array([[1, 2], [3, 0]])
    expected = run(model, words)
    model.run_eagerly = True
    begun = len(model.seen)
    for _ in range(2):
        np.testing.assert_array_equal(run(model, words), expected)
    assert len(model.seen) == begun + 2


class Shifted(Counting):
    """Adds the number of a dict in an attribute of a sublayer to each word."""

    def __init__(self):
        super().__init__()
        self.part = keras.layers.Layer()
        self.part.settings = {"shift": 0, "sign": 1}
        self.scale = self.add_weight(shape=(V, V), initializer="identity")
        self.begun = 0

    def begin(self, inputs):
        self.begun += 1  # a call may set attributes itself
        return super().begin(inputs)

    def next(self, prompt, cache, index, static=None):
        settings = self.part.settings
        sign = settings.get("sign", -1)
        word = (cache["first"] + sign * index + settings["shift"]) % V
        return ops.one_hot(word, V) @ self.scale, None, cache


def test_calls_between_need_no_other_program():
    """Keras notes in each layer that it was called, which changes no result."""

    class Embedded(Counting):
        def __init__(self):
            super().__init__()
            self.table = keras.layers.Embedding(V, V, "identity")
            self.table.build()

        def next(self, prompt, cache, index, static=None):
            cells = (cache["first"] + index) % V
            return ops.take(self.table.embeddings, cells, axis=0), None, cache

    model, words = Embedded(), np.array([[1, 2], [3, 0]])
    expected = run(model, words)
    ((_, program),) = model._programs._functions.values()
    model.table(np.array([1]))
    np.testing.assert_array_equal(run(model, words), expected)
    assert [p for _, p in model._programs._functions.values()] == [program]


def rename(model):
    model.part.settings["signs"] = model.part.settings.pop("sign")


CHANGES = {
    "item": (
        lambda model: model.part.settings.update({"shift": 2}),
        lambda w: (w + 2) % V,
    ),
    "key": (rename, lambda w: -w % V),
    "weights": (
        lambda model: model.set_weights([np.roll(np.eye(V), 2, axis=1)]),
        lambda w: (w + 2) % V,
    ),
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_changes_between_two_calls_counts(change):
    model, words = Shifted(), np.array([[0, 0], [0, 0]])
    changes, expected = CHANGES[change]
    for _ in range(2):
        np.testing.assert_array_equal(run(model, words), written([0, 0]))
    changes(model)
    for _ in range(2):
        np.testing.assert_array_equal(run(model, words), expected(written([0, 0])))


@pytest.mark.backends("torch", reason="torch alone replaces the memory of a weight")
@pytest.mark.parametrize("how", ["data", "vector", "transposed"])
def test_replaced_memory_of_a_weight_counts(how):
    import torch

    model, words = Shifted(), np.array([[0, 0], [0, 0]])
    kernel = model.scale.value
    model.scale.assign(np.roll(np.eye(V), 2, axis=1))
    expected = written([2, 2])
    np.testing.assert_array_equal(run(model, words), expected)
    if how == "transposed":  # at the same address
        kernel.data, expected = kernel.data.T, written([-2, -2])
    elif how == "data":
        kernel.data, expected = torch.eye(V), written([0, 0])
    else:
        vector = torch.eye(V).flatten()
        torch.nn.utils.vector_to_parameters(vector, [kernel])
        expected = written([0, 0])
    np.testing.assert_array_equal(run(model, words), expected)


class Favourite(samplers.Sampler):
    """Writes one word; it has no config."""

    def __init__(self, word):
        self._word = word

    def search(self, request):
        word = np.max(self._word)
        return ops.where(ops.arange(T + 1) < 1, request.prompt[:, : T + 1], word)


@pytest.mark.parametrize("make", [int, lambda word: np.array([0, word])])
def test_a_sampler_without_a_config_is_not_taken_for_another(make):
    model, words = Counting(), np.ones((2, 3), "int32")
    for word in (3, 5):
        for sampler in (
            Favourite(make(word)),
            samplers.ExcludingSampler(Favourite(make(word)), [1]),
        ):
            assert (run(model, words, sampler) == word).all()
    sampler._word = sampler.sampler._word = make(6)
    assert (run(model, words, sampler) == 6).all()


def test_an_attribute_of_a_foreign_sampler_counts():
    model, words, sampler = Counting(), np.ones((2, 3), "int32"), Foreign(4)
    for word in (4, 5):
        sampler.word = word
        assert (run(model, words, sampler) == word).all()


@pytest.mark.parametrize(
    "stops", [{4, 5}, frozenset({4}), np.array([4]), range(4, 6), iter([4]), np.int8(4)]
)
def test_stop_tokens_come_in_any_form(stops):
    model, words = Counting(), np.array([[1, 0], [1, 0]])
    expected = [[2, 3, 4, 0, 0]] * 2
    np.testing.assert_array_equal(run(model, words, stop=stops), expected)


@pytest.mark.parametrize("stops", [1.5, 4.0, True, "4", [[4]], {4: 5}, [{4}]])
def test_stop_tokens_are_integers(stops):
    with pytest.raises(ValueError, match="`stop_token_ids` must be of the vocab"):
        run(Counting(), np.ones((2, 3), "int32"), stop=stops)


@pytest.mark.parametrize("start", [[0, 1], 1.5, "1"])
def test_the_start_token_is_one_integer(start):
    with pytest.raises(ValueError, match="`start_token_id` must be"):
        run(Counting(), np.ones((2, 3), "int32"), start=start)
