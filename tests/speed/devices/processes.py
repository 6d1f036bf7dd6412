"""Trains models in two processes on one machine, with four virtual devices each.

    python -m speed.devices.processes ADDRESS RANK NAME …

The last line of the output has the losses as JSON. `train` starts both processes.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys

import keras

from studies.command_line import environment

PROCESSES, DEVICES = 2, 4
NAMES = ("MemN2N", "Transformer", "CausalLM")
Losses = dict[str, dict[str, list[float]]]  # by the names of the model and of the mode


def train() -> list[Losses]:
    """Returns the losses of the models in `NAMES`, as each process reports them."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    command = [sys.executable, "-m", __spec__.name, address]
    started = [
        subprocess.Popen(
            [*command, str(rank), *NAMES],
            stdout=subprocess.PIPE,
            text=True,
            env=environment(),
        )
        for rank in range(PROCESSES)
    ]
    outputs = [process.communicate()[0] for process in started]
    if any(process.returncode for process in started):
        raise RuntimeError("a process failed; its output says why")
    return [json.loads(output.splitlines()[-1]) for output in outputs]


def main(address: str, rank: int, *names: str) -> None:
    """Trains in this process, and prints the losses."""
    from speed.devices.cases import CASES
    from speed.devices.training import losses

    keras.distribution.initialize(address, PROCESSES, rank)
    found = {
        name: {
            mode: losses(CASES[name], mode, rank, PROCESSES).tolist()
            for mode in ("DataParallel", "ModelParallel")
        }
        for name in names
    }
    print(json.dumps(found))


if __name__ == "__main__":
    # JAX reads it when it first looks for devices.
    flag = f"--xla_force_host_platform_device_count={DEVICES}"
    os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {flag}".strip()
    os.environ["JAX_PLATFORMS"] = "cpu"
    main(sys.argv[1], int(sys.argv[2]), *sys.argv[3:])
