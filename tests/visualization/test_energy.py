"""The picture of states on their way downhill."""

import io
import textwrap

import numpy as np
import pytest
from figures import assert_in_sight

from keras_attention.visualization import plot_energy

pytest.importorskip("matplotlib")

RNG = np.random.default_rng(0)
STATES = RNG.normal(size=(2, 5, 7, 3))
ENERGIES = [[9.0, 4.0, 2.0, 1.5, 1.5], [8.0, 3.0, 2.5, 2.5, 2.5]]
SIZES = [[11, 5, 2, 1, 1], [11, 1, 1, 1, 1]]
TARGETS = RNG.normal(size=(2, 7, 3))
NAMES = ["β = 1", "β = 13\nanother"]


def drawn(*args, **kwargs):
    """Axes of the states and of the curves, once everything is laid out."""
    figure = plot_energy(*args, **kwargs)
    figure.savefig(io.BytesIO())
    axes = [ax for ax in figure.axes if ax.images]
    return figure, axes, [ax for ax in figure.axes if not ax.images]


def test_states_energies_and_sizes_are_shown():
    _, axes, (energy, size) = drawn(STATES, ENERGIES, NAMES, SIZES, TARGETS, title="T")
    assert len(axes) == 2 * 5
    headings = [ax.get_title() for ax in axes[:5]]
    assert headings == ["query", "step 1", "step 2", "end (step 4)", "looked for"]
    np.testing.assert_array_equal(axes[5 + 2].images[0].get_array(), STATES[1, 2])
    np.testing.assert_array_equal(axes[5 + 3].images[0].get_array(), STATES[1, -1])
    np.testing.assert_array_equal(axes[4].images[0].get_array(), TARGETS[0])
    assert axes[2].get_xlabel() == "E = 2\nk = 2"
    assert [axes[0].get_ylabel(), axes[5].get_ylabel()] == NAMES
    for ax, values in ((energy, ENERGIES), (size, SIZES)):
        lines = [line.get_ydata() for line in ax.lines]
        np.testing.assert_array_equal(lines, values)


def test_all_pictures_have_one_scale():
    _, axes, _ = drawn(STATES, ENERGIES, NAMES, targets=5 * TARGETS[0])
    lows, highs = zip(*(ax.images[0].get_clim() for ax in axes))
    assert set(lows) == {min(STATES.min(), 5 * TARGETS[0].min())}
    assert set(highs) == {max(STATES.max(), 5 * TARGETS[0].max())}


def test_curves_end_where_nothing_moves_any_more():
    still = np.concatenate([ENERGIES, np.full((2, 30), [[1.5], [2.5]])], axis=1)
    states = np.zeros((2, 35, 2, 2))
    _, axes, (energy,) = drawn(states, still, NAMES, shown=(0, -1))
    assert [ax.get_title() for ax in axes[:2]] == ["query", "end (step 34)"]
    assert len(energy.lines[0].get_ydata()) == 5  # one step longer than all that moves
    _, _, (energy,) = drawn(states, np.ones((2, 35)), NAMES)  # nothing moves at all
    assert len(energy.lines[0].get_ydata()) == 2


def test_nothing_lies_outside_the_picture():
    figure, axes, curves = drawn(STATES[:1], ENERGIES[:1], NAMES[1:], SIZES[:1])
    assert_in_sight(figure, [*axes, *curves])


@pytest.mark.parametrize(
    ("count", "expected"),
    [
        (1, ["query"]),
        (2, ["query", "end (step 1)"]),
        (3, ["query", "step 1", "end (step 2)"]),
        (5, ["query", "step 1", "step 2", "end (step 4)"]),
    ],
)
def test_as_many_states_are_shown_as_there_are(count, expected):
    energies = np.array(ENERGIES)[:, :count]
    _, axes, _ = drawn(STATES[:, :count], energies, NAMES)
    assert [ax.get_title() for ax in axes[: len(expected)]] == expected
    assert len(axes) == 2 * len(expected)


def test_a_trajectory_is_transposed_and_drawn():
    """As in the docstring."""
    source = plot_energy.__doc__.split("```python\n")[1].split("```")[0]
    space = {}
    exec(
        compile(textwrap.dedent(source).split("figure.savefig")[0], "doc", "exec"),
        space,
    )
    assert space["states"].shape[:2] == space["way"].energies.T.shape
    np.testing.assert_array_equal(
        space["states"][:, 0].reshape(2, 12), space["queries"]
    )
    assert space["figure"].axes[0].get_ylabel() == "first"


BAD = np.array([[np.nan] * 5] * 2)


@pytest.mark.parametrize(
    ("message", "given"),
    [
        (r"`states` must be an array \(N, K \+ 1, rows", {"states": STATES[0]}),
        ("none of them 0", {"states": STATES[:0]}),
        ("`states` must hold finite numbers", {"states": np.full_like(STATES, np.inf)}),
        ("`energies` must hold finite numbers.*10 of 10", {"energies": BAD}),
        ("`energies` must have a number for each", {"energies": [[1.0, 2.0]]}),
        ("`sizes` must have a number for each", {"sizes": [1, 2]}),
        ("`targets` must be", {"targets": np.zeros((3, 7))}),
        ("`names` must hold a string for each of 2", {"names": ["one"]}),
        ("`names` must hold a string for each of 2", {"names": "ab"}),
        ("`shown` must name states, from -5 to 4", {"shown": (0, 5)}),
        ("`shown` must name states", {"shown": ()}),
    ],
)
def test_wrong_arguments_are_named(message, given):
    right = {"states": STATES, "energies": ENERGIES, "names": NAMES}
    with pytest.raises(ValueError, match=message):
        plot_energy(**{**right, **given})
