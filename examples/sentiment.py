"""A small Transformer classifies sentences of film reviews as good or bad.

    python examples/sentiment.py
    python examples/sentiment.py --text "a film that is anything but boring"

Trains a `TransformerClassifier` on the 6,920 training sentences of SST-2 (for research
only) and tests it on the 1,821 test sentences. Then classifies a few sentences and
draws the attention of each head. Model and vocabulary are saved, and the model is
reloaded.
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
    add("--epochs", type=count, default=14, help="of training; default: 14")
    add("--dim", type=count, default=32, help="width of the network; default: 32")
    add("--seed", type=int, default=0, help="of all chance; default: 0")
    add("--text", action="append", help="a sentence of your own; may be given again")
    add("--out", type=Path, default=Path("sentiment"), help="where to write")
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
from keras_attention.datasets import sentences
from keras_attention.text.vocabulary import UNKNOWN

CLASSES = ("bad", "good")
LONGEST = 32  # maximum number of words of a training sentence
WORD_DROPOUT = 0.6  # share of words replaced by the unknown word in training


class Batches(keras.utils.PyDataset):
    """Shuffled sentences with word dropout, different in each epoch."""

    def __init__(self, vectors, seed, size=64):
        super().__init__()
        self.tokens, self.labels = vectors.inputs["tokens"], vectors.labels
        self.rng, self.size = np.random.default_rng(seed), size
        self.on_epoch_end()

    def on_epoch_end(self):
        self.order = self.rng.permutation(len(self.labels))

    def __len__(self):
        return len(self.labels) // self.size

    def __getitem__(self, index):
        rows = self.order[index * self.size : (index + 1) * self.size]
        tokens = self.tokens[rows]
        drop = self.rng.random(tokens.shape) < WORD_DROPOUT
        tokens = np.where(drop & (tokens != 0), UNKNOWN, tokens).astype("int32")
        return {"tokens": tokens}, self.labels[rows]


def main():
    arguments.out.mkdir(parents=True, exist_ok=True)
    splits = {name: sentences.load("sst2", name) for name in ("train", "dev", "test")}
    vocabulary = sentences.Vocabulary.from_sentences(
        [sentence.text for sentence in splits["train"]], min_count=2
    )
    print(f"{len(splits['train'])} sentences, {len(vocabulary)} words")
    model = learn(splits, vocabulary)
    test = sentences.vectorize(splits["test"], vocabulary)
    predicted = model.predict(test.inputs, batch_size=500, verbose=0).argmax(1)
    share = np.mean(predicted == test.labels)
    print(f"test: {100 * share:.1f} % of {len(predicted)} right")

    texts = arguments.text or [sentence.text for sentence in splits["test"][:5]]
    answers = classify(model, texts, vocabulary)
    for text, share in zip(texts, answers):
        print(f"\n{text}\n  {CLASSES[int(share > 0.5)]} (good: {share:.2f})")
    path = arguments.out / "attention.png"
    draw(model, texts[0], vocabulary, path)
    print(f"\npicture:  {path}")
    path = arguments.out / "model.keras"
    model.save(path)
    vocabulary.save(arguments.out / "words.txt")
    again = classify(keras.saving.load_model(path), texts, vocabulary)
    same = "the same" if np.allclose(again, answers, atol=1e-5) else "OTHER"
    print(f"model:    {path}, loaded again: {same} answers")


def learn(splits, vocabulary):
    keras.utils.set_random_seed(arguments.seed)
    model = models.TransformerClassifier(
        len(vocabulary),
        len(CLASSES),
        num_layers=1,
        dim=arguments.dim,
        num_heads=4,
        intermediate_dim=2 * arguments.dim,
        dropout=0.3,
        position="relative",
        block={
            "norm_first": True,
            "activation": "gelu",
            "epsilon": 1.0,  # rarely trained words stay small
            "attention": {"dropout": 0.3},
        },
    )
    train = sentences.vectorize(splits["train"], vocabulary, LONGEST)
    dev = sentences.vectorize(splits["dev"], vocabulary, LONGEST)
    batches = Batches(train, arguments.seed)
    rate = keras.optimizers.schedules.CosineDecay(2e-3, arguments.epochs * len(batches))
    model.compile(
        keras.optimizers.Adam(rate, beta_2=0.98, global_clipnorm=1.0),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    start = time.perf_counter()
    model.fit(
        batches,
        epochs=arguments.epochs,
        validation_data=(dev.inputs, dev.labels),
        validation_batch_size=len(dev.labels),
        shuffle=False,
        verbose=2,
    )
    seconds = time.perf_counter() - start
    print(f"trained in {seconds:.0f} s on {keras.config.backend()}")
    return model


def numbers(texts, vocabulary):
    """Encodes the texts' words as indices, (B, T)."""
    return sentences.vectorize([(text, 0) for text in texts], vocabulary).inputs


def classify(model, texts, vocabulary):
    """Returns the probability that each text is good, (B,)."""
    logits = model.predict(numbers(texts, vocabulary), verbose=0)
    share = np.exp(logits - logits.max(-1, keepdims=True))
    return (share / share.sum(-1, keepdims=True))[:, 1]


def draw(model, text, vocabulary, path):
    """Draws the attention between words, averaged over heads."""
    with keras_attention.record_attention() as maps:
        model(numbers([text], vocabulary))
    weights = list(maps.values())[-1][0]  # (H, T, T)
    words = sentences.tokenize(text)
    ax = visualization.plot_alignment(
        weights.mean(0), words, words, query_label="word", key_label="looks at"
    )
    ax.figure.savefig(path, dpi=150, bbox_inches="tight")


if __name__ == "__main__":
    main()
