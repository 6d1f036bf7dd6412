"""The speed cases by name, and their selection."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from speed.compare import (
    additive,
    attention,
    attention_core,
    attention_masks,
    attention_rnn,
    attention_window,
    decoding,
    dnc,
    fast_weights,
    fit,
    generation,
    hopfield,
    memn2n,
    multi_head,
    packed,
    retrieval,
)
from speed.harness import Case
from studies.command_line import UsageError

BACKENDS = ("jax", "torch", "tensorflow")
CASES = {
    "attention_explicit": attention.explicit_cases(),
    "attention_core": attention_core.cases(),
    "attention_long": attention_core.long_cases(),
    "attention_masks": attention_masks.cases(),
    "attention_window": attention_window.cases(),
    "multi_head": multi_head.cases(),
    "additive": additive.cases(),
    "additive_long": additive.long_cases(),
    "attention_rnn": attention_rnn.cases(),
    "decoding": decoding.cases(),
    "generation": generation.cases(),
    "fast_weights": fast_weights.cases(),
    "memn2n_step": memn2n.cases(),
    "fit_epoch": fit.cases(),
    "retrieval": retrieval.cases(),
    "hopfield": hopfield.cases(),
    "dnc": dnc.cases(),
    "dnc_slots": dnc.slots_cases(),
    "packed": packed.cases(),
}
# The sizes in docs/results/speed.md, by case, without those compiled with XLA.
PAGE: dict[str, tuple[Mapping[str, Any], ...]] = {
    "memn2n_step": ({},),
    "fit_epoch": ({},),
    "attention_core": tuple(
        {"T": length, "mask": "none", "mode": "fwd"} for length in (16, 128, 512, 2048)
    ),
    "attention_long": ({"mask": "none"},),
    "multi_head": (
        {"T": 16, "D": 64},
        *(
            {"T": 512, "extra": extra, "mode": mode}
            for extra, mode in (
                *(("none", "fwd"), ("causal", "fwd"), ("none", "fwd+bwd")),
                *(("causal", "fwd+bwd"), ("training", "fwd+bwd")),
            )
        ),
    ),
    "attention_explicit": tuple(
        {"T": length, "mode": mode}
        for length in (16, 1024)
        for mode in ("fwd", "fwd+bwd")
    ),
    "additive": ({"T": 256},),
    "attention_rnn": ({},),
    "dnc": ({},),
    "decoding": ({"U": 128},),
    "generation": ({},),
    "retrieval": ({},),
    "hopfield": ({"of": "heads", "steps": 3},),
    "attention_masks": ({"mask": "texts"},),
    "packed": ({},),
    "fast_weights": ({"T": 2048, "decay": "head"},),
}


def select(
    names: Sequence[str] | None = None,
    sizes: Sequence[str] = (),
    quick: bool = False,
    page: bool = False,
    known: Mapping[str, Sequence[Case]] | None = None,
) -> list[Case]:
    """Selects cases by name and size.

    Args:
        names: Names of cases. Defaults to all cases.
        sizes: Strings "KEY=VALUE". Cases whose value for KEY is not VALUE are left out.
        quick: Whether to select only the cases of a quick run.
        page: Whether to select only the cases in docs/results/speed.md.
        known: Cases by name. Defaults to `CASES`.

    Returns:
        A list of `Case`.

    Raises:
        UsageError: If a name is unknown, a size has no "=", or no case is left.
    """
    known = CASES if known is None else known
    for name in names or ():
        if name not in known:
            raise UsageError(
                f"unknown case {name!r}. Known cases: {', '.join(sorted(known))}"
            )
    wanted = dict(_split(size) for size in sizes)
    chosen = [
        case
        for name in names or known
        for case in known[name]
        if _fits(case, wanted)
        and (case.quick or not quick)
        and (not page or on_page(case.name, case.sizes))
    ]
    if not chosen:
        raise UsageError(
            "no case is left with "
            f"case={list(names or known)}, size={list(sizes)}, quick={quick}, "
            f"page={page}"
        )
    return chosen


def on_page(name: str, sizes: Mapping[str, Any]) -> bool:
    """Returns whether docs/results/speed.md has a case of these sizes."""
    return sizes.get("compiler") != "xla" and any(
        {**sizes, **shown} == sizes for shown in PAGE.get(name, ())
    )


def _fits(case: Case, wanted: dict[str, str]) -> bool:
    values = ((str(case.sizes.get(key, value)), value) for key, value in wanted.items())
    return all(has == value for has, value in values)


def _split(size: str) -> tuple[str, str]:
    key, separator, value = size.partition("=")
    if not separator:
        raise UsageError(f"a size must look like T=256. Received: size={size!r}")
    return key, value
