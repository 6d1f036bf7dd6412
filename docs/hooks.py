"""What the build adds to the pages: notebooks, links to the API, sizes and frames."""

import re
import struct
import tomllib
from pathlib import Path
from urllib.parse import unquote, urlsplit

import code_host
import notebooks
from mkdocs.structure.files import File

ROOT = Path(__file__).resolve().parents[1]
PICTURE = re.compile(r'<img (?P<rest>[^>]*?)src="(?P<source>[^":]+\.png)"')
EQUATION = re.compile(r'<math display="block".*?</math>', re.S)
COMMA = re.compile(r",\s+")
DOTS_PER_INCH = 160  # of docs/pictures.py; a browser shows 96


def on_config(config):
    """Shows the version, and where the code is.

    The address is `Repository` of [project.urls] in pyproject.toml. There is none while
    its host ends with ".invalid".
    """
    code = (ROOT / "keras_attention" / "version.py").read_text("utf-8")
    version = re.search(r'__version__ = "(.+)"', code)[1]
    config.copyright = f"{config.site_name} {version}, Apache License 2.0"
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    address = project.get("urls", {}).get("Repository", "").rstrip("/")
    host = urlsplit(address).hostname
    if host and not host.endswith(".invalid"):
        config.repo_url = address
        config.repo_name = urlsplit(address).path.strip("/")
        config.edit_uri = "edit/main/docs/"
    return config


def on_files(files, config):
    """Adds a notebook of each guide, beside its page."""
    for page in notebooks.GUIDES:
        address = notebooks.in_site(page, config.site_url)
        text = notebooks.to_json(notebooks.notebook_of(page, address, code=False))
        files.append(File.generated(config, f"guides/{page.stem}.ipynb", content=text))
    return files


def on_page_markdown(markdown, page, config, files):
    """Adds the link to a guide's notebook, and turns links to code into API links.

    The site does not hold the files of code.
    """
    text = code_host.without_definitions(markdown)
    text = code_host.LINK.sub(lambda link: _code_link(link, config.repo_url), text)
    path = Path(page.file.src_uri)
    if path.parts[0] != "guides":
        return text
    link = (
        f'[Download as notebook]({path.stem}.ipynb){{ download="{path.stem}.ipynb" }}'
    )
    title, _, rest = text.partition("\n")
    return f"{title}\n\n{link}\n{rest}"


def on_page_content(html, page, config, files):
    """Gives pictures a size, and equations a frame in which they scroll.

    The letters of a picture become as large as the text. No browser scrolls what is
    within <math>, so the frame is an element around it.
    """

    def with_width(match):
        path = Path(page.file.abs_src_path).parent / unquote(match["source"])
        if not path.exists() or "width=" in match["rest"]:
            return match[0]
        (width,) = struct.unpack(">I", path.read_bytes()[16:20])
        return f'<img width="{round(width * 96 / DOTS_PER_INCH)}" {match[0][5:]}'

    html = EQUATION.sub(r'<span class="equation">\g<0></span>', html)
    return PICTURE.sub(with_width, html)


def on_post_page(output, page, config):
    """Leaves out the mark by which the theme's script asks a code host for numbers."""
    return output.replace(' data-md-component="source"', "")


def _code_link(link, repository):
    """A link to the API, to the code host, or the path where there is no such page.

    Of several names in one file, the last one shows the path.
    """
    name, path = link["name"], link["path"]
    owner = name.split(".")[0]
    if _has_a_page(owner, path):
        target = f"{path.removesuffix('.py').replace('/', '.')}.{owner}"
        return f"[`{name}`][{target}]"
    # Long names break behind an underscore rather than anywhere; a plain one would
    # begin italics.
    code = f"<code>{name.replace('_', '&#95;<wbr>')}</code>"
    if repository:
        return f"[{code}]({repository}/blob/HEAD/{path})"
    comma = COMMA.match(link.string, link.end())
    following = comma and code_host.LINK.match(link.string, comma.end())
    if following and following["path"] == path:
        return code
    return f"{code} <small>{path}</small>"


def _has_a_page(owner, path):
    """Whether the API's pages tell of it: classes that are not exported have none."""
    if not path.startswith("keras_attention/") or "/kernels/" in path:
        return False
    if path.split("/")[1] in ("layers", "models"):
        words = re.findall(r"\w+", (ROOT / path).with_name("__init__.py").read_text())
        return owner in words
    return not owner.startswith("_")
