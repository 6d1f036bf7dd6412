"""What the benchmark of vector indexes measures."""

import importlib.util

import keras
import numpy as np
import pytest

from keras_attention.models import MemNN
from studies.memnn import hashing, indexes

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("faiss") is None, reason="faiss is not installed"
)


def test_indexes_are_measured_on_both_hops(monkeypatch):
    def untrained(seed):
        keras.utils.set_random_seed(seed)
        return MemNN(hashing.VOCABULARY, embedding_dim=8, supports=2)

    monkeypatch.setattr(hashing, "trained", untrained)
    monkeypatch.setattr(hashing, "PEOPLE", 5)
    monkeypatch.setattr(hashing, "OBJECTS", 7)
    indexes.setting.cache_clear()
    given = indexes.setting(3, 500)
    facts, keys = given.facts, given.keys
    assert len(given.questions) == len(given.right) == 7
    assert len(given.asked) == len(given.best) == 14  # both hops
    for (_, query), best in zip(given.asked, given.best):
        np.testing.assert_allclose(best, (keys @ query).max(), rtol=1e-6)
    np.testing.assert_array_equal(given.asked[0][0], given.questions[0])
    first = indexes.measured("flat", 3, 500)
    assert first["recall_of_hops"] == [1.0, 1.0]
    assert (first["candidates"], first["queries"]) == (100, 14)
    size = indexes.bytes_of(given.flat)
    assert size == pytest.approx(500 * 8 * 4, rel=0.2)
    assert first["answers"]["same"] == 100.0  # of 2,500 candidates, which are all
    assert first["answers"]["scored"] == 1000
    # Facts of equal keys count, others do not.
    equal = np.flatnonzero((facts == facts[0]).all(1))

    class Only:
        size = 500

        def candidates(self, words, query=None):
            return equal[-1:]

    right = [
        np.isclose(keys[0] @ q, b, rtol=1e-6)
        for (_, q), b in zip(given.asked, given.best)
    ]
    assert indexes.recall(Only(), given)["recall"] == round(np.mean(right), 4)
    word = indexes.measured("words", 3, 500)
    assert word["kind"] == "words"
    assert "index words   recall@1" in indexes.line(word)
    cells = indexes.measured("ivf", 3, 500)
    assert [row["probes"] for row in cells["probes"]] == list(indexes.PROBES)
    assert cells["probes"][-1]["recall"] == 1.0  # all 22 cells
    indexes.setting.cache_clear()
