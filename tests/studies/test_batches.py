"""The order of the benchmarks' batches."""

import keras
import pytest

from studies.batches import differ_first


@pytest.mark.parametrize(
    ("backend", "sizes", "expected"),
    [
        ("tensorflow", "aabcb", "abacb"),
        ("tensorflow", "abba", "abba"),
        ("tensorflow", "aaa", "aaa"),
        ("tensorflow", "", ""),
        ("jax", "aabcb", "aabcb"),
        ("torch", "aab", "aab"),
    ],
)
def test_on_tensorflow_the_first_two_differ_in_size(
    monkeypatch, backend, sizes, expected
):
    """Else Keras takes the size of both for that of all batches."""
    monkeypatch.setattr(keras.config, "backend", lambda: backend)
    batches = list(enumerate(sizes))
    differ_first(batches, lambda batch: batch[1])
    assert "".join(size for _, size in batches) == expected
    assert sorted(batches) == list(enumerate(sizes))  # all of them, each once
