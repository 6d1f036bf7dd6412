"""The benchmark of entity linking, on a few films."""

import json

from studies import command_line
from studies.linking import command as linking

FILMS = ["The Pond", "Big Mill", "Mill Race", "Rocky II", "Café", "Mr. Heath's Hat"]


def test_generate():
    films = [*FILMS, "Up", "Old Mill 3", "Spider-Man", "Élan", "The Grass Hopper"]
    cases = linking.generate(films, [*films, "café"], count=24)
    assert cases == linking.generate(films, [*films, "café"], count=24)
    assert {case.form for case in cases} == {*linking.FORMS}
    for case in cases:
        assert case.film in case.expected, case
    accents = [case for case in cases if case.form == "accents left out"]
    assert all("é" not in case.text.lower() for case in accents)
    assert {"Café", "café"} in [{*case.expected} for case in accents]


def test_command(tmp_path, monkeypatch, capsys):
    root = tmp_path / "kb" / "metaqa"
    root.mkdir(parents=True)
    lines = [f"{film}|directed_by|Ann {i}" for i, film in enumerate(FILMS)]
    (root / "kb.txt").write_text("\n".join(lines), encoding="utf-8")
    monkeypatch.setenv("KERAS_ATTENTION_DATA", str(tmp_path))
    own = tmp_path / "own.txt"
    own.write_text(
        "what is rocky 2's genre\tRocky II\n"
        "who made the film Mill\tBig Mill|Mill Race\n"
        "who made the film Race\tBig Mill|Mill Race\n"  # a wrong expectation
        "who made pond\tBig Mill\n"
        "who made nothing\tBig Mill\n"
        "who made the film mill\tMill Race\n"
    )
    assert command_line.main(["linking", "--questions", str(own), "--show"]) == 0
    printed = capsys.readouterr().out
    assert "| questions of the file | 6 | 2 (33.3 %) | 2 | 1 | 1 | 2 |" in printed
    assert "wrong: 'who made pond' -> The Pond; it is ('Big Mill',)" in printed
    assert "7 entities" not in printed
    assert "12 entities: built in" in printed


def test_metaqas_questions_and_the_raw_file(tmp_path, monkeypatch, capsys):
    root = tmp_path / "kb" / "metaqa"
    (root / "1-hop" / "vanilla").mkdir(parents=True)
    lines = [f"{film}|directed_by|Ann {i}" for i, film in enumerate(FILMS)]
    (root / "kb.txt").write_text("\n".join(lines), encoding="utf-8")
    asked = "what films did [Ann 3] direct\tRocky II\nwho made [Ruin]\tAnn 1\n"
    (root / "1-hop" / "vanilla" / "qa_dev.txt").write_text(asked)
    monkeypatch.setenv("KERAS_ATTENTION_DATA", str(tmp_path))
    own, raw = tmp_path / "own.txt", tmp_path / "linking.json"
    own.write_text("what is rocky 2's genre\tRocky II\n")
    options = ["--questions", str(own), "--hops", "1", "--json", str(raw)]
    assert command_line.main(["linking", *options]) == 0
    results = json.loads(raw.read_text("utf-8"))
    counts = {"right": 1, "wrong": 0, "said": 0, "unknown": 1}
    counts |= {"several": 0, "missing": 1}
    assert results["counts"]["MetaQA, 1 hop"] == counts
    assert results["entities"] == 12
    results["counts"]["possessive"] = {**counts, "unknown": 0}
    tables = linking.tables({"linking": results})
    row = "| possessive | Who is Titanic's director? | 1 | 1 (100.0 %) | 0 | 0 |"
    assert row in tables["forms"]
    assert "| MetaQA, 1 hop | 2 | 1 (50.0 %) | 0 | 0 | 1 | 1 |" in tables["metaqa"]
