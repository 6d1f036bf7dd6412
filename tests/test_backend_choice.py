"""Which backend runs where the user names none, and what the pages do then.

The other tests set KERAS_BACKEND. Here, processes start without it, with an empty home
and with one backend, or none, that can be imported (one_backend.py).
"""

import importlib.util
import json
import os
import pathlib
import re
import subprocess
import sys
import types

import keras
import pytest

from keras_attention import backend_choice

ROOT = pathlib.Path(__file__).resolve().parents[1]
# The blocks that run, as in tests/docs/test_docs.py.
BLOCK = re.compile(r"(?<!-->\n)^```python\n(.*?)^```$", re.M | re.S)
CLAIM = re.compile(r"^print\(.*\)  # (.*)$", re.M)
BACKENDS = ("jax", "torch", "tensorflow")
NO_CHOICE = {k: v for k, v in os.environ.items() if not k.startswith("KERAS_")}
# The live page without Gradio, which prints the view that opens first.
EXPLORE = """
import sys
from keras_attention.explore import __main__ as command, examples, page
def launch(worker, *options):
    print(worker.show("story", *examples.STORIES[0])[:15])
command.gradio_or_error, page.launch = (lambda: None), launch
sys.exit(command.main([]))
"""


def run(backend, *command, home, **environment):
    """Runs Python with one backend, where nothing is configured."""
    return subprocess.run(
        [sys.executable, ROOT / "tests" / "one_backend.py", backend, *command],
        cwd=home,
        env={**NO_CHOICE, "HOME": str(home), **environment},
        capture_output=True,
        text=True,
    )


@pytest.fixture(params=BACKENDS)
def backend(request):
    if importlib.util.find_spec(request.param) is None:
        pytest.skip(f"{request.param} is not installed")
    return request.param


# Only this test runs the pages without KERAS_BACKEND. The second page starts with the
# keras.json that Keras wrote for the first one.
@pytest.mark.slow
@pytest.mark.backends("all")
def test_the_pages_run_as_printed_with_one_backend(backend, tmp_path):
    for page in ("README.md", "docs/guides/presets.md"):
        code = "".join(BLOCK.findall((ROOT / page).read_text("utf-8")))
        code += f"\nimport keras\nassert keras.config.backend() == '{backend}'\n"
        script = tmp_path / "page.py"
        script.write_text(code, "utf-8")
        done = run(backend, script, home=tmp_path)
        assert done.returncode == 0, f"{page}: {done.stderr}"
        assert {*CLAIM.findall(code)} <= {*done.stdout.splitlines()}, page


# Only this test starts the two processes of the live page without KERAS_BACKEND.
@pytest.mark.slow
@pytest.mark.backends("all")
def test_the_live_page_runs_with_one_backend(backend, tmp_path):
    done = run(backend, "-c", EXPLORE, home=tmp_path)
    assert done.stdout == "<attention-view\n", done.stderr


@pytest.fixture
def choose(monkeypatch, tmp_path):
    """Chooses as if backends were installed and modules imported."""
    monkeypatch.setenv("KERAS_HOME", str(tmp_path))

    def choose(*installed, variable="", config=None, imported=()):
        monkeypatch.setenv("KERAS_BACKEND", variable)
        if config is not None:
            (tmp_path / "keras.json").write_text(config, "utf-8")
        modules = types.SimpleNamespace(modules=dict.fromkeys(imported))
        monkeypatch.setattr(backend_choice, "sys", modules)
        monkeypatch.setattr(backend_choice, "_is_installed", installed.__contains__)
        backend_choice.choose_backend()
        return os.environ["KERAS_BACKEND"]

    return choose


def named(backend):
    return json.dumps({"floatx": "float32", "backend": backend})


@pytest.mark.parametrize("config", [None, named("tensorflow"), "{}", "damaged"])
def test_the_first_installed_backend_is_chosen(choose, config):
    assert choose("jax", config=config) == "jax"
    assert choose("torch", config=config) == "torch"
    assert choose("torch", "jax", config=config) == "jax"
    assert choose("torch", "jax", "tensorflow", config=config) == ""  # Keras' default


