"""Block puzzles by reinforcement: advantages, the loss, episodes, and learning."""

import json

import keras
import numpy as np
import pytest
from gradients import gradient

from keras_attention.datasets import blocks
from keras_attention.datasets.blocks.puzzles import fact_of
from studies import command_line
from studies.blocks import (
    agent,
    command,
    drawing,
    picture,
    ppo,
    rollouts,
    supervised,
    tasks,
    testing,
    training,
    wording,
)
from studies.command_line import UsageError
from studies.dnc.checkpoints import Checkpoint

NETWORK = {
    "letter_width": 6,
    "features": 9,
    "hidden": 5,
    "head": [11],
    "lookup": True,
    "memory_slots": 7,
    "word_width": 10,
    "read_heads": 2,
}
SETTINGS = {
    **tasks.TRAINING,
    "puzzles": 4,
    "episodes": 3,
    "minibatch": 2,
    "rounding": 3,
    "steps": 4,
    "reported": 1,
}
EASY = [{"goals": (1, 2), "blocks": 3, "constraints": 1, "depth": 1}]


def test_advantages_are_sums_of_differences():
    random, decay = np.random.default_rng(0), 0.7
    rewards, values = random.normal(size=(2, 3, 5))
    lengths = [5, 1, 3]
    valid = np.arange(5) < np.array(lengths)[:, None]
    found = ppo.estimates(rewards, values, valid, decay)
    for n, length in enumerate(lengths):
        following = [*values[n, 1:length], 0.0]
        delta = rewards[n, :length] + following - values[n, :length]
        for step in range(length):
            terms = [decay**k * delta[step + k] for k in range(length - step)]
            np.testing.assert_allclose(found.advantages[n, step], sum(terms), rtol=1e-5)
    np.testing.assert_array_equal(found.advantages[~valid], 0)
    expected = np.where(valid, found.advantages + values, 0)
    np.testing.assert_allclose(found.returns, expected, rtol=1e-5)


@pytest.mark.backends("torch", "jax", "tensorflow")
def test_the_gradient_of_the_loss_is_that_of_reinforce():
    """-A (1ₐ − π) for the logits, plus the terms of the entropy and of the critic."""
    random = np.random.default_rng(1)
    scores = random.normal(size=(3, 5, 8))
    actions = random.integers(0, 7, (3, 5))
    advantages, returns = random.normal(size=(2, 3, 5))
    weights = random.random((3, 5))
    policy = np.exp(scores[..., :7])
    policy /= policy.sum(-1, keepdims=True)
    logs = np.log(policy)
    chosen = np.eye(7)[actions]
    old = (chosen * logs).sum(-1)  # ρ = 1
    entropy = -(policy * logs).sum(-1, keepdims=True)
    expected = np.zeros(scores.shape)
    expected[..., :7] = -advantages[..., None] * (chosen - policy)
    expected[..., :7] += 0.03 * policy * (logs + entropy)  # −∂H/∂logits
    expected[..., 7] = -0.4 * (returns - scores[..., 7])
    expected *= weights[..., None] / weights.size
    target = np.stack([actions, old, advantages, returns, weights], -1)
    loss = ppo.PolicyLoss(clip=0.2, value=0.4, entropy=0.03)
    (found,) = gradient(lambda y: loss(target.astype("float32"), y), scores)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    ("advantage", "ratio", "moves"),
    [(1, 1.5, False), (1, 0.5, True), (-1, 0.5, False), (-1, 1.5, True)],
)
@pytest.mark.backends("torch")
def test_the_loss_is_clipped_where_the_policy_has_moved_enough(advantage, ratio, moves):
    scores = np.random.default_rng(2).normal(size=(1, 1, 8))
    log = scores[0, 0, 4] - np.log(np.exp(scores[0, 0, :7]).sum())
    target = np.array([[[4, log - np.log(ratio), advantage, 0, 1]]], "float32")
    loss = ppo.PolicyLoss(value=0.0, entropy=0.0)
    (found,) = gradient(lambda y: loss(target, y), scores)
    assert found.any() == moves


