"""Addressing of an external memory against NumPy in float64, with its gradients.

Several functions of one test share their shapes: JAX compiles anew for each.
"""

import functools

import dnc_reference as reference
import numpy as np
import pytest
import references
from gradients import gradient, tensor, to_numpy
from keras import ops

from keras_attention.ops.memory import addressing, links

B, M, W, R, H = 3, 7, 5, 4, 2


def uniform(*shape, seed=0):
    return np.random.default_rng(seed).random(shape)


def simplex(*shape, seed=0, power=1):
    x = uniform(*shape, seed=seed) ** power
    return x / x.sum(axis=-1, keepdims=True)


def usages():
    """Of random numbers, of none, of everything, and with slots that tie."""
    u = uniform(5, M)
    u[1], u[2] = 0, 1
    u[3] = [0.5, 0, 0.5, 1, 0.5, 0, 1]
    u[4] = [1, 1, 1, 0, 1, 1, 1]
    return u


def check(function, expected, *arrays, tolerance=1e-5, **options):
    found = function(*(tensor(x) for x in arrays), **options)
    expected = reference.batched(expected)(*arrays, **options)
    for one, right in zip(
        found if isinstance(found, tuple) else [found],
        expected if isinstance(expected, tuple) else [expected],
    ):
        np.testing.assert_allclose(to_numpy(one), right, rtol=0, atol=tolerance)
    return to_numpy(found) if not isinstance(found, tuple) else found


def memory(seed=0):
    """Of random numbers, and with slots of zeros; the last example is empty."""
    x = references.normal(B, M, W, seed=seed)
    x[0, 2], x[-1] = 0, 0
    return x


def test_content_weights():
    keys = references.normal(B, R, W, seed=1)
    keys[0, 1] = 0
    strengths = 1 + 5 * uniform(B, R)
    arrays = memory(), keys, strengths
    found = check(addressing.content_weights, reference.content_weights, *arrays)
    np.testing.assert_allclose(found[0, 1], 1 / M, atol=1e-6)  # a key of zeros
    np.testing.assert_allclose(found[-1], 1 / M, atol=1e-6)  # an empty memory
    check(
        addressing.content_weights,
        reference.content_weights,
        *arrays,
        uniform(B, R, W, seed=2),
    )
    some = (tensor(x) for x in arrays)
    np.testing.assert_allclose(
        to_numpy(addressing.content_weights(*some, epsilon=0.05)),
        reference.batched(reference.content_weights)(*arrays, epsilon=0.05),
        atol=1e-5,
    )


def test_similarity_is_that_of_the_paper_away_from_zero():
    m, keys = references.normal(B, M, W), references.normal(B, R, W, seed=1)
    strengths = 1 + 5 * uniform(B, R)
    exact = reference.batched(reference.content_weights)(
        m, keys, strengths, epsilon=0.0
    )
    found = addressing.content_weights(tensor(m), tensor(keys), tensor(strengths))
    np.testing.assert_allclose(to_numpy(found), exact, rtol=0, atol=1e-5)


def test_what_a_mask_hides_does_not_count():
    m, keys = references.normal(B, M, W), references.normal(B, R, W, seed=1)
    mask = np.ones((B, R, W))
    mask[..., 3:] = 0
    strengths = np.full((B, R), 4.0)
    found = to_numpy(
        addressing.content_weights(
            *(tensor(x) for x in (m, keys, strengths)), tensor(mask)
        )
    )
    plain = addressing.content_weights(
        tensor(m[..., :3]), tensor(keys[..., :3]), tensor(strengths)
    )
    np.testing.assert_allclose(found, to_numpy(plain), atol=1e-6)


def test_a_strong_key_selects_its_row():
    m = references.normal(B, M, W)
    rows = np.array([0, 5, 2, 6])
    w = addressing.content_weights(
        tensor(m), tensor(m[:, rows]), tensor(np.full((B, R), 200.0))
    )
    np.testing.assert_allclose(
        to_numpy(w), np.broadcast_to(np.eye(M)[rows], (B, R, M)), atol=1e-3
    )


