"""Writes the pages of the API while the site is built: a class has one of its own.

The files docs/api/*.md are the outline. A line `::: keras_attention.layers.Hopfield`
there becomes a line with a link to docs/api/layers/Hopfield.md, which is added to the
site and to its navigation. Functions, and all of a data set, stand together on one page
for each heading. docs/api/index.md lists all pages.

Below a signature stand links to the pages that use the name, to its equations and their
tests in docs/papers.md, and to the source.
"""

import ast
import collections
import functools
import html
import posixpath
import re
from pathlib import Path

import code_host

DOCS = Path(__file__).resolve().parent
ROOT = DOCS.parent
DIRECTIVE = re.compile(r"^::: (?P<name>\S+)\n(?P<options>(?:    .*\n)*)\n*", re.M)
ITEM = re.compile(r"^(?=- |\| )", re.M)  # of a list, or a row of a table
SECTION = re.compile(r"^(?=## )", re.M)
USE = re.compile(
    r"(?P<link>\]\[keras_attention[\w.]*\.(?P<linked>\w+)\])"
    r"|`(?P<named>\w+)`|(?<!keras\.layers\.)\b(?P<called>[A-Z]\w+)\("
)
# An object from its heading to its text, where the links go.
CONTENTS = re.compile(
    r'<h\d id="(?P<name>keras_attention[\w.]*)" class="doc doc-heading">'
    r'(?:(?!<h\d ).)*?<div class="doc doc-contents[^"]*">',
    re.S,
)
HEAD = re.compile(r"(<h1 .*?</span>)(.*?</h1>)", re.S)
# The first line of a docstring, below the links.
SUMMARY = re.compile(r'(<p class="api-links".*?</p>\s*)<p>(.*?)</p>', re.S)
# Names that search would list below longer ones or guides. A tag makes them first.
TAGGED = (
    "Attention",
    "Hopfield",
    "MemN2N",
    "MemNN",
    "MultiHeadAttention",
    "Seq2Seq",
    "Transformer",
)
TESTS = 4  # of an object, at most; the page of papers has all

Family = collections.namedtuple("Family", "title guides groups")
Group = collections.namedtuple("Group", "heading guides pages")
Page = collections.namedtuple("Page", "title address text shown")


def has_own_page(name):
    """Whether a name is that of a class that is not part of a data set."""
    last = name.rpartition(".")[2]
    return last[0].isupper() and not name.startswith("keras_attention.datasets.")


@functools.cache
def outline():
    """The families of docs/api, {name of the file: Family}."""
    paths = sorted((DOCS / "api").glob("*.md"))
    return {path.stem: _family(path) for path in paths if path.stem != "index"}


def _family(path):
    text = code_host.without_definitions(path.read_text("utf-8")) + "\n"
    sections = SECTION.split(text)
    groups = [_group(section, path.stem) for section in sections]
    groups = [group for group in groups if group.pages]
    return Family(_heading(sections[0]), _guides(sections[0]), groups)


def _guides(section):
    links = re.findall(r"\]\(\.\./((?:guides|howto)/[\w-]+\.md)", section)
    return [DOCS / link for link in links]


def _heading(section):
    return section.partition("\n")[0].lstrip("# ")


def _group(section, family):
    pages = [
        _page_of_class(match, family)
        for match in DIRECTIVE.finditer(section)
        if has_own_page(match["name"])
    ]
    text = DIRECTIVE.sub(
        lambda match: "" if has_own_page(match["name"]) else match[0], section
    )
    shown = list(_shown(text))
    if shown:
        title = _heading(section)
        address = f"api/{family}/{code_host.slug(title)}.md"
        text = code_host.TARGETS.sub(_one_folder_deeper, text.removeprefix("#"))
        text = DIRECTIVE.sub(_in_its_place, text)
        pages.append(Page(title, address, text, shown))
    return Group(_heading(section), _guides(section), pages)


def _shown(text):
    """The names that the directives of a text show: of a module, its functions."""
    for match in DIRECTIVE.finditer(text):
        name = match["name"]
        yield name
        members = re.search(r"members: (?:false|\[(.*)\])", match["options"])
        if members:
            functions = re.findall(r"\w+", members[1] or "")
        else:
            nodes = _tree(file_of(name)).body if _is_module(name) else ()
            functions = [n.name for n in nodes if isinstance(n, ast.FunctionDef)]
        yield from (
            f"{name}.{function}" for function in functions if function[0] != "_"
        )


def _page_of_class(match, family):
    name = match["name"]
    title = name.rpartition(".")[2]
    tags = f"tags: [{title}]\n" if title in TAGGED else ""
    head = f"---\ntitle: {title}\n{tags}---\n\n"
    text = head + _directive(match, "heading_level: 1")
    return Page(title, f"api/{family}/{title}.md", text, [name])


def _directive(match, *options):
    lines = [*(f"      {o}" for o in options), *match["options"].splitlines()[1:]]
    lines = ["    options:", *lines] if lines else []
    return "\n".join((f"::: {match['name']}", *lines, "", ""))


