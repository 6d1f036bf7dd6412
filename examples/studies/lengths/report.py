"""The table, the curves and the results page of the command `lengths`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from studies import reports
from studies.store import Run

KINDS = {"bahdanau": "with attention", "none": "without attention"}
LABELS = {
    "x_label": "words in the source sentence",
    "y_label": "BLEU, in per cent",
    "title": "Dutch to English: quality over sentence length",
}
TITLES = {"bleu": "BLEU", "exact": "exact"}
NAMED = ("units", "embedding_dim", "epochs", "batch_size", "min_count", "rate")
PAGE = """# Quality over sentence length

`python examples/studies/lengths` trains two networks that translate from
Dutch to English. One attends to the states of all source words
(`attention="bahdanau"`). In the other, everything goes through one vector
(`attention=None`). There is no other difference: {units} units, word vectors of width
{embedding_dim}, the same {pairs} pairs of [Tatoeba](../api/datasets.md), {epochs}
epochs with batches of {batch_size}, Adam with a rate of {rate} that falls to 0. Words
that occur fewer than {min_count} times are unknown. The test sentences are grouped by
the number of their source words, with punctuation marks. Each group has a BLEU of its
own, of all its sentences together, and a share of exact translations.

![BLEU over the number of source words, with and without attention](lengths.png)

{table}

sacrebleu `{signature}`, on lower-case words

{training}

The networks are small and saw few sentences, so their BLEU is low. Compare the two
curves, not one of them with published results. They show that the network with
attention learns faster, not how good the other one can become. Each row is one run,
with Keras {keras} on {backend}. BLEU also depends on the sentences of a group: short
ones are often frequent phrases. All figures are in
`examples/studies/lengths/results/lengths.json`."""
EXAMPLE = """## An alignment of the trained network

The picture shows the weights for the first test sentence of 8 to 10 words that the
network with attention translated exactly. Each row is an English word that it wrote.
A column without a word is an invisible character of the corpus.

![The weights of a Dutch sentence for each word of its English
translation](lengths-alignment.png)"""


def table(runs: Sequence[Run]) -> str:
    """Formats BLEU by the number of source words."""
    groups = runs[0]["result"]["groups"]
    lines = [f"{'words':20}{'seed':>5}" + "".join(f"{_range(g):>8}" for g in groups)]
    for run in runs:
        result = run["result"]
        scores = "".join(f"{one['bleu']:8.1f}" for one in result["groups"])
        lines.append(f"{KINDS[run['attention']]:20}{run['seed']:5}{scores}")
    return "\n".join(lines)


def _range(group: dict[str, Any]) -> str:
    """Formats the least and the largest number of words of a group."""
    least, most = group["range"]
    return f"{least}" if least == most else f"{least}–{most}"


def series(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """Returns the input of `plot_curves`: means with their ranges."""
    found = []
    for kind in dict.fromkeys(run["attention"] for run in runs):
        own = [run["result"]["groups"] for run in runs if run["attention"] == kind]
        scores = np.array([[one["bleu"] for one in groups] for groups in own]) / 100
        found.append(
            {
                "name": KINDS[kind],
                "x": [one["words"] for one in own[0]],
                "y": scores.mean(0).round(4).tolist(),
                "low": scores.min(0).round(4).tolist(),
                "high": scores.max(0).round(4).tolist(),
            }
        )
    return found


def page(results: dict[str, Any]) -> str:
    """Writes the results page in Markdown from the JSON report."""
    runs = results["runs"]
    settings = runs[0]["settings"]
    groups = runs[0]["result"]["groups"]
    head = ["", "seed", *(_range(one) for one in groups)]
    rows = [["sentences", "", *(str(one["sentences"]) for one in groups)]]
    for name, scale, form in (("bleu", 1, "{:.1f}"), ("exact", 100, "{:.0f} %")):
        for run in runs:
            title = f"{TITLES[name]}, {KINDS[run['attention']]}"
            found = [form.format(scale * one[name]) for one in run["result"]["groups"]]
            rows.append([title, str(run["seed"]), *found])
    training = [
        [
            KINDS[run["attention"]],
            str(run["seed"]),
            f"{run['result']['parameters']:,}",
            f"{run['result']['loss']:.2f}",
            f"{run['result']['bleu']:.1f}",
            f"{run['result']['fit_cpu_seconds']:.0f} s",
        ]
        for run in runs
    ]
    parts = [
        PAGE.format(
            pairs=f"{settings['pairs']:,}",
            backend=runs[0]["backend"],
            keras=runs[0]["keras"],
            table=reports.table(head, rows),
            signature=runs[0]["result"]["signature"],
            training=reports.table(
                ["", "seed", "weights", "loss", "BLEU, all", "CPU time of training"],
                training,
            ),
            **{name: settings[name] for name in NAMED},
        )
    ]
    if any(run["result"]["example"] for run in runs):
        parts.append(EXAMPLE)
    return "\n\n".join(parts) + "\n"
