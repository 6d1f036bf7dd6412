"""Block puzzles as games: rules, rewards, limits, and the environment of Gymnasium."""

import numpy as np
import pytest

from keras_attention.datasets import blocks
from keras_attention.datasets.blocks import boards, vectors

KIND = {"goals": (1, 3), "blocks": (2, 6), "constraints": (1, 2), "depth": (1, 3)}


@pytest.mark.parametrize("count", [1, 3, 5])
def test_a_search_of_a_few_moves(count):
    every = boards.all_boards(count)
    for start in np.random.default_rng(0).integers(0, len(every.boards), 5):
        goal = np.arange(len(every.boards)) == start
        left = boards.moves_to(every, goal)
        near = boards.moves_to(every, goal, 2)
        np.testing.assert_array_equal(near, np.where(left <= 2, left, -1))


def test_a_game_follows_the_rules_of_the_boards():
    puzzles = blocks.draw_puzzles(40, **KIND, seed=1)
    game, random = blocks.Game(puzzles, extra=2), np.random.default_rng(2)
    here = [puzzle.board for puzzle in puzzles]
    ended = np.zeros(len(puzzles), bool)
    for step in range(1, 8):
        actions = random.integers(0, 7, len(puzzles))
        rewards, now = game.step(actions)
        for n, puzzle in enumerate(puzzles):
            goal = puzzle.goals[puzzle.asked]
            before = np.mean([blocks.holds(here[n], c) for c in goal])
            if ended[n]:
                assert rewards[n] == 0
                assert now[n]
                continue
            after = blocks.moved(here[n], actions[n])
            gain = np.mean([blocks.holds(after, c) for c in goal]) - before
            passed = actions[n] == blocks.PASS
            gain -= 0 if passed else 0.02 if after != here[n] else 0.07
            ended[n] = passed or step == len(puzzle.moves) + 3
            if ended[n]:
                gain += 1 if blocks.is_reached(after, goal) else -0.5
            here[n] = after
            assert now[n] == ended[n]
            np.testing.assert_allclose(rewards[n], gain, atol=1e-6)
            assert game.board(n) == after
            np.testing.assert_allclose(
                game.satisfied()[n], np.mean([blocks.holds(after, c) for c in goal])
            )
    assert ended.all()
    assert len({*map(len, [p.moves for p in puzzles])}) > 1


def test_the_sum_of_the_shaped_rewards_does_not_depend_on_the_way():
    puzzle = blocks.draw_puzzles(1, **KIND, seed=5)[0]
    no_costs = blocks.Rewards(met=1.0, unmet=0.0, move=0.0, impossible=0.0)
    game = blocks.Game([puzzle] * 2, extra=6, rewards=no_costs)
    back = blocks.MOVES.index(blocks.MOVES[puzzle.moves[0]][::-1])
    longer = [puzzle.moves[0], back, *puzzle.moves, blocks.PASS]
    shorter = [*puzzle.moves, blocks.PASS]
    totals = np.zeros(2)
    for step in range(len(longer)):
        short = shorter[min(step, len(shorter) - 1)]
        totals += game.step(np.array([longer[step], short])).rewards
    np.testing.assert_allclose(totals, 2, atol=1e-6)  # all constraints, and met


@pytest.mark.parametrize("actions", [[0], [0, 7], [0, -1], [0, 0.5]])
def test_wrong_actions_change_nothing(actions):
    game = blocks.Game(blocks.draw_puzzles(2, **KIND))
    before = game.boards.copy()
    with pytest.raises(ValueError, match="`actions` must be 2 numbers from 0 to 6"):
        game.step(np.array(actions))
    np.testing.assert_array_equal(game.boards, before)
    assert not game.made.any()


def test_wrong_games():
    with pytest.raises(ValueError, match="`puzzles` must hold at least one"):
        blocks.Game([])
    for extra in (-1, "6"):
        with pytest.raises(ValueError, match="`extra` must be a whole number of at"):
            blocks.Game(blocks.draw_puzzles(1), extra=extra)
    with pytest.raises(ValueError, match=r"`rewards` must be .* Received: rewards={"):
        blocks.Game(blocks.draw_puzzles(1), rewards={"met": 2})


