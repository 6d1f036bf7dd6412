"""Temporal links, dense and sparse, against NumPy in float64."""

import sys

import dnc_reference as reference
import keras
import numpy as np
import pytest
import references
from calling import few_compiled
from gradients import gradient, tensor, to_numpy
from keras import ops

from keras_attention import kernels
from keras_attention.kernels.sparse_links import reference as kernel_reference
from keras_attention.ops.memory import links

pytestmark = pytest.mark.backends("all")  # each backend has its own kernel

B, M, R, H, K = 3, 7, 4, 2, 3


def writes(steps, heads=H, power=6, seed=0):
    """Write weightings (steps, B, H, M), most of each on few slots."""
    x = np.random.default_rng(seed)
    w = x.random((steps, B, heads, M)) ** power
    w = w / w.sum(axis=-1, keepdims=True)
    return w * (0.5 + 0.5 * x.random((steps, B, heads, 1)))


def spread(*shape, seed=0):
    x = np.random.default_rng(seed).random(shape)
    return x / x.sum(axis=-1, keepdims=True)


def hot(slots):
    """One-hot writes, the same of each head and example, (steps, B, H, M)."""
    w = np.eye(M)[np.array(slots)][:, None, None]
    return np.broadcast_to(w, (len(slots), B, H, M))


def written(weights):
    """Dense L and p after writes (steps, B, H, M)."""
    batch, heads, slots = weights.shape[1:]
    linked, p = (
        ops.zeros((batch, heads, slots, slots)),
        ops.zeros((batch, heads, slots)),
    )
    for w in weights:
        w = tensor(w)
        linked, p = links.links(linked, p, w), links.precedence(p, w)
    return linked, p


def sparse_written(weights, number, threshold=None):
    batch, heads, slots = weights.shape[1:]
    linked, p = links.no_links(batch, heads, slots, number), ops.zeros(weights[0].shape)
    for w in weights:
        w = tensor(w)
        linked, p = links.sparse_links(linked, p, w, threshold), links.precedence(p, w)
    return linked, p


@pytest.mark.parametrize("heads", [1, H])
def test_links_equal_their_equations(heads):
    w = writes(6, heads)
    right, p = np.zeros((B, heads, M, M)), np.zeros((B, heads, M))
    for row in w:
        right = reference.batched(reference.links)(right, p, row)
        p = reference.batched(reference.precedence)(p, row)
    linked, found = written(w)
    np.testing.assert_allclose(to_numpy(linked), right, rtol=0, atol=1e-6)
    np.testing.assert_allclose(to_numpy(found), p, rtol=0, atol=1e-6)
    read = spread(B, R, M)
    right = reference.batched(reference.directions)(right, read)
    for one, expected in zip(links.directions(linked, tensor(read)), right):
        np.testing.assert_allclose(to_numpy(one), expected, rtol=0, atol=1e-6)


@pytest.mark.slow_on("jax")
@pytest.mark.parametrize("sparse", [False, True])
def test_one_hot_writes_lead_on_and_back(sparse):
    order = [3, 0, 5, 1]
    if sparse:
        linked, _ = sparse_written(hot(order), K)
        go = links.sparse_directions
    else:
        linked, _ = written(hot(order))
        go = links.directions
    reads = np.eye(M)[None, order].repeat(B, 0)  # (B, 4, M): a head at each of them
    forward, backward = go(linked, tensor(reads))
    ahead = np.vstack([np.eye(M)[order[1:]], np.zeros(M)])
    behind = np.vstack([np.zeros(M), np.eye(M)[order[:-1]]])
    np.testing.assert_allclose(to_numpy(forward)[0, :, 0], ahead, atol=1e-6)
    np.testing.assert_allclose(to_numpy(backward)[0, :, 0], behind, atol=1e-6)


@pytest.mark.parametrize("sparse", [False, True])
def test_a_slot_written_again_is_linked_anew(sparse):
    w = hot([3, 0, 5, 0])
    linked = links.dense_links(sparse_written(w, K)[0]) if sparse else written(w)[0]
    right = np.zeros((M, M))
    right[0, 5] = 1  # and neither 0 after 3 nor 5 after 0
    np.testing.assert_allclose(to_numpy(linked)[0, 0], right, atol=1e-6)


