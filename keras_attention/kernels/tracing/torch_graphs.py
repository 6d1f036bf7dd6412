"""Graphs of torch operations, traced by one thread at a time.

`make_fx` patches torch for the whole process. If two threads trace at once, one of them
ends with an AssertionError.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

# No public API records operations on real values within milliseconds: `torch.export`
# takes seconds, and `torch.compile` adds guards to every call or needs a compiler.
from torch.fx.experimental.proxy_tensor import make_fx

_lock = threading.RLock()  # a traced function may itself trace another one


def graph_of(function: Callable, *args: Any, **options: Any) -> Any:
    """Returns the graph module of a call, from `make_fx` with the options."""
    with _lock:
        return make_fx(function, **options)(*args)
