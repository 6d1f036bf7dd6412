"""What needs several backends: files that travel, and exports that run elsewhere.

Each backend has a process of its own; see `worker.py`.
"""

import pathlib
import subprocess
import sys

import numpy as np
import pytest
from processes import environment
from worker import EXPORTS, TRAINERS, load, read_by

WORKER = pathlib.Path(__file__).parent / "worker.py"
READERS = (*TRAINERS, "numpy", "openvino")
# A network that is trained, and one of layers: each backend and format, at open sizes.
FEW = ("memn2n", "hopfield")


def work(command, folder, backend, *names):
    arguments = [sys.executable, str(WORKER), command, str(folder), *names]
    given = environment(backend, folder)
    done = subprocess.run(arguments, env=given, capture_output=True, text=True)
    assert done.returncode == 0, f"{command} on {backend}:\n{done.stderr[-4000:]}"


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("trained")
    for backend in TRAINERS:
        work("train", folder, backend)
    return folder


def export(folder, *names):
    for backend in TRAINERS:
        work("export", folder, backend, *names)
    work("serve", folder, "tensorflow")


@pytest.fixture(scope="module")
def few(trained):
    export(trained, *FEW)


@pytest.fixture(scope="module")
def others(trained):
    export(trained, *(name for name in EXPORTS if name not in FEW))


@pytest.mark.parametrize("backend", TRAINERS)
def test_what_jax_has_trained_answers_everywhere(trained, backend):
    path = trained / f"{backend}-memn2n.npz"
    logits, answers = load(path, "outputs")["output"], np.load(path)["answers"]
    assert (logits.argmax(-1) == answers).mean() > 0.9


def assert_same(found, expected, near=True):
    """Whole numbers and the best of each row the same, and numbers near each other."""
    assert found.keys() == expected.keys()
    for name, array in expected.items():
        if array.dtype.kind == "i":
            np.testing.assert_array_equal(found[name], array, err_msg=name)
        else:
            np.testing.assert_array_equal(found[name].argmax(-1), array.argmax(-1))
            if near:
                np.testing.assert_allclose(found[name], array, 1e-5, 1e-5, err_msg=name)


@pytest.mark.parametrize("reader", READERS)
def test_files_travel(trained, reader):
    """Each backend reads each model, and files of every writer."""
    work("predict", trained, reader)
    near = reader != "openvino"  # which may compute in half precision
    for stem in read_by(reader):
        with np.load(trained / f"{stem}-read-by-{reader}.npz") as data:
            assert_same({**data}, load(trained / f"{stem}.npz", "outputs"), near)


def test_each_pair_of_writer_and_reader_has_files():
    for reader in READERS:
        stems = [*read_by(reader)]
        assert {stem.split("-")[0] for stem in stems} == {*TRAINERS}
        if reader != "openvino":  # which predicts, but runs no loops
            assert {stem.split("-")[1] for stem in stems} == {*EXPORTS}


@pytest.mark.parametrize(
    ("model", "backend", "kind"),
    [
        pytest.param(m, b, kind, marks=() if m in FEW else pytest.mark.release)
        for m in EXPORTS
        for b in EXPORTS[m]
        for kind in EXPORTS[m][b]
    ],
)
def test_exports_run_without_this_package(trained, request, model, backend, kind):
    """Each model in each format that can hold it, at sizes that no trace has seen.

    SavedModel holds all of them; docs/export.md says which holds what. ONNX holds
    `MemNN` from TensorFlow alone: its one pass over the memory sorts the facts and
    loops over as many slots as there are. torch's exporter has no such sort, and
    unrolls the loop; JAX' would have to compare sizes there that it does not know.
    """
    request.getfixturevalue("few" if model in FEW else "others")
    stem = f"{backend}-{model}"
    with np.load(trained / f"{stem}.{kind}-served.npz") as data:
        assert_same({**data}, load(trained / f"{stem}.npz", "outputs"))
