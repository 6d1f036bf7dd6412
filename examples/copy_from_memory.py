"""A network with external memory learns to copy its input once or repeatedly.

    python examples/copy_from_memory.py                   # a few minutes
    python examples/copy_from_memory.py --task copy       # or repeat
    python examples/copy_from_memory.py --backend torch   # or tensorflow; slower

A differentiable neural computer reads one bit vector per step and then writes the
vectors without further input, so its output must come from memory. The tests use new
sequences. The copy task is also tested on sequences longer than in training, with more
memory slots. Repeat copy uses a curriculum of one, two and three repetitions. The
figures show where the network writes and how it finds the content again.

The network is Graves et al., "Hybrid computing using a neural network with dynamic
external memory" (2016), https://www.nature.com/articles/nature20101. The equations are
in keras_attention/ops/memory/addressing.py, the cell in
keras_attention/layers/external_memory/dnc_cell.py, and the model in
keras_attention/models/external_memory/dnc_network.py.
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
        "--task",
        default="both",
        choices=("copy", "repeat", "both"),
        help="default: both, one after the other",
    )
    add("--steps", type=count, default=8000, help="of training at most; default: 8000")
    add("--seed", type=int, default=0, help="of all chance; default: 0")
    add("--out", type=Path, default=Path("memory"), help="where to write")
    return parser.parse_args()


def count(text):
    """Converts an argument to an integer of at least 1."""
    if text.isascii() and text.isdigit() and int(text):
        return int(text)
    raise argparse.ArgumentTypeError(f"must be at least 1. Received: {text}")


# Keras chooses its backend when it is imported.
arguments = parse_arguments()
backend = arguments.backend or os.environ.get("KERAS_BACKEND", "jax")
os.environ["KERAS_BACKEND"] = backend
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
if importlib.util.find_spec(backend) is None:
    sys.exit(f'{backend} is not installed: python -m pip install ".[{backend},viz]"')

import keras
import numpy as np

from keras_attention import callbacks, layers, models, visualization
from keras_attention.datasets import algorithms

BATCH = 16
EPOCH = 100  # training steps between two validations


def copying(count, seed, lesson=0, longer=False):
    """Generates sequences of at most 8 vectors, or of 16 for the longer test."""
    length = 16 if longer else (1, 8)
    return algorithms.copy(count, length, bits=6, seed=seed, steps=33 if longer else 17)


def repeating(count, seed, lesson=2):
    """Generates at most 4 vectors, repeated as in the lesson, at most 3 times."""
    times = (1, 1 + lesson)
    return algorithms.repeat_copy(count, (1, 4), times, 6, seed=seed, steps=4 * 4 + 3)


TASKS = {"copy": (copying, 1), "repeat": (repeating, 3)}  # number of lessons


def main():
    arguments.out.mkdir(parents=True, exist_ok=True)
    for task, (draw, lessons) in TASKS.items():
        if arguments.task in (task, "both"):
            work(task, draw, lessons)


def work(task, draw, lessons):
    """Trains and tests one task and draws the memory."""
    print(f"\n{task}", flush=True)
    model = train(draw, lessons)
    new = draw(500, seed=1)
    print(f"bits right, new sequences:           {right(model, new):7.2%}")
    if task == "copy":
        larger = model.resized(2 * model.cell.memory_slots)
        longer = draw(100, seed=2, longer=True)
        print(f"bits right, longer ones, more slots: {right(larger, longer):7.2%}")

    path = arguments.out / f"{task}.png"
    picture(task, model, draw(20, seed=3), path)
    print(f"picture: {path}")
    path = arguments.out / f"{task}.keras"
    model.save(path)
    again = keras.saving.load_model(path)
    same = np.array_equal(answers(again, new), answers(model, new))
    print(f"model:   {path}, loaded again: {'the same' if same else 'OTHER'} answers")


def train(draw, lessons):
    """Trains a model on sequences that are newly generated for each step."""
    example = draw(2, seed=0)
    keras.utils.set_random_seed(arguments.seed)
    cell = layers.DNCCell(
        keras.layers.LSTMCell(64), memory_slots=16, word_width=12, read_heads=1
    )
    model = models.DNCNetwork(
        cell,
        output_units=example["targets"].shape[-1],
        input_dim=example["inputs"].shape[-1],
    )
    model.compile(
        optimizer=keras.optimizers.Adam(0.003, global_clipnorm=10.0),
        loss=keras.losses.BinaryCrossentropy(from_logits=True),
        metrics=[keras.metrics.BinaryAccuracy(threshold=0.0, name="bits_right")],
    )

    def batch(lesson, seed):
        data = draw(BATCH, seed, lesson)
        return asked(data), data["targets"]

    epoch = min(EPOCH, arguments.steps)
    data = callbacks.Lessons(batch, lessons, epoch, arguments.seed)
    rises = callbacks.Curriculum(data, "loss", threshold=0.03, mode="min")
    start = time.perf_counter()
    history = model.fit(
        data,
        epochs=-(-arguments.steps // epoch),
        verbose=0,
        callbacks=[rises, Watch(lessons)],
    )
    seconds = time.perf_counter() - start
    steps = epoch * len(history.epoch)
    print(f"trained {steps} steps, {seconds:.0f} s on {keras.config.backend()}")
    return model


class Watch(keras.callbacks.Callback):
    """Prints the progress and stops the training when almost all bits are right."""

    def __init__(self, lessons):
        super().__init__()
        self.lessons = lessons

    def on_epoch_end(self, epoch, logs=None):
        if (epoch + 1) % 5 == 0:
            print(
                f"step {EPOCH * (epoch + 1):5}, lesson {logs['lesson'] + 1}: loss "
                f"{logs['loss']:.4f}, bits right {logs['bits_right']:.2%}",
                flush=True,
            )
        if logs["lesson"] == self.lessons - 1 and logs["loss"] < 0.01:
            self.model.stop_training = True


def asked(data):
    """Selects the inputs of a `DNCNetwork` from a task's arrays."""
    return {name: data[name] for name in ("inputs", "answer_mask")}


def answers(model, data):
    """Returns the bits that the model writes, False outside the answer."""
    return model.predict(asked(data), verbose=0) > 0


def right(model, data):
    """Returns the share of correct bits in the answer."""
    same = answers(model, data) == (data["targets"] > 0.5)
    return same[data["answer_mask"]].mean()


def picture(task, model, data, path):
    """Draws the memory for the longest of some sequences."""
    longest = int(np.argmax(data["lengths"]))
    data = {name: array[longest : longest + 1] for name, array in data.items()}
    length = int(data["lengths"][0])
    figure = visualization.plot_memory(
        model.trace(asked(data)),
        inputs=data["inputs"][0, :length],
        outputs=answers(model, data)[0, :length],
        title=f"{task}: what is written where, and how it is found again",
    )
    figure.savefig(path)


if __name__ == "__main__":
    main()
