"""What holds of an external memory whatever is written to it, by Hypothesis.

The numbers are drawn, the shapes are few: JAX compiles anew for each.
"""

import dnc_reference as reference
import numpy as np
import references
from gradients import tensor, to_numpy
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from keras_attention.ops.memory import addressing, links

M, W, R, H, S = 5, 3, 2, 2, 3
LINKED, K = (3, 2, 7), 3  # B, H, M and links of a slot, as in test_links.py
SLACK = 1e-5


def numbers(*shape, low=-4.0, high=4.0):
    """float32 numbers of one example, with whole ones, zeros and ties among them."""
    some = st.floats(low, high, width=32, allow_subnormal=False)
    return arrays.arrays("float32", (1, *shape), elements=some)


def shares(*shape):
    """Between 0 and 1, both of them often."""
    some = st.sampled_from([0.0, 1.0, 0.5]) | st.floats(0, 1, width=32)
    # Below 1e-6 float32 and float64 tell apart what counts as the same usage.
    some = some.map(lambda x: float(np.float32(round(x, 4))))
    return arrays.arrays("float32", (1, *shape), elements=some)


def weightings(*shape):
    """At least 0, each row of sum at most 1; one-hot and empty ones too."""

    def scaled(x):
        total = x.sum(axis=-1, keepdims=True)
        return (x / np.maximum(total, 1)).astype("float32")

    return shares(*shape).map(scaled)


def equals(found, expected, *inputs, tolerance=SLACK, **options):
    right = reference.batched(expected)(
        *(x.astype("float64") for x in inputs), **options
    )
    found = found(*(tensor(x) for x in inputs), **options)
    if not isinstance(found, tuple):
        found, right = (found,), (right,)
    found = [to_numpy(x) for x in found]
    for one, other in zip(found, right):
        np.testing.assert_allclose(one, other, rtol=0, atol=tolerance)
    return found[0] if len(found) == 1 else found


def is_weighting(x, total=None):
    assert np.all(x >= -1e-7)
    assert np.all(x.sum(axis=-1) <= 1 + SLACK)
    if total is not None:
        np.testing.assert_allclose(x.sum(axis=-1), total, atol=SLACK)


@references.examples
@given(
    memory=numbers(M, W),
    keys=numbers(R, W),
    strengths=numbers(R, low=0.0, high=8.0),
    mask=st.none() | shares(R, W),
)
def test_content_weights_are_a_distribution(memory, keys, strengths, mask):
    inputs = [memory, keys, strengths] + ([] if mask is None else [mask])
    found = equals(addressing.content_weights, reference.content_weights, *inputs)
    is_weighting(found, 1)


@references.examples
@given(memory=numbers(M, W), row=st.integers(0, M - 1), twice=st.floats(0.5, 2))
def test_a_strong_key_selects_the_row_it_points_at(memory, row, twice):
    memory[0, row] = [2.0, -1.0, 3.0]
    key = (twice * memory[:, row : row + 1]).astype("float32")
    found = addressing.content_weights(
        tensor(memory), tensor(key), tensor(np.full((1, 1), 1e3))
    )
    found = to_numpy(found)[0, 0]
    assert found[row] >= found.max() - SLACK  # another row may point the same way


@references.examples
@given(
    free=shares(R), read=weightings(R, M), write=weightings(H, M), previous=shares(M)
)
def test_usage_stays_between_none_and_all(free, read, write, previous):
    psi = equals(addressing.retention, reference.retention, free, read)
    assert np.all((psi >= 0) & (psi <= 1))
    psi = psi.astype("float32")
    found = equals(addressing.usage, reference.usage, previous, write, psi)
    assert np.all((found >= 0) & (found <= 1))
    kept = equals(addressing.usage, reference.usage, previous, write, np.ones_like(psi))
    assert np.all(kept >= previous - 1e-6)  # what nothing frees does not fall


@references.examples
@given(usage=shares(M), gates=shares(H), strengths=shares(H))
def test_allocation_is_what_is_free(usage, gates, strengths):
    found = equals(
        addressing.allocation_weights,
        reference.allocation_weights,
        usage,
        tolerance=1e-5,
    )
    is_weighting(found, 1 - usage.astype("float64").prod(axis=-1))
    if np.count_nonzero(usage == 0):
        first = np.flatnonzero(usage[0] == 0)[0]
        np.testing.assert_allclose(found[0], np.eye(M)[first], atol=SLACK)
    several = addressing.allocations(tensor(usage), tensor(gates))
    is_weighting(to_numpy(several))
    np.testing.assert_allclose(to_numpy(several)[:, 0], found, atol=1e-6)
    soft = addressing.allocations(tensor(usage), tensor(gates), tensor(strengths))
    is_weighting(to_numpy(soft), 1)


@references.examples
@given(usage=shares(M), order=st.permutations(range(M)))
def test_allocation_follows_its_slots(usage, order):
    """Where no two tie, numbering the slots otherwise changes nothing else."""
    usage = usage * 0.5 + np.arange(M, dtype="float32")[None] / 16
    usage = np.minimum(usage, 1).astype("float32")
    if len(set(usage[0])) < M:
        return
    straight = to_numpy(addressing.allocation_weights(tensor(usage)))
    mixed = to_numpy(addressing.allocation_weights(tensor(usage[:, order])))
    np.testing.assert_allclose(mixed, straight[:, order], atol=1e-6)


