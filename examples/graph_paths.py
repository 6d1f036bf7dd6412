"""A network with external memory reads a graph and finds shortest paths in it.

    python examples/graph_paths.py                        # about four minutes
    python examples/graph_paths.py --minutes 30           # larger graphs
    python examples/graph_paths.py --backend torch        # or tensorflow; slower

A differentiable neural computer reads the edges of a random graph in random order, each
as a triple (node, edge, node) of numbers. It then reads a question, (node, ?, node).
After a few steps without input, it writes a shortest path edge by edge. Every graph is
new, so the network must learn the task, not a map. The lessons grow from one edge
between three nodes to longer paths in larger graphs. The next lesson begins when the
current one is mastered.

As in the paper, the network chooses an outgoing edge of the current node at each answer
step and reads its own choice at the next step. The script also prints the accuracy of
random choices for comparison.

Graves et al., "Hybrid computing using a neural network with dynamic external memory"
(2016), https://www.nature.com/articles/nature20101, "Graph task descriptions".
"""

import argparse
import importlib.util
import os
import sys
import time
from pathlib import Path


def parse_arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--backend", choices=("jax", "tensorflow", "torch"), help="default: jax")
    add(
        "--minutes",
        type=float,
        default=4,
        help="of processor time for training, at most; default: 4",
    )
    add("--seed", type=int, default=0, help="of all chance; default: 0")
    add("--out", type=Path, default=Path("graph_paths"), help="where to write")
    return parser.parse_args()


# Keras chooses its backend when it is imported.
arguments = parse_arguments()
backend = arguments.backend or os.environ.get("KERAS_BACKEND", "jax")
os.environ["KERAS_BACKEND"] = backend
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
if importlib.util.find_spec(backend) is None:
    sys.exit(f'{backend} is not installed: python -m pip install ".[{backend},viz]"')

import keras
import numpy as np

from keras_attention import callbacks, layers, models
from keras_attention.datasets import graphs

LESSONS = (  # numbers of nodes, outgoing edges per node, edges of the path
    graphs.Lesson((3, 4), (1, 2), (1, 1)),
    graphs.Lesson((3, 5), (1, 2), (1, 2)),
    graphs.Lesson((4, 6), (1, 2), (1, 2)),
    graphs.Lesson((5, 8), (1, 3), (1, 3)),
    graphs.Lesson((8, 12), (2, 3), (1, 3)),
)
DONE = 0.9  # share of shortest paths that ends a lesson
PLANNING = 4  # steps without input
BATCH = 8
EPOCH = 400  # batches between two tests


def main():
    arguments.out.mkdir(parents=True, exist_ok=True)
    model, lesson = train()

    print("\nshortest ways among 300 new graphs, found and by lot:")
    for number in range(lesson + 1):
        data = sample_graphs(number, 300, seed=1)
        played, lots = ways(model, data), graphs.play(by_lot, data)
        right, lucky = (way.verdict.shortest.mean() for way in (played, lots))
        print(f"lesson {number + 1}, {told(number)}: {right:6.1%}, {lucky:6.1%}")
    index = longest_right(played)
    path = arguments.out / "path.png"
    picture(played, index, path)
    print(f"\nthe way from {played.data['source'][index]}: {in_words(played, index)}")
    print(f"picture: {path}")

    path = arguments.out / "model.keras"
    model.save(path)
    again = keras.saving.load_model(
        path, custom_objects={f.__name__: f for f in (nine_digits, edges_right)}
    )
    same = np.array_equal(ways(again, data).paths, played.paths)
    print(f"model:   {path}, loaded again: {'the same' if same else 'OTHER'} ways")


def told(number):
    """Describes the difficulty of a lesson."""
    nodes, _, length = LESSONS[number]
    ends = "-".join(str(n) for n in sorted(set(length)))
    return f"{nodes[0]}-{nodes[1]} nodes, ways of {ends}"


def sample_graphs(number, count, seed):
    """Generates graphs of a lesson with one question each, padded to its maximum."""
    nodes, degree, length = LESSONS[number]
    steps = nodes[1] * degree[1] + 1 + PLANNING + length[1] + 1
    return graphs.shortest_path(
        count, nodes, degree, length, PLANNING, seed=seed, steps=steps
    )


def asked(data):
    """Selects the inputs of a `DNCNetwork` from a task's arrays."""
    return {name: data[name] for name in ("inputs", "answer_mask")}


def ways(model, data):
    """Returns the paths that a model finds from its own choices."""
    return graphs.play(lambda x: model.predict(asked(x), verbose=0), data)


def by_lot(inputs):
    """Returns random scores."""
    steps = inputs["answer_mask"].shape
    return np.random.default_rng(int(inputs["inputs"].sum())).normal(size=(*steps, 90))


def digits(edges):
    """Reshapes (B, T, 90) to nine digits, (B, T, 9, 10)."""
    return keras.ops.reshape(edges, (*keras.ops.shape(edges)[:-1], 9, 10))


def nine_digits(targets, logits):
    """Computes the summed cross-entropy of nine digits, three per number."""
    each = keras.losses.categorical_crossentropy(
        digits(targets), digits(logits), from_logits=True
    )
    return keras.ops.sum(each, axis=-1)


