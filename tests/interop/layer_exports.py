"""ONNX files of each attention layer, exported with open sizes.

python layer_exports.py export FOLDER SIZES [MODEL …]  on the backend in KERAS_BACKEND
python layer_exports.py serve FOLDER                   where this package is missing
python layer_exports.py measure [MODEL …]              all of it; prints a table

`export` writes a file for each model, or the reason why it could not, and the answers
of `predict` at three sizes. SIZES says which sizes the file may get: "open" (any), or
with a given length ("lengths") or also a given batch ("fixed"). No exporter has seen
the sizes that are open: torch traces an example of size 1. `serve` runs the files.
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import warnings
from functools import partial

import numpy as np
from processes import environment
from worker import with_random_weights

BACKENDS = ("torch", "tensorflow", "jax")
SIZES = {  # B, T and S
    "open": ((2, 5, 3), (5, 3, 11), (3, 7, 2)),
    "lengths": ((2, 5, 3), (7, 5, 3), (3, 5, 3)),
    "fixed": ((2, 5, 3),),
}
TOLERANCE = 1e-4
WORDS, D, V = 13, 6, 8  # vocabulary; widths of queries and memories
POSITIONS = ("none", "sine", "learned", "rotary", "alibi", "relative")
NORMALIZERS = ("softmax", "softmax1", "sparsemax", "entmax15", "hardmax", "linear")


def keras_input(name, width=None):
    import keras

    if width is None:
        return keras.Input((None,), dtype="int32", name=name)
    return keras.Input((None, width), name=name)


def self_attention(position, causal, padding, groups, residual=False, **options):
    """Multi-head attention of a sequence to itself."""
    import keras

    from keras_attention import layers

    x = inputs = keras_input("inputs", None if padding else D)
    if padding:
        x = keras.layers.Embedding(WORDS, D, mask_zero=True)(x)
    added = {
        "sine": layers.SinePositionEncoding,
        "learned": partial(layers.PositionEmbedding, 31),
    }
    if position in added:
        x = keras.layers.Add()([x, added[position]()(x)])
    elif position != "none":
        options["position"] = position
    heads = layers.MultiHeadAttention(4, 2, num_key_value_heads=groups, **options)
    y = heads(x, x, use_causal_mask=causal)
    if residual:
        y = heads(keras.layers.Add()([x, y]), x, use_causal_mask=causal)
    return keras.Model({"inputs": inputs}, y)


def two_axes(axes, causal):
    """Multi-head attention over some of two axes, of which the second has 3 steps."""
    import keras

    from keras_attention import layers

    x = keras.Input((None, 3, D), name="inputs")
    heads = layers.MultiHeadAttention(2, 2, attention_axes=axes)
    return keras.Model({"inputs": x}, heads(x, x, use_causal_mask=causal))


def masked_pairs(position):
    """Multi-head attention with a mask of pairs of queries and keys."""
    import keras

    from keras_attention import layers

    query, memory = keras_input("query", D), keras_input("memory", V)
    mask = keras.Input((None, None), dtype="bool", name="pairs")
    position = None if position == "none" else position
    heads = layers.MultiHeadAttention(4, 2, position=position, num_key_value_heads=2)
    y = heads(query, memory, attention_mask=mask, use_causal_mask=True)
    return keras.Model({"query": query, "memory": memory, "pairs": mask}, y)


def mask_object():
    """Two layers with a mask object that depends on the inputs."""
    import keras

    from keras_attention import layers, masks

    ids = keras_input("inputs")
    x = keras.layers.Embedding(WORDS, D)(ids)
    segments = masks.Segments(ids // 4)  # many queries and keys in each, and padding
    mask = masks.Causal() & segments | masks.Prefix(ids[:, 0])
    y = layers.MultiHeadAttention(4, 2)(x, x, attention_mask=mask)
    y = layers.Attention()(y, y, attention_mask=masks.Window(3) & segments)
    return keras.Model({"inputs": ids}, y)


def one_sequence(make, width=D, **options):
    """A layer of one sequence."""
    import keras

    x = keras_input("inputs", width)
    return keras.Model({"inputs": x}, make()(x, **options))


def over_itself(make, **options):
    """An attention of a sequence to itself, with a causal mask."""
    import keras

    x = keras_input("inputs", D)
    return keras.Model({"inputs": x}, make()(x, x, use_causal_mask=True, **options))


def over_memory(make, masked=True, width=V, scores=False, single=False, **options):
    """An attention to a memory of which some steps are padding."""
    import keras

    query = keras.Input((D,), name="query") if single else keras_input("query", D)
    memory = keras_input("memory", width)
    value = keras.layers.Masking()(memory) if masked else memory
    if scores:
        options["return_attention_scores"] = True
    y = make()(query, value, **options)
    y = {"output": y[0], "scores": y[1]} if scores else y
    return keras.Model({"query": query, "memory": memory}, y)


def words(make, **options):
    """A layer of embedded words, of which some are padding."""
    import keras

    inputs = keras_input("inputs")
    x = keras.layers.Embedding(WORDS, D, mask_zero=True)(inputs)
    return keras.Model({"inputs": inputs}, make()(x, **options))


def multi_head_attentions():
    """Name: model for each combination of the options."""
    for position in POSITIONS:
        for causal in (False, True):
            for padding in (False, True):
                for groups in (4, 2):
                    chosen = position, causal, padding, groups
                    marks = ("causal", causal), ("padding", padding)
                    parts = [word for word, on in marks if on]
                    parts += ["grouped"] if groups == 2 else []
                    name = "-".join(["heads", position, *parts])
                    yield name, partial(self_attention, *chosen)
    for causal in (False, True):
        for axes in ((1,), (2,), (1, 2)):
            if not (causal and axes == (1, 2)):
                name = f"heads-axes-{''.join(map(str, axes))}"
                name += "-causal" if causal else ""
                yield name, partial(two_axes, axes, causal)
    for position in ("none", "alibi"):
        yield f"heads-mask-{position}", partial(masked_pairs, position)
    heads = partial(self_attention, "none")
    yield "heads-mask-object", mask_object
    yield "heads-window", partial(heads, False, False, 4, sliding_window=2)
    yield "heads-window-causal", partial(heads, True, True, 2, sliding_window=3)
    scores = {
        "sinks": {"attention_sinks": True},
        "cap": {"soft_cap": 2.0},
        "softmax1": {"normalizer": "softmax1"},
        "sparsemax": {"normalizer": "sparsemax"},
        "entmax15": {"normalizer": "entmax15"},
        "rms": {"query_key_normalization": "rms"},
        "norm": {"query_key_normalization": "layer"},
        "gate": {"use_gate": True},
    }
    for name, options in scores.items():
        for causal, groups in ((False, 4), (True, 2)):
            mark = "-causal-padding-grouped" if causal else ""
            given = causal, causal, groups
            yield f"heads-{name}{mark}", partial(heads, *given, **options)


def cross_attentions():
    from keras_attention import layers

    for position in ("none", "rotary", "alibi", "relative"):
        for groups in (4, 2):
            name = f"cross-{position}{'-grouped' if groups == 2 else ''}"
            given = None if position == "none" else position
            make = partial(
                layers.MultiHeadAttention,
                4,
                2,
                num_key_value_heads=groups,
                position=given,
            )
            yield name, partial(over_memory, make)
            yield f"{name}-causal", partial(over_memory, make, use_causal_mask=True)
            if position in ("none", "alibi"):
                yield f"{name}-scores", partial(over_memory, make, scores=True)
                yield f"{name}-single", partial(over_memory, make, single=True)


def one_head_attentions():
    from keras_attention import layers

    scores = {
        "dot": "dot",
        "scaled_dot": "scaled_dot",
        "cosine": "cosine",
        "rbf": "rbf",
        "general": "general",
        "additive": partial(layers.AdditiveScore, 5),
        "concat": partial(layers.ConcatScore, 5),
        "location": partial(layers.LocationScore, 13),
    }
    for name, score in scores.items():
        made = score if isinstance(score, str) else None
        make = lambda s=score, m=made: layers.Attention(m or s())  # noqa: E731
        wide = V if name in ("general", "additive", "concat", "location") else D
        yield f"attention-{name}", partial(over_memory, make, width=wide)
        yield f"attention-{name}-causal", partial(over_itself, make)
    for normalizer in NORMALIZERS:
        make = partial(layers.Attention, normalizer=normalizer)
        yield f"attention-{normalizer}", partial(over_memory, make, width=D)
    makes = {
        "bahdanau": partial(layers.BahdanauAttention, 5),
        "bahdanau-coverage": partial(layers.BahdanauAttention, 5, coverage=True),
        "luong-global": layers.LuongAttention,
        "luong-concat": partial(layers.LuongAttention, "concat", units=5),
        "luong-location": partial(layers.LuongAttention, "location", max_length=13),
        "luong-scale": partial(layers.LuongAttention, scale=True),
        "luong-local-m": partial(layers.LuongAttention, locality="local-m", window=1),
        "luong-local-p": partial(layers.LuongAttention, locality="local-p", window=2),
        "hard": layers.HardAttention,
        "monotonic": layers.MonotonicAttention,
        "monotonic-parallel": partial(layers.MonotonicAttention, inference_mode=None),
        "monotonic-recursive": partial(
            layers.MonotonicAttention, inference_mode="recursive"
        ),
        "hopfield": partial(layers.Hopfield, 2, 3, update_steps=2),
        "hopfield-once": partial(layers.Hopfield, 2, 3, normalizer="sparsemax"),
        "hopfield-static": partial(layers.Hopfield, 2, 3, update_steps=3, beta=0.5),
    }
    for name, make in makes.items():
        yield name, partial(over_memory, make)
        yield f"{name}-causal", partial(over_itself, make)
        yield f"{name}-single", partial(over_memory, make, single=True)
        yield f"{name}-scores", partial(over_memory, make, masked=False, scores=True)


def other_layers():
    import keras

    from keras_attention import layers

    ones = {
        "sine": layers.SinePositionEncoding,
        "learned": partial(layers.PositionEmbedding, 31),
        "rotary": layers.RotaryEmbedding,
        "pooling": layers.AttentionPooling,
        "pooling-heads": partial(
            layers.AttentionPooling, num_queries=3, num_heads=2, normalizer="softmax1"
        ),
        "hopfield-pooling": partial(layers.HopfieldPooling, 2, 2, 3, update_steps=2),
        "hopfield-layer": partial(layers.HopfieldLayer, 7, 2, 3),
        "hopfield-layer-product": partial(
            layers.HopfieldLayer, 49, 2, 4, keys="product", top_k=5
        ),
        "encoder-block": partial(layers.TransformerEncoderBlock, 2, 7),
        "encoder-block-rms": partial(
            layers.TransformerEncoderBlock, 2, 7, normalization="rms", norm_first=True
        ),
        "induced-set": partial(layers.InducedSetAttention, 3, 2, 7),
    }
    for name, make in ones.items():
        yield name, partial(one_sequence, make)
        if name != "rotary":
            yield f"{name}-padding", partial(words, make)
    block = partial(layers.TransformerDecoderBlock, 2, 7)
    yield "decoder-block", partial(decoder_block, block)
    rms = partial(block, normalization="rms", norm_first=True)
    yield "decoder-block-rms", partial(decoder_block, rms)
    yield "memory-hop", partial(memory_hop, layers.MemoryHop)
    linear = partial(
        layers.MemoryHop, transform=True, normalizer="softmax1", slots=None
    )
    yield "memory-hop-transform", partial(memory_hop, linear)
    yield "key-value-hop", partial(memory_hop, layers.KeyValueHop)
    for name, cell in (("gru", keras.layers.GRUCell), ("lstm", keras.layers.LSTMCell)):
        yield f"attention-rnn-{name}", partial(attention_rnn, cell)


def decoder_block(make):
    """A decoder block whose memory is padded."""
    import keras

    x, memory = keras_input("query", D), keras_input("memory", V)
    y = make()(x, keras.layers.Masking()(memory))
    return keras.Model({"query": x, "memory": memory}, y)


def memory_hop(make):
    """A hop of one state (B, D) over a memory of the same width."""
    import keras

    query, memory = keras.Input((D,), name="query"), keras_input("memory", D)
    y = make()(query, keras.layers.Masking()(memory))
    return keras.Model({"query": query, "memory": memory}, y)


def attention_rnn(cell, before=None):
    """A recurrent decoder with attention to a memory."""
    import keras

    from keras_attention import layers

    query, memory = keras_input("query", D), keras_input("memory", V)
    x = query if before is None else before()(query, query, use_causal_mask=True)
    y = layers.AttentionRNN(cell(5), layers.BahdanauAttention(5))(x, memory)
    return keras.Model({"query": query, "memory": memory}, y)


def encoder_and_decoder(position):
    """An encoder of padded words, and a decoder that attends to its output."""
    import keras

    from keras_attention import layers

    query, memory = keras_input("target"), keras_input("source")
    attend = partial(layers.MultiHeadAttention, 4, 2, num_key_value_heads=2)
    add = keras.layers.Add
    x = keras.layers.Embedding(WORDS, D, mask_zero=True)(memory)
    x = add()([x, attend(position=position)(x, x)])
    y = keras.layers.Embedding(WORDS, D, mask_zero=True)(query)
    y = add()([y, attend(position=position)(y, y, use_causal_mask=True)])
    y = add()([y, attend()(y, x)])
    return keras.Model({"target": query, "source": memory}, y)


def composites():
    import keras

    from keras_attention import layers

    for position in POSITIONS:
        name = f"residual-{position}-causal-padding"
        yield name, partial(self_attention, position, True, True, 2, residual=True)
    for position in ("rotary", "alibi", "relative"):
        name = f"encoder-decoder-{position}"
        yield name, partial(encoder_and_decoder, position)
    heads = partial(layers.MultiHeadAttention, 2, 4, position="rotary")
    yield (
        "attention-rnn-after-heads",
        partial(attention_rnn, keras.layers.GRUCell, heads),
    )


def models():
    """Name: a function that makes the model."""
    return {
        name: make
        for group in (
            multi_head_attentions,
            cross_attentions,
            one_head_attentions,
            other_layers,
            composites,
        )
        for name, make in group()
    }


def arrays(model, rng, sizes):
    """Inputs for a model; the end of each sequence but the first is padding."""
    batch, queries, keys = sizes
    found = {}
    for name, tensor in model.input.items():
        length = keys if name in ("memory", "source") else queries
        free = [n for n in tensor.shape[1:] if n is not None]
        if name == "pairs":
            found[name] = rng.random((batch, queries, keys)) < 0.7
            continue
        if len(tensor.shape) == 2 and free:  # one query
            found[name] = rng.normal(size=(batch, *free)).astype("float32")
            continue
        ends = np.maximum(length - np.arange(batch), 1)
        is_valid = np.arange(length) < ends[:, None]
        if free:
            x = rng.normal(size=(batch, length, *free)).astype("float32")
            if name == "memory":
                x *= is_valid[:, :, None]
            found[name] = x
        else:
            found[name] = (rng.integers(1, WORDS, is_valid.shape) * is_valid).astype(
                "int32"
            )
    return found


def signature(inputs, kind):
    """What the file may get: None for any sizes."""
    import keras

    if kind == "open":
        return None
    free = 0 if kind == "fixed" else 1
    shapes = {n: (None,) * free + x.shape[free:] for n, x in inputs.items()}
    return [{n: keras.InputSpec(str(inputs[n].dtype), s) for n, s in shapes.items()}]


def export(folder, kind, names=()):
    import keras

    backend = keras.config.backend()
    for number, (name, make) in enumerate(models().items()):
        if names and name not in names:
            continue
        stem = folder / f"{backend}-{kind}-{name}"
        rng = np.random.default_rng(number)
        model = with_random_weights(make(), rng)
        for k, sizes in enumerate(SIZES[kind]):
            inputs = arrays(model, rng, sizes)
            outputs = model.predict(inputs, verbose=0)
            outputs = [np.asarray(y) for y in keras.tree.flatten(outputs)]
            given = {f"inputs/{n}": x for n, x in inputs.items()}
            answers = {f"outputs/{n}": y for n, y in enumerate(outputs)}
            np.savez(f"{stem}-{k}.npz", **given, **answers)
        model({n: keras.ops.convert_to_tensor(x) for n, x in inputs.items()})
        try:
            given = signature(inputs, kind)
            path = f"{stem}.onnx"
            model.export(path, format="onnx", verbose=False, input_signature=given)
        except Exception as error:  # reported; the tests say which are allowed
            text = f"{type(error).__name__}: {error}"
            pathlib.Path(f"{stem}.refused").write_text(text)


def serve(folder):
    """Writes the maximal error at each size of each file, or what the runtime says."""
    for name in ("keras", "keras_attention", "jax", "torch", "tensorflow"):
        sys.modules[name] = None  # importing it fails, as where it is not installed
    import onnxruntime

    onnxruntime.set_default_logger_severity(4)
    found = {}
    for path in sorted(folder.glob("*.refused")):
        found[path.stem] = path.read_text()
    for path in sorted(folder.glob("*.onnx")):
        try:
            count = len(SIZES[path.stem.split("-")[1]])
            found[path.stem] = [error_of(onnxruntime, path, k) for k in range(count)]
        except Exception as error:  # a file that does not run; reported
            found[path.stem] = f"onnxruntime: {type(error).__name__}: {error}"
    (folder / "found.json").write_text(json.dumps(found))


def error_of(onnxruntime, path, k):
    """Returns the largest difference, or the shapes if they differ."""
    session = onnxruntime.InferenceSession(str(path))
    with np.load(path.parent / f"{path.stem}-{k}.npz") as data:
        inputs = {n.partition("/")[2]: data[n] for n in data if n.startswith("inputs")}
        expected = [data[n] for n in data if n.startswith("outputs")]
    asked = [node.name for node in session.get_inputs()]
    if not {*asked} <= {*inputs}:
        inputs = dict(zip(asked, (inputs[n] for n in sorted(inputs))))
    outputs = session.run(None, {n: inputs[n] for n in asked})
    if [y.shape for y in outputs] != [y.shape for y in expected]:
        return f"shapes {[y.shape for y in outputs]}"
    return max(float(np.abs(a - b).max()) for a, b in zip(outputs, expected))


def measure(*names):
    """Prints the maximal error of each file, or why there is none.

    Returns:
        The number of files that give something else than `predict`.
    """
    with tempfile.TemporaryDirectory() as folder:
        for backend in BACKENDS:
            for kind in SIZES:
                work("export", folder, backend, kind, *names)
        work("serve", folder, "numpy")
        found = json.loads((pathlib.Path(folder) / "found.json").read_text())
    largest, counts = 0.0, {"right": 0, "refused": 0, "wrong": 0}
    for stem, value in sorted(found.items()):
        state = state_of(value)
        counts[state] += 1
        if state == "right":
            largest = max(largest, *value)
            value = f"{max(value):.0e}"
        print(f"{state:8}{stem:60}{' '.join(str(value).split())[:300]}")
    print(f"{counts}, largest error of those that are right: {largest:.0e}")
    return counts["wrong"]


def state_of(value):
    """Whether a file gives what `predict` gave, was not written, or is wrong."""
    if isinstance(value, list):
        is_right = all(isinstance(v, float) and v <= TOLERANCE for v in value)
        return "right" if is_right else "wrong"
    return "wrong" if value.startswith("onnxruntime") else "refused"


def work(command, folder, backend, *more):
    arguments = [sys.executable, __file__, command, str(folder), *more]
    done = subprocess.run(
        arguments,
        env=environment(backend, pathlib.Path(folder)),
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise RuntimeError(f"{command} on {backend}:\n{done.stderr[-4000:]}")


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
    command, *rest = sys.argv[1:]
    if command == "measure":
        sys.exit(bool(measure(*rest)))
    elif command == "export":
        export(pathlib.Path(rest[0]), *rest[1:2], rest[2:])
    else:
        serve(pathlib.Path(rest[0]))
