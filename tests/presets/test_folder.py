"""Presets as folders: what is saved comes back, and what is wrong is refused."""

import json
import pathlib
import subprocess
import sys

import h5py
import keras
import numpy as np
import pytest
from calling import refused

from keras_attention import models, presets
from keras_attention.datasets import babi
from keras_attention.presets import __main__ as command
from keras_attention.presets import cards

STORY = ["Mary moved to the garden.", "John went back to the kitchen."]
QUESTION = "Where is John?"


def made(**more):
    examples = babi.simulate(1, 50, seed=0)
    vocabulary = babi.Vocabulary.from_examples(examples)
    keras.utils.set_random_seed(0)
    model = models.MemN2N(len(vocabulary), **{"embedding_dim": 5, "hops": 2, **more})
    model.preprocessor = presets.StoryPreprocessor(vocabulary, 10, 7)
    return model


@pytest.mark.backends("all")
@pytest.mark.parametrize("dtype", [None, "float16"])
def test_a_preset_comes_back_whole(tmp_path, dtype):
    model = made()
    model.save_to_preset(tmp_path / "mine", dtype)
    loaded = models.MemN2N.from_preset(tmp_path / "mine")
    assert type(loaded) is models.MemN2N
    assert loaded.get_config() == model.get_config()
    for old, new in zip(model.get_weights(), loaded.get_weights(), strict=True):
        assert new.dtype == "float32"
        expected = old if dtype is None else old.astype(dtype).astype("float32")
        np.testing.assert_array_equal(new, expected)
    assert loaded.preprocessor.get_config() == model.preprocessor.get_config()
    assert loaded.preprocessor.vocabulary == model.preprocessor.vocabulary
    answer = loaded.answer(STORY, QUESTION)
    assert answer in model.preprocessor.vocabulary
    logits = keras.ops.convert_to_numpy(
        loaded(loaded.preprocessor.encode(STORY, QUESTION))
    )
    assert np.isfinite(logits).all()


def test_the_folder_is_laid_out_as_in_kerashub(tmp_path):
    """The state of the optimizer stays out."""
    model = made()
    model.compile("adam", "mse")
    model.optimizer.build(model.trainable_variables)
    model.save_to_preset(tmp_path, "float16")
    entries = {path.name for path in tmp_path.iterdir()}
    files = {"config.json", "metadata.json", "model.weights.h5", "preprocessor.json"}
    assert entries == {*files, "assets"}
    config = json.loads((tmp_path / "config.json").read_text("utf-8"))
    assert config["registered_name"] == "keras_attention>MemN2N"
    metadata = json.loads((tmp_path / "metadata.json").read_text("utf-8"))
    assert metadata["parameter_count"] == model.count_params()
    kinds = set()
    with h5py.File(tmp_path / "model.weights.h5") as file:
        assert "optimizer" not in file
        file.visititems(lambda _, x: kinds.add(getattr(x, "dtype", None)))
    assert np.dtype("float16") in kinds
    assert np.dtype("float32") not in kinds


def test_weights_may_be_left_out_and_arguments_replaced(tmp_path):
    model = made()
    model.save_to_preset(tmp_path / "mine")
    keras.utils.set_random_seed(5)
    fresh = models.MemN2N.from_preset(tmp_path / "mine", load_weights=False)
    assert not np.array_equal(fresh.get_weights()[0], model.get_weights()[0])
    half = models.MemN2N.from_preset(tmp_path / "mine", dtype="bfloat16")
    assert half.dtype_policy.name == "bfloat16"
    wider = {"load_weights": False, "embedding_dim": 9}
    assert models.MemN2N.from_preset(tmp_path / "mine", **wider).embedding_dim == 9
    load = models.MemN2N.from_preset
    for other, said in (
        ({"embedding_dim": 9}, "must fit the weights of the preset"),
        ({"hops": 1}, "has weights that the model lacks"),  # trained with two
        ({"hops": 0}, "`hops` must"),
        ({"foo": 3}, "`MemN2N` has no such argument"),
    ):
        message = refused(lambda o=other: load(tmp_path / "mine", **o), said)
        assert "damaged" not in message