def _in_its_place(match):
    """A module stands under the heading of its page, without one of its own."""
    if _is_module(match["name"]):
        return _directive(match, "show_root_heading: false")
    return _directive(match)


def file_of(name):
    """The file that defines a name, also where `ops` has a module of `numerics`."""
    try:
        return code_host.file_of(name)
    except LookupError:
        return code_host.file_of(name.rpartition(".")[0])


def _definition(name):
    """The node of a function or class, or None for a module or a constant."""
    last = name.rpartition(".")[2]
    nodes = _tree(file_of(name)).body
    return next((node for node in nodes if getattr(node, "name", None) == last), None)


def _is_defined(name):
    """Whether a function, a class, or a method of a class exists."""
    owner, _, last = name.rpartition(".")
    owner = owner.rpartition(".")[2]
    dotted = f"{owner}.{last}" if owner[:1].isupper() else last
    return code_host.is_defined(file_of(name), dotted)


def _is_module(name):
    last = name.rpartition(".")[2]
    return _definition(name) is None and file_of(name).stem in (last, "__init__")


def _one_folder_deeper(match):
    target = match[1]
    if re.match(r"[a-z]+:|#", target):
        return match[0]
    return match[0].replace(target, posixpath.normpath(f"../{target}"), 1)


def pages():
    """All pages that are added to the site, in the order of the outline."""
    for family in outline().values():
        for group in family.groups:
            yield from group.pages


@functools.cache
def place_of(name):
    """The path of the page that documents a name, as if it was a file, and the place.

    Raises:
        LookupError: if there is none.
    """
    documented = {n: DOCS / page.address for page in pages() for n in page.shown}
    if name in documented:
        return documented[name], name
    module, _, last = name.rpartition(".")
    if _is_defined(name):
        if module in documented:
            return documented[module], name
        for other, address in documented.items():  # a module under another name
            same = other.rpartition(".")[2] == module.rpartition(".")[2]
            if same and file_of(other) == file_of(name):
                return address, f"{other}.{last}"
    raise LookupError(f"no page of the API documents {name!r}")


@functools.cache
def _tree(path):
    return ast.parse(path.read_text("utf-8"))


def first_line(name):
    """The first line of the docstring of a class."""
    return ast.get_docstring(_definition(name)).partition("\n")[0]


def line_of(page, folder):
    """A line of Markdown that tells what a page has, for a page in a folder."""
    link = posixpath.relpath(page.address, folder)
    (name, *others) = page.shown
    if not others and has_own_page(name):
        return f"- [`{page.title}`]({link}): {first_line(name)}"
    names = (name for name in page.shown if not _is_module(name))
    listed = ", ".join(f"`{name.rpartition('.')[2]}`" for name in names)
    return f"- [{page.title}]({link}): {listed}"


def _lines(group, folder):
    return "\n".join(line_of(page, folder) for page in group.pages)


def page_of_family(text, family):
    """An outline as a page: the prose before classes, and a line for each page."""
    groups = {group.heading: group for group in outline()[family].groups}
    parts = []
    for section in SECTION.split(text + "\n"):
        group = groups.get(_heading(section))
        if group is None:
            parts.append(section)
            continue
        has_functions = any(page.text[0] == "#" for page in group.pages)
        start = (
            section.partition("\n")[0] if has_functions else DIRECTIVE.sub("", section)
        )
        parts.append(f"{start.rstrip()}\n\n{_lines(group, 'api')}\n")
    return "\n".join(parts)


def list_of_all(titles):
    """The list of all pages, for docs/api/index.md.

    Args:
        titles: the names of the families, in their order.
    """
    parts = []
    for stem in titles:
        family = outline()[stem]
        parts.append(f"## [{family.title}]({stem}.md)")
        for group in family.groups:
            if group.heading != family.title:
                parts.append(f"### {group.heading}")
            parts.append(_lines(group, "api"))
    return "\n\n".join(parts)


def _families(config):
    """The entries of the navigation below "API"."""
    (api,) = (entry["API"] for entry in config.nav if "API" in entry)
    return api


def _stem(entry):
    (address,) = entry.values()
    return Path(address).stem


def on_files(files, config):
    """Adds the pages, and their places in the navigation."""
    from mkdocs.structure.files import File  # docs/notebooks.py does without

    for page in pages():
        files.append(File.generated(config, page.address, content=page.text))
    for entry in _families(config):
        ((title, address),) = entry.items()
        if isinstance(address, str) and _stem(entry) in outline():
            entry[title] = [{"Overview": address}, *_entries(outline()[_stem(entry)])]
    return files


def _entries(family):
    for group in family.groups:
        listed = [{page.title: page.address} for page in group.pages]
        flat = len(listed) == 1 or group.heading == family.title
        yield from listed if flat else [{group.heading: listed}]


def on_page_markdown(markdown, page, config, files):
    """Turns an outline into the page of a family."""
    folder, _, name = page.file.src_uri.partition("/")
    stem = name.removesuffix(".md")
    if folder == "api" and stem in outline():
        return page_of_family(markdown, stem)
    if folder == "api" and stem == "index":
        entries = [next(iter(entry.values())) for entry in _families(config)]
        families = [
            entry[0]["Overview"] for entry in entries if entry != "api/index.md"
        ]
        return f"{markdown}\n\n{list_of_all([Path(f).stem for f in families])}"
    return markdown


