"""Interactive views, and the file that holds them."""

import collections
import html.parser
import json
import re

import numpy as np
import pytest

from keras_attention import visualization
from keras_attention.visualization import (
    alignment_view,
    energy_view,
    heads_view,
    hops_view,
    memory_view,
    softmax_view,
    to_html,
)
from keras_attention.visualization.html import page

Trace = collections.namedtuple("Trace", "memory write_weights read_weights usage")
NASTY = "</script><script>alert(1)</script>' \" & {{title}} ${x}"


def random():
    return np.random.default_rng(0)


def shares(*shape):
    return random().dirichlet(np.ones(shape[-1]), shape[:-1])


def trace(steps=4, slots=3, width=2):
    return Trace(
        random().normal(size=(1, steps, slots, width)),
        shares(1, steps, 1, slots),
        shares(1, steps, 2, slots),
        random().uniform(size=(1, steps, slots)),
    )


def views():
    yield hops_view(shares(3, 2), ["a b", "c"], "d?", [("a", 0.7), ("c", 0.3)], [1])
    yield heads_view({"one": shares(2, 3, 3), "two": shares(3, 3)}, ["a", "b", "c"])
    yield alignment_view(shares(2, 4, 3), list("abcd"), list("xyz"), "English", "Dutch")
    states = random().normal(size=(3, 2, 5))
    yield energy_view(states, [3.0, 2.0, 1.5], states[:2], shares(3, 2))
    yield memory_view(trace(), steps=["a", "b"], outputs=["", "", "", "c"])
    yield softmax_view(random().normal(size=(4, 6)), list("abcd"))


VIEWS = {view.kind: view for view in views()}


