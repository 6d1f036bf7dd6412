"""Which facts a hash picks, and that a large memory answers as the model does."""

import keras
import numpy as np
import pytest

from keras_attention.models import ClusterHash, MemNN, WordHash
from keras_attention.models.memory_networks.hashes import Lists
from keras_attention.ops.hashing import k_means

N, L, WORDS = 211, 5, 61


@pytest.fixture
def facts():
    rng = np.random.default_rng(0)
    facts = rng.integers(2, WORDS - 1, (N, L))
    facts[:, 0] = 1  # a word that stands in all facts
    facts[rng.random((N, L)) < 0.2] = 0
    return facts


def sharing(facts, words, group):
    """The facts that have a word of the same group as one of these, one by one."""
    groups = {group[w] for w in words if w in group}
    return [i for i, f in enumerate(facts) if groups & {group.get(w) for w in f if w}]


def telling(facts, share):
    """Words in few enough facts, counted one by one."""
    count = {w: sum(w in f for f in facts.tolist()) for w in range(1, WORDS)}
    return [w for w, n in count.items() if 0 < n <= share * len(facts)]


@pytest.mark.parametrize("share", [0.09, 0.15])
def test_word_hash_picks_facts_that_share_a_telling_word(facts, share):
    index = WordHash(facts, share)
    words = telling(facts, share)
    assert 0 < len(words) < WORDS - 2
    group = {w: w for w in words}
    for text in ([words[0], 0, 1], [words[3], words[-1], words[3]], [1, words[1]]):
        found = index.candidates(np.array(text))
        assert found.tolist() == sharing(facts.tolist(), text, group)


def test_a_text_that_says_nothing_picks_all(facts):
    index = WordHash(facts, 0.15)
    assert index.candidates(np.array([1, 0, 0])) is None
    assert index.candidates(np.array([WORDS - 1])) is None  # a word of no fact
    assert index.candidates(np.array([10**6])) is None
    assert WordHash(facts, 0.001).candidates(facts[3]) is None


def test_cluster_hash_picks_facts_with_a_word_of_the_same_cluster(facts):
    vectors = np.random.default_rng(1).normal(size=(WORDS, 3))
    index = ClusterHash(facts, vectors, clusters=7, max_share=0.15, seed=2)
    words = telling(facts, 0.15)
    group = dict(zip(words, k_means(vectors[words], 7, seed=2).tolist()))
    for text in ([words[0]], [words[2], words[5], 1]):
        found = index.candidates(np.array(text))
        assert found.tolist() == sharing(facts.tolist(), text, group)
    one = WordHash(facts, 0.15).candidates(np.array([words[0]]))
    assert set(one) < set(index.candidates(np.array([words[0]])))
    # As many clusters as words: the word hash.
    index = ClusterHash(facts, vectors, clusters=99, max_share=0.15)
    np.testing.assert_array_equal(index.candidates(np.array([words[0]])), one)


@pytest.mark.parametrize("adaptive", [False, True])
@pytest.mark.parametrize("nonlinear", [False, True])
def test_a_large_memory_answers_as_the_model(facts, adaptive, nonlinear):
    keras.utils.set_random_seed(3)
    model = MemNN(
        WORDS,
        embedding_dim=7,
        supports=3,
        adaptive=adaptive,
        ngrams=2,
        buckets=101,
        nonlinear=nonlinear,
    )
    for weight in model.trainable_weights:
        weight.assign(4 * weight)
    story = facts[:23]
    story[5] = 0  # an empty slot
    questions = np.random.default_rng(4).integers(1, WORDS, (6, L))
    memory = model.remember(story)
    found = memory.answer(questions)
    repeated = np.repeat(story[None], len(questions), axis=0)
    expected = model.predict({"story": repeated, "question": questions}, verbose=0)
    np.testing.assert_array_equal(found.facts, expected["found"])
    np.testing.assert_array_equal(found.words, expected["answer"].argmax(-1))
    hops = np.minimum((found.facts >= 0).sum(1) + 1, 3)  # the one that ends it counts
    np.testing.assert_array_equal(found.scored, 22 * hops)


