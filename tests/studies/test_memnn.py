"""What the MemNN benchmark asks, trains on, keeps and reports."""

import json

import keras
import numpy as np
import pytest
from calling import needs_training

from keras_attention.datasets import babi, simulated_world
from keras_attention.models import MemNN
from studies import command_line
from studies.memnn import (
    command,
    hashing,
    indexes,
    large,
    large_training,
    large_world,
    new_names,
    readers,
    real,
    report,
    sentences,
    tasks,
    training,
)


def test_the_papers_column_has_its_mean():
    assert len(tasks.PAPER) == len(babi.TASKS)
    assert np.mean(tasks.PAPER) == pytest.approx(6.65)  # printed as 6.7


def test_batches_hold_every_question_once_and_no_needless_slots():
    examples = babi.simulate(2, 97, seed=0) + babi.simulate(1, 31, seed=1)
    vocabulary = babi.Vocabulary.from_examples(examples)
    x, y = training.arrays(examples, vocabulary, 2)
    assert y["facts"][0].tolist() == list(examples[0].supporting_facts)
    assert y["facts"][-1].tolist() == [examples[-1].supporting_facts[0], -1]
    x["number"] = np.arange(len(examples))
    batches = training.Batches(x, y, 8, seed=0, cut="story")
    seen = []
    for _ in range(2):
        numbers = []
        for i in range(len(batches)):
            inputs, targets = batches[i]
            slots = inputs["story"].shape[1]
            length = (inputs["story"] != 0).any(-1).sum(1).max()
            assert slots in (16, 32, 64, x["story"].shape[1])
            assert length <= slots <= max(16, 2 * length)
            rows = inputs["number"]
            np.testing.assert_array_equal(targets["answer"], y["answer"][rows])
            np.testing.assert_array_equal(inputs["question"], x["question"][rows])
            numbers += rows.tolist()
        assert sorted(numbers) == list(range(len(examples)))
        seen.append(numbers)
        batches.on_epoch_end()
    assert seen[0] != seen[1]


def test_on_tensorflow_the_first_two_batches_differ_in_size(monkeypatch):
    """Else Keras takes the size of both for that of all batches."""
    lengths = np.array([40] * 2 + [10] * 60)
    x = {"words": (np.arange(53) < lengths[:, None]).astype("int32")}
    monkeypatch.setattr(keras.config, "backend", lambda: "tensorflow")
    for seed in range(5):
        batches = training.Batches(x, {}, 2, seed, cut="words")
        sizes = [batches[i][0]["words"].shape[1] for i in range(len(batches))]
        assert sorted(sizes) == [16] * 30 + [53]
        assert sizes[0] != sizes[1]


def test_readers_are_given_all_words_in_their_order():
    examples = simulated_world.simulate(53, 5, "actor+object", seed=3)
    vocabulary = babi.Vocabulary.from_examples(examples)
    x, y = readers.sequences(examples, vocabulary)
    for row, answer, example in zip(x["words"], y["answer"], examples):
        words = [w for text in (*example.story, example.question) for w in text]
        assert vocabulary.decode(row[: len(words)]) == words
        assert not row[len(words) :].any()
        assert vocabulary.decode([answer]) == [example.answer]
    batches = training.Batches(x, y, 7, seed=0, cut="words")
    batch = [batches[i] for i in range(len(batches))]
    assert sum(inputs["words"].astype(bool).sum() for inputs, _ in batch) == np.sum(
        x["words"] != 0
    )
    assert len({inputs["words"].shape[1] for inputs, _ in batch}) > 2


@pytest.mark.parametrize("name", sorted(readers.READERS))
def test_a_reader_does_not_see_the_padding(name):
    recipe = {**readers.READERS[name], "embedding_dim": 3, "units": 5}
    model = readers.reader(11, recipe)
    words = np.array([[4, 2, 9, 0, 0, 0, 0], [1, 3, 5, 7, 2, 10, 6]])
    (padded, _) = model.predict({"words": words}, verbose=0)["answer"]
    (bare,) = model.predict({"words": words[:1, :3]}, verbose=0)["answer"]
    np.testing.assert_allclose(padded, bare, rtol=1e-5, atol=1e-6)
    (other,) = model.predict({"words": words[:1, [1, 0, 2]]}, verbose=0)["answer"]
    assert np.abs(bare - other).max() > 1e-4


def short_stories(count, questions, seed):
    """Of eight sentences at most, so that a backend compiles for few sizes."""
    examples = simulated_world.simulate(4 * count, 1, questions, seed=seed)
    return [example for example in examples if len(example.story) <= 8][:count]


