"""Keeps what the guides' pictures show, so that the build can draw them without Keras.

A guide's code draws weights that it has computed. `python docs/pictures.py` runs the
guides below and writes what they drew to docs/pictures.json, from which docs/hooks.py
draws again; tests/docs/test_docs.py fails where the code has other weights by now. What
is trained differs from backend to backend: it is that of JAX. Pictures of results are
drawn from the files beside their pages.
"""

import json
import re
from pathlib import Path

import numpy as np

DOCS = Path(__file__).resolve().parent
KEPT = DOCS / "pictures.json"
GUIDES = (
    "words.md",
    "recurrence.md",
    "translate.md",
    "alignments.md",
    "dot-products.md",
    "transformer.md",
    "hops-are-layers.md",
    "language-model.md",
    "dnc.md",
    "supporting-facts.md",
    "knowledge-base.md",
)
CODE = re.compile(r"(?<!-->\n)^```python\n(.*?)^```$", re.M | re.S)  # and is to run


class Drawn:
    """What stands for a figure while a guide runs, and is noted when it is saved."""

    def __init__(self, saved, function, arguments, more):
        weights, *texts = arguments
        self.saved = saved
        self.call = {
            "function": function,
            "arguments": [kept_of(weights), *texts],
            "more": more,
        }

    def savefig(self, name):
        self.saved[f"guides/{name}"] = self.call


def kept_of(weights):
    """Weights as lists; of the trace of a memory all that it has, by name."""
    if hasattr(weights, "_asdict"):
        arrays = {
            k: x for k, x in weights._asdict().items() if isinstance(x, np.ndarray)
        }
        return {name: kept_of(x) for name, x in arrays.items()}
    return weights.astype("float64").round(2).tolist()


def drawn_by(guide, before=None):
    """What the code of a guide draws.

    Args:
        guide: the name of its file.
        before: a heading before which to stop; None for all of it.

    Returns:
        From the name of each picture to the function that draws it and its arguments.
    """
    from keras_attention import visualization

    saved = {}
    plots = {n: f for n, f in vars(visualization).items() if n.startswith("plot_")}
    text = (DOCS / "guides" / guide).read_text("utf-8")
    text = text if before is None else text.split(f"\n{before}")[0]
    space = {"__name__": "__main__", "print": lambda *values: None}
    try:
        for name in plots:
            setattr(
                visualization,
                name,
                lambda *given, _name=name, **more: Drawn(saved, _name, given, more),
            )
        for code in CODE.findall(text):
            exec(compile(code, guide, "exec"), space)
    finally:
        for name, plot in plots.items():
            setattr(visualization, name, plot)
    return saved


def measured():
    """What was measured once and is drawn in the pages of results."""
    from keras_attention.benchmarks import capacity, forgetting, lengths_report
    from keras_attention.benchmarks.scale import report

    def runs_of(name):
        return json.loads((DOCS / "results" / name).read_text("utf-8"))["runs"]

    points = json.loads((DOCS / "results" / "scale.json").read_text("utf-8"))["points"]
    grown = {
        f"results/scale-{name}.png": {
            "function": "plot_growth",
            "arguments": [series],
            "more": labels,
        }
        for name, (series, labels) in report.pictures(points).items()
    }
    played = [run["result"] for run in runs_of("blocks.json")]
    played = [result["picture"] for result in played if "picture" in result]
    if played:
        grown["results/blocks.png"] = {"function": "plot_puzzle", **played[0]}
    translated = runs_of("lengths.json")
    (shown, *_) = (run["result"]["example"] for run in translated)
    return grown | {
        "results/lengths.png": {
            "function": "plot_curves",
            "arguments": [lengths_report.series(translated)],
            "more": lengths_report.LABELS,
        },
        "results/lengths-alignment.png": {
            "function": "plot_alignment",
            "arguments": [shown["weights"], shown["written"], shown["source"]],
            "more": {"query_label": "English", "key_label": "Dutch"},
        },
        "results/capacity.png": {
            "function": "plot_capacity",
            "arguments": [capacity.series(runs_of("capacity.json"))],
            "more": capacity.LABELS,
        },
        "results/forgetting.png": {
            "function": "plot_curves",
            "arguments": [forgetting.series(runs_of("forgetting.json"))],
            "more": forgetting.LABELS,
        },
    }


def in_lines(kept):
    """As JSON, in which a row of numbers or of words stays in one line."""
    text = json.dumps(kept, indent=1, ensure_ascii=False)
    row = re.compile(r"\[\s*([^\[\]{}]*?)\s*\]")
    return (
        row.sub(lambda found: "[" + re.sub(r"\n *", " ", found[1]) + "]", text) + "\n"
    )


if __name__ == "__main__":
    kept = json.loads(KEPT.read_text("utf-8"))
    for guide in GUIDES:
        kept.update(drawn_by(guide))
    kept.update(measured())
    KEPT.write_text(in_lines(kept), "utf-8")
