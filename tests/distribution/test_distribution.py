"""Layouts over eight virtual devices, the guide, and the example with two processes."""

import importlib.util
import json
import os
import pathlib
import re

import keras
import pytest
from calling import ROOT, printed_by, run_example
from xla_flags import FLAGS

from keras_attention import models
from keras_attention.distribution import check, distribute, layout_map
from speed.devices.cases import CASES

EIGHT = "--xla_force_host_platform_device_count=8"
DOCS = ROOT / "docs"
PAGES = DOCS / "howto/many-devices.md", DOCS / "guides/many-devices.md"
jax_alone = pytest.mark.backends("jax", reason="Keras splits weights on JAX alone")


def run(*arguments, folder):
    """Runs Python on eight virtual devices."""
    paths = [str(ROOT), str(ROOT / "tests"), os.environ.get("PYTHONPATH", "")]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
        "XLA_FLAGS": f"{EIGHT} {FLAGS}",
        "JAX_PLATFORMS": "cpu",
    }
    return printed_by(*arguments, cwd=folder, env=environment)


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """All that the worker finds, in 12 seconds: three models are compiled twice."""
    worker = pathlib.Path(__file__).with_name("worker.py")
    folder = tmp_path_factory.mktemp("devices")
    return json.loads(run(worker, folder=folder).splitlines()[-1])


@pytest.mark.slow
@jax_alone
def test_losses_are_those_of_one_device(found):
    assert len(found["differences"]) == 3
    for name, difference in found["differences"].items():
        assert difference <= 1e-5, name


EXPECTED = {
    ("MemN2N", "encoder_0/embedding/embeddings"): [None, "model"],
    ("MemN2N", "encoder_0_time/embeddings"): [None, "model"],
    ("KeyValueMemNN", "answer_relations/embeddings"): [None, "model"],
    ("KeyValueMemNN", "hop_1/query/kernel"): [None, "model"],
    ("KeyValueMemNN", "hop_1/scale"): [],
    ("MemNN", "O/question/embedding/embeddings"): [None, "model"],
    ("Seq2Seq", "source_embedding/embeddings"): ["model", None],
    # 27 words are no multiple of 4.
    ("Seq2Seq", "target_embedding/embeddings"): [None, "model"],
    ("Seq2Seq", "logits/kernel"): ["model", None],
    ("Seq2Seq", "logits/bias"): [None],
    ("Seq2Seq", "decoder/cell/recurrent_kernel"): [None, "model"],
    ("Seq2Seq", "decoder/cell/bias"): [None, "model"],
    ("Seq2Seq", "decoder/attention/score/query/kernel"): [None, "model"],
    ("Seq2Seq", "decoder/attention/score/scale"): ["model"],
    ("ImageCaptioner", "encoder/convolution_0/kernel"): [None, None, None, "model"],
    ("CausalLM", "token_embedding/embeddings"): ["model", None],
    ("CausalLM", "block_0/self_attention/query/kernel"): [None, "model", None],
    ("CausalLM", "block_0/self_attention/key/bias"): ["model", None],
    ("CausalLM", "block_0/self_attention/attention_output/kernel"): [
        *("model", None, None)
    ],
    ("CausalLM", "block_0/self_attention/attention_output/bias"): [None],
    ("CausalLM", "block_0/feedforward_in/kernel"): [None, "model"],
    ("CausalLM", "block_0/feedforward_in/bias"): ["model"],
    ("CausalLM", "block_0/feedforward_out/kernel"): ["model", None],
    ("CausalLM", "block_0/feedforward_out/bias"): [None],
    ("CausalLM", "final_norm/gamma"): [None],
    # Two heads of keys over four devices: the inputs of the projection are split.
    ("CausalLM, rotary", "block_0/self_attention/key/kernel"): ["model", None, None],
    ("CausalLM, rotary", "block_0/feedforward_gate/kernel"): [None, "model"],
    ("CausalLM, rotary", "token_embedding/reverse_embeddings"): [None, "model"],
    ("TransformerClassifier, relative", "block_0/self_attention/relative/embedding"): [
        *(None, "model")
    ],
    ("UniversalTransformer", "depth/positions/embeddings"): [None, "model"],
    ("UniversalTransformer", "depth/block/self_attention/query/kernel"): [
        *(None, "model", None)
    ],
    ("HopfieldClassifier", "pooling/hopfield/query/kernel"): [None, "model", None],
    ("HopfieldLayer", "hopfield_layer/patterns"): ["model", None],
    ("HopfieldLayer", "hopfield_layer/values"): ["model", None],
    # One head is split by its width.
    ("HopfieldLayer", "hopfield_layer/hopfield/query/kernel"): [None, None, "model"],
    ("HopfieldLayer", "hopfield_layer/hopfield/attention_output/kernel"): [
        *(None, "model", None)
    ],
    ("DNCNetwork", "dnc/dnc_cell/lstm_cell/kernel"): [None, "model"],
    ("DNCNetwork", "dnc/dnc_cell/interface/kernel"): ["model", None],
}


