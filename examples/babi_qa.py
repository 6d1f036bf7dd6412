"""A memory network answers questions about stories and shows its attention.

    python examples/babi_qa.py                        # task 1, about a minute
    python examples/babi_qa.py --task 2 --size 10k    # another task of the 20
    python examples/babi_qa.py --data simulated       # any task, no download
    python examples/babi_qa.py --backend torch        # or tensorflow
    python examples/babi_qa.py --story my_story.txt   # your own story and question
    python examples/babi_qa.py --ask                  # the same, typed in
    python examples/babi_qa.py --model babi_qa --ask  # with the network saved before

A story file has one sentence per line. A line that ends in "?" is a question about the
lines above it. An empty line begins a new story. A file may also have the format of
bAbI: each line has its number, and a question has a tab and its answer behind it.

The model is MemN2N: Sukhbaatar et al., "End-to-end memory networks" (2015),
https://arxiv.org/abs/1503.08895. See keras_attention/models/memory_networks/memn2n.py
for its equations. The tasks are bAbI: Weston et al. (2015),
https://arxiv.org/abs/1502.05698.
"""

import argparse
import dataclasses
import importlib.util
import os
import re
import sys
import time
import warnings
from pathlib import Path


def parse_arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add(
        "--task",
        type=int,
        default=1,
        choices=range(1, 21),
        metavar="1…20",
        help="default: 1",
    )
    add(
        "--size",
        default="1k",
        choices=("1k", "10k"),
        help="training questions; default: 1k",
    )
    add(
        "--data",
        default="auto",
        choices=("auto", "real", "simulated"),
        help="auto, the default: the real archive where it can be had, else simulated",
    )
    add("--backend", choices=("jax", "tensorflow", "torch"), help="default: jax")
    add("--epochs", type=count, default=100, help="of training; default: 100")
    add("--hops", type=count, default=3, help="looks at the story; default: 3")
    add("--dim", type=count, default=20, help="width of the memory; default: 20")
    add("--seed", type=int, default=0, help="of all chance; default: 0")
    add("--story", type=Path, help="a text file with your own story and questions")
    add("--ask", action="store_true", help="type in your own story and questions")
    add("--model", type=Path, help="a folder saved before, instead of training")
    add("--out", type=Path, default=Path("babi_qa"), help="where to write")
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
from keras_attention import callbacks, models, visualization
from keras_attention.datasets import DataNotFoundError, babi


def main():
    story = read_story(arguments.story) if arguments.story else None
    check_writable(arguments.out)
    if arguments.model:
        model, vocabulary = load(arguments.model)
    else:
        model, vocabulary = train_and_show()
    if story is not None:
        answer_lines(model, vocabulary, story)
    if arguments.ask:
        print('\nTell a story line by line; end a question with "?". Ctrl-D ends.')
        answer_lines(model, vocabulary, (line.rstrip("\n") for line in sys.stdin))


