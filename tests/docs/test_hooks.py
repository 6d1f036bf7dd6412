"""What the build adds to the pages. The lane `static` runs it."""

import json
import os
import subprocess
import sys
from types import SimpleNamespace

import markdown
import pytest
from checkout import ROOT, module_of_docs

docstrings, hooks = map(module_of_docs, ("docstrings", "hooks"))


def configured(folder, monkeypatch, address):
    """The settings of a site whose code is at an address."""
    (folder / "keras_attention").mkdir()
    version = folder / "keras_attention" / "version.py"
    version.write_text('__version__ = "4.2.0"\n', "utf-8")
    urls = f'[project.urls]\nRepository = "{address}"\n' if address else ""
    (folder / "pyproject.toml").write_text(f"[project]\n{urls}", "utf-8")
    monkeypatch.setattr(hooks, "ROOT", folder)
    config = SimpleNamespace(site_name="site", repo_url=None, edit_uri=None)
    return hooks.on_config(config)


def test_the_address_and_the_version_come_from_the_package(tmp_path, monkeypatch):
    config = configured(tmp_path, monkeypatch, "https://code.host/owner/name/")
    assert config.copyright == "site 4.2.0, Apache License 2.0"
    assert config.repo_url == "https://code.host/owner/name"
    assert config.repo_name == "owner/name"
    assert config.edit_uri == "edit/main/docs/"


@pytest.mark.parametrize("address", ["", "https://repository.invalid/name"])
def test_no_links_to_code_without_an_address(tmp_path, monkeypatch, address):
    config = configured(tmp_path, monkeypatch, address)
    assert (config.repo_url, config.edit_uri) == (None, None)


@pytest.mark.parametrize(
    ("repository", "expected"),
    [
        (None, "<p><code>&#95;<wbr>a&#95;<wbr>b</code> <small>tests/c.py</small></p>"),
        (
            "https://code.host/x",
            '<p><a href="https://code.host/x/blob/HEAD/tests/c.py">'
            "<code>&#95;<wbr>a&#95;<wbr>b</code></a></p>",
        ),
    ],
)
def test_the_name_of_a_function_is_shown_with_its_underscores(repository, expected):
    link = hooks.code_host.LINK.search("[`_a_b`](../tests/c.py)")
    text = hooks._code_link(link, repository)
    assert markdown.markdown(text) == expected


def test_tests_of_one_file_show_its_path_once():
    text = "[`a`](tests/x.py),\n  [`b`](tests/x.py), [`c`](tests/y.py)"
    shown = hooks.code_host.LINK.sub(lambda link: hooks._code_link(link, None), text)
    assert shown == (
        "<code>a</code>,\n  <code>b</code> <small>tests/x.py</small>, "
        "<code>c</code> <small>tests/y.py</small>"
    )


def test_reading_a_page_asks_no_code_host():
    page = '<a class="md-source" data-md-component="source">'
    assert hooks.on_post_page(page, None, None) == '<a class="md-source">'


def test_the_shapes_of_a_call_come_before_the_arguments():
    text = """First line.

More.

Args:
    size: of it.

Call arguments:
    query: (B, T),
        |t| of them.
    mask: booleans.

Returns:
    The output.

Raises:
    ValueError: always.
"""
    first, table, more, args, *_ = docstrings.readable(text, is_class=True).split(
        "\n\n"
    )
    assert (first, more) == ("First line.", "More.")
    assert table.splitlines()[2:] == [
        "| `query` | (B, T), \\|t\\| of them. |",
        "| `mask` | booleans. |",
        "| returns | The output. |",
    ]
    assert args.startswith("Args: Arguments:\n    size")
    text = "A model.\n\nInputs: a dict of\n    source: (B, S).\n\nReturns:\n    (B,).\n"
    assert docstrings.readable(text, is_class=True).splitlines()[4:] == [
        "| `inputs` | a dict of: |",
        "| `source` | (B, S). |",
        "| returns | (B,). |",
        "",
    ]


@pytest.mark.release
def test_a_version_is_published_into_a_branch(tmp_path):
    # It builds the whole site, in a clone that holds what is committed.
    clone = tmp_path / "clone"
    subprocess.run(["git", "clone", "-q", ROOT, clone], check=True)
    who = {"GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b.c"}
    who |= {key.replace("AUTHOR", "COMMITTER"): value for key, value in who.items()}
    environment = os.environ | who | {"PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", "from mike.driver import main; main()"]
    command += ["deploy", "--branch", "pages", "--update-aliases", "0.1", "latest"]
    subprocess.run(command, cwd=clone, env=environment, check=True)
    text = subprocess.check_output(["git", "show", "pages:versions.json"], cwd=clone)
    assert json.loads(text) == [
        {"version": "0.1", "title": "0.1", "aliases": ["latest"]}
    ]
    subprocess.run(["git", "show", "pages:0.1/index.html"], cwd=clone, check=True)