def test_an_older_preset_is_replaced_and_other_files_are_kept(tmp_path):
    made(hops=1).save_to_preset(tmp_path / "mine")
    made(hops=3).save_to_preset(tmp_path / "mine")
    assert models.MemN2N.from_preset(tmp_path / "mine").hops == 3
    (tmp_path / "mine" / "notes.txt").write_text("mine")
    refused(lambda: made().save_to_preset(tmp_path / "mine"), "`path`", "notes.txt")
    assert models.MemN2N.from_preset(tmp_path / "mine").hops == 3
    model = made(hops=1)
    model.preprocessor = object()
    refused(lambda: model.save_to_preset(tmp_path / "b"), "`model.preprocessor` must")
    refused(lambda: made().save_to_preset(tmp_path / "b", "int8"), "`weights_dtype`")
    model = made(hops=1)
    model.weights[0].assign(np.full(model.weights[0].shape, 1e6))
    refused(lambda: model.save_to_preset(tmp_path / "b", "float16"), "must hold all")
    model.weights[0].assign(np.full(model.weights[0].shape, np.nan))
    refused(lambda: model.save_to_preset(tmp_path / "b", "float16"), "must hold all")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mine"]


def test_a_preset_stays_if_it_cannot_be_replaced(tmp_path, monkeypatch):
    made(hops=1).save_to_preset(tmp_path / "mine")
    rename = pathlib.Path.rename

    def failing(path, target):
        if path.name == "preset":
            raise OSError("no space")
        return rename(path, target)

    monkeypatch.setattr(pathlib.Path, "rename", failing)
    with pytest.raises(OSError, match="no space"):
        made(hops=3).save_to_preset(tmp_path / "mine")
    monkeypatch.undo()
    assert models.MemN2N.from_preset(tmp_path / "mine").hops == 1
    monkeypatch.chdir(tmp_path)
    refused(lambda: made().save_to_preset("."), "must not be the current folder")


def test_bfloat16_weights_become_float16(tmp_path):
    model = made(dtype="bfloat16")
    model.save_to_preset(tmp_path, "float16")
    loaded = models.MemN2N.from_preset(tmp_path, dtype="float32")
    for old, new in zip(model.weights, loaded.get_weights(), strict=True):
        old = keras.ops.convert_to_numpy(keras.ops.cast(old, "float32"))
        np.testing.assert_array_equal(new, old.astype("float16").astype("float32"))


def test_the_preprocessor_must_fit(tmp_path):
    model = made()
    words = babi.Vocabulary(["only", "these"])
    model.preprocessor = presets.StoryPreprocessor(words, 10, 7)
    said = "needs vocabulary_size=4"
    refused(lambda: model.save_to_preset(tmp_path / "a"), "must fit the model", said)
    made().save_to_preset(tmp_path / "b")
    model = models.MemN2N.from_preset(tmp_path / "b")
    assert model.vocabulary_size == len(model.preprocessor.vocabulary)


def test_a_folder_with_a_shipped_name_is_no_guess(tmp_path, monkeypatch):
    name = "memnn_world"
    made().save_to_preset(tmp_path / name)
    monkeypatch.chdir(tmp_path)
    refused(lambda: presets.load(name), "write './memnn_world' for the folder")
    assert type(presets.load(f"./{name}")) is models.MemN2N


@pytest.mark.parametrize(
    ("file", "entry", "value"),
    [
        ("config.json", "registered_name", ["a"]),
        ("config.json", "registered_name", "keras_attention>gelu_approximate"),
        ("config.json", "registered_name", "keras_attention>Hopfield"),
        ("config.json", "config", 3),
        ("preprocessor.json", "registered_name", "keras_attention>Hopfield"),
        ("preprocessor.json", "assets", ["x"]),
        ("preprocessor.json", "config", 3),
    ],
)
def test_entries_of_a_stranger_are_refused(tmp_path, file, entry, value):
    made().save_to_preset(tmp_path)
    entries = json.loads((tmp_path / file).read_text("utf-8")) | {entry: value}
    (tmp_path / file).write_text(json.dumps(entries))
    refused(lambda: presets.load(tmp_path), file)


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("activation", {"class_name": "__lambda__", "config": {"value": ["", [], []]}}),
        ("normalizer", {"module": "os", "class_name": "function", "config": "abort"}),
        ("normalizer", {"module": "os", "class_name": "abort", "config": {}}),
    ],
)
def test_code_that_a_config_names_does_not_run(tmp_path, argument, value):
    """.github/SECURITY.md promises it."""
    made().save_to_preset(tmp_path)
    entries = json.loads((tmp_path / "config.json").read_text("utf-8"))
    entries["config"][argument] = {**value, "registered_name": value["class_name"]}
    (tmp_path / "config.json").write_text(json.dumps(entries))
    refused(lambda: presets.load(tmp_path), "config.json")


