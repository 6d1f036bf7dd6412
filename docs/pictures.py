"""Draws the pictures of the pages, as files beside the pages that show them.

A guide's code draws weights that it has computed. `python docs/pictures.py` runs the
guides below, writes what they drew to docs/pictures.json, and draws the files from it.
What is trained differs from backend to backend: it is that of JAX, and for it.png that
of torch, whose figures are on the page. Pictures of results are drawn from the files
beside their pages. docs/hops.png is drawn by its example.

`python docs/pictures.py --files` only draws the files that are not current, without
Keras. A file records a hash of its data and of the code that draws it.
tests/docs/test_docs.py fails if the data are not those of the guide, and
tests/docs/test_code_host.py fails if a file is not current. The drawings of
docs/drawings_*.py are files as well.
"""

import ast
import functools
import hashlib
import importlib
import io
import json
import re
import struct
import sys
import tokenize
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np

DOCS = Path(__file__).resolve().parent
ROOT = DOCS.parent
sys.path.insert(0, str(DOCS))  # where these files look for each other
sys.path += [str(ROOT / "examples"), str(ROOT / "tests")]  # for `studies` and `speed`
import drawings  # noqa: E402

KEPT = DOCS / "pictures.json"
GUIDES = (
    "words.md",
    "recurrence.md",
    "translate.md",
    "from-bags-to-hops.md",
    "dot-products.md",
    "transformer.md",
    "hops-are-layers.md",
    "hopfield.md",
    "fast-weights.md",
    "language-model.md",
    "dnc.md",
    "supporting-facts.md",
    "knowledge-base.md",
)
DRAWN_BY = {  # the modules of functions that are not of the package
    "plot_capacity": "studies.capacity.picture",
    "plot_curves": "studies.pictures",
    "plot_growth": "speed.growth",
    "plot_lengths": "studies.long_stories.picture",
    "plot_puzzle": "studies.blocks.drawing",
    "plot_recall": "studies.recall.picture",
}
FOLDERS = {"studies": ROOT / "examples", "speed": ROOT / "tests"}
CODE = re.compile(r"(?<!-->\n)^```python\n(.*?)^```$", re.M | re.S)  # and is to run


class Drawn:
    """What stands for a figure while a guide runs, and is noted when it is saved."""

    def __init__(self, saved, function, arguments, more):
        weights, *texts = arguments
        self.saved = saved
        self.call = {
            "function": function,
            "arguments": [kept_of(weights), *texts],
            "more": more,
        }

    def savefig(self, name):
        self.saved[f"guides/{name}"] = self.call


def kept_of(weights):
    """Weights as lists; of the trace of a memory all that it has, by name."""
    if hasattr(weights, "_asdict"):
        arrays = {
            k: x for k, x in weights._asdict().items() if isinstance(x, np.ndarray)
        }
        return {name: kept_of(x) for name, x in arrays.items()}
    return weights.astype("float64").round(2).tolist()


def drawn_by(guide, before=None):
    """What the code of a guide draws.

    Args:
        guide: the name of its file.
        before: a heading before which to stop; None for all of it.

    Returns:
        From the name of each picture to the function that draws it and its arguments.
    """
    from keras_attention import visualization

    saved = {}
    plots = {n: f for n, f in vars(visualization).items() if n.startswith("plot_")}
    text = (DOCS / "guides" / guide).read_text("utf-8")
    text = text if before is None else text.split(f"\n{before}")[0]
    space = {"__name__": "__main__", "print": lambda *values: None}
    try:
        for name in plots:
            setattr(
                visualization,
                name,
                lambda *given, _name=name, **more: Drawn(saved, _name, given, more),
            )
        for code in CODE.findall(text):
            exec(compile(code, guide, "exec"), space)
    finally:
        for name, plot in plots.items():
            setattr(visualization, name, plot)
    return saved


