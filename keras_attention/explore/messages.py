"""Messages to the reader, in place of a view."""

from __future__ import annotations

import html


def message(text: str) -> str:
    """Returns a message to the reader as HTML."""
    return f'<p class="explore-message" role="alert">{html.escape(text)}</p>'
