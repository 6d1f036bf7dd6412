"""Opens the live page in the browser, on this computer alone.

python -m keras_attention.explore                       the page with small networks
python -m keras_attention.explore --model mine.keras    also your own network
python -m keras_attention.explore --port 8000           at this port
"""

from __future__ import annotations

import argparse
import os
import pathlib
import socket
import sys

from keras_attention.explore.examples import STORIES
from keras_attention.explore.gradio import gradio_or_error
from keras_attention.explore.worker import StartError, Worker


def main(arguments: list[str] | None = None) -> int:
    """Runs the page until it is stopped by Ctrl-C; returns the exit status."""
    parser = argparse.ArgumentParser(
        "python -m keras_attention.explore",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--model",
        type=pathlib.Path,
        metavar="FILE.keras",
        help="your own model; the page shows its attention for ids that you type in",
    )
    parser.add_argument(
        "--port", type=int, help="the port; by default the first free one from 7860"
    )
    parser.add_argument(
        "--no-browser", action="store_true", help="do not open the browser"
    )
    args = parser.parse_args(arguments)
    if args.model is not None and not args.model.is_file():
        parser.error(f"--model must name a file. Received: {args.model}")
    if args.port is not None and not 1 <= args.port <= 65535:
        parser.error(f"--port must be from 1 to 65535. Received: {args.port}")
    try:
        _check_port(args.port)
    except OSError as error:
        print(f"Port {args.port} cannot be used: {error}", file=sys.stderr)
        return 1
    # The networks load in their process while this one imports Gradio.
    first = ("story", *STORIES[0]) if args.model is None else ()
    try:
        with Worker(*first) as worker:
            try:
                gradio_or_error()
            except ImportError as error:
                print(error, file=sys.stderr)
                return 1
            from keras_attention.explore import page

            try:
                page.launch(worker, args.model, args.port, not args.no_browser)
            except StartError as error:
                print(error, file=sys.stderr)
                return 1
    except KeyboardInterrupt:  # before the page is served
        return 130
    return 0


def _check_port(port: int | None) -> None:
    """Raises an OSError if a port cannot be used."""
    if port is None:
        return
    with socket.socket() as probe:
        if os.name == "posix":  # a port that was closed a moment ago is free
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind(("127.0.0.1", port))


if __name__ == "__main__":
    sys.exit(main())
