"""Which facts a hash picks, and that a large memory answers as the model does."""

import keras
import numpy as np
import pytest

from keras_attention.models import ClusterHash, LargeMemory, MemNN, WordHash
from keras_attention.models.memory_networks.hashing import Hash
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


def strong(**arguments):
    """A network whose weights are large enough to tell facts apart."""
    model = MemNN(WORDS, embedding_dim=7, supports=2, **arguments)
    for weight in model.trainable_weights:
        weight.assign(4 * weight)
    return model


@pytest.mark.parametrize(
    ("kind", "arguments"),
    [
        (None, {"ngrams": 2, "buckets": 101}),
        ("word", {"adaptive": True}),
        ("cluster", {"nonlinear": True}),
    ],
)
def test_a_memory_that_was_saved_answers_the_same(facts, tmp_path, kind, arguments):
    model = strong(**arguments)
    facts[7] = 0  # an empty slot
    index = None
    if kind == "word":
        index = WordHash(facts, 0.15)
    elif kind == "cluster":
        index = ClusterHash(facts, model.word_vectors(), clusters=7, max_share=0.15)
    memory = model.remember(facts, index)
    memory.save(tmp_path / "memory")  # under that very name
    model.save(tmp_path / "model.keras")
    again = LargeMemory.load(
        str(tmp_path / "memory"), keras.saving.load_model(tmp_path / "model.keras")
    )
    assert type(again.index) is type(index)
    questions = np.random.default_rng(4).integers(1, WORDS, (11, L))
    for question in questions:
        if index is not None:
            found, expected = (m.index.candidates(question) for m in (again, memory))
            np.testing.assert_array_equal(found, expected)
    for found, expected in zip(again.answer(questions), memory.answer(questions)):
        np.testing.assert_array_equal(found, expected)
    again.save(tmp_path / "again.npz")
    with (
        np.load(tmp_path / "memory") as one,
        np.load(tmp_path / "again.npz") as two,
    ):
        assert one.files == two.files
        for name in one.files:
            np.testing.assert_array_equal(one[name], two[name])


def test_what_is_saved_is_neither_embedded_nor_hashed_again(
    facts, tmp_path, monkeypatch
):
    model = strong()
    model.remember(facts, WordHash(facts, 0.15)).save(tmp_path / "memory.npz")

    def never(*_):
        raise AssertionError

    monkeypatch.setattr(LargeMemory, "_embedded", never)
    monkeypatch.setattr(WordHash, "__init__", never)
    again = LargeMemory.load(tmp_path / "memory.npz", model)
    assert again.index.size == N


def trained(model):
    table = model.get_layer("O").candidate.weights[0]
    table.assign(table + 0.01)
    return model


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: MemNN(WORDS + 1, 7), "vocabulary_size=61. Received: model.vocabulary"),
        (lambda: MemNN(WORDS, 5), "embedding_dim=7. Received: model.embedding_dim=5"),
        (lambda: MemNN(WORDS, 7, ngrams=2), "ngrams=1. Received: model.ngrams=2"),
        (lambda: MemNN(WORDS, 7), "this one has other weights, or was trained since"),
    ],
)
def test_a_memory_wants_the_model_that_made_it(facts, tmp_path, make, message):
    model = strong()
    model.remember(facts).save(tmp_path / "memory.npz")
    with pytest.raises(ValueError, match=f"`model` must be the one that .*{message}"):
        LargeMemory.load(tmp_path / "memory.npz", make())
    # The answer's weights may be other ones, those of the embeddings not.
    words = model.get_layer("R").words.weights[0]
    words.assign(words + 1)
    LargeMemory.load(tmp_path / "memory.npz", model)
    trained(model)
    with pytest.raises(ValueError, match="or was trained since"):
        LargeMemory.load(tmp_path / "memory.npz", model)


def test_a_memory_of_old_embeddings_is_not_passed_off_as_new(facts, tmp_path):
    model = strong()
    memory = model.remember(facts)
    trained(model)
    memory.save(tmp_path / "memory.npz")
    with pytest.raises(ValueError, match="or was trained since"):
        LargeMemory.load(tmp_path / "memory.npz", model)


def altered(change):
    """Writes a saved memory again with some of its arrays changed."""

    def write(path):
        with np.load(path) as archive:
            arrays = {**archive}
        change(arrays)
        with open(path, "wb") as file:
            np.savez(file, **arrays)

    return write


def about(old, new):
    def change(arrays):
        text = str(arrays["about"])
        assert old in text
        arrays["about"] = np.array(text.replace(old, new))

    return altered(change)


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda path: path.write_text("facts"), "it is no NumPy archive"),
        (lambda path: path.write_bytes(b""), "it is no NumPy archive"),
        (lambda path: path.write_bytes(path.read_bytes()[:-99]), "is no NumPy archive"),
        (lambda path: np.savez(path, facts=np.ones(3)), "about is not a file in the"),
        (lambda path: np.savez(path, about=np.ones(3)), "Expecting"),
        (about("LargeMemory 1", "LargeMemory 2"), "its format is 'keras_attention.La"),
        (about("WordHash", "OtherHash"), "OtherHash"),
        (altered(lambda arrays: arrays.pop("keys")), "keys is not a file in the arch"),
        (
            altered(lambda arrays: arrays.update(keys=arrays["keys"][1:])),
            r"its arrays do not fit each other: .*keys\.shape=\(210, 7\)",
        ),
        (
            altered(lambda arrays: arrays.update(keys=arrays["keys"].astype("S9"))),
            r"its features must be int32 and its keys float32: .*keys\.dtype=\|S9",
        ),
        (
            altered(lambda arrays: arrays.update(features=arrays["features"] / 2)),
            r"its features must be int32 .*features\.dtype=float64",
        ),
        (
            altered(
                lambda arrays: arrays.update(
                    {name: arrays[name][:0] for name in ("facts", "features", "keys")}
                )
            ),
            "it holds no fact",
        ),
        (
            altered(lambda arrays: arrays["hash_members"].__imul__(2)),
            "`tables` must be those of a hash of 211 facts",
        ),
    ],
)
def test_a_file_that_is_no_memory(facts, tmp_path, spoil, message):
    model, path = strong(), tmp_path / "memory.npz"
    model.remember(facts, WordHash(facts, 0.15)).save(path)
    spoil(path)
    with pytest.raises(
        ValueError, match=f"memory.npz is not a saved memory: .*{message}"
    ):
        LargeMemory.load(path, model)


def test_a_crash_while_saving_loses_nothing(facts, tmp_path, monkeypatch):
    model, path = strong(), tmp_path / "memory.npz"
    memory = model.remember(facts)
    memory.save(path)
    before = path.read_bytes()

    def crash(file, **_):
        file.write(b"half")
        raise OSError("no space left")

    with monkeypatch.context() as patched:
        patched.setattr(np, "savez", crash)
        with pytest.raises(OSError, match="no space left"):
            memory.save(path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]
    memory.save(path)
    assert list(tmp_path.iterdir()) == [path]
    LargeMemory.load(path, model)


def test_what_cannot_be_saved_or_found(facts, tmp_path):
    model, path = strong(), tmp_path / "memory.npz"
    own = type("Own", (Hash,), {})(facts, np.full(WORDS, -1))
    with pytest.raises(ValueError, match="`index` must be a WordHash, a ClusterHash"):
        model.remember(facts, own).save(path)
    assert not path.exists()
    with pytest.raises(FileNotFoundError):
        LargeMemory.load(path, model)


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
