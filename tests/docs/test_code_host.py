"""Holds the pages to what a code host shows of them: links, headings, pictures."""

import json

import pytest
from checkout import ROOT, module_of_docs

DOCS = ROOT / "docs"
PICTURES = json.loads((DOCS / "pictures.json").read_text("utf-8"))
MEGABYTES = 3  # of all pictures together


code_host, pictures = map(module_of_docs, ("code_host", "pictures"))


@pytest.mark.parametrize(
    "page", code_host.PAGES, ids=lambda p: str(p.relative_to(ROOT))
)
def test_links_and_pictures_are_there(page):
    assert list(code_host.faults(page)) == []


SOUND = """# Title

[here](#title), [`there`](other.md#a-b--c-1), [code](other.md) and
[`Hopfield`][keras_attention.layers.Hopfield], `[no](link.md)`

```python
[no](link.md)
```

[keras_attention.layers.Hopfield]: other.md
"""


@pytest.mark.parametrize(
    ("added", "said"),
    [
        ("", []),
        ("[x](gone.md)", ["gone.md is not in the repository"]),
        ('<img src="gone.png">', ["gone.png is not in the repository"]),
        ("![a\nmap](gone.png)", ["gone.png is not in the repository"]),
        ("[x](#no)", ["#no: that page has no such heading"]),
        ("[x](other.md#no)", ["other.md#no: that page has no such heading"]),
        (
            "[`Known`](tests/code.py#L1)",
            ["tests/code.py#L1: lines move; the text of a link names what is there"],
        ),
        ("[`Known.call`](tests/code.py)", []),
        ("[`Known.no`](tests/code.py)", ["tests/code.py does not define Known.no"]),
        ("[`x`][keras_attention.x]", ["[keras_attention.x] has no definition"]),
        ('![x](other.md){ width="4" }', ['{ width="4" } would be shown as text']),
    ],
)
def test_each_fault_is_found(tmp_path, added, said):
    page = tmp_path / "page.md"
    page.write_text(f"{SOUND}\n{added}\n", "utf-8")
    (tmp_path / "tests").mkdir()
    code = "class Known:\n    def call(self):\n        pass\n"
    (tmp_path / "tests" / "code.py").write_text(code, "utf-8")
    (tmp_path / "other.md").write_text("# A `b` – [c](x.md)\n\n## A b – c\n", "utf-8")
    assert list(code_host.faults(page)) == said


@pytest.mark.parametrize("page", sorted(DOCS.rglob("*.md")), ids=lambda p: p.stem)
def test_names_of_the_api_have_their_definitions(page):
    text = page.read_text("utf-8")
    if code_host.API.search(text):
        current = code_host.with_definitions(page, text) == text
        assert current, "run python docs/code_host.py --write"
        assert code_host.NOTE not in code_host.without_definitions(text)


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("keras_attention.layers.Hopfield", "layers/hopfield/hopfield.py"),
        ("keras_attention.ops.halting.halting_step", "ops/halting.py"),
        ("keras_attention.ops.memory", "ops/memory/__init__.py"),
    ],
)
def test_the_file_of_a_name(name, file):
    assert code_host.file_of(name) == ROOT / "keras_attention" / file


def test_a_name_that_is_not_in_the_package():
    with pytest.raises(LookupError, match=r"'keras_attention\.layers\.No' is not def"):
        code_host.file_of("keras_attention.layers.No")


def test_pictures_are_current():
    found = pictures.outdated(PICTURES) + pictures.outdated_drawings()
    assert found == [], "run python docs/pictures.py --files"


def test_other_data_make_a_picture_outdated():
    name = "guides/bark.png"
    call = json.loads(json.dumps(PICTURES[name]))
    call["arguments"][0][0][0] += 0.01
    assert pictures.outdated({name: call, "guides/hops.png": PICTURES[name]}) == [
        name,
        "guides/hops.png",
    ]


def test_comments_do_not_make_a_picture_outdated(tmp_path):
    codes = []
    texts = (
        'def f(x):\n    """Doc."""\n    return x + 1  # one\n',
        'def f(x):\n    """Other\n\n    doc."""\n    # before\n    return x + 1\n',
        "def f(x):\n    return x + 2\n",
    )
    for number, text in enumerate(texts):
        path = tmp_path / f"{number}.py"
        path.write_text(text, "utf-8")
        codes.append(pictures.code_of(path))
    assert codes[0] == codes[1] != codes[2]


def test_a_file_is_drawn_with_the_hash_of_its_source():
    pytest.importorskip("matplotlib")
    call = PICTURES["guides/bark.png"]
    drawn = pictures.draw(call)
    assert pictures.recorded_source(drawn) == pictures.source_of(call)
    assert len(drawn) < 50_000


def test_the_pictures_are_small():
    files = [*DOCS.rglob("*.png")]
    assert len(files) >= len(PICTURES)
    assert sum(file.stat().st_size for file in files) < MEGABYTES * 2**20
