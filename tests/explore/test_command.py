"""The command that opens the live page: what it says and refuses."""

import contextlib
import socket
import subprocess
import sys

import pytest

from keras_attention.explore import __main__, page
from keras_attention.explore import gradio as loader
from keras_attention.explore.worker import StartError

BUILD = f"""
from keras_attention.explore import page
class Worker: show = None
names = [type(b).__name__ for b in page.build(Worker).blocks.values()]
assert names.count("Tab") == {len(page.TABS)}
"""


@pytest.fixture(autouse=True)
def no_worker(monkeypatch):
    monkeypatch.setattr(__main__, "Worker", lambda *first: contextlib.nullcontext())


def test_the_help_shows_the_command(capsys):
    with pytest.raises(SystemExit):
        __main__.main(["--help"])
    printed = capsys.readouterr().out
    assert "python -m keras_attention.explore --model mine.keras" in printed


@pytest.mark.slow
def test_the_page_has_all_tabs():
    """In a process of its own, because Gradio leaves event loops open."""
    pytest.importorskip("gradio", reason="the extra `explore` is not installed")
    command = [sys.executable, "-W", "ignore", "-c", BUILD]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


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