@pytest.mark.release
@needs_training
def test_a_reader_learns_where_the_last_one_went():
    train, test = (short_stories(200, "actor", seed) for seed in (0, 1))
    recipe = {**readers.READERS["rnn"], "rate": 0.003, "epochs": 6, "units": 20}
    row = readers.read(train, test, 5, recipe)
    assert row["error"] < 72  # 80 by chance
    longest = max(train, key=lambda e: sum(map(len, e.story)) + len(e.question))
    assert row["longest"] == sum(map(len, (*longest.story, longest.question)))


@needs_training
def test_with_one_fact_at_most_the_first_one_is_to_be_found():
    examples = short_stories(32, "actor+object", 0)
    assert {len(example.supporting_facts) for example in examples} == {1, 2}
    once = {**training.TRAINING, "epochs": 1}
    row = training.learn(examples, examples, [], 0, once, training.PLAIN, most=1)
    assert row["supports"] == 1


def test_the_large_world_is_told_and_asked_right():
    """Where each object is, by reading the story fact by fact."""
    rng = np.random.default_rng(0)
    people = np.arange(7) + hashing.FIRST_PERSON
    objects = np.arange(11) + hashing.FIRST_OBJECT
    story = hashing.world(rng, 53, people, objects)
    holder, room = {}, {}
    for number, fact in enumerate(story.facts.tolist()):
        if fact[1] == hashing.WENT:
            assert fact[2:4] == [hashing.TO, hashing.THE]
            room[fact[0]] = number
        else:
            assert fact[1:3] == [hashing.TOOK, hashing.THE]
            holder[fact[3]] = number
    known = {o for o, n in holder.items() if story.facts[n, 0] in room}
    assert set(story.objects.tolist()) == known
    for name, took, went in zip(story.objects.tolist(), story.took, story.went):
        assert took == holder[name]
        assert went == room[story.facts[took, 0]]
    assert hashing.asked(objects[:2]).tolist() == [
        [hashing.WHERE, hashing.IS, hashing.THE, name] for name in objects[:2]
    ]


def test_the_world_of_millions_is_told_and_asked_right():
    """Where each object is, by reading the story fact by fact."""
    world = large_world.World(3001, seed=0)
    facts = np.concatenate(list(world)).astype(int)
    assert facts.shape == (3001, large_world.WIDTH)
    names = [tuple(sorted(set(n) - {0})) for n in world.people.tolist()]
    things = [tuple(sorted(set(n) - {0})) for n in world.objects.tolist()]
    assert len({*names}) == len(names)
    assert len({*things}) == len(things)
    assert {len(n) for n in names} == {1, 2, 3}
    holder, room, seen = {}, {}, set()
    for number, (*person, verb, fifth, sixth, seventh, eighth) in enumerate(facts):
        person = tuple(sorted(set(person) - {0}))
        if verb == large_world.WENT:
            assert (fifth, sixth, eighth) == (large_world.TO, large_world.THE, 0)
            room[person] = number, seventh
        else:
            assert (verb, fifth) == (large_world.TOOK, large_world.THE)
            thing = tuple(sorted({sixth, seventh, eighth} - {0}))
            holder[thing] = number, person
            seen |= {thing}
        seen |= {person}
    assert 0.9 * len(seen) < world.mentioned() <= len(seen)
    given = large.questions(world, 3)
    assert len(given["questions"]) == large.QUESTIONS
    for question, answer, (took, went) in zip(*given.values()):
        assert question[:3].tolist() == [
            large_world.WHERE,
            large_world.IS,
            large_world.THE,
        ]
        number, person = holder[tuple(sorted(set(question[3:].tolist()) - {0}))]
        assert (took, went, answer) == (number, *room[person])
    frequent = np.bincount(facts[:, :3].ravel())[large_world.FIRST_NAME :]
    assert frequent.max() > 20 * np.median(frequent[frequent > 0])


