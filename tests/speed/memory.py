"""The command `memory`: one forward and backward call on a long sequence.

It prints by how much the resident set grows, with what compiling takes, and not
counting the inputs. `core` is the operation of `compare/attention_core.py`, `window`
the layer of `compare/attention_window.py`.
"""

from __future__ import annotations

import argparse
import os

from speed.compare import BACKENDS, attention_core, attention_window, backends
from studies.command_line import UsageError

LENGTHS = {"core": 16384, "window": attention_window.SIZES["T"]}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's options to an `argparse` parser."""
    add = parser.add_argument
    add("what", choices=tuple(LENGTHS))
    add("--backend", choices=BACKENDS, required=True)
    add("--length", type=int, help=f"default: {LENGTHS}")
    add("--mask", choices=attention_core.MASKS, default="none", help="of core")
    add("--compiler", choices=("xla",), help="of core on TensorFlow")
    add("--of", choices=("ours", "keras.ops", "torch"), default="ours", help="of core")


def main(args: argparse.Namespace) -> int:
    """Measures the call and prints the bytes."""
    if args.of == "torch" and args.backend != "torch":
        raise UsageError(f"--of torch needs --backend torch. Received: {args.backend}")
    if args.what == "window" and (args.of, args.mask) != ("ours", "none"):
        raise UsageError("window measures our layer, with its mask: no --of, no --mask")
    os.environ["KERAS_BACKEND"] = args.backend
    from speed.compare import worker  # it imports Keras

    length = args.length or LENGTHS[args.what]
    scratch = None
    if args.what == "core":
        sizes = {**attention_core.LONG, "T": length}
        sizes |= {"mask": args.mask, "compiler": args.compiler}
        made = attention_core.make(sizes, args.backend)
        call = made.calls[args.of]
        scratch = made.memory[args.of]() if args.of in made.memory else None
        name = f"{args.of} T={length} mask={args.mask}"
    else:
        sizes = {**attention_window.SIZES, "T": length}
        sizes |= {"extra": "causal", "mode": "fwd+bwd"}
        call = attention_window.call(sizes, args.backend)
        name = f"T={length} window={sizes['window']}"
    grown = worker.resident_growth(backends.blocking(call))
    print(
        f"{args.backend} {name}: resident set grows by {grown} bytes, with what "
        f"compiling takes; scratch {scratch}"
    )
    return 0
