"""A large memory on the disk: saved, opened, built, appended, damaged, interrupted."""

import copy
import sqlite3
from zlib import crc32

import keras
import large_memories
import numpy as np
import pytest
from large_memories import files_of, strong_network

from keras_attention.models import ClusterHash, LargeMemory, MemNN, WordHash
from keras_attention.models.memory_networks import fact_file, large_memory
from keras_attention.models.memory_networks.hashes import Lists
from keras_attention.models.memory_networks.large_memory import (
    SentenceKeys,
    last_of_one_pass,
)

N, L, WORDS = 211, 5, 61
resource = pytest.importorskip("resource", reason="limits of a process")


def made_facts():
    rng = np.random.default_rng(0)
    facts = rng.integers(2, WORDS - 1, (N, L))
    facts[:, 0] = 1  # a word that stands in all facts
    facts[rng.random((N, L)) < 0.2] = 0
    facts[7] = 0  # an empty slot
    return facts


@pytest.fixture
def facts():
    return made_facts()


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
    table, *layer = (
        np.asarray(keras.ops.convert_to_numpy(w.value), "float64")
        for w in (*finder.candidate.weights, *(finder.map.weights if nonlinear else ()))
    )
    memory = model.remember(facts)
    features = keras.ops.convert_to_numpy(model.get_layer("I")(facts[13:97]))
    expected = np.array([sum(table[f] for f in fact if f) for fact in features])
    if nonlinear:
        expected = np.tanh(np.tanh(expected) @ layer[0] + layer[1])
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
            last = None
            for stop in range(size, 0, -block):
                here = np.arange(max(stop - block, 0), stop)
                last = last_of_one_pass(here, similar[here], weights, x, last)
            assert last[0] == best


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
    same_answers(LargeMemory.load(tmp_path / "again", model), memory)
    # Later facts, on the disk and not.
    for either in (memory, again):
        either.append(facts[3:40, :3])
        either.append(facts[3:50])
    assert again.size == memory.size == N + 84
    same_answers(again, memory)
    same_answers(LargeMemory.load(tmp_path / "memory", model), memory)
    memory.save(tmp_path / "memory")  # in place of the other
    opened = LargeMemory.load(tmp_path / "memory", model, verify=False)
    same_answers(opened, memory)
    with pytest.raises(ValueError, match="was changed since it was opened: load it"):
        again.append(facts[:5])
    same_answers(LargeMemory.load(tmp_path / "memory", model), memory)


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
    monkeypatch.setattr(fact_file, "GROUP", 50)
    np.save(tmp_path / "facts.npy", facts)
    mapped = np.load(tmp_path / "facts.npy", mmap_mode="r")
    built = LargeMemory.build(tmp_path / "b", model, mapped, max_share=0.15)
    assert "211/211" in capsys.readouterr().out
    same_answers(built, memory)
    without = LargeMemory.build(
        tmp_path / "a", model, mapped, max_share=None, verbose=0
    )
    assert without.index is None
    same_answers(without, model.remember(facts))
    assert [p.name for p in (tmp_path / "a").iterdir()] == ["memory.sqlite"]


@pytest.mark.parametrize("index", [None, "word", "cluster"])
def test_a_memory_of_several_chunks(tmp_path, monkeypatch, index):
    for name, value in (("BITS", 4), ("CHUNK", 16), ("PLACE", 15), ("GROUP", 48)):
        monkeypatch.setattr(fact_file, name, value)
    monkeypatch.setattr(large_memory, "CHUNK", 16)
    monkeypatch.setattr(fact_file, "CACHE", 16 * L * 3)  # three chunks
    model, facts = strong(), np.random.default_rng(6).integers(0, WORDS, (N, L))
    facts[:100, 3:] = 0
    whole = model.remember(facts)
    memory = model.remember(facts[:9, :3])
    if index == "word":
        whole.index = WordHash(facts, 0.15, budget=30)
        memory.index = WordHash(facts[:9], 0.15, budget=30)
    elif index == "cluster":
        whole.index = ClusterHash(facts, model.word_vectors(), 7, 1.0)
        of_parts = ClusterHash.restored(Lists(), whole.index.options())
        of_parts.append(facts[:9])
        memory.index = of_parts
    memory.save(tmp_path / "m")
    memory = LargeMemory.load(tmp_path / "m", model)
    for start, stop in ((9, 70), (70, 80), (80, 81), (81, 100), (100, N)):
        memory.append(facts[start:stop, : 3 if stop <= 100 else L])
    for opened in (memory, LargeMemory.load(tmp_path / "m", model)):
        np.testing.assert_array_equal(opened.sentences(np.arange(N)), facts)
        same_answers(opened, whole)
        assert opened.digest() == whole.digest()
        assert len(opened._file._chunks) <= 3


