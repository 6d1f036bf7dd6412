"""Keeps the links from the pages to the code right.

README.md, docs/papers.md and a guide link to functions by file and line. A line moves
when something is written above it; `python docs/lines.py` puts every number right, and
tests/docs/test_docs.py fails where one is wrong.

Other pages link to the API by name: [`Hopfield`][keras_attention.layers.Hopfield]. The
site leads to the page of the API. For a code host, the command writes a definition of
each name, the file with its docstring, to the end of the page; docs/hooks.py leaves the
definitions out of the site.
"""

import ast
import functools
import os
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGES = ("README.md", "docs/papers.md", "docs/guides/dnc.md")
LINK = re.compile(
    r"\[`(?P<name>[\w.]+)`\]\((?P<up>(?:\.\./)*)"
    r"(?P<path>(?:keras_attention|tests|examples)/[\w/]+\.py)#L(?P<line>\d+)\)"
)
NAMED = re.compile(r"\]\[(keras_attention[\w.]*)\]")
NOTE = "<!-- Links for a code host, written by docs/lines.py -->"
DEFINITIONS = re.compile(
    rf"\n*{re.escape(NOTE)}\n+(?:\[keras_attention[\w.]*\]: \S+\n*)*"
)


def line_of(path, name):
    """The line on which a function or class is defined.

    Args:
        path: a file, relative to the repository's root.
        name: its name, with dots where it is within another: "MemoryHop.call".

    Raises:
        LookupError: if the file does not define it.
    """
    body = ast.parse((ROOT / path).read_text(encoding="utf-8")).body
    for part in name.split("."):
        found = [node for node in body if getattr(node, "name", None) == part]
        if not found:
            raise LookupError(f"{path} does not define {name!r}")
        body = found[-1].body
    return found[-1].lineno


def refresh(text):
    """The text with the number of every link put right."""
    return LINK.sub(
        lambda link: (
            f"[`{link['name']}`]({link['up']}{link['path']}"
            f"#L{line_of(link['path'], link['name'])})"
        ),
        text,
    )


@functools.cache
def file_of(name):
    """The file that defines a public name, such as keras_attention.layers.Hopfield.

    A method is defined in the file of its class.

    Raises:
        LookupError: if there is none.
    """
    module, _, last = name.rpartition(".")
    owner = module.rpartition(".")[2]
    if owner[:1].isupper():
        file = file_of(module)
        line_of(file.relative_to(ROOT), f"{owner}.{last}")
        return file
    for dotted in (name, module):
        path = ROOT / dotted.replace(".", "/")
        if path.with_suffix(".py").exists():
            return path.with_suffix(".py")
        start = path / "__init__.py"
        if start.exists() and dotted == name:
            return start
    if not module or not start.exists():
        raise LookupError(f"{name!r} is not defined in the package")
    for node in ast.walk(ast.parse(start.read_text("utf-8"))):
        if getattr(node, "name", None) == last and not isinstance(node, ast.alias):
            return start
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                if (alias.asname or alias.name) == last:
                    return file_of(f"{node.module}.{alias.name}")
    raise LookupError(f"{name!r} is not defined in the package")


def with_definitions(page, text):
    """The text with a definition of each name that it links to, at its end.

    Args:
        page: the path of the page.
        text: its text.
    """
    text = without_definitions(text)
    names = sorted(set(NAMED.findall(text)))
    if not names:
        return text
    links = (
        f"[{name}]: {Path(os.path.relpath(file_of(name), page.parent)).as_posix()}"
        for name in names
    )
    return "\n".join((text.rstrip(), "", NOTE, "", *links, ""))


def without_definitions(text):
    """The text without the definitions that `with_definitions` has written."""
    return DEFINITIONS.sub("\n", text)


if __name__ == "__main__":
    for page in PAGES:
        file = ROOT / page
        file.write_text(refresh(file.read_text(encoding="utf-8")), encoding="utf-8")
    for file in sorted((ROOT / "docs").rglob("*.md")):
        text = file.read_text(encoding="utf-8")
        if NAMED.search(text):
            file.write_text(with_definitions(file, text), encoding="utf-8")
