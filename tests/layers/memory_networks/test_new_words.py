"""Contexts and matching features against the equations, written plainly in NumPy."""

import keras
import numpy as np
import pytest
from gradients import to_numpy

from keras_attention.layers import (
    FactFinder,
    SentenceFeatures,
    WordContexts,
    WordResponder,
)

B, M, L, D, K, V, N = 3, 5, 4, 5, 2, 11, 3
FEATURES = V + 1  # the last one is that of "nothing more"


def stories():
    """Stories with known and new words, in which the last new word never occurs."""
    rng = np.random.default_rng(0)
    story = rng.integers(1, V + N - 1, (B, M, L)).astype("int32")
    story[0, 1, 2:] = 0
    question = rng.integers(1, V + N - 1, (B, L)).astype("int32")
    question[1, 3] = 0
    question[:, 0] = V
    story[:, 0, 1] = V
    return story, question


def neighbours(story, word):
    """The words before and after all places of a word; 0 for none and for new ones."""
    pairs = []
    for sentence in story.tolist():
        line = [0, *sentence, 0]
        for place, other in enumerate(line):
            if other == word:
                pairs.append((line[place - 1], line[place + 1]))
    return [tuple(w if w < V else 0 for w in pair) for pair in pairs]


def test_contexts_are_the_words_beside_each_new_word():
    story, _ = stories()
    found = to_numpy(WordContexts(V, N)(story), "int64")
    for b in range(B):
        fields = found[b].reshape(-1, 3)
        for word in range(1, V + N):
            here = fields[story[b].ravel() == word]
            if word < V:
                assert not here.any()
            else:
                assert set(here[:, 0].tolist()) <= {word - V + 1}
                assert [tuple(f) for f in here[:, 1:]] == neighbours(story[b], word)


class Reference:
    """The blocks of U of a layer, and the vectors of the new words of one story."""

    def __init__(self, layer, story):
        self.layer, self.story = layer, story
        self.names = layer.contexts.versions

    def block(self, name):
        if name.startswith(("found", "match")):
            kind, number = name.split("_")
            parts = getattr(self.layer, {"found": "found", "match": "matches"}[kind])
            part = parts[int(number)]
        else:
            part = getattr(self.layer, name)
        return to_numpy(part.weights[0].value)

    def vector(self, feature, name):
        """The embedding of a feature in one version."""
        if feature < FEATURES:
            return self.block(name)[feature] if feature else np.zeros(D)
        pairs = neighbours(self.story, V + feature - FEATURES)
        at = self.names.index(name) * D
        left, right = (
            to_numpy(side.weights[0].value)[:, at : at + D]
            for side in (self.layer.contexts.left, self.layer.contexts.right)
        )
        total = sum((left[i] + right[j] for i, j in pairs), np.zeros(D))
        return total / max(len(pairs), 1)

    def bag(self, features, name):
        return sum((self.vector(f, name) for f in features), np.zeros(D))

    def match(self, features, others, name):
        return self.bag([f for f in features if f and f in others], name)

    def mapped(self, x):
        if self.layer.map is None:
            return x
        kernel, bias = (to_numpy(w.value) for w in self.layer.map.weights)
        return np.tanh(np.tanh(x) @ kernel + bias)


def told(cls, more, *arguments):
    """A layer, and what it is called with."""
    story, question = stories()
    features = SentenceFeatures(V, new_words=N)
    x, y = (to_numpy(features(text), "int32") for text in (question, story))
    assert y.max() > FEATURES
    assert (y != V).all()
    times = np.broadcast_to(
        np.arange(1, M + 1, dtype="int32")[None, :, None], (B, M, 1)
    )
    contexts = to_numpy(WordContexts(V, N)(story), "int32")
    keras.utils.set_random_seed(3)
    layer = cls(FEATURES, *arguments, supports=K, new_words=N, **more)
    layer.build(None)
    for weight in layer.weights:
        weight.assign(5 * weight)
    return layer, story, x, np.concatenate([times, y], -1), contexts


