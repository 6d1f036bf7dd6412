"""Starts the study: `python examples/studies/translation …`."""

import pathlib
import sys

sys.path[0] = str(pathlib.Path(__file__).resolve().parents[2])  # for `studies`
from studies.command_line import main

if __name__ == "__main__":
    sys.exit(main(["translation", *sys.argv[1:]]))
