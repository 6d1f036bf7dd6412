"""An associative memory retrieves half-hidden digits.

    python examples/retrieve_digits.py
    python examples/retrieve_digits.py --b 2 8 20 --digit 3

Stores the 10,000 test digits of MNIST in an `AssociativeMemory` and queries some of
them with their lower half hidden. Counts the retrieved digits after one step, which is
attention, and at convergence. Draws one retrieval for each β, and a digit that more
steps make worse. Each state is shown with its energy and with the number of digits it
mixes.
"""

import argparse
import importlib.util
import os
import sys
from pathlib import Path


def parse_arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--backend", choices=("jax", "tensorflow", "torch"), help="default: jax")
    add("--stored", type=int, default=10_000, help="how many digits are stored")
    add("--queries", type=int, default=200, help="how many are asked for")
    add("--b", type=float, nargs="+", default=[1, 5, 20], help="β = b/28")
    add("--steps", type=int, default=50, help="at most")
    add("--digit", type=int, help="which query is drawn; default: the first to return")
    add("--seed", type=int, default=0, help="of the order of the digits")
    add("--out", type=Path, default=Path("retrieve_digits"), help="where to write")
    parsed = parser.parse_args()
    if min(parsed.stored, parsed.queries, parsed.steps, *parsed.b) <= 0:
        parser.error("--stored, --queries, --b and --steps must be above 0")
    asked = min(parsed.stored, parsed.queries)
    if parsed.digit is not None and not 0 <= parsed.digit < asked:
        parser.error(f"--digit must be one of the queries, from 0 to {asked - 1}")
    return parsed


# Keras chooses its backend when it is imported.
arguments = parse_arguments()
backend = arguments.backend or os.environ.get("KERAS_BACKEND", "jax")
os.environ["KERAS_BACKEND"] = backend
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
if importlib.util.find_spec(backend) is None:
    sys.exit(f'{backend} is not installed: python -m pip install ".[{backend},viz]"')

import keras
import numpy as np

from keras_attention import visualization
from keras_attention.datasets import DamagedDataError, DataNotFoundError, mnist
from keras_attention.models import AssociativeMemory

SIDE = 28  # side of a digit; a pattern has its square as width
WITHIN = 0.1  # maximum relative distance of a retrieved digit


def main():
    try:
        images = mnist.load("test").images
    except (DataNotFoundError, DamagedDataError) as error:
        sys.exit(str(error))
    count = min(arguments.stored, len(images))
    order = np.random.default_rng(arguments.seed).permutation(len(images))[:count]
    digits = images[order].reshape(count, -1).astype("float32") / 127.5 - 1  # (S, D)
    targets = digits[: arguments.queries]
    queries = targets.copy()
    queries[:, SIDE * SIDE // 2 :] = 0  # the lower half
    print(f"{count:,} digits stored, {len(queries)} asked for by their upper half")

    memory, off = None, {}
    for b in arguments.b:
        memory = remember(digits, b)
        once = memory.retrieve(queries, steps=1)
        at_end = memory.retrieve(queries, max_steps=arguments.steps)
        off[b] = distance(once, targets), distance(at_end, targets)
        after_one, at_rest = (100 * np.mean(far < WITHIN) for far in off[b])
        print(f"b = {b:g}: {after_one:.1f} % after one step, {at_rest:.1f} % at rest")

    ways = [(b, chosen(off), f"β = {b:g}/{SIDE}") for b in arguments.b]
    worst = max((lost(*far), b) for b, far in off.items())
    if worst[0][0]:
        (_, digit), b = worst
        ways.append((b, digit, f"β = {b:g}/{SIDE}\nmore steps\nmake it worse"))
        print(f"b = {b:g}: query {digit} was there after one step, and left again")
    path = arguments.out / "digits.png"
    draw(digits, queries, targets, ways).savefig(path)
    print(f"picture: {path}")

    path = arguments.out / "memory.keras"
    memory.save(path)
    retrieved = keras.saving.load_model(path).retrieve(queries, steps=1)
    again = np.allclose(
        distance(retrieved, targets), off[arguments.b[-1]][0], atol=1e-4
    )
    same = "the same" if again else "OTHER"
    print(f"memory:  {path}, loaded again: {same} digits come back")


def remember(digits, b):
    """Creates a memory of digits (S, D) with β = b/√D."""
    memory = AssociativeMemory(beta=b / SIDE)
    memory.store(digits)
    return memory


def distance(states, targets):
    """Returns the relative distance of states (T, D) to their targets, (T,)."""
    far = np.linalg.norm(keras.ops.convert_to_numpy(states) - targets, axis=1)
    return far / np.linalg.norm(targets, axis=1)


def lost(once, at_end):
    """Returns the largest distance after a correct first step, and its query."""
    gone = np.where(once < WITHIN, at_end, 0.0)
    return (gone.max() if gone.max() >= WITHIN else 0.0), int(gone.argmax())


def chosen(off):
    """Selects the query to draw: one that needs several steps, if any."""
    if arguments.digit is not None:
        return arguments.digit
    for once, at_end in off.values():
        late = np.flatnonzero((at_end < WITHIN) & (once >= WITHIN))
        if late.size:
            return int(late[0])
    return 0


def draw(digits, queries, targets, ways):
    """Draws one row for each (b, query, label)."""
    retrieved = []
    for b, n, _ in ways:
        memory = remember(digits, b)
        steps = arguments.steps
        _, way = memory.retrieve(
            queries[n : n + 1], steps=steps, return_trajectory=True
        )
        sizes = memory.metastable_size(way.states[:, 0])
        retrieved.append((way.states[:, 0], way.energies[:, 0], sizes))
    states, energies, sizes = (
        np.stack([keras.ops.convert_to_numpy(x) for x in column])
        for column in zip(*retrieved)
    )
    return visualization.plot_energy(
        states.reshape(*energies.shape, SIDE, SIDE),
        energies,
        [label for *_, label in ways],
        sizes,
        targets[[n for _, n, _ in ways]].reshape(-1, SIDE, SIDE),
        title=f"{len(digits):,} digits are stored, the lower half of one is hidden",
    )


if __name__ == "__main__":
    arguments.out.mkdir(parents=True, exist_ok=True)
    main()
