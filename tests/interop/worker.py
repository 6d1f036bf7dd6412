"""What each process of the interop tests does; its backend is in KERAS_BACKEND.

python worker.py train FOLDER MODEL…    train, save, export, and write down the answers
python worker.py predict FOLDER MODEL…  answer with files that the others saved
python worker.py serve FOLDER           run every export where this package is missing
"""

import os
import pathlib
import sys
import warnings

import numpy as np

TRAINERS = ("jax", "tensorflow", "torch")
SAVED = ("saved_model",)
BOTH = (*SAVED, "onnx")
ALL = (*BOTH, "tflite", "openvino")
GELU = ("saved_model", "tflite", "openvino")  # tf2onnx knows no erfc, which it is of
EXPORTS = {  # model: backend: formats
    "memn2n": {"tensorflow": BOTH, "jax": BOTH, "torch": ("onnx",)},
    "key_value": {"tensorflow": BOTH, "jax": BOTH, "torch": ("onnx",)},
    "memnn": {"tensorflow": BOTH, "jax": ("saved_model",)},
    "additive": {"tensorflow": BOTH, "jax": BOTH, "torch": ("onnx",)},
    "quantized": {},  # only saved and loaded
    "transformer": {"tensorflow": ALL, "jax": BOTH, "torch": ("onnx",)},
    "causal_lm": {"tensorflow": GELU, "jax": BOTH, "torch": ("onnx",)},
    "masked_lm": {"tensorflow": GELU, "jax": BOTH, "torch": ("onnx",)},
    "transformer_classifier": {"tensorflow": ALL, "jax": BOTH, "torch": ("onnx",)},
    "hopfield": {"tensorflow": ALL, "jax": BOTH, "torch": ("onnx",)},
    "hopfield_layer": {"tensorflow": ALL, "jax": SAVED, "torch": ("onnx",)},
    "hopfield_classifier": {"tensorflow": ALL, "jax": SAVED, "torch": ("onnx",)},
    "associative_memory": {"tensorflow": (*SAVED, "tflite"), "jax": SAVED},
    "dnc_network": {"tensorflow": BOTH, "jax": BOTH},
    "ntm_network": {"tensorflow": BOTH, "jax": BOTH, "torch": ("onnx",)},
    "skip_gram": {"tensorflow": ALL, "jax": BOTH, "torch": ("onnx",)},
    "word_rnn": {"tensorflow": BOTH, "jax": BOTH, "torch": ("onnx",)},
    "matrix_factorization": {"tensorflow": ALL, "jax": BOTH, "torch": ("onnx",)},
    "attentive_factorization": {
        "tensorflow": (*BOTH, "openvino"),
        "jax": BOTH,
        "torch": ("onnx",),
    },
}
# Whose sizes are fixed: torch traces no normalization of Keras whose sizes are open,
# and unrolls what is recurrent; JAX does not know that two open sizes are one, as a
# bag's and its mask's are, or a sequence's and that of its steps to answer at.
FIXED = {
    "torch": (
        "transformer",
        "causal_lm",
        "masked_lm",
        "transformer_classifier",
        "hopfield_classifier",
        "ntm_network",
        "word_rnn",
    ),
    "jax": (
        "hopfield_classifier",
        "dnc_network",
        "ntm_network",
        "attentive_factorization",
    ),
}
FORMATS = {  # by what a file or folder ends in
    "saved_model": "tf_saved_model",
    "onnx": "onnx",
    "tflite": "litert",
    "openvino": "openvino",
}
# OpenVINO cannot run a loop over tensors from outside of it, as MemNN's pass is, and
# that of a memory's steps. Its compiler runs out of registers where a DNC is unrolled.
UNREAD = {
    ("openvino", "memnn"),
    ("openvino", "associative_memory"),
    ("openvino", "dnc_network"),
}


def read_by(reader, names):
    """The files that a backend reads: each model, the writers taking turns.

    Readers that can all read everything begin with another writer, so that each file
    is read somewhere.
    """
    start = sum(map(ord, reader))
    for number, name in enumerate(names):
        if (reader, name) not in UNREAD:
            yield f"{TRAINERS[(start + number) % len(TRAINERS)]}-{name}"


def questions(vocabulary, count, seed, memory_size, sentence_length=None):
    from keras_attention.datasets import babi

    examples = babi.simulate(task=1, count=count, seed=seed)
    vocabulary = vocabulary or babi.Vocabulary.from_examples(examples)
    vectors = babi.vectorize(examples, vocabulary, memory_size, sentence_length)
    return vocabulary, vectors.inputs, vectors.answers