def test_only_candidates_are_scored(facts):
    model = MemNN(WORDS, embedding_dim=7, supports=2, time=False)
    index = WordHash(facts, 0.15)
    question = np.array([[telling(facts, 0.15)[0], 1]])
    first = index.candidates(question)
    answers = model.remember(facts, index).answer(question)
    (one, two), (scored,) = answers.facts[0], answers.scored
    assert one in first
    second = index.candidates(np.concatenate([question[0], facts[one]]))
    assert two in second
    assert scored == len(first) + len(second) < N


@pytest.mark.parametrize("kind", ["word", "cluster"])
def test_appended_facts_are_indexed_as_all_at_once(facts, kind):
    """By parts of many sizes, so that words' shares change."""
    facts[150:, 3] = 7  # frequent only at the end
    vectors = np.random.default_rng(1).normal(size=(WORDS, 3))
    rng = np.random.default_rng(2)

    def made(rows):
        if kind == "word":
            return WordHash(rows, 0.15)
        index = ClusterHash(facts, vectors, clusters=7, max_share=0.15)
        index.lists = Lists()  # its clusters stay: the parts get those of all facts
        index.append(rows)
        return index

    parts, end = made(facts[:97]), 97
    while end < N:
        size = rng.integers(1, 23)
        parts.append(facts[end : end + size, : 3 + 2 * (end % 2)])
        facts[end : end + size, 3 + 2 * (end % 2) :] = 0
        end += size
    whole = made(facts)
    assert parts.size == whole.size == N
    for _ in range(50):
        text = rng.integers(0, WORDS, 3)
        found, expected = (index.candidates(text) for index in (parts, whole))
        np.testing.assert_array_equal(found, expected)
    empty = type(whole).candidates(whole, np.array([0]))
    assert empty is None


def test_words_that_come_later(facts):
    index = WordHash(facts, 0.15)
    index.append(np.array([[3 * WORDS, 1]]))
    assert index.candidates(np.array([3 * WORDS])).tolist() == [N]


def test_a_budget_prefers_rare_words_and_pairs(facts):
    """Counted fact by fact, for each budget."""
    counts = {w: (facts == w).any(1).sum() for w in range(1, WORDS)}
    rng = np.random.default_rng(3)
    for budget in (30, 50, 100, 500):  # no list is cut before it is compared
        index = WordHash(facts, 0.9, budget)
        for _ in range(20):
            text = rng.choice(np.arange(2, WORDS - 1), 5, replace=False)
            words = sorted(sorted(text), key=counts.get)
            lists = [np.flatnonzero((facts == w).any(1)).tolist() for w in words]
            chosen, used = set(), 0
            while lists and used + len(lists[0]) <= budget:
                used += len(lists[0])
                chosen |= {*lists.pop(0)}
            if lists:
                every = [f for one in lists for f in one]
                pairs = sorted({f for f in every if every.count(f) > 1})
                pairs = pairs[max(len(pairs) - budget + used, 0) :]
                part = min(budget - used - len(pairs), budget // 4) // len(lists)
                newest = [f for one in lists for f in one[len(one) - part :]]
                chosen |= {*pairs, *newest}
            assert index.candidates(text).tolist() == sorted(chosen)
            assert 0 < len(chosen) <= budget


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda f: WordHash(f.astype(float)), r"`facts` must be integers \(facts, w"),
        (lambda f: WordHash(f[0]), r"`facts` must be integers .*shape=\(5,\)"),
        (lambda f: WordHash(f - 1), "`facts` must be integers .* of at least 0"),
        (
            lambda f: WordHash(f, 0),
            "`max_share` must be above 0. Received: max_share=0",
        ),
        (lambda f: WordHash(f, budget=0), "`budget` must be .* Received: budget=0"),
        (
            lambda f: WordHash(f).append(f[0]),
            r"`facts` must be integers .*shape=\(5,\)",
        ),
        (
            lambda f: ClusterHash(f, np.zeros((9, 2))),
            r"`vectors` must have shape \(words, width\).*vectors.shape=\(9, 2\)",
        ),
        (
            lambda f: ClusterHash(f, np.zeros((WORDS, 2)), clusters=0),
            "`clusters` must be at least 1. Received: clusters=0",
        ),
        (
            lambda f: MemNN(WORDS).remember(f, WordHash(f[:7])),
            r"`index` must be an index of the same facts\. Received: index\.size=7",
        ),
    ],
)
def test_errors(facts, make, message):
    with pytest.raises(ValueError, match=message):
        make(facts)