def test_a_changed_weight_is_found(tmp_path):
    made().save_to_preset(tmp_path)
    content = bytearray((tmp_path / "model.weights.h5").read_bytes())
    content[len(content) // 2] ^= 1
    (tmp_path / "model.weights.h5").write_bytes(content)
    refused(lambda: presets.load(tmp_path), "model.weights.h5 is damaged")


def test_wrong_presets_are_refused(tmp_path):
    made().save_to_preset(tmp_path)
    message = refused(lambda: models.MemNN.from_preset(tmp_path), "class MemNN")
    assert "call `MemN2N.from_preset`" in message
    message = refused(lambda: models.MemN2N.from_preset("bert"), "`preset` must be")
    for name in presets.names(models.MemN2N):
        assert name in message
    refused(lambda: models.MemN2N.from_preset(7), "must be a name or a path")
    (tmp_path / "empty").mkdir()
    refused(lambda: presets.load(tmp_path / "empty"), "folder with config.json")


@pytest.mark.parametrize(
    "name",
    ["config.json", "model.weights.h5", "preprocessor.json", "assets/vocabulary.txt"],
)
def test_damaged_files_are_named(tmp_path, name):
    made().save_to_preset(tmp_path)
    for content in (b"", b"{}", (tmp_path / name).read_bytes()[:77]):
        (tmp_path / name).write_bytes(content)
        message = refused(lambda: models.MemN2N.from_preset(tmp_path), str(tmp_path))
        assert name.split("/")[0] in message


def test_the_story_must_be_one(tmp_path):
    model = made()

    def answer(story, question=QUESTION):
        return lambda: model.answer(story, question)

    refused(answer([]), "`sentences` must be a list")
    refused(answer("Mary moved."), "`sentences` must be a list", "'Mary moved.'")
    refused(answer(["Mary moved.", " ."]), "`sentences[1]` must be a text")
    refused(answer(STORY, "?"), "`question` must be a text")
    refused(answer(["Zoe moved."]), "learned", "'zoe' in sentences[0]")
    refused(answer(["mary " * 10_000]), "`sentences[0]`", "7 words", "10000 words")
    with pytest.warns(UserWarning, match="memory_size=10"):
        model.answer(STORY * 6, QUESTION)
    bare = models.MemN2N(9)
    refused(lambda: bare.answer(STORY, QUESTION), "`answer` needs", "=None")
    refused(lambda: models.CausalLM(9).complete("a"), "`CausalLM.from_preset`")


@pytest.mark.parametrize("name", presets.names())
def test_a_card_is_whole_and_its_network_small(name):
    card = presets.card(name)
    folder = cards.NETWORKS / name
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    assert size <= 2_000_000
    assert card["kilobytes"] == pytest.approx(size / 1000, abs=2)
    for entry in ("what", "data", "licence", "limits", "use"):
        assert card[entry]
    model = presets.load(name)
    assert type(model).__name__ == card["class"]
    assert model.count_params() == card["parameters"]
    assert all(np.isfinite(w).all() for w in model.get_weights())


def test_all_presets_are_small_together():
    files = [p for p in cards.NETWORKS.rglob("*") if p.is_file()]
    assert sum(path.stat().st_size for path in files) <= 8_000_000


def test_the_command(capsys):
    assert command.main(["list"]) == 0
    listed = capsys.readouterr().out
    assert all(name in listed for name in presets.names())
    assert command.main(["card", "nothing"]) == 1
    assert "`preset` must be" in capsys.readouterr().err


@pytest.mark.slow
def test_the_import_brings_no_data_sets():
    code = (
        "import sys, keras_attention\n"
        "before = {*sys.modules}\n"
        "from keras_attention import presets\n"
        "names = [n for n in {*sys.modules} - before if n.startswith('keras_att')]\n"
        "assert len(names) <= 40, names\n"
        "assert {*presets.__all__} <= {*dir(presets)}\n"
        "try:\n"
        "    presets.nothing\n"
        "except AttributeError as error:\n"
        "    print(error)\n"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert ended.stdout.strip().endswith("has no attribute 'nothing'"), ended.stderr