@references.examples
@given(
    memory=numbers(M, W),
    content=weightings(H, M),
    allocation=weightings(H, M),
    gates=shares(H),
    share=shares(H),
    erase=shares(H, W),
    values=numbers(H, W),
)
def test_writing(memory, content, allocation, gates, share, erase, values):
    w = equals(
        addressing.write_weights,
        reference.write_weights,
        content,
        allocation,
        gates,
        share,
    ).astype("float32")
    is_weighting(w)
    assert np.all(w.sum(-1) <= gates + SLACK)
    found = equals(
        addressing.erase_and_write,
        reference.erase_and_write,
        memory,
        w,
        erase,
        values,
    )
    untouched = np.all(w == 0, axis=1)
    np.testing.assert_array_equal(found[untouched], memory[untouched])


@references.examples
@given(w=arrays.arrays("float32", (3, *LINKED), elements=st.floats(0, 1, width=32)))
def test_links_keep_to_their_bounds(w):
    w = w / np.maximum(w.sum(axis=-1, keepdims=True), 1)
    w = w.astype("float32")
    linked, p, sparse = nothing_linked()
    right, last = np.zeros((*LINKED, LINKED[-1])), np.zeros(LINKED)
    for step in w:
        linked, p, sparse = written(linked, p, sparse, step)
        right = reference.batched(reference.links)(right, last, step)
        last = reference.batched(reference.precedence)(last, step)
    np.testing.assert_allclose(to_numpy(linked), right, atol=SLACK)
    np.testing.assert_allclose(to_numpy(p), last, atol=SLACK)
    is_weighting(to_numpy(p))
    slots = np.arange(LINKED[-1])
    for found in (to_numpy(linked), to_numpy(links.dense_links(sparse))):
        is_weighting(found)
        is_weighting(np.swapaxes(found, -1, -2))
        assert np.all(found[..., slots, slots] == 0)
    assert np.all(np.count_nonzero(to_numpy(links.dense_links(sparse)), -1) <= K)


@references.examples
@given(order=st.permutations(range(LINKED[-1])), at=st.integers(0, LINKED[-1] - 2))
def test_one_hot_writes_are_found_again_in_order(order, at):
    hot = np.eye(LINKED[-1])
    linked, p, sparse = nothing_linked()
    for slot in order:
        w = np.broadcast_to(hot[slot], LINKED)
        linked, p, sparse = written(linked, p, sparse, w)
    reads = hot[[order[at], order[at + 1]] * 2]  # two heads here, two at what follows
    reads = tensor(np.broadcast_to(reads, (LINKED[0], *reads.shape)))
    for go, table in ((links.directions, linked), (links.sparse_directions, sparse)):
        forward, backward = (to_numpy(x) for x in go(table, reads))
        np.testing.assert_array_equal(forward[:, 0], to_numpy(reads)[:, [1, 1]])
        np.testing.assert_array_equal(backward[:, 1], to_numpy(reads)[:, [0, 0]])


def nothing_linked():
    """L, p and sparse L of a memory that nothing was written to."""
    batch, heads, slots = LINKED
    linked = tensor(np.zeros((*LINKED, slots)))
    return linked, tensor(np.zeros(LINKED)), links.no_links(batch, heads, slots, K)


def written(linked, p, sparse, w):
    """The same after one more write."""
    w = tensor(w)
    return (
        links.links(linked, p, w),
        links.precedence(p, w),
        links.sparse_links(sparse, p, w),
    )


@references.examples
@given(
    modes=shares(R, 1 + 2 * H),
    backward=weightings(R, H, M),
    content=weightings(R, M),
    forward=weightings(R, H, M),
)
def test_reading_stays_among_what_its_modes_choose_from(
    modes, backward, content, forward
):
    modes = modes + np.float32(0.01)
    modes = modes / modes.sum(axis=-1, keepdims=True)
    found = equals(
        addressing.read_weights,
        reference.read_weights,
        modes,
        backward,
        content,
        forward,
    )
    is_weighting(found)
    each = np.concatenate([backward, content[:, :, None], forward], axis=2)
    assert np.all(found <= each.max(axis=2) + SLACK)
    assert np.all(found >= each.min(axis=2) - SLACK)


@references.examples
@given(
    content=weightings(R, M),
    previous=weightings(R, M),
    gate=shares(R),
    shifts=shares(R, S),
    gamma=numbers(R, low=1.0, high=20.0),
)
def test_the_turing_machine_moves_what_it_has(content, previous, gate, shifts, gamma):
    found = equals(
        addressing.interpolate, reference.interpolate, content, previous, gate
    )
    is_weighting(found)
    shifts = shifts + np.float32(0.01)
    shifts = shifts / shifts.sum(axis=-1, keepdims=True)
    moved = equals(addressing.shift, reference.shift, found.astype("float32"), shifts)
    np.testing.assert_allclose(moved.sum(-1), found.sum(-1), atol=SLACK)
    sharp = to_numpy(addressing.sharpened(tensor(moved), tensor(gamma)))
    is_weighting(sharp, 1)
    full = moved.max(axis=-1) > 1e-3
    assert np.all(sharp.max(-1)[full] >= moved.max(-1)[full] - SLACK)
    harder = to_numpy(addressing.sharpen(tensor(moved), tensor(gamma)))
    is_weighting(harder, 1)
