"""A network translates from English to German or Dutch and shows its attention.

    python examples/translate.py
    python examples/translate.py --pairs 14000 --epochs 4     # about seven minutes
    python examples/translate.py --text "A dog runs on the beach."
    python examples/translate.py --attention luong      # or none
    python examples/translate.py --model transformer    # attention alone
    python examples/translate.py --data tatoeba         # everyday sentences, to Dutch

It learns from the 29,000 captions of Multi30k (downloaded; for non-commercial research
and education only), or from 47,000 pairs of Tatoeba, English and Dutch. The figures
show the test sentences of at least eight words with the most reordering, since German
and Dutch place verbs differently.
`python examples/studies/translation` uses subwords instead and computes
BLEU.

The model is Bahdanau et al., "Neural machine translation by jointly learning to align
and translate" (2015), https://arxiv.org/abs/1409.0473. See
keras_attention/layers/recurrent/attention_rnn.py and
keras_attention/models/recurrent/seq2seq.py for its equations.

With `--model transformer`, the model is Vaswani et al., "Attention is all you need"
(2017), https://arxiv.org/abs/1706.03762: keras_attention/layers/transformer/ and
keras_attention/models/transformer/transformer.py. The figures then show each head of
the last block: encoder self-attention, decoder self-attention and cross-attention.
"""

import argparse
import importlib.util
import json
import os
import sys
import time
from pathlib import Path

LANGUAGES = {"multi30k": ("de", "German"), "tatoeba": ("nl", "Dutch")}


def parse_arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--backend", choices=("jax", "tensorflow", "torch"), help="default: jax")
    add(
        "--model",
        default="recurrent",
        choices=("recurrent", "transformer"),
        help="default: recurrent",
    )
    add(
        "--data",
        default="multi30k",
        choices=tuple(LANGUAGES),
        help="default: multi30k",
    )
    add(
        "--attention",
        default="bahdanau",
        choices=("bahdanau", "luong", "none"),
        help="of a recurrent model; default: bahdanau",
    )
    add("--pairs", type=count, help="sentences to train on; default: all")
    add("--epochs", type=count, default=6, help="of training; default: 6")
    add("--units", type=count, help="width; default: 256, of a Transformer 128")
    add("--seed", type=int, default=0, help="of all chance; default: 0")
    add("--text", action="append", help="English of your own; may be given again")
    add(
        "--json",
        type=Path,
        help="where to write the weights of a Transformer's figures",
    )
    add("--out", type=Path, default=Path("translate"), help="where to write")
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
from keras_attention import losses, models, samplers, visualization
from keras_attention.datasets import translation

LONGEST = 30  # maximum number of words of a training sentence
BLOCKS = 2  # blocks of a Transformer's encoder and of its decoder
TRANSFORMER = arguments.model == "transformer"
CODE, LANGUAGE = LANGUAGES[arguments.data]
BEAM = samplers.BeamSampler(num_beams=5, length_penalty=1.0)


class Batches(keras.utils.PyDataset):
    """Batches of sentences of similar length, rebuilt for each epoch."""

    def __init__(self, inputs, labels, seed):
        super().__init__()
        widths = (12, 16, 22, LONGEST + 1)
        self.buckets = translation.buckets(inputs, labels, 64, widths, seed)

    def __len__(self):
        return len(self.buckets)

    def __getitem__(self, index):
        return self.buckets[index]

    def on_epoch_end(self):
        self.buckets.shuffle(self.buckets.epoch + 1)


def main():
    arguments.out.mkdir(parents=True, exist_ok=True)
    train = translation.load(arguments.data, "train", source="en", target=CODE)
    train = train[: arguments.pairs]
    test = translation.load(arguments.data, "test", source="en", target=CODE)
    english = translation.Vocabulary.from_sentences([p.source for p in train], 5000)
    other = translation.Vocabulary.from_sentences([p.target for p in train], 7000)
    model = learn(train, english, other)

    texts = arguments.text or [pair.source for pair in test[:5]]
    greedy = write(model, texts, english, other)
    beam = write(model, texts, english, other, BEAM)
    for text, first, best in zip(texts, greedy, beam):
        print(f"\n{text}\n  greedy: {first}\n  beam 5: {best}")
    if TRANSFORMER or arguments.attention != "none":
        chosen = texts if arguments.text else reordered(model, test, english, other)
        print()
        for n, text in enumerate(chosen):
            for name, figure in pictures(model, text, english, other).items():
                path = arguments.out / f"{name}_{n}.png"
                figure.savefig(path, dpi=150, bbox_inches="tight")
                print(f"picture:  {path}")
    path = arguments.out / "model.keras"
    model.save(path)
    english.save(arguments.out / "english.txt")
    other.save(arguments.out / f"{LANGUAGE.lower()}.txt")
    again = keras.saving.load_model(path)
    same = write(again, texts, english, other) == greedy
    print(f"model:    {path}, loaded again: {'the same' if same else 'OTHER'} answers")


