"""Several processes at a memory on the disk, and processes that are killed."""

import os
import signal
import time

import large_memories
import numpy as np
import pytest

from keras_attention.models import LargeMemory, WordHash
from keras_attention.models.memory_networks import fact_file

WORDS, L, APPENDS = 100, 4, 60
RNG = np.random.default_rng(0)
FACTS = RNG.integers(1, WORDS, (100, L))
MORE = RNG.integers(1, WORDS, (3000, L))
QUESTIONS = RNG.integers(1, WORDS, (5, L))

pytestmark = [
    pytest.mark.backends("torch", reason="no backend has a part in it"),
    pytest.mark.skipif(not hasattr(os, "fork"), reason="the tests fork a process"),
    # The children use SQLite and NumPy alone.
    pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning"),
]


@pytest.fixture
def model():
    return large_memories.strong_network(WORDS, 5)


@pytest.fixture
def path(model, tmp_path):
    model.remember(FACTS, WordHash(FACTS, 0.5)).save(tmp_path / "m")
    return tmp_path / "m"


def forked(function, *arguments):
    """Runs a function in a child, which then ends at once."""
    child = os.fork()
    if not child:
        try:
            function(*arguments)
            os._exit(0)
        finally:
            os._exit(1)
    return child


def end_of(child):
    """Waits for a child; returns its exit code, or minus the signal that ended it."""
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def facts_in(path, model):
    """Reads a memory, and checks its hash against a new one."""
    memory = LargeMemory.load(path, model)
    facts = memory.sentences(np.arange(memory.size))
    expected = model.remember(facts, WordHash(facts, 0.5))
    large_memories.same_answers(memory, expected, QUESTIONS)
    for question in QUESTIONS:
        np.testing.assert_array_equal(
            memory.index.candidates(question), expected.index.candidates(question)
        )
    return facts


def part(process, n):
    """The facts of an append, which tell the process and the number of the append."""
    facts = np.full((1 + n % 3, L), 1 + process)
    facts[:, 1] = 1 + n % (WORDS - 1)
    return facts


def append_parts(path, process, acknowledge=None, appends=APPENDS):
    file, _, index = fact_file.opened(path, verify=False)
    for n in range(appends):
        file.append(part(process, n), index)
        if acknowledge is not None:
            os.write(acknowledge, b".")


@pytest.mark.slow
def test_two_processes_append_at_once(path, model):
    children = [forked(append_parts, path, process) for process in range(2)]
    assert [end_of(child) for child in children] == [0, 0]
    facts = facts_in(path, model)
    np.testing.assert_array_equal(facts[: len(FACTS)], FACTS)
    new = facts[len(FACTS) :]
    for process in range(2):
        expected = np.concatenate([part(process, n) for n in range(APPENDS)])
        np.testing.assert_array_equal(new[new[:, 0] == 1 + process], expected)
    assert len(new) == 2 * len(expected)


class Dying:
    """A connection that kills its process in the nth of its steps.

    A step is a statement, or a row of a statement of many.
    """

    def __init__(self, db, nth=None):
        self.db, self.left, self.steps = db, nth, 0
        db.execute("PRAGMA cache_size = 1")  # changes reach the file before the commit

    def step(self):
        self.steps += 1
        if self.steps == self.left:
            os.kill(os.getpid(), signal.SIGKILL)

    def execute(self, *arguments):
        self.step()
        return self.db.execute(*arguments)

    def executemany(self, sql, rows):
        return self.db.executemany(sql, (self.step() or row for row in rows))

    def __getattr__(self, name):
        return getattr(self.db, name)


def append_and_die(path, nth=None):
    file, _, index = fact_file.opened(path, verify=False)
    file._db = Dying(file._db, nth)
    file.append(MORE, index)
    return file._db.steps


