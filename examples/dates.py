"""A network translates written dates to ISO 8601.

    python examples/dates.py                              # about two minutes
    python examples/dates.py --date "the 3rd of May 2021"
    python examples/dates.py --attention luong            # or none
    python examples/dates.py --backend torch              # or tensorflow

An encoder reads the date letter by letter. A decoder writes year, month and day, and
attends to the letters for each character. The figure shows the attention weights. No
test date occurs in training. A few date formats are left out of training and tested
separately.

The model is Bahdanau et al., "Neural machine translation by jointly learning to align
and translate" (2015), https://arxiv.org/abs/1409.0473. See
keras_attention/layers/recurrent/attention_rnn.py and
keras_attention/models/recurrent/seq2seq.py for its equations.
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
        "--attention",
        default="bahdanau",
        choices=("bahdanau", "luong", "none"),
        help="default: bahdanau",
    )
    add("--pairs", type=count, default=20_000, help="dates to train on; default: 20000")
    add("--epochs", type=count, default=8, help="of training; default: 8")
    add(
        "--units",
        type=count,
        default=64,
        help="width of encoder and decoder; default: 64",
    )
    add("--seed", type=int, default=0, help="of all chance; default: 0")
    add("--date", action="append", help="a date of your own; may be given again")
    add("--out", type=Path, default=Path("dates"), help="where to write")
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

import keras_attention
from keras_attention import models, visualization
from keras_attention.datasets import dates


def main():
    arguments.out.mkdir(parents=True, exist_ok=True)
    model = train()
    seen = dates.generate(1000, seed=1, split="test")
    unseen = dates.generate(1000, seed=2, split="test", formats=dates.UNSEEN)
    print(f"exact on dates never seen:        {exact(model, seen):6.1%}")
    print(f"… in formats never seen either:   {exact(model, unseen):6.1%}")

    texts = arguments.date or [pair.source for pair in (*seen[:3], *unseen[:3])]
    print()
    for text, written in zip(texts, write(model, texts)):
        print(f"{text:40} {written}")
    if arguments.attention != "none":
        path = arguments.out / "alignment.png"
        draw(model, texts[0], path)
        print(f"\npicture:  {path}")
    path = arguments.out / "model.keras"
    model.save(path)
    again = keras.saving.load_model(path)
    same = write(again, texts) == write(model, texts)
    print(f"model:    {path}, loaded again: {'the same' if same else 'OTHER'} answers")


def train():
    inputs, labels = dates.vectorize(dates.generate(arguments.pairs, arguments.seed))
    keras.utils.set_random_seed(arguments.seed)
    model = models.Seq2Seq(
        len(dates.SOURCE_VOCABULARY),
        len(dates.TARGET_VOCABULARY),
        embedding_dim=32,
        units=arguments.units,
        attention=None if arguments.attention == "none" else arguments.attention,
    )
    batch_size = 64
    steps = arguments.epochs * -(-len(labels) // batch_size)
    rate = keras.optimizers.schedules.CosineDecay(0.004, steps)
    model.compile(
        optimizer=keras.optimizers.Adam(rate, global_clipnorm=1.0),
        loss=keras.losses.SparseCategoricalCrossentropy(
            from_logits=True, ignore_class=0
        ),
    )
    print(f"{len(labels)} dates in {len(dates.SEEN)} formats to train on", flush=True)
    start = time.perf_counter()
    model.fit(inputs, labels, batch_size, arguments.epochs, verbose=2)
    seconds = time.perf_counter() - start
    print(f"trained in {seconds:.0f} s on {keras.config.backend()}")
    return model


def letters(texts):
    """Encodes the texts' letters as indices, (B, S)."""
    width = max(dates.SOURCE_LENGTH, *map(len, texts))
    source = np.zeros((len(texts), width), "int32")
    for row, text in zip(source, texts):
        tokens = dates.SOURCE_VOCABULARY.encode(text)
        row[: len(tokens)] = tokens
    return source


def write(model, texts):
    """Returns the model's outputs for the texts."""
    tokens = model.generate(letters(texts), max_length=dates.TARGET_LENGTH)
    return [dates.decode(row) for row in tokens]


def exact(model, pairs):
    """Returns the share of pairs with all characters correct."""
    written = write(model, [pair.source for pair in pairs])
    return np.mean([a == pair.target for a, pair in zip(written, pairs)])


def draw(model, text, path):
    """Draws the decoder's attention for each written character."""
    source = letters([text])
    written = write(model, [text])[0]
    target = np.array([[2, *dates.TARGET_VOCABULARY.encode(written)]], "int32")
    with keras_attention.record_attention() as maps:
        model({"source": source, "target": target[:, :-1]})
    (weights,) = maps.values()  # (1, T, S)
    ax = visualization.plot_alignment(
        weights[0, :, : len(text)],
        list(written),
        [c if c != " " else "␣" for c in text],
        query_label="written",
        key_label="read",
    )
    ax.figure.savefig(path, dpi=150, bbox_inches="tight")


if __name__ == "__main__":
    main()
