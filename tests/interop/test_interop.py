"""What needs several backends: files that travel, and exports that run elsewhere.

Each backend has a process of its own; see `worker.py`.
"""

import functools
import pathlib

import numpy as np
import pytest
from calling import printed_by
from processes import environment
from worker import EXPORTS, TRAINERS, load, read_by

pytestmark = pytest.mark.slow  # processes that import a backend
WORKER = pathlib.Path(__file__).parent / "worker.py"
READERS = (*TRAINERS, "numpy", "openvino")
# In the ring `all`: a trained network, layers that each format can hold at open sizes,
# and layers with integer weights. The ring `release` has all others.
FEW = ("memn2n", "hopfield", "quantized")
RINGS = {"few": FEW, "others": tuple(name for name in EXPORTS if name not in FEW)}
both = pytest.mark.parametrize(
    "ring", ["few", pytest.param("others", marks=pytest.mark.release)]
)


def work(command, folder, backend, *names):
    printed_by(WORKER, command, folder, *names, env=environment(backend, folder))


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A function that makes the folder with the models of a ring, once."""

    @functools.cache
    def train(ring):
        folder = tmp_path_factory.mktemp(ring)
        for backend in TRAINERS:
            work("train", folder, backend, *RINGS[ring])
        return folder

    return train


@pytest.fixture(scope="module")
def served(trained):
    """The same with what each export answers."""

    @functools.cache
    def serve(ring):
        work("serve", trained(ring), "tensorflow")
        return trained(ring)

    return serve


@pytest.mark.parametrize("backend", TRAINERS)
def test_what_jax_has_trained_answers_everywhere(trained, backend):
    path = trained("few") / f"{backend}-memn2n.npz"
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


@both
@pytest.mark.parametrize("reader", READERS)
def test_files_travel(trained, ring, reader):
    """Each backend reads each model, and files of every writer."""
    folder = trained(ring)
    work("predict", folder, reader, *RINGS[ring])
    near = reader != "openvino"  # which may compute in half precision
    for stem in read_by(reader, RINGS[ring]):
        with np.load(folder / f"{stem}-read-by-{reader}.npz") as data:
            assert_same({**data}, load(folder / f"{stem}.npz", "outputs"), near)


@pytest.mark.parametrize("names", RINGS.values(), ids=RINGS)
def test_each_pair_of_writer_and_reader_has_files(names):
    for reader in READERS:
        stems = [*read_by(reader, names)]
        assert {stem.split("-")[0] for stem in stems} == {*TRAINERS}
        if reader != "openvino":  # which predicts, but runs no loops
            assert {stem.split("-")[1] for stem in stems} == {*names}


@pytest.mark.parametrize(
    ("model", "backend", "kind"),
    [
        pytest.param(m, b, kind, marks=() if m in FEW else pytest.mark.release)
        for m in EXPORTS
        for b in EXPORTS[m]
        for kind in EXPORTS[m][b]
    ],
)
def test_exports_run_without_this_package(served, model, backend, kind):
    """Each model in each format that can hold it, at sizes that no trace has seen.

    SavedModel holds all of them; docs/export.md says which holds what. ONNX holds
    `MemNN` from TensorFlow alone: its one pass over the memory sorts the facts and
    loops over as many slots as there are. torch's exporter has no such sort, and
    unrolls the loop; JAX' would have to compare sizes there that it does not know.
    """
    folder = served("few" if model in FEW else "others")
    stem = f"{backend}-{model}"
    with np.load(folder / f"{stem}.{kind}-served.npz") as data:
        assert_same({**data}, load(folder / f"{stem}.npz", "outputs"))
