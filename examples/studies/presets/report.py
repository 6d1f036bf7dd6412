"""The presets as a page: a table, and a card for each."""

from __future__ import annotations

from typing import Any

from studies import reports

HEAD = "| preset | class |"
BASELINE = "baseline "  # begins the names of a baseline's figures


def page(cards: list[dict[str, Any]]) -> str:
    """Returns Markdown with a table of all cards and a section for each."""
    parts = [
        f"{HEAD} figure | kB |",
        "|---|---|---|---|",
        *(
            f"| [`{c['name']}`](#{c['name']}) | `{c['class']}` | {_figures(c)} "
            f"| {c['kilobytes']} |"
            for c in cards
        ),
    ]
    for card in cards:
        parts += [
            "",
            f"### {card['name']}",
            "",
            card["what"],
            "",
            f"- Use: `{card['use']}`",
            f"- Figures of the stored weights: {_figures(card)}",
            f"- Plain baseline: {card['baseline']}{_baseline(card)}",
            f"- Data: {card['data']} Licence: {card['licence'].rstrip('.')}.",
            f"- Limits: {card['limits']}",
            f"- Trained by: `{card['command']}` on {card['backend']}, "
            f"{card['parameters']:,} parameters",
        ]
    return "\n".join(parts) + "\n"


def tables(raw: dict[str, Any]) -> dict[str, str]:
    """Returns the table of docs/results/dates.md."""
    trained = raw["seq2seq_dates"]
    rows = [[_title(name), _value(name, x)] for name, x in trained["figures"].items()]
    rows.append(["training time", f"{trained['train_seconds']} s"])
    rows.append(["CPU time of training", f"{trained['train_cpu_seconds']} s"])
    return {"dates": reports.table(["", f"seed {trained['seed']}"], rows)}


def _figures(card: dict[str, Any]) -> str:
    return ", ".join(
        _figure(name, value)
        for name, value in card["figures"].items()
        if not name.startswith(BASELINE)
    )


def _baseline(card: dict[str, Any]) -> str:
    figures = [
        _figure(name.removeprefix(BASELINE), value)
        for name, value in card["figures"].items()
        if name.startswith(BASELINE)
    ]
    return f": {', '.join(figures)}" * bool(figures)


def _figure(name: str, value: float) -> str:
    return f"{_title(name)} {_value(name, value)}"


def _title(name: str) -> str:
    return name.removesuffix(" %")


def _value(name: str, value: float) -> str:
    return f"{value:g}" + " %" * name.endswith(" %")
