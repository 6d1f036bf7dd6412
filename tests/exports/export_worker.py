"""What the processes of `python tests/exports` do: one exports, one runs the files.

    KERAS_BACKEND=torch python export_worker.py export
    python export_worker.py run

A request is a line of JSON on the standard input, a reply a line of JSON after `MARK`
on the standard output.
"""

from __future__ import annotations

import json
import os
import pathlib
import sys
import traceback
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

MARK = "@reply "
TESTS = pathlib.Path(__file__).resolve().parents[1]
NAMES = {
    "saved_model": ("tf_saved_model", "model"),
    "onnx": ("onnx", "model.onnx"),
    "litert": ("litert", "model.tflite"),
    "openvino": ("openvino", "model.xml"),
}


def export(request: dict[str, Any]) -> dict[str, Any]:
    """Exports a row and stores inputs and outputs of `predict` beside the file."""
    import export_rows
    import keras

    name, folder = request["row"], pathlib.Path(request["folder"])
    model = export_rows.build(name)
    sizes = [0] if request["fixed"] else range(len(export_rows.SIZES))
    for size in sizes:
        inputs = export_rows.inputs(name, size)
        save(folder / f"{size}.npz", inputs, model.predict(inputs, verbose=0))
    first = export_rows.inputs(name, 0)
    options: dict[str, Any] = {}
    if request["fixed"]:
        specs = {
            key: keras.InputSpec(str(x.dtype), x.shape, name=key)
            for key, x in first.items()
        }
        options["input_signature"] = [specs]
    if keras.config.backend() == "jax":
        model({key: keras.ops.convert_to_tensor(x) for key, x in first.items()})
    kind, file = NAMES[request["format"]]
    model.export(str(folder / file), format=kind, verbose=False, **options)
    return {}


def save(path: pathlib.Path, inputs: dict[str, Any], outputs: Any) -> None:
    named = outputs if isinstance(outputs, dict) else {"output": outputs}
    arrays = {f"inputs/{name}": array for name, array in inputs.items()}
    arrays |= {f"outputs/{name}": np.asarray(array) for name, array in named.items()}
    np.savez(path, **arrays)


def load(path: pathlib.Path, group: str) -> dict[str, np.ndarray]:
    with np.load(path) as data:
        names = [name for name in data.files if name.startswith(f"{group}/")]
        return {name.removeprefix(f"{group}/"): data[name] for name in names}


def run(request: dict[str, Any]) -> dict[str, Any]:
    """Runs a file on the stored inputs; returns the largest difference.

    It is measured as |found - expected| / max(1, |expected|).
    """
    folder, kind = pathlib.Path(request["folder"]), request["format"]
    prepare, largest = RUNS[kind], 0.0
    ask = prepare(folder / NAMES[kind][1])
    for path in sorted(folder.glob("*.npz")):
        expected = load(path, "outputs")
        found = ask(load(path, "inputs"))
        if len(found) != len(expected):
            return {"difference": None, "shapes": [[len(found)], [len(expected)]]}
        for a, b in zip(found, (expected[name] for name in sorted(expected))):
            if a.shape != b.shape:
                return {"difference": None, "shapes": [a.shape, b.shape]}
            off = np.abs(a.astype("float64") - b) / np.maximum(1, np.abs(b))
            largest = max(largest, float(off.max(initial=0.0)))
            if np.isnan(off).any():
                return {"difference": None, "shapes": ["NaN"]}
    return {"difference": largest}


Ask = Callable[[dict[str, np.ndarray]], list[np.ndarray]]


def run_onnx(path: pathlib.Path) -> Ask:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(str(path), options)

    def ask(inputs: dict[str, np.ndarray]) -> list[np.ndarray]:
        names = [node.name for node in session.get_inputs()]
        feed = {name: x for name, x in inputs.items() if name in names}
        return session.run(None, feed)

    return ask


def run_saved_model(path: pathlib.Path) -> Ask:
    import tensorflow as tf

    loaded = tf.saved_model.load(str(path))

    def ask(inputs: dict[str, np.ndarray]) -> list[np.ndarray]:
        found = loaded.serve({name: tf.constant(x) for name, x in inputs.items()})
        return [x.numpy() for x in tf.nest.flatten(found)]

    return ask


def run_litert(path: pathlib.Path) -> Ask:
    """An interpreter without delegates, so without TensorFlow's own operations."""
    import tensorflow as tf

    resolver = tf.lite.experimental.OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
    model = tf.lite.Interpreter(str(path), experimental_op_resolver_type=resolver)
    flex = {op["op_name"] for op in model._get_ops_details()}
    flex = sorted(name for name in flex if name.startswith("Flex"))
    if flex:
        raise RuntimeError(f"The file needs the Flex delegate: {', '.join(flex)}")
    signature = model.get_signature_runner("serving_default")

    def ask(inputs: dict[str, np.ndarray]) -> list[np.ndarray]:
        found = signature(**inputs)
        return [found[name] for name in sorted(found)]

    return ask


def run_openvino(path: pathlib.Path) -> Ask:
    import openvino

    core = openvino.Core()
    single = {"INFERENCE_PRECISION_HINT": "f32"}
    compiled = core.compile_model(core.read_model(path), "CPU", single)

    def ask(inputs: dict[str, np.ndarray]) -> list[np.ndarray]:
        feed = {}
        for node in compiled.inputs:  # each has several names
            name = next(name for name in sorted(node.names) if name in inputs)
            feed[name] = inputs[name]
        found = compiled(feed)
        # Ends of the graph that nothing reads are outputs, too.
        outputs = [o for o in compiled.outputs if any("Identity" in n for n in o.names)]
        return [found[o] for o in outputs or compiled.outputs]

    return ask


RUNS = {
    "saved_model": run_saved_model,
    "onnx": run_onnx,
    "litert": run_litert,
    "openvino": run_openvino,
}


def ours(error: BaseException) -> bool:
    """Returns whether it is a refusal of this package, installed or in the sources."""
    package = sys.modules.get("keras_attention")
    if package is None or not isinstance(error, ValueError):
        return False
    raised = traceback.extract_tb(error.__traceback__)[-1].filename
    return pathlib.Path(package.__file__).parent in pathlib.Path(raised).parents


def answer(command: Callable[[dict[str, Any]], dict[str, Any]], line: str) -> None:
    try:
        reply = command(json.loads(line))
    except BaseException as error:  # of any library; the reply names it
        reply = {
            "error": f"{type(error).__name__}: {error}"[:4000],
            "ours": ours(error),
        }
    print(f"\n{MARK}{json.dumps(reply)}", flush=True)


def main() -> None:
    warnings.simplefilter("ignore")
    command = {"export": export, "run": run}[sys.argv[1]]
    if command is run:
        for name in ("keras", "keras_attention", "jax", "torch"):
            sys.modules[name] = None  # type: ignore[assignment]  # imports of it fail
    else:
        sys.path += [str(TESTS.parent), str(TESTS)]
    for line in sys.stdin:
        answer(command, line)


if __name__ == "__main__":
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
    main()