def train(folder, *names):
    import keras

    backend = keras.config.backend()
    makers = {
        "memn2n": memn2n,
        "memnn": memnn,
        "key_value": key_value,
        "additive": additive,
        "quantized": quantized,
        "transformer": transformer,
        "causal_lm": causal_lm,
        "masked_lm": masked_lm,
        "transformer_classifier": transformer_classifier,
        "hopfield": hopfield,
        "hopfield_layer": hopfield_layer,
        "hopfield_classifier": hopfield_classifier,
        "associative_memory": associative_memory,
        "dnc_network": dnc_network,
        "ntm_network": ntm_network,
        "skip_gram": skip_gram,
        "word_rnn": word_rnn,
        "matrix_factorization": matrix_factorization,
        "attentive_factorization": attentive_factorization,
    }
    for name in names:
        stem, make = f"{backend}-{name}", makers[name]
        model, inputs, answers = make(folder) if name == "memn2n" else make()
        model.save(folder / f"{stem}.keras")
        outputs = named(model.predict(inputs, verbose=0))
        save(folder / f"{stem}.npz", inputs=inputs, outputs=outputs, answers=answers)
        for kind in EXPORTS[name].get(backend, ()):
            path = folder / f"{stem}.{kind}"
            if kind == "openvino":  # a pair of files
                path.mkdir()
                path = path / "model.xml"
            more = {}
            if name in FIXED.get(backend, ()):
                sizes = [(n, str(a.dtype), a.shape) for n, a in inputs.items()]
                sizes = {n: keras.InputSpec(dtype, shape) for n, dtype, shape in sizes}
                more["input_signature"] = [sizes]
            model.export(str(path), format=FORMATS[kind], verbose=False, **more)


def memn2n(folder):
    """A trained network; questions to answer, and the true answers.

    JAX trains it, in a process that comes first; the others read its file.
    """
    import keras

    from keras_attention import callbacks, models

    keras.utils.set_random_seed(0)
    vocabulary, inputs, answers = questions(None, 1000, 0, 10)
    # The questions to answer: another batch size, longer stories and sentences than
    # any that the model, or a trace of it, has seen.
    asked = questions(vocabulary, 37, 1, 13, 11)[1:]
    if keras.config.backend() != "jax":
        return keras.saving.load_model(folder / "jax-memn2n.keras"), *asked
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
    return model, *asked


def memnn():
    """A network with the same random weights everywhere, and questions."""
    from keras_attention import models

    rng = np.random.default_rng(0)
    model = models.MemNN(19, 7, supports=2, adaptive=True, ngrams=2, buckets=53)
    story = rng.integers(0, 19, (11, 13, 5))
    story[3, 5:] = 0
    inputs = {"story": story, "question": rng.integers(1, 19, (11, 3))}
    return with_random_weights(model, rng), integers(inputs), {}


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
    return with_random_weights(model, rng), integers(inputs), {}


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
    return with_random_weights(model, rng), inputs, {}


def quantized():
    """Two attention layers with integer weights, next to each other.

    Both quantize the inputs, which are the same everywhere. Integers of computed
    values would differ by one where a backend rounds differently.
    """
    import keras

    from keras_attention import layers

    query = keras.Input((None, 11), name="query")
    memory = keras.Input((None, 7), name="memory")
    bahdanau = layers.BahdanauAttention(13)
    additive = layers.Attention(layers.AdditiveScore(13))
    output = keras.layers.Concatenate()(
        [bahdanau(query, memory), additive(query, memory)]
    )
    model = keras.Model({"query": query, "memory": memory}, output)
    rng = np.random.default_rng(47)
    inputs = {
        "query": rng.normal(size=(5, 7, 11)).astype("float32"),
        "memory": rng.normal(size=(5, 13, 7)).astype("float32"),
    }
    model = with_random_weights(model, rng)
    for layer, mode in ((bahdanau, "int8"), (additive, "int4")):
        for part in (layer.score.query_dense, layer.score.key_dense):
            part.quantize(mode)
    return model, inputs, {}


def tokens(rng, batch, length, most=19):
    """Sequences of unequal length, 0 behind."""
    found = rng.integers(1, most, (batch, length))
    ends = rng.integers(2, length + 1, batch)
    return np.where(np.arange(length) < ends[:, None], found, 0)


SMALL = {"num_layers": 2, "dim": 12, "num_heads": 3, "intermediate_dim": 7}


