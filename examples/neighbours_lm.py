"""A language model looks up how its training text went on after similar beginnings.

    python examples/neighbours_lm.py                  # some minutes; needs FAISS
    python examples/neighbours_lm.py --text my_book.txt --neighbours 64

Nothing is downloaded. Without `--text`, the script reads the docstrings of Python's
standard library. A small `CausalLM` learns to predict the next word w after a context
c. A `VectorIndex` then holds the last hidden state h(cᵢ) of each position i of the
training text. The word wᵢ that followed is known, and the k nearest states vote:

    p(w | c) = λ p_kNN(w | c) + (1 − λ) p_LM(w | c)
    p_kNN(w | c) ∝ Σ over the k nearest i with wᵢ = w of exp(−β ‖h(cᵢ) − h(c)‖²)

The last twentieth of the text is the test set; λ and β are those with the lowest
perplexity on the twentieth before it. The paper takes the input of the last
feedforward layer instead of the last hidden state, and has β = 1.

FAISS comes with the extra `index`: python -m pip install ".[index]"

Reference: Khandelwal et al., "Generalization through memorization: nearest neighbor
language models" (2020).
"""

import argparse
import ast
import itertools
import json
import os
import sysconfig
from pathlib import Path

os.environ.setdefault("KERAS_BACKEND", "jax")  # before Keras is imported
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import numpy as np

from keras_attention import models
from keras_attention.text import Vocabulary

MIXTURES = np.linspace(0, 0.9, 19)  # λ
SHARPNESS = 2.0 ** np.arange(-8, 3)  # β


def parse_arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--text", type=Path, help="a text; default: Python's docstrings")
    add("--epochs", type=int, default=6, help="of training; default: 6")
    add("--length", type=int, default=64, help="words of a piece; default: 64")
    add("--dim", type=int, default=128, help="width of the network; default: 128")
    add("--neighbours", type=int, default=256, help="k; default: 256")
    add("--kind", default="hnsw", help="of the VectorIndex; default: hnsw")
    add("--seed", type=int, default=0, help="of all chance; default: 0")
    add("--json", type=Path, help="write the figures here")
    return parser.parse_args()


def main():
    arguments = parse_arguments()
    keras.utils.set_random_seed(arguments.seed)
    text = arguments.text.read_text("utf-8") if arguments.text else docstrings()
    cuts = [len(text) * part // 20 for part in (0, 18, 19, 20)]
    parts = [text[start:end] for start, end in itertools.pairwise(cuts)]
    vocabulary = Vocabulary.from_sentences(parts[:1], min_count=3)
    train, held_back, test = (
        windows(np.array(vocabulary.encode(part), "int32"), arguments.length)
        for part in parts
    )
    model = fit(*train, len(vocabulary), arguments)
    # The logits are the hidden states times the embeddings.
    states = keras.Model(model.inputs, model.get_layer("final_norm").output)
    keys = flat(states.predict({"tokens": train[0]}, verbose=0))
    # The largest inner products of (h, r) and (hᵢ, (c − ‖hᵢ‖²/2)/r) have the least
    # distances, for all c and r. The index works best with numbers of one size.
    halves = (keys**2).sum(1, keepdims=True) / 2
    r = halves.std() / keys.std()
    index = models.VectorIndex(
        np.hstack([keys, (halves.mean() - halves) / r]),
        arguments.kind,
        min(arguments.neighbours, len(keys)),
        seed=arguments.seed,
    )

    def chances(inputs, labels):
        """p_LM of each right word (N,), and p_kNN for each β (N, len(SHARPNESS))."""
        logits = flat(model.predict({"tokens": inputs}, verbose=0))
        logits -= logits.max(1, keepdims=True)
        right = labels.ravel()
        alone = np.exp(logits[np.arange(len(right)), right]) / np.exp(logits).sum(1)
        voted = np.zeros((len(right), len(SHARPNESS)))
        for i, h in enumerate(flat(states.predict({"tokens": inputs}, verbose=0))):
            nearest = index.candidates(query=np.append(h, r))
            distances = ((keys[nearest] - h) ** 2).sum(1)
            votes = np.exp(np.outer(SHARPNESS, distances.min() - distances))  # (β, k)
            agrees = train[1].ravel()[nearest] == right[i]
            voted[i] = (votes * agrees).sum(1) / votes.sum(1)
        return alone, voted

    alone, voted = chances(*held_back)
    tried = [[perplexity(alone, p, mix) for mix in MIXTURES] for p in voted.T]
    best, mix = np.unravel_index(np.argmin(tried), np.shape(tried))
    alone, voted = chances(*test)
    figures = {
        "words": [int(labels.size) for _, labels in (train, held_back, test)],
        "vocabulary": len(vocabulary),
        "mixture": float(MIXTURES[mix]),
        "sharpness": float(SHARPNESS[best]),
        "held back, alone": float(tried[0][0]),
        "held back, with neighbours": float(tried[best][mix]),
        "test, alone": perplexity(alone, voted[:, best], 0),
        "test, with neighbours": perplexity(alone, voted[:, best], MIXTURES[mix]),
    }
    for name, figure in figures.items():
        print(f"{name}: {figure}")
    if arguments.json:
        from studies import reports  # the folder beside this file

        options = {name: getattr(arguments, name) for name in ("epochs", "seed")}
        report = {**reports.head("neighbours"), **options, **figures}
        arguments.json.write_text(json.dumps(report, indent=1) + "\n", "utf-8")


def docstrings():
    """Returns the docstrings of the standard library's modules, shuffled."""
    texts = []
    for path in sorted(Path(sysconfig.get_path("stdlib")).glob("*.py")):
        for node in ast.walk(ast.parse(path.read_bytes())):
            kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
            if isinstance(node, kinds) and ast.get_docstring(node):
                texts.append(ast.get_docstring(node))
    return "\n".join(np.random.default_rng(0).permutation(texts))


def windows(tokens, length):
    """Returns pieces of the text and the pieces shifted by one word, (N, T) each."""
    size = (len(tokens) - 1) // length * length
    shifted = tokens[:size], tokens[1 : size + 1]
    return [part.reshape(-1, length) for part in shifted]


def fit(inputs, labels, size, arguments):
    """Trains the language model."""
    model = models.CausalLM(
        size,
        num_layers=2,
        dim=arguments.dim,
        num_heads=4,
        intermediate_dim=4 * arguments.dim,
        dropout=0.1,
        position="rotary",
    )
    model.compile(
        keras.optimizers.AdamW(0.003, weight_decay=0.01, global_clipnorm=1.0),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    )
    model.fit({"tokens": inputs}, labels, 32, arguments.epochs, verbose=2)
    return model


def flat(x):
    """Joins the axes of pieces and words: (N, T, D) becomes (N T, D)."""
    return x.reshape(-1, x.shape[-1])


def perplexity(alone, voted, mix):
    """Returns the perplexity of the mixture of two probabilities of each right word."""
    return float(np.exp(-np.log(mix * voted + (1 - mix) * alone).mean()))


if __name__ == "__main__":
    main()
