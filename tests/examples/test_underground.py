"""The example of a railway as a user runs it."""

import keras
import pytest
from calling import refusal_of_example, run_example

from keras_attention.layers import DNCCell
from keras_attention.models import DNCNetwork
from studies.dnc.walks import Softmaxes

STATIONS = "id,latitude,longitude,name,zone\n" + "".join(
    f"{n},51.5{n},-0.{n},Stop {n},1\n" for n in range(1, 6)
)
LINES = "line,name,colour\n1,Long,AE6017\n2,Short,FFE02B\n"
CONNECTIONS = "station1,station2,line\n1,2,1\n2,3,1\n3,4,1\n4,5,1\n1,3,2\n3,5,2\n"


@pytest.mark.slow
@pytest.mark.backends("torch", reason="the content does not depend on the backend")
def test_a_route_is_printed_and_drawn(tmp_path, monkeypatch):
    cell = DNCCell(keras.layers.LSTMCell(4), memory_slots=4, word_width=3)
    network = DNCNetwork(cell, 90, input_dim=92)
    # As in the benchmark, whose loss the example does not know.
    network.compile("adam", Softmaxes(10))
    network.save(tmp_path / "network.keras")
    texts = {"stations": STATIONS, "lines": LINES, "connections": CONNECTIONS}
    for name, text in texts.items():
        (tmp_path / name).write_text(text, "utf-8")
    done = run_example(
        "underground.py", "network.keras", "--railway", *texts,
        "--stops", 2, folder=tmp_path, patch=monkeypatch,
    )  # fmt: skip
    assert "5 stations, 12 edges" in done.stdout
    assert "of 100 routes of 2 stops are right" in done.stdout
    assert "Long eastbound" in done.stdout or "Long westbound" in done.stdout
    for name in ("route.png", "lookups.png"):
        assert (tmp_path / "underground" / name).stat().st_size > 1000


@pytest.mark.backends("torch", reason="the content does not depend on the backend")
def test_a_missing_file_is_named_without_a_traceback(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    refusal = refusal_of_example("underground.py", "nowhere.keras", patch=monkeypatch)
    assert refusal[0] == 1
    assert refusal[1].startswith("There is no network nowhere")
    cell = DNCCell(keras.layers.LSTMCell(4), memory_slots=4, word_width=3)
    DNCNetwork(cell, 90, input_dim=92).save(tmp_path / "network.keras")
    missing = ("network.keras", "--railway", "stations", "lines", "connections")
    refusal = refusal_of_example("underground.py", *missing, patch=monkeypatch)
    assert refusal[0] == 1
    assert "stations" in refusal[1]
