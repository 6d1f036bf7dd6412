"""The table, the JSON report and pictures of the attention."""

from __future__ import annotations

import pathlib
from typing import Any

import keras
import numpy as np

from keras_attention.datasets import canvases
from keras_attention.layers.base.recording import record_attention
from keras_attention.models import ImageCaptioner
from studies import reports
from studies.captions.data import Data
from studies.store import Run

KINDS = ("soft", "straight_through", "reinforce")


def draw(model: ImageCaptioner, data: Data, folder: pathlib.Path, name: str) -> None:
    """Draws the attention for a generated caption of the first two digits."""
    from keras_attention import visualization

    shown = example(model, data)
    figure = visualization.plot_image_attention(**shown, title=name)
    folder.mkdir(parents=True, exist_ok=True)
    figure.savefig(folder / f"{name}.png", dpi=150)


def example(model: ImageCaptioner, data: Data) -> dict[str, Any]:
    """Returns what `plot_image_attention` needs, of the first image with two digits."""
    n = next(n for n, text in enumerate(data.captions) if len(text.split()) > 2)
    features = data.features[n : n + 1]
    tokens = model.generate(features, max_length=canvases.LENGTH)
    target = np.pad(tokens[:, :-1], ((0, 0), (1, 0)), constant_values=2)
    given = {"features": features, "target": target}
    with record_attention() as maps:
        model({k: keras.ops.convert_to_tensor(x) for k, x in given.items()})
    (weights,) = maps.values()
    words = canvases.VOCABULARY.decode(tokens[0]).split() or ["(no words)"]
    return {
        "image": data.vectors.inputs["image"][n],
        "weights": weights[0],
        "words": words,
        "grid": features.shape[1:3],
    }


def table(runs: list[Run]) -> str:
    """Formats a row per kind of attention and its settings.

    Several runs of a kind have a mean with a standard deviation.
    """
    kinds: dict[str, list[dict[str, Any]]] = {}
    for run in runs:
        kinds.setdefault(_kind(run), []).append(run["result"])
    rows = []
    for kind, results in kinds.items():
        exact, on_digit, seconds = (
            np.array([one[name] for one in results])
            for name in ("exact", "on_digit", "decoder_cpu_seconds")
        )
        cells = [_spread(exact), _spread(on_digit), f"{seconds.mean():.0f} s"]
        rows.append([kind, *cells])
    titles = ["attention", "exact captions in %", "weight on the digit in %"]
    return reports.table([*titles, "CPU time"], rows)


def _spread(numbers: np.ndarray) -> str:
    """Formats numbers of several seeds, with their mean ± sd."""
    each = ", ".join(f"{number:.1f}" for number in numbers)
    if len(numbers) == 1:
        return each
    return f"{numbers.mean():.1f} ± {numbers.std(ddof=1):.1f} ({each})"


def _kind(run: Run) -> str:
    """Returns the kind of attention with the settings that it uses."""
    if run["attention"] != "reinforce":
        return run["attention"].replace("_", "-")
    decoder = run["settings"]["decoder"]
    names = ("expected_rate", "weight", "epochs")
    return ", ".join(["REINFORCE", *(f"{name} {decoder[name]:g}" for name in names)])


def tables(raw: dict[str, Any]) -> dict[str, str]:
    """Returns the tables of docs/results/captions.md."""

    def place(run: Run) -> Any:
        return KINDS.index(run["attention"]), _kind(run), run["seed"]

    files = {"test": "captions", "dev": "captions-dev"}
    return {n: table(sorted(raw[f]["runs"], key=place)) for n, f in files.items()}


def report(runs: list[Run]) -> dict[str, Any]:
    """Returns the JSON report."""
    return {**reports.head("captions"), "runs": runs}