def test_usage_and_retention():
    free, read = uniform(B, R), simplex(B, R, M)
    psi = check(addressing.retention, reference.retention, free, read)
    write = simplex(B, H, M, seed=3) * uniform(B, H, 1)
    u = uniform(B, M, seed=4)
    check(addressing.usage, reference.usage, u, write, psi)
    check(addressing.usage, reference.usage, u, write[:, :1], psi)
    full = np.ones((B, M))
    found = addressing.usage(tensor(full), tensor(write), tensor(full))
    np.testing.assert_array_equal(to_numpy(found), full)  # it stays full
    hot = np.eye(M)[None, [2]].repeat(B, 0)
    none = np.zeros((B, M))
    found = addressing.usage(tensor(none), tensor(hot), tensor(full))
    np.testing.assert_allclose(to_numpy(found), hot[:, 0], atol=1e-7)
    gone = addressing.retention(tensor(np.ones((B, 1))), tensor(hot))
    np.testing.assert_array_equal(to_numpy(gone), 1 - hot[:, 0])  # read and freed


def test_allocation():
    u = usages()
    found = check(
        addressing.allocation_weights, reference.allocation_weights, u, tolerance=5e-6
    )
    np.testing.assert_allclose(found.sum(-1), 1 - u.prod(-1), atol=1e-5)
    assert np.all(found[2] == 0)  # nothing is free
    np.testing.assert_allclose(found[1], np.eye(M)[0], atol=1e-5)  # the first slot
    np.testing.assert_allclose(found[4], np.eye(M)[3], atol=1e-5)  # the only one
    np.testing.assert_allclose(found[3], np.eye(M)[1], atol=1e-5)  # first of a tie


def test_several_heads_allocate_one_after_another():
    u, gates = usages(), uniform(5, 3, seed=5)
    u[1], u[3] = uniform(2, M, seed=6)  # where none tie: rounding may tell ties apart
    floored = functools.partial(reference.allocations, floor=addressing.EPSILON)
    check(addressing.allocations, floored, u, gates)
    check(addressing.allocations, reference.allocations, u, gates, 4 * gates)
    whole = tensor(np.ones((1, 3)))
    found = to_numpy(addressing.allocations(tensor(np.zeros((1, M))), whole))[0]
    np.testing.assert_allclose(found.max(-1), 1, atol=1e-5)
    assert len(set(found.argmax(-1))) == 3  # a slot for each of them


def test_soft_allocation():
    u = usages()
    strength = 10 * uniform(5)
    found = check(addressing.soft_allocation, reference.soft_allocation, u, strength)
    np.testing.assert_allclose(found.sum(-1), 1, atol=1e-6)
    np.testing.assert_array_equal(found[0].argmax(), u[0].argmin())


def test_writing():
    content, allocation = simplex(B, H, M), simplex(B, H, M, seed=1)
    gates, shares = uniform(B, H), uniform(B, H, seed=1)
    arrays = content, allocation, gates, shares
    w = check(addressing.write_weights, reference.write_weights, *arrays)
    erase, values = uniform(B, H, W), references.normal(B, H, W, seed=2)
    m = memory()
    check(addressing.erase_and_write, reference.erase_and_write, m, w, erase, values)
    check(addressing.deallocate, reference.deallocate, m, uniform(B, M))
    closed = addressing.write_weights(
        *(tensor(x) for x in (content, allocation, np.zeros((B, H)), shares))
    )
    kept = addressing.erase_and_write(
        tensor(m), closed, *(tensor(x) for x in (erase, values))
    )
    np.testing.assert_array_equal(to_numpy(kept), to_numpy(tensor(m)))