@pytest.mark.slow_on("jax")
def test_sparse_links_of_all_slots_are_the_dense_ones():
    w, read = writes(5, power=2), spread(B, R, M)
    dense, _ = written(w)
    sparse, _ = sparse_written(w, M, threshold=0.0)
    found = to_numpy(links.dense_links(sparse))
    np.testing.assert_allclose(found, to_numpy(dense), rtol=0, atol=1e-6)
    right = links.directions(dense, tensor(read))
    for one, other in zip(links.sparse_directions(sparse, tensor(read)), right):
        np.testing.assert_allclose(to_numpy(one), to_numpy(other), rtol=0, atol=1e-6)


@few_compiled(("number", "threshold"), [(K, None), (K, 0.05), (K, 0.0)])
def test_sparse_links_equal_their_equations(number, threshold):
    w = writes(8, power=20)
    right, p = np.zeros((B, H, M, M)), np.zeros((B, H, M))
    for row in w:
        right = reference.batched(reference.sparse_links)(
            right, p, row, k=number, threshold=threshold
        )
        p = reference.batched(reference.precedence)(p, row)
    linked, _ = sparse_written(w, number, threshold)
    assert linked.values.shape == linked.slots.shape == (B, H, number, M)
    found = to_numpy(links.dense_links(linked))
    assert np.count_nonzero(right) > B * H / 2
    np.testing.assert_allclose(found, right, rtol=0, atol=1e-6)
    read = spread(B, R, M)
    right = reference.batched(reference.directions)(right, read)
    for one, expected in zip(links.sparse_directions(linked, tensor(read)), right):
        np.testing.assert_allclose(to_numpy(one), expected, rtol=0, atol=1e-6)


def test_a_closed_write_gate_leaves_sparse_links_alone():
    w = np.concatenate([hot([3, 0]), np.zeros((2, B, H, M))])
    linked, p = sparse_written(w, K)
    right = np.zeros((M, M))
    right[0, 3] = 1
    np.testing.assert_allclose(
        to_numpy(links.dense_links(linked))[0, 0], right, atol=1e-6
    )
    np.testing.assert_allclose(to_numpy(p)[0, 0], np.eye(M)[0], atol=1e-6)


def test_gradients():
    """Of two writes and what is read after them: dense by differences, sparse alike."""
    w, read = writes(3, power=2)[:, :1], spread(1, R, M)
    along = references.normal(2, 1, R, H, M)

    def dense(w, read):
        found = links.directions(written(w)[0], read)
        return sum(ops.sum(tensor(c) * x) for c, x in zip(along, found))

    def sparse(w, read):
        linked = sparse_written(w, M, threshold=0.0)[0]
        found = links.sparse_directions(linked, read)
        return sum(ops.sum(tensor(c) * x) for c, x in zip(along, found))

    def right(w, read):
        linked, p = np.zeros((H, M, M)), np.zeros((H, M))
        for row in w[:, 0]:
            linked = reference.links(linked, p, row)
            p = reference.precedence(p, row)
        found = reference.directions(linked, read[0])
        return sum(np.sum(c[0] * x) for c, x in zip(along, found))

    of_dense, of_sparse = gradient(dense, w, read), gradient(sparse, w, read)
    by_w = references.differences(lambda x: right(x, read), w)
    by_read = references.differences(lambda x: right(w, x), read)
    for found in (of_dense, of_sparse):
        np.testing.assert_allclose(found[0], by_w, rtol=1e-3, atol=1e-4)
        np.testing.assert_allclose(found[1], by_read, rtol=1e-3, atol=1e-4)