def test_words_of_names_share_what_is_learned():
    """Against least squares, kind by kind."""
    rng = np.random.default_rng(0)
    codes = np.zeros((11, 6))
    codes[3:7, :2], codes[7:, 2:4] = rng.normal(size=(2, 4, 2))
    shared = np.arange(6) >= 4
    seen = np.array([0, 1, 2, 3, 4, 7, 8, 9])
    names = large_training.Names(
        {"O": codes}, {"O": shared}, [np.arange(3, 7), np.arange(7, 11)], seen
    )
    trained = rng.normal(size=(8, 6))
    table = names.table("O", trained)
    np.testing.assert_array_equal(table[:3], trained[:3] * shared)
    for kind, known in (([3, 4, 5, 6], [3, 4]), ([7, 8, 9, 10], [5, 6, 7])):
        row, code = trained[known].ravel(), codes[seen[known]].ravel()
        (a,), *_ = np.linalg.lstsq(code[:, None], row, rcond=None)
        m = trained[known].mean(0) * shared
        np.testing.assert_allclose(table[kind], m + a * codes[kind], atol=1e-12)


@pytest.mark.slow
def test_steps_of_a_large_memory(tmp_path, monkeypatch):
    """With a network that finds the facts with the most words of a text."""
    monkeypatch.setattr(large, "QUESTIONS", 12)
    monkeypatch.setattr(large, "SCORED_ALL", 5)
    model = MemNN(large_training.VOCABULARY, large_training.WIDTH, supports=2)
    for table in large_training.tables(model, "O"):
        table.assign(large_training.vectors(np.random.default_rng(0)))
    model.save(tmp_path / "model.keras")
    row = large.build(tmp_path, 0, 2003)
    assert row["facts"] == 2003
    assert 16 < row["bytes_a_fact"] < 100
    assert row["processor_seconds"] > 0
    row = large.ask(tmp_path, 0, 2003)
    assert 0 < row["scored"] <= 2 * 2003
    assert row["median_milliseconds"] <= row["percentile_99_milliseconds"]
    row = large.compare(tmp_path, 0, 2003)
    assert row["same_facts"] >= 60  # 0 by chance


def test_steps_are_not_repeated(tmp_path, monkeypatch):
    done = []

    def run(command, check, env):
        done.append(command[3])
        (tmp_path / f"{command[3]}.new").write_text('{"right": 7}')

    monkeypatch.setattr(large.subprocess, "run", run)
    expected = {name: {"right": 7} for name in large.STEPS}
    for _ in range(2):
        assert large.large(0, 99, tmp_path) == {"seed": 0, "facts": 99, **expected}
    assert done == ["train", "build", "ask", "compare"]
    large.large(0, 100, tmp_path)
    assert done[4:] == ["build", "ask", "compare"]
    (tmp_path / "train.json").unlink()
    large.large(0, 100, tmp_path)
    assert done[7:] == ["train", "build", "ask", "compare"]


def test_real_triples_are_asked_by_subject_and_relation():
    facts = [("a", "r", "b"), ("b", "s", "a"), ("a", "r", "c"), ("c", "s", "c")]
    words, relations, entities = real.encoded(facts)
    assert (relations, entities) == (2, 3)
    assert words.tolist() == [[3, 1, 7], [4, 2, 6], [3, 1, 8], [5, 2, 8]]
    rng = np.random.default_rng(0)
    real_questions = {tuple(q) for q in real.sampled(rng, words, words[3:], 2).tolist()}
    assert real_questions == {(3, 1), (4, 2)}
    found = real.is_right(np.array([8, 7]), np.array([[3, 1], [4, 2]]), words)
    assert found.tolist() == [True, False]
    x, y = real.stories(rng, first=40)
    for story, question, taken in zip(x["story"], x["question"], y["facts"][:, 0]):
        assert (story[:, :2] == question).all(1).nonzero()[0].tolist() == [taken]
    assert (
        x["story"][np.arange(len(x["story"])), y["facts"][:, 0], 2] == y["answer"]
    ).all()


@needs_training
@pytest.mark.parametrize("network", ["memnn", "memnn-plain", "memn2n"])
def test_new_names_are_not_trained_on(network, monkeypatch):
    """One epoch: which words are read, not how well."""
    made = {}

    def short(stories, seed):
        assert (stories, seed) == ("world-actor", 3)
        made["train"], made["test"] = (short_stories(33, "actor", s) for s in (0, 1))
        return made["train"], made["test"]

    monkeypatch.setattr(new_names, "examples_of", short)
    settings = new_names.settings_of(network, 1)
    row = new_names.new_names("world-actor", network, 3, settings)
    for name in ("known_error", "new_error", "train_error"):
        assert 0 <= row[name] <= 100
    words = {word for e in made["train"] for fact in e.story for word in fact}
    assert words & set(new_names.NEW_NAMES)
    assert not words & set(new_names.NEW_NAMES.values())
    assert len(set(new_names.NEW_NAMES.values())) == len(new_names.NEW_NAMES) == 13


