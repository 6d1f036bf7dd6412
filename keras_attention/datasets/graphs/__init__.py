"""Random planar graphs, and three questions about them, as the DNC learned them.

Graves et al., 2016, *Hybrid computing using a neural network with dynamic external
memory*, Nature 538, Methods, "Graph task descriptions". Nodes and edges have labels
from 0 to 999; a graph is told as triples (source, edge, destination), one a step.

```python
from keras_attention.datasets import graphs

data = graphs.shortest_path(count=32, nodes=(8, 12), seed=1)
data["inputs"].shape  # (32, T, 92)
```

Every task gives a dictionary:

- `"inputs"`: (N, T, 92) float32: a triple as nine digits, each one-hot, with zeros
  where a label is left blank; whether a phase begins; whether an answer is asked for;
- `"answer_mask"`: (N, T) bool, True at the steps to answer at;
- `"targets"`: (N, T, 90) float32: the triple to answer, nine one-hot digits, for nine
  softmaxes; zero where none is asked for;
- `"lengths"`: (N,) int32, the steps of each sequence; padding follows behind them;
- `"graphs"`: the `Graphs` themselves, for the checkers.

The paper's networks also learn to end an answer with a mark of their own, which it does
not describe; here an answer is as long as the path.
"""

from keras_attention.datasets.graphs.encoding import decode, encode
from keras_attention.datasets.graphs.lessons import (
    INFERENCE,
    SHORTEST_PATH,
    SHORTEST_PATH_SMALL,
    TRAVERSAL,
    Lesson,
    lesson_data,
)
from keras_attention.datasets.graphs.maps import (
    Graphs,
    Network,
    random_graphs,
    read_network,
)
from keras_attention.datasets.graphs.tasks import (
    inference,
    relations,
    shortest_path,
    traversal,
)
from keras_attention.datasets.graphs.walks import (
    Played,
    Verdict,
    check_paths,
    choose,
    distances,
    play,
)

__all__ = [
    "INFERENCE",
    "SHORTEST_PATH",
    "SHORTEST_PATH_SMALL",
    "TRAVERSAL",
    "Graphs",
    "Lesson",
    "Network",
    "Played",
    "Verdict",
    "check_paths",
    "choose",
    "decode",
    "distances",
    "encode",
    "inference",
    "lesson_data",
    "play",
    "random_graphs",
    "read_network",
    "relations",
    "shortest_path",
    "traversal",
]