class Elements(html.parser.HTMLParser):
    """The tags of a page, and the data of its views."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.views, self.title, self._inside = [], [], "", None
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        self._inside = tag
        if tag == "attention-view":
            found = dict(attributes)
            self.views.append((found["kind"], json.loads(found["data"])))

    def handle_data(self, data):
        if self._inside == "title":
            self.title += data
        self._inside = None


@pytest.mark.parametrize("kind", VIEWS)
def test_a_file_holds_everything_that_it_needs(tmp_path, kind):
    path = to_html(tmp_path / "view.html", VIEWS[kind])
    text = path.read_text("utf-8")
    found = Elements(text)
    assert len(text.encode()) < 100_000
    for tag, attributes in found.tags:
        assert tag not in ("link", "img", "iframe", "object"), tag
        assert not {"src", "href"} & {*attributes}, (tag, attributes)
    addresses = set(re.findall(r"https?://[^\"'\s)]+", text))
    assert addresses <= {"http://www.w3.org/2000/svg"}  # a name, never fetched
    assert "default-src 'none'" in text  # the browser refuses any request
    assert [kind] == [k for k, _ in found.views]
    assert found.title == VIEWS[kind].title
    assert dict(found.tags[0][1]) == {"lang": "en"}
    assert f"views.{kind} = " in text


def test_hops_are_the_weights_that_were_given():
    weights = shares(3, 4)
    view = hops_view(weights, ["a", "", "b", "c"], ["where", "?"], "b", [3], "T", "C")
    data = view.data
    np.testing.assert_allclose(data["weights"], weights[:, [0, 2, 3]], atol=5e-5)
    assert data["sentences"] == ["a", "b", "c"]
    assert data["supporting"] == [2]
    assert data["question"] == "where ?"
    assert data["answers"] == [("b", 1.0)]
    lost = 100 * weights[:, 1].max()
    assert data["notes"] == [
        f"Up to {lost:.0f} % of a hop lies on slots without a sentence."
    ]
    assert (view.title, view.caption) == ("T", "C")


def test_heads_are_the_weights_that_were_given():
    first, second = shares(2, 3, 3), shares(3, 2)
    tokens = {"one": list("abc"), "two": list("xyz")}
    keys = {"one": list("abc"), "two": list("uv")}
    groups = heads_view({"one": first, "two": second}, tokens, keys, word=2).data[
        "groups"
    ]
    assert [group["name"] for group in groups] == ["one", "two"]
    np.testing.assert_allclose(groups[0]["weights"], first, atol=5e-5)
    np.testing.assert_allclose(groups[1]["weights"], second[None], atol=5e-5)
    assert [group["queries"] for group in groups] == [list("abc"), list("xyz")]
    assert [group["keys"] for group in groups] == [list("abc"), list("uv")]
    (one,) = alignment_view(second, list("xyz"), list("uv")).data["groups"]
    assert one["weights"] == groups[1]["weights"]


def test_energies_memories_and_vectors_are_those_that_were_given():
    states, weights = random().normal(size=(3, 2, 5)), shares(3, 4)
    stored = random().normal(size=(4, 2, 5))
    data = energy_view(states, [1.23456789, -2, -3], stored, weights).data
    np.testing.assert_allclose(data["states"], states.reshape(3, 10), rtol=1e-4)
    np.testing.assert_allclose(data["patterns"], stored.reshape(4, 10), rtol=1e-4)
    np.testing.assert_allclose(data["weights"], weights, atol=5e-5)
    assert data["energies"] == [1.2346, -2.0, -3.0]
    assert data["names"] == ["pattern 1", "pattern 2", "pattern 3", "pattern 4"]

    given = trace(steps=5)
    data = memory_view(given, steps=["in"], length=4).data
    np.testing.assert_allclose(data["memory"], given.memory[0, :4], rtol=1e-4)
    np.testing.assert_allclose(
        data["write"], given.write_weights[0, :4].swapaxes(0, 1), atol=5e-5
    )
    np.testing.assert_allclose(
        data["read"], given.read_weights[0, :4].swapaxes(0, 1), atol=5e-5
    )
    np.testing.assert_allclose(data["usage"], given.usage[0, :4], atol=5e-5)
    assert data["steps"] == ["in", "", "", ""]
    assert memory_view(given, slots=2).data["notes"]

    vectors = random().normal(size=(3, 4))
    data = softmax_view(vectors, list("abc"), beta=2).data
    np.testing.assert_allclose(data["vectors"], vectors, rtol=1e-4)
    assert data["beta"] == 2.0


def test_text_of_a_user_is_never_markup(tmp_path):
    view = hops_view([[1.0]], [NASTY], NASTY, [(NASTY, 1.0)], None, NASTY, NASTY)
    text = to_html(tmp_path / "view.html", view).read_text("utf-8")
    found = Elements(text)
    ((_, data),) = found.views
    assert data["sentences"] == [NASTY]
    assert found.title == data["title"] == data["caption"] == NASTY
    assert text.count("<script") == text.count("</script>") == 1
    assert "alert(1)</script" not in text


def test_several_views_share_a_page(tmp_path):
    path = to_html(tmp_path / "all.html", *VIEWS.values(), title="A lecture")
    found = Elements(path.read_text("utf-8"))
    assert [kind for kind, _ in found.views] == list(VIEWS)
    assert found.title == "A lecture"
    headings = [a for tag, a in found.tags if tag == "attention-view"]
    assert all("heading" in attributes for attributes in headings)


def test_a_notebook_shows_a_view():
    frame = VIEWS["hops"]._repr_html_()
    ((tag, attributes),) = Elements(frame).tags
    assert tag == "iframe"
    assert Elements(attributes["srcdoc"]).views[0][0] == "hops"


def test_the_live_page_has_the_same_template():
    slots = re.findall(r"\{\{(\w+)\}\}", page.template())
    assert sorted(slots) == ["caption", "title", "title", "views"]
    assert page.script() in page.template()


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda p: to_html(p), "`views` must hold one or more views"),
        (lambda p: to_html(p, "hops"), "`views` must hold one or more views"),
        (lambda p: to_html(p, VIEWS["hops"], title=3), "`title` must be a string"),
        (lambda p: hops_view([[2.0]], ["a"]), r"`weights` must lie in \[0, 1\]"),
        (lambda p: hops_view([[1.0]], ["a"], "b", [("c", 2)]), "`answers` must hold"),
        (lambda p: heads_view({}, ["a"]), "`maps` must hold at least one map"),
        (lambda p: heads_view([1.0], ["a"]), "`maps` must hold arrays"),
        (lambda p: heads_view([[1.0]], ["a", "b"]), "`query_tokens` must have at most"),
        (lambda p: heads_view([[0.5, 0.5]], ["a"]), "`key_tokens` must hold a token"),
        (lambda p: heads_view([[1.0]], ["a"], word=1), "`word` must be from 0 to 0"),
        (lambda p: energy_view([[1.0]], [1.0]), "`states` must be an array"),
        (lambda p: energy_view([[[1.0]]], [1.0, 2]), "`energies` must have a number"),
        (lambda p: energy_view([[[1.0]]], [1.0], [[[1]]]), "must be given together"),
        (
            lambda p: energy_view([[[1.0]]], [1.0], [[[1]]], [[0.5, 0.5]]),
            "`patterns` must be",
        ),
        (
            lambda p: energy_view([[[1.0]]], [1.0], [[[1]]], [[1.0]], "a b"),
            "`names` must hold",
        ),
        (lambda p: memory_view(trace(), slots=0), "`slots` must be at least 1"),
        (lambda p: memory_view(trace(), sample=1), "`sample` must be one of"),
        (lambda p: softmax_view([1.0], ["a"]), "`vectors` must be an array"),
        (lambda p: softmax_view([[1.0]], []), "`words` must hold"),
        (lambda p: softmax_view([[1.0], [2.0]], ["a"]), "`words` must hold a string"),
        (lambda p: softmax_view([[1.0]], ["a"], 0), "`beta` must be from"),
    ],
)
def test_errors_name_the_argument(tmp_path, call, said):
    with pytest.raises(ValueError, match=said):
        call(tmp_path / "view.html")
    assert not (tmp_path / "view.html").exists()


def test_a_large_file_is_refused(tmp_path):
    view = hops_view([[1.0]], ["word " * 500_000])
    with pytest.raises(ValueError, match="at most 2 MB"):
        to_html(tmp_path / "view.html", view)
    assert not list(tmp_path.iterdir())


def test_a_file_is_replaced_as_a_whole(tmp_path, monkeypatch):
    path = tmp_path / "view.html"
    path.write_text("old", "utf-8")
    (tmp_path / "link.html").symlink_to(path)
    moved = []

    def fails(source, target):
        moved.append(source.read_text("utf-8"))
        raise OSError("no space left")

    with monkeypatch.context() as patch:
        patch.setattr("os.replace", fails)
        with pytest.raises(OSError, match="no space left"):
            to_html(path, VIEWS["hops"])
    assert path.read_text("utf-8") == "old"
    assert {*tmp_path.iterdir()} == {path, tmp_path / "link.html"}
    to_html(tmp_path / "link.html", VIEWS["hops"])
    assert [path.read_text("utf-8")] == moved
    assert {*tmp_path.iterdir()} == {path, tmp_path / "link.html"}


def test_all_views_are_public():
    for name in ("View", "to_html", *(f"{kind}_view" for kind in VIEWS)):
        assert name in visualization.__all__
