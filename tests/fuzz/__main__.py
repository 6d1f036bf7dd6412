"""Calls every public layer and model with bad input, and counts what comes of it.

    KERAS_BACKEND=jax python tests/fuzz --seed 0 --count 5000 --to found.json
    KERAS_BACKEND=jax python tests/fuzz --seed 0 --case 17

The calls have wrong ranks, sizes and dtypes, NaN, invalid ids, empty batches, masks of
wrong shapes, swapped arguments and bad constructor arguments. An outcome is one of:

- right: an output that passes all oracles of `verdicts.py`;
- clear: an error of this package, or one of Keras' own checks of arguments;
- raw: an error of the backend or of Python;
- wrong: an output that an oracle rejects.

The first command counts them and prints each raw and each wrong case. It fails if a
case is wrong or if more than 2 % are raw. If the report exists, it goes on with it. The
second command repeats one case and prints its traceback.
"""

import argparse
import collections
import gc
import json
import os
import pathlib
import sys
import time
import traceback

TESTS = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS / "fuzz"), str(TESTS), str(TESTS.parent)]
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import mutations
import verdicts
from catalogue import ROWS

ORDER = ("right", "clear", "raw", "wrong")
MOST_RAW = 0.02  # the largest share of raw errors
BETWEEN = 250  # cases, after which compiled programs are thrown away


def run(options: argparse.Namespace) -> list[dict]:
    """Runs the cases; continues a report that another run began."""
    found = []
    if options.to is not None and options.to.exists():
        found = json.loads(options.to.read_text("utf-8"))
    rows = [row for row in ROWS if row.name.startswith(options.only)]
    start = time.perf_counter()
    for number in range(options.first + len(found), options.first + options.count):
        case = mutations.draw(options.seed, number, rows)
        verdict = verdicts.judge(case)
        found.append({"seed": options.seed, "case": number, "call": str(case)[:300]})
        found[-1].update(vars(verdict))
        if verdict.verdict in ("raw", "wrong"):
            print(_line(found[-1]), flush=True)
        if len(found) % BETWEEN == 0:
            _forget()
            seconds = time.perf_counter() - start
            print(f"{len(found)} cases, {seconds:.0f} s", file=sys.stderr, flush=True)
            _write(options.to, found)
    _write(options.to, found)
    return found


def _write(path: pathlib.Path | None, found: list[dict]) -> None:
    if path is not None:
        path.write_text(json.dumps(found, indent=1) + "\n", "utf-8")


def _forget() -> None:
    """Frees the programs that JAX has compiled, which take mappings of memory."""
    if keras.config.backend() == "jax":
        import jax

        jax.clear_caches()
    gc.collect()


def _line(one: dict) -> str:
    where = f" ({one['place']})" if one["place"] else ""
    return (
        f"{one['verdict']} --seed {one['seed']} --case {one['case']}  {one['call']}\n"
        f"    {one['reason']}{where}"
    )


def repeat(options: argparse.Namespace) -> int:
    """Runs one case and prints what comes of it, with the traceback of an error."""
    rows = [row for row in ROWS if row.name.startswith(options.only)]
    case = mutations.draw(options.seed, options.case, rows)
    verdict = verdicts.judge(case)
    print(case)
    try:
        verdicts.called(case, verdicts.made(case), case.inputs)
    except Exception:
        traceback.print_exc()
    print(verdict)
    return int(verdict.verdict in ("raw", "wrong"))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--case", type=int, help="repeat this case alone")
    parser.add_argument("--first", type=int, default=0, help="the first case")
    parser.add_argument("--count", type=int, default=5000, help="how many cases")
    parser.add_argument("--only", default="", help="rows whose names begin so: memn2n")
    parser.add_argument(
        "--to", type=pathlib.Path, help="a report; if it exists, it is continued"
    )
    options = parser.parse_args()
    keras.config.disable_traceback_filtering()
    if options.case is not None:
        return repeat(options)
    found = run(options)
    counts = collections.Counter(one["verdict"] for one in found)
    parts = [f"{counts[n]} {n} ({counts[n] / len(found):.1%})" for n in ORDER]
    print(f"{keras.config.backend()}, {len(found)} calls: {', '.join(parts)}")
    return int(counts["wrong"] > 0 or counts["raw"] > MOST_RAW * len(found))


if __name__ == "__main__":
    sys.exit(main())
