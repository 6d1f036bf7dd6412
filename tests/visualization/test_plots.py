"""Pictures and tables of attention weights."""

import sys

import numpy as np
import pytest
from calling import printed_by
from figures import assert_in_sight, assert_saved

from keras_attention.visualization import (
    hops_table,
    plot_alignment,
    plot_hops,
    plot_image_attention,
)
from keras_attention.visualization.panels import overlay
from keras_attention.visualization.table import _luminance, _number_color

WEIGHTS = np.array([[0.05, 0.0, 0.35, 0.0, 0.6], [0.9, 0.0, 0.07, 0.0, 0.03]])
STORY = [
    "Ada took the map.",
    "",
    ["Ada", "went", "to", "the", "attic", "."],
    "",
    "Bo saw $5 and $6.",
]
WITHOUT_MATPLOTLIB = """
import sys
sys.modules["matplotlib"] = None
from keras_attention.visualization import hops_table, plot_hops
print(hops_table([[1.0]], ["Ada ran."]))
try:
    plot_hops([[1.0]], ["Ada ran."])
except ImportError as error:
    print(error)
"""


def texts_of(figure):
    (ax,) = figure.axes
    return [text.get_text() for text in ax.texts]


def boxes_of(figure, of):
    """Bounding boxes in pixels of the texts for which `of(string)` holds."""
    pytest.importorskip("matplotlib")
    renderer = figure.canvas.get_renderer()
    (ax,) = figure.axes
    return [t.get_window_extent(renderer) for t in ax.texts if of(t.get_text())]


def test_hops_has_a_row_a_sentence_and_a_column_a_hop():
    pytest.importorskip("matplotlib")
    figure = plot_hops(WEIGHTS, STORY, "Where is the map?", ["attic"], [0, 2])
    texts = texts_of(figure)
    cells = [text for text in texts if text.endswith("%")]
    assert cells == ["5%", "90%", "35%", "7%", "60%", "3%"]
    for text in ("hop 1", "hop 2", "Ada took the map.", "Ada went to the attic ."):
        assert texts.count(text) == 1
    assert "Question: Where is the map?" in texts
    assert "Answer: attic" in texts
    assert texts.count("\u25b6") == 2
    assert not any("lies on slots" in text for text in texts)


def test_hops_mesh_holds_the_weights_of_shown_sentences():
    pytest.importorskip("matplotlib")
    (ax,) = plot_hops(WEIGHTS, STORY).axes
    mesh = np.asarray(ax.collections[0].get_array()).reshape(3, 2)
    np.testing.assert_array_equal(mesh, WEIGHTS[:, [0, 2, 4]].T)
    assert ax.collections[0].get_clim() == (0.0, 1.0)


def test_weight_on_slots_that_are_not_shown_is_told():
    pytest.importorskip("matplotlib")
    texts = texts_of(plot_hops([[0.7, 0.25, 0.05]], ["Ada ran."]))
    assert "Up to 30 % of a hop lies on slots without a sentence." in texts


def test_alignment_has_a_row_a_query_and_a_column_a_key():
    pytest.importorskip("matplotlib")
    weights = np.random.default_rng(3).dirichlet(np.ones(5), 3)
    figure = plot_alignment(
        weights, ["a", "b", ""], ["v", "", "w", "x", "y"], "English", "German", "Head 2"
    )
    texts = texts_of(figure)
    expected = [f"{100 * weight:.0f}" for weight in weights[:2, [0, 2, 3, 4]].ravel()]
    assert texts[: len(expected)] == expected
    assert "Head 2" in texts
    assert "Rows: English. Columns: German." in texts