@functools.cache
def equations():
    """{(file, name): [(heading in docs/papers.md, names and files of tests)]}."""
    rows = collections.defaultdict(list)
    for section in SECTION.split((DOCS / "papers.md").read_text("utf-8")):
        for item in ITEM.split(section):
            links = code_host.LINK.finditer(item)
            links = [(link["path"], link["name"]) for link in links]
            tests = [link for link in links if link[0].startswith("tests/")]
            for path, name in links:
                rows[path, name.partition(".")[0]].append((_heading(section), tests))
    return rows


@functools.cache
def headings_of_papers():
    """The headings of docs/papers.md, titles of papers among them."""
    return re.findall(r"^## (.+)$", (DOCS / "papers.md").read_text("utf-8"), re.M)


def _reference(name):
    """The last part of a docstring, which cites papers by their titles."""
    node = _definition(name)
    text = " ".join(((node and ast.get_docstring(node)) or "").split())
    return re.split("references?:", text.lower())[-1]


@functools.cache
def uses():
    """{name: Counter of the pages that use it in code or link to it}."""
    counts = collections.defaultdict(collections.Counter)
    for path in sorted([*DOCS.glob("guides/*.md"), *DOCS.glob("howto/*.md")]):
        for use in USE.finditer(code_host.without_definitions(path.read_text("utf-8"))):
            name = use["linked"] or use["named"] or use["called"]
            counts[name][path] += 10 if use["link"] else 1
    return counts


def _guides_of_group(name):
    """The guides to which the outline links above a name."""
    for family in outline().values():
        for group in family.groups:
            if any(name in page.shown for page in group.pages):
                return [*group.guides, *family.guides][:1]


def links_of(name, page, config):
    """The links below the signature of a name: pages, equations, tests, source."""
    file = file_of(name).relative_to(ROOT).as_posix()
    last = name.rpartition(".")[2]
    rows = equations().get((file, last), [])
    cited = _reference(name)
    papers = dict.fromkeys(heading for heading, _ in rows)
    papers |= dict.fromkeys(p for p in headings_of_papers() if f'"{p.lower()}' in cited)
    tests = list(dict.fromkeys(test for _, tests in rows for test in tests))
    guides = uses().get(last, collections.Counter()).most_common(2)
    guides = [path for path, count in guides if count > guides[0][1] // 2]
    of_group = _guides_of_group(name) or []
    short = [path for path in of_group if path.parent.name == "howto"]
    guides = list(dict.fromkeys([*short, *guides])) or of_group

    def inside(address, text, place=""):
        url = posixpath.relpath(address, posixpath.dirname(page.url))
        url = url.replace(".md", ".html") + place
        return f'<a href="{url}">{html.escape(text)}</a>'

    def code(path, text):
        text = f"<code>{html.escape(text)}</code>"
        url = (config.repo_url or "").rstrip("/")
        return f'<a href="{url}/blob/HEAD/{path}">{text}</a>' if url else text

    parts = {
        "Name": [f"<code>{name}</code>"],
        "Guide": [
            inside(path.relative_to(DOCS).as_posix(), _heading(path.read_text("utf-8")))
            for path in guides
        ],
        "Equations": [
            inside("papers.md", paper, f"#{code_host.slug(paper)}") for paper in papers
        ],
        "Tests": [code(*test) for test in tests[:TESTS]],
        "Letters": [inside("notation.md", "Notation")] if has_own_page(name) else [],
        "Source": [code(file, file)] if has_own_page(name) else [],
    }
    if len(tests) > TESTS:
        place = f"#{code_host.slug(rows[0][0])}"
        parts["Tests"].append(inside("papers.md", f"all {len(tests)}", place))
    lines = (
        f"<b>{kind}:</b> {', '.join(links)}" for kind, links in parts.items() if links
    )
    text = ("<br>" if has_own_page(name) else " · ").join(lines)
    return f'<p class="api-links" data-search-exclude>{text}</p>'


def on_page_content(html, page, config, files):
    """Puts links below each signature, and the first line of a class into its heading.

    So the list of a search shows what each class is, and ranks it by that.
    """
    (shown,) = [p.shown for p in pages() if p.address == page.file.src_uri] or [[]]

    def with_links(match):
        if match["name"] not in shown or _is_module(match["name"]):
            return match[0]
        return match[0] + links_of(match["name"], page, config)

    html = CONTENTS.sub(with_links, html)
    return with_summary(html) if len(shown) == 1 and has_own_page(*shown) else html


def with_summary(html):
    """The page of a class, with the first line of its docstring in the heading.

    The heading becomes the first element, which search takes for the title of a page.
    """
    start, end = HEAD.search(html).groups()
    _, summary = SUMMARY.search(html).groups()
    text = SUMMARY.sub(r"\1", HEAD.sub("", html, count=1), count=1)
    return f"{start} <small>{summary}</small>{end}{text}"
