"""One training step of the DNC, compared with two torch implementations.

A second case has many slots and sparse links. The peer is the same model without links.

`torch, plain` implements the paper's equations directly, with the same weights. `dnc`
is the package of that name, if it is installed. The package differs from the paper (it
applies tanh to the keys, and strengths are at least 0 instead of 1), so its results are
not compared with ours.
"""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from speed.compare.training import TrainingStep, array_of
from speed.harness import (
    SEED,
    Case,
    Contestants,
    NumericsError,
    Step,
    largest_difference,
)

RATE, FLOAT, GATES = 0.01, 4, 4
TOLERANCE = 1e-4
SIZES = {"B": 16, "T": 64, "M": 64, "W": 32, "R": 4, "U": 128, "D": 16}
SLOTS = {**SIZES, "T": 16, "M": 4096, "K": 8}
FEW = 256  # slots in a quick run
DECIDED = 4.0  # added to the logits of the write gates, so that the gates become 0.98
PLAIN, PACKAGE, UNLINKED = "torch, plain", "dnc", "links=False"
NOT_REPLAYED = "ours, not replayed"  # on torch, ours is `keras_attention.recorded`
COMPILERS = {
    "graph": ("tensorflow",),
    "xla": ("tensorflow",),
    "default": ("jax", "torch"),
}


def cases() -> tuple[Case, ...]:
    """Returns the cases. TensorFlow has one case without XLA and one with XLA."""
    return tuple(
        _case({**SIZES, "compiler": compiler}, backends)
        for compiler, backends in COMPILERS.items()
    )


def slots_cases() -> tuple[Case, ...]:
    """Returns cases with sparse links. A quick run has fewer slots."""
    return tuple(_slots_case({**SLOTS, "M": slots}) for slots in (FEW, SLOTS["M"]))


def _slots_case(sizes: dict[str, Any]) -> Case:
    sizes = {**sizes, "compiler": "default"}
    return Case(
        name="dnc_slots",
        sizes=sizes,
        make=lambda backend: _make_slots(sizes, backend),
        steps=_steps(sizes, dense=False),
        tolerance=TOLERANCE,
        quick=sizes["M"] == FEW,
        amount=(sizes["B"] * sizes["T"], "steps"),
    )


def _case(sizes: dict[str, Any], backends: tuple[str, ...]) -> Case:
    return Case(
        name="dnc",
        sizes=sizes,
        make=lambda backend: _make(sizes, backend),
        steps=_steps(sizes),
        tolerance=TOLERANCE,
        quick=sizes["compiler"] != "xla",
        amount=(sizes["B"] * sizes["T"], "steps"),
        needs=("torch",),
        backends=backends,
    )


def _steps(sizes: dict[str, Any], dense: bool = True) -> tuple[Step, ...]:
    """Counts the products of each step three times, and memory and links four times.

    The gradients of a product cost twice as much as the product. The memory and the
    links are each read and written forward and backward. Sparse links are not counted,
    since their cost depends on their number.
    """
    batch, slots, width, heads, units = (sizes[name] for name in "BMWRU")
    read = sizes["D"] + heads * width + units
    interface = heads * width + 3 * width + 5 * heads + 3
    products = [
        (1, batch, read, GATES * units),
        (1, batch, units, interface),
        (batch, heads + 1, width, slots),  # the keys
        (batch, heads, slots, width),  # the words
    ]
    if dense:
        products += 2 * [(batch, heads, slots, slots)]  # forward and backward
    one = [Step(2 * math.prod(p), FLOAT * (p[1] * p[3]), p) for p in products]
    kept = FLOAT * batch * slots * (width + dense * slots)
    return tuple(sizes["T"] * (3 * one + 4 * [Step(0, kept)]))


def arrays_of(sizes: dict[str, Any]) -> tuple[np.ndarray, np.ndarray]:
    """Samples the inputs and the targets."""
    generator = np.random.default_rng(SEED)
    shape = (2, sizes["B"], sizes["T"], sizes["D"])
    return tuple(generator.standard_normal(shape, "float32"))


def _make(sizes: dict[str, Any], backend: str) -> Contestants:
    inputs, targets = arrays_of(sizes)
    ours = _ours(sizes, inputs, targets, backend)
    plain = _Torch(_plain(ours.model, sizes), inputs, targets)
    calls: dict[str, Callable[[], Any]] = {"ours": ours, PLAIN: plain.step}
    if backend == "torch":
        calls[NOT_REPLAYED] = _ours(sizes, inputs, targets, backend, replayed=False)
    if importlib.util.find_spec("dnc"):
        calls[PACKAGE] = _Torch(_package(sizes), inputs, targets).step

    def check() -> dict[str, float]:
        """Compares the outputs of ours and the plain form before and after a step."""
        worst = 0.0
        try:
            for stepped in (False, True):
                if stepped:
                    ours()
                    plain.step()
                pair = {"out": ours.predict()}, {"out": plain.predict()}
                worst = max(worst, largest_difference(*pair, TOLERANCE))
        except NumericsError as error:
            raise NumericsError(f"ours against {PLAIN}: {error}") from error
        return {
            name: worst if name == PLAIN else float("nan")
            for name in calls
            if name != "ours"
        }

    return Contestants(calls=calls, check=check)