@pytest.mark.parametrize("count", [2, 13, 50])
def test_nothing_overlaps_or_is_cut_off(count):
    pytest.importorskip("matplotlib")
    weights = np.random.default_rng(count).dirichlet(np.ones(count), 3)
    words = [
        "a",
        "man",
        "who",
        "had",
        "long",
        "been",
        "away",
        "came",
        "back",
        "from",
        "the",
        "hall",
    ]
    story = [" ".join(words[: 2 + row % 11] * (1 + row % 3)) for row in range(count)]
    question = " ".join(words * 3)
    figure = plot_hops(weights, story, question, "hall", supporting=[1])
    texts = [text for text in figure.axes[0].texts if text.get_text()]
    assert_in_sight(figure, texts)
    left = figure.axes[0].get_window_extent().x0
    assert all(b.x1 < left for b in boxes_of(figure, lambda text: text[:5] == "a man"))


def test_long_column_labels_stand_upright_inside_the_figure():
    pytest.importorskip("matplotlib")
    keys = ["incomprehensibilities", "b", "c"]
    figure = plot_alignment(np.eye(3), ["x", "y", "z"], keys, title="T")
    (box,) = boxes_of(figure, lambda text: text == keys[0])
    assert box.height > 3 * box.width
    (title,) = boxes_of(figure, lambda text: text == "T")
    assert box.y1 < title.y0
    assert title.y1 <= figure.canvas.get_width_height()[1]


def test_numbers_stand_out_from_their_cells():
    matplotlib = pytest.importorskip("matplotlib")
    from matplotlib.colors import to_rgb

    colormap = matplotlib.colormaps["Blues"]
    for share in np.linspace(0.0, 1.0, 101):
        text = _luminance(to_rgb(_number_color(share, colormap)))
        cell = _luminance(colormap(share))
        contrast = (max(text, cell) + 0.05) / (min(text, cell) + 0.05)
        assert contrast >= 4.5, share  # WCAG 2, level AA


def test_draws_into_given_axes_and_leaves_pyplot_alone():
    pytest.importorskip("matplotlib")
    from matplotlib.figure import Figure

    loaded = "matplotlib.pyplot" in sys.modules
    figure = Figure()
    left, right = figure.subplots(1, 2)
    assert plot_hops(WEIGHTS, STORY, ax=left) is figure
    assert plot_alignment(np.eye(2), ["a", "b"], ["c", "d"], ax=right) is figure
    assert left.texts
    assert right.texts
    assert plot_hops(WEIGHTS, STORY) is not figure
    assert ("matplotlib.pyplot" in sys.modules) == loaded


def test_half_precision_weights_may_pass_one_by_a_rounding_error():
    weights = np.array([[1.0005, 0.0]], dtype="float16")
    assert hops_table(weights, ["Ada ran.", "Bo ran."]).endswith("0")


def test_table():
    assert hops_table(WEIGHTS, STORY, supporting=[2]).split("\n") == [
        "attention in %             hop 1  hop 2",
        "  Ada took the map.            5     90",
        "* Ada went to the attic .     35      7",
        "  Bo saw $5 and $6.           60      3",
        "* supporting fact: the answer needs it",
    ]


def test_table_breaks_long_sentences():
    lines = hops_table([[0.5, 0.5]], ["word " * 30, "end"]).split("\n")
    assert len(lines) == 5
    assert max(len(line) for line in lines) <= 60 + 7
    assert lines[1].endswith("50")
    assert lines[2].endswith("word")


@pytest.mark.slow
def test_without_matplotlib_the_table_works_and_the_plot_names_the_extra():
    text = printed_by("-c", WITHOUT_MATPLOTLIB)
    assert "Ada ran." in text
    assert 'pip install "keras-attention-family[viz]"' in text


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([0.5, 0.5], r"array \(K, M\).*Received: weights.shape=\(2,\)"),
        (np.zeros((0, 3)), r"neither of them 0.*\(0, 3\)"),
        ([[0.5, np.nan]], "must not hold NaN. Received: 1 NaN of 2"),
        ([[0.5, 1.5]], r"lie in \[0, 1\].*max=1.5"),
        ([[-0.1, 0.5]], r"lie in \[0, 1\].*min=-0.1"),
    ],
)
@pytest.mark.parametrize("function", [plot_hops, hops_table])
def test_bad_weights(function, weights, message):
    with pytest.raises(ValueError, match=message):
        function(weights, ["Ada ran.", "Bo ran."])


