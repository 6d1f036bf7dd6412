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

BOTH = ("saved_model", "onnx")
EXPORTS = {  # model: backend: formats
    "memn2n": {"tensorflow": BOTH, "jax": BOTH, "torch": ("onnx",)},
    "key_value": {"tensorflow": BOTH, "jax": BOTH, "torch": ("onnx",)},
    "memnn": {"tensorflow": BOTH, "jax": ("saved_model",)},
    "additive": {"tensorflow": BOTH, "jax": BOTH, "torch": ("onnx",)},
}
# OpenVINO cannot run a loop over tensors from outside of it, as MemNN's pass is.
UNREAD = {("openvino", "memnn")}


def questions(vocabulary, count, seed, memory_size, sentence_length=None):
    from keras_attention.datasets import babi

    examples = babi.simulate(task=1, count=count, seed=seed)
    vocabulary = vocabulary or babi.Vocabulary.from_examples(examples)
    vectors = babi.vectorize(examples, vocabulary, memory_size, sentence_length)
    return vocabulary, vectors.inputs, vectors.answers


def train(folder):
    import keras

    backend = keras.config.backend()
    for name, make in {
        "memn2n": memn2n,
        "memnn": memnn,
        "key_value": key_value,
        "additive": additive,
    }.items():
        model, inputs, answers = make()
        stem = f"{backend}-{name}"
        model.save(folder / f"{stem}.keras")
        outputs = named(model.predict(inputs, verbose=0))
        save(folder / f"{stem}.npz", inputs=inputs, outputs=outputs, answers=answers)
        for kind in EXPORTS[name].get(backend, ()):
            suffix = ".onnx" if kind == "onnx" else ".saved_model"
            kind = "tf_saved_model" if kind == "saved_model" else kind
            model.export(str(folder / f"{stem}{suffix}"), format=kind, verbose=False)


def memn2n():
    """A trained network; questions to answer, and the true answers."""
    import keras

    from keras_attention import callbacks, models

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
    # The questions to answer: another batch size, longer stories and sentences than
    # any that the model, or a trace of it, has seen.
    return model, *questions(vocabulary, 37, 1, 13, 11)[1:]


def memnn():
    """A network with the same random weights everywhere, and questions."""
    from keras_attention import models

    rng = np.random.default_rng(0)
    model = models.MemNN(19, 7, supports=2, adaptive=True, ngrams=2, buckets=53)
    story = rng.integers(0, 19, (11, 13, 5))
    story[3, 5:] = 0
    inputs = {"story": story, "question": rng.integers(1, 19, (11, 3))}
    return drawn(model, rng), integers(inputs), {}


def key_value():
    """The same, over facts of a knowledge base."""
    from keras_attention import models

    rng = np.random.default_rng(1)
    model = models.KeyValueMemNN(19, 11, 7, hops=2, memory_size=5)
    entities, relations = rng.integers(1, 6, (13, 5)), rng.integers(1, 11, (13, 5))
    values = rng.integers(2, 7, (13, 5))
    values[3, 2:] = values[4] = 0
    inputs = {
        "question": rng.integers(1, 19, (13, 3)),
        "keys": np.stack([entities, relations], axis=-1),
        "values": values,
    }
    return drawn(model, rng), integers(inputs), {}


def additive():
    """Additive attention of random weights, for so many pairs that a kernel pays."""
    import keras

    from keras_attention.layers import BahdanauAttention

    query = keras.Input((None, 11), name="query")
    memory = keras.Input((None, 7), name="memory")
    output = BahdanauAttention(13)(query, keras.layers.Masking()(memory))
    model = keras.Model({"query": query, "memory": memory}, output)
    # Drawn so that the best of each row lead by 0.03, more than half precision moves.
    rng = np.random.default_rng(46)
    inputs = {
        "query": rng.normal(size=(5, 7, 11)).astype("float32"),
        "memory": rng.normal(size=(5, 41, 7)).astype("float32"),
    }
    inputs["memory"][:, ::3] = 0
    return drawn(model, rng), inputs, {}


def drawn(model, rng):
    for weight in model.trainable_weights:
        weight.assign(rng.normal(scale=0.5, size=weight.shape))
    return model


def integers(inputs):
    return {name: array.astype("int32") for name, array in inputs.items()}


def named(outputs):
    """The outputs of a model by name; one alone is called "output"."""
    outputs = outputs if isinstance(outputs, dict) else {"output": outputs}
    return {name: np.asarray(array) for name, array in outputs.items()}


def save(path, answers, **groups):
    arrays = {f"{g}/{n}": a for g, group in groups.items() for n, a in group.items()}
    np.savez(path, answers=answers, **arrays)


def load(path, group):
    with np.load(path) as data:
        names = [name for name in data.files if name.startswith(f"{group}/")]
        return {name.removeprefix(f"{group}/"): data[name] for name in names}


def predict(folder):
    import keras

    import keras_attention  # noqa: F401 - registers what the files hold

    reader = keras.config.backend()
    for path in sorted(folder.glob("*.keras")):
        if (reader, path.stem.split("-")[1]) in UNREAD:
            continue
        inputs = load(path.with_suffix(".npz"), "inputs")
        outputs = keras.saving.load_model(path).predict(inputs, verbose=0)
        np.savez(folder / f"{path.stem}-read-by-{reader}.npz", **named(outputs))


def serve(folder):
    for name in ("keras", "keras_attention", "jax", "torch"):
        sys.modules[name] = None  # importing it fails, as where it is not installed
    for path in sorted(folder.glob("*.onnx")) + sorted(folder.glob("*.saved_model")):
        inputs = load(path.with_suffix(".npz"), "inputs")
        if path.stem.endswith("-memnn"):  # an export has no optional input
            facts = np.full((len(inputs["question"]), 2), -1, "int32")
            inputs["supporting_facts"] = facts
        run = run_onnx if path.suffix == ".onnx" else run_saved_model
        np.savez(folder / f"{path.name}-served.npz", **run(path, inputs))


def run_onnx(path, inputs):
    import onnxruntime

    session = onnxruntime.InferenceSession(str(path))
    feed = {node.name: inputs[node.name] for node in session.get_inputs()}
    names = [node.name for node in session.get_outputs()]
    if len(names) == 1:
        names = ["output"]  # whatever the exporter calls it
    return dict(zip(names, session.run(None, feed)))


def run_saved_model(path, inputs):
    import tensorflow as tf

    loaded = tf.saved_model.load(str(path))
    return named(
        loaded.serve({name: tf.constant(array) for name, array in inputs.items()})
    )


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
    command, where = sys.argv[1], pathlib.Path(sys.argv[2])
    {"train": train, "predict": predict, "serve": serve}[command](where)
