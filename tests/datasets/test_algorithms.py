"""Copy, repeat copy, associative recall, priority sort: each sequence, read back."""

import numpy as np
import pytest

from keras_attention.datasets import algorithms

N = 300


def sequences(data):
    """The inputs, mask and targets of each sequence, and nothing of its padding."""
    for inputs, mask, targets, length in zip(
        data["inputs"],
        data["answer_mask"],
        data["targets"],
        data["lengths"],
        strict=True,
    ):
        assert not inputs[length:].any()
        assert not mask[length:].any()
        assert not targets[~mask].any()
        assert not inputs[mask].any()  # nothing is read while answering
        assert mask[length - 1]
        yield inputs[:length], mask[:length], targets[:length]


def sizes(data):
    return {name: array.dtype for name, array in data.items()}


def test_copy():
    data = algorithms.copy(N, length=(1, 20), seed=1)
    assert data["inputs"].shape == (N, 41, 9)
    assert sizes(data) == {
        "inputs": np.float32,
        "answer_mask": bool,
        "targets": np.float32,
        "lengths": np.int32,
    }
    counts = np.zeros(21)
    for inputs, mask, targets in sequences(data):
        (end,) = np.flatnonzero(inputs[:, 8])
        assert len(inputs) == 2 * end + 1
        np.testing.assert_array_equal(targets[mask], inputs[:end, :8])
        assert mask.tolist() == [False] * (end + 1) + [True] * end
        counts[end] += 1
    assert counts[0] == 0
    assert (counts[1:] > 0).all()
    bits = data["targets"][data["answer_mask"]]
    assert abs(bits.mean() - 0.5) < 0.02
    assert set(np.unique(bits)) == {0, 1}


def test_repeat_copy_is_that_of_the_published_code():
    data = algorithms.repeat_copy(N, length=(1, 4), repeats=(1, 3), bits=5, seed=2)
    seen = set()
    for inputs, mask, targets in sequences(data):
        assert np.flatnonzero(inputs[:, 5]).tolist() == [0]  # the start mark
        (told,) = np.flatnonzero(inputs[:, 6])
        times = round(float(10 * inputs[told, 6]))
        vectors = inputs[1:told, :5]
        assert not inputs[[0, told], :5].any()
        np.testing.assert_array_equal(
            targets[mask][:-1, :5], np.tile(vectors, (times, 1))
        )
        assert np.flatnonzero(targets[mask][:, 5]).tolist() == [len(vectors) * times]
        assert not targets[-1, :5].any()
        assert np.flatnonzero(mask)[0] == told + 1
        seen.add((len(vectors), times))
    assert seen == {(length, times) for length in range(1, 5) for times in range(1, 4)}


def test_associative_recall_asks_for_the_next_item():
    data = algorithms.associative_recall(N, items=(2, 5), item_length=2, bits=3, seed=3)
    for inputs, mask, targets in sequences(data):
        begins = np.flatnonzero(inputs[:, 3])
        before, behind = np.flatnonzero(inputs[:, 4])
        items = [inputs[i + 1 : i + 3, :3].tolist() for i in begins]
        asked = inputs[before + 1 : behind, :3].tolist()
        assert items.count(asked) == 1
        assert targets[mask].tolist() == items[items.index(asked) + 1]
        assert np.flatnonzero(mask).tolist() == [behind + 1, behind + 2]
        assert begins.tolist() == list(range(0, 3 * len(items), 3))
        assert 2 <= len(items) <= 5


def test_priority_sort():
    data = algorithms.priority_sort(N, length=(3, 9), answers=6, seed=4)
    for inputs, mask, targets in sequences(data):
        (end,) = np.flatnonzero(inputs[:, 9])
        ranked = sorted(range(end), key=lambda i: -inputs[i, 8])[:6]
        np.testing.assert_array_equal(targets[mask], inputs[ranked, :8])
        assert (np.abs(inputs[:end, 8]) <= 1).all()
    every = algorithms.priority_sort(10, length=5, answers=None)
    assert (every["answer_mask"].sum(1) == 5).all()
    assert algorithms.priority_sort(2)["inputs"].shape == (2, 37, 10)  # as the paper's


TASKS = [
    algorithms.copy,
    algorithms.repeat_copy,
    algorithms.associative_recall,
    algorithms.priority_sort,
]


@pytest.mark.parametrize("task", TASKS)
def test_seeds_and_steps(task):
    one, same, other = task(20, seed=5), task(20, seed=5), task(20, seed=6)
    for name, array in one.items():
        np.testing.assert_array_equal(array, same[name])
    assert not np.array_equal(one["targets"], other["targets"])
    wide = task(20, seed=5, steps=60)
    width = one["inputs"].shape[1]
    assert wide["inputs"].shape[1] == wide["targets"].shape[1] == 60
    np.testing.assert_array_equal(wide["inputs"][:, :width], one["inputs"])
    with pytest.raises(
        ValueError,
        match=rf"`steps` must hold the longest sequence, of {width}\. .* steps=2",
    ):
        task(20, seed=5, steps=2)


@pytest.mark.parametrize(
    ("task", "arguments", "message"),
    [
        (
            "copy",
            {"length": 0},
            r"`length` must be a number of at least 1, or the least and the greatest\. "
            r"Received: length=0",
        ),
        ("copy", {"length": (5, 3)}, r"`length` .* Received: length=\(5, 3\)"),
        ("copy", {"bits": 0}, r"`bits` must be at least 1\. Received: bits=0"),
        ("copy", {"count": 0}, r"`count` must be at least 1\. Received: count=0"),
        (
            "repeat_copy",
            {"repeats": (0, 2)},
            r"`repeats` .* Received: repeats=\(0, 2\)",
        ),
        ("repeat_copy", {"scale": 0}, r"`scale` must be above 0\. Received: scale=0"),
        (
            "associative_recall",
            {"items": (1, 3)},
            r"`items` must be a number of at least 2.* Received: items=\(1, 3\)",
        ),
        ("associative_recall", {"item_length": 0}, r"`item_length` must be at least 1"),
        ("priority_sort", {"answers": 0}, r"`answers` must be at least 1"),
    ],
)
def test_what_does_not_fit(task, arguments, message):
    with pytest.raises(ValueError, match=message):
        getattr(algorithms, task)(**{"count": 3} | arguments)
