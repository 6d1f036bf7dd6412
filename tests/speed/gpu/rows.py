"""The rows of the command `gpu`, those that matter most first."""

from __future__ import annotations

import importlib
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from studies.command_line import UsageError

MODULES = {"core": "heads", "masks": "heads", "layers": "layers", "models": "models"}
MODES = {"fwd+bwd": "with gradients", "fwd": "forward"}
LENGTHS, WIDTHS = (512, 1024, 2048, 4096, 8192, 16384), (64, 128)
TOKENS, WIDTH = 16384, 2048
PADDED, SCATTERED = "padding 25 %", "scattered 25 %"
MASKS = (PADDED, "texts", "padding 50 %", "window", "ALiBi", SCATTERED)
CAUSAL = (f"{PADDED}, causal", f"{SCATTERED}, causal")
# Rank, name, sizes, toy sizes, what a call processes
MODELS = """
0|MemN2N|B32 V190 d50 M50 L12|B4 V22 d8 M5 L4|questions
0|AttentionRNN|B32 T30 S30 U128|B2 T3 S4 U8|tokens
0|CausalLM, fit|B16 T1024 D768 H12 F3072 L12 V32768 N4|B2 T8 D16 H2 F32 L2 V64 N2|tokens
1|CausalLM, generate|B8 T128 S16 D256 L4 H4 V8192|B2 T4 S4 D16 L2 H2 V64|tokens
1|retrieval|T64 S10000000 D64|T4 S1000 D8|queries
1|additive score|B8 T1024 U256|B2 T16 U8|tokens
1|DNC|B16 T64 M64 W32 R4 U128 D16|B2 T4 M8 W4 R2 U8 D4|steps
1|Hopfield|B8 T2048 H16 E64|B2 T16 H2 E8|tokens
1|fast weights|B8 T2048 H16 E64|B2 T16 H2 E8|tokens
"""
OPTIONS: dict[str, dict[str, Any]] = {
    "additive score": {"mode": "fwd+bwd"},
    "DNC": {"compiler": "default"},
    "Hopfield": {"mode": "fwd+bwd", "steps": 3, "of": "layer"},
    "fast weights": {"mode": "fwd+bwd", "decay": "head"},
}


@dataclass(frozen=True)
class Row:
    """A row: what is measured, at one size.

    Attributes:
        group: A key of `MODULES`.
        name: What it is, in words. No other row of the group has this name.
        sizes: Sizes and options for the module that makes the sides.
        rank: Rows of a smaller rank are measured first.
        dtype: The dtype of the products, "bfloat16" or "float32".
        amount: How many of what a call processes, or None.
    """

    group: str
    name: str
    sizes: dict[str, Any]
    rank: int
    dtype: str = "bfloat16"
    amount: tuple[int, str] | None = None

    @property
    def key(self) -> str:
        """Returns the group and the name."""
        return f"{self.group}: {self.name}"

    @property
    def module(self) -> Any:
        """Returns the module with `make` and `steps` of the row."""
        return importlib.import_module(f"speed.gpu.{MODULES[self.group]}")

    def runs_on(self, backend: str) -> bool:
        """Returns whether the row is one of a backend: TensorFlow has few."""
        few = self.group == "layers" and "replayed" not in self.sizes
        return backend != "tensorflow" or few or self.name == "CausalLM, fit"


def rows(quick: bool = False) -> list[Row]:
    """Returns all rows, by rank. With `quick`, they are fewer and have toy sizes."""
    return sorted([*_attention(quick), *_models(quick)], key=lambda row: row.rank)


def select(parts: Sequence[str] | None, quick: bool, backend: str) -> list[Row]:
    """Returns the rows of a backend whose key contains one of the texts.

    Raises:
        UsageError: If no row is left.
    """
    every = [row for row in rows(quick) if row.runs_on(backend)]
    chosen = [r for r in every if not parts or any(part in r.key for part in parts)]
    if not chosen:
        keys = "\n".join(row.key for row in every)
        raise UsageError(f"--rows must be parts of keys of rows, which are:\n{keys}")
    return chosen


def named(what: str, mask: str, mode: str) -> str:
    """Returns the name of a row of attention."""
    return f"{what}, {'no mask' if mask == 'none' else mask}, {MODES[mode]}"


def _attention(quick: bool) -> list[Row]:
    """Returns the rows of attention over heads, and of layers."""
    layer = {"B": 8, "T": 2048, "D": 1024, "H": 16, "F": 4096, "of": "layer"}
    tiny = {"B": 1, "T": 16, "D": 64, "H": 8, "F": 256, "of": "layer", "replayed": 1}
    heads: dict[str, Any] = {"B": 8, "T": 2048, "H": 16, "E": 128}
    causal: tuple[str, ...] = CAUSAL
    tokens, every, grid = TOKENS, WIDTH, [LENGTHS, WIDTHS]
    if quick:
        layer |= {"B": 2, "T": 16, "D": 16, "H": 2, "F": 32}
        heads, causal = {"B": 2, "T": 32, "H": 2, "E": 8, "window": 8}, CAUSAL[:1]
        tokens, every, grid = 128, 16, [(32,), (8,)]
    kinds: list[tuple[int, str, dict[str, Any], Sequence[str]]] = [
        (0, "masks", heads, MASKS[:2]),
        (1, "masks", heads, (*MASKS[2:], *causal)),
        (0, "MultiHeadAttention", layer, ("none", PADDED, "causal")),
        (1, "TransformerEncoderBlock", {**layer, "of": "block"}, ("none", PADDED)),
        (0, "a tiny MultiHeadAttention", tiny, ("none",)),
    ]
    if not quick:
        kinds.append((1, "masks", {**heads, "B": 2, "T": 8192}, ("window",)))
        kinds.append((3, "masks", {**heads, "B": 32, "T": 512}, (PADDED, SCATTERED)))
    for length, width in itertools.product(*grid):
        sizes = {"B": tokens // length, "T": length, "H": every // width, "E": width}
        rank = 2 if width == 64 else int(length not in (2048, 16384))
        kinds.append((rank, "core", sizes, ("causal", "none")))
    result = []
    for rank, what, sizes, masks in kinds:
        group, amount = (what, None) if "E" in sizes else ("layers", "tokens")
        if "E" in sizes:
            what = f"T = {sizes['T']:,}"
            what += f", E = {sizes['E']}" if group == "core" else ""
        for n, mask in enumerate(masks):
            both = not quick or group == "core"
            for mode in MODES if both else [*MODES][1 - n % 2 :: 2]:
                later = rank + (mode == "fwd") + (group == "core" and mask == "none")
                row = {**sizes, "mask": mask, "mode": mode}
                count = (sizes["B"] * sizes["T"], amount) if amount else None
                name = named(what, mask, mode)
                result.append(Row(group, name, row, later, amount=count))
    return result


def _models(quick: bool) -> list[Row]:
    result = []
    for line in MODELS.strip().split("\n"):
        rank, name, *texts, what = line.split("|")
        sizes: dict[str, Any] = {x[0]: int(x[1:]) for x in texts[quick].split()}
        count = 1 if what == "questions" else sizes["T"]
        count *= sizes.get("B", 1) * sizes.get("N", 1)
        sizes |= {"model": name, **OPTIONS.get(name, {})}
        dtype = "bfloat16" if name == "CausalLM, fit" else "float32"
        result.append(Row("models", name, sizes, int(rank), dtype, (count, what)))
    return result
