"""Random planar graphs, railways and families, and the DNC tasks on them.

Graves et al., 2016, *Hybrid computing using a neural network with dynamic external
memory*, Nature 538, Methods, "Graph task descriptions". Nodes and edges have labels
from 0 to 999; a graph is presented as triples (source, edge, destination), one per
step.

```python
from keras_attention.datasets import graphs

data = graphs.shortest_path(count=32, nodes=(8, 12), seed=1)
data["inputs"].shape  # (32, T, 92)
```

Every task returns a dictionary:

- `"inputs"`: (N, T, 92) float32: nine one-hot digits of a triple, all zero for blank
  labels; a flag for the start of a phase; a flag for answer steps;
- `"answer_mask"`: (N, T) bool, True at the answer steps;
- `"targets"`: (N, T, 90) float32: nine one-hot digits of the target triple, for nine
  softmaxes; zero outside the answer;
- `"lengths"`: (N,) int32, the number of steps of each sequence; the rest is padding;
- `"graphs"`: the `Graphs`, used to check answers.

The paper's networks also end each answer with a termination mark that the paper does
not describe. Here, an answer has the length of the path.
"""

from keras_attention.datasets.graphs.encoding import decode, decode_inputs, encode
from keras_attention.datasets.graphs.families import (
    KINDS,
    Families,
    given_names,
    kinship,
    random_families,
    relation_name,
)
from keras_attention.datasets.graphs.family_tasks import family_tree
from keras_attention.datasets.graphs.maps import (
    Graphs,
    Network,
    random_graphs,
    read_network,
)
from keras_attention.datasets.graphs.railways import load_underground, read_railway
from keras_attention.datasets.graphs.tasks import (
    Lesson,
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
    "KINDS",
    "Families",
    "Graphs",
    "Lesson",
    "Network",
    "Played",
    "Verdict",
    "check_paths",
    "choose",
    "decode",
    "decode_inputs",
    "distances",
    "encode",
    "family_tree",
    "given_names",
    "inference",
    "kinship",
    "load_underground",
    "play",
    "random_families",
    "random_graphs",
    "read_network",
    "read_railway",
    "relation_name",
    "relations",
    "shortest_path",
    "traversal",
]