def _make_slots(sizes: dict[str, Any], backend: str) -> Contestants:
    """Builds both models. Results are not compared, since links change them."""
    inputs, targets = arrays_of(sizes)
    calls: dict[str, Callable[[], Any]] = {}
    for name, links in (("ours", sizes["K"]), (UNLINKED, False)):
        calls[name] = step = _ours(
            sizes, inputs, targets, backend, links, replayed=False
        )
        _decide(step.model.layers[-1].cell, sizes)
    return Contestants(calls=calls, check=lambda: {UNLINKED: float("nan")})


def _decide(cell: Any, sizes: dict[str, Any]) -> None:
    """Opens the write and allocation gates so that each step creates links."""
    width, heads = sizes["W"], sizes["R"]
    start = heads * width + 3 * width + heads + 1 + heads  # from keys to free gates
    bias = cell.interface.bias
    opened = array_of(bias)
    opened[start : start + 2] += DECIDED
    bias.assign(opened)


def _ours(
    sizes: dict[str, Any],
    inputs: np.ndarray,
    targets: np.ndarray,
    backend: str,
    links: bool | int = True,
    replayed: bool = True,
) -> TrainingStep:
    import keras

    from keras_attention.layers import DNC, DNCCell

    keras.utils.set_random_seed(SEED)
    cell = DNCCell(
        keras.layers.LSTMCell(sizes["U"]),
        sizes["M"],
        sizes["W"],
        sizes["R"],
        output_units=sizes["D"],
        links=links,
    )
    given = keras.Input(inputs.shape[1:], name="inputs")
    model = keras.Model({"inputs": given}, DNC(cell, return_sequences=True)(given))
    known = {"graph": False, "xla": True}
    jit = known.get(sizes["compiler"], "auto")
    if backend == "tensorflow" and jit == "auto":
        jit = False
    model.compile(keras.optimizers.SGD(RATE), "mse", jit_compile=jit)
    given_inputs = {"inputs": inputs}
    return TrainingStep(
        model, given_inputs, targets, backend, replayed=backend == "torch" and replayed
    )


def _plain(model: Any, sizes: dict[str, Any]) -> Any:
    """Creates the plain form with our weights. Orders the interface as in the paper."""
    from speed.compare.dnc_torch import PlainDNC

    slots, width, heads = sizes["M"], sizes["W"], sizes["R"]
    cell = model.layers[-1].cell
    lstm = [array_of(weight) for weight in cell.cell.weights]
    names = ["kr", "kw", "v", "br", "bw", "e", "f", "ga", "gw", "pi"]
    widths = [heads * width, width, width, heads, 1, width, heads, 1, 1, 3 * heads]
    order = ["kr", "br", "kw", "bw", "e", "v", "f", "ga", "gw", "pi"]
    interface = []
    for weight in cell.interface.weights:
        array = array_of(weight)
        cut = np.split(array, np.cumsum(widths)[:-1], axis=-1)
        pieces = dict(zip(names, cut, strict=True))
        interface.append(np.concatenate([pieces[name] for name in order], axis=-1))
    output = [array_of(weight) for weight in cell.output_layer.weights]
    return PlainDNC(slots, width, heads, lstm, interface, output)


def _package(sizes: dict[str, Any]) -> Any:
    """Creates the DNC of the package `dnc` with the same sizes."""
    import torch
    from dnc import DNC

    made = DNC(
        input_size=sizes["D"],
        hidden_size=sizes["U"],
        rnn_type="lstm",
        num_layers=1,
        num_hidden_layers=1,
        nr_cells=sizes["M"],
        cell_size=sizes["W"],
        read_heads=sizes["R"],
        gpu_id=-1,
    )

    class Outputs(torch.nn.Module):
        """Runs the package from an empty memory and returns only the outputs."""

        def __init__(self) -> None:
            super().__init__()
            self.dnc = made

        def forward(self, inputs: Any) -> Any:
            return self.dnc(inputs, (None, None, None), reset_experience=True)[0]

    return Outputs()


class _Torch:
    """A training step of a torch module."""

    def __init__(self, model: Any, inputs: np.ndarray, targets: np.ndarray) -> None:
        import torch

        self._no_grad = torch.no_grad
        self.model = model
        self.optimizer = torch.optim.SGD(model.parameters(), lr=RATE)
        self.inputs, self.targets = (torch.from_numpy(x) for x in (inputs, targets))

    def step(self) -> Any:
        self.optimizer.zero_grad()
        loss = (self.model(self.inputs) - self.targets).square().mean()
        loss.backward()
        self.optimizer.step()
        return loss.detach()

    def predict(self) -> np.ndarray:
        with self._no_grad():
            return self.model(self.inputs).numpy()
