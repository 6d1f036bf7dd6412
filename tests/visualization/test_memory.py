"""The picture of a memory at work."""

from typing import NamedTuple

import numpy as np
import pytest
from figures import assert_in_sight

from keras_attention.visualization import plot_memory
from keras_attention.visualization.memory import origins

pytest.importorskip("matplotlib")

M, W = 11, 6  # slots, width


class Recorded(NamedTuple):
    """The fields of a trace, made here by hand."""

    memory: np.ndarray
    write_weights: np.ndarray
    read_weights: np.ndarray
    usage: np.ndarray | None = None
    modes: np.ndarray | None = None
    links: np.ndarray | None = None
    free_gates: np.ndarray | None = None
    allocation_gate: np.ndarray | None = None
    write_gate: np.ndarray | None = None


def copying(items, heads=1, blur=0.0, writers=1):
    """What a memory does that writes items down and then reads them in order.

    A step for each item, one at which nothing happens, and a step for each item again;
    the last head reads, in order of writing, and frees what it has read.
    """
    rng = np.random.default_rng(0)
    count = len(items)
    length = 2 * count + 1
    places = rng.permutation(M)[:count]
    writes = np.full((length, writers, M), blur / M)
    reads = np.full((length, heads, M), blur / M)
    modes = np.full((length, heads, 1 + 2 * writers), 0.0)
    modes[:, :, writers] = 1.0  # by content
    free, gate = np.zeros((length, heads)), np.zeros((length, writers))
    memory, usage = np.zeros((length, M, W)), np.zeros((length, M))
    for n, place in enumerate(places):
        writes[n, 0, place] += 1 - blur
        gate[n, 0] = 1
        reads[count + 1 + n, -1, place] += 1 - blur
        modes[count + 1 + n, -1] = np.eye(1 + 2 * writers)[-1]  # the next one
        free[count + 1 + n, -1] = 1
        memory[n:, place] = items[n]
        usage[n : count + 2 + n, place] = 1
    batch = [memory, writes, reads, usage, modes]
    batch = [np.stack([0 * x, x]) for x in batch]
    batch += [None, *(np.stack([0 * x, x]) for x in (free, gate, gate))]
    return Recorded(*batch), places


def items(count):
    return np.random.default_rng(1).normal(size=(count, W))


def panels(figure):
    """From each panel's title to its axes: titles stand in the order of the axes."""
    shown = [t for t in figure.texts if t.get_weight() == "bold"]
    return {
        text.get_text(): ax for text, ax in zip(shown[-len(figure.axes) :], figure.axes)
    }


def rows_of(ax):
    return [text.get_text() for text in ax.get_yticklabels()]


def cells(ax):
    (image,) = ax.images
    return np.asarray(image.get_array())


def test_what_was_written_where_and_which_head_came_back():
    trace, places = copying(items(4), heads=2)
    shown = panels(plot_memory(trace, sample=1, title="Copy"))
    slots = [f"slot {m}" for m in places]  # in the order of writing
    first = shown["Slots written (orange), and read by head 1 (blue)"]
    second = shown["Slots written (orange), and read by head 2 (blue)"]
    assert rows_of(first) == rows_of(second) == slots
    white = np.ones(3)
    for ax, reads in ((first, False), (second, True)):
        picture = cells(ax)  # (slots, T, 3)
        assert picture.shape == (4, 9, 3)
        for n in range(4):
            red, _, blue = picture[n, n]
            assert red > blue + 0.5  # orange, where it was written
            red, _, blue = picture[n, 5 + n]
            assert (blue > red + 0.5) == reads  # blue, where it is read
        np.testing.assert_array_equal(picture[:, 4], np.stack([white] * 4))
    assert "When that was written which head 1 reads" not in shown  # it reads nothing
    back = shown["When that was written which head 2 reads"]
    assert rows_of(back) == ["step 1", "step 2", "step 3", "step 4"]
    np.testing.assert_array_equal(cells(back)[:, 5:], np.eye(4))
    np.testing.assert_array_equal(cells(back)[:, :5], 0)
    np.testing.assert_allclose(cells(shown["Words in the end"]), items(4))


def test_modes_gates_and_usage():
    trace, places = copying(items(3), writers=2)
    shown = panels(plot_memory(trace, sample=1))
    how = "How head 1 finds its slots: by order of writing, or by content"
    assert rows_of(shown[how]) == [
        "the one before (writer 1)",
        "the one before (writer 2)",
        "by content",
        "the next one (writer 1)",
        "the next one (writer 2)",
    ]
    np.testing.assert_array_equal(cells(shown[how]), trace.modes[1, :, 0].T)
    assert rows_of(shown["Gates"]) == [
        "write (1)",
        "write (2)",
        "to a free slot (1)",
        "to a free slot (2)",
        "free what was read",
    ]
    np.testing.assert_array_equal(cells(shown["Gates"])[4], trace.free_gates[1, :, 0])
    usage = cells(shown["How much of a slot is in use"])
    np.testing.assert_array_equal(usage, trace.usage[1][:, places].T)


