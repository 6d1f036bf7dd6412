"""Holds the notebooks to the guides: the same code, and links that lead somewhere."""

import base64
import json
import re
import sys

import keras
import pytest
from calling import ROOT, TRAINS, module_of_docs

DOCS = ROOT / "docs"
GUIDES = sorted((DOCS / "guides").glob("*.md"))


@pytest.fixture(scope="module")
def notebooks():
    sys.path.insert(0, str(DOCS))  # it imports its neighbours
    try:
        yield module_of_docs("notebooks")
    finally:
        sys.path.remove(str(DOCS))


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
    check_format(notebook)
    assert json.loads(notebooks.to_json(notebook)) == notebook

    setup, *code = sources(notebook, "code")
    assert "pip" in setup
    assert "KERAS_BACKEND" in setup
    assert code == code_that_runs(page)

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


def headings(text):
    return re.findall(r"^#+ (.+)$", text, re.M)


def pictures():
    return {path.read_bytes() for path in DOCS.rglob("*.png")}


def check_format(notebook):
    """The fields that version 4.5 of the format asks for."""
    assert (notebook["nbformat"], notebook["nbformat_minor"]) == (4, 5)
    assert notebook["metadata"]["kernelspec"]["name"] == "python3"
    ids = [cell["id"] for cell in notebook["cells"]]
    assert len(set(ids)) == len(ids)
    for cell in notebook["cells"]:
        fields = {"cell_type", "id", "metadata", "source"}
        if cell["cell_type"] == "code":
            assert cell.keys() == {*fields, "execution_count", "outputs"}
            assert (cell["execution_count"], cell["outputs"]) == (None, [])
        else:
            assert cell["cell_type"] == "markdown"
            assert cell.keys() - {"attachments"} == fields
        assert re.fullmatch(r"[\w-]{1,64}", cell["id"])
        assert all("\n" not in line[:-1] for line in cell["source"])


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


@pytest.mark.skipif(not TRAINS, reason="the guide trains, this backend does not")
def test_a_notebook_runs(notebooks, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    notebooks.main([str(tmp_path)])
    assert len(list(tmp_path.glob("*.ipynb"))) == len(GUIDES)
    notebook = json.loads((tmp_path / "from-keras-attention.ipynb").read_text("utf-8"))
    space = {"__name__": "__main__", "print": lambda *values: None}
    for code in sources(notebook, "code"):
        exec(compile(code, "cell", "exec"), space)
    assert space["BACKEND"] == keras.config.backend()