def test_reading():
    modes, content = simplex(B, R, 1 + 2 * H), simplex(B, R, M)
    f, b = simplex(B, R, H, M, seed=1), simplex(B, R, H, M, seed=2)
    w = check(addressing.read_weights, reference.read_weights, modes, b, content, f)
    check(addressing.read, reference.read, memory(), w)
    for mode, expected in enumerate((b[:, :, 0], b[:, :, 1], content, f[:, :, 0])):
        hot = np.broadcast_to(np.eye(1 + 2 * H)[mode], modes.shape)
        found = addressing.read_weights(*(tensor(x) for x in (hot, b, content, f)))
        np.testing.assert_allclose(to_numpy(found), expected, atol=1e-7)


def test_sharpness_of_links():
    d = simplex(B, R, H, M, power=4)
    d[0, 0], d[1, 1, 1, :4] = 0, 0
    power = 1 + 4 * uniform(B, R, H)
    found = check(addressing.sharpen, reference.sharpen, d, power)
    np.testing.assert_allclose(found[0, 0], 1 / M, atol=1e-6)


def test_addressing_of_the_turing_machine():
    content, previous = simplex(B, R, M), simplex(B, R, M, seed=1)
    previous[0, 0] = np.eye(M)[-1]
    gate = uniform(B, R)
    check(addressing.interpolate, reference.interpolate, content, previous, gate)
    for number in (1, 3, 5):
        shifts = simplex(B, R, number, seed=number)
        check(addressing.shift, reference.shift, previous, shifts)
    one = np.broadcast_to([0.0, 0.0, 1.0], (B, R, 3))
    found = addressing.shift(tensor(previous), tensor(one))
    np.testing.assert_array_equal(to_numpy(found)[0, 0], np.eye(M)[0])  # round the end
    gamma = 1 + 10 * uniform(B, R)
    check(addressing.sharpened, reference.sharpened, previous, gamma)
    with pytest.raises(ValueError, match="`shifts` must be odd in number"):
        addressing.shift(tensor(previous), tensor(one[..., :2]))


# The whole access of the memory.

NAMES = (
    "memory",
    "usage",
    "write_weights",
    "read_weights",
    "precedence",
    "links",
    "read_keys",
    "read_strengths",
    "write_keys",
    "write_strengths",
    "erase",
    "values",
    "free_gates",
    "allocation_gate",
    "write_gate",
    "modes",
)
STATE = NAMES[:6]


def numbers(batch, heads, seed=0):
    """State and interface under their names, in the range that each may have."""
    x = np.random.default_rng(seed)
    spread = functools.partial(references.spread, x)
    linked = 0.9 * spread(batch, heads, M, M) * (1 - np.eye(M)) / 2
    return {
        "memory": x.normal(size=(batch, M, W)),
        "usage": x.random((batch, M)),
        "write_weights": spread(batch, heads, M) * x.random((batch, heads, 1)),
        "read_weights": spread(batch, R, M),
        "precedence": spread(batch, heads, M) * x.random((batch, heads, 1)),
        "links": linked,
        "read_keys": x.normal(size=(batch, R, W)),
        "read_strengths": 1 + 3 * x.random((batch, R)),
        "write_keys": x.normal(size=(batch, heads, W)),
        "write_strengths": 1 + 3 * x.random((batch, heads)),
        "erase": x.random((batch, heads, W)),
        "values": x.normal(size=(batch, heads, W)),
        "free_gates": x.random((batch, R)),
        "allocation_gate": x.random((batch, heads)),
        "write_gate": x.random((batch, heads)),
        "modes": spread(batch, R, 1 + 2 * heads),
    }


def access(n, deallocation=False):
    """One access of the memory through the functions of the package."""
    psi = addressing.retention(n["free_gates"], n["read_weights"])
    u = addressing.usage(n["usage"], n["write_weights"], psi)
    a = addressing.allocations(u, n["write_gate"] * n["allocation_gate"])
    m = n["memory"]
    c = addressing.content_weights(m, n["write_keys"], n["write_strengths"])
    w = addressing.write_weights(c, a, n["write_gate"], n["allocation_gate"])
    if deallocation:
        m = addressing.deallocate(m, psi)
    m = addressing.erase_and_write(m, w, n["erase"], n["values"])
    linked = links.links(n["links"], n["precedence"], w)
    p = links.precedence(n["precedence"], w)
    f, b = links.directions(linked, n["read_weights"])
    c = addressing.content_weights(m, n["read_keys"], n["read_strengths"])
    found = addressing.read_weights(n["modes"], b, c, f)
    state = dict(zip(STATE, (m, u, w, found, p, linked)))
    return state, addressing.read(m, found)


