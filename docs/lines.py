"""Keeps the links from equations to lines of code right.

README.md, docs/papers.md and a guide link to functions by file and line. A line moves
when something is written above it; `python docs/lines.py` puts every number right, and
tests/docs/test_docs.py fails where one is wrong.
"""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGES = ("README.md", "docs/papers.md", "docs/guides/dnc.md")
LINK = re.compile(
    r"\[`(?P<name>[\w.]+)`\]\((?P<up>(?:\.\./)*)"
    r"(?P<path>(?:keras_attention|tests|examples)/[\w/]+\.py)#L(?P<line>\d+)\)"
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


if __name__ == "__main__":
    for page in PAGES:
        file = ROOT / page
        file.write_text(refresh(file.read_text(encoding="utf-8")), encoding="utf-8")