def transformer():
    """Models of random weights, and sequences of which some are padded."""
    from keras_attention import models

    rng = np.random.default_rng(2)
    model = models.Transformer(19, 17, **SMALL)
    inputs = {"source": tokens(rng, 5, 11), "target": tokens(rng, 5, 7, 17)}
    return with_random_weights(model, rng), integers(inputs), {}


def causal_lm():
    from keras_attention import models

    rng = np.random.default_rng(3)
    attention = {"num_key_value_heads": 1, "sliding_window": 4}
    model = models.CausalLM(
        19, **SMALL, position="rotary", block={"attention": attention}
    )
    return with_random_weights(model, rng), integers({"tokens": tokens(rng, 5, 11)}), {}


def masked_lm():
    from keras_attention import models

    rng = np.random.default_rng(4)
    model = models.MaskedLM(19, **SMALL, max_length=31)
    inputs = {
        "tokens": tokens(rng, 5, 11),
        "mask_positions": rng.integers(0, 2, (5, 3)),
    }
    return with_random_weights(model, rng), integers(inputs), {}


def transformer_classifier():
    from keras_attention import models

    rng = np.random.default_rng(5)
    model = models.TransformerClassifier(19, 5, **SMALL, position="relative")
    return with_random_weights(model, rng), integers({"tokens": tokens(rng, 5, 11)}), {}


def hopfield():
    """What states retrieve in several steps, pooled."""
    import keras

    from keras_attention import layers

    query = keras.Input((None, 11), name="query")
    memory = keras.Input((None, 7), name="memory")
    association = layers.Hopfield(
        3, 4, update_steps=3, beta=[0.1, 0.2, 0.3], trainable_beta=True
    )
    found = association(query, keras.layers.Masking()(memory))
    output = layers.HopfieldPooling(2, 3, 4, update_steps=2, beta=0.1)(found)
    model = keras.Model({"query": query, "memory": memory}, output)
    rng = np.random.default_rng(6)
    inputs = {
        "query": rng.normal(size=(5, 3, 11)).astype("float32"),
        "memory": rng.normal(size=(5, 13, 7)).astype("float32"),
    }
    inputs["memory"][:, ::3] = 0
    for weight in with_random_weights(model, rng).trainable_weights:
        if weight.name == "log_beta":
            weight.assign(np.log([0.2, 0.1, 0.3]))
    return model, inputs, {}


def hopfield_layer():
    import keras

    from keras_attention import layers

    rng = np.random.default_rng(7)
    x = keras.Input((None, 7), name="x")
    lookup = layers.HopfieldLayer(13, 3, 4, update_steps=2, beta=0.3)
    inputs = {"x": rng.normal(size=(5, 11, 7)).astype("float32")}
    return with_random_weights(keras.Model({"x": x}, lookup(x)), rng), inputs, {}


def hopfield_classifier():
    from keras_attention import models

    rng = np.random.default_rng(8)
    model = models.HopfieldClassifier(
        7, 3, dims=(11,), num_heads=3, key_dim=4, update_steps=2, instance_dropout=0.2
    )
    inputs = {
        "instances": rng.normal(size=(5, 13, 7)).astype("float32"),
        "instances_mask": np.arange(13) < np.array([[13], [2], [5], [1], [7]]),
    }
    return with_random_weights(model, rng), inputs, {}


def associative_memory():
    """Patterns that are stored, not drawn, within a model."""
    import keras

    from keras_attention import models

    rng = np.random.default_rng(9)
    memory = models.AssociativeMemory(beta=2.0)
    memory.store(rng.normal(size=(5, 11)))
    queries = keras.Input((11,), name="queries")
    model = keras.Model({"queries": queries}, memory(queries))
    return model, {"queries": rng.normal(size=(7, 11)).astype("float32")}, {}


def asked(rng, batch, length):
    """Steps to answer at, at least one of each sequence."""
    mask = rng.random((batch, length)) < 0.5
    mask[:, -1] = True
    return mask


def dnc_network():
    """A memory of random weights, with two write heads, over vectors."""
    import keras

    from keras_attention import layers, models

    rng = np.random.default_rng(10)
    cell = layers.DNCCell(keras.layers.LSTMCell(11), 7, 4, 2, write_heads=2)
    model = models.DNCNetwork(cell, 3, input_dim=5)
    inputs = {
        "inputs": rng.normal(size=(5, 13, 5)).astype("float32"),
        "answer_mask": asked(rng, 5, 13),
    }
    return with_random_weights(model, rng), inputs, {}


