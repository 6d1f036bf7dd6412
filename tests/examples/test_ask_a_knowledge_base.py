"""The example of one's own facts as a user runs it, in a process of its own."""

import pytest
from calling import refusal_of_example, run_example

FACTS = """\
painting,made by,hangs in
The Mill,painted by,Ann Lee
The Mill,hangs in,Town Hall
The Pond,painted by,Ann Lee
The Pond,painted by,Ann Lee
The Heath,painted by,Bo Dahl
The Heath,hangs in,Museum
"""
QUESTIONS = "who owns [The Mill]\tTown Hall\nwho owns [The Pond]\tMuseum\nwhy\tMuseum\n"


@pytest.mark.slow
def test_own_facts_and_questions(tmp_path):
    (tmp_path / "facts.csv").write_text(FACTS)
    (tmp_path / "questions.txt").write_text(QUESTIONS)
    options = ("--header", "--hops", "1", "--count", "600", "--epochs", "10")
    more = ("--training", "questions.txt", "--question", "Who owns The Heath?")
    again = ("--question", "Which one did Bo Dahl paint?", "--question", "Who is Zoe?")
    script = "ask_a_knowledge_base.py"
    done = run_example(script, "facts.csv", *options, *more, *again, folder=tmp_path)
    assert done.returncode == 0, done.stderr[-2000:]
    for line in (
        "5 facts about 7 entities; 2 relations: painted by, hangs in",
        "note: 1 facts are repeated; each counts once.",
        "question 2 is not used: no relation leads from The Pond to its answers",
        "question 3 is not used: The question holds no name",
        "1 questions of yours to train on",
        "\n> Who owns The Heath?\nMuseum\n    The Heath | hangs in | Museum\n",
        "\nThe Heath\n    The Heath | painted by | Bo Dahl\n",
        "\n> Who is Zoe?\nThe question holds no name",
    ):
        assert line in done.stdout, (line, done.stdout)

    # Other facts with the same relations need no training.
    (tmp_path / "new.csv").write_text("Big Sea,painted by,Al\nBig Sea,hangs in,Hall\n")
    options = ("--model", "asked", "--question", "Who painted Big Sea?")
    done = run_example(script, "new.csv", *options, folder=tmp_path)
    assert "\n> Who painted Big Sea?\nAl\n" in done.stdout, done.stderr[-2000:]
    assert "trained in" not in done.stdout


def test_what_goes_wrong_is_said_before_training(tmp_path, monkeypatch):
    (tmp_path / "wrong.nt").write_text("<a> <b> <c>\n")
    monkeypatch.chdir(tmp_path)
    options = "ask_a_knowledge_base.py", "wrong.nt"
    status, message = refusal_of_example(*options, patch=monkeypatch)
    assert status == 1
    assert "wrong.nt, line 1: a line must be a subject, a predicate" in message
    assert not (tmp_path / "asked").exists()
