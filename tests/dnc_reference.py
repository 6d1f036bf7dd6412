"""The Differentiable Neural Computer in NumPy, float64, one number after another.

Written from the equations of Graves et al. (2016), Methods, with the options of Csordás
& Schmidhuber (2019), and from Graves, Wayne & Danihelka (2014) for the Neural Turing
Machine. Loops where the equations have indices; nothing of the package is used.

Functions take one example, without the batch: M memory slots, W word width, R read
heads, H write heads. `batched` makes them take a batch.

Where usage ties, rounding may decide which slot is allocated first, and it is not that
of float32: a memory of zeros gives all slots that are not allocated the same usage.
Compare many steps from a state whose usage and memory are random, or hold the order
fixed.
"""

from dataclasses import dataclass, field, fields

import numpy as np

EPSILON = 1e-6


def sigmoid(x):
    return 1 / (1 + np.exp(-np.asarray(x, "float64")))


def oneplus(x):
    return 1 + np.logaddexp(0, x)


def softmax(x):
    e = np.exp(x - np.max(x, axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def batched(f):
    """f of one example, for a batch: each argument and result gets an axis in front."""

    def over(*arrays, **options):
        found = [f(*row, **options) for row in zip(*arrays)]
        if isinstance(found[0], tuple):
            return tuple(np.stack(part) for part in zip(*found))
        return np.stack(found)

    return over


def similarity(k, m, epsilon=EPSILON):
    """D, with the ε that keeps it smooth at zero; the paper's own with ε = 0."""
    return k @ m / (np.sqrt(k @ k + epsilon) * np.sqrt(m @ m + epsilon))


def content_weights(memory, keys, strengths, key_mask=None, epsilon=EPSILON):
    out = np.zeros((len(keys), len(memory)))
    for r, (key, strength) in enumerate(zip(keys, strengths)):
        mask = 1 if key_mask is None else key_mask[r]
        scores = [similarity(key * mask, row * mask, epsilon) for row in memory]
        out[r] = softmax(strength * np.array(scores))
    return out


def retention(free_gates, read_weights):
    psi = np.ones(read_weights.shape[1])
    for f, w in zip(free_gates, read_weights):
        psi = psi * (1 - f * w)
    return psi


def usage(previous, write_weights, retention):
    untouched = np.ones_like(previous)
    for w in write_weights:
        untouched = untouched * (1 - w)
    written = 1 - untouched
    return (previous + written - previous * written) * retention


def allocation_weights(usage, order=None, floor=0.0):
    """`order` holds the free list fixed; slots of equal usage go by their index.

    `floor` is the least that usage counts as, on a scale from it to 1.
    """
    usage = floor + (1 - floor) * usage
    order = np.argsort(usage, kind="stable") if order is None else order
    out, product = np.zeros_like(usage), 1.0
    for j in order:
        out[j] = (1 - usage[j]) * product
        product = product * usage[j]
    return out


def soft_allocation(usage, strength):
    return softmax((1 - usage) * strength)


def allocations(usage, write_gates, strengths=None, orders=None, floor=0.0):
    out = []
    for h, gate in enumerate(write_gates):
        if strengths is None:
            order = None if orders is None else orders[h]
            a = allocation_weights(usage, order, floor)
        else:
            a = soft_allocation(usage, strengths[h])
        out.append(a)
        usage = usage + (1 - usage) * gate * a
    return np.stack(out)


def free_lists(usage, write_gates, floor=0.0):
    """The order of allocation of each head, to be held fixed; told apart in float32."""
    out = []
    for gate in write_gates:
        seen = (floor + (1 - floor) * usage).astype("float32")
        out.append(np.argsort(seen, kind="stable"))
        usage = usage + (1 - usage) * gate * allocation_weights(usage, out[-1], floor)
    return out


def write_weights(content, allocation, write_gate, allocation_gate):
    g, a = write_gate[:, None], allocation_gate[:, None]
    return g * (a * allocation + (1 - a) * content)


def erase_and_write(memory, weights, erase, values):
    out = np.array(memory, "float64")
    for w, e in zip(weights, erase):
        out = out * (np.ones_like(out) - np.outer(w, e))
    for w, v in zip(weights, values):
        out = out + np.outer(w, v)
    return out


def deallocate(memory, retention):
    return memory * np.outer(retention, np.ones(memory.shape[1]))


def precedence(previous, write_weights):
    rows = [(1 - w.sum()) * p + w for p, w in zip(previous, write_weights)]
    return np.stack(rows)


def links(previous, previous_precedence, write_weights):
    out = np.zeros_like(previous)
    heads, slots = write_weights.shape
    for h in range(heads):
        w, p = write_weights[h], previous_precedence[h]
        for i in range(slots):
            for j in range(slots):
                if i != j:
                    kept = (1 - w[i] - w[j]) * previous[h, i, j]
                    out[h, i, j] = kept + w[i] * p[j]
    return out


def strongest(weights, k):
    """The K largest of a weighting, scaled to the sum of all; the others are 0."""
    out = np.zeros_like(weights)
    kept = np.argsort(-weights, kind="stable")[:k]
    out[kept] = weights[kept]
    return out * (weights.sum() + EPSILON) / (out.sum() + EPSILON)


def sparse_links(previous, previous_precedence, write_weights, k, threshold=None):
    """The same, of the K strongest writes alone; (H, M, M) with zeros for no link."""
    threshold = 1 / k if threshold is None else threshold
    w = np.stack([strongest(row, k) for row in write_weights])
    p = np.stack([strongest(row, k) for row in previous_precedence])
    out = links(previous, p, w)
    out[out < threshold] = 0
    for row in out.reshape(-1, out.shape[-1]):
        row[np.argsort(-row, kind="stable")[k:]] = 0
    return out


def directions(links, read_weights):
    """f and b, (R, H, M)."""
    forward = np.stack([[matrix @ w for matrix in links] for w in read_weights])
    backward = np.stack([[matrix.T @ w for matrix in links] for w in read_weights])
    return forward, backward


def sharpen(weights, power, epsilon=EPSILON):
    d = weights + epsilon
    d = (d / d.max(axis=-1, keepdims=True)) ** np.asarray(power)[..., None]
    return d / d.sum(axis=-1, keepdims=True)


def read_weights(modes, backward, content, forward):
    out, heads = np.zeros_like(content), backward.shape[1]
    for r, mode in enumerate(modes):
        out[r] = mode[heads] * content[r]
        for h in range(heads):
            out[r] += mode[h] * backward[r, h] + mode[heads + 1 + h] * forward[r, h]
    return out


def read(memory, weights):
    return np.stack([memory.T @ w for w in weights])


def interpolate(content, previous, gate):
    return gate[:, None] * content + (1 - gate[:, None]) * previous


def shift(weights, shifts):
    heads, slots = weights.shape
    number = shifts.shape[1]
    out = np.zeros_like(weights)
    for r in range(heads):
        for i in range(slots):
            for j in range(slots):
                for k in range(number):
                    if (i - j - (k - number // 2)) % slots == 0:
                        out[r, i] += weights[r, j] * shifts[r, k]
    return out


def sharpened(weights, gamma):
    out = weights ** gamma[:, None]
    return out / out.sum(axis=-1, keepdims=True)


@dataclass
class State:
    """What the memory carries from one step to the next, of one example."""

    memory: np.ndarray  # (M, W)
    usage: np.ndarray  # (M,)
    write_weights: np.ndarray  # (H, M)
    read_weights: np.ndarray  # (R, M)
    precedence: np.ndarray  # (H, M)
    links: np.ndarray  # (H, M, M)
    reads: np.ndarray = field(default=None)  # (R, W): r

    @classmethod
    def zeros(cls, slots, width, reads, writes):
        return cls(
            np.zeros((slots, width)),
            np.zeros(slots),
            np.zeros((writes, slots)),
            np.zeros((reads, slots)),
            np.zeros((writes, slots)),
            np.zeros((writes, slots, slots)),
            np.zeros((reads, width)),
        )

    @classmethod
    def stack(cls, states):
        """The states of a batch as one, with an axis in front."""
        names = [f.name for f in fields(cls)]
        return cls(*(np.stack([getattr(s, name) for s in states]) for name in names))


@dataclass
class Interface:
    """What the controller says to the memory, of one example, after its squashing.

    The last four are None where their option is off.
    """

    read_keys: np.ndarray  # (R, W): kʳ
    read_strengths: np.ndarray  # (R,): βʳ
    write_keys: np.ndarray  # (H, W): kʷ
    write_strengths: np.ndarray  # (H,): βʷ
    erase: np.ndarray  # (H, W): e
    values: np.ndarray  # (H, W): v
    free_gates: np.ndarray  # (R,): f
    allocation_gate: np.ndarray  # (H,): gᵃ
    write_gate: np.ndarray  # (H,): gʷ
    modes: np.ndarray  # (R, 1 + 2H): π, or None without links
    read_masks: np.ndarray = None  # (R, W): z, "masked_keys"
    write_masks: np.ndarray = None  # (H, W)
    forward_power: np.ndarray = None  # (R, H): s, "sharp_links"
    backward_power: np.ndarray = None  # (R, H)
    allocation_strength: np.ndarray = None  # (H,): β, "soft_allocation"


def step(
    state,
    xi,
    *,
    links_kept=True,
    deallocation=False,
    orders=None,
    floor=0.0,
    threshold=None,
    epsilon=EPSILON,
):
    """One access of the memory, in the paper's order.

    Args:
        state: a `State`.
        xi: an `Interface`.
        links_kept: True for dense links, False for none, an integer K for sparse ones.
        deallocation: whether what is freed leaves the memory.
        orders: the order of allocation of each write head, held fixed.
        floor: the least that usage counts as.
        threshold: of sparse links.
        epsilon: of content addressing.

    Returns:
        The next `State`, whose `reads` are r.
    """
    psi = retention(xi.free_gates, state.read_weights)
    u = usage(state.usage, state.write_weights, psi)
    gates = xi.write_gate * xi.allocation_gate
    a = allocations(u, gates, xi.allocation_strength, orders, floor)
    # The write's content weights look at the memory as it was left by the step before.
    c = content_weights(
        state.memory, xi.write_keys, xi.write_strengths, xi.write_masks, epsilon
    )
    w = write_weights(c, a, xi.write_gate, xi.allocation_gate)
    memory = deallocate(state.memory, psi) if deallocation else state.memory
    memory = erase_and_write(memory, w, xi.erase, xi.values)
    linked, p = state.links, state.precedence
    c = content_weights(memory, xi.read_keys, xi.read_strengths, xi.read_masks, epsilon)
    if links_kept is False:
        found = c
    else:
        if links_kept is True:
            linked = links(state.links, state.precedence, w)
        else:
            linked = sparse_links(
                state.links, state.precedence, w, links_kept, threshold
            )
        p = precedence(state.precedence, w)
        f, b = directions(linked, state.read_weights)
        if xi.forward_power is not None:
            f = sharpen(f, xi.forward_power)
            b = sharpen(b, xi.backward_power)
        found = read_weights(xi.modes, b, c, f)
    return State(memory, u, w, found, p, linked, read(memory, found))


def interface(
    parts, *, masks_floor=0.1
):  # parts: a dict of raw numbers under the names of Interface
    """The squashing of the paper: raw numbers of the controller to an `Interface`.

    Args:
        parts: a dict from the names of `Interface` to arrays as they leave the
            controller; names that are left out stay None.
        masks_floor: the least that a mask lets through.
    """

    def floored(x):
        return masks_floor + (1 - masks_floor) * sigmoid(x)

    squash = {
        "read_keys": np.asarray,
        "read_strengths": oneplus,
        "write_keys": np.asarray,
        "write_strengths": oneplus,
        "erase": sigmoid,
        "values": np.asarray,
        "free_gates": sigmoid,
        "allocation_gate": sigmoid,
        "write_gate": sigmoid,
        "modes": softmax,
        "read_masks": floored,
        "write_masks": floored,
        "forward_power": oneplus,
        "backward_power": oneplus,
        "allocation_strength": oneplus,
    }
    found = {name: squash[name](x) for name, x in parts.items()}
    return Interface(**{"modes": None, **found})


def cell(inputs, controller, state, hidden, output, **options):
    """A whole DNC over the steps of one example.

        hₜ = controller([xₜ; rₜ₋₁]),  yₜ = W_y hₜ + W_r rₜ + b

    Args:
        inputs: x, (T, D).
        controller: f(numbers, hidden) that returns what leaves the controller, its
            raw interface as a dict for `interface`, and the next hidden state.
        state: the first `State`.
        hidden: the controller's first state.
        output: W, (U + R W, V), and b, (V,).
        options: of `step`.

    Returns:
        y, (T, V), and the `State` after each step, a list.
    """
    outputs, states = [], []
    for x in np.asarray(inputs, "float64"):
        left, raw, hidden = controller(
            np.concatenate([x, state.reads.reshape(-1)]), hidden
        )
        state = step(state, interface(raw), **options)
        kernel, bias = output
        outputs.append(np.concatenate([left, state.reads.reshape(-1)]) @ kernel + bias)
        states.append(state)
    return np.stack(outputs), states


def lstm(kernel, recurrent_kernel, bias):
    """A controller's step, as Keras' LSTM has it: gates input, forget, cell, output.

    Returns:
        f(numbers (D,), (h, c)) that returns the next (h, c).
    """

    def one(x, state):
        h, c = state
        z = x @ kernel + h @ recurrent_kernel + bias
        i, f, g, o = np.split(z, 4)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        return sigmoid(o) * np.tanh(c), c

    return one


def ntm_address(memory, previous, key, strength, gate, shifts, gamma):
    """Where the heads of a Neural Turing Machine go, (R, M); equations 5 to 9."""
    content = content_weights(memory, key, strength)
    moved = shift(interpolate(content, previous, gate), shifts)
    return sharpened(moved, gamma)