@pytest.mark.slow
def test_a_kill_at_ten_points_of_an_append(model, tmp_path):
    steps, journals = None, 0
    for tenth in range(11):
        path = tmp_path / str(tenth)
        model.remember(FACTS, WordHash(FACTS, 0.5)).save(path)
        if not tenth:
            steps = append_and_die(path)  # to its end
            assert steps > WORDS
            continue
        nth = 1 + (steps - 1) * (tenth - 1) // 9  # the last step is after the commit
        assert end_of(forked(append_and_die, path, nth)) == -signal.SIGKILL
        journals += (path / "memory.sqlite-journal").exists()
        expected = np.concatenate([FACTS, MORE]) if nth == steps else FACTS
        np.testing.assert_array_equal(facts_in(path, model), expected)
        memory = LargeMemory.load(path, model)
        memory.append(MORE[:7])
        del memory
        expected = np.concatenate([expected, MORE[:7]])
        np.testing.assert_array_equal(facts_in(path, model), expected)
    assert journals >= 5


@pytest.mark.release
def test_a_kill_at_any_time_of_many_appends(path, model):
    count, rng = len(FACTS), np.random.default_rng(1)
    for process in range(10):
        reading, writing = os.pipe()
        child = forked(append_parts, path, process, writing, 10**6)
        os.close(writing)
        os.read(reading, 1)  # the first append is acknowledged
        time.sleep(rng.uniform(0, 0.2))
        os.kill(child, signal.SIGKILL)
        assert end_of(child) == -signal.SIGKILL
        acknowledged = 1
        while data := os.read(reading, 2**16):
            acknowledged += len(data)
        os.close(reading)
        facts = facts_in(path, model)[count:]
        parts = [part(process, n) for n in range(acknowledged + 1)]
        whole = np.concatenate(parts)
        assert len(facts) in (len(whole) - len(parts[-1]), len(whole))
        np.testing.assert_array_equal(facts, whole[: len(facts)])
        count += len(facts)


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_kill_when_a_memory_is_replaced(path, model, when):
    replace = os.replace

    def die(*arguments):
        if when == "after":
            replace(*arguments)
        os.kill(os.getpid(), signal.SIGKILL)

    def write():
        _, about, index = fact_file.opened(path, verify=False)
        os.replace = die
        fact_file.write(path, about, [[MORE]], index)

    assert end_of(forked(write)) == -signal.SIGKILL
    expected = MORE if when == "after" else FACTS
    np.testing.assert_array_equal(facts_in(path, model), expected)
    model.remember(MORE[:50], WordHash(MORE[:50], 0.5)).save(path)
    np.testing.assert_array_equal(facts_in(path, model), MORE[:50])
    assert [file.name for file in path.iterdir()] == ["memory.sqlite"]


def test_a_kill_of_the_first_build(tmp_path, model):
    path = tmp_path / "m"

    def blocks():
        yield [MORE]
        os.kill(os.getpid(), signal.SIGKILL)

    about = {"sizes": {"vocabulary_size": WORDS}}
    child = forked(fact_file.write, path, about, blocks(), None)
    assert end_of(child) == -signal.SIGKILL
    with pytest.raises(ValueError, match="m is not a saved memory"):
        LargeMemory.load(path, model)
    model.remember(FACTS, WordHash(FACTS, 0.5)).save(path)
    np.testing.assert_array_equal(facts_in(path, model), FACTS)


def test_a_full_disk_in_an_append(path, model):
    memory = LargeMemory.load(path, model)
    pages = memory._file._db.execute("PRAGMA page_count").fetchone()[0]
    memory._file._db.execute(f"PRAGMA max_page_count = {pages + 1}")
    with pytest.raises(OSError, match="could not be written: database or disk is full"):
        memory.append(MORE)
    assert memory.size == len(FACTS)
    np.testing.assert_array_equal(facts_in(path, model), FACTS)
    memory.append(MORE[:3])
    expected = np.concatenate([FACTS, MORE[:3]])
    np.testing.assert_array_equal(facts_in(path, model), expected)


def test_an_append_waits_for_another_process(path, model, monkeypatch):
    monkeypatch.setattr(fact_file, "WAIT", 0.1)
    memory, other = (LargeMemory.load(path, model) for _ in range(2))
    with other._file.locked():
        memory.answer(QUESTIONS)  # reading does not wait
        with pytest.raises(OSError, match="could not be written: database is locked"):
            memory.append(MORE)
    memory.append(MORE)
    expected = np.concatenate([FACTS, MORE])
    np.testing.assert_array_equal(facts_in(path, model), expected)
