"""Files and presets that released versions have written load, and compute the same."""

import hashlib
import io
import json
import pathlib
import warnings
import zipfile

import keras
import numpy as np
import pytest
from calling import BACKEND, at_once, plain
from released_files import FOLDER, answer

from keras_attention import __version__, models

ARCHIVES = sorted(FOLDER.glob("*.zip"))
# SHA-256 of each file. The line of a version that is released never changes.
DIGESTS = {
    "0.1.0": "8241be1ac196362dcf6795ddebc38767e2a58e8a2715b4e1c142cbbed6a4d737",
}
# JAX and TensorFlow compile each; in the ring `all` these, in `release` all.
VARIED = ("multi_head", "memn2n", "attention_rnn", "transformer", "causal_lm")


def names(archive, folder, suffix):
    with zipfile.ZipFile(archive) as files:
        paths = map(pathlib.PurePosixPath, files.namelist())
        return [p.stem for p in paths if str(p.parent) == folder and p.suffix == suffix]


def released(folder, suffix):
    """(archive, name) of each file, as parameters of a test."""
    for archive in ARCHIVES:
        for name in names(archive, folder, suffix):
            marks = [pytest.mark.backends("all")]
            if folder == "rows" and name not in VARIED:
                marks.append(pytest.mark.slow_on("jax", "tensorflow"))
            yield pytest.param(archive, name, marks=marks, id=f"{archive.stem}-{name}")


@pytest.mark.parametrize(("archive", "name"), [*released("rows", ".npz")])
def test_a_released_file_loads_and_computes_the_same(archive, name, tmp_path):
    with zipfile.ZipFile(archive) as files:
        path = files.extract(f"rows/{name}.keras", tmp_path)
        inputs = dict(np.load(io.BytesIO(files.read(f"rows/{name}.npz"))))
    expected = inputs.pop("expected")
    with warnings.catch_warnings():
        if BACKEND == "torch":  # a file of another backend may switch on its compiler
            warnings.filterwarnings("ignore", ".*jit_compile")
        model = keras.saving.load_model(path)
    output, _ = at_once(model, inputs)
    np.testing.assert_allclose(plain(output), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.filterwarnings(
    "ignore::keras_attention.user_warnings.UntrainedInputWarning"
)
@pytest.mark.parametrize(("archive", "name"), [*released("presets", ".json")])
def test_a_released_preset_loads_and_answers_the_same(archive, name, tmp_path):
    with zipfile.ZipFile(archive) as files:
        for path in files.namelist():
            if path.startswith(f"presets/{name}/"):
                files.extract(path, tmp_path)
        entry = json.loads(files.read(f"presets/{name}.json"))
    model = getattr(models, name).from_preset(tmp_path / "presets" / name)
    returned = answer(model, *entry["call"])
    said, scores = split(returned)
    expected, exact = split(entry["returned"])
    assert said == expected
    np.testing.assert_allclose(scores, exact, rtol=1e-4, atol=1e-5)


def split(returned):
    """The strings and the numbers of what a method returned."""
    leaves = keras.tree.flatten(returned)
    return (
        [leaf for leaf in leaves if isinstance(leaf, str)],
        [leaf for leaf in leaves if not isinstance(leaf, str)],
    )


def test_the_files_are_small_and_of_every_release():
    digests = {a.stem: hashlib.sha256(a.read_bytes()).hexdigest() for a in ARCHIVES}
    assert digests == DIGESTS
    assert __version__ in DIGESTS
    for archive in ARCHIVES:
        assert archive.stat().st_size < 5 * 2**20
        assert len(names(archive, "rows", ".npz")) >= 125
        assert len(names(archive, "presets", ".json")) >= 11
