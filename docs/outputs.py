"""Runs the code of pages, and compares what it prints with what the pages show.

`KERAS_BACKEND=torch python docs/outputs.py PAGE…` runs pages, and writes into them what
they do not show yet, or show wrongly. The outputs on the pages are those of torch.

A page shows what a call of `print` prints behind the call, `print(x)  # 3`. All other
output of a block of code is in a block of ```text that follows it. The texts must be
the same. What is printed after a training differs between processors: there, a number
with decimals or a % may differ by 5 units of its last digit or by 5 %, but a number
below 1 by 0.1 at most.
In a block of ```console, in place of ```text, every number may differ: it is for times.
"""

import ast
import contextlib
import inspect
import io
import os
import re
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

FENCE = re.compile(
    r"^(?P<skip><!-- not run: [^\n]+ -->\n)?```(?P<language>\w*)\n(?P<code>.*?)^```$",
    re.M | re.S,
)
OUTPUT = re.compile(
    r"\n+```(?P<language>text|console)\n(?P<text>.*?)^```$", re.M | re.S
)
CLAIM = re.compile(r"  # (.*)$")
NUMBER = re.compile(r"[-−]?\d+(?:\.\d+)?(?:e[+-]?\d+)?(?: ?%)?")
COLUMNS = 88


class Block(NamedTuple):
    """A block of Python of a page, with the output that the page shows below it."""

    line: int  # of the page, where its code begins
    code: str
    runs: bool
    end: int  # the position in the page behind it
    output: re.Match | None

    def prints(self):
        """The calls of `print`, as (line, what the page shows behind it or None)."""
        lines = self.code.splitlines()
        for node in ast.walk(ast.parse(self.code)):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "print":
                claim = CLAIM.match(lines[node.end_lineno - 1][node.end_col_offset :])
                yield self.line + node.lineno - 1, claim and claim[1]


class Printed(NamedTuple):
    """A text that a page has printed."""

    line: int | None  # of the call of `print`, or None if something else wrote it
    text: str
    trained: bool  # whether anything was trained before


def blocks(text):
    """The blocks of Python of a page."""
    for fence in FENCE.finditer(text):
        if fence["language"] == "python":
            line = text.count("\n", 0, fence.start("code")) + 1
            output = OUTPUT.match(text, fence.end())
            yield Block(line, fence["code"], not fence["skip"], fence.end(), output)


def unshown(text):
    """The lines of the calls of `print` whose output a page does not show.

    A function that prints is left out: its output is where it is called.
    """
    for block in blocks(text):
        if block.runs and not block.output:
            inner = set()
            for node in ast.walk(ast.parse(block.code)):
                if isinstance(node, ast.FunctionDef):
                    inner.update(range(node.lineno, node.end_lineno + 1))
            for line, claim in block.prints():
                if claim is None and line - block.line + 1 not in inner:
                    yield line


def alike(shown, printed, trained=False, free=False):
    """Whether a page shows what was printed.

    Args:
        shown: the text of the page.
        printed: what the code printed.
        trained: whether anything was trained before.
        free: whether all numbers may differ.
    """
    if not (trained or free):
        pair = (shown, printed)
        return len({"\n".join(map(str.rstrip, t.splitlines())) for t in pair}) == 1
    words, others = (" ".join(NUMBER.sub("#", t).split()) for t in (shown, printed))
    numbers = zip(NUMBER.findall(shown), NUMBER.findall(printed))
    near = (is_near(*pair) for pair in numbers)
    return words == others and (free or all(near))


def is_near(shown, printed):
    """Whether two numbers, as text, differ little; integers without a %, not at all."""
    if not re.search("[.e%]", shown + printed):
        return shown == printed
    mantissa, _, exponent = shown.rstrip(" %").partition("e")
    unit = 10.0 ** (int(exponent or 0) - len(mantissa.partition(".")[2]))
    a, b = (float(t.rstrip(" %").replace("−", "-")) for t in (shown, printed))
    largest = max(abs(a), abs(b))
    most = 0.1001 if largest <= 1 and "%" not in shown else float("inf")
    return abs(a - b) <= min(max(5.001 * unit, 0.05 * largest), most)


