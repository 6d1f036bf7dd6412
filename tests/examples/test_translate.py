"""The example of translation as a user runs it, on a few sentences of one's own."""

import gzip

import pytest
from calling import run_example, short_and_long

NOUNS = {"dog": "Hund", "man": "Mann", "horse": "Gaul", "boy": "Junge"}
PAIRS = [
    (
        f"A {one} and a {other} have seen the {third}.",
        f"Ein {NOUNS[one]} und ein {NOUNS[other]} haben den {NOUNS[third]} gesehen.",
    )
    for one in NOUNS
    for other in NOUNS
    for third in NOUNS
]


PICTURES = {"recurrent": ("alignment",), "transformer": ("encoder", "decoder", "cross")}


@pytest.mark.parametrize(("epochs", "learns"), short_and_long(30, 30))
@pytest.mark.parametrize("model", PICTURES)
def test_from_files_to_pictures(model, epochs, learns, tmp_path, monkeypatch):
    (tmp_path / "multi30k").mkdir()
    for stem, pairs in (("train", PAIRS), ("test_2016_flickr", PAIRS[:7])):
        for side, language in enumerate(("en", "de")):
            text = "".join(f"{pair[side]}\n" for pair in pairs)
            path = tmp_path / "multi30k" / f"{stem}.{language}.gz"
            path.write_bytes(gzip.compress(text.encode()))
    done = run_example(
        *("translate.py", "--model", model, "--epochs", epochs, "--units", 32),
        folder=tmp_path,
        patch=None if learns else monkeypatch,
        KERAS_ATTENTION_DATA=str(tmp_path),
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert "64 sentences, " in done.stdout
    for pair in PAIRS[:5]:
        assert f"\n{pair[0]}\n  greedy: " in done.stdout
    assert "loaded again: the same answers" in done.stdout
    folder = tmp_path / "translate"
    drawn = [f"{kind}_{n}.png" for kind in PICTURES[model] for n in (0, 1)]
    for name in ("model.keras", "german.txt", *drawn):
        assert (folder / name).stat().st_size > 100
