"""The peers of attention over heads on torch."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
from keras import ops
from torch.nn.functional import scaled_dot_product_attention as sdpa

from speed.gpu.heads import Form, alibi
from speed.gpu.masks import Mask

HAS_GPU = torch.cuda.is_available()


def peers(mask: Mask, sizes: Any) -> dict[str, Callable[[], Form]]:
    """Returns what torch offers for a mask."""
    if mask.name in ("none", "causal"):
        fused = partial(sdpa, is_causal=mask.causal)
        return {"SDPA": lambda: _heads_first(fused)}
    forms: dict[str, Callable[[], Form]] = {"SDPA": partial(_masked, mask)}
    if mask.hides and (HAS_GPU or not mask.causal):
        forms["SDPA, nested tensors"] = partial(_nested, mask)
    elif not mask.hides and (HAS_GPU or sizes["mode"] == "fwd"):
        forms["flex_attention"] = partial(_flex, mask)
    return forms


def _heads_first(function: Callable[..., Any], *extras: Any) -> Form:
    """Returns the form of a function of tensors (B, H, T, E)."""
    return Form(
        function,
        extras,
        lambda x: x.transpose(1, 2).contiguous(),
        lambda x: x.transpose(1, 2),
    )


def _masked(mask: Mask) -> Form:
    if mask.hides and not mask.causal:
        return _heads_first(sdpa, mask.valid[:, None, None])  # (B, 1, 1, T)
    if mask.slopes is None:
        return _heads_first(sdpa, mask.full())
    hidden = ~ops.convert_to_tensor(mask.full())
    return _heads_first(sdpa, alibi(mask).masked_fill(hidden, -torch.inf))


def _nested(mask: Mask) -> Form:
    """Returns SDPA of nested tensors, whose values are valid positions (N, H, E)."""
    ends = np.concatenate([[0], mask.lengths.cumsum()]).astype("int64")
    offsets, valid = map(ops.convert_to_tensor, (ends, mask.valid))
    lengths = {"min_seqlen": int(mask.lengths.min())}
    lengths["max_seqlen"] = int(mask.lengths.max())
    make = partial(torch.nested.nested_tensor_from_jagged, offsets=offsets, **lengths)

    def attend(q: Any, k: Any, v: Any) -> Any:
        parts = (make(x).transpose(1, 2) for x in (q, k, v))
        return sdpa(*parts, is_causal=mask.causal).transpose(1, 2).values()

    def back(x: Any) -> Any:
        padded = x.new_zeros((*valid.shape, *x.shape[1:]))
        padded[valid] = x.detach()
        return padded

    return Form(attend, (), lambda x: x[valid], back)


def _flex(mask: Mask) -> Form:
    """Returns flex_attention, compiled on a GPU. Its block mask is made before."""
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    ids, window = ops.convert_to_tensor(mask.ids), mask.window

    def causal(b: Any, h: Any, t: Any, s: Any) -> Any:
        return t >= s

    def near(b: Any, h: Any, t: Any, s: Any) -> Any:
        return (t >= s) & (t - s < window)

    def in_text(b: Any, h: Any, t: Any, s: Any) -> Any:
        return (t >= s) & (ids[b, t] == ids[b, s])

    rule = {"window": near, "texts": in_text}.get(mask.name, causal)
    examples = len(mask.lengths) if mask.name == "texts" else None
    shape = examples, None, mask.length, mask.length
    blocks = create_block_mask(rule, *shape, device=ids.device)
    options: dict[str, Any] = {"block_mask": blocks}
    if mask.slopes is not None:
        slopes = ops.convert_to_tensor(mask.slopes.astype("float32"))
        options["score_mod"] = lambda score, b, h, t, s: score - slopes[h] * (t - s)
    attend: Any = flex_attention
    if HAS_GPU:
        torch._dynamo.reset()  # which compiles a function a few times only
        attend = torch.compile(flex_attention, dynamic=False)
    return _heads_first(partial(attend, **options))
