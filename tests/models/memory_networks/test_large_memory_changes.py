"""A large memory whose index was replaced, and what an index may return."""

import pathlib
import struct
import threading

import large_memories
import numpy as np
import pytest
from large_memories import files_of, strong_network

from keras_attention.losses import SupportingFactLoss
from keras_attention.models import ClusterHash, LargeMemory, MemNN, WordHash
from keras_attention.models.memory_networks import fact_file

WORDS = 41
FACTS = np.random.default_rng(0).integers(1, WORDS, (300, 4))
QUESTIONS = np.random.default_rng(1).integers(1, WORDS, (20, 3))


def network(**arguments):
    return strong_network(WORDS, 8, **arguments)


def same_answers(memory, expected, questions=QUESTIONS):
    large_memories.same_answers(memory, expected, questions)


class Own:
    """An index of one's own, which returns what it is given."""

    def __init__(self, size, numbers=None):
        self.size, self.numbers = size, numbers

    def candidates(self, words, query=None):
        return self.numbers

    def append(self, facts):
        self.size += len(facts)


@pytest.mark.parametrize(
    "replaced",
    [
        lambda model: None,
        lambda model: Own(270),
        lambda model: WordHash(FACTS[:270], 0.15),
        lambda model: ClusterHash(FACTS[:270], model.word_vectors(), 5, 1.0),
    ],
)
def test_append_on_the_disk_wants_the_index_that_was_loaded(tmp_path, replaced):
    model, path = network(), tmp_path / "m"
    model.remember(FACTS[:250], WordHash(FACTS[:250], 0.15)).save(path)
    memory = LargeMemory.load(path, model)
    memory.append(FACTS[250:270])
    loaded, before = memory.index, files_of(path)
    memory.index = replaced(model)
    with pytest.raises(ValueError, match="`index` must be the one that was loaded"):
        memory.append(FACTS[270:])
    assert memory.size == 270
    assert memory.index is None or memory.index.size == 270
    assert files_of(path) == before
    memory.index = loaded
    memory.append(FACTS[270:])
    whole = model.remember(FACTS, WordHash(FACTS, 0.15))
    same_answers(memory, whole)
    same_answers(LargeMemory.load(path, model), whole)


def test_an_index_that_fails_to_grow_leaves_the_memory_as_it_was():
    memory = network().remember(FACTS, Own(300))
    memory.index.append = lambda facts: 1 / 0
    with pytest.raises(ZeroDivisionError):
        memory.append(FACTS[:7])
    memory.index.append = lambda facts: None  # does not grow
    with pytest.raises(ValueError, match=r"index\.size=300, len\(facts\)=307"):
        memory.append(FACTS[:7])
    assert memory.size == 300
    # An index that two memories share has grown with the other.
    hash_ = WordHash(FACTS)
    first, other = (network().remember(FACTS, hash_) for _ in range(2))
    first.append(FACTS[:7])
    with pytest.raises(ValueError, match=r"index\.size=307, len\(facts\)=300"):
        other.append(FACTS[:7])
    assert other.size == 300


def test_two_hops_with_one_candidate():
    """The second hop has no fact left to score."""
    model = MemNN(300, embedding_dim=4, supports=2)
    facts = np.random.default_rng(2).integers(3, 200, (200, 3))
    facts[:, 0], facts[7] = 1, [1, 1, 299]
    memory = model.remember(facts, WordHash(facts, 0.01))
    answers = memory.answer(np.array([[299, 1, 0]]))
    assert answers.facts.tolist() == [[7, -1]]


def test_words_in_narrow_integers():
    facts = np.array([[255, 1], [3, 1], [254, 255]])
    for dtype in ("uint8", "uint16", "int64"):
        index = WordHash(facts.astype(dtype), 1.0)
        assert index.candidates(np.array([255], dtype)).tolist() == [0, 2]
        assert index.candidates(np.array([254, 0], dtype)).tolist() == [2]
        vectors = np.arange(256.0)[:, None]
        index = ClusterHash(facts.astype(dtype), vectors, 4, 1.0)
        assert index.candidates(np.array([255], dtype)).tolist() == [0, 2]
    most = WordHash(np.array([[2**16 - 1]], "uint16"), 1.0)
    assert most.candidates(np.array([2**16 - 1], "uint16")).tolist() == [0]


def test_empty_facts_are_no_candidates_of_an_index_either():
    model, facts = network(time=False), FACTS.copy()
    facts[5:295] = 0
    whole = model.remember(facts)
    same = model.remember(facts, Own(300, np.arange(300)))
    same_answers(same, whole)
    facts = whole.answer(QUESTIONS).facts
    assert ((facts < 5) | (facts >= 295)).all()


