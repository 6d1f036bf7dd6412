"""Reports of a speed run: machine facts, a table and the JSON file."""

from __future__ import annotations

import datetime
import os
import platform
from collections.abc import Sequence
from typing import Any

from keras_attention.version import __version__
from speed.compare import PAGE, on_page
from speed.harness import SAME, SEED
from studies import reports

SCHEMA = 1
IDLE_LOAD = 0.25  # mean load of the processors over the last minute
HEADINGS = (
    "case",
    "backend",
    "sizes",
    "against",
    "ours ms",
    "theirs ms",
    "ratio",
    "IQR",
    "null band",
    "verdict",
    "floor ms",
    "ours, per second",
)
MEMORY = (
    "attention_long",
    "attention_masks",
)  # tables that also have the memory of a call
NAMES = {"jax": "JAX", "torch": "torch", "tensorflow": "TensorFlow"}
# Columns of the tables of docs/results/speed.md that tell the cases of a name apart.
COLUMNS = {
    "memn2n_step": ("setting", "call"),
    "fit_epoch": ("of",),
    "attention_core": ("T",),
    "multi_head": ("T", "extra", "mode"),
    "attention_explicit": ("T", "mode"),
    "additive": ("mode",),
    "decoding": ("sampler",),
    "retrieval": ("S",),
    "hopfield": ("mode",),
    "attention_masks": ("mode",),
    "fast_weights": ("mode",),
}
PEERS = {
    "array": "boolean array",
    "keras.layers.RNN": "`keras.layers.RNN` with a hand-written cell",
    "keras_hub": "KerasHub",
    "torch, plain": "plain torch",
    "transformers": "Hugging Face",
}
WORDS = {
    "fwd": "forward",
    "fwd+bwd": "with gradients",
    "none": "no mask",
    "single": "single task",
    "joint": "joint tasks",
    "top_k": "top-k",
    "train_function": "compiled or replayed step",
    "train_on_batch": "`train_on_batch`",
    "babi": "`MemN2N`, joint bAbI",
    "dates": "`Seq2Seq`, dates",
    "translation": "`Transformer`, Multi30k",
}
# Rows of the summary: title, case, sizes, and the peer.
GLANCE: tuple[tuple[str, str, dict[str, int | str], str], ...] = (
    (
        "`MemN2N`, a training step, joint tasks",
        "memn2n_step",
        {"setting": "joint", "call": "train_on_batch"},
        "torch, plain",
    ),
    (
        "multi-head layer, T = 512, with gradients",
        "multi_head",
        {"T": 512, "extra": "none", "mode": "fwd+bwd"},
        "keras.layers",
    ),
    ("a tiny multi-head layer", "multi_head", {"T": 16, "mode": "fwd"}, "keras.layers"),
    ("attention over 4,096 tokens, with gradients", "attention_long", {}, "keras.ops"),
    ("additive score, with gradients", "additive", {"mode": "fwd+bwd"}, "keras.layers"),
    ("`AttentionRNN`, a training step", "attention_rnn", {}, "keras.layers.RNN"),
    ("`DNC`, a training step", "dnc", {}, "torch, plain"),
    ("`Seq2Seq`, greedy search", "decoding", {"sampler": "greedy"}, "keras_hub"),
    ("`Seq2Seq`, beam search", "decoding", {"sampler": "beam"}, "keras_hub"),
    ("`CausalLM`, greedy search", "generation", {}, "keras_hub"),
    ("`CausalLM`, greedy search", "generation", {}, "transformers"),
)
LEGEND = """\
ratio: their time over ours, the median of interleaved pairs; above 1 ours is faster.
IQR: the middle half of the pairs' ratios. null band: the 5th to 95th percentile of
the same for ours against itself, which is noise. verdict: whether the median's 95 %
interval stands clear of that of the null run. floor: the least time the work could
take at this machine's rates for its products and copies. per second: what our median
time means for a user."""


def machine(threads: int) -> dict[str, Any]:
    """Returns the machine and its load as a dict."""
    load = os.getloadavg()[0]
    cores = os.cpu_count() or 1
    return {
        "system": platform.platform(),
        "processor": reports.processor(),
        "cores": cores,
        "threads": threads,
        "load_before": load,
        "idle": load <= IDLE_LOAD * cores,
    }


def idle_line(facts: dict[str, Any]) -> str:
    """Describes the load average."""
    state = "idle" if facts["idle"] else "BUSY, the times below are in doubt"
    return (
        f"load average {facts['load_before']:.2f} on {facts['cores']} processors: "
        f"{state}"
    )


def build(
    options: dict[str, Any], facts: dict[str, Any], runs: list[dict[str, Any]]
) -> dict[str, Any]:
    """Builds the JSON-compatible report.

    Args:
        options: A dict with the options of the run.
        facts: The output of `machine`.
        runs: One dict per backend.

    Returns:
        A dict.
    """
    return {
        "schema": SCHEMA,
        "command": reports.command(),
        "keras_attention": __version__,
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "seed": SEED,
        "options": options,
        "machine": facts,
        "backends": runs,
    }


