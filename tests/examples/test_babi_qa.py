"""The example as a user runs it."""

import pytest
from calling import refusal_of_example, run_example, short_and_long


@pytest.mark.parametrize(("epochs", "learns"), short_and_long(2, 40))
def test_from_training_to_a_story_of_ones_own(epochs, learns, tmp_path, monkeypatch):
    (tmp_path / "story.txt").write_text(
        "Where is Mary?\nMary went to the kitchen.\nJohn went to the zoo.\n"
        "Where is Mary?\nMary went back to the office.\n"
    )
    options = ("--data", "simulated", "--epochs", epochs, "--story", "story.txt")
    patch = None if learns else monkeypatch
    done = run_example("babi_qa.py", *options, folder=tmp_path, patch=patch)
    assert done.returncode == 0, done.stderr[-2000:]
    (line,) = [x for x in done.stdout.splitlines() if x.startswith("test accuracy: ")]
    assert float(line.split()[2]) >= (90 if learns else 10)
    assert "attention in %" in done.stdout
    assert "saved, loaded again, and the answer is the same" in done.stdout
    assert "There is no story before this question: Where is Mary?" in done.stdout
    assert "note: never seen in training: zoo. All such words" in done.stdout
    assert "note: nothing is asked after the last sentences" in done.stdout
    for name in ("model.keras", "vocabulary.txt", "hops.png", "own_1.png"):
        assert (tmp_path / "babi_qa" / name).stat().st_size > 100


def test_a_story_in_the_format_of_babi(tmp_path, monkeypatch):
    (tmp_path / "story.txt").write_text(
        "1 Mary went to the kitchen.\n2 Where is Mary? \tkitchen\t1\n"
        "1 John went to the garden.\n2 Where is John?\tgarden\t1\n"
    )
    options = ("--data", "simulated", "--epochs", "1", "--story", "story.txt")
    done = run_example("babi_qa.py", *options, folder=tmp_path, patch=monkeypatch)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.count("question: where is") == 3  # of the test set, and both
    assert "never seen in training" not in done.stdout
    assert not (tmp_path / "babi_qa" / "own_3.png").exists()


def test_what_goes_wrong_is_said_before_training(tmp_path, monkeypatch, capsys):
    def refusal(*arguments):
        return refusal_of_example("babi_qa.py", *arguments, patch=monkeypatch)

    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    status, said = refusal("--out", "file")
    assert status == 1
    assert said.startswith("cannot write to file: ")
    assert "Choose another --out." in said
    for option in ("--epochs", "--hops", "--dim"):
        assert refusal(option, "0")[0] == 2
        assert f"{option}: must be at least 1. Received: 0" in capsys.readouterr().err
    status, said = refusal("--story", "missing.txt")
    assert status == 1
    assert "cannot read the story missing.txt: No such file" in said
    for text in ("Mary went to the kitchen.", "1 Mary ran.\n2 Mary sat."):
        (tmp_path / "mute.txt").write_text(text)
        status, said = refusal("--story", "mute.txt")
        assert status == 1
        assert said.startswith("no question in mute.txt")
    assert "questions to train on" not in capsys.readouterr().out
    assert not (tmp_path / "babi_qa").exists()
    status, said = refusal("--model", ".")
    assert status == 1
    assert "holds no model.keras" in said