@few_compiled("slots", [1536, 1511])
def test_pieces_without_links_are_left_out_and_no_other(slots):
    """Links in few of the pieces that a larger memory is cut into, as in dense ones.

    1511 is a prime number: pieces of one size hold it with some room left.
    """
    k, heads = 2, 2
    x = np.random.default_rng(0)
    at = np.stack([x.permutation(slots) for _ in range(k)]).astype("int32")[None]
    values = np.zeros((1, k, slots))
    values[0, 0, 3:700] = x.random(697)  # of three pieces two
    values[0, 1, 1500] = 0.5
    dense = np.zeros((slots, slots))
    for place in range(k):
        np.add.at(dense, (np.arange(slots), at[0, place]), values[0, place])
    w, reads = spread(1, slots, seed=1) * slots / 4, spread(1, slots, heads, seed=2)
    faded = dense * (1 - w[0][:, None] - w[0])
    out = kernels.fade_links(tensor(values), ops.convert_to_tensor(at), tensor(w))
    right = np.take_along_axis(faded.T, at[0], axis=0) * (values[0] != 0)
    np.testing.assert_allclose(to_numpy(out)[0], right, rtol=0, atol=1e-5)
    pair = kernels.follow_links(
        tensor(values), ops.convert_to_tensor(at), tensor(reads)
    )
    np.testing.assert_allclose(to_numpy(pair[0])[0], dense @ reads[0], atol=1e-5)
    np.testing.assert_allclose(to_numpy(pair[1])[0], dense.T @ reads[0], atol=1e-5)

    along = references.normal(2, 1, slots, heads)
    c, d = tensor(along[0]), tensor(along[1])

    def score(form_fade, form_follow):
        def call(values, w, reads):
            slots = ops.convert_to_tensor(at)
            ahead, back = form_follow(form_fade(values, slots, w), slots, reads)
            return ops.sum(c * ahead + d * back * back)

        return call

    found = gradient(score(kernels.fade_links, kernels.follow_links), values, w, reads)
    right = gradient(
        score(kernel_reference.fade, kernel_reference.follow), values, w, reads
    )
    live = values != 0  # a link of 0 hands on no gradient
    np.testing.assert_allclose(found[0][live], right[0][live], rtol=1e-4, atol=1e-5)
    for one, other in zip(found[1:], right[1:]):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


def test_gradients_are_finite_before_the_first_write():
    zeros, read = np.zeros((2, 1, H, M)), np.zeros((1, R, M))

    def sparse(w, read):
        linked = sparse_written(w, K)[0]
        forward, backward = links.sparse_directions(linked, read)
        return ops.sum(forward + backward)

    assert all(np.isfinite(g).all() for g in gradient(sparse, zeros, read))


def test_the_number_of_links():
    assert links.no_links(B, H, M, 100).values.shape == (B, H, M, M)
    with pytest.raises(ValueError, match=r"`number` must be at least 1\. Received:"):
        links.no_links(B, H, M, 0)


@pytest.mark.backends("jax", "tensorflow")
def test_symbols_and_exports_take_the_plain_form(monkeypatch):
    """A format may know neither a gradient of our own nor its loop of pieces."""
    slots = tensor(np.arange(B * K * M).reshape(B, K, M) % M, "int32")
    given = {
        "fade_links": (spread(B, K, M), spread(B, M)),
        "follow_links": (spread(B, K, M), spread(B, M, R)),
    }
    taken = []
    for name, (values, weights) in given.items():
        kernel = getattr(kernels, name)
        form = getattr(kernel_reference, kernel.__name__)

        def noted(*arguments, form=form):
            taken.append(form.__name__)
            return form(*arguments)

        symbols = [keras.KerasTensor(x.shape) for x in (values, weights)]
        symbolic = kernel(symbols[0], slots, symbols[1])
        monkeypatch.setattr(kernel_reference, kernel.__name__, noted)
        own_module = sys.modules[kernel.__module__]
        monkeypatch.setattr(own_module, "is_exporting", lambda: True)
        exported = kernel(tensor(values), slots, tensor(weights))
        monkeypatch.undo()
        assert taken.pop() == kernel.__name__
        own = kernel(tensor(values), slots, tensor(weights))
        for one, other, symbol in zip(
            *map(keras.tree.flatten, (own, exported, symbolic))
        ):
            np.testing.assert_allclose(to_numpy(one), to_numpy(other), atol=1e-6)
            assert symbol.shape == tuple(one.shape)
