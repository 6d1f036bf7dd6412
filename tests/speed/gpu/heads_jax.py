"""The peers of attention over heads on JAX."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax

from speed.gpu.heads import Form, alibi
from speed.gpu.masks import Mask

# On a CPU, the calls of cuDNN are run by XLA, which shows that they are right.
KERNEL = "cudnn" if jax.default_backend() == "gpu" else "xla"
FUSED, XLA = f"jax.nn, {KERNEL}", "jax.nn with a mask, xla"


def peers(mask: Mask, sizes: Any) -> dict[str, Callable[[], Form]]:
    """Returns what JAX offers for a mask."""
    attend = jax.nn.dot_product_attention
    fused: Any = partial(attend, implementation=KERNEL, is_causal=mask.causal)
    if mask.name == "window":
        fused = partial(fused, local_window_size=(mask.window - 1, 0))

    def with_lengths(q: Any, k: Any, v: Any, n: Any) -> Any:
        return fused(q, k, v, query_seq_lengths=n, key_value_seq_lengths=n)

    def with_mask(q: Any, k: Any, v: Any, m: Any) -> Any:
        return attend(q, k, v, mask=m, implementation="xla")

    def masked() -> Form:
        hides_keys = mask.hides and not mask.causal
        return Form(
            with_mask, (mask.valid[:, None, None] if hides_keys else mask.full(),)
        )

    if mask.name.startswith("padding"):
        return {FUSED: lambda: Form(with_lengths, (mask.lengths,)), XLA: masked}
    if mask.hides or mask.name == "texts":
        return {XLA: masked}
    if mask.slopes is not None:
        return {
            FUSED: lambda: Form(lambda q, k, v, b: fused(q, k, v, b), (alibi(mask),))
        }
    forms = {FUSED: lambda: Form(fused)}
    return {**forms, XLA: masked} if mask.name == "window" else forms
