"""Models that leave with their attention maps, or with the loop of `generate`.

Each backend has a process of its own; see `serving_worker.py`.
"""

import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request

import numpy as np
import pytest
from calling import printed_by
from processes import environment
from serving_worker import GENERATORS, MAPS, SIZES

pytestmark = pytest.mark.slow  # processes that import a backend
WORKER = pathlib.Path(__file__).parent / "serving_worker.py"
# Each backend, format and kind of export once; the others are of the ring `release`.
FEW = ("layers", "causal_lm")
EXAMPLE = pathlib.Path(__file__).parents[2] / "examples" / "serve.py"


def work(command, folder, backend, names):
    printed_by(WORKER, command, folder, *names, env=environment(backend, folder))


def export(folder, names):
    """Writes the exports of each backend, and what each file answers."""
    for backend in ("torch", "jax", "tensorflow"):  # the others read torch's files
        work("export", folder, backend, names)
    work("serve", folder, "tensorflow", names)
    return folder


@pytest.fixture(scope="module")
def few(tmp_path_factory):
    return export(tmp_path_factory.mktemp("few"), FEW)


@pytest.fixture(scope="module")
def others(tmp_path_factory):
    names = {*MAPS, *GENERATORS} - {*FEW}
    return export(tmp_path_factory.mktemp("others"), names)


@pytest.fixture
def exported(request, model):
    """The folder with the exports of a model."""
    return request.getfixturevalue("few" if model in FEW else "others")


def cases(exports):
    """The parameters of a test: a backend, a model, and what it exports."""
    for model, backends in exports.items():
        marks = () if model in FEW else pytest.mark.release
        for backend, kinds in backends.items():
            for kind in kinds:
                yield pytest.param(backend, model, kind, marks=marks)


def load(path):
    with np.load(path) as data:
        return {**data}


def assert_same(expected, served, tolerance):
    assert served.keys() == expected.keys()
    for name, array in expected.items():
        np.testing.assert_allclose(
            served[name], array, tolerance, tolerance, err_msg=name
        )


@pytest.mark.parametrize(("backend", "model", "kind"), [*cases(MAPS)])
def test_exports_return_the_maps(exported, backend, model, kind):
    """Outputs and maps as `predict` gives them, at sizes that were not traced."""
    expected = load(exported / f"{backend}-{model}.npz")
    found = load(exported / f"{backend}-{model}.{kind}-served.npz")
    assert len(found) > 1
    assert_same(expected, found, 1e-5)


@pytest.mark.parametrize(
    "model",
    [pytest.param(m, marks=() if m in FEW else pytest.mark.release) for m in MAPS],
)
@pytest.mark.parametrize("backend", ["jax", "tensorflow"])
def test_files_with_maps_travel(exported, backend, model):
    """Each map keeps its name in a file that torch has saved."""
    expected = load(exported / f"torch-{model}.npz")
    found = load(exported / f"torch-{model}-read-by-{backend}.npz")
    assert_same(expected, found, 1e-5)


@pytest.mark.parametrize(("backend", "model", "sampler"), [*cases(GENERATORS)])
def test_exported_generation_is_generate(exported, backend, model, sampler):
    """The same ids at three batch sizes and lengths, in a process without Keras."""
    stem = f"{backend}-{model}-{sampler}"
    expected = load(exported / f"{stem}.npz")
    found = load(exported / f"{stem}-served.npz")
    assert len(expected) == len(SIZES)
    assert_same(expected, found, 0)


@pytest.mark.parametrize(
    "model", ["causal_lm", pytest.param("", marks=pytest.mark.release)]
)
def test_the_generated_ids_differ(exported):
    """Equal ids say little where a model answers every input alike; many do not."""
    rows = [load(path) for path in exported.glob("*-*-*[my]-served.npz")]
    assert rows
    differ = [len({ids[0].tobytes() for ids in one.values()}) > 1 for one in rows]
    assert sum(differ) > len(rows) / 3


@pytest.mark.parametrize("backend", ["jax", "tensorflow"])
def test_a_file_refuses_tokens_that_the_model_does_not_know(few, backend):
    message = few / f"{backend}-errors.txt"
    for rule in (
        "A token must be at least 0",
        "A token must be below 11, the size of the vocabulary",
        "A prompt must have a token, and padding",
        "A sequence must have at most 33 positions",
    ):
        assert rule in message.read_text("utf-8")


def ask(url, inputs):
    """The answer of a server to a request."""
    body = json.dumps({name: array.tolist() for name, array in inputs.items()})
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(url, body.encode(), headers)
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.loads(answer.read())


def wait_for(url, server):
    """Returns when the server is ready."""
    for _ in range(240):
        assert server.poll() is None, "the server has ended"
        try:
            with urllib.request.urlopen(url, timeout=5) as answer:
                if answer.status == 200:
                    return
        except (urllib.error.URLError, ConnectionError):
            pass
        time.sleep(0.25)
    raise AssertionError(f"no answer from {url}")


@pytest.mark.parametrize(
    "backend", [pytest.param("tensorflow", marks=pytest.mark.release), "torch"]
)
def test_litserve_answers_as_predict_does(few, backend):
    """examples/serve.py, asked over loopback, at another size than the traced one."""
    pytest.importorskip("litserve", reason="litserve is not installed")
    expected = load(few / f"{backend}-layers.npz")
    inputs = load(few / f"{backend}-layers-inputs.npz")
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port = one.getsockname()[1]
    model = few / f"{backend}-layers.onnx"
    arguments = [str(model), "--port", str(port), "--names", *sorted(expected)]
    log = few / f"{backend}-server.log"
    with log.open("wb") as output:
        server = subprocess.Popen(
            [sys.executable, str(EXAMPLE), *arguments],
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # its workers do not end with it
        )
        try:
            wait_for(f"http://127.0.0.1:{port}/health", server)
            url = f"http://127.0.0.1:{port}/predict"
            found = ask(url, inputs)
            with pytest.raises(urllib.error.HTTPError, match="400"):
                ask(url, {"other": inputs["words"]})
        finally:
            os.killpg(server.pid, signal.SIGTERM)
            server.wait(30)
    assert found.keys() == expected.keys()
    for name, array in expected.items():
        np.testing.assert_allclose(found[name], array, 1e-5, 1e-5, err_msg=name)
