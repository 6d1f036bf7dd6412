"""Turns the guides into Jupyter notebooks.

`python docs/notebooks.py FOLDER` writes a notebook of each guide into FOLDER. Its links
lead to the pages of this checkout, or with `--site URL` to a built site. The build
writes such notebooks beside the pages of the site (docs/hooks.py).

The blocks of code that the tests run become code cells. Their outputs are those that
the page shows: texts, which the tests compare, and the pictures that the code draws.
All else becomes Markdown, with the other pictures as attachments. The first cell
installs the package by its name, unless it is installed.
"""

import argparse
import base64
import json
import os
import re
from pathlib import Path

import api_pages
import code_host
import outputs

DOCS = Path(__file__).resolve().parent
ROOT = DOCS.parent
GUIDES = sorted((DOCS / "guides").glob("*.md"))
DRAWN = json.loads((DOCS / "pictures.json").read_text("utf-8"))  # by code of the pages
SAVED = re.compile(r"^ *\w+\.savefig\(\"(.+?\.png)\"\)$", re.M)
PICTURE = re.compile(r"!\[(?P<text>[^\]]*)\]\((?P<file>[\w-]+\.png)\)\n*")
BLOCK = re.compile(r"(^```.*?^```$)", re.M | re.S)
SPAN = re.compile(r"(`[^`\n]+`)")
ADMONITION = re.compile(
    r"^(?:!!!|\?\?\?\+?) (?P<kind>\w+)(?: \"(?P<title>[^\"]*)\")?\n"
    r"(?P<text>(?:\n* {4}.*(?:\n|\Z))+)",
    re.M,
)
SETUP = """\
import importlib.util
import subprocess
import sys

from IPython import display

# The outputs below are those of the page, computed with torch.
PACKAGE = "keras-attention-family[torch,viz]"  # or jax, tensorflow in place of torch


def has_any(*names):
    return any(importlib.util.find_spec(name) for name in names)


backends = ("torch", "jax", "tensorflow")
if not (has_any("keras_attention") and has_any(*backends) and has_any("matplotlib")):
    pip = subprocess.run([sys.executable, "-m", "pip", "install", "-q", PACKAGE])
    if pip.returncode:
        raise RuntimeError(
            f"pip could not install {PACKAGE}. Without a network, install wheels of "
            "the package, of matplotlib and of a backend, then run this cell again."
        )
    importlib.invalidate_caches()
"""


def notebook_of(page, address, code=True):
    """A guide as a notebook, a dict after the format 4.5 of Jupyter.

    Args:
        page: the path of the guide.
        address: a function from the path of a file and a place in it, or "", to the
            address for a link. For a name of the API, the path is the name.
        code: whether links may lead to files of code, which a site does not have.
    """
    text = code_host.without_definitions(page.read_text("utf-8"))
    if not code:
        text = code_host.LINK.sub(r"`\g<name>`", text)
    prose = code_host.FENCE.sub("", text)  # a comment in code is no heading
    places = {code_host.slug(h): h for h in re.findall(r"^#+ (.+)$", prose, re.M)}
    alternatives = {
        p["file"]: " ".join(p["text"].split()) for p in PICTURE.finditer(text)
    }
    cells, end, shown = [code_cell(SETUP)], 0, set()
    for block in outputs.blocks(text):
        if block.runs:
            before = text[end : text.rindex("```python", 0, block.end)]
            cells += _markdown_cells(before, shown, page, places, address)
            drawn = _drawn(block.code, page)
            shown = set(drawn)
            displayed = "".join(
                f'display.display(display.Image("{name}"))\n' for name in drawn
            )
            results = [_stream(_text_of(block)), *_images(drawn, alternatives)]
            cells.append(code_cell(block.code + displayed, filter(None, results)))
            end = block.output.end() if block.output else block.end
    cells += _markdown_cells(text[end:], shown, page, places, address)
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


def code_cell(code, results=()):
    """A cell of code with its outputs."""
    return {
        "cell_type": "code",
        "execution_count": None,
        "metadata": {},
        "outputs": list(results),
        "source": code.rstrip("\n").splitlines(keepends=True),
    }


def _text_of(block):
    """What a block prints, in the order of its calls of `print`.

    The text below the block is that of all calls without a text behind them.
    """
    below = block.output["text"] if block.output else ""
    texts = []
    for _, claim in sorted(block.prints(), key=lambda call: call[0]):
        texts.append(below if claim is None else f"{claim}\n")
        below = below if claim is not None else ""
    return "".join([*texts, below])


def _stream(text):
    lines = text.splitlines(keepends=True)
    return text and {"output_type": "stream", "name": "stdout", "text": lines}


def _drawn(code, page):
    """The pictures that a block of code saves and the page shows, from name to file."""
    files = {name: page.parent / name for name in SAVED.findall(code)}
    return {
        name: file
        for name, file in files.items()
        if f"{page.parent.name}/{name}" in DRAWN and file.exists()
    }


def _images(drawn, alternatives):
    for name, file in drawn.items():
        coded = base64.b64encode(file.read_bytes()).decode()
        yield {
            "output_type": "display_data",
            "data": {"image/png": coded, "text/plain": alternatives.get(name, name)},
            "metadata": {},
        }


def _markdown_cells(text, shown, page, places, address):
    """A cell of Markdown, or none; pictures that the code before shows are left out."""
    text = PICTURE.sub(lambda match: "" if match["file"] in shown else match[0], text)
    if text.strip():
        yield _markdown_cell(text.strip("\n"), page, places, address)


def _markdown_cell(text, page, places, address):
    pictures = {}

    def target(match):
        path, _, place = match[1].partition("#")
        if re.match(r"[a-z]+:", path):
            return match[0]
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
        return code_host.API.sub(lambda match: f"]({address(match[1], '')})", prose)

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


def _quoted(match):
    """An admonition as a quotation, since Jupyter does not know admonitions."""
    title = match["title"] or match["kind"].capitalize()
    lines = re.sub(r"^ {4}", "", match["text"], flags=re.M).strip("\n").splitlines()
    return (
        "\n".join(f"> {line}".rstrip() for line in (f"**{title}**", "", *lines)) + "\n"
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
    options = parser.parse_args(arguments)
    options.folder.mkdir(parents=True, exist_ok=True)
    folder = options.folder.resolve()
    for page in GUIDES:
        address = in_site(page, options.site) if options.site else in_checkout(folder)
        notebook = notebook_of(page, address, code=not options.site)
        (folder / f"{page.stem}.ipynb").write_text(to_json(notebook), "utf-8")
        print(options.folder / f"{page.stem}.ipynb")


if __name__ == "__main__":
    main()
