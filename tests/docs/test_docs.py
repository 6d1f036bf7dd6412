"""Holds the pages to the code: their examples run, their links and names are right."""

import contextlib
import importlib
import importlib.util
import inspect
import json
import re
from xml.etree import ElementTree

import numpy as np
import pytest
from calling import TRAINS
from checkout import ROOT, module_of_docs

DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]
TEXTS = [*PAGES, ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"]
PICTURES = json.loads((DOCS / "pictures.json").read_text("utf-8"))


def name_of(page):
    return page.relative_to(ROOT).as_posix()


DRAWINGS = module_of_docs("drawings").drawings()
OUTPUTS = module_of_docs("outputs")
FENCE = OUTPUTS.FENCE
WITH_CODE = [page for page in PAGES if any(OUTPUTS.blocks(page.read_text("utf-8")))]
SLOW = {  # more than a second, although each `fit` is cut
    *("alignments", "classify", "composing", "decoders", "dnc", "from-bags-to-hops"),
    *("halting", "hopfield", "knowledge-base", "language-model", "memory-networks"),
    *("recurrence", "supporting-facts", "transformer", "translate", "your-own-model"),
    "your-own-stories",
}


def check_outputs(text, name, whole):
    """Runs a page, and compares what it prints with what it shows."""
    results = OUTPUTS.run(text, name, whole)
    for block, line, shown, printed, same in OUTPUTS.compared(results, whole):
        where = f"{name}:{line or block.line}"
        assert same, f"{where} shows {shown!r}, and prints {printed!r}"


@pytest.mark.parametrize("page", WITH_CODE, ids=name_of)
def test_a_page_shows_what_it_prints(page):
    text = page.read_text("utf-8")
    lines = list(OUTPUTS.unshown(text))
    assert not lines, (
        f"{name_of(page)}, lines {lines}: python docs/outputs.py writes it"
    )
    # A text that follows no code is not compared with what the code prints.
    followers = re.findall(r"^```\n+```(?:text|console)$", text, re.M)
    assert len(followers) == len(re.findall(r"^```(?:text|console)$", text, re.M))


needs_pictures = pytest.mark.skipif(
    not TRAINS or importlib.util.find_spec("matplotlib") is None,
    reason="the pages train and draw",
)


# Elsewhere, other weights are drawn, and a network that has hardly trained may write
# nothing to show.
@pytest.mark.backends("torch")
@needs_pictures
@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, marks=pytest.mark.slow if page.stem in SLOW else ())
        for page in WITH_CODE
    ],
    ids=name_of,
)
def test_code_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    check_outputs(page.read_text("utf-8"), name_of(page), whole=False)


