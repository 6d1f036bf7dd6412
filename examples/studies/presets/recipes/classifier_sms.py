"""TransformerClassifier on text messages: spam or not."""

from __future__ import annotations

import os
import pathlib
import re
import zlib
from typing import Any

import numpy as np

from keras_attention.datasets import DataNotFoundError, files, sentences
from keras_attention.datasets.sentences import Sentence, Vocabulary
from keras_attention.models import TransformerClassifier
from keras_attention.presets.preprocessors import ClassificationPreprocessor
from keras_attention.text.encoding import decode_text
from studies.presets import baselines
from studies.presets.recipe import Recipe
from studies.presets.recipes import _classifiers as classifiers
from studies.sentiment import command as sentiment

FILE = "text/SMSSpamCollection.gz"
PAGE = "https://archive.ics.uci.edu/dataset/228/sms+spam+collection"
CLASSES = ("ham", "spam")
SPLITS = {"train": range(3, 10), "dev": range(2, 3), "test": range(2)}
MAX_WORDS = 100
SETTINGS: dict[str, Any] = {
    **sentiment.MODEL,
    **sentiment.TRAINING,
    "epochs": 8,
    "word_dropout": 0.3,
}


def load(split: str) -> list[Sentence]:
    """Returns the distinct messages of a split; label 1 is spam.

    Messages that differ only in digits, marks and case count as one, and the first of
    them is kept. A checksum assigns 70 % to "train", 10 % to "dev" and 20 % to "test".
    """
    folder = os.environ.get(files.DATA_VARIABLE)
    path = pathlib.Path(folder or "", FILE)
    if not folder or not path.exists():
        raise DataNotFoundError(
            f"The SMS Spam Collection must be the file {FILE} of the folder named by "
            f"{files.DATA_VARIABLE}: SMSSpamCollection of {PAGE}, gzipped. "
            f"Received: {files.DATA_VARIABLE}={folder!r}"
        )
    text = decode_text(files.read_decompressed(path), path)
    found: dict[str, Sentence] = {}
    for line in text.splitlines():
        label, _, message = line.partition("\t")
        if label in CLASSES and re.search(r"\w", message):
            one = Sentence(message.strip(), CLASSES.index(label))
            found.setdefault(re.sub(r"[\W\d]+", "", message.lower()), one)
    shares = SPLITS[split]
    return [
        one for key, one in found.items() if zlib.crc32(key.encode()) % 10 in shares
    ]


def train(seed: int) -> Any:
    """Trains in about 2 minutes of one core."""
    zeros = ClassificationPreprocessor(Vocabulary(()), CLASSES, MAX_WORDS, True)

    def read(split: str) -> list[Sentence]:
        # Long messages are cut in training.
        return [
            Sentence(" ".join(sentences.tokenize(zeros.read(text))[:MAX_WORDS]), label)
            for text, label in load(split)
        ]

    splits = {split: read(split) for split in ("train", "dev")}
    texts = [one.text for one in splits["train"]]
    vocabulary = Vocabulary.from_sentences(texts, min_count=SETTINGS["min_count"])
    data = sentiment.Data(splits, vocabulary)
    model, _ = sentiment.learn(data, seed, SETTINGS)
    model.preprocessor = ClassificationPreprocessor(
        vocabulary, CLASSES, MAX_WORDS, True
    )
    return model


def measure(model: TransformerClassifier, split: str = "test") -> dict[str, float]:
    """Returns the accuracy, and the F1 score of spam; also of a linear classifier."""
    test = load(split)
    texts = [one.text for one in test]
    wanted = np.array([one.label for one in test]) == 1
    known = load("train")
    plain = baselines.linear(
        [one.text for one in known], [one.label for one in known], texts
    )
    figures: dict[str, float] = {}
    for name, spam in (
        ("", classifiers.classes(model, texts) == "spam"),
        ("baseline ", plain == 1),
    ):
        right, either = (spam & wanted).sum(), spam.sum() + wanted.sum()
        figures |= {
            f"{name}accuracy %": round(100 * float((spam == wanted).mean()), 1),
            f"{name}F1 of spam %": round(100 * float(2 * right / either), 1),
        }
    return figures


RECIPE = Recipe(
    what="Tells spam from other text messages.",
    data=f"The SMS Spam Collection v.1 (Almeida, Hidalgo and Yamakami, 2011), {PAGE}. "
    "If messages differ only in digits, punctuation marks or case, one of them is "
    "kept; a fifth of the messages is the test set. The package contains no messages.",
    licence="CC BY 4.0 (SMS Spam Collection)",
    limits="English messages of at most 100 tokens (words and punctuation marks), from "
    "about 2011, many of them from Singapore and the United Kingdom. The network "
    "does not know newer kinds of spam, above all links.",
    baseline="a linear classifier on words, pairs of words and sequences of two to "
    "five characters, trained in three seconds and as good as the network",
    use='model.classify("You have won a free prize! Call now.")',
    train=train,
    measure=measure,
)
