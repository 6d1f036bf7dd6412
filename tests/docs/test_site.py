"""Holds the site's order and its check to what they promise."""

import html
import json
import re
import shutil
import subprocess

import pytest
from checkout import ROOT, module_of_docs

from studies.reports import with_tables

DOCS = ROOT / "docs"
CONFIG = (ROOT / "mkdocs.yml").read_text("utf-8")
NAVIGATION = re.findall(r"^ +- .*?: ([\w/-]+\.md)$", CONFIG, re.M)
CHAPTERS = re.findall(r'^ +- "?\d+\. .*?: ([\w/-]+\.md)$', CONFIG, re.M)


check = module_of_docs("check").check

SOUND = {
    "index.html": '<a href="a/page.html#place">x</a> <a href="https://else.where">y</a>'
    '<img src="data:image/png;base64,0" alt="a map"><code>$ \\frac</code>'
    '<span class="equation"><math display="block"></math></span>',
    "a/page.html": '<h2 id="place">.</h2><a href="../index.html">x</a>'
    '<a href="#place">.</a>',
    "style.css": "p { background: url(data:image/png;base64,0) }",
    "404.html": "<p>Not here</p>",
}


def faults(folder, **changed):
    """What `check` finds in a sound site with some files changed."""
    for name, text in (SOUND | changed).items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    return check(folder)


def test_a_sound_site_has_no_faults(tmp_path):
    assert faults(tmp_path) == []


@pytest.mark.parametrize(
    ("name", "added", "said"),
    [
        ("index.html", '<a href="gone.html">', "gone.html leads nowhere"),
        ("index.html", '<a href="a/page.html#no">', "a/page.html#no: no such place"),
        ("index.html", '<a href="#no">', "#no: no such place"),
        ("index.html", '<img src="gone.png" alt="x">', "gone.png is not there"),
        ("a/page.html", '<img src="https://x.y/z.png" alt="x">', "from the network"),
        ("index.html", '<script src="//x.y/z.js"></script>', "from the network"),
        ("index.html", '<link href="https://x.y/z.css">', "from the network"),
        ("style.css", "@import 'https://x.y/z.css'", "from the network"),
        ("style.css", "@font-face { src: url(//x.y/z.woff) }", "from the network"),
        ("index.html", '<img src="data:,">', "a picture without a text"),
        ("a/page.html", '<p id="place">', "#place is there more than once"),
        ("index.html", "<p>$x^2$</p>", "a formula was left"),
        ("index.html", r"<p>\frac12</p>", "a formula was left"),
        ("index.html", "<math><merror></merror></math>", "a formula that is none"),
        ("index.html", '<math display="block"></math>', "an equation without a frame"),
        ("lonely.html", "<p>.</p>", "no page links to it"),
    ],
)
def test_each_fault_is_found(tmp_path, name, added, said):
    (found,) = faults(tmp_path, **{name: SOUND.get(name, "") + added})
    assert found.startswith(name)
    assert said in found


def test_a_folder_without_a_front_page_is_no_site(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"`site` must hold index\.html"):
        check(tmp_path)


def test_every_page_has_its_place_in_the_order():
    there = {path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")}
    there = {page for page in there if not page.startswith("upstream/")}
    assert len(NAVIGATION) == len(set(NAVIGATION))
    assert set(NAVIGATION) == there


def test_the_front_page_lists_the_chapters_in_their_order():
    text = (DOCS / "index.md").read_text("utf-8")
    listed = re.findall(r"^\| \d+ \| \[[^]]+\]\(([\w/-]+\.md)\)", text, re.M)
    assert len(CHAPTERS) > 9
    assert listed == CHAPTERS


def test_one_click_leads_from_the_front_page_to_what_newcomers_look_for():
    text = (DOCS / "index.md").read_text("utf-8")
    linked = set(re.findall(r"\]\(([\w/-]+\.md)(?:#[\w-]+)?\)", text))
    wanted = {"which.md", "export.md", "backends.md", "papers.md"}
    wanted |= {"faq.md", "glossary.md", "guides/from-tensorflow-addons.md"}
    wanted |= {"howto/swap-multi-head-attention.md"}
    assert wanted <= linked
    assert {page for page in NAVIGATION if page.startswith("results/")} <= linked
    assert {page for page in NAVIGATION if page.startswith("howto/")} <= linked


def test_the_first_screen_installs_and_runs():
    # What stands before the second heading is seen without scrolling, at 1440 x 900.
    first = (DOCS / "index.md").read_text("utf-8").split("\n## ")[0]
    (install,) = re.findall(r"^```bash\n(.*?)^```", first, re.M | re.S)
    (code,) = re.findall(r"^```python\n(.*?)^```", first, re.M | re.S)
    assert "pip install" in install
    assert len([line for line in code.splitlines() if line]) <= 11
    assert "KERAS_BACKEND" not in code
    assert len(re.findall(r"!\[", first)) == 1


def test_the_tables_of_the_results_are_those_of_the_raw_files():
    pages = [path.read_text("utf-8") for path in sorted(DOCS.glob("results/*.md"))]
    assert [with_tables(page) for page in pages] == pages, "python docs/tables.py"


def test_the_commands_on_the_pages_name_what_exists():
    command = re.compile(r"python ((?:examples|tests|docs)/[a-z0-9_/.]+)")
    named = {
        (page.name, path)
        for page in module_of_docs("code_host").PAGES
        for path in command.findall(page.read_text("utf-8"))
    }
    assert len(named) > 50
    assert not [pair for pair in named if not (ROOT / pair[1]).exists()]


NARROW = """<!DOCTYPE html><meta charset="utf-8"><style>{style}</style>
<body style="margin: 0"><div class="md-typeset" style="width: 390px">
<p><span class="equation"><math display="block"><mrow>{terms}</mrow></math></span></p>
</div><script>
const frame = document.querySelector(".equation"), last = frame.querySelector(".last");
const right = () => last.getBoundingClientRect().right;
const before = right();
frame.scrollLeft = 1e6;
document.title = JSON.stringify([frame.getBoundingClientRect().right, before, right()]);
</script>"""


def test_a_wide_equation_scrolls_within_its_frame(tmp_path):
    # Only a browser lays out MathML. It costs two seconds.
    browser = shutil.which("chromium") or shutil.which("chromium-browser")
    if browser is None:
        pytest.skip("needs Chromium")
    terms = "<mi>weights</mi><mo>=</mo>" * 20 + '<mi class="last">x</mi>'
    style = (DOCS / "style.css").read_text("utf-8")
    page = tmp_path / "page.html"
    page.write_text(NARROW.format(style=style, terms=terms), "utf-8")
    options = ["--headless=new", "--no-sandbox", f"--user-data-dir={tmp_path}"]
    dom = subprocess.run(
        [browser, *options, "--dump-dom", page.as_uri()],
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    ).stdout
    title = html.unescape(re.search("<title>(.*)</title>", dom)[1])
    frame, before, after = json.loads(title)
    assert frame <= 390
    assert before > 390  # otherwise the equation is not wide
    assert after <= frame + 1
