"""The rows of the command `gpu`, those that matter most first."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from speed.harness import Step
from studies.command_line import UsageError

GROUPS = {
    "core": "attention of 16,384 tokens with 2,048 numbers each",
    "masks": "attention with masks",
    "layers": "layers in mixed_bfloat16",
    "models": "models and layers without peers, and steps of small models",
}
MODES = ("fwd", "fwd+bwd")
WORDS = {"fwd": "forward", "fwd+bwd": "with gradients"}
LENGTHS = (512, 1024, 2048, 4096, 8192, 16384)
TOKENS, WIDTH = 16384, 2048
FIRST_MASKS = ("padding 25 %", "texts")
MASKS = (*FIRST_MASKS, "padding 50 %", "window", "ALiBi", "scattered 25 %")
CAUSAL = ("padding 25 %, causal", "scattered 25 %, causal")


@dataclass(frozen=True)
class Row:
    """A row: what is measured, at one size.

    Attributes:
        group: A key of `GROUPS`.
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

    def make(self, backend: str) -> tuple[dict[str, Callable], dict[str, str]]:
        """Returns functions that build the sides, and why others are left out."""
        return self._module.make(backend, self.sizes)

    def steps(self) -> Sequence[Step]:
        """Returns the work of a call, for the floor; none if nobody has counted it."""
        sizes = self.sizes
        if self.group in ("core", "masks"):
            from speed.gpu import masks

            tensor = 2 * sizes["B"] * sizes["T"] * sizes["H"] * sizes["D"]
            moved = tensor * (4 if sizes["mode"] == "fwd" else 12)
            work = masks.flops(masks.Mask(sizes["mask"], sizes), sizes)
            return (Step(work, moved, (1, 1, 1, 1)),)
        if self.group == "layers":
            return self._module.steps(sizes)
        cases = {
            "additive score": ("additive", "_steps"),
            "AttentionRNN": ("attention_rnn", "_steps"),
            "CausalLM, generate": ("generation", "_steps"),
            "DNC": ("dnc", "_steps"),
            "fast weights": ("fast_weights", "_work"),
            "Hopfield": ("hopfield", "_work"),
            "MemN2N": ("memn2n", "_steps"),
            "retrieval": ("retrieval", "_steps"),
        }
        if sizes["of"] == "CausalLM, fit":
            return _steps_of_fit(sizes)
        module, name = cases[sizes["of"]]
        count = getattr(importlib.import_module(f"speed.compare.{module}"), name)
        return count() if module == "generation" else count(sizes)

    @functools.cached_property
    def _module(self) -> Any:
        name = "heads" if self.group in ("core", "masks") else self.group
        return importlib.import_module(f"speed.gpu.{name}")


def _steps_of_fit(sizes: dict[str, Any]) -> tuple[Step, ...]:
    """Counts the products of the blocks and of the logits, three times each."""
    from speed.gpu import layers

    rows = sizes["B"] * sizes["T"]
    logits = 3 * 2 * rows * sizes["D"] * sizes["V"]
    moved = 3 * 2 * rows * sizes["V"]
    block = {**sizes, "of": "block", "mask": "causal", "mode": "fwd+bwd"}
    once = (*layers.steps(block) * sizes["L"], Step(logits, moved, (1, 1, 1, 1)))
    return once * sizes["steps"]


def rows(quick: bool = False) -> list[Row]:
    """Returns all rows, by rank. With `quick`, they are fewer and have toy sizes."""
    every = [*_core(quick), *_masks(quick), *_layers(quick), *_models(quick)]
    return sorted(every, key=lambda row: row.rank)


def select(parts: Sequence[str] | None, quick: bool = False) -> list[Row]:
    """Returns the rows whose key contains one of the texts.

    Raises:
        UsageError: If no row is left.
    """
    every = rows(quick)
    chosen = [r for r in every if not parts or any(part in r.key for part in parts)]
    if not chosen:
        keys = "\n".join(row.key for row in every)
        raise UsageError(f"--rows must be parts of keys of rows, which are:\n{keys}")
    return chosen