def ntm_network():
    """A Neural Turing Machine, over tokens of which some are padding."""
    import keras

    from keras_attention import layers, models

    rng = np.random.default_rng(11)
    cell = layers.NTMCell(keras.layers.GRUCell(11), 7, 4)
    model = models.DNCNetwork(cell, 3, vocabulary_size=19, embedding_dim=5)
    words = integers({"inputs": tokens(rng, 5, 7)})  # torch's export unrolls them
    return (
        with_random_weights(model, rng),
        {**words, "answer_mask": asked(rng, 5, 7)},
        {},
    )


def skip_gram():
    """Pairs of words, the first of which is in the centre."""
    from keras_attention import models

    rng = np.random.default_rng(142)  # no two words of a row are nearly alike
    inputs = {"center": rng.integers(1, 19, 5), "context": rng.integers(1, 19, (5, 4))}
    return with_random_weights(models.SkipGram(19, dim=6), rng), integers(inputs), {}


def word_rnn():
    """The next word after each, some of the sentences padded behind."""
    from keras_attention import models

    rng = np.random.default_rng(367)  # one word is far the likeliest
    model = models.WordRNN(19, units=7, embedding_dim=5, cell="gru")
    return with_random_weights(model, rng), integers({"tokens": tokens(rng, 5, 13)}), {}


def matrix_factorization():
    """What some users say of some items."""
    from keras_attention import models

    rng = np.random.default_rng(14)
    model = models.MatrixFactorization(11, 13, dim=4, mean=3.0)
    inputs = {"user": rng.integers(0, 11, 5), "item": rng.integers(0, 13, 5)}
    return with_random_weights(model, rng), integers(inputs), {}


def attentive_factorization():
    """The same from what they said of other items."""
    from keras_attention import models

    rng = np.random.default_rng(15)
    inputs = {"item": rng.integers(0, 13, 5), "history": rng.integers(0, 13, (5, 6))}
    inputs = integers(inputs)
    inputs["history_ratings"] = rng.uniform(1, 5, (5, 6)).astype("float32")
    inputs["history_mask"] = rng.random((5, 6)) < 0.7
    return (
        with_random_weights(models.AttentiveFactorization(13, dim=4, mean=3.0), rng),
        inputs,
        {},
    )


def with_random_weights(model, rng):
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


def predict(folder, *names):
    import keras

    import keras_attention  # noqa: F401 - registers what the files hold

    reader = keras.config.backend()
    for stem in read_by(reader, names):
        path = folder / f"{stem}.keras"
        inputs = load(path.with_suffix(".npz"), "inputs")
        outputs = keras.saving.load_model(path).predict(inputs, verbose=0)
        np.savez(folder / f"{stem}-read-by-{reader}.npz", **named(outputs))


def serve(folder):
    for name in ("keras", "keras_attention", "jax", "torch"):
        sys.modules[name] = None  # importing it fails, as where it is not installed
    for kind, run in RUNS.items():
        for path in sorted(folder.glob(f"*.{kind}")):
            inputs = load(path.with_suffix(".npz"), "inputs")
            if path.stem.endswith("-memnn"):  # an export has no optional input
                facts = np.full((len(inputs["question"]), 2), -1, "int32")
                inputs["supporting_facts"] = facts
            np.savez(folder / f"{path.name}-served.npz", **run(path, inputs))


def run_onnx(path, inputs):
    import onnxruntime

    session = onnxruntime.InferenceSession(str(path))
    asked = [node.name for node in session.get_inputs()]
    if not {*asked} <= {*inputs}:  # torch counts those whose sizes are fixed
        inputs = dict(zip(asked, (inputs[name] for name in sorted(inputs))))
    feed = {name: inputs[name] for name in asked}
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


def run_openvino(path, inputs):
    import openvino

    core = openvino.Core()
    single = {"INFERENCE_PRECISION_HINT": "f32"}
    compiled = core.compile_model(core.read_model(path / "model.xml"), "CPU", single)
    feed = {node.any_name: inputs[node.any_name] for node in compiled.inputs}
    return {"output": compiled(feed)[0]}


def run_litert(path, inputs):
    import tensorflow as tf

    run = tf.lite.Interpreter(str(path)).get_signature_runner("serving_default")
    return {"output": next(iter(run(**inputs).values()))}


RUNS = {
    "onnx": run_onnx,
    "saved_model": run_saved_model,
    "openvino": run_openvino,
    "tflite": run_litert,
}


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
    command, folder, *names = sys.argv[1:]
    commands = {"train": train, "predict": predict, "serve": serve}
    commands[command](pathlib.Path(folder), *names)
