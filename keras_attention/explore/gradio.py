"""Gradio, imported when the page is built, without its reports to the network."""

from __future__ import annotations

import os
from typing import Any


def gradio_or_error() -> Any:
    """Imports Gradio, with its analytics and its check for new versions switched off.

    Raises:
        ImportError: Gradio is not installed. The message says how to install it.
    """
    os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"
    os.environ["HF_HUB_DISABLE_TELEMETRY"] = "1"
    os.environ["HF_HUB_OFFLINE"] = "1"
    try:
        import gradio
    except ModuleNotFoundError as error:
        if error.name != "gradio":
            raise
        raise ImportError(
            "The live page needs Gradio, which is not installed: "
            'pip install "keras-attention-family[explore]"'
        ) from error
    return gradio
