"""Detects tigers in images: bags of regions with one label per bag.

    python examples/bags.py --data folder/with/tiger.mat
    python examples/bags.py --name elephant --folds 10

Trains a `HopfieldClassifier` on nine tenths of the bags of Tiger or Elephant, tests it
on the last tenth, and shows the attention over the regions of an image. Download the
files by hand, since they have no stable URL. Without them, the script prints a note and
generates bags of bit patterns instead. For the full protocol, with settings chosen
inside each fold, run `python examples/studies/bags`.
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
    add("--name", choices=("tiger", "elephant"), default="tiger")
    add("--data", type=Path, help="the file; default: as KERAS_ATTENTION_DATA says")
    add("--folds", type=int, default=2, help="how many of ten are tested, each by one")
    add("--epochs", type=int, default=60)
    add("--seed", type=int, default=0)
    add("--out", type=Path, default=Path("bags"), help="where to write")
    parsed = parser.parse_args()
    if not 1 <= parsed.folds <= 10 or parsed.epochs < 1:
        parser.error("--folds must be from 1 to 10, --epochs at least 1")
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

import keras_attention
from keras_attention.datasets import DamagedDataError, DataNotFoundError, bags
from keras_attention.models import HopfieldClassifier


def main():
    data, positive = load()
    print(f"{len(data)} bags of {data.sizes.min()} to {data.sizes.max()} instances")
    folds = np.random.default_rng(arguments.seed).permutation(len(data)) % 10  # (B,)
    logits, areas = np.zeros(len(data)), []
    start = time.perf_counter()
    for fold in range(arguments.folds):
        test = folds == fold
        inputs = standardized(data, ~test)
        model = learn(inputs, data.labels, ~test)
        logits[test] = model.predict(only(inputs, test), verbose=0)[:, 0]
        areas.append(area(logits[test], data.labels[test]))
        print(f"fold {fold + 1}: AUC {100 * areas[-1]:.1f} of {test.sum()} bags")
    seconds = time.perf_counter() - start
    backend = keras.config.backend()
    print(f"mean AUC {100 * np.mean(areas):.1f}, {seconds:.0f} s on {backend}")

    best = np.flatnonzero(test)[logits[test].argmax()]
    weights = look(model, only(inputs, [best]), data.sizes[best])
    print(f"\nbag {best}, the surest {positive} of the last fold; it looked at")
    for n in np.argsort(-weights)[:3]:
        print(f"  instance {n + 1} of {len(weights)}: {100 * weights[n]:.0f} %")
    path = arguments.out / "model.keras"
    model.save(path)
    again = keras.saving.load_model(path).predict(only(inputs, test), verbose=0)[:, 0]
    same = "the same" if np.allclose(again, logits[test], atol=1e-4) else "OTHER"
    print(f"model: {path}, loaded again: {same} answers")


def load():
    """Loads the bags and the name of the positive class."""
    try:
        return bags.load(arguments.name, arguments.data), arguments.name
    except DataNotFoundError as error:
        if arguments.data is not None:
            sys.exit(str(error))
        print(
            f"{error}\nUntil then: 600 bags that are made, half of them with a signal."
        )
    except DamagedDataError as error:
        sys.exit(str(error))
    made = bags.bit_patterns(600, instances=8, bits=8, signals=4, seed=arguments.seed)
    return made, "signal"


def standardized(data, train):
    """Standardizes all bags with the statistics of the training instances."""
    instances = data.instances[train[data.bag]]
    x = (data.instances - instances.mean(0)) / np.maximum(instances.std(0), 1e-6)
    x = 3 * np.tanh(x / 3)  # a few numbers are extreme outliers
    return bags.Bags(x, data.bag, data.labels).padded()


def only(inputs, rows):
    return {name: array[rows] for name, array in inputs.items()}


def learn(inputs, labels, train):
    keras.utils.set_random_seed(arguments.seed)
    model = HopfieldClassifier(inputs["instances"].shape[-1], dims=(64,))
    batches = -(-train.sum() // 20)
    rate = keras.optimizers.schedules.ExponentialDecay(1e-3, batches, 0.95)
    model.compile(
        keras.optimizers.AdamW(rate, weight_decay=0.01),
        keras.losses.BinaryCrossentropy(from_logits=True),
    )
    known = labels[train].astype("float32")[:, None]
    model.fit(
        only(inputs, train), known, 20, epochs=arguments.epochs, verbose=0, shuffle=True
    )
    return model


def area(logits, labels):
    """Returns the area under the ROC curve."""
    above = logits[labels == 1][:, None] - logits[labels == 0]
    return float(np.mean((above > 0) + 0.5 * (above == 0)))


def look(model, inputs, size):
    """Returns the weights of one bag's instances, averaged over heads, (S,)."""
    with keras_attention.record_attention() as maps:
        model(inputs)
    (weights,) = maps.values()  # (1, H, 1, S)
    return weights[0, :, 0, :size].mean(0)


if __name__ == "__main__":
    arguments.out.mkdir(parents=True, exist_ok=True)
    main()
