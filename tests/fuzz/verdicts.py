"""Runs a case and says what came of it: right, clear, raw or wrong.

right: an output that all oracles accept.
clear: an error of this package, or one of Keras' own checks of arguments.
raw: an error of the backend or of Python, which does not name the argument.
wrong: an output that an oracle refuses.
"""

from __future__ import annotations

import dis
import functools
import math
import pathlib
import traceback
import warnings
from dataclasses import dataclass
from typing import Any

import catalogue
import keras
import mutations
import numpy as np
from keras import ops

import keras_attention

PACKAGE = str(pathlib.Path(keras_attention.__file__).parent)
KERAS = str(pathlib.Path(keras.__file__).parent)
# Where Keras passes on what the backend says.
PASSED_ON = ("backend/", "ops/", "tree/")
CHECKS = ("ops/operation.py",)  # the constructor of all layers
# Words of checks: the rule and what came.
RULES = (
    "received",
    "expected",
    "must ",
    "should ",
    "could not interpret",
    "unrecognized keyword",
    "valid policies",
    "unknown `config`",
    "not optional",
)
# Python's own words for a wrong name or number of arguments.
SIGNATURES = (
    "unexpected keyword argument",
    "missing a required argument",
    "required positional argument",
    "required keyword-only argument",
    "too many positional arguments",
    "multiple values for argument",
)


@dataclass
class Verdict:
    """What came of a case: the verdict, the reason, and where an error was raised."""

    verdict: str
    reason: str = ""
    place: str = ""


