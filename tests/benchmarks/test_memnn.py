"""What the MemNN benchmark asks, trains on and reports; nothing is trained here."""

import numpy as np
import pytest

from keras_attention.benchmarks import memnn, memnn_hashing
from keras_attention.datasets import babi


def test_the_papers_column_has_its_mean():
    assert len(memnn.PAPER) == len(babi.TASKS)
    assert np.mean(memnn.PAPER) == pytest.approx(6.65)  # printed as 6.7


def test_batches_hold_every_question_once_and_no_needless_slots():
    examples = babi.simulate(2, 97, seed=0) + babi.simulate(1, 31, seed=1)
    vocabulary = babi.Vocabulary.from_examples(examples)
    x, y = memnn.arrays(examples, vocabulary, 2)
    assert y["facts"][0].tolist() == list(examples[0].supporting_facts)
    assert y["facts"][-1].tolist() == [examples[-1].supporting_facts[0], -1]
    x["number"] = np.arange(len(examples))
    batches = memnn.Batches(x, y, 8, seed=0)
    seen = []
    for _ in range(2):
        numbers = []
        for i in range(len(batches)):
            inputs, targets = batches[i]
            slots = inputs["story"].shape[1]
            length = (inputs["story"] != 0).any(-1).sum(1).max()
            assert slots in (16, 32, 64, x["story"].shape[1])
            assert length <= slots <= max(16, 2 * length)
            rows = inputs["number"]
            np.testing.assert_array_equal(targets["answer"], y["answer"][rows])
            np.testing.assert_array_equal(inputs["question"], x["question"][rows])
            numbers += rows.tolist()
        assert sorted(numbers) == list(range(len(examples)))
        seen.append(numbers)
        batches.on_epoch_end()
    assert seen[0] != seen[1]


def test_the_large_world_is_told_and_asked_right():
    """Where each object is, by reading the story fact by fact."""
    rng = np.random.default_rng(0)
    people = np.arange(7) + memnn_hashing.FIRST_PERSON
    objects = np.arange(11) + memnn_hashing.FIRST_OBJECT
    story = memnn_hashing.world(rng, 53, people, objects)
    holder, room = {}, {}
    for number, fact in enumerate(story.facts.tolist()):
        if fact[1] == memnn_hashing.WENT:
            assert fact[2:4] == [memnn_hashing.TO, memnn_hashing.THE]
            room[fact[0]] = number
        else:
            assert fact[1:3] == [memnn_hashing.TOOK, memnn_hashing.THE]
            holder[fact[3]] = number
    known = {o for o, n in holder.items() if story.facts[n, 0] in room}
    assert set(story.objects.tolist()) == known
    for name, took, went in zip(story.objects.tolist(), story.took, story.went):
        assert took == holder[name]
        assert went == room[story.facts[took, 0]]
    assert memnn_hashing.asked(objects[:2]).tolist() == [
        [memnn_hashing.WHERE, memnn_hashing.IS, memnn_hashing.THE, name]
        for name in objects[:2]
    ]


def test_summary_and_report():
    rows = [{"error": 0.0, "paper": 0}, {"error": 8.0, "paper": 3}]
    assert memnn.mean_of(rows) == (
        "mean error of 2 tasks 4.00 %, paper 1.50 %; 1 tasks above 5 %"
    )
    report = memnn.report({"babi": rows}, epochs=3)
    assert report["babi"] is rows
    assert report["training"]["epochs"] == 3
    assert report["paper"]["mean"] == pytest.approx(6.65)
