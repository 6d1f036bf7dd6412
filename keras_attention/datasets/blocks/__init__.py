"""Mini-SHRDLU block puzzles: several goals are described, and one of them is requested.

Graves et al., 2016, *Hybrid computing using a neural network with dynamic external
memory*, Nature 538, Methods, "Mini-SHRDLU". The paper trains by reinforcement learning.
`Game` plays many puzzles at once, with rewards, and `environment.MiniSHRDLU` is an
environment of Gymnasium. Each puzzle has a shortest solution, found by breadth-first
search.

```python
from keras_attention.datasets import blocks

puzzles = blocks.draw_puzzles(count=32, goals=2, blocks=3, seed=1)
game = blocks.Game(puzzles)
game.observe().shape  # (32, 97)
```
"""

from keras_attention.datasets.blocks.boards import MOVES, PASS, RELATIONS, moved
from keras_attention.datasets.blocks.game import Game, Rewards, Stepped
from keras_attention.datasets.blocks.puzzles import (
    Puzzle,
    draw_puzzles,
    holds,
    is_of_the_test,
    is_reached,
)
from keras_attention.datasets.blocks.vectors import INPUTS

__all__ = [
    "INPUTS",
    "MOVES",
    "PASS",
    "RELATIONS",
    "Game",
    "Puzzle",
    "Rewards",
    "Stepped",
    "draw_puzzles",
    "holds",
    "is_of_the_test",
    "is_reached",
    "moved",
]
