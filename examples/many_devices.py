"""A language model trains on eight devices: two processes with four devices each.

    python examples/many_devices.py                             # on this machine
    python examples/many_devices.py --processes 1               # in one process
    python examples/many_devices.py --processes 1 --devices 1   # on one device

All three print the same losses. The devices are parts of the CPU, so that the script
runs anywhere; they do not make it faster. On machines with GPUs or TPUs, start the
script once per machine with `--devices 0`, which uses the devices that are there:

    python examples/many_devices.py --devices 0 --address 10.0.0.1:9000 --rank 0
    python examples/many_devices.py --devices 0 --address 10.0.0.1:9000 --rank 1

Each process gets its own part of each batch, and splits the weights over its devices.
The script needs JAX. docs/howto/many-devices.md explains each step.
"""

import argparse
import os
import re
import socket
import subprocess
import sys
from pathlib import Path


def parse_arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--processes", type=count, default=2, help="default: 2")
    add(
        "--devices",
        type=count,
        default=4,
        help="virtual devices of a process; 0: the real ones; default: 4",
    )
    add("--address", help="host:port of the first process, if you start each yourself")
    add("--rank", type=count, default=0, help="the number of this process, from 0")
    add("--steps", type=count, default=60, help="training steps; default: 60")
    add("--batch", type=count, default=32, help="samples of a step; default: 32")
    add("--out", type=Path, default=Path("many_devices"), help="where to write")
    parsed = parser.parse_args()
    if parsed.processes < 1 or parsed.steps < 1:
        parser.error("--processes and --steps must be at least 1")
    if parsed.batch % parsed.processes:
        parser.error(
            "--batch must be a multiple of --processes. "
            f"Received: --batch={parsed.batch}, --processes={parsed.processes}"
        )
    return parsed


def count(text):
    """Converts an argument to an integer of at least 0."""
    if not (text.isascii() and text.isdigit()):
        raise argparse.ArgumentTypeError(f"must be at least 0. Received: {text}")
    return int(text)


def start_all():
    """Starts the processes on this machine, and returns the first bad exit status."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    command = [sys.executable, __file__, *sys.argv[1:], "--address", address]
    started = [
        subprocess.Popen([*command, "--rank", str(rank)])
        for rank in range(arguments.processes)
    ]
    return next((code for code in [p.wait() for p in started] if code), 0)


arguments = parse_arguments()
if arguments.processes > 1 and not arguments.address:
    sys.exit(start_all())

os.environ["KERAS_BACKEND"] = "jax"
if arguments.devices:  # flags for JAX must be set before it is imported
    flags = os.environ.get("XLA_FLAGS", "")
    flags = re.sub(r"--xla_force_host_platform_device_count=\d+", "", flags)
    flag = f"--xla_force_host_platform_device_count={arguments.devices}"
    os.environ.update(XLA_FLAGS=f"{flags} {flag}".strip(), JAX_PLATFORMS="cpu")

import keras
import numpy as np

from keras_attention.distribution import check, distribute, layout_map
from keras_attention.models import CausalLM

WORDS, LENGTH = 64, 16


def main():
    if arguments.processes > 1:
        keras.distribution.initialize(
            arguments.address, arguments.processes, arguments.rank
        )
    keras.utils.set_random_seed(0)  # the same first weights in all processes
    model = CausalLM(
        WORDS, num_layers=2, dim=32, num_heads=4, intermediate_dim=128, dropout=0.0
    )
    model.compile(
        keras.optimizers.Adam(3e-3),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    )
    if len(keras.distribution.list_devices()) > 1:
        use_all_devices(model)

    # Each process gives its own part of each batch.
    size = arguments.batch // arguments.processes
    tokens = sentences(arguments.steps * arguments.batch)
    tokens = tokens.reshape(arguments.steps, arguments.processes, size, -1)
    tokens = tokens[:, arguments.rank].reshape(-1, LENGTH + 1)
    history = model.fit(
        {"tokens": tokens[:, :-1]},
        tokens[:, 1:],
        batch_size=size,
        shuffle=False,
        verbose=0,
        callbacks=[keras.callbacks.LambdaCallback(on_train_batch_end=show)],
    )
    say(f"mean loss: {history.history['loss'][0]:.5f}")
    prompt = np.array([[1, 4, 16]])
    written = model.generate(prompt, max_length=6)
    # All processes save, each to its own file: Keras uses all devices while it saves.
    arguments.out.mkdir(parents=True, exist_ok=True)
    path = arguments.out / f"model_{arguments.rank}.keras"
    model.save(path)
    keras.distribution.set_distribution(None)
    again = keras.saving.load_model(path)
    if not np.array_equal(written, again.generate(prompt, max_length=6)):
        sys.exit("the model loaded on one device writes something else")
    say("saved, loaded on one device, and it writes the same")


def use_all_devices(model):
    """Splits batches over processes, and weights over the devices of each process."""
    devices = keras.distribution.list_devices()
    shape = (arguments.processes, len(devices) // arguments.processes)
    mesh = keras.distribution.DeviceMesh(shape, ("batch", "model"), devices)
    layout = layout_map(model, mesh)
    parallel = keras.distribution.ModelParallel(
        layout_map=layout,
        auto_shard_dataset=False,  # each process gives its own samples
    )
    keras.distribution.set_distribution(parallel)
    distribute(model)
    report = check(model, layout, batch_size=arguments.batch)
    say(f"{len(devices)} devices, {arguments.processes} processes")
    say(f"{report.size:,} bytes of weights, {report.size_per_device:,} a device")


def sentences(number):
    """Returns sequences (number, LENGTH + 1) in which a word tells the next one."""
    first = np.random.default_rng(0).integers(1, WORDS, (number, 1))
    powers = [pow(4, n, 61) for n in range(LENGTH + 1)]
    return (first * powers % 61 + 1).astype("int32")


def show(batch, logs):
    """Prints the mean loss so far at every 20th step."""
    if (batch + 1) % 20 == 0:
        say(f"step {batch + 1}: mean loss {logs['loss']:.5f}")


def say(text):
    """Prints a line, in the first process alone."""
    if arguments.rank == 0:
        print(text, flush=True)


if __name__ == "__main__":
    main()
