"""The folder of the checkout, and its modules outside the package: without Keras."""

import importlib.util
import pathlib

ROOT = pathlib.Path(__file__).resolve().parents[1]


def module_of_docs(name):
    """A module of docs/, which is not part of the package."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "docs" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