def table(runs: list[dict[str, Any]]) -> str:
    """Formats all results as aligned text. Failed measurements come last."""
    rows: list[tuple[str, ...]] = [HEADINGS]
    remarks = []
    for run in runs:
        if run["status"] != "measured":
            remarks.append(f"{run['backend']}: {run['status']}: {run['reason']}")
        for result in run["results"]:
            if result["status"] == "measured":
                rows.append(_row(result))
            else:
                sizes = _sizes(result["sizes"])
                remarks.append(
                    f"{result['backend']}: {result['case']} {sizes}: "
                    f"{result['status']}: {result['reason']}"
                )
    lines = [*_align(rows), "", LEGEND] if len(rows) > 1 else []
    return "\n".join(lines + ([""] if lines and remarks else []) + remarks)


def _row(result: dict[str, Any]) -> tuple[str, ...]:
    ratio, null = result["ratio"], result["null"]
    return (
        result["case"],
        result["backend"],
        _sizes(result["sizes"]),
        result["against"],
        _number(result["ours_ms"]),
        _number(result["theirs_ms"]),
        f"{ratio['median']:.2f}",
        f"{ratio['q1']:.2f}-{ratio['q3']:.2f}",
        f"{null['p5']:.2f}-{null['p95']:.2f}",
        result["verdict"],
        _number(result["floor_ms"]),
        _rate(result),
    )


def _rate(result: dict[str, Any]) -> str:
    if result["amount"] is None:
        return ""
    count, name = result["amount"]
    return f"{1e3 * count / result['ours_ms']:,.0f} {name}"


def _sizes(sizes: dict[str, Any]) -> str:
    return " ".join(
        value if isinstance(value, str) else f"{key}{value}"
        for key, value in sizes.items()
    )


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:#.3g}"


def _align(rows: list[Any]) -> list[str]:
    widths = [max(len(row[i]) for row in rows) for i in range(len(HEADINGS))]
    numeric = {4, 5, 6, 7, 8, 10}
    lines = [
        "  ".join(
            cell.rjust(width) if i in numeric else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
    return [lines[0], "-" * max(map(len, lines)), *lines[1:]]


def tables(raw: dict[str, Any]) -> dict[str, str]:
    """Returns the tables of docs/results/speed.md, one for each case, and a summary.

    The raw files are those of `compare --page`, one for each backend, and of single
    cases, such as compare-packed.json. A later name replaces rows of an earlier one.
    """
    results: dict[str, list[dict[str, Any]]] = {name: [] for name in PAGE}
    for name in sorted(n for n in raw if n.startswith("compare-")):
        for run in raw[name]["backends"]:
            for result in run["results"]:
                shown = on_page(result["case"], result["sizes"])
                if shown and result["status"] == "measured":
                    results[result["case"]].append(result)
    found = {name: _page_table(name, rows) for name, rows in results.items()}
    return {**found, "glance": _glance(results)}


def _page_table(name: str, results: list[dict[str, Any]]) -> str:
    """Formats the results of a case, a row for each size and peer."""
    columns = COLUMNS.get(name, ())
    cells: dict[tuple[str, str], dict[str, str]] = {}
    for result in results:
        row = _label(result["sizes"], columns), result["against"]
        cells.setdefault(row, {})[result["backend"]] = _cell(result, name in MEMORY)
    backends = [b for b in NAMES if any(b in row for row in cells.values())]
    case = ["case"] if columns else []
    rows = [
        [
            *[label] * len(case),
            PEERS.get(peer, peer),
            *(row.get(backend, "") for backend in backends),
        ]
        for (label, peer), row in cells.items()
    ]
    titles = [*case, "compared with", *(NAMES[backend] for backend in backends)]
    return reports.table(titles, rows)


def _cell(result: dict[str, Any], memory: bool) -> str:
    """Formats our time, the ratio and its IQR, and on JAX the scratch memory."""
    ratio = result["ratio"]
    ours = f"{_number(result['ours_ms'])} ms"
    text = f"{ours}: {_ratio(result)} ({ratio['q1']:.2f}–{ratio['q3']:.2f})"
    scratch = result["memory"]["xla_scratch"]
    both = [scratch.get(who) for who in ("ours", result["against"])]
    if not memory or None in both:
        return text
    return f"{text}, {both[0] / 1e6:,.0f} against {both[1] / 1e6:,.0f} MB"


def _glance(results: dict[str, list[dict[str, Any]]]) -> str:
    """Formats one row for each entry of `GLANCE`, with a column for each backend."""
    rows = []
    for title, name, sizes, peer in GLANCE:
        chosen = {
            result["backend"]: result
            for result in results[name]
            if result["against"] == peer
            and {**result["sizes"], **sizes} == result["sizes"]
        }
        fastest = min(chosen.values(), key=lambda one: one["ours_ms"], default=None)
        cells = [_ratio(chosen[b]) if b in chosen else "" for b in NAMES]
        rate = _rate(fastest) if fastest else ""
        rows.append([title, PEERS.get(peer, peer), *cells, rate])
    titles = ["what", "compared with", *NAMES.values(), "ours, per second"]
    return reports.table(titles, rows)


def _ratio(result: dict[str, Any]) -> str:
    noise = " within noise" if result["verdict"] == SAME else ""
    return f"{result['ratio']['median']:.2f}{noise}"


def _label(sizes: dict[str, Any], columns: Sequence[str]) -> str:
    """Names a case by some of its sizes, for example "T = 16, forward"."""
    return ", ".join(
        f"{column} = {sizes[column]:,}"
        if isinstance(sizes[column], int)
        else WORDS.get(sizes[column], sizes[column])
        for column in columns
    )
