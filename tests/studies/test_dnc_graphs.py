"""Graph tasks of the DNC benchmark: hints, maps, families and the linear path."""

import signal

import keras
import numpy as np
import pytest
from calling import needs_data, needs_training

from keras_attention.datasets import algorithms, graphs
from studies.dnc import (
    checkpoints,
    curricula,
    graph_tasks,
    networks,
    problems,
    tasks,
    testing,
    training,
)
from studies.dnc import walks as walk_tasks

SMALL = {"units": 3, "memory_slots": 4, "word_width": 2, "read_heads": 2}


def test_a_hinted_walk_has_targets_at_its_question():
    lessons = curricula.TRAVERSAL[2:3]
    plain, hinted = (
        walk_tasks.walks("traversal", lessons, (1,), hinted=h)() for h in (False, True)
    )
    one, two = (p.draw(p.lessons[0], 12, [3], "train") for p in (plain, hinted))
    np.testing.assert_array_equal(one["inputs"], two["inputs"])
    for row in range(12):
        (answer,) = np.nonzero(one["answer_mask"][row])
        (asked,) = np.nonzero(two["answer_mask"][row])
        question = answer - len(answer)
        np.testing.assert_array_equal(asked, [*question, *answer])
        np.testing.assert_array_equal(
            two["targets"][row, question], one["targets"][row, answer]
        )
        # The step of a question names the edge of its target.
        np.testing.assert_array_equal(
            two["inputs"][row, question, 30:60], two["targets"][row, question, 30:60]
        )
    for part in ("validation", "test"):
        data = hinted.draw(hinted.lessons[0], 4, [3], part)
        np.testing.assert_array_equal(data["inputs"][..., 91], data["answer_mask"])


def test_a_hinted_family_has_the_basic_relations_as_targets():
    lesson = {"people": (8, 12), "length": (1, 5), "queries": 2, "planning": 3}
    problem = walk_tasks.families([lesson], (8, 12))()
    data = problem.draw(problem.lessons[0], 20, [1], "train")
    plain = problem.draw(problem.lessons[0], 20, [1], "test")
    assert list(problem.tests)[-1] == "2 to 5 relations"
    assert plain["answer_mask"].sum() == 40
    lengths = (data["paths"][..., 0] >= 0).sum(-1)  # (N, Q)
    # A fifth relation would fall on the step of the answer.
    assert data["answer_mask"].sum() == 40 + np.minimum(lengths, 4).sum()
    for row, step, n in ((0, data["questions"][0, 0], 0), (1, data["questions"][1], 1)):
        step = np.atleast_1d(step)[n if row else 0]
        first = data["paths"][row, n if row else 0, 0]
        np.testing.assert_array_equal(graphs.decode(data["targets"][row, step]), first)

    def knows(x):
        return problems.resized(logits, x["inputs"].shape[1])

    class Knows:
        def predict(self, x, **_):
            return knows(x)

    logits = 10 * plain["targets"]
    assert problem.score(Knows(), plain, 20) == {"answers": 1, "relatives": 1}
    row, step = np.argwhere(plain["answer_mask"])[0]
    logits[row, step, :10] = logits[row, step, :10][::-1]  # another person
    scores = problem.score(Knows(), plain, 20)
    assert scores == pytest.approx({"answers": 39 / 40, "relatives": 1})


@needs_data
def test_the_map_is_only_in_the_tests():
    problem = tasks.TASKS["underground"].problem()
    assert all("network" not in lesson for lesson in problem.lessons)
    maps = [name for name, test in problem.tests.items() if "network" in test]
    assert maps == [f"{name}, 7 stops" for name in graph_tasks.MAPS]
    data = problem.draw(problem.tests[maps[0]], 3, [0], "test")
    assert (data["answer_mask"].sum(1) == 7).all()