@pytest.mark.parametrize(
    "numbers",
    [
        [5, 3],
        np.array([5, 3], "uint32"),
        [5, 5],
        [-1, 3],
        [299, 300],
        [1.5],
        [[1, 2]],
        [True],
    ],
)
def test_wrong_candidates_are_refused(numbers):
    memory = network().remember(FACTS, Own(300, np.asarray(numbers)))
    with pytest.raises(
        ValueError, match=r"`index\.candidates` must return None or .* from 0 to 299"
    ):
        memory.answer(QUESTIONS)


@pytest.mark.parametrize(
    "questions", [QUESTIONS[0], QUESTIONS / 2, QUESTIONS[None], QUESTIONS > 3]
)
def test_wrong_questions_are_refused(questions):
    with pytest.raises(ValueError, match=r"`questions` must be integers \(questions, "):
        network().remember(FACTS).answer(questions)


def test_facts_without_words_are_refused(tmp_path):
    with pytest.raises(ValueError, match=r"`facts` must be integers .*more words"):
        network().remember(FACTS[:, :0])
    with pytest.raises(ValueError, match=r"`facts` must be integers .*more words"):
        LargeMemory.build(tmp_path / "m", network(), FACTS[:, :0], verbose=0)
    assert not (tmp_path / "m").exists()


@pytest.mark.parametrize(
    "file",
    ["thesis.txt", "memory.sqlite/thesis.txt", "memory.new/facts", "memory.sqlite.bak"],
)
def test_a_users_files_stay(tmp_path, file):
    path = tmp_path / "m"
    mine = path / file
    mine.parent.mkdir(parents=True)
    mine.write_text("mine")
    for change in (
        lambda: network().remember(FACTS).save(path),
        lambda: LargeMemory.build(path, network(), FACTS, verbose=0),
    ):
        with pytest.raises(ValueError, match="`path` must be a new folder or the fold"):
            change()
        assert files_of(path) == {mine.relative_to(path): b"mine"}


def test_a_link_is_not_replaced(tmp_path):
    path = tmp_path / "m"
    path.mkdir()
    (tmp_path / "mine").write_text("mine")
    (path / "memory.sqlite").symlink_to(tmp_path / "mine")
    with pytest.raises(ValueError, match="`path` must be a new folder or the folder"):
        network().remember(FACTS).save(path)
    assert (tmp_path / "mine").read_text() == "mine"


@pytest.mark.parametrize("change", ["load", "save"])
@pytest.mark.parametrize("suffix", ["", "-journal", "-wal"])
def test_a_memory_with_a_link_is_refused(tmp_path, suffix, change):
    model, path = network(), tmp_path / "m"
    model.remember(FACTS).save(path)
    mine, link = tmp_path / "mine", path / f"memory.sqlite{suffix}"
    mine.write_text("mine")
    link.unlink(missing_ok=True)
    link.symlink_to(mine)
    memory = model.remember(FACTS)
    use = {"load": lambda: LargeMemory.load(path, model)}
    use["save"] = lambda: memory.save(path)
    with pytest.raises(ValueError, match=r"no links|no folder with|must be a new f"):
        use[change]()
    assert mine.read_text() == "mine"
    assert link.is_symlink()