KINDS = pytest.mark.parametrize(
    "more",
    [
        {"exact_match": False},
        {"exact_match": True},
        {"exact_match": True, "nonlinear": True, "hop_versions": True},
    ],
    ids=["contexts", "matches", "nonlinear"],
)
EITHER = pytest.mark.backends("torch")


@EITHER
@KINDS
def test_facts_with_new_words(more):
    layer, story, x, memory, contexts = told(FactFinder, {"time": False, **more}, D)
    given = np.array([[1, 4], [3, 0], [2, 2]], "int32")
    facts = to_numpy(layer(x, memory, given, training=True, contexts=contexts)["facts"])
    for b in range(B):
        u, y = Reference(layer, story[b]), memory[b, :, 1:]
        state = u.bag(x[b], "question")
        keys = np.stack([u.bag(sentence, "candidate") for sentence in y])
        text, version = x[b], 0
        for hop in range(K):
            if more["exact_match"]:
                keys = keys + [u.match(s, text, f"match_{version}") for s in y]
            scores = np.stack([u.mapped(k) for k in keys]) @ u.mapped(state)
            expected = scores - scores[given[b, hop]]
            np.testing.assert_allclose(facts[b, hop], expected, rtol=1e-3, atol=1e-3)
            text, version = y[given[b, hop]], 1
            state = state + u.bag(text, "found_0")


@EITHER
@KINDS
def test_words_that_were_never_answers_may_answer(more):
    layer, story, x, memory, contexts = told(WordResponder, more, V, D)
    found = np.array([[1, 4], [3, -1], [2, 0]], "int32")
    answer = to_numpy(layer(x, memory, found, contexts))
    assert answer.shape == (B, V + N)
    for b in range(B):
        u, state = Reference(layer, story[b]), 0
        texts = [x[b], *(memory[b, f, 1:] if f >= 0 else np.zeros(L) for f in found[b])]
        texts = [text.astype(int) for text in texts]
        names = [
            "question",
            "found_0",
            "found_1" if len(layer.found) > 1 else "found_0",
        ]
        state = u.mapped(sum(u.bag(t, n) for t, n in zip(texts, names)))
        if len(layer.found) == 1:
            texts = [texts[0], np.concatenate(texts[1:])]
        for word in range(V + N):
            feature = word if word < V else FEATURES + word - V
            if word >= V and word not in story[b]:
                assert answer[b, word] < -1e30
                continue
            y = u.block("words")[0] if word == 0 else u.vector(feature, "words")
            for version, text in enumerate(texts if more["exact_match"] else ()):
                y = y + u.match([feature], text, f"match_{version}")
            np.testing.assert_allclose(answer[b, word], y @ state, rtol=1e-3, atol=1e-3)


def test_an_ngram_with_a_new_word_has_no_feature():
    layer = SentenceFeatures(V, ngrams=2, buckets=127, new_words=N)
    found = to_numpy(layer(np.array([[3, 4, V + 1, 5, 6]])), "int64")[0].tolist()
    plain = SentenceFeatures(V, ngrams=2, buckets=127)
    (pairs,) = to_numpy(plain(np.array([[3, 4, 0, 5, 6]])), "int64").tolist()
    assert found == [3, 4, layer.size + 2, 5, 6, *pairs[5:]]


def test_errors():
    layer, _, x, memory, _ = told(FactFinder, {}, D)
    with pytest.raises(ValueError, match="`contexts` must be given if and only if"):
        layer(x, memory)
    with pytest.raises(ValueError, match=r"`inputs` must hold ids of .* below 14"):
        WordContexts(V, N)(np.full((1, 2, 2), V + N))
    for name in ("vocabulary_size", "new_words"):
        with pytest.raises(ValueError, match=f"`{name}` must be at least 1"):
            WordContexts(**{"vocabulary_size": 3, "new_words": 2, name: 0})
    with pytest.raises(ValueError, match="`new_words` must be at least 0"):
        WordResponder(5, 3, 2, new_words=-1)
