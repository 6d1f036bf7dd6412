"""The public names, their arguments and configs are those that were released."""

import difflib

import signatures

import keras_attention

ADVICE = """\
What is public has changed (- before, + now). If you meant it:
1. python tests/signatures.py writes tests/fixtures/signatures.txt anew;
2. add a line to CHANGELOG.md;
3. if this version is released, a change needs the next minor version
   (keras_attention/version.py), and a name that is gone works and warns until the one
   after that (keras_attention/user_warnings.py)."""


def test_public_signatures_are_those_of_the_version():
    released = signatures.FILE.read_text("utf-8").splitlines()
    changes = [
        line
        for line in difflib.unified_diff(
            released, [*signatures.lines()], n=0, lineterm=""
        )
        if not line.startswith(("---", "+++", "@@"))
    ]
    assert not changes, "\n".join([ADVICE, "", *changes])


def test_the_file_names_arguments_defaults_and_configs():
    text = signatures.FILE.read_text("utf-8").splitlines()
    name = f"{keras_attention.__name__}.layers.MultiHeadAttention"
    (line,) = [line for line in text if line.startswith(f"{name}(")]
    assert "num_heads, key_dim, value_dim=None, dropout=0.0" in line
    assert any(line.startswith(f"{name}.call(query, value, key=None") for line in text)
    (config,) = [line for line in text if line.startswith(f"{name} config: ")]
    assert "num_heads" in config
    assert "trainable" not in config