def test_a_batch_for_new_words_names_other_words_in_each_epoch():
    examples = short_stories(20, "actor", 0)
    known = babi.Vocabulary.from_examples(examples)
    x, y = training.arrays(examples, babi.with_new_words(known, 16), 1)
    settings = new_names.settings_of("memnn", None)
    batches = new_names._batches(x, y, len(known), 0, settings)
    (inputs, targets), (again, _) = batches[0], batches[0]
    assert (inputs["story"] >= len(known)).any()
    assert (inputs["story"] != again["story"]).any()
    new = targets["answer"] >= len(known)
    assert new.any()
    there = (inputs["story"] == targets["answer"][:, None, None]).any((1, 2))
    assert there[new].all()


def test_responses_are_sentences_about_what_is_asked():
    examples = simulated_world.simulate(200, 5, "actor+object+before", seed=0)
    words = babi.Vocabulary.from_examples(examples).words[2:]
    vocabulary = babi.Vocabulary([*words, "in", sentences.START, sentences.STOP])
    targets = sentences.targets(examples, vocabulary)
    made = {}
    for row, example in zip(targets, examples):
        response = sentences.response_of(example)
        assert sentences.sentence(row, vocabulary) == response
        made[example.task] = (*response[:-1], response[-1] == example.answer), example
    (actor, one), (thing, two), (before, three) = (made[task] for task in (1, 2, 3))
    assert actor == (one.question[2], "is", "in", "the", True)
    assert thing == ("the", two.question[3], "is", "in", "the", True)
    assert before == (three.question[2], "was", "in", "the", True)


def world_row(model, difficulty, questions, seed, error):
    return {
        **{"model": model, "difficulty": difficulty, "questions": questions},
        **{"seed": seed, "error": error, "train_error": 1.0, "fit_seconds": 2.0},
    }


def test_summary_and_report():
    rows = [{"error": 0.0, "paper": 0}, {"error": 8.0, "paper": 3}]
    assert report.mean_of(rows) == (
        "mean error of 2 tasks 4.00 %, paper 1.50 %; 1 tasks above 5 %"
    )
    settings = tasks.babi_settings("rich", 3)
    runs = [
        {"backend": "jax", "keras": "3.15.1", "settings": settings, "result": row}
        for row in rows
    ]
    found = report.report({"babi": runs, "world": []})
    assert found["babi"] == rows
    assert found["settings"] == {"babi": settings, "world": {}}
    assert found["what"] == (
        "MemNN with supporting facts; bAbI v1-2, 1,000 questions a task"
    )
    assert found["paper"]["mean"] == pytest.approx(6.65)
    assert set(report.NAMES) == set(tasks.MODELS)
    assert set(report.WHAT) == set(command.PARTS)
    assert len(json.dumps(found)) > 500


def test_the_report_tells_what_the_runs_were_made_with(tmp_path, monkeypatch):
    """Not what the process has that resumes them."""
    out, summary = tmp_path / "runs.jsonl", tmp_path / "all.json"
    common = ["--parts", "world", "--epochs", 3, "--out", out, "--json", summary]
    tell(monkeypatch)
    monkeypatch.setattr(keras, "__version__", "3.99")
    assert run_command(*common, "--models", "rnn") == 0
    monkeypatch.undo()
    tell(monkeypatch)
    assert run_command(*common, "--models", "memnn", "lstm", "rnn") == 0
    found = json.loads(summary.read_text("utf-8"))
    assert found["versions"]["keras"] == sorted(["3.99", keras.__version__])
    assert found["versions"]["backend"] == [keras.config.backend()]
    assert found["what"] == (
        "MemNN with supporting facts; simulated world, 3,000 questions to learn from"
    )
    settings = found["settings"]["world"]
    assert set(settings) == {"memnn", "lstm", "rnn"}
    assert settings["memnn"]["training"]["epochs"] == 3
    for name in ("lstm", "rnn"):
        assert settings[name]["reader"] == {**readers.READERS[name], "epochs": 3}


def test_the_worlds_table_has_a_row_a_world_and_a_column_a_model():
    rows = [
        world_row("lstm", 1, "actor", 0, 3.0),
        world_row("lstm", 1, "actor", 2, 5.0),
        world_row("lstm", 5, "actor+object", 0, 70.0),
        world_row("memnn", 1, "actor", 0, 0.5),
    ]
    lines = report.world_table(rows).splitlines()
    assert lines[0] == "| difficulty, questions | MemNN, 2 facts | LSTM |"
    assert lines[2] == "| 1, actor | 99.5 | 96.0 |"
    assert "| 5, actor, object |  | 30.0 |" in lines