def edges_right(targets, logits):
    """Returns whether all nine digits of an edge are correct."""
    right, said = (keras.ops.argmax(digits(x), axis=-1) for x in (targets, logits))
    return keras.ops.all(keras.ops.equal(right, said), axis=-1)


def train():
    """Trains a model lesson by lesson, and returns it with its last lesson."""
    keras.utils.set_random_seed(arguments.seed)
    cell = layers.DNCCell(
        keras.layers.LSTMCell(96), memory_slots=40, word_width=48, read_heads=1
    )
    model = models.DNCNetwork(cell, output_units=90, input_dim=92)
    model.compile(
        optimizer=keras.optimizers.Adam(0.003, global_clipnorm=10.0),
        loss=nine_digits,
        metrics=[edges_right],
    )

    def batch(lesson, seed):
        data = sample_graphs(lesson, BATCH, [arguments.seed, *seed])
        return asked(data), data["targets"]

    lessons = callbacks.Lessons(batch, len(LESSONS), EPOCH)
    watch = Watch(lessons)
    curriculum = callbacks.Curriculum(lessons, monitor="shortest", threshold=DONE)
    model.fit(
        lessons, epochs=10**6, shuffle=False, verbose=0, callbacks=[watch, curriculum]
    )
    seconds = time.perf_counter() - watch.start
    print(f"trained {watch.steps} steps, {seconds:.0f} s on {keras.config.backend()}")
    return model, lessons.lesson


class Watch(keras.callbacks.Callback):
    """Tests after each epoch, prints the progress, and ends the training in time."""

    def __init__(self, lessons):
        super().__init__()
        self.lessons = lessons
        self.steps = 0
        self.start, self.worked = time.perf_counter(), time.process_time()

    def on_train_batch_end(self, batch, logs=None):
        self.steps += 1
        if time.process_time() - self.worked > 60 * arguments.minutes:
            self.model.stop_training = True

    def on_epoch_end(self, epoch, logs=None):
        lesson = self.lessons.lesson
        played = ways(self.model, sample_graphs(lesson, 128, seed=2))
        logs["shortest"] = float(played.verdict.shortest.mean())
        print(
            f"step {self.steps:5}, lesson {lesson + 1} ({told(lesson)}): loss "
            f"{logs['loss']:6.3f}, all digits right {logs['edges_right']:6.1%}, "
            f"shortest ways {logs['shortest']:6.1%}",
            flush=True,
        )


def longest_right(played):
    """Returns the index of the correct path with the most edges."""
    edges = (played.paths[..., 0] >= 0).sum(1)
    return int(np.argmax(edges + 100 * played.verdict.shortest))


def in_words(played, index):
    """Formats a path edge by edge."""
    return " ".join(f"-({e})-> {to}" for n, e, to in played.paths[index] if n >= 0)


def picture(played, index, path):
    """Draws a graph with its nodes on a circle, and the found path."""
    from matplotlib.figure import Figure

    data = played.data
    nodes = [int(n) for n in data["graphs"].nodes[index] if n >= 0]
    turn = 2 * np.pi * np.arange(len(nodes)) / len(nodes)
    places = dict(zip(nodes, np.stack([np.sin(turn), np.cos(turn)], 1)))
    taken = {tuple(int(n) for n in edge) for edge in played.paths[index]}
    figure = Figure(figsize=(6, 6.4), layout="constrained")
    ax = figure.add_subplot()
    ax.set_axis_off()
    ax.set(xlim=(-1.2, 1.2), ylim=(-1.2, 1.2), aspect="equal")
    for start, name, end in data["graphs"].triples(index).tolist():
        way = (start, name, end) in taken
        color, width = ("#d55e00", 2.5) if way else ("#9a9a9a", 0.8)
        style = {"arrowstyle": "-|>", "color": color, "lw": width, "mutation_scale": 16}
        style |= {"shrinkA": 16, "shrinkB": 16, "connectionstyle": "arc3,rad=0.12"}
        ax.annotate("", places[end], places[start], arrowprops=style, zorder=2 + way)
        if way:
            across, up = places[end] - places[start]
            along = 0.5 * (places[start] + places[end])
            along += 0.06 * np.array([up, -across])  # position of the curved arrow
            box = {"facecolor": "white", "edgecolor": "none", "pad": 1}
            ax.text(*along, str(name), color=color, ha="center", zorder=4, bbox=box)
    source, goal = int(data["source"][index]), int(data["destination"][index])
    ends = {source: "from", goal: "to"}
    for node, place in places.items():
        fill = "#ffe3cc" if node in ends else "white"
        label = {"ha": "center", "va": "center", "zorder": 6}
        ax.plot(*place, "o", ms=30, mfc=fill, mec="#333333", zorder=5)
        ax.text(*place, str(node), **label)
        if node in ends:
            ax.text(*(1.16 * place), ends[node], weight="bold", **label)
    ax.set_title(f"The way from {source} to {goal}, found by a DNC")
    figure.savefig(path, dpi=120)


if __name__ == "__main__":
    main()
