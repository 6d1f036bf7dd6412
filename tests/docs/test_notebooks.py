"""Holds the notebooks to the guides: the same code, and links that lead somewhere."""

import base64
import importlib.util
import json
import re
import subprocess
import sys
from types import SimpleNamespace

import nbformat
import pytest
from checkout import ROOT, module_of_docs

DOCS = ROOT / "docs"
GUIDES = sorted((DOCS / "guides").glob("*.md"))


@pytest.fixture(scope="module")
def notebooks():
    return module_of_docs("notebooks")


def sources(notebook, kind):
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == kind]
    return ["".join(cell["source"]) for cell in cells]


def code_that_runs(page):
    """The blocks that test_docs.py runs, found line by line."""
    blocks, block, before = [], None, ""
    for line in page.read_text("utf-8").splitlines():
        if block is None and line == "```python" and "<!-- not run" not in before:
            block = []
        elif block is not None and line == "```":
            blocks.append("\n".join(block))
            block = None
        elif block is not None:
            block.append(line)
        before = line
    return blocks


@pytest.mark.parametrize("page", GUIDES, ids=lambda page: page.stem)
def test_a_guide_as_a_notebook(notebooks, page, tmp_path):
    notebook = notebooks.notebook_of(page, notebooks.in_checkout(tmp_path))
    assert json.loads(notebooks.to_json(notebook)) == notebook

    setup, *code = sources(notebook, "code")
    assert '"keras-attention-family[torch,viz]"' in setup
    lines = [[x for x in cell.splitlines() if not is_added(x)] for cell in code]
    assert ["\n".join(cell) for cell in lines] == code_that_runs(page)

    text = "\n".join(sources(notebook, "markdown"))
    assert text.startswith(page.read_text("utf-8").partition("\n")[0])
    prose = re.sub(r"^```.*?^```$|`[^`\n]+`", "", text, flags=re.M | re.S)
    assert "][keras_attention" not in prose
    places = {heading.replace(" ", "-") for heading in headings(text)}
    for target in re.findall(r"\]\(([^)\s]+)\)", prose):
        path, _, place = target.partition("#")
        if path.startswith("attachment:"):
            name = path.partition(":")[2]
            (picture,) = (
                cell["attachments"][name]["image/png"]
                for cell in notebook["cells"]
                if name in cell.get("attachments", ())
            )
            assert base64.b64decode(picture) in pictures()
        elif "://" not in target:
            assert (tmp_path / path).exists(), target
            assert path or place in places, target


def is_added(line):
    """Whether a line of code is not of the page: it shows a picture."""
    return line.startswith("display.display(")


def headings(text):
    return re.findall(r"^#+ (.+)$", text, re.M)


def pictures():
    return {path.read_bytes() for path in DOCS.rglob("*.png")}


@pytest.mark.parametrize("page", GUIDES, ids=lambda page: page.stem)
def test_jupyter_can_read_a_notebook(notebooks, page, tmp_path):
    notebook = notebooks.notebook_of(page, notebooks.in_checkout(tmp_path))
    nbformat.validate(nbformat.from_dict(notebook))
    assert (notebook["nbformat"], notebook["nbformat_minor"]) == (4, 5)


@pytest.mark.parametrize("page", GUIDES, ids=lambda page: page.stem)
def test_the_outputs_are_those_of_the_page(notebooks, page, tmp_path):
    notebook = notebooks.notebook_of(page, notebooks.in_checkout(tmp_path))
    text, drawn = page.read_text("utf-8"), module_of_docs("pictures").CODE
    shown = [o for cell in notebook["cells"] for o in cell.get("outputs", ())]
    printed = "".join("".join(o["text"]) for o in shown if "text" in o)
    for line in printed.splitlines():
        assert line.rstrip() in text
    for block in module_of_docs("outputs").blocks(text):
        if block.runs and block.output:
            assert block.output["text"] in printed
    saved = re.findall(r'savefig\("(.+?)"\)', "".join(drawn.findall(text)))
    images = [o["data"]["image/png"] for o in shown if "data" in o]
    files = [page.parent / name for name in saved if (page.parent / name).exists()]
    assert [base64.b64decode(image) for image in images] == [
        file.read_bytes() for file in files if f"guides/{file.name}" in notebooks.DRAWN
    ]