def run_command(*arguments):
    return command_line.main(["memnn", *(str(argument) for argument in arguments)])


def tell(monkeypatch, stop_after=None):
    """Puts made-up rows in the place of trained ones; returns what was done."""
    done = []

    def in_world(model, difficulty, kind, seed, settings):
        if len(done) == stop_after:
            raise KeyboardInterrupt
        done.append((model, difficulty, kind, seed))
        return world_row(model, difficulty, kind, seed, float(len(done)))

    monkeypatch.setattr(tasks, "in_world", in_world)
    return done


def test_a_stopped_benchmark_goes_on(tmp_path, monkeypatch, capsys):
    out, summary = tmp_path / "runs.jsonl", tmp_path / "all.json"
    common = ["--parts", "world", "--models", "rnn", "lstm", "--out", out]
    first = tell(monkeypatch, stop_after=5)
    with pytest.raises(KeyboardInterrupt):
        run_command(*common)
    assert len(first) == 5
    whole = out.read_text("utf-8")
    out.write_text(whole[:-9], encoding="utf-8")  # it died while it was writing
    rest = tell(monkeypatch)
    assert run_command(*common, "--seeds", 0, 0, "--json", summary) == 0
    said = capsys.readouterr().out
    assert "the last line was half-written and was dropped." in said
    assert [first[-1], *rest[1:]] == rest
    everything = [(m, *world, 0) for m in ("rnn", "lstm") for world in tasks.WORLDS]
    assert first[:4] + rest == everything
    rows = json.loads(summary.read_text("utf-8"))["world"]
    assert [row["model"] for row in rows] == ["rnn"] * 8 + ["lstm"] * 8
    left = [1.0 + n for n in range(2 * len(tasks.WORLDS) - 4)]
    assert [row["error"] for row in rows] == [1.0, 2.0, 3.0, 4.0, *left]
    assert all(json.loads(line)["part"] for line in out.read_text().splitlines())

    nothing = tell(monkeypatch, stop_after=0)
    again = tmp_path / "again.json"
    assert run_command(*common, "--json", again) == 0
    assert nothing == []
    assert json.loads(again.read_text("utf-8"))["world"] == rows
    with pytest.raises(KeyboardInterrupt):  # another seed is another run
        run_command(*common, "--seeds", 1)


def test_runs_with_other_settings_are_not_mixed(tmp_path, monkeypatch, capsys):
    out = tmp_path / "runs.jsonl"
    common = ["--parts", "world", "--out", out, "--models"]
    done = tell(monkeypatch)
    assert run_command(*common, "lstm") == 0
    assert run_command(*common, "rnn", "lstm", "--epochs", 3) == 2
    assert len(done) == len(tasks.WORLDS)  # the error comes before the first run
    assert (
        f"--out {out} has runs of lstm with other settings (reader). Name another file."
    ) in capsys.readouterr().err
    out.write_text('{"recipe": "memn2n"}\n')
    assert run_command(*common, "rnn") == 2
    assert "line 1 is a run without ['part', " in capsys.readouterr().err


def test_settings_tell_one_recipe_from_another():
    chosen, rich = (tasks.babi_settings(name, None) for name in ("chosen", "rich"))
    assert list(chosen["recipes"]) == ["plain", "rich"]
    assert list(rich["recipes"]) == ["rich"]
    assert tasks.babi_settings("rich", 3)["training"]["epochs"] == 3
    settings = [tasks.world_settings(model, None) for model in tasks.MODELS]
    assert all(settings.count(each) == 1 for each in settings)
    json.dumps([chosen, settings, hashing.SETTINGS])


def test_an_unknown_task_and_all_that_can_be_asked(capsys):
    assert run_command("--parts", "babi", "--tasks", 21) == 2
    assert "--tasks must be from 1 to 20. Received: [21]" in capsys.readouterr().err
    given = arguments("--seeds", 4, "--parts", *command.PARTS)
    jobs = [*command.jobs_of(given)]
    assert {job.wanted["part"] for job in jobs} == set(command.PARTS)
    kinds = [job.wanted["kind"] for job in jobs if job.wanted["part"] == "indexes"]
    assert kinds == [*indexes.KINDS]


def arguments(*given):
    parser = command.argparse.ArgumentParser()
    command.add_arguments(parser)
    return parser.parse_args([str(each) for each in given])
