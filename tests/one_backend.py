"""Runs Python as in an environment with one backend, whatever is installed.

    python tests/one_backend.py torch SCRIPT [ARGUMENTS]    or -c CODE, or -m MODULE
    python tests/one_backend.py none SCRIPT                 without a backend

The other backends cannot be found or imported, also in processes that SCRIPT starts.
"""

import os
import pathlib
import sys

chosen, *command = sys.argv[1:]
if chosen not in ("jax", "torch", "tensorflow", "none"):
    sys.exit(f"must be jax, torch, tensorflow or none. Received: {chosen}")
# Python runs the file sitecustomize.py of this folder before anything else.
folder = str(pathlib.Path(__file__).resolve().with_suffix(""))
paths = os.pathsep.join(filter(None, [folder, os.environ.get("PYTHONPATH")]))
environment = {**os.environ, "PYTHONPATH": paths, "ONE_BACKEND": chosen}
os.execve(sys.executable, [sys.executable, *command], environment)