def expected_access(n, **options):
    """The same of one example, by the reference."""
    state = reference.State(**{k: n[k] for k in STATE})
    xi = reference.Interface(**{k: n[k] for k in NAMES[6:]})
    return reference.step(state, xi, **options)


def free_lists(n):
    psi = reference.retention(n["free_gates"], n["read_weights"])
    u = reference.usage(n["usage"], n["write_weights"], psi)
    gates = n["write_gate"] * n["allocation_gate"]
    return reference.free_lists(u, gates, addressing.EPSILON)


@pytest.mark.parametrize("deallocation", [False, True])
@pytest.mark.parametrize("heads", [1, H])
def test_twenty_steps_of_an_access(heads, deallocation):
    first = numbers(B, heads, seed=100)  # no two slots of the same usage
    first = {k: first[k] for k in STATE}
    state = [reference.State(**{k: first[k][i] for k in STATE}) for i in range(B)]
    ours = {k: tensor(first[k]) for k in STATE}
    for t in range(20):
        n = numbers(B, heads, seed=t)
        ours, reads = access(
            {k: tensor(ours[k] if k in STATE else n[k]) for k in NAMES}, deallocation
        )
        xi = [{k: n[k][i] for k in NAMES[6:]} for i in range(B)]
        state = [
            expected_access(
                {**{k: getattr(s, k) for k in STATE}, **x}, deallocation=deallocation
            )
            for s, x in zip(state, xi)
        ]
        right = reference.State.stack(state)
        for k in STATE:
            np.testing.assert_allclose(
                to_numpy(ours[k]), getattr(right, k), rtol=1e-5, atol=1e-5, err_msg=k
            )
        np.testing.assert_allclose(to_numpy(reads), right.reads, rtol=1e-5, atol=1e-5)


def cases(heads):
    """Random numbers, an empty memory, a full one, and slots that tie, as a batch."""
    n = numbers(4, heads, seed=7)
    for k in STATE:
        n[k][1] = 0  # as it is before the first step
    n["usage"][2], n["free_gates"][2] = 1, 0  # nothing is free
    n["usage"][3] = 0.25
    n["write_weights"][3] = 1 / M
    n["read_weights"][3] = 1 / M
    n["memory"][3] = n["memory"][3, :1]
    return n


def slopes(n, along, **options):
    """Differences of Σ along · (what an access gives), by name, of one example."""
    orders = free_lists(n)

    def total(k, x):
        after = expected_access({**n, k: x}, orders=orders, **options)
        names = (*STATE, "reads")
        return sum(np.sum(along[name] * getattr(after, name)) for name in names)

    return {k: references.differences(lambda x, k=k: total(k, x), n[k]) for k in NAMES}


@pytest.mark.slow
@pytest.mark.parametrize("heads", [1, H])
def test_gradient_of_an_access(heads):
    """At random numbers, at a memory of zeros, at a full one, and where slots tie.

    The order of allocation is held fixed in the reference, where usage counts as at
    least 1e-6, as it does in `allocation_weights`.
    """
    n = cases(heads)
    shapes = {k: n[k].shape for k in STATE} | {"reads": (4, R, W)}
    along = {
        k: references.normal(*s, seed=i) for i, (k, s) in enumerate(shapes.items())
    }

    def total(*arrays):
        state, reads = access(dict(zip(NAMES, arrays)))
        state["reads"] = reads
        return sum(ops.sum(tensor(along[k]) * state[k]) for k in along)

    found = dict(zip(NAMES, gradient(total, *(n[k] for k in NAMES))))
    for i in range(4):
        right = slopes(
            {k: x[i] for k, x in n.items()},
            {k: x[i] for k, x in along.items()},
            floor=addressing.EPSILON,
        )
        for k in NAMES:
            np.testing.assert_allclose(
                found[k][i],
                right[k],
                rtol=1e-3,
                atol=1e-4 * (1 + np.abs(right[k]).max()),
                err_msg=f"{k} of example {i}",
            )


