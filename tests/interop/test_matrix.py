"""Cells of the matrix of exports, measured again; see `tests/exports`."""

import pytest
from export_cells import Worker, measure
from export_table import load, result

CELLS = {  # each failed before the change that made it work
    "tensorflow": [
        ("memn2n", "litert"),
        ("key_value_memnn", "litert"),
        ("memnn", "litert"),
        ("attention", "litert"),
        ("additive_score", "litert"),
        ("attentive_factorization", "litert"),
        ("memn2n", "openvino"),
        ("key_value_memnn", "openvino"),
    ],
    "torch": [("image_captioner", "onnx")],
}


@pytest.fixture(scope="module")
def processes(tmp_path_factory):
    """One process that exports from each backend, and one that runs the files."""
    folder = tmp_path_factory.mktemp("programs")
    with (
        Worker("export", "tensorflow", folder) as tensorflow,
        Worker("export", "torch", folder) as torch,
        Worker("run", "tensorflow", folder) as runner,
    ):
        yield {"tensorflow": tensorflow, "torch": torch, "run": runner}


@pytest.mark.parametrize(
    ("backend", "row", "kind"),
    [(backend, *cell) for backend, cells in CELLS.items() for cell in cells],
)
def test_the_cell_of_the_matrix_is_still_so(processes, backend, row, kind):
    cell = measure(processes[backend], processes["run"], row, kind)
    assert result(cell) == result(load()[row][f"{kind}-{backend}"]), cell
    assert result(cell) == ("yes" if backend == "tensorflow" else "fixed"), cell


def test_a_caption_of_open_length_is_refused_with_the_reason(processes):
    """torch would unroll the loop over the words at the length of the trace."""
    cell = measure(processes["torch"], processes["run"], "image_captioner", "onnx")
    assert cell["free"]["ours"]
    assert "torch exports a loop over time unrolled" in cell["free"]["error"]
