"""Checks a site that was built: every link leads somewhere, and nothing is fetched.

`python docs/check.py SITE` reads each page of the folder SITE, prints what is wrong
with it and exits with 1 if anything is. It is wrong where

- a link within the site leads to a page or to a place on it that is not there;
- a script, a style, a font or a picture comes from the network;
- a place has the same name as another one of its page;
- a picture has no text for those who do not see it;
- a formula was left as LaTeX, or could not be made MathML;
- an equation has no frame in which it scrolls on a narrow screen;
- a page is not reached from the front page.
"""

import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

LOADS = {
    "link": "href",
    "script": "src",
    "img": "src",
    "iframe": "src",
    "source": "src",
}
VERBATIM = ("code", "pre", "script", "style", "math")
LATEX = re.compile(r"\$|\\[a-z]+")
STYLE_LOADS = re.compile(r"(?:url\(\s*|@import\s+)[\"']?((?:https?:)?//[^\"')\s]+)")


class Page(HTMLParser):
    """What one page links to, loads and names.

    Args:
        text: the HTML of it.
    """

    def __init__(self, text: str):
        super().__init__()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.names: list[str] = []
        self.wrong: list[str] = []
        self._verbatim = 0
        self._before: tuple = ()
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        if given.get("id"):
            self.names.append(given["id"])
        if tag == "a" and given.get("href"):
            self.links.append(given["href"])
        if tag in LOADS and given.get(LOADS[tag]):
            self.loads.append(given[LOADS[tag]])
        if tag == "img" and not given.get("alt"):
            self.wrong.append(f"a picture without a text: {given.get('src')}")
        if tag == "merror":
            self.wrong.append("a formula that is none")
        is_framed = self._before == ("span", "equation")
        if tag == "math" and given.get("display") == "block" and not is_framed:
            self.wrong.append("an equation without a frame")
        self._before = (tag, given.get("class"))
        self._verbatim += tag in VERBATIM

    def handle_endtag(self, tag):
        self._verbatim -= tag in VERBATIM

    def handle_data(self, text):
        if not self._verbatim and LATEX.search(text):
            self.wrong.append(f"a formula was left: {text.strip()[:60]!r}")


def is_elsewhere(link: str) -> bool:
    """Whether a link leaves the site."""
    parts = urlsplit(link)
    return bool(parts.netloc) or parts.scheme not in ("", "file")


def check(site: Path) -> list[str]:
    """What is wrong with a site, a line each.

    Args:
        site: the folder that it was built into.

    Raises:
        FileNotFoundError: if `site` has no front page.
    """
    front = site / "index.html"
    if not front.exists():
        raise FileNotFoundError(f"`site` must hold index.html. Received: site={site}")
    paths = sorted(site.rglob("*.html"))
    pages = {path.resolve(): Page(path.read_text("utf-8")) for path in paths}
    found = [
        f"{path.relative_to(site.resolve())}: {what}"
        for path, page in pages.items()
        for what in _wrong_on(path, page, pages)
    ]
    for style in sorted(site.rglob("*.css")):
        for address in STYLE_LOADS.findall(style.read_text("utf-8")):
            found.append(f"{style.relative_to(site)}: {address} comes from the network")
    reached = _reached(front.resolve(), pages)
    for path in pages.keys() - reached - {(site / "404.html").resolve()}:
        found.append(f"{path.relative_to(site.resolve())}: no page links to it")
    return sorted(found)


def _wrong_on(path, page, pages):
    yield from page.wrong
    for name in sorted({name for name in page.names if page.names.count(name) > 1}):
        yield f"#{name} is there more than once"
    for address in page.loads:
        if address.startswith("data:"):
            continue
        if is_elsewhere(address):
            yield f"{address} comes from the network"
        elif not _target(path, address)[0].exists():
            yield f"{address} is not there"
    for link in page.links:
        if is_elsewhere(link):
            continue
        target, place = _target(path, link)
        if not target.exists():
            yield f"{link} leads nowhere"
        elif place and target in pages and place not in pages[target].names:
            yield f"{link}: no such place on that page"


def _target(path, link):
    """The file that a link of a page leads to, and the place in it."""
    parts = urlsplit(link)
    target = path if not parts.path else path.parent / unquote(parts.path)
    if parts.path.startswith("/"):  # from 404.html alone, which is shown anywhere
        target = path.parent / unquote(parts.path).lstrip("/")
    target = target.resolve()
    return (target / "index.html" if target.is_dir() else target), unquote(
        parts.fragment
    )


def _reached(front, pages):
    reached, ahead = set(), [front]
    while ahead:
        path = ahead.pop()
        if path in reached or path not in pages:
            continue
        reached.add(path)
        links = [link for link in pages[path].links if not is_elsewhere(link)]
        ahead += [_target(path, link)[0] for link in links]
    return reached


def main(site: str) -> int:
    """Prints what is wrong, and how much was looked at.

    Returns:
        The exit status: 1 if anything is wrong.
    """
    found = check(Path(site))
    pages = len(list(Path(site).rglob("*.html")))
    print(*found, f"{pages} pages, {len(found)} faults", sep="\n")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