def measured():
    """What was measured once and is drawn in the pages of results."""
    from speed.gpu import report as gpu
    from speed.scale import report
    from studies.capacity import command as capacity
    from studies.forgetting import command as forgetting
    from studies.lengths import report as lengths_report
    from studies.long_stories import report as stories
    from studies.recall import report as recall_report

    def raw(file):
        return json.loads((ROOT / file).read_text("utf-8"))

    def runs_of(topic):
        name = topic.replace("_", "-")
        return raw(f"examples/studies/{topic}/results/{name}.json")["runs"]

    points = raw("tests/speed/results/scale.json")["points"]
    grown = {
        f"results/scale-{name}.png": {
            "function": "plot_growth",
            "arguments": [series],
            "more": labels,
        }
        for name, (series, labels) in report.pictures(points).items()
    }
    played = [run["result"] for run in runs_of("blocks")]
    played = [result["picture"] for result in played if "picture" in result]
    if played:
        grown["results/blocks.png"] = {"function": "plot_puzzle", **played[0]}
    if curves := gpu.series(gpu.load(gpu.RESULTS)):
        grown["results/gpu.png"] = {
            "function": "plot_growth",
            "arguments": [curves],
            "more": gpu.LABELS,
        }
    heads = raw("examples/studies/translation/results/translation-heads.json")
    cross = heads["layers"]["decoder_block_1/cross_attention"]
    translated = runs_of("lengths")
    (shown, *_) = (run["result"]["example"] for run in translated)
    return grown | {
        "guides/dutch.png": {
            "function": "plot_heads",
            "arguments": [cross["weights"], cross["queries"], cross["keys"]],
            "more": {"query_label": "Dutch, written", "key_label": "English, read"},
        },
        "results/lengths.png": {
            "function": "plot_curves",
            "arguments": [lengths_report.series(translated)],
            "more": lengths_report.LABELS,
        },
        "results/lengths-alignment.png": {
            "function": "plot_alignment",
            "arguments": [shown["weights"], shown["written"], shown["source"]],
            "more": {"query_label": "English", "key_label": "Dutch"},
        },
        "results/capacity.png": {
            "function": "plot_capacity",
            "arguments": [capacity.series(runs_of("capacity"))],
            "more": capacity.LABELS,
        },
        "results/long-stories.png": {
            "function": "plot_lengths",
            "arguments": [stories.series({"": {"runs": runs_of("long_stories")}})],
            "more": stories.LABELS,
        },
        "results/recall.png": {
            "function": "plot_recall",
            "arguments": [recall_report.series(runs_of("recall"))],
            "more": recall_report.LABELS,
        },
        "results/forgetting.png": {
            "function": "plot_curves",
            "arguments": [forgetting.series(runs_of("forgetting"))],
            "more": forgetting.LABELS,
        },
    }


def draw(call):
    """Draws a picture again.

    Args:
        call: an entry of docs/pictures.json.

    Returns:
        The bytes of a PNG file, with the hash of its source.
    """
    from PIL import Image, PngImagePlugin

    weights, *texts = call["arguments"]
    if isinstance(weights, dict):  # the trace of a memory
        weights = SimpleNamespace(**weights)
    function = call["function"]
    module = importlib.import_module(module_of(function))
    figure = getattr(module, function)(weights, *texts, **call["more"])
    drawn, picture = io.BytesIO(), io.BytesIO()
    figure.savefig(drawn, format="png", dpi=160)
    recorded = PngImagePlugin.PngInfo()
    recorded.add_text("Source", source_of(call))
    # 128 colours are enough for a figure, and take a third of the bytes.
    image = Image.open(drawn).convert("RGB").quantize(128)
    image.save(picture, format="png", optimize=True, pnginfo=recorded)
    return picture.getvalue()


def source_of(call):
    """The hash of what a picture is drawn from: its data and the code that draws it."""
    text = json.dumps(call, sort_keys=True)
    module = module_of(call["function"])
    code = "".join(code_of(path) for path in sorted(modules_behind(module)))
    return hashlib.sha256((text + code).encode()).hexdigest()[:16]


