"""Checks the pages as a code host shows them: without a build, from the repository.

`python docs/code_host.py` prints what is wrong, and exits with 1 if anything is. It is
wrong where

- a link or a picture has no file in the repository;
- a link leads to a heading that its page does not have;
- a link with a name, such as [`Hopfield`][keras_attention.layers.Hopfield], has no
  definition: `python docs/lines.py` writes these definitions;
- a line has attributes, such as { width="480" }, which a code host shows as text.
"""

import re
import sys
from pathlib import Path
from urllib.parse import unquote

ROOT = Path(__file__).resolve().parents[1]
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")),
    ROOT / "tests" / "README.md",
    *sorted((ROOT / "docs").rglob("*.md")),
]
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
    for name in dict.fromkeys(NAMED.findall(prose)):
        if name not in defined:
            yield f"[{name}] has no definition"
    for attributes in ATTRIBUTES.findall(prose):
        yield f"{attributes[1:]} would be shown as text"


def main():
    """Prints what is wrong; the exit status is 1 if anything is."""
    found = [
        f"{page.relative_to(ROOT)}: {fault}" for page in PAGES for fault in faults(page)
    ]
    print(*found, f"{len(PAGES)} pages, {len(found)} faults", sep="\n")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
