"""Starts the study of this folder."""

import pathlib
import sys

FOLDER = pathlib.Path(__file__).resolve().parent
sys.path[0] = str(FOLDER.parents[1])  # of the package `studies`
from studies.command_line import main

if __name__ == "__main__":
    sys.exit(main([FOLDER.name, *sys.argv[1:]]))
