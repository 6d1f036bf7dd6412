"""The sides of attention over heads on JAX."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
from jax import numpy as jnp

from speed.gpu import heads
from speed.gpu.heads import Form
from speed.gpu.masks import Mask

# On a CPU, the calls of cuDNN are run by XLA, which shows that they are right.
KERNEL = "cudnn" if jax.default_backend() == "gpu" else "xla"
FUSED, XLA = f"jax.nn, {KERNEL}", "jax.nn with a mask, xla"


def tensor(x: np.ndarray) -> jax.Array:
    """Returns an array of the device, in bfloat16."""
    return jnp.asarray(x).astype(jnp.bfloat16)


def laid_out(x: jax.Array, layout: str, valid: np.ndarray) -> jax.Array:
    """Returns an array (B, T, H, D) as it is."""
    return x


def alone(x: jax.Array, place: tuple) -> jax.Array:
    """Returns an array with the numbers of one place, and zeros elsewhere."""
    return jnp.zeros_like(x).at[place].set(x[place])


def extra(x: Any) -> Any:
    """Returns an array of the device."""
    return jnp.asarray(x)


def array(x: jax.Array) -> np.ndarray:
    """Returns an array in float32."""
    return np.asarray(x).astype("float32")


def explicit(mask: Mask, sizes: Any) -> Form:
    """Returns the softmax of stored scores, without or with a causal mask."""
    scale = sizes["D"] ** -0.5

    def attend(q: Any, k: Any, v: Any) -> Any:
        scores = jnp.einsum("bthd,bshd->bhts", q, k) * scale
        if mask.causal:
            t = jnp.arange(mask.length)
            scores = jnp.where(t[:, None] >= t, scores, -jnp.inf)
        return jnp.einsum("bhts,bshd->bthd", jax.nn.softmax(scores), v)

    return Form(attend)


def peers(mask: Mask, sizes: Any) -> tuple[dict[str, Form], dict[str, str]]:
    """Returns our form and what JAX offers for a mask, and what is left out."""
    attend, forms = jax.nn.dot_product_attention, {"ours": heads.ours(mask)}
    fused: dict[str, Any] = {"implementation": KERNEL, "is_causal": mask.causal}

    def with_mask(q: Any, k: Any, v: Any, m: Any) -> Any:
        return attend(q, k, v, mask=m, implementation="xla")

    if mask.hides:

        def with_lengths(q: Any, k: Any, v: Any, n: Any) -> Any:
            each = {"query_seq_lengths": n, "key_value_seq_lengths": n}
            return attend(q, k, v, **each, **fused)

        if mask.name.startswith("padding"):
            forms[FUSED] = Form(with_lengths, extras=(mask.lengths,))
        shown = heads.full(mask) if mask.causal else mask.valid[:, None, None]
        forms[XLA] = Form(with_mask, extras=(shown,))
    elif mask.name == "texts":
        forms[XLA] = Form(with_mask, extras=(heads.full(mask),))
    elif mask.slopes is not None:
        forms[FUSED] = Form(
            lambda q, k, v, b: attend(q, k, v, bias=b, **fused),
            extras=(heads.alibi(mask),),
        )
    else:
        if mask.name == "window":
            fused["local_window_size"] = (mask.window - 1, 0)
            forms[XLA] = Form(with_mask, extras=(heads.full(mask),))
        forms[FUSED] = Form(lambda q, k, v: attend(q, k, v, **fused))
    return forms, {}
