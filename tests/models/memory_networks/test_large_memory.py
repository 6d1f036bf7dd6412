"""A large memory on the disk: saved, opened, built, appended, damaged, interrupted."""

import json
import multiprocessing
import os
import signal

import keras
import large_memories
import numpy as np
import pytest
from large_memories import files_of, strong_network

from keras_attention.models import ClusterHash, LargeMemory, MemNN, WordHash
from keras_attention.models.memory_networks import memory_folder
from keras_attention.models.memory_networks.hashing import Hash
from keras_attention.models.memory_networks.one_pass import last_of_one_pass
from keras_attention.models.memory_networks.sentence_keys import (
    SentenceKeys,
    fingerprint,
)
from keras_attention.ops.hashing import inverted_index, telling_words

N, L, WORDS = 211, 5, 61
resource = pytest.importorskip("resource", reason="limits of a process")


@pytest.fixture
def facts():
    rng = np.random.default_rng(0)
    facts = rng.integers(2, WORDS - 1, (N, L))
    facts[:, 0] = 1  # a word that stands in all facts
    facts[rng.random((N, L)) < 0.2] = 0
    facts[7] = 0  # an empty slot
    return facts


QUESTIONS = np.random.default_rng(4).integers(1, WORDS, (11, L))


def strong(**arguments):
    return strong_network(WORDS, 7, **arguments)


def same_answers(memory, expected, questions=QUESTIONS):
    large_memories.same_answers(memory, expected, questions)


@pytest.mark.parametrize("arguments", [{}, {"ngrams": 2, "buckets": 101}])
@pytest.mark.parametrize("nonlinear", [False, True])
def test_keys_are_the_models(facts, arguments, nonlinear):
    """Against the sums and layers of one fact in float64."""
    model = strong(nonlinear=nonlinear, **arguments)
    finder = model.get_layer("O")
    table, *rest = (
        np.asarray(keras.ops.convert_to_numpy(w.value), "float64")
        for w in (*finder.candidate.weights, *(finder.map.weights if nonlinear else ()))
    )
    memory = model.remember(facts)
    features = keras.ops.convert_to_numpy(model.get_layer("I")(facts[13:97]))
    expected = np.array([sum(table[f] for f in fact if f) for fact in features])
    if nonlinear:
        expected = np.tanh(np.tanh(expected) @ rest[0] + rest[1])
    keys = memory.keys(13, 97)
    assert keys.dtype == "float32"
    np.testing.assert_allclose(keys, expected, atol=1e-5)
    query = np.linspace(-1, 1, 7).astype("float32")
    for number in (1, 10**6):  # few features, or all
        similar = SentenceKeys(model).similarity(query, number)(facts[13:97])
        np.testing.assert_allclose(similar, expected @ query, atol=1e-5)


def test_the_pass_in_blocks_is_the_pass_in_one():
    """Against algorithm 1, fact by fact in float64."""
    rng = np.random.default_rng(5)
    for size in (1, 2, 40, 97):
        similar, weights = rng.normal(size=size), rng.normal(size=3)
        x = int(rng.integers(size + 1))
        best = size - 1
        for i in range(size - 2, -1, -1):
            features = [x < i, x < best, i < best]
            if similar[i] - similar[best] + np.dot(weights, features) > 0:
                best = i
        for block in (1, 7, 100):
            found = None
            for stop in range(size, 0, -block):
                here = np.arange(max(stop - block, 0), stop)
                found = last_of_one_pass(here, similar[here], weights, x, found)
            assert found[0] == best


