"""The clock of a time budget."""

import time

import keras
import pytest

from studies import clocks
from studies.dnc import report


@pytest.mark.backends("all")
def test_the_clock_of_a_budget():
    """CPU time of this process on a CPU, elapsed time on an accelerator."""
    backend = keras.config.backend()
    assert clocks.own_device() == "cpu" or backend in ("jax", "torch", "tensorflow")
    own = time.process_time if clocks.own_device() == "cpu" else time.perf_counter
    assert own() <= clocks.budget_clock() <= own()


def test_an_accelerator_uses_up_elapsed_time(monkeypatch):
    monkeypatch.setattr(clocks, "own_device", lambda: "gpu")
    assert time.perf_counter() <= clocks.budget_clock() <= time.perf_counter()


def test_a_page_says_that_a_run_used_a_gpu():
    result = {"lesson": 2, "of_lessons": 3, "solved": False, "weights": 10, "steps": 4}
    result |= {"cpu_seconds": 62.0, "seconds": 63.0, "device": "gpu"}
    run = {"settings": {"minutes": 1}, "result": result}
    assert report._training(run) == ["2 of 3", "63 s on a GPU"]
    del result["device"]
    assert report._training(run)[1] == "62 s"