def test_appended_facts_answer_as_all_at_once(facts, tmp_path):
    model = strong()
    whole = model.remember(facts, WordHash(facts, 0.15))
    model.remember(facts[:99], WordHash(facts[:99], 0.15)).save(tmp_path / "m")
    memory = LargeMemory.load(tmp_path / "m", model)
    for start in range(99, N, 16):
        memory.append(facts[start : start + 16])
    memory.append(facts[:0])
    assert memory.size == N
    same_answers(memory, whole)
    same_answers(LargeMemory.load(tmp_path / "m", model), whole)


def test_a_memory_that_was_appended_to_elsewhere(facts, tmp_path):
    """It has the facts of both, and shows the others' after an append of its own."""
    model = strong()
    model.remember(facts, WordHash(facts, 0.15)).save(tmp_path / "m")
    here, there = (LargeMemory.load(tmp_path / "m", model) for _ in range(2))
    here.append(facts[:50])
    before = model.remember(facts, WordHash(facts, 0.15))
    same_answers(there, before)
    there.append(facts[50:56])
    expected = np.concatenate([facts, facts[:56]])
    same_answers(there, model.remember(expected, WordHash(expected, 0.15)))
    assert (here.size, there.size) == (N + 50, N + 56)
    same_answers(LargeMemory.load(tmp_path / "m", model), there)


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


@pytest.mark.parametrize("size", [100, 4096, 9000])
def test_a_full_disk_loses_nothing(facts, tmp_path, size):
    model, path = strong(), tmp_path / "m"
    model.remember(facts, WordHash(facts, 0.15)).save(path)
    memory, before = LargeMemory.load(path, model), files_of(path)
    many = np.tile(facts, (3, 1))
    try:
        limited(size)
        for change in (
            lambda: memory.append(many),
            lambda: model.remember(many).save(path),
            lambda: LargeMemory.build(path, model, many, 0.15, verbose=0),
            lambda: LargeMemory.build(tmp_path / "new", model, many, verbose=0),
        ):
            with pytest.raises(OSError, match=r"memory\..* could not be written: "):
                change()
    finally:
        limited(resource.RLIM_INFINITY)
    assert files_of(path) == before
    assert [p.name for p in tmp_path.iterdir()] == ["m"]
    same_answers(memory, model.remember(facts, WordHash(facts, 0.15)))
    memory.append(many)
    whole = np.concatenate([facts, many])
    same_answers(memory, model.remember(whole, WordHash(whole, 0.15)))


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


def changed(statement):
    """Executes SQL in the file of a memory."""

    def spoil(path):
        db = sqlite3.connect(path / "memory.sqlite")
        db.executescript(statement)
        db.close()

    return spoil


def about(old, new):
    """Changes the text about a memory, with its checksum."""

    def spoil(path):
        db = sqlite3.connect(path / "memory.sqlite")
        (text,) = db.execute("SELECT text FROM about").fetchone()
        text = text.replace(old, new) if old else new
        db.execute("UPDATE about SET text = ?, crc = ?", [text, crc32(text.encode())])
        db.commit()
        db.close()

    return spoil


def file_of(change):
    """Changes the bytes of the file."""

    def spoil(path):
        file = path / "memory.sqlite"
        file.write_bytes(change(file.read_bytes()))

    return spoil


def flipped(data):
    place = data.index(made_facts().astype("uint8")[9].tobytes())
    return data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]