@jax_alone
def test_weights_are_split_by_their_roles(found):
    seen = {
        (name, re.sub(r"(_layer|_cell)_\d+", r"\1", path)): split
        for name, (axes, _) in found["axes"].items()
        for path, split in axes.items()
    }
    for (name, path), split in EXPECTED.items():
        (key,) = [k for k in seen if k[0] == name and k[1].startswith(path)]
        assert seen[key] == split, key


@jax_alone
def test_a_device_holds_about_a_quarter(found):
    assert set(found["axes"]) == set(CASES)
    for name, (_, share) in found["axes"].items():
        assert share <= 0.5, name  # the sizes are tiny
    for name, share in found["shares"].items():
        assert share <= 0.35, name


@jax_alone
def test_each_model_with_weights_is_among_the_cases():
    named = {name.partition(",")[0] for name in CASES}
    named -= {"HopfieldLayer"}  # in a user's model
    without = {"AssociativeMemory", "ClusterHash", "LargeMemory", "WordHash"}
    without |= {"CandidateIndex", "HopAnswers", "HopReader", "VectorIndex"}
    without |= {"PackedModel"}  # it has the weights of the model that it holds
    assert {"Answers", "Trajectory", *named, *without} == {*models.__all__}


@jax_alone
def test_a_users_model_with_an_entry_of_the_users(found):
    own = found["a_users_model"]
    assert own["placed"] == [False, True]
    assert own["slots"] == [True, True]  # Adam has two variables per weight
    split = own["axes"]
    assert split["theirs/query/kernel"] == [None, "model", None]
    assert split["theirs/attention_output/kernel"] == ["model", None, None]
    assert split["ours/key/kernel"] == ["model", None, None]  # two of eight heads
    assert split["shared-dense/kernel"] == [None, "model"]
    assert split["mine/table"] == ["model", None]
    assert split["block/feedforward_out/kernel"] == ["model", None]
    assert split["out/kernel"] == ["model", None]  # 3 units
    assert re.search(r"^out/bias +\(3,\) +whole +12$", own["text"], re.M)
    assert "bytes of weights a device, 0." in own["text"]
    assert "not placed" not in own["text"]


@jax_alone
def test_weights_of_one_path_have_one_layout(found):
    """27 rows are no multiple of 4, so the rows of the other model are not split."""
    for axes, rows in zip(found["same_paths"], ("model", None), strict=True):
        assert axes == {
            "other/embeddings": ["model", None],
            "center_embedding/embeddings": [rows, None],
            "context_embedding/embeddings": [rows, None],
        }


ERRORS = {
    "no axis": "`model_axis` must be an axis of `device_mesh`, one of "
    "['batch', 'model']. Received: model_axis='heads'",
    "no batch": "`batch_axis` must be an axis of `device_mesh`",
    "same": "must be different axes of `device_mesh`. Received: model_axis='model'",
    "mesh": "`device_mesh` must be a keras.distribution.DeviceMesh. Received: "
    "device_mesh=(2, 4)",
    "not built": "`model` must be built and have weights. Call it on a batch",
    "no model": "`model` must be a Keras model. Received: model='model'",
    "heads": "The number of heads must be 1 or a multiple of the size of the axis "
    "'model' of the mesh. Received: 6 heads in the layer 'six', 'model' of size 4",
    "nothing": "`model` must have a weight that the mesh divides",
    "matches nothing": "`layout` must match a weight of `model`. Received: layout with "
    "the keys ['dense_1/kernel']",
    "rank": "A layout must have at most as many axes as the weight. Received: "
    "layout=(None, 'model') for sequential/dense/bias of shape (8,)",
    "not a layout": "`layout` must be a keras.distribution.LayoutMap",
    "batch": "`batch_size` must be a multiple of the size of the axis 'batch' of the "
    "mesh. Received: batch_size=7",
    "no distribution": "RuntimeError: `distribute` needs a distribution",
    "last batch": "Received: 10 samples, in batches of 6 and 4",
    "on batch": "Received: 20 samples, in batches of 15 and 5",
}


