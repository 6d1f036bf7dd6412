"""What eight virtual devices show, in one process: `python worker.py`, JSON out.

Keras' backend and XLA's devices are those of a process, and each process costs seconds.
"""

import json

import keras
import numpy as np

from keras_attention import layers, models
from keras_attention.distribution import check, distribute, layout_map
from speed.devices.cases import CASES, SIZES
from speed.devices.training import losses, model_parallel

MESH = keras.distribution.DeviceMesh((2, 4), ("batch", "model"))
# Layouts by width, by heads and grouped heads, and of stored patterns. All models are
# trained by `python tests/speed devices`.
TRAINED = ("MemN2N", "CausalLM, rotary", "HopfieldLayer")


def differences():
    """The largest relative difference of the losses of 5 steps from one device's."""
    found = {}
    for name in TRAINED:
        one, many = (losses(CASES[name], m) for m in ("one device", "ModelParallel"))
        found[name] = float(np.abs(many / one - 1).max())
        assert np.ptp(one) > 1e-3, f"{name} learned nothing: {one}"
    return found


def axes():
    """How each weight of each model is split, and the part of all bytes on a device."""
    found = {}
    for name, case in CASES.items():
        model = case.make()
        report = check(model, layout_map(model, MESH))
        split = {weight.path: weight.axes for weight in report.weights}
        found[name] = (split, report.size_per_device / report.size)
    return found


def shares():
    """The part of all bytes on a device at users' sizes, of the small ones."""
    found = {}
    for name in ("MemN2N", "HopfieldClassifier", "DNCNetwork"):
        model = SIZES[name]()
        report = check(model, layout_map(model, MESH))
        found[name] = report.size_per_device / report.size
    return found


def same_paths():
    """How two models in a model are split whose weights have the same paths."""
    inputs = {
        "center": keras.Input((), dtype="int32", name="center"),
        "context": keras.Input((None,), dtype="int32", name="context"),
    }
    both = models.SkipGram(36, 16), models.SkipGram(36, 8), models.SkipGram(27, 16)
    found = []
    for pair in (both[:2], both[1:]):
        other = keras.layers.Embedding(36, 4, name="other")(inputs["center"])
        outputs = [other, *(skip_gram(inputs) for skip_gram in pair)]
        model = keras.Model(inputs, outputs)
        report = check(model, layout_map(model, MESH))
        found.append({weight.path: weight.axes for weight in report.weights})
    return found


class Table(keras.layers.Layer):
    """A user's layer with a weight of its own."""

    def build(self, shape):
        self.table = self.add_weight(shape=(8, shape[-1]), name="table")

    def call(self, x):
        return x + self.table[0]


def own_model():
    """Ours, Keras' and a user's layers; one layer is called twice."""
    inputs = keras.Input((6, 16))
    x = keras.layers.MultiHeadAttention(4, 4, name="theirs")(inputs, inputs)
    x = layers.MultiHeadAttention(8, 2, num_key_value_heads=2, name="ours")(x, x)
    shared = keras.layers.Dense(16, name="shared-dense")
    x = Table(name="mine")(shared(shared(x)))
    x = layers.TransformerEncoderBlock(4, 32, name="block")(x)
    return keras.Model(inputs, keras.layers.Dense(3, name="out")(x))


def a_users_model():
    """Its layout, with an entry of the user's."""
    model = own_model()
    layout = layout_map(model, MESH)
    layout["mine/table"] = ("model", None)
    report = check(model, layout)
    before = report.placed
    model.compile("adam", "mse")
    x, y = np.ones((4, 6, 16)), np.zeros((4, 6, 3))
    model.fit(x, y, verbose=0)  # so that the optimizer has variables to move
    parallel = keras.distribution.ModelParallel(layout_map=layout)
    with parallel.scope():
        distribute(model)
        model.fit(x, y, verbose=0)
        found = {
            "axes": {weight.path: weight.axes for weight in report.weights},
            "placed": [before, check(model, layout).placed],
            "text": str(check(model, layout)),
        }
        kernel = model.get_layer("out").kernel
        slots = [
            v.value.sharding.spec == kernel.value.sharding.spec
            for v in model.optimizer.variables
            if v.shape == kernel.shape
        ]
    return {**found, "slots": slots}


def error_of(call):
    """The type and the text of the error of a call, or None."""
    try:
        call()
    except (RuntimeError, ValueError) as error:
        return f"{type(error).__name__}: {' '.join(str(error).split())}"
    return None


def errors():
    """Of each wrong call, its error."""
    model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(8, name="dense")])
    odd = keras.Sequential([keras.Input((3,)), keras.layers.Dense(5, name="odd")])
    three = layers.MultiHeadAttention(6, 2, name="six")
    three.build((2, 3, 8), (2, 3, 8))
    other = keras.distribution.LayoutMap(MESH)
    other["dense_1/kernel"] = (None, "model")
    deep = keras.distribution.LayoutMap(MESH)
    deep[".*/dense/.*"] = (None, "model")
    batches = CASES["MatrixFactorization"].make()
    batches.compile("sgd", "mse")
    x = {name: np.zeros(20, "int32") for name in ("user", "item")}
    y = np.zeros((20, 1))

    def fit(**options):
        model_parallel(batches)
        try:
            batches.fit(x, y, verbose=0, **options)
        finally:
            keras.distribution.set_distribution(None)

    return {
        "no axis": error_of(lambda: layout_map(model, MESH, model_axis="heads")),
        "no batch": error_of(lambda: layout_map(model, MESH, batch_axis="data")),
        "same": error_of(lambda: layout_map(model, MESH, "model", "model")),
        "mesh": error_of(lambda: layout_map(model, (2, 4))),
        "not built": error_of(lambda: layout_map(keras.layers.Dense(3), MESH)),
        "no model": error_of(lambda: layout_map("model", MESH)),
        "heads": error_of(lambda: layout_map(three, MESH)),
        "nothing": error_of(lambda: layout_map(odd, MESH)),
        "matches nothing": error_of(lambda: check(model, other)),
        "rank": error_of(lambda: check(model, deep)),
        "not a layout": error_of(lambda: check(model, {})),
        "batch": error_of(lambda: check(model, layout_map(model, MESH), 7)),
        "no distribution": error_of(lambda: distribute(model)),
        "last batch": error_of(lambda: fit(batch_size=6, validation_split=0.5)),
        "on batch": error_of(lambda: fit(batch_size=15)),
        "left out": error_of(lambda: fit(batch_size=18, steps_per_epoch=1)),
    }


if __name__ == "__main__":
    parts = (differences, axes, shares, same_paths, a_users_model, errors)
    print(json.dumps({part.__name__: part() for part in parts}))