def test_what_a_page_may_hold(notebooks, tmp_path):
    page = tmp_path / "page.md"
    page.write_text(
        "# A title, of two parts\n\n"
        '!!! note "Mind"\n    one [link](#a-title-of-two-parts)\n\n    two\n\n'
        "$$ x_1 $$ and $y$, `[code](no.md)`, [`f`][keras_attention.layers.Hopfield]\n\n"
        "<!-- not run: needs a reason -->\n```python\nfail()\n```\n\n"
        "```python\n# a title, of two parts\nx = 1\n```\n",
        "utf-8",
    )
    notebook = notebooks.notebook_of(page, lambda file, place: f"at/{file}")
    assert sources(notebook, "code")[1:] == ["# a title, of two parts\nx = 1"]
    assert sources(notebook, "markdown") == [
        "# A title, of two parts\n\n"
        "> **Mind**\n>\n> one [link](#A-title,-of-two-parts)\n>\n> two\n\n"
        "$$ x_1 $$ and $y$, `[code](no.md)`, [`f`](at/keras_attention.layers.Hopfield)"
        "\n\n<!-- not run: needs a reason -->\n```python\nfail()\n```"
    ]


def test_links_of_a_notebook_of_the_site(notebooks):
    page = DOCS / "guides" / "dnc.md"
    for url, start in ((None, "../"), ("https://x.y/z/", "https://x.y/z/")):
        address = notebooks.in_site(page, url)
        assert address(DOCS / "notation.md", "masks") == f"{start}notation.html#masks"
        name = "keras_attention.layers.Hopfield"
        assert address(name, "") == f"{start}api/layers/Hopfield.html#{name}"
        links = "keras_attention.ops.memory.links.sparse_links"  # an alias is shown
        shown = "keras_attention.ops.links.sparse_links"
        page_of_links = f"{start}api/ops/external-memory.html"
        assert address(links, "") == f"{page_of_links}#{shown}"
        notebook = notebooks.notebook_of(page, address, code=False)
        assert ".py#L" not in "".join(sources(notebook, "markdown"))
    with pytest.raises(LookupError, match=r"no page of the API documents 'keras"):
        address("keras_attention.layers.No", "")


OUTPUTS = """# A title

![a map](bark.png)

```python
print(1)
print(2)  # two
print(3)
figure.savefig("bark.png")
```

```text
1
3
```

![a map
of it](bark.png)

The end.
"""


def test_outputs_and_pictures_of_a_cell(notebooks, tmp_path):
    page = tmp_path / "guides" / "page.md"
    page.parent.mkdir()
    page.write_text(OUTPUTS, "utf-8")
    (page.parent / "bark.png").write_bytes(b"PNG")
    cells = notebooks.notebook_of(page, lambda file, place: str(file))["cells"]
    kinds = [cell["cell_type"] for cell in cells]
    assert kinds == ["code", "markdown", "code", "markdown"]
    assert "attachments" in cells[1]  # it is not yet drawn
    stream, image = cells[2]["outputs"]
    assert stream["text"] == ["1\n", "3\n", "two\n"]
    assert base64.b64decode(image["data"]["image/png"]) == b"PNG"
    assert image["data"]["text/plain"] == "a map of it"
    assert cells[2]["source"][-1] == 'display.display(display.Image("bark.png"))'
    assert cells[3]["source"] == ["The end."]


def in_jupyter(monkeypatch):
    """Stands in for IPython, and returns the list of the pictures that are shown."""
    displayed = []
    display = SimpleNamespace(display=displayed.append, Image=str)
    module = SimpleNamespace(display=display, version_info=(9, 0), get_ipython=str)
    monkeypatch.setitem(sys.modules, "IPython", module)
    return displayed


def test_a_notebook_runs(notebooks, tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    monkeypatch.chdir(tmp_path)
    notebooks.main([str(tmp_path)])
    assert len(list(tmp_path.glob("*.ipynb"))) == len(GUIDES)
    displayed = in_jupyter(monkeypatch)
    notebook = json.loads((tmp_path / "hops-are-layers.ipynb").read_text("utf-8"))
    space = {"__name__": "__main__", "print": lambda *values: None}
    for code in sources(notebook, "code"):
        exec(compile(code, "cell", "exec"), space)
    assert displayed == ["hop-and-layer.png"]


def test_a_notebook_says_what_to_do_without_a_network(notebooks, monkeypatch):
    in_jupyter(monkeypatch)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    asked = []
    failed = SimpleNamespace(returncode=1)
    monkeypatch.setattr(subprocess, "run", lambda call: asked.append(call) or failed)
    with pytest.raises(RuntimeError, match="Without a network, install wheels of"):
        exec(notebooks.SETUP, {})
    ((_, *command),) = asked
    assert command == [
        "-m",
        "pip",
        "install",
        "-q",
        "keras-attention-family[torch,viz]",
    ]
