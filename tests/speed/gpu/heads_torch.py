"""The sides of attention over heads on torch."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch.nn.functional import scaled_dot_product_attention as sdpa

from speed.gpu import heads
from speed.gpu.heads import Form
from speed.gpu.masks import Mask

NESTED, FLEX = "SDPA, nested tensors", "flex_attention"


def tensor(x: np.ndarray) -> torch.Tensor:
    """Returns an array as a tensor of the device, in bfloat16."""
    return torch.from_numpy(x).to(_device()).to(torch.bfloat16)


def laid_out(x: torch.Tensor, layout: str, valid: np.ndarray) -> torch.Tensor:
    """Returns a copy of a tensor (B, T, H, D) in a layout."""
    if layout == "NHD":
        return x[extra(valid)]
    return x.transpose(1, 2).contiguous() if layout == "BHTD" else x.clone()


def alone(x: torch.Tensor, place: tuple) -> torch.Tensor:
    """Returns a tensor with the numbers of one place, and zeros elsewhere."""
    example, queries, head = place
    zeros, queries = torch.zeros_like(x), extra(queries)
    zeros[example, queries, head] = x[example, queries, head]
    return zeros


def extra(x: Any) -> Any:
    """Returns an array as a tensor of the device; others as they are."""
    if not isinstance(x, np.ndarray):
        return x
    if x.dtype.kind in "biu":
        return torch.from_numpy(np.ascontiguousarray(x)).to(_device())
    return torch.from_numpy(x.astype("float32")).to(_device(), torch.bfloat16)


def array(x: torch.Tensor) -> np.ndarray:
    """Returns a tensor as an array in float32."""
    return x.detach().float().cpu().numpy()


def _device() -> str:
    return "cuda" if torch.cuda.is_available() else "cpu"


def explicit(mask: Mask, sizes: Any) -> Form:
    """Returns the softmax of stored scores, without or with a causal mask."""
    scale = sizes["D"] ** -0.5

    def scores(q: Any, k: Any) -> Any:
        return q @ k.transpose(-1, -2) * scale

    if not mask.causal:
        return Form(lambda q, k, v: scores(q, k).softmax(-1) @ v, "BHTD")

    def causal(q: Any, k: Any, v: Any, allowed: Any) -> Any:
        return scores(q, k).masked_fill(~allowed, float("-inf")).softmax(-1) @ v

    return Form(causal, "BHTD", (heads.full(mask),))


def peers(mask: Mask, sizes: Any) -> tuple[dict[str, Form], dict[str, str]]:
    """Returns our form and what torch offers for a mask, and what is left out."""
    forms = {"ours": heads.ours(mask)}
    skipped: dict[str, str] = {}
    has_gpu = torch.cuda.is_available()
    if mask.name in ("none", "causal"):
        forms["SDPA"] = Form(
            lambda q, k, v: sdpa(q, k, v, is_causal=mask.causal), "BHTD"
        )
        return forms, skipped
    shown = heads.full(mask)
    if mask.hides and not mask.causal:
        shown = mask.valid[:, None, None]  # (B, 1, 1, T)
    elif mask.slopes is not None:
        bias = heads.alibi(mask).astype("float32")
        shown = np.where(shown, bias, -np.inf)
    forms["SDPA"] = Form(sdpa, "BHTD", (shown,))
    if mask.hides and mask.causal and not has_gpu:
        skipped[NESTED] = "a causal mask of nested tensors needs a GPU"
    elif mask.hides:
        forms[NESTED] = _nested(mask)
    elif has_gpu or sizes["mode"] == "fwd":
        forms[FLEX] = _flex(mask)
    else:
        skipped[FLEX] = "its gradients need a GPU"
    return forms, skipped


def _nested(mask: Mask) -> Form:
    """Returns SDPA of nested tensors, whose values are valid positions (N, H, D)."""
    make = torch.nested.nested_tensor_from_jagged
    offsets = extra(np.concatenate([[0], mask.lengths.cumsum()]).astype("int64"))
    longest = {"min_seqlen": int(mask.lengths.min())}
    longest["max_seqlen"] = int(mask.lengths.max())

    def attend(q: Any, k: Any, v: Any) -> Any:
        parts = (make(x, offsets, **longest).transpose(1, 2) for x in (q, k, v))
        return sdpa(*parts, is_causal=mask.causal).transpose(1, 2).values()

    return Form(attend, "NHD")


def _flex(mask: Mask) -> Form:
    """Returns flex_attention, compiled on a GPU. Its block mask is made before."""
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    ids, window = extra(mask.ids), mask.window
    length, batch = mask.length, len(mask.lengths)

    def causal(b: Any, h: Any, t: Any, s: Any) -> Any:
        return t >= s

    def near(b: Any, h: Any, t: Any, s: Any) -> Any:
        return (t >= s) & (t - s < window)

    def same(b: Any, h: Any, t: Any, s: Any) -> Any:
        return (t >= s) & (ids[b, t] == ids[b, s])

    rule = {"window": near, "texts": same}.get(mask.name, causal)
    examples = batch if mask.name == "texts" else None
    blocks = create_block_mask(rule, examples, None, length, length, _device())
    options: dict[str, Any] = {"block_mask": blocks}
    if mask.slopes is not None:
        slopes = torch.tensor(mask.slopes, dtype=torch.float32, device=_device())

        def alibi(score: Any, b: Any, h: Any, t: Any, s: Any) -> Any:
            return score - slopes[h] * (t - s)

        options["score_mod"] = alibi
    attend: Any = flex_attention
    if torch.cuda.is_available():
        torch._dynamo.reset()  # which compiles a function a few times only
        attend = torch.compile(flex_attention, dynamic=False)
    return Form(lambda q, k, v: attend(q, k, v, **options), "BHTD")
