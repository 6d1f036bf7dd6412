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
    """Formats the results of each run, and the mean of each kind of attention.

    The standard deviation follows a mean of several runs.
    """
    lines = [f"{'attention':18}{'seed':>5}{'exact %':>9}{'on digit %':>12}{'CPU s':>8}"]
    for kind in dict.fromkeys(run["attention"] for run in runs):
        same = [run for run in runs if run["attention"] == kind]
        for run in same:
            one = run["result"]
            lines.append(
                f"{kind:18}{run['seed']:5}{one['exact']:9.1f}{one['on_digit']:12.1f}"
                f"{one['decoder_cpu_seconds']:8.0f}"
            )
        exact = np.array([run["result"]["exact"] for run in same])
        spread = f" ± {exact.std(ddof=1):.1f}" if len(exact) > 1 else ""
        lines.append(f"{kind:18}{'mean':>5}{exact.mean():9.1f}{spread}")
    return "\n".join(lines)


def report(runs: list[Run]) -> dict[str, Any]:
    """Returns the JSON report."""
    return {**reports.head("captions"), "runs": runs}
