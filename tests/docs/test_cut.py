"""Finds what is wider than its frame, on pages of a few lines in a real browser.

Skipped without Playwright or Chromium.
"""

import pytest
from checkout import module_of_docs

cut = module_of_docs("cut")
reason = cut.missing()

# The size of the window is that of a phone, the table's 800 pixels.
PAGE = """<!DOCTYPE html><meta charset="utf-8"><body style="margin: 0">
<style>{bar}</style><div class="md-content">
<div tabindex="{tab}" style="overflow-x: {overflow}; width: {width}">
<table style="width: {table}px"><td>cells</td></table></div></div>"""
BAR = "::-webkit-scrollbar { height: 8px; background: silver }"
NO_BAR = "::-webkit-scrollbar { height: 0 }"
SCROLLS = {"overflow": "auto", "width": "300px", "tab": 0, "table": 800, "bar": BAR}


@pytest.mark.slow  # it starts a browser
@pytest.mark.skipif(bool(reason), reason=reason)
def test_each_way_to_be_cut(tmp_path):
    pages = {
        "it scrolls in sight": ({}, [("table", "")]),
        "it fits": ({"table": 200}, []),
        "hidden": ({"overflow": "hidden"}, [("table", "its frame cuts it off")]),
        "bar": ({"bar": NO_BAR}, [("table", "no scroll bar in sight")]),
        "keyboard": (
            {"tab": -1},
            [("table", "the keyboard does not reach its scroll bar")],
        ),
        "page": (
            {"overflow": "visible"},
            [("table", "it leaves the window"), ("page", "it scrolls sideways")],
        ),
    }
    for name, (changed, _) in pages.items():
        text = PAGE.format(**(SCROLLS | changed))
        (tmp_path / f"{name}.html").write_text(text, "utf-8")
    found = cut.measure(sorted(tmp_path.iterdir()), [390])
    for name, (_, expected) in pages.items():
        of_page = [each for each in found if each[0].stem == name]
        assert [(tag, wrong) for _, _, tag, _, wrong in of_page] == expected, name


def test_without_a_browser_it_says_why(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(cut, "missing", lambda: "needs Chromium")
    assert cut.main(tmp_path) == 0
    assert capsys.readouterr().out == "No page was opened: needs Chromium.\n"
