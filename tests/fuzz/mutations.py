"""Draws bad calls: the inputs or the constructor arguments of a row, changed.

A case is a pair of numbers, a seed and an index. It draws the same call on each
backend.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import catalogue
import numpy as np

Arrays = dict[str, Any]
Rng = np.random.Generator
CONSTRUCTED = 0.25  # the share of the cases that change a constructor argument
FRESH = 0.2  # the share of the other cases that call a layer that is not built
ANY_ID = ("memory_age", "memory_writer")  # rows that take each whole number
VALUES = (
    -1,
    0,
    1,
    3,
    2.5,
    -0.5,
    float("nan"),
    float("inf"),
    "nonsense",
    "",
    None,
    True,
    [],
    {},
    (0,),
    [1, 2],
    {"nonsense": 1},
    object,
    b"bytes",
    np.float32(0.5),
    np.int64(2),
    np.zeros((2, 2), "float32"),
    1e30,
)


@dataclass
class Case:
    """One call.

    Attributes:
        seed, number: what the case is drawn from.
        row: a row of the catalogue.
        inputs: what the layer is called with, by name.
        arguments: constructor arguments that replace those of the row.
        options: further keywords of the call.
        fresh: whether the layer is not built before the call.
        changes: what was changed, in words.
        same_as: inputs to which the call must give the same output, if it gives one.
        refused: a reason why an output cannot be right.
        spoiled: the name and the index of an entry that is NaN or an invalid id.
        kind: "nan", "infinite" or "id", if an entry is spoiled.
    """

    seed: int
    number: int
    row: catalogue.Row
    inputs: Arrays
    arguments: dict[str, Any] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)
    fresh: bool = False
    changes: list[str] = field(default_factory=list)
    same_as: Arrays | None = None
    refused: str | None = None
    spoiled: tuple[str, tuple[int, ...]] | None = None
    kind: str | None = None

    def __str__(self) -> str:
        return f"{self.row.name}: {'; '.join(self.changes)}"


def draw(seed: int, number: int, rows: list[catalogue.Row]) -> Case:
    """Draws a case. Each class of the catalogue has the same chance."""
    rng = np.random.default_rng([seed, number])
    classes = sorted({row.cls.__name__ for row in rows})
    wanted = classes[rng.integers(len(classes))]
    fitting = [row for row in rows if row.cls.__name__ == wanted]
    row = fitting[rng.integers(len(fitting))]
    case = Case(seed, number, row, row.inputs(np.random.default_rng(0)))
    if rng.random() < CONSTRUCTED:
        names = [
            name
            for name, one in inspect.signature(row.cls.__init__).parameters.items()
            if name != "self" and one.kind is not one.VAR_KEYWORD
        ]
        if rng.random() < 0.1 or not names:  # of every Keras layer
            name = pick(rng, ["name", "dtype", "trainable"])
        else:
            name = pick(rng, names)
        if rng.random() < 0.05:
            name = f"{name}s"
        value = VALUES[rng.integers(len(VALUES))]
        case.arguments[name] = value
        case.changes.append(f"{row.cls.__name__}({name}={value!r})")
        return case
    case.fresh = bool(rng.random() < FRESH)
    if case.fresh:
        case.changes.append("not built")
    changes = CALLS if rng.random() < 0.3 else ARRAYS
    changes[rng.integers(len(changes))](rng, case)
    return case


def pick(rng: Rng, choices: Any) -> Any:
    """Returns one of some choices."""
    choices = list(choices)
    return choices[rng.integers(len(choices))]


def kind_of(array: Any) -> str:
    """Returns "float", "mask" or "ids"."""
    return {"f": "float", "b": "mask"}.get(array.dtype.kind, "ids")


def replace(case: Case, name: str, value: Any, text: str, same: Any = None) -> None:
    """Changes an input; `same` is the usual form of the same value, if there is one."""
    before = case.inputs
    case.inputs = {**before, name: value}
    case.changes.append(f"{name} {text}")
    if same is not None:
        case.same_as = {**before, name: same}


def rank(rng: Rng, case: Case) -> None:
    """Drops or adds an axis."""
    name = pick(rng, case.inputs)
    x = case.inputs[name]
    if rng.random() < 0.5 and x.ndim:
        axis = int(rng.integers(x.ndim))
        replace(case, name, x.take(0, axis), f"without axis {axis}")
    else:
        axis = int(rng.integers(x.ndim + 1))
        same = x if case.row.is_model and axis == x.ndim else None  # Keras drops it
        replace(case, name, np.expand_dims(x, axis), f"with a new axis {axis}", same)


def scalar(rng: Rng, case: Case) -> None:
    """A scalar in place of a tensor."""
    name = pick(rng, case.inputs)
    replace(case, name, case.inputs[name].flat[0], "is a scalar")


def size(rng: Rng, case: Case) -> None:
    """Changes the size of one axis of one input."""
    name = pick(rng, case.inputs)
    x = case.inputs[name]
    axis = int(rng.integers(x.ndim))
    wanted = pick(rng, [0, 1, x.shape[axis] - 1, x.shape[axis] + 1, 2 * x.shape[axis]])
    picked = x.take(np.arange(wanted) % x.shape[axis], axis)
    text = f"has size {wanted} instead of {x.shape[axis]} in axis {axis}"
    repeated = kind_of(x) == "mask" or (axis == 0 and len(case.inputs) > 1)
    if wanted == 1 and repeated:
        replace(case, name, picked, text, np.repeat(picked, x.shape[axis], axis))
    else:
        replace(case, name, picked, text)


def width(rng: Rng, case: Case) -> None:
    """Changes the last axis of one input of floats."""
    names = [n for n, x in case.inputs.items() if kind_of(x) == "float"]
    if not names:
        return size(rng, case)
    name = pick(rng, names)
    x = case.inputs[name]
    wanted = pick(rng, [1, x.shape[-1] - 1, x.shape[-1] + 1])
    picked = x.take(np.arange(wanted) % x.shape[-1], -1)
    replace(case, name, picked, f"has width {wanted} instead of {x.shape[-1]}")


def empty_batch(rng: Rng, case: Case) -> None:
    """No samples at all."""
    case.inputs = {name: x[:0] for name, x in case.inputs.items()}
    case.changes.append("empty batch")


def empty_sequence(rng: Rng, case: Case) -> None:
    """No steps in one input, or in all."""
    every = [n for n, x in case.inputs.items() if x.ndim > 1]
    if not every:
        return empty_batch(rng, case)
    names = every if rng.random() < 0.4 else [pick(rng, every)]
    for name in names:
        case.inputs = {**case.inputs, name: case.inputs[name][:, :0]}
    case.changes.append(f"no steps in {', '.join(names)}")


def dtype(rng: Rng, case: Case) -> None:
    """Another dtype with the same values, or with values that do not fit."""
    name = pick(rng, case.inputs)
    x = case.inputs[name]
    kind = kind_of(x)
    if kind == "float":
        wanted = pick(rng, ["float64", "float16", "int32", "bool", "complex64"])
        y = x.astype(wanted)
        if wanted == "complex64":
            y = y + np.complex64(1j)
            case.refused = "an imaginary part is lost"
            replace(case, name, y, f"of {wanted}")
        else:
            replace(case, name, y, f"of {wanted}", y.astype(x.dtype))
    elif kind == "mask":
        wanted = pick(rng, ["float32", "int32", "uint8", "halves", "added", "nan"])
        if wanted in ("halves", "added", "nan"):
            hidden = {"halves": 0.5, "added": -np.inf, "nan": np.nan}[wanted]
            shown = 0.0 if wanted == "added" else 1.0
            case.refused = "a mask that is neither 0 nor 1"
            y = np.where(x, shown, hidden).astype("float32")
            y.flat[0] = hidden
            replace(case, name, y, f"of numbers {shown} and {hidden}")
        else:
            replace(case, name, x.astype(wanted), f"of {wanted}", x)
    else:
        wanted = pick(rng, ["int64", "uint8", "float32", "halves", "bool"])
        if wanted == "halves":
            case.refused = "ids that are no whole numbers"
            replace(case, name, x + np.float32(0.5), "of fractions")
        else:
            y = x.astype(wanted)
            replace(case, name, y, f"of {wanted}", y.astype(x.dtype))


def spoil(rng: Rng, case: Case) -> None:
    """NaN, an infinite or a huge number, or an invalid id, in one place."""
    names = [n for n, x in case.inputs.items() if kind_of(x) != "mask"]
    name = pick(rng, names)
    if kind_of(case.inputs[name]) == "ids" and case.row.name in ANY_ID:
        return dtype(rng, case)
    x = case.inputs[name].copy()
    index = tuple(int(rng.integers(n)) for n in x.shape)
    if kind_of(x) == "float":
        value = pick(rng, [np.nan, np.nan, np.inf, -np.inf, 1e20, -1e38])
        case.kind = "nan" if np.isnan(value) else "infinite"
    else:
        value = pick(rng, [-1, -7, catalogue.WORDS, 1000, 2**31 - 1, -(2**31)])
        case.kind = "id"
    x[index] = value
    case.spoiled = name, index
    replace(case, name, x, f"holds {value} at {index}")


def hidden(rng: Rng, case: Case) -> None:
    """A mask of False alone, or ids of padding alone."""
    names = [n for n, x in case.inputs.items() if kind_of(x) != "float"]
    if not names:
        return spoil(rng, case)
    name = pick(rng, names)
    replace(case, name, np.zeros_like(case.inputs[name]), "holds zeros alone")


def other_type(rng: Rng, case: Case) -> None:
    """A string, None, a list or a Python object in place of a tensor."""
    name = pick(rng, case.inputs)
    x = case.inputs[name]
    wanted = pick(
        rng, ["none", "string", "strings", "list", "ragged", "dict", "object"]
    )
    if wanted == "list":
        replace(case, name, x.tolist(), "is a list of numbers", x)
    else:
        value = {
            "none": None,
            "string": "nonsense",
            "strings": np.full(x.shape, "a"),
            "ragged": [[1.0], [1.0, 2.0]],
            "dict": {"nonsense": x},
            "object": object(),
        }[wanted]
        replace(case, name, value, f"is {wanted}")


def array(rng: Rng, case: Case) -> None:
    """NumPy arrays that are not contiguous."""
    name = pick(rng, case.inputs)
    x = case.inputs[name]
    replace(
        case, name, np.asfortranarray(np.stack([x, x], -1))[..., 0], "is strided", x
    )


def swap(rng: Rng, case: Case) -> None:
    """Two arguments in each other's place."""
    if len(case.inputs) < 2:
        return rank(rng, case)
    a, b = (str(n) for n in rng.choice(list(case.inputs), 2, replace=False))
    case.inputs = {**case.inputs, a: case.inputs[b], b: case.inputs[a]}
    case.changes.append(f"{a} and {b} are swapped")