def outside(path):
    file = path / "memory.sqlite"
    file.symlink_to(file.rename(path.parent / "other.sqlite"))


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda p: (p / "memory.sqlite").unlink(), "it is no folder with a file memor"),
        (outside, "it is no folder with a file memory.sqlite"),
        (file_of(lambda data: b"facts"), "is not a database"),
        (file_of(lambda data: b""), "it has other tables"),
        (file_of(lambda data: data[:-4096]), "malformed|damaged"),
        (file_of(flipped), "facts have another checksum: it is damaged"),
        (changed("DROP TABLE postings"), "it has other tables"),
        (changed("CREATE VIEW v AS SELECT 1"), "it has other tables"),
        (changed("DELETE FROM about"), "NoneType"),
        (about("", "facts"), "Expecting value"),
        (
            changed("UPDATE about SET text = replace(text, '0.15', '0.0')"),
            "`about` has",
        ),
        (about("LargeMemory 4", "LargeMemory 9"), "its format is 'keras_attention.Lar"),
        (about("WordHash", "OtherHash"), "OtherHash"),
        (about("max_share", "share"), "max_share"),
        (about("vocabulary_size", "size"), "vocabulary_size"),
        (changed("DELETE FROM facts"), "it holds no fact"),
        (changed("UPDATE facts SET width = 4"), "it lacks facts"),
        (changed("UPDATE facts SET id = 1"), "it lacks facts"),
        (changed("UPDATE facts SET data = substr(data, 6)"), "checksum: it is damaged"),
        (changed("UPDATE facts SET data = 3"), "lacks facts"),
        (
            changed("UPDATE postings SET id = id + 1 WHERE id > 3000000"),
            "postings have",
        ),
        (changed("UPDATE postings SET data = x'0000'"), "postings have another check"),
        (changed("UPDATE postings SET crc = NULL"), "postings have another checksum"),
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


def test_a_file_is_no_memory(facts, tmp_path):
    path = tmp_path / "memory"
    path.write_text("facts")
    with pytest.raises(ValueError, match="memory is not a saved memory: it is no fol"):
        LargeMemory.load(path, strong())
    with pytest.raises(ValueError, match="`path` must be a new folder or the folder"):
        strong().remember(facts).save(path)
    assert path.read_text() == "facts"


def test_what_cannot_be_saved_or_found(facts, tmp_path):
    model, path = strong(), tmp_path / "memory"
    own = type("Own", (WordHash,), {})(facts)
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


def test_facts_out_of_range(facts, tmp_path):
    memory = strong().remember(facts)
    last = len(facts) - 1
    for numbers in ([last + 1], [-len(facts) - 1], [70_000]):
        with pytest.raises(IndexError, match="`facts` must be from"):
            memory.sentences(numbers)
    with pytest.raises(IndexError, match="`facts` must be from"):
        memory.keys(1, len(facts) + 1)
    np.testing.assert_array_equal(memory.sentences([-1]), memory.sentences([last]))


def test_a_memory_that_is_saved_to_its_own_folder_goes_on(facts, tmp_path):
    model, path = strong(), tmp_path / "memory"
    model.remember(facts, WordHash(facts, 0.15)).save(path)
    memory = LargeMemory.load(path, model)
    memory.index = WordHash(facts, 0.15, budget=50)
    memory.save(path)
    memory.append(facts[:5])
    facts = np.concatenate([facts, facts[:5]])
    expected = model.remember(facts, WordHash(facts, 0.15, budget=50))
    for same in (memory, LargeMemory.load(path, model)):
        assert same.digest() == expected.digest()
        same_answers(same, expected)


def test_a_file_that_is_no_database_is_not_replaced(facts, tmp_path):
    file = tmp_path / "memory.sqlite"
    file.write_text("A thesis. " * 99)
    with pytest.raises(OSError, match="file is not a database: delete it first"):
        strong().remember(facts).save(tmp_path)
    assert [p.read_text()[:9] for p in tmp_path.iterdir()] == ["A thesis."]


def test_a_memory_is_not_copied(facts, tmp_path):
    model = strong()
    memory = model.remember(facts)
    memory.save(tmp_path / "memory")
    loaded = LargeMemory.load(tmp_path / "memory", model)
    for each in (memory, loaded):
        with pytest.raises(TypeError, match="cannot be copied: use its `save` and `lo"):
            copy.deepcopy(each)
    index = WordHash(facts, 0.15)  # in memory
    expected = model.remember(facts, index)
    same_answers(model.remember(facts, copy.deepcopy(index)), expected)


def test_a_memory_that_was_replaced_refuses(facts, tmp_path):
    """Its connection would take the journal of the new file for its own."""
    model = strong()
    model.remember(facts, WordHash(facts, 0.15)).save(tmp_path / "memory")
    memory = LargeMemory.load(tmp_path / "memory", model)
    model.remember(facts[::-1]).save(tmp_path / "memory")
    with pytest.raises(ValueError, match="was changed since it was opened: load it"):
        memory.answer(np.array([[1, 2]]))
