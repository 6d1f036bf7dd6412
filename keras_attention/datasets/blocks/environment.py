"""The block puzzles as an environment of Gymnasium.

`gymnasium` is an extra: `pip install gymnasium`. Import this module to register the
environment:

```python
import gymnasium

name = "keras_attention.datasets.blocks.environment:keras_attention/MiniSHRDLU-v0"
environment = gymnasium.make(name, goals=(1, 2), constraints=1)
observation, info = environment.reset(seed=0)
```
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from keras_attention.datasets.blocks.boards import PASS, SIZE
from keras_attention.datasets.blocks.game import Game, Rewards
from keras_attention.datasets.blocks.puzzles import Puzzle, draw_puzzles
from keras_attention.datasets.blocks.vectors import ACTIONS, INPUTS, tell, told
from keras_attention.datasets.ragged import Range

try:
    import gymnasium
except ImportError as error:
    raise ImportError(
        "The environment of block puzzles needs Gymnasium: `pip install gymnasium`, or "
        "the extra `gym` of this package. `keras_attention.datasets.blocks.Game` plays "
        "the same puzzles without it."
    ) from error

ID = "keras_attention/MiniSHRDLU-v0"
_SQUARE, _LINE = 32, 2  # pixels of a square and of the line around it
_COLORS = (
    (245, 245, 245),  # an empty square
    (31, 119, 180),
    (255, 127, 14),
    (44, 160, 44),
    (214, 39, 40),
    (148, 103, 189),
    (140, 86, 75),
)


class MiniSHRDLU(gymnasium.Env):
    """A block puzzle, step by step.

    An episode has two phases. First, each observation states one constraint of one
    goal, and the last of these observations asks for a goal by its letter. Actions have
    no effect and no reward in this phase. Then each observation shows the board, and
    each action moves a block or passes. A pass ends the episode (`terminated`); so does
    the limit on the number of actions (`truncated`). The rules and the rewards are
    those of `Game`.

    Args:
        goals: Number of goals, or a (minimum, maximum) range.
        blocks: Number of blocks; at most 6.
        constraints: Number of constraints per goal; limited by `depth`, see
            `draw_puzzles`.
        depth: Distance in moves from the board to the board that a goal describes.
        split: `"train"`, `"test"` or `"all"`, see `draw_puzzles`.
        extra: Number of moves allowed beyond the minimum.
        rewards: See `Game`.
        render_mode: `"ansi"` for text, `"rgb_array"` for an image, or None.

    Observations: (97,) float32, one-hot: letter (26), block (6), relation (4: above,
    below, left, right), block (6), go cue (1), block on each square (9 times 6, from
    the bottom, columns from left to right). The go cue is 1 from the request on.

    Actions: 0 to 5 for `MOVES`, 6 for a pass.

    `reset` accepts the option `"puzzle"`, a `Puzzle` to play. The dictionary `info` has
    the entries `"acting"`, whether the next action counts; `"satisfied"`, the share of
    satisfied constraints of the requested goal; `"met"`, whether all are satisfied; and
    `"fewest"`, the minimum number of moves of the puzzle.

    Raises:
        ValueError: as `draw_puzzles` and `Game`; or an unknown `render_mode`. `reset`
            raises it for other options, and `step` for other actions.
        RuntimeError: a step before the first reset, or after the end of an episode.

    Example:
        ```python
        environment = MiniSHRDLU(goals=2, render_mode="ansi")
        observation, info = environment.reset(seed=0)
        while not info["acting"]:
            observation, *_, info = environment.step(6)
        print(environment.render())
        ```

    Reference:
        Graves et al. (2016), Methods, "Mini-SHRDLU".
    """

    metadata: ClassVar[dict[str, Any]] = {
        "render_modes": ["ansi", "rgb_array"],
        "render_fps": 2,
    }

    def __init__(
        self,
        goals: Range = (2, 4),
        blocks: Range = (3, 4),
        constraints: Range = (1, 2),
        depth: Range = (1, 2),
        split: str = "train",
        extra: int = 6,
        rewards: Rewards | None = None,
        render_mode: str | None = None,
    ) -> None:
        if render_mode not in (None, *self.metadata["render_modes"]):
            raise ValueError(
                f"`render_mode` must be one of {self.metadata['render_modes']} or None."
                f" Received: {render_mode=}"
            )
        self.kind: dict[str, Any] = {
            "goals": goals,
            "blocks": blocks,
            "constraints": constraints,
            "depth": depth,
            "split": split,
        }
        self.extra, self.rewards, self.render_mode = extra, rewards, render_mode
        # Draws a puzzle, so that wrong arguments fail here. It is not used.
        Game(draw_puzzles(1, **self.kind), extra, rewards)
        self.observation_space = gymnasium.spaces.Box(0, 1, (INPUTS,), np.float32)
        self.action_space = gymnasium.spaces.Discrete(ACTIONS)
        self.puzzle: Puzzle | None = None
        self._game: Game | None = None
        self._rows = np.zeros((0, INPUTS), np.float32)
        self._told = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Starts a puzzle: a new one, or the option `"puzzle"`."""
        super().reset(seed=seed)
        options = options or {}
        if unknown := [*options.keys() - {"puzzle"}]:
            raise ValueError(
                "`options` must have no other entry than 'puzzle'. "
                f"Received: options with {unknown}"
            )
        puzzle = options.get("puzzle")
        if not isinstance(puzzle, Puzzle | None):
            raise ValueError(
                "The option 'puzzle' must be a `blocks.Puzzle`. "
                f"Received: puzzle={puzzle!r}"
            )
        if puzzle is None:
            puzzle = draw_puzzles(1, **self.kind, seed=self.np_random)[0]
        self.puzzle, self._told = puzzle, 0
        self._game = Game([puzzle], self.extra, self.rewards)
        self._rows = np.zeros((told(puzzle), INPUTS), np.float32)
        tell(puzzle, self._rows)
        return self._rows[0].copy(), self._info()

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Shows the next constraint, or performs an action."""
        if self._game is None or self._game.ended[0]:
            when = "before the first reset" if self._game is None else "after the end"
            raise RuntimeError(
                "Call `reset` before `step`: before the first one, and after the end "
                f"of an episode. Received: a step {when}"
            )
        if np.ndim(action) or action not in range(ACTIONS):
            raise ValueError(
                f"`action` must be a number from 0 to {PASS}. Received: {action=}"
            )
        reward, acting = 0.0, self._acting()
        if acting:
            reward = float(self._game.step(np.array([action])).rewards[0])
        else:
            self._told += 1
        ended = bool(self._game.ended[0])
        passed = acting and int(action) == PASS
        row = self._game.observe()[0] if self._acting() else self._rows[self._told]
        return row.copy(), reward, passed, ended and not passed, self._info()

    def render(self) -> Any:
        """Returns the puzzle as text, or the board as an image, (98, 98, 3) uint8."""
        if self.render_mode is None or self._game is None or self.puzzle is None:
            return None
        board = self._game.board(0)
        if self.render_mode == "rgb_array":
            return _image(board)
        lines = [
            " ".join(str(stack[row]) if row < len(stack) else "." for stack in board)
            for row in reversed(range(SIZE))
        ]
        for letter, goal in self.puzzle.goals.items():
            words = "; ".join(f"{a} {relation} {b}" for a, relation, b in goal)
            shown = self._acting() and letter == self.puzzle.asked
            lines.append(f"{'>' if shown else ' '} {letter}: {words}")
        return "\n".join(lines) + "\n"

    def _acting(self) -> bool:
        return self._told == len(self._rows)

    def _info(self) -> dict[str, Any]:
        assert self._game is not None
        return {
            "acting": self._acting(),
            "satisfied": float(self._game.satisfied()[0]),
            "met": bool(self._game.is_met()[0]),
            "fewest": int(self._game.fewest[0]),
        }


def _image(board: Any) -> np.ndarray:
    size = SIZE * _SQUARE + _LINE
    image = np.zeros((size, size, 3), np.uint8)
    for column in range(SIZE):
        for row in range(SIZE):
            stack = board[column]
            block = stack[row] if row < len(stack) else 0
            top = (SIZE - 1 - row) * _SQUARE + _LINE
            left = column * _SQUARE + _LINE
            image[top : top + _SQUARE - _LINE, left : left + _SQUARE - _LINE] = _COLORS[
                block
            ]
    return image


if ID not in gymnasium.registry:
    gymnasium.register(ID, entry_point=MiniSHRDLU)