@pytest.mark.parametrize(
    ("model", "count", "episodes"),
    [  # JAX compiles for 20 seconds
        pytest.param("dnc", 2, 3, marks=pytest.mark.backends("torch", "tensorflow")),
        pytest.param("lstm", 2, 3, marks=pytest.mark.backends("torch")),
        # With 128 episodes, the player goes on with half of them once half have ended.
        pytest.param("lstm", 16, 8, marks=pytest.mark.backends("torch")),
    ],
)
def test_the_learner_sees_what_the_player_saw(model, count, episodes):
    """Step by step from the state after the constraints, or all at once."""
    made = agent.agent(model, NETWORK, seed=0, episodes=episodes)
    puzzles = tasks.Puzzles(
        [{"goals": (1, 3), "blocks": 4, "constraints": (1, 2), "depth": 2}], [0]
    )
    random = np.random.default_rng(0)
    rows = [puzzles.draw(episodes, random) for _ in range(count)]
    rollout = rollouts.play(made, rows, random, 1, 5)
    x, y = training.batch(rollout, 0.9, 4)
    found = np.asarray(keras.ops.convert_to_numpy(made.learner(x)), "float64")
    found = found.reshape(len(rollout.met), -1, 8)
    valid = rollout.valid[:, : found.shape[1]]
    logs = rollouts.log_softmax(found[..., :7])
    logs = np.take_along_axis(logs, rollout.actions[:, : valid.shape[1], None], 2)
    np.testing.assert_allclose(
        logs[valid][:, 0], rollout.logs[:, : valid.shape[1]][valid], atol=1e-5
    )
    np.testing.assert_allclose(
        found[..., 7][valid], rollout.values[:, : valid.shape[1]][valid], atol=1e-5
    )
    weights = y.reshape(*found.shape[:2], -1)[..., 4]
    np.testing.assert_array_equal(weights, valid)
    # The games agree with `check_moves`.
    flat = [puzzle for row in rows for puzzle in row]
    moves = [a[v] for a, v in zip(rollout.actions, rollout.valid)]
    verdict = supervised.check_moves(flat, moves)
    np.testing.assert_array_equal(rollout.met, verdict.solved)
    np.testing.assert_array_equal(rollout.fewest, verdict.fewest)


def test_an_lstm_has_at_least_as_many_weights():
    dnc, lstm = (
        agent.agent(model, NETWORK, 0).learner.count_params() for model in agent.MODELS
    )
    assert dnc <= lstm <= 1.1 * dnc


def test_reads_start_as_a_lookup_by_letter():
    network = {**NETWORK, "letter_width": 20, "word_width": 30, "memory_slots": 9}
    made = agent.agent("dnc", network, seed=0)
    kind = {"goals": 3, "blocks": 5, "constraints": 2, "depth": 2}
    for puzzle in blocks.draw_puzzles(5, **kind):
        told, mask = rollouts.description([puzzle], 1)
        x = supervised.vectorize([puzzle])["inputs"][:, :7]
        np.testing.assert_array_equal(told, x[:, :6])
        trace = made.trunk.trace(made.encoder(x))
        slots = trace.write_weights[0, :6, 0].argmax(1)
        assert len({*slots}) == 6
        owners = np.array([letter for letter in puzzle.goals for _ in range(2)])
        read = trace.read_weights[0, -1][:, slots]  # (R, 6)
        own = read[:, owners == puzzle.asked].sum(1)
        assert (own > 3 * read[:, owners != puzzle.asked].sum(1)).all()
        assert mask.all()


@pytest.mark.parametrize("by_place", [False, True])
def test_training_puzzles_ask_for_all_goals_and_are_never_those_of_the_test(by_place):
    kind = {"goals": 3, "blocks": (3, 5), "constraints": (1, 2), "depth": (1, 2)}
    puzzles = tasks.Puzzles([kind], [1], by_place)
    random = np.random.default_rng(2)
    for _ in range(150):  # most of the last ones are renamed
        row = puzzles.draw(6, random)
        assert len({puzzle.asked for puzzle in row}) == 3
        for puzzle in row:
            assert puzzle._replace(asked="", moves=()) == row[0]._replace(
                asked="", moves=()
            )
            assert not blocks.is_of_the_test(puzzle)
            assert supervised.check_moves([puzzle], [puzzle.moves]).fewest.all()
    assert 64 < puzzles.count < 100