@jax_alone
def test_what_does_not_fit_is_said(found):
    errors = found["errors"]
    # 10 samples are split in batches of 6 and 4, which 2 groups of devices divide.
    assert errors.pop("last batch") is None
    assert errors.pop("left out") is None
    for name, error in errors.items():
        assert ERRORS[name] in error, name


ORBAX = importlib.util.find_spec("orbax") and hasattr(
    keras.callbacks, "OrbaxCheckpoint"
)


@pytest.fixture(scope="module")
def guide(tmp_path_factory):
    """The text of the guide, its code, and what this printed in a process of its own.

    It takes 20 seconds, because a model is trained seven times.
    """
    folder = tmp_path_factory.mktemp("guide")
    text = "".join(page.read_text("utf-8") for page in PAGES)
    needs = "needs several devices" + ("( and Orbax)?" if ORBAX else "()") + ";"
    block = rf"^<!-- not run: {needs}[^\n]*-->\n```python\n(.*?)^```$"
    code = "\n".join(found[1] for found in re.findall(block, text, re.M | re.S))
    assert code.count(EIGHT) == 1
    script = folder / "guide.py"
    script.write_text(code.replace(EIGHT, f"{EIGHT} {FLAGS}"), "utf-8")
    return text, code, run(script, folder=folder).splitlines()


@pytest.mark.release
@jax_alone
def test_the_guide(guide):
    text, code, said = guide
    claims = re.findall(r"^ *print\(.*\)  # (.*)$", code, re.M)
    paths = re.findall(r"^```\n(token.*?)^```$", text, re.M | re.S)[0].splitlines()
    at = claims.index("True 0.25") + 1
    assert said == [*claims[:at], *paths, *claims[at:]]
    # As many lines as the page says are new.
    new = re.search(r"^model = build\(\)\n\n(.*?)\n\nsplit =", code, re.M | re.S)[1]
    assert "Five lines are new" in text
    assert len([line for line in new.splitlines() if line]) == 5


@pytest.mark.release
@jax_alone
@pytest.mark.skipif(not ORBAX, reason="needs orbax-checkpoint and Keras' callback")
def test_the_guide_continues_a_run_with_orbax(guide):
    _, code, said = guide
    assert "keras.callbacks.OrbaxCheckpoint(folder)" in code
    assert said.count("True True") == 1


@pytest.mark.release
@jax_alone
def test_two_processes_give_the_losses_of_one(tmp_path):
    """It takes 10 seconds: three processes that import Keras and compile."""

    def losses(*options):
        done = run_example(
            *("many_devices.py", "--steps", 3, *options),
            folder=tmp_path,
            XLA_FLAGS=FLAGS,
        )
        assert done.returncode == 0, done.stderr[-4000:]
        assert "saved, loaded on one device, and it writes the same" in done.stdout
        return done.stdout, re.search(r"mean loss: (.*)", done.stdout)[1]

    said, two = losses("--devices", 2)
    assert "4 devices, 2 processes" in said
    _, one = losses("--processes", 1, "--devices", 1)
    assert float(two) == pytest.approx(float(one), rel=1e-5)
    done = run_example("many_devices.py", "--batch", 33, folder=tmp_path)
    assert done.returncode == 2
    assert "Received: --batch=33, --processes=2" in done.stderr


@pytest.mark.backends("tensorflow", "torch")
def test_other_backends_refuse():
    """They import the module, and say what to use instead."""
    backend = keras.config.backend()
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(4)])
    for call in (
        lambda: layout_map(model, None),
        lambda: check(model, None),
        lambda: distribute(model),
    ):
        with pytest.raises(RuntimeError, match="needs the JAX backend") as error:
            call()
        assert f"KERAS_BACKEND={backend!r}" in str(error.value)
