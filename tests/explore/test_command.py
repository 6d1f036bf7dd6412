"""The command that opens the live page: what it refuses, and what it imports."""

import contextlib
import importlib.util
import socket
import subprocess
import sys

import pytest

from keras_attention.explore import __main__, page
from keras_attention.explore import gradio as loader
from keras_attention.explore.worker import StartError

# What Python has while `python -m keras_attention.explore` imports the package.
AS_COMMAND = """
import sys
sys.argv, sys.orig_argv = ["-m"], ["python", "-m", "keras_attention.explore"]
import keras_attention.explore.__main__
from keras_attention.explore import page
"""
HEAVY = {"keras", "torch", "jax", "tensorflow"}


@pytest.fixture(autouse=True)
def no_worker(monkeypatch):
    monkeypatch.setattr(__main__, "Worker", lambda *first: contextlib.nullcontext())


def run(code, *flags):
    command = [sys.executable, "-W", "ignore", *flags, *code]
    return subprocess.run(command, capture_output=True, text=True)


def test_the_command_imports_no_keras():
    done = run(["-m", "keras_attention.explore", "--help"], "-X", "importtime")
    assert done.returncode == 0, done.stderr
    assert "python -m keras_attention.explore --model mine.keras" in done.stdout
    imported = {line.split("|")[-1].strip() for line in done.stderr.splitlines()}
    assert "keras_attention.explore.worker" in imported
    assert not HEAVY & imported


@pytest.mark.slow
def test_the_page_is_built_without_keras():
    """In a process of its own, because Gradio leaves event loops open."""
    code = AS_COMMAND
    if importlib.util.find_spec("gradio") is not None:
        code += (
            "class Worker: show = None\n"
            "names = [type(b).__name__ for b in page.build(Worker).blocks.values()]\n"
            f"assert names.count('Tab') == {len(page.TABS)}\n"
        )
    needed = "keras_attention.explore.page"
    code += f"print(*{HEAVY} & {{*sys.modules}}, {needed!r} in sys.modules)"
    done = run(["-c", code])
    assert done.stdout == "True\n", done.stderr


def test_the_command_refuses_what_it_cannot_do(tmp_path, capsys, monkeypatch):
    with pytest.raises(SystemExit):
        __main__.main(["--model", str(tmp_path / "missing.keras")])
    assert "--model must name a file" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        __main__.main(["--port", "0"])
    assert "--port must be from 1" in capsys.readouterr().err

    def missing():
        raise ImportError("needs Gradio")

    monkeypatch.setattr(__main__, "gradio_or_error", missing)
    assert __main__.main([]) == 1
    assert capsys.readouterr().err == "needs Gradio\n"


def test_only_a_port_that_is_taken_is_told_as_such(capsys, monkeypatch):
    def fails(*given):
        raise OSError("no space left")

    monkeypatch.setattr(__main__, "gradio_or_error", lambda: None)
    monkeypatch.setattr(page, "launch", fails)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        assert __main__.main(["--port", port]) == 1
        assert f"Port {port} cannot be used" in capsys.readouterr().err
    with pytest.raises(OSError, match="no space left"):
        __main__.main(["--port", port])


def test_networks_that_cannot_start_are_told_as_such(capsys, monkeypatch):
    def fails(*given):
        raise StartError("could not start")

    monkeypatch.setattr(__main__, "gradio_or_error", lambda: None)
    monkeypatch.setattr(page, "launch", fails)
    assert __main__.main([]) == 1
    assert capsys.readouterr().err == "could not start\n"


def test_without_gradio_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "gradio", None)
    before = list(sys.meta_path)
    with pytest.raises(ImportError, match=r"keras-attention-family\[explore\]"):
        loader.gradio_or_error()
    assert sys.meta_path == before