@pytest.mark.slow
def test_a_checkpoint_holds_the_weights_the_optimizer_and_the_progress(tmp_path):
    checkpoint = Checkpoint(tmp_path, {"task": "blocks"}, resume=True)
    trainers = []
    for seed in range(2):  # the second one starts with other weights
        made = agent.agent("lstm", NETWORK, seed, SETTINGS["episodes"])
        trainers.append(training.Trainer(made, [EASY] * 2, SETTINGS, 0, 1e9))
    first, second = trainers
    assert not first.resume(checkpoint)
    first.train(0.0)  # no time, no step
    assert first.iterations == 0
    first._iterate()
    first.lesson = 1
    checkpoint.save(first.agent.learner, first.state())
    assert second.resume(checkpoint)
    assert (second.iterations, second.lesson, second.episodes) == (1, 1, 12)
    variables = [
        [*one.agent.learner.weights, *one.agent.learner.optimizer.variables]
        for one in trainers
    ]
    for one, other in zip(*variables, strict=True):
        np.testing.assert_array_equal(one.numpy(), other.numpy())
    # Both go on with the same puzzles.
    first._iterate()
    second._iterate()
    assert second.iterations == 2
    assert first.last[0] == second.last[0]
    assert first.state()["puzzles"] == second.state()["puzzles"] != {}


KIND = {"blocks": 4, "depth": (1, 2)}


def test_random_players():
    puzzles = blocks.draw_puzzles(30, **KIND)
    made = testing.random_player(0, True)(puzzles)
    assert all(moves[-1] == blocks.PASS or len(moves) > 6 for moves in made)
    passing = testing.random_player(0, False)(puzzles)
    assert sum(map(len, passing)) < sum(map(len, made))


@pytest.mark.slow
@pytest.mark.parametrize("by_place", [False, True])
def test_the_table_of_a_test(by_place):
    """Of players whose results are known."""
    given = []

    def perfect(puzzles):
        given.extend(puzzles)
        return [puzzle.moves for puzzle in puzzles]

    test = {"goals": [1, 2], "constraints": [1, 2], "count": 20, "seed": 0, **KIND}
    found = testing.tested(perfect, by_place=by_place, **test)
    assert [(row["goals"], row["constraints"]) for row in found] == [
        (1, 1),
        (1, 2),
        (2, 1),
        (2, 2),
    ]
    for n, row in enumerate(found):
        assert (row["met"], row["fewest"], row["satisfied"]) == (1, 1, 1)
        part = given[20 * n : 20 * (n + 1)]
        assert all(tasks.is_reserved(puzzle, by_place) for puzzle in part)
        assert all(len(puzzle.goals) == row["goals"] for puzzle in part)
        shown = [wording.numbered_by_place(one) if by_place else one for one in part]
        facts = [{fact_of(c) for c in one.goals[one.asked]} for one in shown]
        keys = {(one.board, frozenset(its)) for one, its in zip(shown, facts)}
        assert row["distinct"] == len(keys)
    # A pass at once: no goal is met, and of two constraints at most one is satisfied.
    idle = testing.tested(
        lambda puzzles: [(blocks.PASS,)] * len(puzzles), by_place=by_place, **test
    )
    assert [(row["met"], row["fewest"]) for row in idle] == [(0, 0)] * 4
    assert all(row["satisfied"] <= 0.5 for row in idle)

    # A detour of two moves: met, but not in the fewest moves.
    def detour(puzzles):
        moves = [
            next((a, b) for a in range(6) for b in range(6) if back(puzzle.board, a, b))
            for puzzle in puzzles
        ]
        return [(*pair, *puzzle.moves) for pair, puzzle in zip(moves, puzzles)]

    def back(board, a, b):
        there = blocks.moved(board, a)
        return there != board and blocks.moved(there, b) == board

    longer = testing.tested(detour, by_place=by_place, **test)
    assert [(row["met"], row["fewest"]) for row in longer] == [(1, 0)] * 4


def test_a_test_with_no_reserved_puzzles_is_refused(monkeypatch):
    monkeypatch.setattr(testing, "is_reserved", lambda puzzle, by_place: False)
    player = testing.random_player(0, True)
    with pytest.raises(UsageError, match=r"no puzzle .* is reserved for tests"):
        testing.tested(player, [1], [1], 1, 0, True, blocks=2, depth=1)


TINY_TEST = {"goals": [1, 2], "constraints": [1], "count": 5, "blocks": 3, "depth": 1}