@pytest.mark.parametrize(
    ("kind", "arguments"),
    [
        (None, {"ngrams": 2, "buckets": 101}),
        ("word", {"adaptive": True}),
        ("cluster", {"nonlinear": True}),
    ],
)
def test_a_memory_that_was_saved_answers_the_same(facts, tmp_path, kind, arguments):
    model, index = strong(**arguments), None
    if kind == "word":
        index = WordHash(facts, 0.15, budget=50)
    elif kind == "cluster":
        index = ClusterHash(facts, model.word_vectors(), clusters=7, max_share=0.15)
    memory = model.remember(facts, index)
    memory.save(tmp_path / "memory")
    model.save(tmp_path / "model.keras")
    again = LargeMemory.load(
        str(tmp_path / "memory"), keras.saving.load_model(tmp_path / "model.keras")
    )
    assert type(again.index) is type(index)
    same_answers(again, memory)
    again.save(tmp_path / "again")
    assert files_of(tmp_path / "memory") == files_of(tmp_path / "again")
    # Later facts, on the disk and not.
    for one in (memory, again):
        one.append(facts[3:40, :3])
        one.append(facts[3:50])
    assert again.size == memory.size == N + 84
    same_answers(again, memory)
    same_answers(LargeMemory.load(tmp_path / "memory", model), memory)
    memory.save(tmp_path / "memory")  # in place of the other
    opened = LargeMemory.load(tmp_path / "memory", model, verify=False)
    same_answers(opened, memory)
    same_answers(again, memory)  # its files are mapped still


def blocks_of(facts):
    """In blocks of several lengths, the longest in the middle."""
    yield facts[:0]
    yield facts[:20, :3]
    yield facts[20:150]
    yield facts[150:, :4]


def test_a_stream_is_built_as_an_array(facts, tmp_path, monkeypatch, capsys):
    facts[:20, 3:] = facts[150:, 4:] = 0
    model = strong()
    memory = model.remember(facts, WordHash(facts, 0.15))
    built = LargeMemory.build(
        tmp_path / "a", model, blocks_of(facts), max_share=0.15, verbose=0
    )
    assert built.size == N
    assert capsys.readouterr().out == ""
    np.testing.assert_array_equal(built.sentences(np.arange(N)), facts)
    same_answers(built, memory)
    monkeypatch.setattr(memory_folder, "BLOCK", 50)
    np.save(tmp_path / "facts.npy", facts)
    mapped = np.load(tmp_path / "facts.npy", mmap_mode="r")
    built = LargeMemory.build(tmp_path / "b", model, mapped, max_share=0.15)
    assert "211/211" in capsys.readouterr().out
    same_answers(built, memory)
    assert isinstance(built._segments[0].base, np.memmap)
    # As many bytes as its words: one of a fact, four of the index.
    filled = sum(len(set(fact) - {0}) for fact in facts.tolist())
    sizes = {p.name: p.stat().st_size for p in (tmp_path / "b").rglob("*.npy")}
    assert sizes["facts.npy"] == 128 + N * L
    assert sizes["members.npy"] == 128 + 4 * filled
    none = LargeMemory.build(tmp_path / "a", model, mapped, max_share=None, verbose=0)
    assert none.index is None
    same_answers(none, model.remember(facts))
    assert {p.name for p in (tmp_path / "a").iterdir()} == {
        "manifest.json",
        "segment-000003",
    }


def test_appended_facts_answer_as_all_at_once(facts, tmp_path):
    model = strong()
    whole = model.remember(facts, WordHash(facts, 0.15))
    model.remember(facts[:99], WordHash(facts[:99], 0.15)).save(tmp_path / "m")
    memory = LargeMemory.load(tmp_path / "m", model)
    for start in range(99, N, 16):
        memory.append(facts[start : start + 16])
    memory.append(facts[:0])
    assert memory.size == N
    names = {p.name for p in (tmp_path / "m").iterdir()}
    assert len(names) == 1 + len(memory._segments) < 5  # small segments are merged
    same_answers(memory, whole)
    same_answers(LargeMemory.load(tmp_path / "m", model), whole)


def test_a_memory_that_was_changed_elsewhere_is_not_appended_to(facts, tmp_path):
    model = strong()
    model.remember(facts).save(tmp_path / "m")
    one, other = (LargeMemory.load(tmp_path / "m", model) for _ in range(2))
    one.append(facts[:5])
    with pytest.raises(ValueError, match="was changed since it was opened: load it"):
        other.append(facts[:6])
    assert other.size == N
    assert LargeMemory.load(tmp_path / "m", model).size == N + 5


