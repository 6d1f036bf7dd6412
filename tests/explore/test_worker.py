"""The process that computes the views of the live page."""

import concurrent.futures
import multiprocessing
import subprocess
import sys
import threading

import pytest

from keras_attention.explore import examples, worker
from keras_attention.explore.views import texts

pytestmark = pytest.mark.slow  # each process imports Keras
STORY = ("story", *examples.STORIES[0])


def children():
    return set(multiprocessing.active_children())


@pytest.fixture(scope="module")
def killed():
    """A worker whose process was killed while it had a request, and the answer."""
    before = children()
    with worker.Worker() as made, concurrent.futures.ThreadPoolExecutor(1) as pool:
        submit, submitted = made._submit, threading.Event()

        def submitting(*request):
            future = submit(*request)
            submitted.set()
            return future

        made._submit = submitting
        asked = pool.submit(made.show, *STORY)
        assert submitted.wait(60)
        (process,) = children() - before
        process.kill()
        yield made, asked.result()
        (second,) = children() - before
    second.join(60)
    assert not second.is_alive()  # the end of `with` ended it


def test_a_killed_worker_is_told_and_replaced(killed):
    made, told = killed
    assert told == texts.message(worker.ENDED)
    view = made.show(*STORY)
    assert view.startswith("<attention-view")
    assert "John dropped the apple." in view
    assert view == made.show(*STORY)


def test_two_requests_at_once_do_not_mix(killed):
    made, _ = killed
    stories = "Mary went to the kitchen.", "Daniel went back to the hallway."
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        views = list(
            pool.map(made.show, ["story"] * 2, stories, ["Where is Mary?"] * 2)
        )
    for view, own, other in zip(views, stories, reversed(stories)):
        assert own in view
        assert other not in view


def test_bad_input_and_errors_are_told_without_a_traceback(killed, capsys):
    made, _ = killed
    assert "write a story first" in made.show("story", "", "Where is Mary?")
    assert capsys.readouterr().err == ""
    assert made.show("story", 5, None) == texts.message(worker.FAILED)
    told = capsys.readouterr().err
    assert "AttributeError: 'int' object has no attribute 'splitlines'" in told
    assert "in sentences_of" in told  # the traceback of the other process
    assert made.show(*STORY).startswith("<attention-view")


def test_ones_own_model_is_described_or_refused(killed, tmp_path):
    from small_networks import two_layers

    made, _ = killed
    path = two_layers(tmp_path / "mine.keras")
    name, fields = made.describe(path)
    assert name
    assert fields == [
        ("ids (None, None) int32", "1 2 3 4 5 6 7 8", 1),
        ("lines (None, 3, 4) int32", "1 2 3 4\n1 2 3 4\n1 2 3 4", 3),
    ]
    assert "self" in made.show("own_model", str(path), "1 2", "3")
    (tmp_path / "damaged.keras").write_bytes(b"not a model")
    told = made.describe(tmp_path / "damaged.keras")
    assert 'role="alert"' in told
    assert "damaged.keras cannot be opened" in told


def test_a_worker_that_cannot_start_is_told(monkeypatch, capfd):
    monkeypatch.setenv("KERAS_BACKEND", "none_of_this_name")
    with worker.Worker() as made:
        assert made.show(*STORY) == texts.message(worker.ENDED)
        with pytest.raises(worker.StartError, match="The terminal tells why"):
            made.check()
    assert "none_of_this_name" in capfd.readouterr().err


def test_the_worker_ends_with_the_page():
    """Even if the page's process is killed, and cannot end it."""
    code = (
        "import sys, time\n"
        "from keras_attention.explore.worker import Worker\n"
        "made = Worker()\n"
        "print('alert' in made.show('story', '', ''), flush=True)\n"
        "time.sleep(600)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True
    ) as page:
        assert page.stdout.readline() == "True\n"
        page.kill()
        # The worker has the pipe, too, until it ends.
        assert page.communicate(timeout=60)[0] == ""