def test_the_command_trains_resumes_and_writes_its_page(tmp_path, monkeypatch, capsys):
    for name, value in {
        "NETWORK": NETWORK,
        "TRAINING": SETTINGS,
        "LESSONS": [EASY],
        "TESTED": TINY_TEST,
    }.items():
        monkeypatch.setattr(command, name, value)
    files = [tmp_path / name for name in ("runs.jsonl", "blocks.json", "blocks.md")]
    names = ("--out", "--json", "--page")
    options = [str(x) for pair in zip(names, files) for x in pair]
    folder = ["--checkpoints", str(tmp_path / "checkpoints")]
    lstm = ["blocks", "--model", "lstm", "--minutes", "0.0001", *folder, *options]
    assert command_line.main([*lstm, "--part", "1e-9"]) == 0  # no time for a step
    assert "unfinished; --resume goes on." in capsys.readouterr().out
    assert command_line.main(lstm) != 0  # there is a checkpoint
    assert "Add --resume" in capsys.readouterr().err
    assert command_line.main([*lstm, "--resume", "--model", "lstm", "random"]) == 0
    printed = capsys.readouterr().out
    assert printed.count(": met ") == 2
    assert command_line.main([*lstm, "--resume"]) == 0  # found, not trained again
    assert capsys.readouterr().out in printed
    runs = json.loads(files[1].read_text("utf-8"))["runs"]
    assert [run["model"] for run in runs] == ["lstm", "random"]
    result = runs[0]["result"]
    assert (result["iterations"], result["episodes"]) == (1, 12)
    assert [row["puzzles"] for row in result["tests"]] == [5, 5]
    page = files[2].read_text("utf-8")
    mean = np.mean([row["met"] for row in result["tests"]])
    assert f"| LSTM, seed 0 | {100 * mean:.1f} |" in page
    assert "blocks --model lstm --seeds 0 --minutes 0.0001" in page


@pytest.mark.parametrize(
    ("options", "error"),
    [
        (["--minutes", "0"], "--minutes must be above 0"),
        (["--part", "1"], "--part must be above 0, and needs --checkpoints"),
        (["--resume"], "--resume needs --checkpoints"),
    ],
)
def test_wrong_options(options, error, capsys):
    assert command_line.main(["blocks", *options]) != 0
    assert error in capsys.readouterr().err


def test_the_picture_of_a_played_puzzle(monkeypatch):
    pytest.importorskip("matplotlib")
    kind = {"goals": 2, "blocks": 4, "constraints": 1, "depth": 2}
    monkeypatch.setattr(picture, "KIND", kind)
    found = picture.picture(agent.agent("dnc", NETWORK, 0), True, seed=1)
    json.dumps(found)
    figure = drawing.plot_puzzle(*found["arguments"], **found["more"])
    puzzle = blocks.draw_puzzles(1, **kind, split="test", seed=1)[0]
    shown = {text.get_text() for text in figure.texts}
    for letter, goal in puzzle.goals.items():
        assert {f"{letter}: {a} {said} {b}" for a, said, b in goal} <= shown


@pytest.mark.release
@pytest.mark.backends("torch")
def test_an_agent_learns_by_reinforcement_alone():
    """About four seconds; nothing else shows that the parts together learn."""
    network = {**NETWORK, "features": 32, "hidden": 8, "head": [64]}
    network |= {"memory_slots": 2, "word_width": 30}
    settings = {**SETTINGS, "puzzles": 16, "episodes": 8, "minibatch": 16, "passes": 8}
    settings |= {"rate": 1e-2, "entropy": 0.01, "extra": 1, "rounding": 2, "steps": 3}
    kind = {"goals": 1, "constraints": 1, "blocks": 2, "depth": 1}
    trainer = training.Trainer(
        agent.agent("lstm", network, 0, 8), [[kind]], settings, 0, 1e9
    )
    for _ in range(20):
        trainer._iterate()
    # With sampled actions; two blocks have too few puzzles to reserve some for tests.
    assert len(trainer.recent) == 8
    played = trainer.last[0]
    made = testing.random_player(0, False)(played)
    random = supervised.check_moves(played, made).solved.mean()
    assert random < 0.3
    assert np.mean(trainer.recent) > 0.4