def test_an_index_of_ones_own(facts, tmp_path):
    class Newest:
        """The last seven facts, by the query of the hop."""

        size = N
        seen = ()

        def candidates(self, words, query=None):
            self.seen = (*self.seen, query)
            return np.arange(self.size - 7, self.size)

    model, index = strong(), Newest()
    memory = model.remember(facts, index)
    answers = memory.answer(QUESTIONS[:1])
    assert answers.scored.tolist() == [14]
    assert [(q.dtype.name, q.shape) for q in index.seen] == [("float32", (7,))] * 2
    with pytest.raises(ValueError, match="`index` must have the method `append`"):
        memory.append(facts)
    with pytest.raises(ValueError, match="`index` must be a WordHash, a ClusterHash"):
        memory.save(tmp_path / "m")
    assert not (tmp_path / "m").exists()
    index.append = lambda facts: setattr(index, "size", index.size + len(facts))
    memory.append(facts[:2])
    assert memory.answer(QUESTIONS).facts.min() >= N + 2 - 7


def limited(size):
    """Lets no file grow beyond a size: as on a full disk, a write is an error."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


@pytest.mark.parametrize("size", [100, 600, 2500])
def test_a_full_disk_loses_nothing(facts, tmp_path, size):
    model, path = strong(), tmp_path / "m"
    model.remember(facts, WordHash(facts, 0.15)).save(path)
    memory, before = LargeMemory.load(path, model), files_of(path)
    many = np.tile(facts, (3, 1))
    try:
        limited(size)
        for change in (
            lambda: memory.append(many),
            lambda: memory.save(path),
            lambda: LargeMemory.build(path, model, many, 0.15, verbose=0),
            lambda: LargeMemory.build(tmp_path / "new", model, many, verbose=0),
        ):
            with pytest.raises(OSError, match="File too large"):
                change()
    finally:
        limited(resource.RLIM_INFINITY)
    assert files_of(path) == before
    assert [p.name for p in tmp_path.iterdir()] == ["m"]
    same_answers(memory, model.remember(facts, WordHash(facts, 0.15)))
    memory.append(many)
    whole = np.concatenate([facts, many])
    same_answers(memory, model.remember(whole, WordHash(whole, 0.15)))


@pytest.mark.slow
@pytest.mark.backends("torch", reason="no backend has a part in it")
@pytest.mark.skipif(os.name != "posix", reason="SIGKILL is a signal of POSIX")
@pytest.mark.parametrize(
    ("name", "nth"),
    [
        ("keras_attention.models.memory_networks.memory_folder.write_array", 3),
        ("json.dump", 1),
        ("os.replace", 1),
        ("shutil.rmtree", 1),
    ],
)
def test_a_kill_in_an_append(facts, tmp_path, name, nth):
    """The memory opens as it was, or, after its manifest, with all new facts."""
    model, path = strong(), tmp_path / "m"
    model.remember(facts, WordHash(facts, 0.15)).save(path)
    model.save(tmp_path / "m.keras")
    arguments = path, tmp_path / "m.keras", np.tile(facts, (2, 1)), name, nth
    process = multiprocessing.get_context("spawn").Process(
        target=large_memories.append_until_killed, args=arguments
    )
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL
    assert len([*path.glob("segment-*")]) == 2  # one is of no use
    again = LargeMemory.load(path, model)
    expected = np.tile(facts, (3, 1)) if name == "shutil.rmtree" else facts
    same_answers(again, model.remember(expected, WordHash(expected, 0.15)))
    again.append(facts)
    expected = np.concatenate([expected, facts])
    same_answers(
        LargeMemory.load(path, model),
        model.remember(expected, WordHash(expected, 0.15)),
    )
    assert len([*path.glob("segment-*")]) == len(again._segments)


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
    model.remember(facts).save(tmp_path / "memory")
    with pytest.raises(ValueError, match=f"`model` must be the one that .*{message}"):
        LargeMemory.load(tmp_path / "memory", make())
    # The answer's weights may be other ones, those of the embeddings not.
    words = model.get_layer("R").words.weights[0]
    words.assign(words + 1)
    LargeMemory.load(tmp_path / "memory", model)
    trained(model)
    with pytest.raises(ValueError, match="or was trained since"):
        LargeMemory.load(tmp_path / "memory", model)


def test_a_memory_of_old_embeddings_is_not_passed_off_as_new(facts, tmp_path):
    model = strong()
    memory = model.remember(facts)
    trained(model)
    memory.save(tmp_path / "memory")
    with pytest.raises(ValueError, match="or was trained since"):
        LargeMemory.load(tmp_path / "memory", model)


def test_a_model_with_other_features_is_refused(facts, monkeypatch):
    model = strong()
    config = {**model.get_config(), "exact_match": True}
    monkeypatch.setattr(model, "get_config", lambda: config)
    rule = "`model` must be a MemNN with features of words and n-grams only: .*"
    with pytest.raises(ValueError, match=f"{rule}exact_match=True"):
        model.remember(facts)
    monkeypatch.undo()
    model.get_layer("O").candidate.encoding = "position"
    with pytest.raises(ValueError, match="`model` must embed a fact as a sum over its"):
        model.remember(facts)


def old_file(path, model, facts, kind):
    """Writes a memory as version 1 did: all words, features, keys and the hash."""
    if kind == "word":
        words = telling_words(facts, 0.15)
        buckets = np.full(facts.max() + 1, -1)
        buckets[words] = np.arange(len(words))
    else:
        buckets = np.array([-1, *np.arange(1, WORDS) % 7])
    about = {
        "format": "keras_attention.LargeMemory 1",
        "sizes": {size: int(getattr(model, size)) for size in memory_folder.SIZES},
        "embedding": fingerprint(model),
        "hash": {"word": "WordHash", "cluster": "ClusterHash", None: None}[kind],
    }
    arrays = {"about": np.array(json.dumps(about)), "facts": facts}
    arrays |= {"features": facts.astype("int32"), "keys": np.ones((N, 7), "float32")}
    if kind is not None:
        members, starts = inverted_index(facts, buckets)
        arrays |= {"hash_buckets": buckets, "hash_members": members.astype("int64")}
        arrays |= {"hash_starts": starts}
    np.savez(path, **arrays)
    return buckets


@pytest.mark.parametrize("kind", ["word", "cluster", None])
def test_a_file_of_version_1(facts, tmp_path, kind):
    model, path = strong(), tmp_path / "old.npz"
    buckets = old_file(path, model, facts, kind)
    memory = LargeMemory.load(path, model)
    index = {
        "word": lambda: WordHash(facts, 0.15),
        "cluster": lambda: Hash(facts, buckets),
        None: lambda: None,
    }[kind]()
    same_answers(memory, model.remember(facts, index))
    with pytest.raises(ValueError, match="`path` must be a new folder or the folder"):
        memory.save(path)
    memory.save(tmp_path / "new")
    same_answers(LargeMemory.load(tmp_path / "new", model), memory)
    with pytest.raises(ValueError, match="other weights, or was trained since"):
        LargeMemory.load(path, trained(model))


def cut(name, by):
    def change(path):
        (file,) = path.rglob(name)
        file.write_bytes(file.read_bytes()[:-by])

    return change


def flip(name, place=-3):
    def change(path):
        (file,) = path.rglob(name)
        data = bytearray(file.read_bytes())
        data[place] ^= 1
        file.write_bytes(data)

    return change


def told(old, new):
    def change(path):
        text = (path / "manifest.json").read_text()
        assert old in text
        (path / "manifest.json").write_text(text.replace(old, new))

    return change


def of_another(path):
    """Puts the index of other facts there, as large as the memory's own."""
    (file,) = path.rglob("members.npy")
    members = np.load(file)
    np.save(file, np.sort(members))


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda p: (p / "manifest.json").unlink(), "it has no manifest.json"),
        (lambda p: (p / "manifest.json").write_text("facts"), "Expecting value"),
        (cut("manifest.json", 9), "Expecting|delimiter"),
        (told("LargeMemory 2", "LargeMemory 9"), "its format is 'keras_attention.Lar"),
        (told("WordHash", "OtherHash"), "OtherHash"),
        (told('"max_share"', '"share"'), "max_share"),
        (told('"max_share": 0.15', '"max_share": -1'), "`max_share` must be above 0"),
        (told(f"{N},", f"{N + 1},"), "another shape or dtype"),
        (told('"facts"', '"factz"'), "facts"),
        (lambda p: next(p.rglob("members.npy")).unlink(), "No such file.*members.npy"),
        (
            cut("facts.npy", 1),
            "facts.npy must have 1183 bytes, but has 1182: it is inc",
        ),
        (cut("starts.npy", 16), "starts.npy must have .* bytes, but has"),
        (flip("facts.npy"), "facts.npy has another checksum than .*: it is damaged"),
        (flip("members.npy"), "members.npy has another checksum than"),
        (flip("starts.npy", 0), "magic|pickle"),
        (of_another, "members.npy has another checksum .* or of another memory"),
    ],
)
def test_a_folder_that_is_no_memory(facts, tmp_path, spoil, message):
    model, path = strong(), tmp_path / "memory"
    model.remember(facts, WordHash(facts, 0.15)).save(path)
    spoil(path)
    with pytest.raises(
        ValueError, match=f"memory is not a saved memory: .*({message})"
    ):
        LargeMemory.load(path, model)


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda path: path.write_text("facts"), "it is no folder and no NumPy archive"),
        (lambda path: path.write_bytes(b""), "it is no folder and no NumPy archive"),
        (lambda path: path.write_bytes(path.read_bytes()[:-99]), "no NumPy archive"),
        (lambda path: np.savez(path, facts=np.ones(3)), "about is not a file in the"),
        (flip("old.npz", 5000), "Bad CRC-32|it is damaged"),
    ],
)
def test_a_file_that_is_no_memory(facts, tmp_path, spoil, message):
    model, path = strong(), tmp_path / "old.npz"
    old_file(path, model, facts, "word")
    if "Bad" in message:
        spoil(tmp_path)
    else:
        spoil(path)
    with pytest.raises(
        ValueError, match=f"old.npz is not a saved memory: .*({message})"
    ):
        LargeMemory.load(path, model)


