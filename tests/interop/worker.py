"""What each process of the interop tests does; its backend is in KERAS_BACKEND.

python worker.py train FOLDER      train, save, export, and write down the answers
python worker.py predict FOLDER    answer with every file that the others saved
python worker.py serve FOLDER      run every export where this package is missing
"""

import os
import pathlib
import sys
import warnings

import numpy as np

EXPORTS = {"tensorflow": ("saved_model", "onnx"), "jax": ("saved_model", "onnx")}
EXPORTS["torch"] = ("onnx",)


def questions(vocabulary, count, seed, memory_size, sentence_length=None):
    from keras_attention.datasets import babi

    examples = babi.simulate(task=1, count=count, seed=seed)
    vocabulary = vocabulary or babi.Vocabulary.from_examples(examples)
    vectors = babi.vectorize(examples, vocabulary, memory_size, sentence_length)
    return vocabulary, vectors.inputs, vectors.answers


def train(folder):
    import keras

    from keras_attention import callbacks, models

    backend = keras.config.backend()
    keras.utils.set_random_seed(0)
    vocabulary, inputs, answers = questions(None, 1000, 0, 10)
    model = models.MemN2N(
        len(vocabulary), memory_size=10, time_noise=0.1, linear_start=True
    )
    model.compile(
        keras.optimizers.SGD(0.01, clipnorm=40.0),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="sum"),
        metrics=["accuracy"],
    )
    model.fit(
        inputs, answers, epochs=25, verbose=0, callbacks=[callbacks.LinearStart(5)]
    )
    model.save(folder / f"{backend}.keras")
    # The questions to answer: another batch size, longer stories and sentences than
    # any that the model, or a trace of it, has seen.
    _, inputs, answers = questions(vocabulary, 37, 1, 13, 11)
    logits = model.predict(inputs, verbose=0)
    np.savez(folder / f"{backend}.npz", logits=logits, answers=answers, **inputs)
    for kind in EXPORTS[backend]:
        suffix = ".onnx" if kind == "onnx" else "-saved_model"
        kind = "tf_saved_model" if kind == "saved_model" else kind
        model.export(str(folder / f"{backend}{suffix}"), format=kind, verbose=False)


def predict(folder):
    import keras

    import keras_attention  # noqa: F401 - registers what the files hold

    reader = keras.config.backend()
    for path in sorted(folder.glob("*.keras")):
        with np.load(path.with_suffix(".npz")) as data:
            inputs = {name: data[name] for name in ("story", "question")}
        logits = keras.saving.load_model(path).predict(inputs, verbose=0)
        np.save(folder / f"{path.stem}-read-by-{reader}.npy", np.asarray(logits))


def serve(folder):
    for name in ("keras", "keras_attention", "jax", "torch"):
        sys.modules[name] = None  # importing it fails, as where it is not installed
    for path in sorted(folder.glob("*.onnx")) + sorted(folder.glob("*-saved_model")):
        backend = path.name.removesuffix(".onnx").removesuffix("-saved_model")
        with np.load(folder / f"{backend}.npz") as data:
            inputs = {name: data[name] for name in ("story", "question")}
        run = run_onnx if path.suffix == ".onnx" else run_saved_model
        np.save(folder / f"{path.name}-served.npy", run(path, inputs))


def run_onnx(path, inputs):
    import onnxruntime

    session = onnxruntime.InferenceSession(str(path))
    # Exporters name inputs differently; the ranks of the two tell which is which.
    by_rank = {array.ndim: array for array in inputs.values()}
    feed = {node.name: by_rank[len(node.shape)] for node in session.get_inputs()}
    return session.run(None, feed)[0]


def run_saved_model(path, inputs):
    import tensorflow as tf

    loaded = tf.saved_model.load(str(path))
    tensors = {name: tf.constant(array) for name, array in inputs.items()}
    return loaded.serve(tensors).numpy()


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
    command, where = sys.argv[1], pathlib.Path(sys.argv[2])
    {"train": train, "predict": predict, "serve": serve}[command](where)