def test_a_memory_without_usage_modes_or_gates():
    """As a Neural Turing Machine's is."""
    trace, _ = copying(items(3))
    bare = trace._replace(
        usage=None, modes=None, free_gates=None, allocation_gate=None, write_gate=None
    )
    assert list(panels(plot_memory(bare, sample=1))) == [
        "Slots written (orange), and read by head 1 (blue)",
        "Words in the end",
        "When that was written which head 1 reads",
    ]


def test_padding_is_left_out_and_steps_have_names():
    trace, _ = copying(items(4))
    came, went = np.eye(7, 5), np.full((6, 3), 0.5)
    names = [f"${n}" for n in range(7)]
    figure = plot_memory(trace, sample=1, inputs=came, outputs=went, steps=names)
    shown = panels(figure)
    np.testing.assert_array_equal(cells(shown["What came in"]), came.T)
    out = cells(shown["What went out"])
    np.testing.assert_array_equal(out, np.pad(went.T, ((0, 0), (0, 1))))
    back = shown["When that was written which head 1 reads"]
    assert rows_of(back) == ["step 1 $0", "step 2 $1"]  # the others are read later
    assert cells(back).shape == (2, 7)
    under = [t.get_text() for t in shown["What went out"].get_xticklabels()]
    assert under == names


def test_origins_follow_what_is_overwritten():
    writes = np.array([[1.0, 0.0], [0.25, 0.5], [0.0, 1.0]])
    reads = np.array([[1.0, 0.0], [1.0, 0.0], [0.5, 0.5]])
    expected = [[1.0, 0.0, 0.0], [0.75, 0.25, 0.0], [0.375, 0.125, 0.5]]
    np.testing.assert_allclose(origins(writes, reads), expected)


def test_slots_that_are_left_out_are_told_of():
    trace, places = copying(items(6), blur=0.22)
    figure = plot_memory(trace, sample=1, slots=4)
    (picture,) = [
        ax for title, ax in panels(figure).items() if title.startswith("Slots")
    ]
    assert len(rows_of(picture)) == 4
    note = figure.texts[-1].get_text()
    assert note.startswith("4 of 11 slots are drawn")
    assert note.endswith("above 80 %.")  # 0.78 and a share of the blur
    rows = rows_of(panels(plot_memory(trace, sample=1))["How much of a slot is in use"])
    assert rows == [f"slot {m}" for m in places]  # the rest has 2 % at most


@pytest.mark.parametrize(("count", "heads"), [(1, 3), (5, 1), (9, 2)])
def test_nothing_overlaps_or_is_cut_off(count, heads):
    trace, _ = copying(items(count), heads)
    steps = ["start", *(["word"] * count)]
    came = np.eye(2 * count + 1, 3)
    figure = plot_memory(trace, 1, came, came, steps, title="What a memory does")
    assert_in_sight(figure, slack=1)


@pytest.mark.parametrize(
    ("change", "more", "message"),
    [
        ({}, {"sample": 2}, "`sample` must be one of the batch of 2"),
        ({}, {"slots": 0}, "`slots` must be at least 1"),
        ({}, {"inputs": np.ones((8, 2))}, "at most as many steps as `trace`"),
        ({}, {"inputs": np.ones(3)}, "`inputs` must be a finite array"),
        ({}, {"outputs": [[np.nan]]}, "`outputs` must be a finite array"),
        ({}, {"steps": "abc"}, "`steps` must be a sequence"),
        ({}, {"steps": ["a"] * 8}, "`steps` must have at most one item"),
        ({"memory": np.ones((7, M, W))}, {}, "`trace` must be what `DNC.trace`"),
        ({"read_weights": np.full((2, 7, 1, M), 1.5)}, {}, "numbers in \\[0, 1\\]"),
        ({"write_weights": np.full((2, 7, 1, M), np.nan)}, {}, "in \\[0, 1\\]"),
        ({"write_weights": np.ones((2, 5, 1, M))}, {}, "as many steps"),
        ({"read_weights": np.ones((2, 7, 1, M + 1))}, {}, "as many slots"),
        ({"usage": np.ones((2, 2, M))}, {}, r"trace\.usage\.shape=\(2, 2"),
        ({"usage": np.full((2, 7, M), -1.0)}, {}, r"trace\.usage from -1"),
        ({"modes": np.ones((2, 7, 3))}, {}, r"trace\.modes\.shape"),
        ({"memory": np.full((2, 7, M, W), np.nan)}, {}, "finite numbers"),
    ],
)
def test_bad_input(change, more, message):
    trace, _ = copying(items(3))
    with pytest.raises(ValueError, match=message):
        plot_memory(trace._replace(**change), **{"sample": 1, **more})


def test_what_is_no_trace():
    with pytest.raises(ValueError, match="`trace` must be what"):
        plot_memory([1, 2, 3])
