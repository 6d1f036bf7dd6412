"""What each process of test_serving.py does; its backend is in KERAS_BACKEND.

python serving_worker.py export FOLDER MODEL…  export, and write down the answers
python serving_worker.py serve FOLDER MODEL…   run each export without this package
"""

import os
import pathlib
import sys
import warnings

import numpy as np
from worker import integers, run_onnx, run_saved_model, with_random_weights

SAVED = ("saved_model",)
BOTH = (*SAVED, "onnx")
# What each backend writes. JAX' exporter to ONNX knows no backward loop, torch's no
# loop of open length.
MAPS = {
    "layers": {"tensorflow": BOTH, "jax": BOTH, "torch": ("onnx",)},
    "memn2n": {"tensorflow": BOTH, "jax": BOTH, "torch": ("onnx",)},
    "seq2seq": {"tensorflow": BOTH, "jax": SAVED, "torch": ()},
}
SAMPLERS = ("greedy", "beam")
# JAX exports greedy generation alone. A beam search takes seconds to trace.
GENERATORS = {
    "seq2seq": {"tensorflow": SAMPLERS, "jax": ("greedy",)},
    "seq2seq_copy": {"tensorflow": ("beam",), "jax": ("greedy",)},
    "transformer": {"tensorflow": ("beam",)},
    "causal_lm": {"tensorflow": ("beam",), "jax": ("greedy",)},
    "rotary_lm": {"tensorflow": ("greedy",)},
    "word_rnn": {"tensorflow": ("greedy",)},
    "captioner": {"tensorflow": ("greedy",)},
}
SIZES = ((2, 5), (3, 1), (1, 19))  # batch sizes and lengths
MOST = 7  # tokens to generate
SMALL = {"num_layers": 2, "dim": 6, "num_heads": 2, "intermediate_dim": 7}


def layers_model():
    """Padding that travels through two layers of attention."""
    import keras

    from keras_attention import layers

    words = keras.Input((None,), dtype="int32", name="words")
    x = keras.layers.Embedding(11, 6, mask_zero=True)(words)
    x = layers.MultiHeadAttention(2, 3, name="heads")(x, x)
    x = layers.Attention("general", name="attention")(x, x)
    return keras.Model({"words": words}, x), {"words": tokens(5, 7)}


def memn2n():
    """A layer that is called three times."""
    from keras_attention import models

    rng = np.random.default_rng(1)
    inputs = {"story": rng.integers(0, 11, (5, 4, 7)), "question": tokens(5, 3)}
    return models.MemN2N(11, memory_size=7), integers(inputs)


def seq2seq():
    """Attention inside a loop."""
    from keras_attention import models

    model = models.Seq2Seq(11, 13, embedding_dim=4, units=5)
    return model, {"source": tokens(5, 7), "target": tokens(5, 3)}


def tokens(batch, length):
    """Sequences of unequal length, 0 behind; the first has no padding."""
    rng = np.random.default_rng(100 * batch + length)
    found = rng.integers(1, 11, (batch, length))
    ends = rng.integers(1, length + 1, batch)
    ends[0] = length
    return np.where(np.arange(length) < ends[:, None], found, 0).astype("int32")


def generator(name):
    from keras_attention import models

    if name == "seq2seq":
        return models.Seq2Seq(11, 13, embedding_dim=4, units=5)
    if name == "seq2seq_copy":
        return models.Seq2Seq(8, 8, embedding_dim=4, units=5, copy=3)
    if name == "transformer":
        return models.Transformer(11, 13, **SMALL, position="learned")
    if name == "causal_lm":
        return models.CausalLM(11, **SMALL, max_length=40)
    if name == "rotary_lm":
        wide = {**SMALL, "dim": 8}
        attention = {"num_key_value_heads": 1, "sliding_window": 4}
        block = {"attention": attention}
        return models.CausalLM(11, **wide, position="rotary", block=block)
    if name == "word_rnn":
        return models.WordRNN(11, embedding_dim=4, units=5, cell="gru")
    return models.ImageCaptioner((8, 8, 1), 7, embedding_dim=3, units=5, filters=(2, 4))