def module_of(function):
    """The name of the module that defines a function that draws."""
    if function in DRAWN_BY:
        return DRAWN_BY[function]
    start = ast.parse(
        (ROOT / "keras_attention/visualization/__init__.py").read_text("utf-8")
    )
    (module,) = {
        node.module
        for node in start.body
        if isinstance(node, ast.ImportFrom)
        and function in {alias.name for alias in node.names}
    }
    return module


@functools.cache
def modules_behind(module):
    """The files of a module and of what it imports from the repository."""
    found, ahead = set(), [module]
    while ahead:
        module = ahead.pop()
        folder = FOLDERS.get(module.partition(".")[0], ROOT)
        path = folder / f"{module.replace('.', '/')}.py"
        if path in found or not path.exists():
            continue
        found.add(path)
        nodes = ast.walk(ast.parse(path.read_text("utf-8")))
        for node in nodes:
            if isinstance(node, ast.ImportFrom) and node.module:
                ahead.append(node.module)
                ahead += [f"{node.module}.{alias.name}" for alias in node.names]
    return frozenset(found)


@functools.cache
def code_of(path):
    """The code of a file without docstrings, comments and white space."""
    text = path.read_text("utf-8")
    lines = text.splitlines(keepends=True)
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            row, column = token.start
            lines[row - 1] = lines[row - 1][:column] + "\n"
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            for row in range(node.lineno, node.end_lineno + 1):
                lines[row - 1] = ""
    return re.sub(r"\s+", "", "".join(lines))


def recorded_source(picture):
    """The hash that a PNG file records, or None.

    Args:
        picture: the bytes of the file.
    """
    place = 8
    while place < len(picture):
        (size,) = struct.unpack(">I", picture[place : place + 4])
        kind, content = picture[place + 4 : place + 8], picture[place + 8 :][:size]
        if kind == b"tEXt" and content.startswith(b"Source\0"):
            return content.partition(b"\0")[2].decode()
        place += 12 + size
    return None


def outdated(pictures):
    """The names of the files that are not drawn from the present data and code."""
    return [
        name
        for name, call in pictures.items()
        if not (DOCS / name).exists()
        or recorded_source((DOCS / name).read_bytes()) != source_of(call)
    ]


def outdated_drawings():
    """The names of the drawings whose file is not what docs/drawings.py draws."""
    return [
        name
        for name, drawing in drawings.drawings().items()
        if not (DOCS / name).exists()
        or (DOCS / name).read_text("utf-8") != drawing().svg()
    ]


def write_files(pictures):
    """Draws the files that are not current."""
    for name in outdated(pictures):
        (DOCS / name).write_bytes(draw(pictures[name]))
        print(f"docs/{name}")
    for name in outdated_drawings():
        (DOCS / name).write_text(drawings.drawings()[name]().svg(), "utf-8")
        print(f"docs/{name}")


def leave_keras_out():
    """Makes the code that draws importable without Keras, and so without a backend."""
    package = ModuleType("keras_attention")
    package.__path__ = [str(ROOT / "keras_attention")]
    sys.modules.setdefault("keras_attention", package)


def in_lines(kept):
    """As JSON, in which a row of numbers or of words stays in one line."""
    text = json.dumps(kept, indent=1, ensure_ascii=False)
    row = re.compile(r"\[\s*([^\[\]{}]*?)\s*\]")
    return (
        row.sub(lambda found: "[" + re.sub(r"\n *", " ", found[1]) + "]", text) + "\n"
    )


def main(arguments):
    if arguments == ["--files"]:
        leave_keras_out()
        write_files(json.loads(KEPT.read_text("utf-8")))
        return
    # What no page draws any more is dropped.
    kept = {}
    for guide in GUIDES:
        kept.update(drawn_by(guide))
    kept.update(measured())
    KEPT.write_text(in_lines(kept), "utf-8")
    write_files(json.loads(KEPT.read_text("utf-8")))


if __name__ == "__main__":
    main(sys.argv[1:])