@pytest.mark.parametrize(
    ("sentences", "message"),
    [
        (["a", "b", "c"], r"at most one item a slot.*len\(sentences\)=3, 2 slot"),
        (["", ""], "at least one item that is not empty"),
        ("Ada ran.", "not one string. Received: sentences='Ada ran.'"),
    ],
)
def test_bad_sentences(sentences, message):
    with pytest.raises(ValueError, match=message):
        plot_hops([[0.5, 0.5]], sentences)


@pytest.mark.parametrize("bad", [2, -1, 0.0, True])
def test_bad_supporting(bad):
    with pytest.raises(ValueError, match="indices of sentences, from 0 to 1"):
        plot_hops([[0.5, 0.5]], ["a", "b"], supporting=[bad])


def test_supporting_names_an_empty_sentence():
    with pytest.raises(ValueError, match="sentence 1 is empty"):
        hops_table([[0.5, 0.5]], ["a", ""], supporting=[1])


def test_alignment_with_too_many_tokens():
    with pytest.raises(ValueError, match="at most one item a row"):
        plot_alignment(np.eye(2), ["a", "b", "c"], ["d", "e"])
    with pytest.raises(ValueError, match="at most one item a column"):
        plot_alignment(np.eye(2), ["a", "b"], ["d", "e", "f"])


def test_an_image_has_a_panel_a_word():
    pytest.importorskip("matplotlib")
    weights = np.random.default_rng(2).dirichlet(np.ones(6), 4)
    image = np.random.default_rng(2).random((14, 21, 3))
    words = ["a", "", "$5", "end"]
    figure = plot_image_attention(image, weights, words, (2, 3), "A 5")
    panels = figure.axes
    assert [ax.get_title() for ax in panels] == ["", "a", "$5", "end"]
    for ax, n in zip(panels[1:], (0, 2, 3)):
        assert ax.get_xlabel() == f"{100 * weights[n].max():.0f} %"
        ground, over = (one.get_array() for one in ax.images)
        assert ground.shape == (14, 21)
        assert over.shape == (14, 21, 4)
    assert "A 5" in [text.get_text() for text in figure.texts]
    assert_saved(figure)


def test_weights_lie_over_their_places():
    weights = np.zeros((2, 3))
    weights[1, 2] = 0.25
    opacity = overlay(weights, (14, 21))[..., 3]
    row, column = np.unravel_index(opacity.argmax(), opacity.shape)
    assert row >= 7
    assert column >= 14
    assert opacity.max() > 0
    assert (opacity[:3] == 0).all()
    assert (opacity[:, :10] == 0).all()
    assert (overlay(np.zeros((2, 3)), (14, 21))[..., 3] == 0).all()


@pytest.mark.parametrize("count", [1, 7, 20])
def test_panels_do_not_overlap_and_are_not_cut_off(count):
    pytest.importorskip("matplotlib")
    weights = np.full((count, 4), 0.25)
    figure = plot_image_attention(np.ones((5, 7)), weights, ["word"] * count, (2, 2))
    assert_in_sight(figure)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"image": np.ones((4, 4, 2))}, r"1 or 3 channels.*image.shape=\(4, 4, 2\)"),
        ({"image": np.ones(4)}, r"`image` must be an array.*\(4,\)"),
        ({"image": np.full((4, 4), np.nan)}, "finite numbers. Received: 16"),
        ({"grid": (2, 3)}, r"`grid` must be.*grid=\(2, 3\), weights.shape=\(1, 4\)"),
        ({"words": ["a", "b"]}, "at most one item a row"),
        ({"weights": np.full((1, 4), 2.0)}, r"lie in \[0, 1\]"),
    ],
)
def test_bad_image_attention(changed, message):
    given = {
        "image": np.ones((4, 4)),
        "weights": np.full((1, 4), 0.25),
        "words": ["a"],
        "grid": (2, 2),
    }
    with pytest.raises(ValueError, match=message):
        plot_image_attention(**{**given, **changed})
