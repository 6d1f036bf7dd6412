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
    every = [*_core(quick), *_masks(quick), *_layers(quick), *_models(quick)]
    return sorted(every, key=lambda row: row.rank)


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


def core_name(length: int, width: int, mask: str, mode: str) -> str:
    """Returns the name of a row of attention without padding."""
    return f"T = {length:,}, E = {width}, {words(mask)}, {MODES[mode]}"


def words(mask: str) -> str:
    """Returns the name of a mask on the page."""
    return "no mask" if mask == "none" else mask


def _core(quick: bool) -> list[Row]:
    tokens, every = (128, 16) if quick else (TOKENS, WIDTH)
    grid = [(32,), (8,)] if quick else [LENGTHS, WIDTHS]
    found = []
    for size in itertools.product(*grid, ("causal", "none"), MODES):
        length, width, mask, mode = size
        sizes = {"B": tokens // length, "T": length, "H": every // width, "E": width}
        first = width != 64 and mask == "causal"
        rank = 2 if not first else 0 if length in (2048, 16384) else 1
        sizes |= {"mask": mask, "mode": mode}
        found.append(Row("core", core_name(*size), sizes, rank))
    return found


def _masks(quick: bool) -> list[Row]:
    base = {"B": 8, "T": 2048, "H": 16, "E": 128}
    kinds = [(n, base, 0 if n in MASKS[:2] else 1) for n in (*MASKS, *CAUSAL)]
    kinds += [("window", {**base, "T": 8192, "B": 2}, 1)]
    kinds += [(n, {**base, "T": 512, "B": 32}, 3) for n in (PADDED, SCATTERED)]
    if quick:
        base = {"B": 2, "T": 32, "H": 2, "E": 8, "window": 8}
        kinds = [(name, base, 1) for name in (*MASKS, CAUSAL[0])]
    return [
        Row(
            *("masks", f"{mask}, T = {size['T']:,}, {MODES[mode]}"),
            *({**size, "mask": mask, "mode": mode}, rank + 2 * (mode == "fwd")),
        )
        for n, (mask, size, rank) in enumerate(kinds)
        for mode in _modes(quick, n)
    ]


def _modes(quick: bool, n: int) -> list[str]:
    """Returns both modes; of a quick run, those in turn."""
    return [*MODES][1 - n % 2 :: 2] if quick else [*MODES]


def _layers(quick: bool) -> list[Row]:
    size = {"B": 8, "T": 2048, "D": 1024, "H": 16, "F": 4096}
    tiny = {"B": 1, "T": 16, "D": 64, "H": 8, "F": 256, "replayed": 1}
    if quick:
        size = {"B": 2, "T": 16, "D": 16, "H": 2, "F": 32}
    kinds = [
        ("MultiHeadAttention", "layer", size, ("none", PADDED, "causal"), 0),
        ("TransformerEncoderBlock", "block", size, ("none", PADDED), 1),
        ("a tiny MultiHeadAttention", "layer", tiny, ("none",), 0),
    ]
    return [
        Row(
            *("layers", f"{title}, {words(mask)}, {MODES[mode]}"),
            {**sizes, "of": of, "mask": mask, "mode": mode},
            rank + (mode == "fwd") + (mask == "causal"),
            amount=(sizes["B"] * sizes["T"], "tokens"),
        )
        for title, of, sizes, masks, rank in kinds
        for n, mask in enumerate(masks)
        for mode in _modes(quick, n)
    ]


def _models(quick: bool) -> list[Row]:
    found = []
    for line in MODELS.strip().split("\n"):
        rank, name, *texts, what = line.split("|")
        sizes: dict[str, Any] = {x[0]: int(x[1:]) for x in texts[quick].split()}
        count = 1 if what == "questions" else sizes["T"]
        count *= sizes.get("B", 1) * sizes.get("N", 1)
        sizes |= {"model": name, **OPTIONS.get(name, {})}
        dtype = "bfloat16" if name == "CausalLM, fit" else "float32"
        found.append(Row("models", name, sizes, int(rank), dtype, (count, what)))
    return found
