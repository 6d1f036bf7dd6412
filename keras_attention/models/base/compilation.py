"""How a model was compiled, for files that another backend may load."""

from __future__ import annotations

from typing import Any


class PortableCompilation:
    """A mixin for models: a file leaves `jit_compile="auto"` to who loads it.

    Keras saves what "auto" was on the backend of the writer. torch's compiler then runs
    for a model from JAX (42 s for the first `predict` of a `MemN2N`, 0.06 s without),
    and JAX does not compile a model from torch.
    """

    def get_compile_config(self) -> dict[str, Any]:
        model: Any = super()
        config: dict[str, Any] = model.get_compile_config()
        # Keras keeps no record of the argument, and has no public name for its choice.
        if config and config["jit_compile"] == model._resolve_auto_jit_compile():
            config["jit_compile"] = "auto"
        return config