@pytest.mark.backends("all")
def test_gradient_of_allocation_where_usage_is_extreme_or_ties():
    u = usages()
    along = references.normal(*u.shape)
    (found,) = gradient(
        lambda x: ops.sum(tensor(along) * addressing.allocation_weights(x)), u
    )
    for i, row in enumerate(u):
        order = np.argsort(row, kind="stable")

        def total(x, i=i, order=order):
            a = reference.allocation_weights(x, order, addressing.EPSILON)
            return np.sum(along[i] * a)

        right = references.differences(total, row)
        np.testing.assert_allclose(found[i], right, rtol=1e-3, atol=1e-4)


def test_gradients_of_the_options_and_of_the_turing_machine():
    keys, mask = references.normal(B, R, W, seed=1), uniform(B, R, W)
    m, strengths = memory(), 1 + uniform(B, R)
    d, power = 0.02 + uniform(B, R, M), 1 + uniform(B, R)
    shifts, along = simplex(B, R, 3), references.normal(4, B, R, M)
    u, strength = uniform(B, M, seed=3), 1 + uniform(B)

    def ours(m, k, s, z, d, power, shifts, u, strength):
        found = (
            addressing.content_weights(m, k, s, z),
            addressing.sharpen(d, power),
            addressing.sharpened(addressing.shift(d, shifts), power),
            addressing.soft_allocation(u, strength)[:, None],
        )
        return sum(ops.sum(tensor(c) * x) for c, x in zip(along, found))

    def theirs(m, k, s, z, d, power, shifts, u, strength):
        each = reference.batched
        moved = each(reference.shift)(d, shifts)
        found = (
            each(reference.content_weights)(m, k, s, z),
            reference.sharpen(d, power),
            each(reference.sharpened)(moved, power),
            each(reference.soft_allocation)(u, strength)[:, None],
        )
        return sum(np.sum(c * x) for c, x in zip(along, found))

    arrays = [m, keys, strengths, mask, d, power, shifts, u, strength]
    for i, found in enumerate(gradient(ours, *arrays)):

        def one(x, i=i):
            return theirs(*arrays[:i], x, *arrays[i + 1 :])

        right = references.differences(one, arrays[i])
        np.testing.assert_allclose(
            found, right, rtol=1e-3, atol=1e-4 * (1 + np.abs(right).max())
        )


@pytest.mark.backends("all")
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_gradients_are_finite_where_a_weight_is_none(dtype):
    def squares(function):
        return lambda *x: ops.sum(ops.square(function(*x)))

    w, gamma = np.eye(M)[None, [0, 3]], np.array([[1.0, 30.0]])
    found = gradient(squares(addressing.sharpened), w, gamma, dtype=dtype)
    assert all(np.isfinite(g).all() for g in found)
    zeros, power = np.zeros((1, 2, M)), np.array([[1.0, 30.0]])
    found = gradient(squares(addressing.sharpen), zeros, power, dtype=dtype)
    assert all(np.isfinite(g).all() for g in found)


@pytest.mark.parametrize("epsilon", [0.0, -1e-6])
def test_an_epsilon_that_is_not_above_0(epsilon):
    memory, keys, strengths = np.zeros((1, 3, 2)), np.ones((1, 1, 2)), np.ones((1, 1))
    with pytest.raises(ValueError, match="`epsilon` must be above 0"):
        addressing.content_weights(memory, keys, strengths, epsilon=epsilon)
