"""Gradio, imported when the page is built, without its reports to the network."""

from __future__ import annotations

import gc
import os
import sys
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import ModuleType
from typing import Any


def gradio_or_error() -> Any:
    """Imports Gradio, with its analytics and its check for new versions switched off.

    Raises:
        ImportError: Gradio is not installed. The message says how to install it.
    """
    os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"
    os.environ["HF_HUB_DISABLE_TELEMETRY"] = "1"
    os.environ["HF_HUB_OFFLINE"] = "1"
    # Gradio asks for matplotlib's backend at each event, which would import pyplot.
    os.environ.setdefault("MPLBACKEND", "agg")
    collects = gc.isenabled()
    gc.disable()  # the import is faster without it
    sys.meta_path.insert(0, _StubFinder)
    try:
        import gradio
    except ModuleNotFoundError as error:
        if error.name != "gradio":
            raise
        raise ImportError(
            "The live page needs Gradio, which is not installed: "
            'pip install "keras-attention-family[explore]"'
        ) from error
    finally:
        sys.meta_path.remove(_StubFinder)
        if collects:
            gc.enable()
    return gradio


class _StubLoader(SourceFileLoader):
    """Loads `gradio.component_meta` without its writer of stub files.

    At each import, Gradio parses the source of all its components and writes `.pyi`
    files for editors: half the time of the import. No code reads these files.
    """

    def exec_module(self, module: ModuleType) -> None:
        super().exec_module(module)
        if "create_or_modify_pyi" in vars(module):
            vars(module)["create_or_modify_pyi"] = lambda *args: None


class _StubFinder:
    """Finds `gradio.component_meta` for `_StubLoader`, and nothing else."""

    @staticmethod
    def find_spec(name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if name != "gradio.component_meta":
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None and isinstance(spec.loader, SourceFileLoader):
            spec.loader = _StubLoader(spec.loader.name, spec.loader.path)
        return spec
