"""Checks the pages as a code host shows them: without a build, from the repository.

`python docs/code_host.py` prints what is wrong, and exits with 1 if anything is. It is
wrong where

- a link or a picture has no file in the repository;
- a link leads to a heading that its page does not have, or to a line of code;
- a link such as [`Hop.call`](…/memory_hop.py) names what its file does not define;
- a link with a name, such as [`Hopfield`][keras_attention.layers.Hopfield], has no
  definition;
- a line has attributes, such as { width="480" }, which a code host shows as text.

The site leads from a name of the API to the page of the API. For a code host,
`python docs/code_host.py --write` writes a definition of each name, the file with its
docstring, to the end of the page; docs/hooks.py leaves these out of the site.
"""

import ast
import functools
import os
import re
import sys
from pathlib import Path
from urllib.parse import unquote

ROOT = Path(__file__).resolve().parents[1]
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")),
    ROOT / "tests" / "README.md",
    *sorted([*ROOT.glob("examples/studies/*/*.md"), *ROOT.glob("tests/*/*.md")]),
    *sorted((ROOT / "docs").rglob("*.md")),
]
LINK = re.compile(
    r"\[`(?P<name>[\w.]+)`\]\((?P<target>(?:\.\./)*"
    r"(?P<path>(?:keras_attention|tests|examples)/[\w/]+\.py))\)"
)
API = re.compile(r"\]\[(keras_attention[\w.]*)\]")
NOTE = "<!-- Links for a code host, written by docs/code_host.py -->"
DEFINITIONS = re.compile(
    rf"\n*{re.escape(NOTE)}\n+(?:\[keras_attention[\w.]*\]: \S+\n*)*"
)
FENCE = re.compile(r"^( *)(```+|~~~+).*?^\1\2 *$", re.M | re.S)
CODE = re.compile(r"(`+)(?!`).+?(?<!`)\1(?!`)", re.S)
TARGETS = re.compile(r"\]\(\s*<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\s*\)")
SOURCES = re.compile(r"<(?:img|a)\b[^>]*?\b(?:src|href)=\"([^\"]+)\"")
NAMED = re.compile(r"\]\[([^\]\n]*)\]")
DEFINED = re.compile(r"^\[([^\]\n]+)\]:\s*(\S+)", re.M)
ATTRIBUTES = re.compile(r"[)\]`*]\{[ :][^}\n]*\}")


def text_of(page):
    """The text of a page without its blocks of code."""
    return FENCE.sub("", page.read_text("utf-8"))


def slug(heading):
    """The anchor that a code host gives to a heading."""
    shown = re.sub(r"!?\[([^\]]*)\](?:\([^)]*\)|\[[^\]]*\])", r"\1", heading)
    shown = re.sub(r"<[^>]+>", "", shown).strip().lower()
    return re.sub(r"[^\w\- ]", "", shown).replace(" ", "-")


def anchors(text):
    """The anchors of a page: of its headings, and those that it names itself."""
    found = set(re.findall(r"\b(?:id|name)=\"([^\"]+)\"", text))
    counts = {}
    for heading in re.findall(r"^#{1,6} +(.+?)(?: +#+)?$", text, re.M):
        name = slug(heading)
        count = counts[name] = counts.get(name, -1) + 1
        found.add(f"{name}-{count}" if count else name)
    return found


def faults(page):
    """What is wrong with a page, a line each.

    Args:
        page: the path of a Markdown file.
    """
    text = text_of(page)
    prose = CODE.sub("`code`", text)
    defined = dict(DEFINED.findall(text))
    targets = [*TARGETS.findall(prose), *SOURCES.findall(prose), *defined.values()]
    for target in dict.fromkeys(targets):
        path, _, place = unquote(target).partition("#")
        if re.match(r"[a-z]+:", path):
            continue
        file = page if not path else (page.parent / path).resolve()
        if not file.exists():
            yield f"{target} is not in the repository"
        elif place and file.suffix == ".md" and place not in anchors(text_of(file)):
            yield f"{target}: that page has no such heading"
        elif place and file.suffix == ".py":
            yield f"{target}: lines move; the text of a link names what is there"
    for link in LINK.finditer(text):
        file = page.parent / link["target"]
        if file.exists() and not is_defined(file, link["name"]):
            yield f"{link['path']} does not define {link['name']}"
    for name in dict.fromkeys(NAMED.findall(prose)):
        if name not in defined:
            yield f"[{name}] has no definition"
    for attributes in ATTRIBUTES.findall(prose):
        yield f"{attributes[1:]} would be shown as text"


def is_defined(file, name):
    """Whether a file defines a function or class.

    Args:
        file: the path of a Python file.
        name: its name, with dots where it is within another: "MemoryHop.call".
    """
    body = ast.parse(file.read_text("utf-8")).body
    for part in name.split("."):
        nodes = [node for node in body if getattr(node, "name", None) == part]
        if not nodes:
            return False
        body = nodes[-1].body
    return True


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
        if is_defined(file, f"{owner}.{last}"):
            return file
        raise LookupError(f"{name!r} is not defined in the package")
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
                if alias.name == "*" and last in exports(file_of(node.module)):
                    return file_of(f"{node.module}.{last}")
    raise LookupError(f"{name!r} is not defined in the package")


def exports(file):
    """The names that `__all__` of a file lists, if these are all literals."""
    for node in ast.parse(file.read_text("utf-8")).body:
        if isinstance(node, ast.Assign) and node.targets[0].id == "__all__":
            return ast.literal_eval(node.value)
    return []


def with_definitions(page, text):
    """The text with a definition of each name that it links to, at its end.

    Args:
        page: the path of the page.
        text: its text.
    """
    text = without_definitions(text)
    names = sorted(set(API.findall(text)))
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


def main(arguments):
    """Prints what is wrong; the exit status is 1 if anything is."""
    for page in PAGES if "--write" in arguments else ():
        text = page.read_text("utf-8")
        if API.search(text):
            page.write_text(with_definitions(page, text), "utf-8")
    found = [
        f"{page.relative_to(ROOT)}: {fault}" for page in PAGES for fault in faults(page)
    ]
    print(*found, f"{len(PAGES)} pages, {len(found)} faults", sep="\n")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