def train_and_show():
    train, test, source = load_examples()
    print(f"bAbI task {arguments.task} ({babi.TASKS[arguments.task]}), {source}:")
    print(f"{len(train)} questions to train on, {len(test)} to test", flush=True)
    vocabulary = babi.Vocabulary.from_examples(train)
    # An answer that training lacks cannot be given: it is removed, and counts as wrong.
    test = [
        e if e.answer in vocabulary else dataclasses.replace(e, answer=None)
        for e in test
    ]
    longest = max(len(example.story) for example in train + test)
    memory_size = min(50, longest)
    train, test_vectors = (
        vectorize(examples, vocabulary, memory_size) for examples in (train, test)
    )

    keras.utils.set_random_seed(arguments.seed)
    model = models.MemN2N(
        vocabulary_size=len(vocabulary),
        embedding_dim=arguments.dim,
        hops=arguments.hops,
        memory_size=memory_size,
        time_noise=0.1,
        linear_start=True,
    )
    model.compile(
        optimizer=keras.optimizers.SGD(0.01, clipnorm=40.0),
        loss=keras.losses.SparseCategoricalCrossentropy(
            from_logits=True, reduction="sum"
        ),
        metrics=["accuracy"],
    )
    start = time.perf_counter()
    linear = min(10, arguments.epochs // 4)
    model.fit(
        train.inputs,
        train.answers,
        batch_size=32,
        epochs=arguments.epochs,
        verbose=0,
        callbacks=[
            callbacks.LinearStart(epochs=linear),
            callbacks.HalveLearningRate(every=25, start=linear),
            keras.callbacks.LambdaCallback(on_epoch_end=show_epoch),
        ],
    )
    print(
        f"trained in {time.perf_counter() - start:.0f} s on {keras.backend.backend()}"
    )
    found = model.predict(test_vectors.inputs, verbose=0).argmax(-1)
    right = (found == test_vectors.answers) & (test_vectors.answers > 0)
    print(f"test accuracy: {100 * right.mean():.1f} %")

    example = next(e for e in test if len(e.story) >= min(6, longest))
    answer = show(model, vocabulary, example, example.answer, example.supporting_facts)
    save(model, vocabulary)
    loaded, _ = load(arguments.out)
    again, _ = look(loaded, vocabulary, example)
    if again != answer:
        sys.exit(f"the loaded model answers {again!r}, not {answer!r}")
    print(f"saved, loaded again, and the answer is the same: {again}")
    return model, vocabulary


def load_examples():
    """Loads real questions if available, otherwise simulates them."""
    task, size = arguments.task, arguments.size
    if arguments.data != "simulated":
        try:
            train = babi.load(task, "train", size)
            return train, babi.load(task, "test", size), "the real data"
        except DataNotFoundError as error:
            if arguments.data == "real":
                sys.exit(str(error))
            why = error.tried[-1].rstrip(".")
            print(f"No real data here ({why}), so the stories are simulated.")
        except ValueError as error:  # damaged or unsafe archive
            sys.exit(str(error))
    count = 10_000 if size == "10k" else 1_000
    train = babi.simulate(task, count, seed=arguments.seed)
    return train, babi.simulate(task, 1_000, seed=arguments.seed + 1), "simulated"


def vectorize(examples, vocabulary, memory_size):
    """Converts examples to arrays and prints the number of truncated stories."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        vectors = babi.vectorize(examples, vocabulary, memory_size)
    for warning in caught:
        print(f"note: {warning.message}")
    return vectors


def show_epoch(epoch, logs):
    if (epoch + 1) % 10 == 0:
        print(
            f"epoch {epoch + 1:3d}  training accuracy {100 * logs['accuracy']:5.1f} %",
            flush=True,
        )


def look(model, vocabulary, example):
    """Returns the answer to one question and the weights of each hop, (K, M)."""
    inputs = vectorize([example], vocabulary, model.memory_size).inputs
    with keras_attention.record_attention() as maps:
        logits = model(inputs)
    scores = keras.ops.convert_to_numpy(logits)[0]
    scores[:2] = -np.inf  # padding and the unknown word are not answers
    weights = np.stack([weights[0] for weights in maps.values()])
    return vocabulary.words[int(scores.argmax())], weights


def show(model, vocabulary, example, truth=None, supporting=None, picture="hops.png"):
    """Prints story, question, answer and table, and draws them as a figure."""
    answer, weights = look(model, vocabulary, example)
    story = example.story[-model.memory_size :]
    cut = len(example.story) - len(story)
    facts = [fact - cut for fact in supporting or () if fact >= cut] or None
    print("\n" + visualization.hops_table(weights, story, supporting=facts))
    print(f"question: {' '.join(example.question)}?")
    print(f"answer:   {answer}" + (f"   (the truth: {truth})" if truth else ""))
    figure = visualization.plot_hops(
        weights,
        story,
        question=" ".join(example.question) + "?",
        answer=answer,
        supporting=facts,
    )
    path = arguments.out / picture
    figure.savefig(path, dpi=150)
    print(f"picture:  {path}")
    return answer


def answer_lines(model, vocabulary, lines):
    """Answers each question of a story given as lines."""
    story, count, unknown, asked = [], 0, [], True
    for line in lines:
        words = babi.tokenize(line)
        if not words:
            story = []
            continue
        unknown += [w for w in vocabulary.unknown_words(words) if w not in unknown]
        asked = line.rstrip().endswith("?")
        if not line.rstrip().endswith("?"):
            story.append(words)
            continue
        if not story:
            print(f"There is no story before this question: {line.strip()}")
            continue
        count += 1
        if unknown:
            print(
                f"\nnote: never seen in training: {', '.join(unknown)}. All such words "
                "are one and the same\nto the network, so do not trust an answer that "
                "hangs on them."
            )
        example = babi.Example(arguments.task, tuple(story), words, answer=None)
        show(model, vocabulary, example, picture=f"own_{count}.png")
    if not count:
        sys.exit('No question was answered: a question is a line that ends in "?".')
    if not asked:
        print("note: nothing is asked after the last sentences.")


def read_story(path):
    """Returns the lines of a story file, of which at least one is a question."""
    lines = read_lines(path)
    numbered = [re.fullmatch(r"(\d+)\s+([^\t]*)(\t.*)?", x) for x in lines if x.strip()]
    if all(numbered):  # the format of bAbI, in which number 1 begins a new story
        lines = []
        for number, text, answer in (match.groups() for match in numbered):
            text = text.rstrip().rstrip("?") + "?" if answer else text
            lines += ["", text] if int(number) == 1 else [text]
    if not any(line.rstrip().endswith("?") for line in lines):
        sys.exit(f'no question in {path}: a question is a line that ends in "?".')
    return lines


def read_lines(path):
    try:
        return path.read_text(encoding="utf-8-sig").splitlines()
    except OSError as error:
        sys.exit(f"cannot read the story {path}: {error.strerror}")
    except UnicodeDecodeError as error:
        sys.exit(f"cannot read the story {path}: it is not UTF-8 text ({error})")


def check_writable(folder):
    """Checks before training that the files can be written."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / ".write").touch()
        (folder / ".write").unlink()
    except OSError as error:
        sys.exit(f"cannot write to {folder}: {error.strerror}. Choose another --out.")


def save(model, vocabulary):
    model.save(arguments.out / "model.keras")
    vocabulary.save(arguments.out / "vocabulary.txt")
    print(f"\nmodel:    {arguments.out / 'model.keras'}")


def load(folder):
    for name in ("model.keras", "vocabulary.txt"):
        if not (folder / name).is_file():
            sys.exit(f"{folder} holds no {name}: train without --model first.")
    model = keras.saving.load_model(folder / "model.keras")
    return model, babi.Vocabulary.load(folder / "vocabulary.txt")


if __name__ == "__main__":
    main()