def test_a_cell_with_inputs_is_saved_and_starts_with_its_bias(tmp_path):
    problem = walk_tasks.walks("traversal", curricula.TRAVERSAL[:1], (1,))()
    bias = {"write_gate": 4.0, "modes": [[0, 1, 0], [0, 0, 2]]}
    for refinements in ([], ["layer_normalization"]):
        model = networks.network(
            problem,
            "dnc",
            {**SMALL, "with_inputs": True, "initial_bias": bias,
             "refinements": refinements},
            0,
        )  # fmt: skip
        cell = model.cell
        assert cell.interface.kernel.shape[0] == 3 + 92 + 4
        variable = cell.normalization.beta if refinements else cell.interface.bias
        found = np.array(variable)
        np.testing.assert_array_equal(found[-6:], [0, 1, 0, 0, 0, 2])
        assert found[-7] == 4
        assert np.count_nonzero(found) == 3
        x = problem.draw(problem.lessons[0], 2, [0], "train")
        x = {name: x[name] for name in ("inputs", "answer_mask")}
        expected = np.asarray(model.predict(x, verbose=0))
        model.save(tmp_path / "model.keras")
        again = keras.saving.load_model(tmp_path / "model.keras")
        np.testing.assert_allclose(again.predict(x, verbose=0), expected, rtol=1e-6)
    with pytest.raises(ValueError, match="`bias` must name parts of the interface"):
        networks.set_bias(cell, {"read_masks": 1.0})


@needs_training
def test_lessons_have_their_own_slots():
    problem = problems.Bits(algorithms.copy, [{"length": 1, "bits": 1}] * 2)
    settings = {**tasks.TRAINING, "steps": 2, "batch_size": 4, "rounding": 7}
    settings |= {"validation": 8, "bar": 0.0, "last_bar": 0.0, "in_a_row": 1}
    settings["slots"] = [3, 4]
    model = networks.network(problem, "dnc", SMALL | {"memory_slots": 3}, 0)
    seen = []

    def progress(entry):
        seen.append(entry["lesson"])

    row = training.train(problem, model, settings, 0, 5, progress)
    assert (row["steps"], row["solved"], seen) == (4, True, [1, 2])
    # The weights and the state of the optimizer come back to the model.
    assert model.cell.memory_slots == 3
    assert int(model.optimizer.iterations) == 4
    assert training.with_slots(model, settings, 0) is model
    larger = training.with_slots(model, settings, 1)
    assert larger.cell.memory_slots == 4
    pairs = zip(model.weights, larger.weights, strict=True)
    states = zip(model.optimizer.variables, larger.optimizer.variables, strict=True)
    for one, other in (*pairs, *states):
        np.testing.assert_array_equal(*map(keras.ops.convert_to_numpy, (one, other)))


@pytest.mark.slow
@needs_training
def test_a_run_that_is_killed_as_its_memory_grows_goes_on(tmp_path):
    problem = problems.Bits(algorithms.copy, [{"length": 1, "bits": 1}] * 2)
    settings = {**tasks.TRAINING, "steps": 2, "batch_size": 4, "rounding": 7}
    settings |= {"validation": 8, "bar": 0.0, "last_bar": 0.0, "in_a_row": 1}
    settings["slots"] = [3, 4]
    run, signals = {"task": "copy", "settings": settings}, checkpoints.Signals()

    def trained(seed, progress=None, checkpoint=None):
        model = networks.network(problem, "dnc", SMALL | {"memory_slots": 3}, seed)
        args = settings, 0, 5, progress, checkpoint
        return model, training.train(problem, model, *args)

    def kill(entry):
        signals.received = signal.SIGTERM

    with pytest.raises(checkpoints.Interrupted):
        trained(0, kill, checkpoints.Checkpoint(tmp_path, run, False, signals))
    model, found = trained(1, None, checkpoints.Checkpoint(tmp_path, run, True))
    assert (found["steps"], found["lesson"], found["solved"]) == (4, 2, True)
    whole, _ = trained(0)
    for one, other in zip(model.get_weights(), whole.get_weights(), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-7)


def test_long_sequences_are_tested_with_enough_slots():
    problem = walk_tasks.walks("traversal", [graphs.Lesson((8, 8), (4, 4), (1, 1))], [])
    made = problem()
    made.tests = {"long": made.lessons[0], "short": {"nodes": 3, "degree": 1,
                                                    "length": 1}}  # fmt: skip
    model = networks.network(made, "dnc", {**SMALL, "memory_slots": 8}, 0)
    found = testing.tested(made, model, 0, 2, 2, True)
    assert found["long"]["slots"] == 64  # 32 edges, a question and an answer
    assert "slots" not in found["short"]
    assert model.cell.memory_slots == 8
    assert "slots" not in testing.tested(made, model, 0, 2, 2, False)["long"]
