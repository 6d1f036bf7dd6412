"""What the build adds to the pages: pictures drawn by code, and links to the API."""

import io
import json
import re
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import drawings
import lines
from mkdocs.structure.files import File

ROOT = Path(__file__).resolve().parents[1]
PICTURES = ROOT / "docs" / "pictures.json"


def on_startup(command, dirty):
    """Makes the pictures' code importable, and it alone.

    A bare parent in the package's place keeps Keras, and so a backend, out of the
    environment in which the pages are built.
    """
    package = ModuleType("keras_attention")
    package.__path__ = [str(ROOT / "keras_attention")]
    sys.modules.setdefault("keras_attention", package)


def on_files(files, config):
    """Adds the pictures of the guides, drawn from weights that docs/pictures.py keeps.

    docs/drawings.py adds the drawings.
    """
    from keras_attention import visualization

    for name, drawn in json.loads(PICTURES.read_text("utf-8")).items():
        draw = getattr(visualization, drawn["function"])
        weights, *texts = drawn["arguments"]
        if isinstance(weights, dict):  # the trace of a memory
            weights = SimpleNamespace(**weights)
        figure = draw(weights, *texts, **drawn["more"])
        picture = io.BytesIO()
        figure.savefig(picture, format="png", dpi=160, metadata={"Software": None})
        files.append(File.generated(config, name, content=picture.getvalue()))
    for name, drawing in drawings.drawings().items():
        files.append(File.generated(config, name, content=drawing().svg()))
    return files


def on_page_markdown(markdown, page, config, files):
    """Turns links to lines of code, which the site does not hold, into API links."""
    return lines.LINK.sub(_api_link, markdown)


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
