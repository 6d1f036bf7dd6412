"""Turns the guides into Jupyter notebooks.

`python docs/notebooks.py FOLDER` writes a notebook of each guide into FOLDER. Its links
lead to the pages of this checkout, or with `--site URL` to a built site. The build
writes such notebooks beside the pages of the site (docs/hooks.py).

The blocks of code that the tests run become code cells without outputs. All else
becomes Markdown, with the pictures as attachments. The first cell installs the package,
unless it is installed, and selects the backend.
"""

import argparse
import base64
import json
import os
import re
from pathlib import Path

import api_pages
import code_host

DOCS = Path(__file__).resolve().parent
ROOT = DOCS.parent
GUIDES = sorted((DOCS / "guides").glob("*.md"))
# The blocks that run, as in tests/docs/test_docs.py.
RUNS = re.compile(r"(?<!-->\n)^```python\n(.*?)^```$", re.M | re.S)
BLOCK = re.compile(r"(^```.*?^```$)", re.M | re.S)
SPAN = re.compile(r"(`[^`\n]+`)")
ADMONITION = re.compile(
    r"^(?:!!!|\?\?\?\+?) (?P<kind>\w+)(?: \"(?P<title>[^\"]*)\")?\n"
    r"(?P<text>(?:\n* {4}.*(?:\n|\Z))+)",
    re.M,
)
SETUP = """\
# The package is not on PyPI yet: PACKAGE is the folder of a checkout, or a wheel.
PACKAGE = {package!r}
# "jax", "torch" or "tensorflow". To change it later, restart the kernel.
BACKEND = os.environ.get("KERAS_BACKEND", "jax")

if importlib.util.find_spec("keras_attention") is None:
    install = [sys.executable, "-m", "pip", "install", "-q"]
    subprocess.run([*install, f"{{PACKAGE}}[{{BACKEND}},viz]"], check=True)
os.environ["KERAS_BACKEND"] = BACKEND
"""
IMPORTS = "import importlib.util\nimport os\nimport subprocess\nimport sys\n\n"


def notebook_of(page, address, package=".", code=True):
    """A guide as a notebook, a dict after the format 4.5 of Jupyter.

    Args:
        page: the path of the guide.
        address: a function from the path of a file and a place in it, or "", to the
            address for a link. For a name of the API, the path is the name.
        package: what the first cell installs.
        code: whether links may lead to files of code, which a site does not have.
    """
    text = code_host.without_definitions(page.read_text("utf-8"))
    if not code:
        text = code_host.LINK.sub(r"`\g<name>`", text)
    prose = code_host.FENCE.sub("", text)  # a comment in code is no heading
    places = {code_host.slug(h): h for h in re.findall(r"^#+ (.+)$", prose, re.M)}
    cells = [code_cell(IMPORTS + SETUP.format(package=package))]
    for number, part in enumerate(RUNS.split(text)):
        if number % 2:
            cells.append(code_cell(part))
        elif part.strip():
            cells.append(_markdown_cell(part.strip("\n"), page, places, address))
    for number, cell in enumerate(cells):
        cell["id"] = f"cell-{number}"
    return {
        "cells": cells,
        "metadata": {
            "kernelspec": {
                "display_name": "Python 3",
                "language": "python",
                "name": "python3",
            },
            "language_info": {"name": "python"},
        },
        "nbformat": 4,
        "nbformat_minor": 5,
    }


def code_cell(code):
    """A cell of code that has not run."""
    return {
        "cell_type": "code",
        "execution_count": None,
        "metadata": {},
        "outputs": [],
        "source": code.rstrip("\n").splitlines(keepends=True),
    }


def _markdown_cell(text, page, places, address):
    pictures = {}

    def target(found):
        path, _, place = found[1].partition("#")
        if re.match(r"[a-z]+:", path):
            return found[0]
        if not path:  # Jupyter's own anchors
            return f"](#{places[place].replace(' ', '-')})"
        file = (page.parent / path).resolve()
        if file.suffix == ".png":
            coded = base64.b64encode(file.read_bytes()).decode()
            pictures[file.name] = {"image/png": coded}
            return f"](attachment:{file.name})"
        return f"]({address(file, place)})"

    def shown(prose):
        prose = code_host.TARGETS.sub(target, prose)
        return code_host.API.sub(lambda found: f"]({address(found[1], '')})", prose)

    parts = BLOCK.split(text)
    for number, part in enumerate(parts):
        if number % 2 == 0:
            part = ADMONITION.sub(_quoted, part)
            spans = SPAN.split(part)
            # Targets of links stand outside of spans of code, their texts may not.
            spans[::2] = map(shown, spans[::2])
            parts[number] = "".join(spans)
    cell = {
        "cell_type": "markdown",
        "metadata": {},
        "source": "".join(parts).splitlines(keepends=True),
    }
    return {**cell, "attachments": pictures} if pictures else cell


def _quoted(found):
    """An admonition as a quotation, since Jupyter does not know admonitions."""
    title = found["title"] or found["kind"].capitalize()
    told = re.sub(r"^ {4}", "", found["text"], flags=re.M).strip("\n").splitlines()
    return (
        "\n".join(f"> {line}".rstrip() for line in (f"**{title}**", "", *told)) + "\n"
    )


def in_checkout(folder):
    """Addresses for a notebook that lies in a folder on this machine."""

    def address(file, place):
        file = code_host.file_of(file) if isinstance(file, str) else file
        path = Path(os.path.relpath(file, folder)).as_posix()
        return f"{path}#{place}" if place else path

    return address


def in_site(page, url=None):
    """Addresses for a notebook that lies beside its page in a site.

    Args:
        page: the path of the guide.
        url: the address of the site. Without it, links are relative to the notebook.
    """

    def address(file, place):
        if isinstance(file, str):
            file, place = api_pages.place_of(file)
        html = file.relative_to(DOCS).with_suffix(".html").as_posix()
        if url is None:
            here = page.parent.relative_to(DOCS).as_posix()
            html = Path(os.path.relpath(html, here)).as_posix()
        else:
            html = f"{url.rstrip('/')}/{html}"
        return f"{html}#{place}" if place else html

    return address


def to_json(notebook):
    """The text of the file of a notebook."""
    return json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"


def main(arguments=None):
    """Writes the notebooks of all guides."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="where to write the notebooks")
    parser.add_argument("--site", help="the address of a site, for links")
    given = parser.parse_args(arguments)
    given.folder.mkdir(parents=True, exist_ok=True)
    folder = given.folder.resolve()
    package = Path(os.path.relpath(ROOT, folder)).as_posix()
    for page in GUIDES:
        address = in_site(page, given.site) if given.site else in_checkout(folder)
        notebook = notebook_of(page, address, package, code=not given.site)
        (folder / f"{page.stem}.ipynb").write_text(to_json(notebook), "utf-8")
        print(given.folder / f"{page.stem}.ipynb")


if __name__ == "__main__":
    main()
