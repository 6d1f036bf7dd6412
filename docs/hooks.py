"""What the build adds to the pages: links to the API, sizes of pictures, frames."""

import re
import struct
from pathlib import Path
from urllib.parse import unquote

import lines

ROOT = Path(__file__).resolve().parents[1]
PICTURE = re.compile(r'<img (?P<rest>[^>]*?)src="(?P<source>[^":]+\.png)"')
EQUATION = re.compile(r'<math display="block".*?</math>', re.S)
DOTS_PER_INCH = 160  # of docs/pictures.py; a browser shows 96


def on_page_markdown(markdown, page, config, files):
    """Turns links to lines of code, which the site does not hold, into API links."""
    return lines.LINK.sub(_api_link, lines.without_definitions(markdown))


def on_page_content(html, page, config, files):
    """Gives pictures a size, and equations a frame in which they scroll.

    The letters of a picture become as large as the text. No browser scrolls what is
    within <math>, so the frame is an element around it.
    """

    def with_width(found):
        path = Path(page.file.abs_src_path).parent / unquote(found["source"])
        if not path.exists() or "width=" in found["rest"]:
            return found[0]
        (width,) = struct.unpack(">I", path.read_bytes()[16:20])
        return f'<img width="{round(width * 96 / DOTS_PER_INCH)}" {found[0][5:]}'

    html = EQUATION.sub(r'<span class="equation">\g<0></span>', html)
    return PICTURE.sub(with_width, html)


def _api_link(link):
    name, path, line = link["name"], link["path"], link["line"]
    owner = name.split(".")[0]
    if _has_a_page(owner, path):
        target = f"{path.removesuffix('.py').replace('/', '.')}.{owner}"
        return f"[`{name}`][{target}]<br><small>{path}:{line}</small>"
    # Long names break behind an underscore rather than anywhere.
    breakable = name.replace("_", "_<wbr>")
    return f"<code>{breakable}</code><br><small>{path}:{line}</small>"


def _has_a_page(owner, path):
    """Whether the API's pages tell of it: classes that are not exported have none."""
    if not path.startswith("keras_attention/") or "/kernels/" in path:
        return False
    if path.split("/")[1] in ("layers", "models"):
        words = re.findall(r"\w+", (ROOT / path).with_name("__init__.py").read_text())
        return owner in words
    return not owner.startswith("_")