def test_a_journal_that_names_a_file_outside_is_refused(tmp_path):
    """SQLite would delete the file as the journal of several databases."""
    model, path = network(), tmp_path / "m"
    model.remember(FACTS).save(path)
    mine = tmp_path / "mine"
    mine.write_text("mine")
    pages = (path / "memory.sqlite").stat().st_size // 4096
    magic, name = bytes.fromhex("d9d505f920a163d7"), bytes(mine)
    header = magic + struct.pack(">5I", 0, 1, pages, 512, 4096)
    record = struct.pack(">I", 2**30 // 4096 + 1) + name
    record += struct.pack(">2I", len(name), sum(name)) + magic
    journal = path / "memory.sqlite-journal"
    journal.write_bytes(header.ljust(512, b"\0") + record)
    for change in (
        lambda: LargeMemory.load(path, model),
        lambda: model.remember(FACTS).save(path),
    ):
        with pytest.raises(ValueError, match=r"name no other file\. Received: "):
            change()
    assert mine.read_text() == "mine"


def test_a_journal_may_vanish(tmp_path, monkeypatch):
    """Another process that commits deletes its journal, after it was listed."""
    model, path = network(), tmp_path / "m"
    model.remember(FACTS).save(path)
    journal = path / "memory.sqlite-journal"
    monkeypatch.setattr(pathlib.Path, "glob", lambda *_: [journal])
    LargeMemory.load(path, model)


@pytest.mark.parametrize(
    "change",
    [
        lambda p: setattr(p, "data", p.data + 1),
        lambda p: p.data.add_(1),
        lambda p: p.data.copy_(p.data.flip(0)),
    ],
)
def test_weights_that_change_through_data_are_noticed(change):
    model = network(nonlinear=True)
    for part in ("candidate", "map"):
        memory = model.remember(FACTS)
        memory.answer(QUESTIONS)
        value = getattr(model.get_layer("O"), part).weights[0].value
        if not hasattr(value, "data_ptr"):
            pytest.skip("of torch")
        change(value)
        with pytest.raises(ValueError, match="`model` was trained since the memory"):
            memory.answer(QUESTIONS)


@pytest.mark.slow_on("jax", "tensorflow")
@pytest.mark.backends("torch", "jax", "tensorflow")
def test_a_memory_does_not_answer_for_a_model_that_was_trained_since():
    model = network(nonlinear=True)
    memory = model.remember(FACTS)
    loss = SupportingFactLoss(margin=0.1)
    model.compile("sgd", {"facts": loss, "answer": loss})
    expected = memory.answer(QUESTIONS).facts
    story = np.tile(FACTS[None, :9], (20, 1, 1))
    x, y = {"story": story, "question": QUESTIONS}, QUESTIONS[:, 0]
    model.predict(x, verbose=0)
    memory.answer(QUESTIONS)  # the weights are the same
    model.set_weights(model.get_weights())
    words = model.get_layer("R").words.weights[0]
    words.assign(words + 1)
    np.testing.assert_array_equal(memory.answer(QUESTIONS).facts, expected)
    facts = np.tile(np.array([[3, 5]]), (20, 1))
    for change in (
        lambda: model.fit(
            {**x, "supporting_facts": facts}, {"facts": facts, "answer": y}, verbose=0
        ),
        lambda: model.get_layer("O").map.weights[-1].assign_add(np.ones(8)),
    ):
        memory = model.remember(FACTS)
        memory.answer(QUESTIONS)
        change()
        for _ in range(2):
            with pytest.raises(
                ValueError, match="`model` was trained since the memory"
            ):
                memory.answer(QUESTIONS)
        with pytest.raises(ValueError, match="`model` was trained since the memory"):
            memory.keys(0, 3)
        model.remember(FACTS).answer(QUESTIONS)


def test_the_digest_is_of_the_facts_and_the_model(tmp_path):
    model = network()
    memory, parts = model.remember(FACTS), model.remember(FACTS[:290])
    other = parts.digest()
    parts.append(FACTS[290:])
    assert memory.digest() == parts.digest() != other
    memory.save(tmp_path / "m")
    assert LargeMemory.load(tmp_path / "m", model).digest() == memory.digest()
    assert network().remember(FACTS).digest() != memory.digest()
    facts = FACTS.copy()
    facts[151, 1] = 1 + facts[151, 1] % (WORDS - 1)
    assert model.remember(facts).digest() != memory.digest()


def test_threads_wait_while_another_appends(tmp_path, monkeypatch):
    """Two threads in one SQLite connection can block each other for ever."""
    rng = np.random.default_rng(0)
    facts, questions = rng.integers(1, 30, (60, 3)), rng.integers(1, 30, (4, 2))
    model = strong_network(30, 8)
    model.remember(facts[:40], WordHash(facts[:40], 0.5)).save(tmp_path / "m")
    memory = LargeMemory.load(tmp_path / "m", model)
    writes, goes_on, answers = threading.Event(), threading.Event(), []
    add = fact_file.FactFile._add

    def slow(self, *args):
        add(self, *args)
        writes.set()
        assert goes_on.wait(30)

    monkeypatch.setattr(fact_file.FactFile, "_add", slow)
    threads = [
        threading.Thread(target=memory.append, args=(facts[40:],)),
        threading.Thread(target=lambda: answers.append(memory.answer(questions))),
    ]
    threads[0].start()
    assert writes.wait(30)
    threads[1].start()
    threads[1].join(0.2)
    waited = threads[1].is_alive()
    goes_on.set()
    for thread in threads:
        thread.join(30)
    assert waited
    expected = model.remember(facts, WordHash(facts, 0.5)).answer(questions)
    np.testing.assert_array_equal(answers[0].facts, expected.facts)