def test_the_choice_of_the_user_stays(choose):
    both = "jax", "torch"
    assert choose(*both, variable="torch") == "torch"
    assert choose(*both, config=named("torch")) == ""  # Keras reads the file itself
    assert choose(*both, "numpy", config=named("numpy")) == ""
    assert choose(*both, variable="jax", config=named("torch")) == "jax"
    assert choose(imported=["keras"]) == ""


def test_keras_json_is_read_where_keras_reads_it(monkeypatch, tmp_path):
    for variable in ("KERAS_BACKEND", "KERAS_HOME"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    path = tmp_path / ".keras" / "keras.json"
    path.parent.mkdir()
    path.write_text(named("torch"), "utf-8")
    assert backend_choice._named_backend() == (f"`backend` in {path}", "torch")
    monkeypatch.setenv("KERAS_HOME", "~/.keras/other")
    source, name = backend_choice._named_backend()
    assert (source, name) == (f"`backend` in {path.parent / 'other/keras.json'}", None)


def test_a_folder_without_code_is_no_backend(monkeypatch, tmp_path):
    (tmp_path / "uninstalled_backend").mkdir()
    monkeypatch.syspath_prepend(tmp_path)
    assert not backend_choice._is_installed("uninstalled_backend")
    assert backend_choice._is_installed(keras.__name__)


@pytest.mark.parametrize(
    ("installed", "setting", "error", "told"),
    [
        ([], {}, ImportError, "none is installed. .* pip install jax"),
        (
            ["jax"],
            {"variable": "torch"},
            ImportError,
            r"KERAS_BACKEND .* \(jax\). Received: 'torch'.* pip install torch",
        ),
        (
            ["jax"],
            {"config": named("torch")},
            ImportError,
            r"keras.json .* \(jax\). Received: 'torch'.* pip install torch",
        ),
        ([], {"variable": "tensorflow"}, ImportError, r"\(none is\).*'tensorflow'"),
        (
            ["jax"],
            {"variable": "jaxx"},
            ValueError,
            "KERAS_BACKEND must be one of jax, torch, .*'jaxx'",
        ),
        (["jax"], {"config": named(5)}, ValueError, "keras.json must be one of .*: 5"),
        (
            ["jax"],
            {"imported": ["keras.src.backend.config"]},
            ImportError,
            "did not finish.* Restart Python",
        ),
    ],
)
def test_errors_say_what_to_do(choose, installed, setting, error, told):
    with pytest.raises(error, match=told):
        choose(*installed, **setting)
    assert os.environ["KERAS_BACKEND"] == setting.get("variable", "")


@pytest.mark.parametrize(
    ("variable", "told"),
    [
        ("", "ImportError: Keras needs a backend. Received: none is installed."),
        ("torch", "ImportError: KERAS_BACKEND must name a backend that is installed"),
        ("jaxx", "ValueError: KERAS_BACKEND must be one of jax, torch, tensorflow"),
    ],
)
def test_the_import_and_the_command_tell_the_error(variable, told, tmp_path):
    setting = {"home": tmp_path, "KERAS_BACKEND": variable}
    done = run("none", "-c", "import keras_attention", **setting)
    assert done.stderr.splitlines()[-1].startswith(told)
    assert "another exception" not in done.stderr
    done = run("none", "-m", "keras_attention.explore", **setting)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith(told)


# Only this test shows what a failed import of Keras leaves behind.
@pytest.mark.slow
def test_a_failed_import_of_keras_is_told(tmp_path):
    code = (
        "import os\n"
        "os.environ['KERAS_BACKEND'] = 'jaxx'\n"
        "try:\n    import keras\n"
        "except ValueError:\n    os.environ['KERAS_BACKEND'] = 'numpy'\n"
        "import keras_attention"
    )
    done = run("none", "-c", code, home=tmp_path)
    assert "ImportError: An earlier import of Keras" in done.stderr