def run(text, name, whole=True):
    """Runs the code of a page from top to bottom.

    Args:
        text: the page.
        name: what errors call it.
        whole: if False, each `fit` ends after two steps, and later blocks assert
            nothing.

    Returns:
        Each block that was run, with what it printed: (`Block`, a list of `Printed`).
    """
    trained, printed, written = [], [], io.StringIO()

    def take():
        """Moves what something else than the page's `print` has written."""
        if written.getvalue():
            printed.append(
                Printed(None, written.getvalue().rstrip("\n"), bool(trained))
            )
            written.seek(0)
            written.truncate()

    def note(*values, sep=" "):
        take()
        text = sep.join(map(str, values))
        printed.append(Printed(sys._getframe(1).f_lineno, text, bool(trained)))

    results, space = [], {"__name__": "__main__", "print": note}
    with _fit_replaced(trained, whole):
        for block in blocks(text):
            if block.runs:
                # optimize=1: no `assert` statements about what has hardly trained.
                optimize = int(bool(trained) and not whole)
                code = "\n" * (block.line - 1) + block.code
                code = compile(code, name, "exec", optimize=optimize)
                with contextlib.redirect_stdout(written):
                    exec(code, space)
                take()
                results.append((block, printed[:]))
                printed.clear()
    return results


@contextlib.contextmanager
def _fit_replaced(trained, whole):
    """Notes in `trained` that `fit` was called, and ends it early if not `whole`."""
    import keras_attention  # noqa: F401 - it chooses a backend that is installed

    # isort: split
    import keras

    fit, signature = keras.Model.fit, inspect.signature(keras.Model.fit)

    class TwoSteps(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            self.model.stop_training = batch > 0

    def replaced(*arguments, **options):
        trained.append(True)
        if whole:
            return fit(*arguments, **options)
        call = signature.bind(*arguments, **options)
        call.apply_defaults()
        call.arguments["epochs"] = call.arguments["initial_epoch"] + 1
        callbacks = keras.tree.flatten(call.arguments["callbacks"] or [])
        call.arguments["callbacks"] = [*callbacks, TwoSteps()]
        return fit(*call.args, **call.kwargs)

    keras.Model.fit = replaced
    try:
        yield
    finally:
        keras.Model.fit = fit


def compared(results, whole=True):
    """Compares what a page shows with what was printed.

    Args:
        results: what `run` returned.
        whole: as in `run`. If False, what was printed after a training is left out.

    Returns:
        (block, line or None for the output below it, what the page shows or None, what
        was printed, whether they are alike), in the order of the page.
    """
    claims = {line: claim for block, _ in results for line, claim in block.prints()}
    comparisons = []
    for block, printed in results:
        below = [p for p in printed if claims.get(p.line) is None]
        for line, text, trained in printed:
            if claims.get(line) is not None and (whole or not trained):
                same = alike(claims[line], text, trained)
                comparisons.append((block, line, claims[line], text, same))
        trained = any(p.trained for p in below)
        shown = block.output and block.output["text"]
        text = "".join(f"{p.text}\n" for p in below)
        if (below and shown is None) or (whole or not trained):
            free = block.output and block.output["language"] == "console"
            same = alike(shown or "", text, trained, free)
            comparisons.append((block, None, shown, text, same))
    return comparisons


def written(text, results):
    """A page that shows what `results` printed.

    If each text is one line that fits behind its call of `print`, it is written there.
    """
    lines = text.splitlines(keepends=True)
    texts = {}  # by the line of the call
    for _, printed in results:
        for line, output, _ in printed:
            texts.setdefault(line, []).append(output)
    for block, line, shown, printed, same in reversed(compared(results)):
        if same:
            continue
        if line is not None:
            start = lines[line - 1].rindex(f"  # {shown}")
            lines[line - 1] = f"{lines[line - 1][:start]}  # {printed}\n"
            continue
        calls = {line for line, claim in block.prints() if claim is None}
        behind = {
            line: f"{lines[line - 1].rstrip()}  # {''.join(texts[line])}"
            for line in calls
            if len(texts.get(line, ())) == 1 and lines[line - 1].rstrip().endswith(")")
        }
        once = "".join(f"{texts[line][0]}\n" for line in sorted(behind)) == printed
        fits = all(len(t) <= COLUMNS and "\n" not in t for t in behind.values())
        if behind and once and fits and not block.output:
            for line, changed in behind.items():
                lines[line - 1] = f"{changed}\n"
            continue
        start = block.line + block.code.count("\n")  # of the line below the code
        count = block.output[0].count("\n") if block.output else 0
        language = block.output["language"] if block.output else "text"
        lines[start : start + count] = (
            [f"\n```{language}\n{printed}```\n"] if printed else []
        )
    return "".join(lines)


def main(pages):
    """Writes what pages print into them."""
    os.environ["MPLBACKEND"] = "agg"
    for page in map(Path, pages):
        text, here = page.read_text("utf-8"), Path.cwd()
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)  # pages write files
            results = run(text, page.name)
            os.chdir(here)
        new = written(text, results)
        if page.read_text("utf-8") != text:
            raise RuntimeError(f"{page} was edited while it ran.")
        page.write_text(new, "utf-8")
        print(f"{page}: {'written' if new != text else 'shows its outputs'}")


if __name__ == "__main__":
    main(sys.argv[1:])
