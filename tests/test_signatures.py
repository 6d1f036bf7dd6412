"""The public names, their arguments and configs are those that were released."""

import difflib
import zipfile

import pytest
import signatures
from released_files import FOLDER

import keras_attention

ADVICE = """\
What is public has changed (- before, + now). If you meant it:
1. python tests/signatures.py writes tests/fixtures/signatures.txt anew;
2. add a line to CHANGELOG.md;
3. if this version is released, a change needs the next minor version
   (keras_attention/version.py), and a name that is gone works and warns until the one
   after that (keras_attention/user_warnings.py);
4. if it is not released, delete its file in tests/fixtures/released, which python
   tests/released_files.py writes anew; tests/test_released_files.py has its SHA-256."""


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


def minor(version):
    return version.split(".")[:2]


@pytest.mark.parametrize(
    "archive",
    [
        path
        for path in sorted(FOLDER.glob("*.zip"))
        if minor(path.stem) == minor(keras_attention.__version__)
    ],
    ids=lambda path: path.stem,
)
def test_a_patch_changes_no_signature_of_its_minor_version(archive):
    with zipfile.ZipFile(archive) as files:
        released = files.read(signatures.FILE.name).decode().splitlines()
    now = signatures.FILE.read_text("utf-8").splitlines()
    gone = sorted({*released} - {*now})
    assert not gone, "\n".join([f"{ADVICE}\nSince {archive.stem}:", *gone])


def test_the_file_names_arguments_defaults_and_configs():
    text = signatures.FILE.read_text("utf-8").splitlines()
    name = f"{keras_attention.__name__}.layers.MultiHeadAttention"
    (line,) = [line for line in text if line.startswith(f"{name}(")]
    assert "num_heads, key_dim, value_dim=None, dropout=0.0" in line
    assert any(line.startswith(f"{name}.call(query, value, key=None") for line in text)
    # Documented in a base class only; and what only our own classes call.
    start = f"{keras_attention.__name__}.layers.BahdanauAttention.attend_from_state("
    assert any(line.startswith(start) for line in text)
    assert not any(".check_given(" in line for line in text)
    (config,) = [line for line in text if line.startswith(f"{name} config: ")]
    assert "num_heads" in config
    assert "trainable" not in config