def rename(rng: Rng, case: Case) -> None:
    """A wrong name of an argument."""
    name = pick(rng, case.inputs)
    wrong = pick(rng, [f"{name}s", name[:-1] or "x", "mask_of_nothing"])
    if wrong in case.inputs or isinstance(case.row, catalogue.CellRow):
        return swap(rng, case)
    case.inputs = {wrong if n == name else n: x for n, x in case.inputs.items()}
    case.changes.append(f"{name} is called {wrong}")
    case.refused = "an argument that does not exist"


def leave_out(rng: Rng, case: Case) -> None:
    """One argument less."""
    name = pick(rng, case.inputs)
    if len(case.inputs) == 1:
        return other_type(rng, case)
    case.inputs = {n: x for n, x in case.inputs.items() if n != name}
    case.changes.append(f"no {name}")


def masks(rng: Rng, case: Case) -> None:
    """A mask of pairs or of a sequence, of a fitting or another shape."""
    if not case.row.attention:
        return hidden(rng, case)
    query, value = case.inputs["query"], case.inputs["value"]
    b, s = value.shape[:2]
    t = query.shape[1] if query.ndim == 3 else 1
    pairs = (t, s) if query.ndim == 3 else (s,)
    shape = pick(
        rng,
        [pairs, (b, *pairs), (1, *pairs), (s, t), (b, s), (b, 1, s), (b + 1, *pairs)],
    )
    name = pick(rng, ["attention_mask", "attention_mask", "key_mask", "query_mask"])
    if name in ("key_mask", "query_mask"):
        shape = pick(rng, [(b, s), (b, t), (s,), (b,), (1, s), (b, s, 1)])
    mask = rng.random(shape) < 0.7
    kind = pick(rng, ["bool", "float32", "int32"])
    replace(case, name, mask.astype(kind), f"of {kind} has shape {shape}")
    if kind != "bool":
        case.same_as = {**case.inputs, name: mask}


def options(rng: Rng, case: Case) -> None:
    """Options of the call."""
    value = pick(rng, [True, False, None, "no", 2, 0.5])
    names = ["training"]
    if case.row.attention:
        names += ["use_causal_mask", "return_attention_scores"]
    if case.row.attention and rng.random() < 0.3:
        names = ["nonsense"]
        case.refused = "an argument that does not exist"
    name = pick(rng, names)
    case.options[name] = value
    case.changes.append(f"{name}={value!r}")


def causal(rng: Rng, case: Case) -> None:
    """A causal mask together with another change."""
    if not case.row.attention:
        return size(rng, case)
    case.options["use_causal_mask"] = True
    case.changes.append("use_causal_mask=True")
    pick(rng, ARRAYS)(rng, case)


Change = Callable[[Rng, Case], None]
ARRAYS: list[Change] = [
    rank,
    scalar,
    size,
    size,
    width,
    empty_batch,
    empty_sequence,
    dtype,
    dtype,
    spoil,
    spoil,
    hidden,
    other_type,
    array,
]
CALLS: list[Change] = [swap, rename, leave_out, masks, masks, options, causal]
