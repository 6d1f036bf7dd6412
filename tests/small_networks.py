"""Untrained networks with the preprocessors of the presets."""

import keras
import numpy as np

from keras_attention import layers, models
from keras_attention.datasets import babi
from keras_attention.presets import preprocessors
from keras_attention.text import ENTITY, Vocabulary

TEXTS = [
    "The children are playing in the garden .",
    "She is reading a book in the kitchen .",
    "I have a big dog in my house .",
    "mother father sister brother water coffee monday tuesday",
]
WORDS = ["the", "garden", "book", "dog", "house", "she", "is", "big"]
SIZES = {"num_layers": 2, "dim": 16, "num_heads": 2, "intermediate_dim": 16}


def story():
    sentences = [
        "John got the apple there",
        "John went to the hallway",
        "Mary went to the kitchen",
        "John dropped the apple",
        "John moved to the garden",
        "Mary moved to the bathroom",
        "Daniel went back to the hallway",
        "Sandra gave the milk",
        "where is Daniel",
    ]
    words = tuple(babi.tokenize(sentence) for sentence in sentences)
    example = babi.Example(1, words, words[-1], "hallway")
    vocabulary = babi.Vocabulary.from_examples([example])
    model = models.MemN2N(len(vocabulary), embedding_dim=8, memory_size=12)
    model.preprocessor = preprocessors.StoryPreprocessor(vocabulary, 12, 8)
    return model


def causal():
    vocabulary = Vocabulary.from_sentences(TEXTS)
    model = models.CausalLM(len(vocabulary), position="rotary", **SIZES)
    model.preprocessor = preprocessors.CompletionPreprocessor(vocabulary, 16)
    return model


def masked():
    vocabulary = Vocabulary.from_sentences(TEXTS)
    model = models.MaskedLM(len(vocabulary) + 1, position="rotary", **SIZES)
    model.preprocessor = preprocessors.BlankPreprocessor(vocabulary, 16)
    return model


def translator():
    source = Vocabulary.from_sentences(["Ik heb een grote hond in mijn huis ."])
    target = Vocabulary.from_sentences(TEXTS)
    model = models.Transformer(len(source), len(target), **SIZES)
    model.preprocessor = preprocessors.TranslationPreprocessor(source, target, 16)
    return model


def dates():
    characters = ["4 May 1979 0123456789-"]
    vocabulary = Vocabulary.from_sentences(characters, level="character")
    model = models.Seq2Seq(len(vocabulary), len(vocabulary), 8, 8)
    model.preprocessor = preprocessors.CharacterPreprocessor(
        vocabulary, vocabulary, 36, 11
    )
    return model


def words():
    vocabulary = Vocabulary.from_sentences(TEXTS)
    vectors = np.random.default_rng(0).normal(size=(len(vocabulary), 24))
    return models.SkipGram.from_vectors(vocabulary.tokens, vectors)


def routes():
    cell = layers.DNCCell(keras.layers.LSTMCell(8), 10, 6, read_heads=2)
    model = models.DNCNetwork(cell, 90, input_dim=92)
    model.preprocessor = preprocessors.RoutePreprocessor(60, 6)
    return model


def facts():
    vocabulary = babi.Vocabulary([ENTITY, "taught", "when", "who"])
    model = models.KeyValueMemNN(len(vocabulary), 5, hops=2, memory_size=4)
    model.preprocessor = preprocessors.FactPreprocessor(
        vocabulary, ["year", "taught_by"], 4, 2, 4
    )
    return model


def classifier():
    vocabulary = Vocabulary(WORDS)
    model = models.TransformerClassifier(
        len(vocabulary), 2, num_layers=1, dim=8, num_heads=2, intermediate_dim=8
    )
    model.preprocessor = preprocessors.ClassificationPreprocessor(
        vocabulary, ["a", "b"], 40
    )
    return model


def captioner():
    vocabulary = Vocabulary(["a", "1", "left"])
    model = models.ImageCaptioner((8, 8, 1), len(vocabulary), 4, 4)
    model.preprocessor = preprocessors.CaptionPreprocessor(vocabulary, (8, 8, 1), 5)
    return model


def strong():
    made = story()
    model = models.MemNN(len(made.preprocessor.vocabulary), embedding_dim=4)
    model.preprocessor = made.preprocessor
    return model


MADE = {
    "memn2n_babi_joint": story,
    "causal_lm_tatoeba": causal,
    "masked_lm_tatoeba": masked,
    "transformer_nl_en": translator,
    "seq2seq_dates": dates,
    "skip_gram_tatoeba": words,
    "dnc_paths": routes,
}


ALL = [*MADE.values(), facts, classifier, captioner, strong]


def small_networks():
    """Returns a network for each name that the page asks for."""
    keras.utils.set_random_seed(0)
    return {name: make() for name, make in MADE.items()}


def two_layers(path):
    """Saves a model with two attention layers and two inputs, as a user's own."""
    ids = keras.Input((None,), dtype="int32", name="ids")
    lines = keras.Input((3, 4), dtype="int32", name="lines")
    embed = keras.layers.Embedding(20, 8)
    x = layers.MultiHeadAttention(2, 4, name="self")(embed(ids), embed(ids))
    memory = keras.ops.mean(embed(lines), 2)  # (B, 3, D)
    x = layers.Attention(name="cross")(x, memory)
    keras.Model({"ids": ids, "lines": lines}, x).save(path)
    return path