def judge(case: mutations.Case) -> Verdict:
    """Runs a case and judges its output or its error."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            layer = made(case)
            output = arrays(called(case, layer, case.inputs))
        except Exception as error:  # any error is an outcome
            return of_error(error)
        try:
            reason = fault(case, layer, output)
        except Exception as error:
            found = of_error(error)
            text = f"an oracle met {type(error).__name__}: {found.reason}"
            return Verdict("wrong", text, found.place)
    return Verdict("wrong", reason) if reason else Verdict("right")


def of_error(error: BaseException) -> Verdict:
    """Says whether an error is clear."""
    frames = traceback.extract_tb(error.__traceback__)
    last = frames[-1]
    ours = [f for f in frames if f.filename.startswith(PACKAGE)]
    at = ours[-1] if ours else last
    place = f"{at.filename.partition('keras_attention/')[2] or at.filename}:{at.lineno}"
    text = str(error).strip()
    reason = f"{type(error).__name__}: {text.splitlines()[0] if text else ''}"[:300]
    return Verdict("clear" if _clear(error, text) else "raw", reason, place)


def _clear(error: BaseException, text: str) -> bool:
    words = text.lower()
    if isinstance(error, TypeError) and any(s in words for s in SIGNATURES):
        return True
    if not isinstance(error, (ValueError, TypeError, RuntimeError)):
        return False
    trace: Any = error.__traceback__
    while trace.tb_next is not None:
        trace = trace.tb_next
    code = trace.tb_frame.f_code
    raised = dis.opname[code.co_code[trace.tb_lasti]] == "RAISE_VARARGS"
    if code.co_filename.startswith(PACKAGE):
        return raised and ("received" in words or "`" in words)
    if code.co_filename.startswith(KERAS):
        file = code.co_filename.removeprefix(KERAS).removeprefix("/src/")
        passed_on = file.startswith(PASSED_ON) and file not in CHECKS
        return raised and not passed_on and any(rule in words for rule in RULES)
    return False


@functools.cache
def usual(name: str) -> Any:
    """The layer of a row, built and called once."""
    row = catalogue.by_name(name)
    keras.utils.set_random_seed(0)
    layer = row.make()
    row.call(layer, tensors(row.inputs(np.random.default_rng(0))))
    return layer


@functools.cache
def usual_output(name: str) -> list[np.ndarray]:
    """The output of the layer of a row for the inputs of the row."""
    row = catalogue.by_name(name)
    inputs = row.inputs(np.random.default_rng(0))
    return arrays(row.call(usual(name), tensors(inputs)))


def made(case: mutations.Case) -> Any:
    """The layer of a case."""
    if case.arguments or case.fresh:
        keras.utils.set_random_seed(0)
        return case.row.make(**case.arguments)
    return usual(case.row.name)


def tensors(inputs: dict[str, Any]) -> dict[str, Any]:
    """Converts arrays of numbers to tensors; other objects stay as they are."""
    return {
        name: ops.convert_to_tensor(x)
        if isinstance(x, (np.ndarray, np.generic)) and x.dtype.kind not in "OSU"
        else x
        for name, x in inputs.items()
    }


def called(case: mutations.Case, layer: Any, inputs: dict[str, Any]) -> Any:
    """Calls a layer as the case does, with these inputs."""
    row, given = case.row, tensors(inputs)
    cells = isinstance(row, catalogue.CellRow)
    if row.is_model or cells or list(given) == list(_usual_inputs(row.name)):
        return row.call(layer, given, **case.options)
    return layer(**given, **case.options)


@functools.cache
def _usual_inputs(name: str) -> dict[str, np.ndarray]:
    return catalogue.by_name(name).inputs(np.random.default_rng(0))


def arrays(output: Any) -> list[np.ndarray]:
    """The tensors of an output as arrays, floats in float64."""
    found = []
    for x in keras.tree.flatten(output):
        if x is not None:
            dtype = keras.backend.standardize_dtype(x.dtype)
            half = dtype in ("bfloat16", "float16")
            y = ops.convert_to_numpy(ops.cast(x, "float32") if half else x)
            found.append(np.asarray(y, "float64" if "float" in dtype else None))
    return found


def fault(case: mutations.Case, layer: Any, output: list[np.ndarray]) -> str:
    """Returns what is wrong with an output, or "" if nothing is."""
    complex_output = any(x.dtype.kind == "c" for x in output)
    if case.refused and not complex_output:
        return f"an output for {case.refused}"
    for oracle in (declared, equal, alone, finite, spread):
        reason = oracle(case, layer, output)
        if reason:
            return reason
    return ""


def declared(case: mutations.Case, layer: Any, output: list[np.ndarray]) -> str:
    """The shapes are those of the symbolic call."""
    given = {
        name: keras.KerasTensor(
            [n or None for n in x.shape], keras.backend.standardize_dtype(x.dtype)
        )
        if hasattr(x, "shape") and getattr(x.dtype, "kind", "") not in ("S", "U", "O")
        else x
        for name, x in tensors(case.same_as or case.inputs).items()
    }
    if any(not isinstance(x, keras.KerasTensor) for x in given.values()):
        return ""
    cells = isinstance(case.row, catalogue.CellRow)
    whole = case.row.is_model
    if cells or whole or list(given) == list(_usual_inputs(case.row.name)):
        spec = case.row.call(layer, given, **case.options)
    else:
        spec = layer(**given, **case.options)
    wanted = [tuple(x.shape) for x in keras.tree.flatten(spec) if x is not None]
    found = [x.shape for x in output]
    fits = len(wanted) == len(found) and all(
        len(a) == len(b) and all(m in (None, n) for m, n in zip(a, b))
        for a, b in zip(wanted, found)
    )
    return "" if fits else f"shapes {found}, but the symbolic call says {wanted}"


def equal(case: mutations.Case, layer: Any, output: list[np.ndarray]) -> str:
    """A tensor in another form gives the output of its usual form."""
    if case.same_as is None:
        return ""
    wanted = arrays(called(case, layer, case.same_as))
    return _difference(output, wanted, "the usual form of the same input gives")


def alone(case: mutations.Case, layer: Any, output: list[np.ndarray]) -> str:
    """The last sample of a batch gives the same alone."""
    sizes = {
        len(x)
        for name, x in case.inputs.items()
        if isinstance(x, np.ndarray) and x.ndim and not _shared(name, x)
    }
    plain = all(isinstance(x, np.ndarray) for x in case.inputs.values())
    if sizes != {catalogue.B} or not plain or case.options.get("training"):
        return ""
    if any(not x.ndim or len(x) != catalogue.B for x in output):
        return ""
    one = {n: x if _shared(n, x) else x[-1:] for n, x in case.inputs.items()}
    found = [x[-1:] for x in output]
    wanted = arrays(called(case, layer, one))
    return _difference(found, wanted, "the last sample alone gives")


def _shared(name: str, x: Any) -> bool:
    """Whether an input is a mask of pairs that all samples share."""
    return name == "attention_mask" and x.ndim == 2 and len(x) == catalogue.T


def finite(case: mutations.Case, layer: Any, output: list[np.ndarray]) -> str:
    """Finite inputs give finite outputs, unless a constructor argument is infinite."""
    given = [*case.inputs.values(), *case.arguments.values()]
    if case.kind == "infinite" or not all(_finite(x) for x in given):
        return ""
    is_finite = all(x.dtype.kind != "f" or np.isfinite(x).all() for x in output)
    return "" if is_finite else "an output that is not finite"


def _finite(x: Any) -> bool:
    if isinstance(x, np.ndarray) and x.dtype.kind in "fc":
        return bool(np.isfinite(x).all()) and not (np.abs(x) > 1e18).any()
    return not isinstance(x, float) or math.isfinite(x)


def spread(case: mutations.Case, layer: Any, output: list[np.ndarray]) -> str:
    """What is spoiled stays in its sample, and shows in all that depends on it."""
    if case.spoiled is None:
        return ""
    name, index = case.spoiled
    before = [*usual_output(case.row.name)]
    if case.fresh or case.options or len(before) != len(output):
        return ""
    for x, y in zip(before, output):
        rest = [n for n in range(len(x)) if n != index[0]]
        if not _close(x[rest], y[rest]):
            return "another sample changes with the spoiled one"
    if case.kind == "infinite":
        return ""
    usual_inputs = _usual_inputs(case.row.name)
    other = usual_inputs[name].copy()
    other[index] += 0.37 if case.kind == "nan" else (1 if other[index] < 2 else -1)
    changed = arrays(called(case, layer, {**usual_inputs, name: other}))
    for x, y, z in zip(before, changed, output):
        depends = np.abs(x - y) > 1e-5 if x.dtype.kind == "f" else x != y
        if (depends & np.isfinite(z.astype("float64"))).any():
            return "plausible numbers where the output depends on the spoiled entry"
    return ""


def _close(x: np.ndarray, y: np.ndarray) -> bool:
    return x.shape == y.shape and np.allclose(x, y, 1e-3, 1e-4, equal_nan=True)


def _difference(found: list[np.ndarray], wanted: list[np.ndarray], text: str) -> str:
    if len(found) != len(wanted):
        return f"{len(found)} outputs, but {text} {len(wanted)}"
    for x, y in zip(found, wanted):
        if x.shape != y.shape:
            return f"shape {x.shape}, but {text} {y.shape}"
        if not _close(x, y):
            with np.errstate(all="ignore"):
                most = np.nanmax(np.abs(x.astype("float64") - y))
            return f"numbers that differ by {most:.3g}: {text} others"
    return ""
