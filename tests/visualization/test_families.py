"""Family trees with the path of a relation."""

import itertools

import pytest
from matplotlib.colors import to_hex

from keras_attention.visualization import plot_family

pytest.importorskip("matplotlib")
FAMILY = [
    *(("Ada", "mother", "Thea"), ("Ada", "father", "Olaf")),
    *(("Thea", "husband", "Olaf"), ("Olaf", "wife", "Thea")),
    *(("Thea", "daughter", "Ada"), ("Olaf", "daughter", "Ada")),
    *(("Thea", "brother", "Otto"), ("Otto", "sister", "Thea")),
    *(("Thea", "mother", "Wanda"), ("Otto", "mother", "Wanda")),
]
PATH = [("Ada", "mother", "Thea"), ("Thea", "brother", "Otto")]


def boxes(figure):
    (ax,) = figure.axes
    return {t.get_text(): t for t in ax.texts if t.get_bbox_patch() is not None}


def test_generations_couples_and_the_path_are_drawn():
    figure = plot_family(FAMILY, PATH, "Otto", "Title")
    (ax,) = figure.axes
    at = {name: text.get_position() for name, text in boxes(figure).items()}
    assert {"Ada", "Thea", "Olaf", "Otto", "Wanda", "1", "2"} == set(at)
    assert at["Ada"][1] + 1 == at["Thea"][1] == at["Olaf"][1] == at["Otto"][1]
    assert at["Wanda"][1] == at["Thea"][1] + 1
    across = sorted(at[name][0] for name in ("Thea", "Olaf", "Otto"))
    assert min(b - a for a, b in itertools.pairwise(across)) > 0.99
    double = [line for line in ax.lines if line.get_linewidth() == 1.2]
    assert len(double) == 2  # one couple
    assert len(ax.lines) == 2 + 4  # Ada's parents, and Wanda's children
    arrows = [t for t in ax.texts if getattr(t, "arrow_patch", None)]
    assert [tuple(arrow.xy) for arrow in arrows] == [at["Thea"], at["Otto"]]
    patch = boxes(figure)["Otto"].get_bbox_patch()
    assert to_hex(patch.get_edgecolor()) == "#b34700"
    figure.canvas.draw()
    wrong = boxes(plot_family(FAMILY, PATH, "Olaf"))["Olaf"].get_bbox_patch()
    assert to_hex(wrong.get_edgecolor()) == "#d62828"


def ends(line):
    return sorted(zip(line.get_xdata(), line.get_ydata(), strict=True))


@pytest.mark.parametrize(
    ("relations", "pairs"),
    [
        ([("Thea", "daughter", "Ada"), ("Thea", "son", "Bo")], ["Thea Ada", "Thea Bo"]),
        ([("Thea", "son", "Bo"), ("Bo", "mother", "Thea")], ["Thea Bo"]),
        ([["Thea", "son", "Bo"], ["Thea", "son", "Bo"]], ["Thea Bo"]),
        ([("Ada", "brother", "Bo"), ("Bo", "sister", "Ada")], []),
    ],
)
def test_each_parent_and_child_have_one_line(relations, pairs):
    figure = plot_family(relations)
    at = {name: text.get_position() for name, text in boxes(figure).items()}
    wanted = [sorted(at[name] for name in pair.split()) for pair in pairs]
    assert [ends(line) for line in figure.axes[0].lines] == wanted


def test_a_couple_has_one_double_line():
    for relations in (
        [("Thea", "husband", "Olaf")],
        [("Olaf", "wife", "Thea")],
        [("Thea", "husband", "Olaf"), ("Olaf", "wife", "Thea")],
        [["Thea", "husband", "Olaf"], ["Olaf", "wife", "Thea"]],
    ):
        assert len(plot_family(relations).axes[0].lines) == 2


@pytest.mark.parametrize(
    ("relations", "more", "message"),
    [
        ([], {}, "`relations` must hold at least one relation"),
        ([("A", "aunt", "B")], {}, "`relations` must hold .* one of the kinds"),
        (
            [("A", "son", "B"), ("B", "son", "A")],
            {},
            "`relations` must agree on the generations",
        ),
        (
            [("A", "son", "B"), ("C", "son", "D")],
            {},
            "`relations` must join all people",
        ),
        (FAMILY, {"path": [("Ada", "mother", "Zoe")]}, "`path` must hold basic"),
        (FAMILY, {"answer": "Zoe"}, "`answer` must be a member of the family"),
    ],
)
def test_wrong_arguments_are_named(relations, more, message):
    with pytest.raises(ValueError, match=message):
        plot_family(relations, **more)
