"""The tables of the command `devices`."""

from __future__ import annotations

from typing import Any

from studies import reports


def tables(raw: dict[str, Any]) -> dict[str, str]:
    """Returns the tables of docs/results/devices.md."""
    results = raw["devices"]
    modes = ("DataParallel", "ModelParallel")
    trained = []
    for name, one in results["trained"].items():
        differences = (f"{one[mode]:.0e}" for mode in modes)
        trained.append([name, *differences, f"{one['part']:.2f}"])
    sizes = [
        [name, f"{one['bytes']:,}", f"{one['a device']:,}", f"{one['part']:.3f}"]
        for name, one in results["sizes"].items()
    ]
    processes = [
        [name, *(f"{one[mode]:.0e}" for mode in modes)]
        for name, one in results.get("processes", {}).items()
    ]
    patterns = []
    for name, one in results.get("patterns", {}).items():
        memory = (f"{one['bytes']:,}", f"{one['a device']:,}", f"{one['part']:.3f}")
        patterns.append([*name.split(", "), f"{one['difference']:.0e}", *memory])
    memory_titles = ["bytes on one device", "a device of 8", "part"]
    titles = {
        "losses": ["model", *modes, "part of the weights"],
        "bytes": ["model", "bytes of weights", "a device", "part"],
        "processes": ["two processes", *modes],
        "patterns": ["normalizer", "similarity", "difference", *memory_titles],
    }
    rows = (trained, sizes, processes, patterns)
    return {
        name: reports.table(head, body)
        for (name, head), body in zip(titles.items(), rows)
        if body
    }