def prompts(name, batch, length):
    if name != "captioner":
        return tokens(batch, length)
    rng = np.random.default_rng(batch)
    return rng.normal(size=(batch, 8, 8, 1)).astype("float32")


def export(folder, *names):
    import keras

    from keras_attention import samplers, with_attention

    backend = keras.config.backend()
    rng = np.random.default_rng(0)
    makers = {"layers": layers_model, "memn2n": memn2n, "seq2seq": seq2seq}
    for name in (name for name in makers if name in names):
        model, inputs = makers[name]()
        model = with_attention(with_random_weights(model, rng))
        save(folder / f"{backend}-{name}.npz", model, inputs)
        np.savez(folder / f"{backend}-{name}-inputs.npz", **inputs)
        if backend == "torch":
            model.save(folder / f"{name}.keras")
        else:
            path = folder / f"torch-{name}-read-by-{backend}.npz"
            loaded = keras.saving.load_model(folder / f"{name}.keras")
            with np.load(folder / f"torch-{name}-inputs.npz") as data:
                save(path, loaded, {**data})
        for kind in MAPS[name][backend]:
            path = str(folder / f"{backend}-{name}.{kind}")
            kinds = {"saved_model": "tf_saved_model", "onnx": "onnx"}
            model(inputs)  # for ONNX from JAX
            model.export(path, format=kinds[kind], verbose=False)
    for name in (name for name in GENERATORS if name in names):
        for sampler in GENERATORS[name].get(backend, ()):
            model = generator(name)
            for weight in model.trainable_weights:  # large, for answers that differ
                weight.assign(rng.normal(scale=1.5, size=weight.shape))
            beam = samplers.BeamSampler(3, length_penalty=0.6)
            chosen = {"greedy": "greedy", "beam": beam}[sampler]
            options = {"sampler": chosen, "max_length": MOST, "stop_token_ids": 3}
            stem = f"{backend}-{name}-{sampler}"
            model.export_generation(folder / f"{stem}.generation", **options)
            found = {
                f"{b}-{n}": model.generate(prompts(name, b, n), **options)
                for b, n in SIZES
            }
            np.savez(folder / f"{stem}.npz", **found)


def save(path, model, inputs):
    np.savez(path, **model.predict(inputs, verbose=0))


def serve(folder, *names):
    for name in ("keras", "keras_attention", "jax", "torch"):
        sys.modules[name] = None  # importing it fails, as where it is not installed
    import tensorflow as tf

    for name in (name for name in MAPS if name in names):
        for backend, kinds in MAPS[name].items():
            stem = folder / f"{backend}-{name}"
            with np.load(f"{stem}-inputs.npz") as data:
                inputs = {**data}
            for kind in kinds:
                run = {"saved_model": run_saved_model, "onnx": run_onnx}[kind]
                found = run(pathlib.Path(f"{stem}.{kind}"), inputs)
                with np.load(f"{stem}.npz") as data:
                    outputs = sorted(data.files)
                if kind == "onnx":  # not all exporters keep names; the order is theirs
                    found = dict(zip(outputs, found.values(), strict=True))
                np.savez(f"{stem}.{kind}-served.npz", **found)
    for path in sorted(folder.glob("*.generation")):
        served = tf.saved_model.load(str(path))
        backend, name, _ = path.stem.split("-")
        found = {
            f"{b}-{n}": served.serve(tf.constant(prompts(name, b, n))).numpy()
            for b, n in SIZES
        }
        np.savez(folder / f"{path.stem}-served.npz", **found)
        if name == "causal_lm":
            errors = [refusal(served, wrong) for wrong in WRONG]
            text = "\n".join(errors)
            (folder / f"{backend}-errors.txt").write_text(text, "utf-8")


WRONG = ([[5, -1]], [[5, 11]], [[0, 5]], [[5, 0, 5]], [[5] * 34])


def refusal(served, wrong):
    """The message of the error that a file raises."""
    import tensorflow as tf

    try:
        served.serve(tf.constant(wrong, "int32"))
    except tf.errors.InvalidArgumentError as error:
        return error.message
    raise AssertionError(f"no error for {wrong}")


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
    command, folder, *names = sys.argv[1:]
    {"export": export, "serve": serve}[command](pathlib.Path(folder), *names)