def _core(quick: bool) -> list[Row]:
    tokens, width = (128, 16) if quick else (TOKENS, WIDTH)
    found = []
    for length in (32,) if quick else LENGTHS:
        for head in (8,) if quick else (64, 128):
            for causal in (True, False):
                for mode in MODES:
                    sizes = {"group": "core", "B": tokens // length, "T": length}
                    sizes |= {"H": width // head, "D": head, "mode": mode}
                    sizes["mask"] = "causal" if causal else "none"
                    usual = head != 64 and causal
                    rank = 2 if not usual else 0 if length in (2048, 16384) else 1
                    name = f"T = {length:,}, D = {head}, "
                    name += f"{'causal' if causal else 'no mask'}, {WORDS[mode]}"
                    found.append(Row("core", name, sizes, rank))
    return found


def _masks(quick: bool) -> list[Row]:
    base = {"group": "masks", "B": 8, "T": 2048, "H": 16, "D": 128}
    kinds = [(name, base, 0 if name in FIRST_MASKS else 1) for name in MASKS]
    kinds += [(name, base, 1) for name in CAUSAL]
    kinds += [("window", {**base, "T": 8192, "B": 2}, 1)]
    kinds += [(n, {**base, "T": 512, "B": 32}, 3) for n in (MASKS[0], MASKS[-1])]
    if quick:
        base = {**base, "B": 2, "T": 32, "H": 2, "D": 8, "window": 8}
        kinds = [(name, base, 1) for name in (*MASKS, *CAUSAL[:1])]
    found = []
    for n, (mask, size, rank) in enumerate(kinds):
        for mode in MODES[n % 2 :: 2] if quick else MODES:
            name = f"{mask}, T = {size['T']:,}, {WORDS[mode]}"
            every = {**size, "mask": mask, "mode": mode}
            found.append(Row("masks", name, every, rank + (2 if mode == "fwd" else 0)))
    return found


def _layers(quick: bool) -> list[Row]:
    size = {"B": 8, "T": 2048, "D": 1024, "H": 16, "F": 4096}
    tiny = {"B": 1, "T": 16, "D": 64, "H": 8, "F": 256}
    if quick:
        size = {"B": 2, "T": 16, "D": 16, "H": 2, "F": 32}
    kinds = [
        ("MultiHeadAttention", "layer", size, ("none", "padding 25 %", "causal"), 0),
        ("TransformerEncoderBlock", "block", size, ("none", "padding 25 %"), 1),
        ("a tiny MultiHeadAttention", "layer", {**tiny, "replayed": 1}, ("none",), 0),
    ]
    found = []
    for title, of, sizes, masks, rank in kinds:
        for n, mask in enumerate(masks):
            for mode in MODES[n % 2 :: 2] if quick else MODES:
                where = "no mask" if mask == "none" else mask
                every = {**sizes, "of": of, "mask": mask, "mode": mode}
                later = (mode == "fwd") + (mask == "causal")
                amount = (sizes["B"] * sizes["T"], "tokens")
                name = f"{title}, {where}, {WORDS[mode]}"
                row = Row("layers", name, every, rank + later, amount=amount)
                found.append(row)
    return found


def _models(quick: bool) -> list[Row]:
    def size(text: str) -> dict[str, Any]:
        pairs = (part.split("=") for part in text.split())
        return {name: int(number) for name, number in pairs}

    table = [  # rank, name, sizes, toy sizes, what a call processes
        (0, "MemN2N", "B=32 V=190 d=50 M=50 L=12", "B=4 V=22 d=8 M=5 L=4", "questions"),
        (0, "AttentionRNN", "B=32 T=30 S=30 U=128", "B=2 T=3 S=4 U=8", "tokens"),
        (
            0,
            "CausalLM, fit",
            "B=16 T=1024 D=768 H=12 F=3072 L=12 V=32768 steps=4",
            "B=2 T=8 D=16 H=2 F=32 L=2 V=64 steps=2",
            "tokens",
        ),
        (
            1,
            "CausalLM, generate",
            "B=8 T=128 S=16 D=256 L=4 H=4 V=8192",
            "B=2 T=4 S=4 D=16 L=2 H=2 V=64",
            "tokens",
        ),
        (1, "retrieval", "T=64 S=10000000 D=64", "T=4 S=1000 D=8", "queries"),
        (1, "additive score", "B=8 T=1024 U=256", "B=2 T=16 U=8", "tokens"),
        (
            1,
            "DNC",
            "B=16 T=64 M=64 W=32 R=4 U=128 D=16",
            "B=2 T=4 M=8 W=4 R=2 U=8 D=4",
            "steps",
        ),
        (1, "Hopfield", "B=8 T=2048 H=16 E=64", "B=2 T=16 H=2 E=8", "tokens"),
        (1, "fast weights", "B=8 T=2048 H=16 E=64", "B=2 T=16 H=2 E=8", "tokens"),
    ]
    options: dict[str, dict[str, Any]] = {
        "additive score": {"mode": "fwd+bwd"},
        "Hopfield": {"mode": "fwd+bwd", "steps": 3},
        "fast weights": {"mode": "fwd+bwd", "decay": "head"},
    }
    found = []
    for rank, name, full, toy, what in table:
        sizes = size(toy if quick else full)
        count = sizes.get("B", 1) * sizes.get("steps", 1)
        count *= 1 if what == "questions" else sizes["T"]
        sizes |= {**options.get(name, {}), "of": name}
        dtype = "bfloat16" if name == "CausalLM, fit" else "float32"
        found.append(Row("models", name, sizes, rank, dtype, (count, what)))
    return found
