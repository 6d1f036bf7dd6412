"""Trains each model on eight virtual devices and compares it with one device.

    python tests/speed devices --json runs.json

The first table has the largest relative difference of the losses of 5 steps from those
of one device, and the part of the weights that a device holds with ModelParallel. The
second table has the bytes of weights at the sizes that a user would choose. With
`--processes`, a third table has the differences in two processes with four devices.
With `--patterns`, another table has the differences and the memory of retrieval among a
million patterns.
"""

from __future__ import annotations

import argparse
import datetime
import json
import pathlib
import platform
from typing import Any

import keras
import numpy as np

from keras_attention.distribution import check, layout_map
from keras_attention.version import __version__
from speed.devices.cases import CASES, SIZES
from speed.devices.processes import NAMES, train
from speed.devices.report import tables
from speed.devices.training import MESH, losses
from studies.command_line import UsageError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of `devices`."""
    add = parser.add_argument
    add("--only", default="", help="train the models whose names contain this text")
    add("--processes", action="store_true", help="train in two processes, too")
    add("--patterns", action="store_true", help="retrieve from split patterns, too")
    add("--json", type=pathlib.Path, help="where to write the results")


def main(args: argparse.Namespace) -> int:
    """Prints the tables, and fails if losses differ by more than 1e-5."""
    use_virtual_devices()
    names = [name for name in CASES if args.only in name]
    if not names:
        raise UsageError(f"--only must be in a name of {list(CASES)}")
    trained = {}
    for name in names:
        print(f"{name} …", flush=True)
        trained[name] = compare(name)
    processes = compare_processes() if args.processes else {}
    patterns = compare_patterns() if args.patterns else {}
    about = {
        "version": __version__,
        "keras": keras.__version__,
        "python": platform.python_version(),
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
    }
    sizes = {name: share(make()) for name, make in SIZES.items()}
    results: dict[str, Any] = {"about": about, "trained": trained, "sizes": sizes}
    results |= {"processes": processes} if processes else {}
    results |= {"patterns": patterns} if patterns else {}
    print(*tables({"devices": results}).values(), sep="\n\n")
    if args.json:
        args.json.write_text(json.dumps(results, indent=1) + "\n", "utf-8")
    both = [*trained.values(), *processes.values()]
    errors = [max(t["DataParallel"], t["ModelParallel"]) for t in both]
    errors += [found["difference"] for found in patterns.values()]
    return int(max(errors) > 1e-5)


def use_virtual_devices() -> None:
    """Makes eight devices of the CPU."""
    if keras.config.backend() != "jax":
        raise UsageError("`devices` needs KERAS_BACKEND=jax")
    import jax

    count = int(np.prod(MESH))
    if jax.config.jax_num_cpu_devices != count:
        jax.config.update("jax_platforms", "cpu")
        jax.config.update("jax_num_cpu_devices", count)


def compare(name: str) -> dict[str, Any]:
    """Returns the losses on one device, and how far those of several differ."""
    one = losses(CASES[name], "one device")
    found: dict[str, Any] = {"losses": one.tolist()}
    for mode in ("DataParallel", "ModelParallel"):
        found[mode] = float(np.abs(losses(CASES[name], mode) / one - 1).max())
    return {**found, "part": share(CASES[name].make())["part"]}


def compare_processes() -> dict[str, Any]:
    """Returns how far losses in two processes differ from one device's."""
    reports = train()
    found = {}
    for name in NAMES:
        one = losses(CASES[name], "one device")
        found[name] = {
            mode: max(
                float(np.abs(np.array(report[name][mode]) / one - 1).max())
                for report in reports
            )
            for mode in ("DataParallel", "ModelParallel")
        }
    return found


def compare_patterns() -> dict[str, Any]:
    """Returns what retrieval from split patterns gives and needs."""
    from speed.devices import retrieval  # it imports JAX

    return retrieval.compare()


def share(model: keras.Model) -> dict[str, Any]:
    """Returns the bytes of weights of a model, and those on a device of the mesh."""
    mesh = keras.distribution.DeviceMesh(MESH, ("batch", "model"))
    report = check(model, layout_map(model, mesh))
    part = report.size_per_device / report.size
    return {"bytes": report.size, "a device": report.size_per_device, "part": part}