class TestEnvironment:
    """With Gymnasium, if it is installed."""

    @pytest.fixture
    def module(self):
        pytest.importorskip("gymnasium")
        from keras_attention.datasets.blocks import environment

        return environment

    @pytest.mark.parametrize("mode", [None, "ansi", "rgb_array"])
    def test_gymnasium_accepts_it(self, module, mode):
        import gymnasium
        from gymnasium.utils.env_checker import check_env

        check_env(gymnasium.make(module.ID, render_mode=mode).unwrapped)

    def test_an_episode(self, module):
        env = module.MiniSHRDLU(goals=2, blocks=5, render_mode="ansi")
        observation, info = env.reset(seed=3)
        seen, moves = [observation], [*env.puzzle.moves, blocks.PASS]
        while not info["acting"]:  # actions have no effect while goals are stated
            observation, reward, *ended, info = env.step(0)
            assert (reward, ended) == (0, [False, False])
            seen.append(observation)
        assert f"> {env.puzzle.asked}: " in env.render()
        for move in moves:
            observation, reward, terminated, truncated, info = env.step(move)
            seen.append(observation)
        assert (terminated, truncated, info["met"]) == (True, False, True)
        assert info["fewest"] == len(moves) - 1
        told = np.zeros((vectors.told(env.puzzle), 97), np.float32)
        vectors.tell(env.puzzle, told)
        np.testing.assert_array_equal(seen[: len(told)], told)
        game = blocks.Game([env.puzzle])
        for shown, move in zip(seen[len(told) :], moves):
            np.testing.assert_array_equal(shown, game.observe()[0])
            game.step(np.array([move]))
        message = "Call `reset` before `step`: .* Received: a step after the end"
        with pytest.raises(RuntimeError, match=message):
            env.step(0)
        message = "Call `reset` before `step`: .* a step before the first reset"
        with pytest.raises(RuntimeError, match=message):
            module.MiniSHRDLU().step(0)

    def test_the_limit_and_a_given_puzzle(self, module):
        puzzle = blocks.draw_puzzles(1, goals=1, constraints=1, depth=1)[0]
        env = module.MiniSHRDLU(extra=0, render_mode="rgb_array")
        _, info = env.reset(options={"puzzle": puzzle})
        first = env.render()
        assert (first.shape, first.dtype) == ((98, 98, 3), np.uint8)
        while not info["acting"]:
            *_, info = env.step(0)
        back = blocks.MOVES.index(blocks.MOVES[puzzle.moves[0]][::-1])
        *_, terminated, truncated, _ = env.step(puzzle.moves[0])
        assert (terminated, truncated) == (False, False)
        assert (env.render() != first).any()
        *_, terminated, truncated, info = env.step(back)
        assert (terminated, truncated, info["met"]) == (False, True, False)
        np.testing.assert_array_equal(env.render(), first)

    def test_wrong_arguments(self, module):
        with pytest.raises(ValueError, match="`render_mode` must be one of"):
            module.MiniSHRDLU(render_mode="human")
        with pytest.raises(ValueError, match="`blocks` must be at most 6"):
            module.MiniSHRDLU(blocks=7)
        with pytest.raises(ValueError, match="`extra` must be a whole number of at"):
            module.MiniSHRDLU(extra=-1)
        with pytest.raises(ValueError, match=r"`rewards` must be `blocks.Rewards`"):
            module.MiniSHRDLU(rewards={"met": 2})
        env = module.MiniSHRDLU()
        with pytest.raises(ValueError, match=r"'puzzle' must be .*Received: puzzle=3"):
            env.reset(options={"puzzle": 3})
        with pytest.raises(ValueError, match=r"`options` must have no other .*puzzel"):
            env.reset(options={"puzzel": blocks.draw_puzzles(1)[0]})
        env.reset(seed=1)
        for action in (7, -1, 0.5, "3", None, [0]):  # while constraints are stated
            message = "`action` must be a number from 0 to 6. Received: action="
            with pytest.raises(ValueError, match=message):
                env.step(action)
        assert not env.step(np.int64(6))[-1]["met"]