def learn(train, english, other):
    short = [
        pair
        for pair in train
        if max(len(english.encode(pair.source)), len(other.encode(pair.target)))
        <= LONGEST
    ]
    inputs, labels = translation.vectorize(short, english, other)
    keras.utils.set_random_seed(arguments.seed)
    batches = Batches(inputs, labels, arguments.seed)
    steps = arguments.epochs * len(batches)
    make = transformer if TRANSFORMER else recurrent
    model, rate, loss = make(len(english), len(other), steps)
    optimizer = keras.optimizers.Adam(rate, global_clipnorm=1.0)
    model.compile(optimizer, loss)  # batches give padded labels weight 0
    print(
        f"{len(short)} sentences, {len(english)} English and {len(other)} "
        f"{LANGUAGE} words"
    )
    start = time.perf_counter()
    model.fit(batches, epochs=arguments.epochs, shuffle=False, verbose=2)
    seconds = time.perf_counter() - start
    print(f"trained in {seconds:.0f} s on {keras.config.backend()}")
    return model


def recurrent(english, other, steps):
    """Returns Bahdanau's network, its learning rate and its loss."""
    units = arguments.units or 256
    attention = None if arguments.attention == "none" else arguments.attention
    model = models.Seq2Seq(
        english,
        other,
        embedding_dim=units,
        units=units,
        attention=attention,
        dropout=0.3,
    )
    rate = keras.optimizers.schedules.CosineDecay(0.002, steps)
    return model, rate, keras.losses.SparseCategoricalCrossentropy(from_logits=True)


def transformer(english, other, steps):
    """Returns a small Transformer, its learning rate with warm-up, and its loss."""
    units = arguments.units or 128
    model = models.Transformer(
        english,
        other,
        num_layers=BLOCKS,
        dim=units,
        num_heads=4,
        intermediate_dim=4 * units,
        dropout=0.1,
        block={"norm_first": True},
    )
    warm = min(400, steps // 4)
    rate = keras.optimizers.schedules.CosineDecay(
        0.0, max(1, steps - warm), warmup_target=0.002, warmup_steps=warm
    )
    return model, rate, losses.SmoothedCrossentropy(0.1)


def write(model, texts, english, other, sampler="greedy"):
    """Returns the model's translations of the texts."""
    tokens = model.generate(numbers(texts, english), max_length=48, sampler=sampler)
    return [other.decode(row) for row in tokens]


def numbers(texts, english):
    """Encodes the texts' words as indices, (B, S)."""
    rows = [english.encode(text) for text in texts]
    source = np.zeros((len(rows), max(map(len, rows))), "int32")
    for line, row in zip(source, rows):
        line[: len(row)] = row
    return source


def look(model, texts, english, other):
    """Returns translations as words, and attention weights by layer name."""
    source = numbers(texts, english)
    written = [other.encode(text) for text in write(model, texts, english, other)]
    target = np.zeros((len(texts), 1 + max(map(len, written))), "int32")
    target[:, 0] = other.start_token_id
    for line, row in zip(target, written):
        line[1 : 1 + len(row)] = row
    with keras_attention.record_attention() as maps:
        model({"source": source, "target": target})
    return written, maps


def alignments(maps):
    """Returns the decoder's attention to the source for each word, (B, T, S)."""
    if TRANSFORMER:  # the last block, averaged over its heads
        return maps[f"decoder_block_{BLOCKS - 1}/cross_attention"].mean(axis=1)
    (weights,) = maps.values()
    return weights


def reordered(model, test, english, other, count=2):
    """Returns the sentences with the most reordering in their attention."""
    texts = [p.source for p in test if 8 <= len(english.encode(p.source)) <= 14][:100]
    written, maps = look(model, texts, english, other)
    jumps = []
    for row, alignment in zip(written, alignments(maps)):
        places = alignment[: len(row)].argmax(-1)
        jumps.append(-np.minimum(np.diff(places), 0).sum() / max(1, len(row)))
    return [texts[i] for i in np.argsort(jumps)[::-1][:count]]


def pictures(model, text, english, other):
    """Draws the encoder's attention, and the decoder's for each written word."""
    (written,), maps = look(model, [text], english, other)
    read = translation.tokenize(text)
    wrote = [other.tokens[i] for i in written]
    if not wrote:
        print(f"no picture of {text!r}: the network writes no word for it yet")
        return {}
    of_source = {"key_label": "English, read"}
    if not TRANSFORMER:
        weights = alignments(maps)[0, : len(wrote), : len(read)]
        figure = visualization.plot_alignment(
            weights, wrote, read, query_label=f"{LANGUAGE}, written", **of_source
        )
        return {"alignment": figure}

    def heads(name, queries, keys, **labels):
        weights = maps[name][0][:, : len(queries), : len(keys)]  # (H, T, S)
        shown[name] = {
            "weights": weights.round(3).tolist(),
            "queries": queries,
            "keys": keys,
        }
        return visualization.plot_heads(weights, queries, keys, title=name, **labels)

    last, shown = BLOCKS - 1, {}
    before = ["(start)", *wrote]  # decoder input of each word
    so_far = {
        "query_label": f"{LANGUAGE}, the last word",
        "key_label": f"{LANGUAGE} so far",
    }
    figures = {
        "encoder": heads(
            f"encoder_block_{last}/self_attention",
            read,
            read,
            query_label="English",
            **of_source,
        ),
        "decoder": heads(
            f"decoder_block_{last}/self_attention", before, before, **so_far
        ),
        "cross": heads(
            f"decoder_block_{last}/cross_attention",
            [*wrote, "(end)"],
            read,
            query_label=f"{LANGUAGE}, written",
            **of_source,
        ),
    }
    if arguments.json:  # of the last text
        arguments.json.write_text(json.dumps({"text": text, "layers": shown}), "utf-8")
    return figures


if __name__ == "__main__":
    main()
