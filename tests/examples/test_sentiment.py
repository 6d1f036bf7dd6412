"""The example of sentiment as a user runs it, on a few sentences of one's own."""

import gzip

import pytest
from calling import run_example, short_and_long

TEXTS = [
    f"{start} {word} {thing}\t{label}"
    for start in ("what a", "this is a", "oh , one more")
    for label, words in enumerate((("dull", "poor", "flat"), ("fine", "warm", "wise")))
    for word in words
    for thing in ("film", "story", "comedy", "tale", "cast")
]


@pytest.mark.parametrize(("epochs", "learns"), short_and_long(1, 2))
def test_from_files_to_a_picture(epochs, learns, tmp_path, monkeypatch):
    (tmp_path / "text").mkdir()
    for split, lines in (("train", TEXTS), ("dev", TEXTS[::3]), ("test", TEXTS[::2])):
        path = tmp_path / "text" / f"sst2.{split}.tsv.gz"
        path.write_bytes(gzip.compress("\n".join(lines).encode()))
    done = run_example(
        *("sentiment.py", "--epochs", epochs, "--dim", 8),
        *("--text", "a fine film", "--text", "so dull"),
        folder=tmp_path,
        patch=None if learns else monkeypatch,
        KERAS_ATTENTION_DATA=str(tmp_path),
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert f"{len(TEXTS)} sentences, 23 words" in done.stdout
    assert "test: " in done.stdout
    for text in ("a fine film", "so dull"):
        assert f"\n{text}\n  " in done.stdout
    assert "loaded again: the same answers" in done.stdout
    folder = tmp_path / "sentiment"
    for name in ("model.keras", "attention.png", "words.txt"):
        assert (folder / name).stat().st_size > 100