@pytest.mark.release
@needs_pictures
@pytest.mark.parametrize("page", WITH_CODE, ids=name_of)
def test_code_prints_what_the_page_says(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    check_outputs(page.read_text("utf-8"), name_of(page), whole=True)


TRAINING = """```python
import keras, numpy
model = keras.Sequential([keras.layers.Dense(1)])
model.compile("sgd", "mse")
for _ in range(2):
    print(len(model.fit(numpy.ones((9, 1)), numpy.ones(9), 3, 4, 0).epoch))  # 4
print(int(model.optimizer.iterations))  # 24
```
"""


@pytest.mark.skipif(not TRAINS, reason="the page trains, this backend does not")
@pytest.mark.parametrize(
    ("text", "whole", "error"),
    [
        (TRAINING, True, None),
        (TRAINING.replace("# 24", "# 4"), True, AssertionError),
        (TRAINING.replace("print(int", "assert 4 == (int"), False, None),
        (TRAINING + "```python\nassert False\n```\n", False, None),
        (TRAINING + "```python\nassert False\n```\n", True, AssertionError),
        (TRAINING + "```python\n1 / 0\n```\n", False, ZeroDivisionError),
        ("```python\nprint(3)  # 4\n```\n" + TRAINING, False, AssertionError),
        ("```python\nassert False\n```\n" + TRAINING, False, AssertionError),
        ("```python\nprint(3)\n```\n```text\n4\n```\n", False, AssertionError),
        ("```python\nprint(3)\n```\n\n```text\n3\n```\n", False, None),
        ("```python\nprint(3)\n```\n\n```console\n4\n```\n", False, None),
        ("```python\nprint(3)\n```\n", False, AssertionError),
        ("```python\nx = 3\n```\n\n```text\n3\n```\n", False, AssertionError),
        (TRAINING + "```python\nprint(1)\n```\n", False, AssertionError),
        (
            "```python\nimport sys\nn = sys.stdout.write('a')\n```\n",
            False,
            AssertionError,
        ),
    ],
)
def test_what_a_run_of_a_page_rejects(text, whole, error):
    with contextlib.nullcontext() if error is None else pytest.raises(error):
        check_outputs(text, "page.md", whole)


@pytest.mark.parametrize(
    ("shown", "printed", "same"),
    [
        ("an accuracy of 97 %", "an accuracy of 99 %", True),
        ("an accuracy of 90 %", "an accuracy of 96 %", False),
        ("loss 0.0251", "loss 0.0255", True),
        ("loss 0.0251", "loss 0.0311", False),
        ("cat 0.99\ndog 0.1", "cat  0.98\ndog 0.1", True),
        ("cat 0.99", "dog 0.99", False),
        ("(2, 3)", "(2, 4)", False),
        ("1e-03", "4e-03", True),
        ("1e-03", "1e-02", False),
        ("[0.5]", "[0.5, 0.5]", False),
        ("[1.0, 0.0]", "[0.5, 0.5]", False),
        ("[0.6, 0.4]", "[0.5, 0.5]", True),
        ("loss 2.4", "loss 2.8", True),
        ("90 % of 20", "90 % of 19", False),
    ],
)
def test_what_counts_as_the_same_output_after_a_training(shown, printed, same):
    assert OUTPUTS.alike(shown, printed, trained=True) is same
    assert not OUTPUTS.alike(shown, printed)


@pytest.mark.parametrize(
    ("code", "lines"),
    [
        ("print(1)  # 1\nprint(2)", [3]),
        ("def f():\n    print(1)", []),
        ("if True:\n    print(\n        1\n    )", [3]),
        ("print(\n    1\n)  # 1", []),
    ],
)
def test_which_outputs_a_page_leaves_out(code, lines):
    page = f"```python\n{code}\n```\n"
    assert list(OUTPUTS.unshown(page)) == lines
    assert not list(OUTPUTS.unshown(f"{page}\n```text\n1\n```\n"))


def test_missing_outputs_are_written_into_a_page():
    page = (
        "```python\nprint(1)\nprint(2)  # 3\n```\n\nText.\n\n"
        "```python\nfor n in (1, 2):\n    print(n)\n```\n\n```text\n1\n```\n\n"
        "```python\nprint(4)\nprint('a\\nb')\n```\n\n"
        "```python\ndef f():\n    print(5)\n```\n\n```python\nf()\n```\n"
    )
    new = OUTPUTS.written(page, OUTPUTS.run(page, "page.md"))
    assert new == (
        "```python\nprint(1)  # 1\nprint(2)  # 2\n```\n\nText.\n\n"
        "```python\nfor n in (1, 2):\n    print(n)\n```\n\n```text\n1\n2\n```\n\n"
        "```python\nprint(4)\nprint('a\\nb')\n```\n\n```text\n4\na\nb\n```\n\n"
        "```python\ndef f():\n    print(5)\n```\n\n```python\nf()\n```\n\n"
        "```text\n5\n```\n"
    )
    check_outputs(new, "page.md", whole=True)


def places():
    """Each module and class of the package, by its own name: where to find it."""
    found = {}
    for path in sorted((ROOT / "keras_attention").rglob("*.py")):
        module = path.relative_to(ROOT).with_suffix("").parts
        module = module[:-1] if module[-1] == "__init__" else module
        classes = re.findall(r"^class (\w+)", path.read_text("utf-8"), re.M)
        for parts in (module, *((*module, name) for name in classes)):
            found.setdefault(parts[-1], []).append(".".join(parts))
    return found


PLACES = places()
# What else the dotted names of the pages begin with: libraries, classes and functions
# of theirs, and variables of the code around.
OTHERS = {
    *("jax", "keras", "tf", "tfa", "torch"),
    *("BasicDecoderOutput", "GPT2CausalLM", "GPT2LMHeadModel"),
    *("ops.argmax", "ops.swapaxes"),
    *("config.json", "metadata.json", "model.weights.h5", "preprocessor.json"),
    *("reader.keras", "translator.serve"),
    *("pytorch_model.bin", "task.weights.h5"),  # files of weights
    *("attention", "attention_layer", "english", "german", "layer", "memory_layer"),
    *("model", "np", "query_layer", "rng", "rnn", "tokens", "vocabulary.encode"),
}


def named_in(text):
    """Of the spans of `code`: names of the package, and paths of the repository.

    A name begins with a module or a class, wherever that is in the package, and may
    end in a call: `ops.attend`, `Transformer.from_size("base", …)`. A path begins at
    the root or in the package: `docs/check.py`, `ops/sinks.py`.
    """
    names, paths = set(), set()
    for code in re.findall(r"`([^`\n]+)`", FENCE.sub("", text)):
        file = code.endswith((".py", ".toml", ".md"))
        dotted = re.fullmatch(r"(([A-Za-z_]\w*)(?:\.\w+)+)(?:\(.*\))?", code)
        rooted = r"(?:keras_attention|tests|examples|docs)/[\w./-]*"
        if re.fullmatch(rf"{rooted}|[\w./-]+/\w+\.py", code):
            paths.add(code)
        elif dotted and not file and OTHERS.isdisjoint(dotted.groups()):
            names.add(dotted[1])
    return names, paths


def leads_somewhere(dotted):
    """Whether a dotted name is that of a module, or of something within one."""
    first, *rest = dotted.split(".")
    found = importlib.import_module(first)
    for depth, part in enumerate(rest, 2):
        if not hasattr(found, part):
            path = ".".join(dotted.split(".")[:depth])
            try:
                importlib.import_module(path)
            except ModuleNotFoundError as error:
                if not f"{path}.".startswith(f"{error.name}."):
                    raise  # a package that is not installed
                return False
        found = getattr(found, part)
    return True


NAMING = [page for page in TEXTS if any(named_in(page.read_text("utf-8")))]


# Some names are those of modules that import torch.
@pytest.mark.backends("torch")
@pytest.mark.parametrize("page", NAMING, ids=name_of)
def test_names_in_code_exist(page):
    names, paths = named_in(page.read_text("utf-8"))
    for name in sorted(names):
        first, _, rest = name.partition(".")
        where = [f"{place}.{rest}" for place in PLACES.get(first, ())]
        assert any(map(leads_somewhere, where)), (
            f"{name_of(page)}: {name} is not in the package; what begins with "
            "something else belongs into OTHERS"
        )
    for path in sorted(paths):
        there = (ROOT / path).exists() or (ROOT / "keras_attention" / path).exists()
        assert there, f"{name_of(page)}: {path}"


def test_names_and_paths_are_found_in_code():
    text = (
        '`ops.attend`, `models.Transformer.from_size("base", …)`, `masks.nowhere`, '
        "`keras_attention.ops`, `LargeMemory.load`, `ops/sinks.py`, `docs/check.py` "
        "and neither `keras.ops`, `attention.bias`, `model.save`, `bags.py` nor `dot`\n"
        "```python\n`ops.in_a_block`\n```\n"
    )
    names, paths = named_in(text)
    assert sorted(names) == [
        "LargeMemory.load",
        "keras_attention.ops",
        "masks.nowhere",
        "models.Transformer.from_size",
        "ops.attend",
    ]
    assert paths == {"ops/sinks.py", "docs/check.py"}
    assert NAMING


def letters(table):
    """The first column of a table of Markdown, one entry a letter."""
    rows = [row.split("|")[1].strip() for row in table if row.startswith("| ")]
    return [row for row in rows[1:] if set(row) != {"-"}]


def sections(page):
    """The lines below each heading."""
    found, heading = {}, ""
    for line in page.read_text("utf-8").splitlines():
        if line.startswith("#"):
            heading = line.lstrip("# ")
        found.setdefault(heading, []).append(line)
    return found


NOTATION = sections(DOCS / "notation.md")


@pytest.mark.parametrize(
    "heading", [h for h, text in NOTATION.items() if letters(text)]
)
def test_a_letter_means_one_thing(heading):
    found = letters(NOTATION[heading])
    assert len(found) == len(set(found)), found


def test_letters_of_shapes_are_in_the_notation():
    known = set()
    for text in NOTATION.values():
        known.update(entry.strip("`$*") for entry in letters(text))
    known.update(("Dq", "Dk", "d", "...", "·"))
    for path in sorted((ROOT / "keras_attention").rglob("*.py")):
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
            for shape in re.findall(r"# .*?\(((?:[\w.·]+, ?)+[\w.·]*)\)", line):
                # A product of sizes, such as B·K, is one axis of that many.
                used = {n.strip() for n in re.split(r",|(?<=\w)·", shape)} - {""}
                used = {size for size in used if not size.isdigit()}
                assert used <= known, f"{name_of(path)}:{number}: {used - known}"


def public_names():
    """What a user imports, and where the API pages must show it."""
    yield from ("keras_attention.record_attention",)
    modules = ("layers", "models", "losses", "callbacks", "schedules", "samplers")
    modules += ("text", "presets", "visualization", "distribution")
    for module in (*modules, "datasets", "datasets.babi"):
        dotted = f"keras_attention.{module}"
        for name in importlib.import_module(dotted).__all__:
            yield f"{dotted}.{name}"
    for name in importlib.import_module("keras_attention.ops").__all__:
        yield f"keras_attention.ops.{name}"
    # What models inherit, and the site does not show with them.
    strings = importlib.import_module("keras_attention.models.base.strings")
    for mixin, kind in vars(strings).items():
        if isinstance(kind, type) and kind.__module__ == strings.__name__:
            for name in (n for n in vars(kind) if not n.startswith("_")):
                yield f"{strings.__name__}.{mixin}.{name}"
    for name in ("from_preset", "save_to_preset"):
        yield f"keras_attention.models.base.configured_model.ConfiguredModel.{name}"


# Shown under the headings of the module that holds them, or one by one.
ELSEWHERE = {
    "keras_attention.record_attention": "keras_attention.layers.record_attention",
    "keras_attention.datasets.babi": "keras_attention.datasets.babi.load",
    "keras_attention.datasets.babi.TASKS": "keras_attention.datasets.babi.load",
    "keras_attention.text.ENTITY": "keras_attention.text.Link",
    "keras_attention.ops.binary_energy": "keras_attention.ops.energy",
    "keras_attention.ops.sinks": "keras_attention.ops.sinks.sink_attention",
}


@pytest.fixture(scope="module")
def api_pages():
    return module_of_docs("api_pages")


def object_of(name):
    module, _, last = name.rpartition(".")
    return getattr(importlib.import_module(module), last)


@pytest.mark.parametrize("name", list(public_names()))
def test_every_public_name_has_its_place_in_the_api_pages(name, api_pages):
    shown = ELSEWHERE.get(name, name)
    page, place = api_pages.place_of(shown)
    assert place == shown
    if api_pages.has_own_page(shown):
        assert page.stem == shown.rpartition(".")[2]


@pytest.mark.parametrize("name", ["ops.energy.nowhere", "models.CausalLM.nowhere"])
def test_a_name_that_is_not_defined_has_no_place(name, api_pages):
    with pytest.raises(LookupError, match="nowhere"):
        api_pages.place_of(f"keras_attention.{name}")


def test_a_class_has_its_page_in_its_family_and_abstract_classes_come_last(api_pages):
    addresses = [page.address for page in api_pages.pages()]
    assert len(addresses) == len({address.lower() for address in addresses}) > 100
    for family, (_, _, groups) in api_pages.outline().items():
        for group in groups:
            names = [page.shown[0] for page in group.pages]
            if family in ("layers", "losses", "text"):
                assert all(
                    name.startswith(f"keras_attention.{family}.") for name in names
                )
            kinds = [object_of(name) for name in names if api_pages.has_own_page(name)]
            abstract = [inspect.isabstract(kind) for kind in kinds]
            assert abstract == sorted(abstract), group.heading


def test_links_of_a_class_lead_to_its_guide_equations_and_tests(api_pages):
    class Page:
        url = "api/models/MemN2N.html"

    class Config:
        repo_url = "https://x.y/z/"

    links = api_pages.links_of("keras_attention.models.MemN2N", Page, Config)
    assert 'href="../../guides/memory-networks.html">' in links
    assert 'href="../../papers.html#end-to-end-memory-networks">' in links
    assert 'href="../../papers.html#memory-networks"' not in links  # not its own title
    assert "<code>test_adjacent_tying</code>" in links
    source = "keras_attention/models/memory_networks/memn2n.py"
    assert f'href="https://x.y/z/blob/HEAD/{source}"' in links
    # A function that no page of papers has, in a module of another folder.
    links = api_pages.links_of("keras_attention.ops.axes.resolve", Page, Config)
    assert links.count("href") == 0


def test_the_page_of_a_family_has_a_line_a_class(api_pages):
    text = (DOCS / "api" / "layers.md").read_text("utf-8")
    page = api_pages.page_of_family(text, "layers")
    assert ":::" not in page
    assert "- [`KeepMask`](layers/KeepMask.md): Calls a layer, and passes" in page
    assert "](layers/record-attention.md): `record_attention`, `with_attention`" in page
    # Prose before functions goes to their page, with its links.
    (page,) = (
        page for page in api_pages.pages() if page.address.endswith("/hashing.md")
    )
    assert "](../models.md#a-large-memory)" in page.text
    listed = api_pages.list_of_all(api_pages.outline())
    assert all(
        f"]({page.address.removeprefix('api/')})" in listed
        for page in api_pages.pages()
    )


def test_the_heading_of_a_class_says_what_it_is_and_comes_first(api_pages):
    links = '<p class="api-links">x</p>'
    html = f"<div><h1 id='a'>\n<span>A</span> <a>¶</a></h1>f() {links} <p>B</p><p>C</p>"
    heading = "<h1 id='a'>\n<span>A</span> <small>B</small> <a>¶</a></h1>"
    assert api_pages.with_summary(html) == f"{heading}<div>f() {links} <p>C</p>"


@pytest.mark.parametrize("heading", ["Quick start", "Tests"])
def test_first_block_of_the_readme_is_one_command(heading):
    text = (ROOT / "README.md").read_text("utf-8")
    section = text.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    assert FENCE.search(section)["code"].count("\n") == 1


# A page, and the heading before which it has drawn what it draws without training.
DRAWS = {
    "transformer.md": "## 4.",
    "hops-are-layers.md": "## What that buys",
    "hopfield.md": "### Layers that learn",
    "dnc.md": "## The network",
}


def alike(kept, call):
    """Whether two calls are the same, but for the last digit of a number."""
    if isinstance(kept, dict):
        same = kept.keys() == call.keys()
        return same and all(alike(kept[name], call[name]) for name in kept)
    if isinstance(kept, list | tuple):
        same = len(kept) == len(call)
        return same and all(alike(one, other) for one, other in zip(kept, call))
    if isinstance(kept, float):
        return abs(kept - call) < 0.0101
    return kept == call


@pytest.mark.parametrize("page", DRAWS)
def test_pictures_are_those_of_the_code(page):
    saved = module_of_docs("pictures").drawn_by(page, before=DRAWS[page])
    assert saved
    for name, call in saved.items():
        kept = {**PICTURES[name]}
        for what in (kept, call):
            weights, *what["arguments"] = what["arguments"]
            traced = weights if isinstance(weights, dict) else {"weights": weights}
            what["weights"] = {key: np.array(array) for key, array in traced.items()}
        shown, now = kept.pop("weights"), call.pop("weights")
        assert shown.keys() == now.keys(), name
        for key, array in shown.items():
            np.testing.assert_allclose(array, now[key], atol=0.0101)
        assert alike(kept, call), name


def test_the_trained_heads_run_backwards():
    weights = np.array(PICTURES["guides/backwards.png"]["arguments"][0])  # (H, T, S)
    words = weights.shape[-1]
    looked = weights[:, :words].argmax(-1)
    assert (looked == np.arange(words)[::-1]).all(-1).any()  # one of the heads


def test_every_picture_is_shown():
    for name in (*PICTURES, *DRAWINGS):
        folder, _, picture = name.rpartition("/")
        pages = (DOCS / folder).glob("*.md")
        assert any(f"]({picture})" in page.read_text("utf-8") for page in pages), name


@pytest.mark.parametrize("name", DRAWINGS)
def test_drawings_keep_to_their_size(name):
    drawing = DRAWINGS[name]()
    root = ElementTree.fromstring(drawing.svg())
    namespace = "{http://www.w3.org/2000/svg}"
    boxes = [box for box in root.iter(f"{namespace}rect") if "x" in box.attrib]
    texts = list(root.iter(f"{namespace}text"))
    assert boxes
    assert texts
    heads = {marker.get("id") for marker in root.iter(f"{namespace}marker")}
    assert set(re.findall(r"url\(#(\w+)\)", drawing.svg())) <= heads
    for box in boxes:
        right, low = (
            float(box.get(side)) + float(box.get(size))
            for side, size in (("x", "width"), ("y", "height"))
        )
        assert right <= drawing.width
        assert low <= drawing.height
    for text in texts:
        assert 0 < float(text.get("x")) < drawing.width, "".join(text.itertext())
        assert 0 < float(text.get("y")) < drawing.height, "".join(text.itertext())


def test_formulas_are_closed():
    for page in PAGES:
        text = re.sub(r"`[^`\n]*`", "", FENCE.sub("", page.read_text("utf-8")))
        assert text.count("$") % 2 == 0, name_of(page)


def test_each_kept_picture_is_drawn_by_a_page():
    pictures = module_of_docs("pictures")
    drawn = {
        f"guides/{name}"
        for guide in pictures.GUIDES
        for code in pictures.CODE.findall((DOCS / "guides" / guide).read_text("utf-8"))
        for name in re.findall(r'savefig\("(.+?)"\)', code)
    }
    assert set(PICTURES) <= drawn | set(pictures.measured())


def test_a_picture_that_no_page_draws_is_dropped(tmp_path, monkeypatch):
    pictures = module_of_docs("pictures")
    kept = tmp_path / "pictures.json"
    kept.write_text('{"guides/old.png": {}}', "utf-8")
    monkeypatch.setattr(pictures, "KEPT", kept)
    monkeypatch.setattr(pictures, "drawn_by", lambda guide: {f"guides/{guide}": {}})
    monkeypatch.setattr(pictures, "measured", lambda: {"results/new.png": {}})
    monkeypatch.setattr(pictures, "write_files", lambda pictures: None)
    pictures.main([])
    names = {f"guides/{guide}" for guide in pictures.GUIDES}
    assert set(json.loads(kept.read_text("utf-8"))) == names | {"results/new.png"}
