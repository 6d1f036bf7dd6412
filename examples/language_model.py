"""A small GPT learns to write characters from Python's docstrings.

    python examples/language_model.py                       # some minutes
    python examples/language_model.py --text my_book.txt --steps 3000
    python examples/language_model.py --prompt "Return the"
    python examples/language_model.py --backend torch       # or tensorflow

Nothing is downloaded. Without `--text`, the script reads the docstrings of the standard
library, about 900,000 characters that vary slightly between Python versions. Each run
of white space becomes one space. The last twentieth is the test set. The script
compares the model's bits per character on it with those of character and bigram counts.

The model is a small version of Radford et al., "Language models are unsupervised
multitask learners" (2019). See keras_attention/models/transformer/causal_lm.py.
"""

import argparse
import ast
import importlib.util
import os
import sys
import sysconfig
import time
from pathlib import Path


def parse_arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--backend", choices=("jax", "tensorflow", "torch"), help="default: jax")
    add("--text", type=Path, help="a text to learn from; default: Python's docstrings")
    add(
        "--steps",
        type=count,
        default=800,
        help="of training, a batch each; default: 800",
    )
    add(
        "--batch-size",
        type=count,
        default=32,
        help="pieces of text a step; default: 32",
    )
    add(
        "--length",
        type=count,
        default=128,
        help="characters that it reads at once; default: 128",
    )
    add("--dim", type=count, default=128, help="width of the network; default: 128")
    add("--layers", type=count, default=4, help="how many blocks; default: 4")
    add("--seed", type=int, default=0, help="of all chance; default: 0")
    add("--prompt", action="append", help="to go on from; may be given again")
    add("--characters", type=count, default=64, help="how many to write; default: 64")
    add("--out", type=Path, default=Path("language_model"), help="where to write")
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
    sys.exit(f'{backend} is not installed: python -m pip install ".[{backend}]"')

import keras
import numpy as np

from keras_attention import models, samplers
from keras_attention.datasets import translation


def main():
    arguments.out.mkdir(parents=True, exist_ok=True)
    text = arguments.text.read_text("utf-8") if arguments.text else docstrings()
    text = " ".join(text.split())
    cut = len(text) - len(text) // 20
    vocabulary = translation.Vocabulary.from_sentences(
        [text[:cut]], level="character", lowercase=False, min_count=5
    )
    train, test = (
        np.array(vocabulary.encode(part), "int32") for part in (text[:cut], text[cut:])
    )
    print(f"{len(train)} characters to learn from, {len(vocabulary)} different ones")
    model = fit(train, len(vocabulary))
    counted = [bits_of_counts(train, test, len(vocabulary), pairs) for pairs in (0, 1)]
    print(f"bits a character, counted characters:  {counted[0]:.3f}")
    print(f"… counted pairs of characters:         {counted[1]:.3f}")
    print(f"… the model:                           {bits(model, test):.3f}\n")

    prompts = arguments.prompt or ["Return the ", "If ", "This module "]
    write(model, vocabulary, prompts)
    model.save(arguments.out / "model.keras")
    vocabulary.save(arguments.out / "characters.txt")
    again = keras.saving.load_model(arguments.out / "model.keras")
    same = np.isclose(bits(again, test), bits(model, test))
    print(f"\nmodel:  {arguments.out / 'model.keras'}, loaded again: ", end="")
    print("the same" if same else "OTHER", "bits")


def docstrings():
    """Returns the docstrings of the standard library's modules."""
    texts = []
    for path in sorted(Path(sysconfig.get_path("stdlib")).glob("*.py")):
        for node in ast.walk(ast.parse(path.read_bytes())):
            kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
            text = ast.get_docstring(node) if isinstance(node, kinds) else None
            texts += [text] if text else []
    # Shuffle, so that the test set does not hold only the last modules.
    order = np.random.default_rng(0).permutation(len(texts))
    return "\n".join(texts[i] for i in order)


def windows(tokens):
    """Returns windows of the text and the windows shifted by one, (N, T) each."""
    length = arguments.length
    count = (len(tokens) - 1) // length
    inputs = tokens[: count * length].reshape(count, length)
    return inputs, tokens[1 : count * length + 1].reshape(count, length)


def fit(tokens, size):
    keras.utils.set_random_seed(arguments.seed)
    model = models.CausalLM(
        size,
        num_layers=arguments.layers,
        dim=arguments.dim,
        num_heads=4,
        intermediate_dim=4 * arguments.dim,
        dropout=0.0,
        position="rotary",
    )
    inputs, labels = windows(tokens)
    steps_an_epoch = -(-len(inputs) // arguments.batch_size)
    epochs = max(1, arguments.steps // steps_an_epoch)
    limit = arguments.steps * arguments.batch_size if epochs == 1 else None
    steps = min(arguments.steps, epochs * steps_an_epoch)
    rate = keras.optimizers.schedules.CosineDecay(
        0.0, steps, warmup_target=0.003, warmup_steps=steps // 10
    )
    model.compile(
        keras.optimizers.AdamW(rate, weight_decay=0.01, global_clipnorm=1.0),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True, ignore_class=0),
    )
    order = np.random.default_rng(arguments.seed).permutation(len(inputs))[:limit]
    start = time.perf_counter()
    model.fit(
        {"tokens": inputs[order]},
        labels[order],
        arguments.batch_size,
        epochs,
        verbose=2,
    )
    seconds = time.perf_counter() - start
    print(f"{steps} steps in {seconds:.0f} s on {keras.config.backend()}\n")
    return model


def bits(model, tokens):
    """Returns the model's bits per character, computed in windows."""
    inputs, labels = windows(tokens)
    loss = model.evaluate({"tokens": inputs}, labels, arguments.batch_size, verbose=0)
    return loss / np.log(2)


def bits_of_counts(train, test, size, pairs):
    """Returns the bits per character of unigram or bigram counts plus one."""
    context = train[:-1] if pairs else np.zeros(len(train) - 1, "int32")
    counts = np.ones((size, size))
    np.add.at(counts, (context, train[1:]), 1)
    chances = counts / counts.sum(1, keepdims=True)
    context = test[:-1] if pairs else np.zeros(len(test) - 1, "int32")
    return -np.log2(chances[context, test[1:]]).mean()


def write(model, vocabulary, prompts):
    """Continues each prompt twice, all in one batch."""
    rows = [vocabulary.encode(prompt) for prompt in prompts]
    sampler = samplers.TopPSampler(p=0.9, temperature=0.8)
    tokens = model.generate(
        rows, arguments.characters, sampler, seed=arguments.seed, num_sequences=2
    )
    for prompt, several in zip(prompts, tokens):
        for written in several:
            text = prompt + "".join(vocabulary.tokens[i] for i in written)
            print(repr(text))


if __name__ == "__main__":
    main()
