"""What the workflows of a release read: versions, headings of the README, its links."""

import re
import tomllib

import pytest
from calling import ROOT

from keras_attention import __version__

README = (ROOT / "README.md").read_text("utf-8")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))


@pytest.mark.parametrize(
    ("file", "line"),
    [
        ("CITATION.cff", f"version: {__version__}"),
        ("CHANGELOG.md", f"## {__version__}"),
        ("README.md", f"Version {__version__}"),
    ],
)
def test_every_file_names_the_same_version(file, line):
    assert line in (ROOT / file).read_text("utf-8")


@pytest.mark.parametrize(
    ("heading", "command"),
    [
        ("Quick start", "python examples/babi_qa.py"),
        ("A trained network", "from_preset"),
        ("Tests", "tox run -e first"),
    ],
)
def test_the_first_block_of_a_section_is_what_the_workflows_run(heading, command):
    section = re.split(rf"^## {heading}", README, flags=re.M)[1]
    assert command in re.search(r"^```\w+\n(.*?)^```", section, re.M | re.S)[1]


def test_no_link_of_the_readme_is_relative_on_the_registry():
    """hatch-fancy-pypi-readme replaces by the same rules."""
    text = README
    hook = PROJECT["tool"]["hatch"]["metadata"]["hooks"]["fancy-pypi-readme"]
    for rule in hook["substitutions"]:
        text = re.sub(rule["pattern"], rule["replacement"], text)
    text = re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S)
    targets = re.findall(r"\]\(([^)\s]+)\)|(?:src|href)=\"([^\"]+)\"", text)
    targets = [target for pair in targets for target in pair if target]
    assert len(targets) > 10
    assert [t for t in targets if not t.startswith(("https://", "#"))] == []


def test_the_address_of_the_repository_stands_in_one_file():
    """The publishing workflow replaces it there alone."""
    address = PROJECT["project"]["urls"]["Repository"]
    others = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), ROOT / "mkdocs.yml"]
    naming = [p.name for p in others if address in p.read_text("utf-8")]
    assert naming in ([], ["CONTRIBUTING.md"])