def test_what_cannot_be_saved_or_found(facts, tmp_path):
    model, path = strong(), tmp_path / "memory"
    own = type("Own", (Hash,), {})(facts, np.full(WORDS, -1))
    with pytest.raises(ValueError, match="`index` must be a WordHash, a ClusterHash"):
        model.remember(facts, own).save(path)
    assert not path.exists()
    with pytest.raises(FileNotFoundError):
        LargeMemory.load(path, model)
    path.mkdir()
    (path / "thesis.txt").write_text("mine")
    with pytest.raises(ValueError, match=r"without other files\. Received: path="):
        model.remember(facts).save(path)
    assert [p.name for p in path.iterdir()] == ["thesis.txt"]


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda f: [f, f + 9], "`facts` must hold ids of at least 0 and below 61, "),
        (lambda f: [f, f / 2], "`facts` must be integers"),
        (lambda f: f[0], "`facts` must be integers"),
        (lambda f: [], "`facts` must hold at least one. Received: none"),
    ],
)
def test_wrong_facts_of_a_stream(facts, tmp_path, build, message):
    with pytest.raises(ValueError, match=message):
        LargeMemory.build(tmp_path / "m", strong(), build(facts), verbose=0)
    assert not (tmp_path / "m").exists()
    with pytest.raises(ValueError, match="`max_share` must be above 0"):
        LargeMemory.build(tmp_path / "m", strong(), facts, max_share=0, verbose=0)
