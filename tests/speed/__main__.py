"""Starts a measurement: `python tests/speed COMMAND …`."""

import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:1] = [str(ROOT / "tests"), str(ROOT / "examples")]  # for `speed`, `studies`
from speed.command_line import main

if __name__ == "__main__":
    sys.exit(main())
