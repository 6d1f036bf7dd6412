"""What the papers prove of Hopfield networks, over random cases in float64.

Each check returns whether its claim held, case by case, and in which cases the claim
says something (a bound that is not larger than what is always true). Those of neurons
of −1 and 1 are in hopfield_neurons.py. `python
hopfield_theory.py` prints the counts as JSON. It is a process of its own since JAX has
float64 only with JAX_ENABLE_X64=1, and Keras elsewhere once its table says so.

Tolerances: 1e-9 of the scale of what is compared (energies: 1 + M²; lengths: 1 + M),
and none where numbers are whole or a pattern must come back exactly.
"""

import json
import math

import hopfield_references as plain
import numpy as np
from gradients import to_numpy
from hopfield_neurons import CHECKS, SHAPES, check, tensors
from keras import ops

from keras_attention.ops.hopfield import energy, retrieval

TOLERANCE = 1e-9


def backend(function, states, patterns, beta, *names, mask=None):
    """A function of `ops.energy` at NumPy arrays, computed in float64."""
    states, patterns, beta = tensors(states, patterns, beta)
    mask = None if mask is None else ops.convert_to_tensor(mask)
    found = function(states, patterns, beta, *names, mask=mask)
    assert "float64" in str(found.dtype), found.dtype
    return to_numpy(found)


def step(states, patterns, beta):
    return backend(energy.hopfield_update, states, patterns, beta)


def length(x):
    return np.linalg.norm(x, axis=-1)


def random_problem(shape, seed):
    """States anywhere, patterns of several sizes, β from small to large."""
    sets, states, stored, width = shape
    random = np.random.default_rng(seed)
    size = np.exp(random.uniform(-1, 1.5, (sets, 1, 1)))
    patterns = size * random.normal(size=(sets, stored, width))
    patterns *= random.uniform(0.3, 1, (sets, stored, 1))
    state = size * random.normal(size=(sets, states, width))
    state *= random.uniform(0, 1.5, (sets, states, 1))
    beta = np.exp(random.uniform(-3, 3, (sets, states)))
    mask = random.random((sets, 1, stored)) < 0.8
    return state, patterns, beta, mask


def near(shape, seed, sharpness=(0.0, 4.5)):
    """States near a pattern (B, T, D), which one (T,), on spheres, and one β a set."""
    sets, states, stored, width = shape
    random = np.random.default_rng(seed)
    size = np.exp(random.uniform(-1, 1, (sets, 1, 1)))
    patterns = size * plain.unit(random.normal(size=(sets, stored, width)))
    which = np.arange(states) % stored
    away = plain.unit(random.normal(size=(sets, states, width)))
    distance = size * random.uniform(0, 0.3, (sets, states, 1)) ** 2
    beta = np.exp(random.uniform(*sharpness, (sets, 1))) / size[..., 0] ** 2
    return patterns[:, which] + distance * away, patterns, beta, which


def allowed_longest(patterns, mask):
    """M of what the mask allows, (B, 1)."""
    lengths = length(patterns)[:, None]  # (B, 1, S)
    return np.max(lengths * mask, axis=-1)


def separation(patterns):
    """Δ, (..., S), in loops."""
    out = np.full(patterns.shape[:-1], np.inf)
    for row in np.ndindex(out.shape):
        x, i = patterns[row[:-1]], row[-1]
        out[row] = x[i] @ x[i] - max(x[i] @ x[j] for j in range(len(x)) if j != i)
    return out


def settled(states, patterns, beta, steps=400):
    """Where plain updates by softmax end."""
    for _ in range(steps):
        z = beta[..., None] * np.einsum("btd,bsd->bts", states, patterns)
        p = np.exp(z - z.max(-1, keepdims=True))
        states = p / p.sum(-1, keepdims=True) @ patterns
    return states


def bound_of(patterns, beta, distance, which):
    """`retrieval_error_bound` of states (B, T) near the patterns `which` (T,)."""
    found = retrieval.retrieval_error_bound(
        *tensors(patterns[:, None], beta[..., None], distance[..., None])
    )
    assert "float64" in str(found.dtype), found.dtype
    return to_numpy(found)[:, np.arange(len(which)), which]


@check
def e1_the_energy_is_between_0_and_2m2():
    """0 ≤ E, and E ≤ 2M² where ‖ξ‖ ≤ M; with masks, for every normalizer."""
    held, says = [], []
    for seed, shape in enumerate(SHAPES):
        states, patterns, beta, mask = random_problem(shape, seed)
        longest = allowed_longest(patterns, mask)
        inside = (length(states) <= longest) & mask.any(-1)
        slack = TOLERANCE * (1 + longest**2)
        for name in plain.NORMALIZERS:
            e = backend(
                energy.hopfield_energy, states, patterns, beta, name, "dot", mask=mask
            )
            held.append((e >= -slack) & (~inside | (e <= 2 * longest**2 + slack)))
            says.append(inside)
    return held, says


def descent(similarity, least):
    """E falls by at least `least` × ‖ξ − f(ξ)‖², for every normalizer."""
    held, says = [], []
    for seed, shape in enumerate(SHAPES):
        states, patterns, beta, mask = random_problem(shape, seed + 10)
        slack = TOLERANCE * (1 + allowed_longest(patterns, mask) ** 2)
        if similarity == "distance":  # whose energy grows with the state's length
            slack = slack + TOLERANCE * length(states) ** 2
        for name in plain.NORMALIZERS:
            rest = (patterns, beta, name, similarity)
            new = backend(energy.hopfield_update, states, *rest, mask=mask)
            before = backend(energy.hopfield_energy, states, *rest, mask=mask)
            after = backend(energy.hopfield_energy, new, *rest, mask=mask)
            moved = least * length(states - new) ** 2
            held.append(before - after >= moved - slack)
            says.append(length(states - new) > 1e-3)
    return held, says


@check
def e2_dot_descends_by_half_the_squared_step():
    return descent("dot", 0.5)


@check
def e2_distance_descends_by_half_the_squared_step():
    held, says = descent("distance", 0.5)
    # A state that may retrieve nothing goes to 0, at no cost.
    some = [random_problem(s, i + 10)[3].any(-1) for i, s in enumerate(SHAPES)]
    some = [x for x in some for _ in plain.NORMALIZERS]
    return [h | ~x for h, x in zip(held, some)], says


@check
def e2_cosine_descends():
    return descent("cosine", 0.0)


@check
def e2_states_come_to_rest():
    """The squares of all steps sum to ≤ 2 E(ξ⁰): after t, one is ≤ √(2 E(ξ⁰)/t)."""
    held, says = [], []
    for seed, shape in enumerate(SHAPES):
        states, patterns, beta, _ = random_problem(shape, seed + 20)
        first = backend(energy.hopfield_energy, states, patterns, beta)
        steps, taken = [], 60
        for _ in range(taken):
            new = step(states, patterns, beta)
            steps.append(length(new - states))
            states = new
        least = np.min(steps, axis=0)
        held.append(least**2 <= 2 * first / taken + TOLERANCE)
        held.append(np.sum(np.square(steps), axis=0) <= 2 * first + TOLERANCE)
        says.append(steps[0] > 1e-3)
    return held, says


@check
def e3_separation():
    held = []
    for seed, shape in enumerate(SHAPES):
        patterns = random_problem(shape, seed + 30)[1]
        found = to_numpy(retrieval.pattern_separation(*tensors(patterns)))
        expected = separation(patterns)
        size = 1 + np.max(length(patterns), axis=-1, keepdims=True) ** 2
        held.append(np.abs(found - expected) <= TOLERANCE * size)
    return held, held


@check
def e3_one_update_ends_near_the_pattern():
    """Theorem 5, equation 8."""
    held, says = [], []
    for seed, shape in enumerate(SHAPES):
        states, patterns, beta, which = near(shape, seed + 40)
        new = step(states, patterns, beta)
        distance = length(states - patterns[:, which])
        bound = bound_of(patterns, beta, distance, which)
        longest = np.max(length(patterns), axis=-1, keepdims=True)
        held.append(
            length(new - patterns[:, which]) <= bound + TOLERANCE * (1 + longest)
        )
        says.append(bound < longest)
    return held, says


@check
def e3_fixed_points_are_near_their_patterns():
    """Equation 9: ‖xᵢ − x*ᵢ‖ ≤ 2e(N−1)M exp(−βΔᵢ) if that is at most 1/(2βM)."""
    held, says = [], []
    for seed, shape in enumerate(SHAPES):
        _, patterns, beta, which = near(shape, seed + 50, (1.5, 5.0))
        here = patterns[:, which]
        fixed = settled(here, patterns, beta)
        longest = np.max(length(patterns), axis=-1, keepdims=True)
        radius = 1 / (2 * beta * longest) + np.zeros(here.shape[:2])
        away = length(fixed - here)
        bound = bound_of(patterns, beta, radius, which)
        delta = separation(patterns)[:, which]
        stored = shape[2]
        paper = 2 * math.e * (stored - 1) * longest * np.exp(-beta * delta)
        close = (away <= radius) & (length(fixed - step(fixed, patterns, beta)) < 1e-9)
        slack = TOLERANCE * (1 + longest)
        held.append((away <= bound + slack)[close])
        held.append(np.abs(bound - np.minimum(paper, 2 * longest)) <= slack)
        says.append(close)
    return held, says


@check
def e4_an_update_brings_the_fixed_point_nearer():
    """Theorem 4: ‖f(ξ) − x*‖ ≤ ‖Jᵐ‖ ‖ξ − x*‖, ‖Jᵐ‖ ≤ 2βNM²(N−1) exp(−β(Δ − 2dM))."""
    held, says = [], []
    for seed, shape in enumerate(SHAPES):
        states, patterns, beta, which = near(shape, seed + 60, (1.5, 5.0))
        here, stored = patterns[:, which], shape[2]
        fixed = settled(here, patterns, beta)
        rests = length(fixed - step(fixed, patterns, beta)) < 1e-9
        longest = np.max(length(patterns), axis=-1, keepdims=True)
        delta = separation(patterns)[:, which]
        far = np.maximum(length(states - here), length(fixed - here))
        slope = 2 * beta * stored * longest**2 * (stored - 1)
        slope = slope * np.exp(-beta * (delta - 2 * far * longest))
        after = length(step(states, patterns, beta) - fixed)
        slack = TOLERANCE * (1 + longest)
        held.append((after <= slope * length(states - fixed) + slack)[rests])
        jacobian = plain.jacobian(states, patterns[:, None], beta + np.zeros(far.shape))
        held.append(np.linalg.norm(jacobian, 2, axis=(-2, -1)) <= slope + TOLERANCE)
        says.append(rests & (slope < 1))
    return held, says


def spread(patterns):
    """m_max = max ‖xᵢ − x̄‖, (B, 1)."""
    return np.max(length(patterns - patterns.mean(1, keepdims=True)), -1)[:, None]


@check
def e5_the_slope_is_at_most_beta_m2():
    """‖J‖₂ ≤ β m_max², and so ‖f(ξ) − f(η)‖ ≤ β m_max² ‖ξ − η‖."""
    held, says = [], []
    for seed, shape in enumerate(SHAPES):
        states, patterns, beta, _ = random_problem(shape, seed + 70)
        others = states + random_problem(shape, seed + 75)[0] / 5
        limit = beta * spread(patterns) ** 2
        moved = step(states, patterns, beta) - step(others, patterns, beta)
        held.append(length(moved) <= limit * length(states - others) + TOLERANCE)
        jacobian = plain.jacobian(states, patterns[:, None], beta)
        norm = np.linalg.norm(jacobian, 2, axis=(-2, -1))
        held.append(norm <= limit * (1 + TOLERANCE) + TOLERANCE)
        says.append(norm > 0.01 * limit)
    return held, says


@check
def e5_a_small_beta_has_one_fixed_point():
    """β m_max² < 1: all states of a set end in one place, within m_max of the mean."""
    held = []
    for seed, shape in enumerate(SHAPES):
        states, patterns, _, _ = random_problem(shape, seed + 80)
        # The states of a set share one β; 0.6⁶⁰ is below 1e-13.
        beta = 0.6 / spread(patterns) ** 2
        beta = beta * np.random.default_rng(seed).uniform(0.3, 1, beta.shape)
        for _ in range(60):
            states = step(states, patterns, beta)
        apart = length(states - states[:, :1])
        mean = patterns.mean(1, keepdims=True)
        slack = TOLERANCE * (1 + np.max(length(patterns), -1)[:, None])
        held.append((apart <= slack) & (length(states - mean) <= spread(patterns)))
    return held, held


@check
def e6_balls_around_patterns_are_kept():
    """Lemmas A5 to A7: f maps ‖ξ − xᵢ‖ ≤ 1/(βNM) into itself and draws it together."""
    held, says = [], []
    for seed, shape in enumerate(SHAPES):
        sets, states, stored, width = shape
        _, patterns, _, which = near(shape, seed + 90)
        longest = np.max(length(patterns), -1)[:, None]
        delta = np.min(separation(patterns), -1, keepdims=True)  # (B, 1), of all
        beta = sharp_enough(delta, longest, stored)
        radius = 1 / (beta * stored * longest)
        random = np.random.default_rng(seed)
        pair = []
        for _ in range(2):
            away = plain.unit(random.normal(size=(sets, states, width)))
            part = random.uniform(0, 1, (sets, states, 1)) ** (1 / width)
            part[:, 0] = 1  # on the rim
            pair.append(patterns[:, which] + part * radius[..., None] * away)
        new = [step(x, patterns, beta) for x in pair]
        slack = TOLERANCE * (1 + longest)
        enough = np.isfinite(beta)
        for x in new:
            kept = length(x - patterns[:, which]) <= radius + slack
            held.append(~enough | kept)
        held.append(
            ~enough | (length(new[0] - new[1]) <= length(pair[0] - pair[1]) + slack)
        )
        says.append(np.broadcast_to(enough, kept.shape))
    return held, says


def sharp_enough(delta, longest, stored):
    """A β with Δ ≥ 2/(βN) + β⁻¹ ln(2(N−1)NβM²), a little above the least on a grid."""
    out = np.full(delta.shape, np.nan)
    for beta in np.geomspace(1e4, 1e-2, 400):
        needed = 2 * (stored - 1) * stored * beta * longest**2
        needed = (2 / stored + np.log(needed)) / beta
        # A logarithm below 0 would ask for less than nothing.
        out = np.where((delta >= needed) & (needed > 0), beta, out)
    return out


@check
def e7_capacity_solves_its_equation():
    """Theorem 3: W = b/c has W + ln W = a + ln b, with c from N = √p c^((d−1)/4)."""
    random, held = np.random.default_rng(0), []
    for _ in range(1500):
        d, p = int(random.integers(2, 200)), float(random.uniform(1e-4, 0.3))
        beta, k = (float(np.exp(random.uniform(-2, 3))) for _ in range(2))
        count = retrieval.modern_capacity(d, beta, k, p)
        if math.isinf(count):
            continue
        c = (count / math.sqrt(p)) ** (4 / (d - 1))
        a = 2 / (d - 1) * (1 + math.log(2 * beta * k**2 * p * (d - 1)))
        b = 2 * k**2 * beta / 5
        log = a + math.log(b)
        held.append(plain.lambert_of(log, b / c) <= 1e-8 * (1 + abs(log)))
    return [np.array(held)], [np.array(held)]


@check
def e7_as_many_patterns_are_stored():
    """Of N = 7 on a sphere of radius 3√19 each is kept (β 1, K 3, d 20, p .001)."""
    count = math.floor(retrieval.modern_capacity(20, 1.0, 3.0, 0.001))
    random, held = np.random.default_rng(1), []
    patterns = 3 * math.sqrt(19) * plain.unit(random.normal(size=(1000, count, 20)))
    beta, longest = np.ones((1000, 1)), 3 * math.sqrt(19)
    new = step(step(patterns, patterns, beta), patterns, beta)
    for i in range(count):
        kept = length(new[:, i] - patterns[:, i]) <= 1 / (count * longest)
        held.append(kept)
    return held, held


@check
def sparse_retrieval_is_exact():
    """f(ξ) = xᵢ exactly iff ξᵀ(xᵢ − xⱼ) ≥ m/β for all j; m = 1 and 2."""
    held, says = [], []
    for seed, shape in enumerate(SHAPES):
        states, patterns, _, which = near(shape, seed + 100)
        random = np.random.default_rng(seed)
        ahead = np.einsum("btd,bsd->bts", states, patterns)
        i = np.arange(len(which))
        own = ahead[:, i, which].copy()
        ahead[:, i, which] = -np.inf
        margin = own - ahead.max(-1)  # (B, T), the least ξᵀ(xᵢ − xⱼ)
        for name, m in (("sparsemax", 1), ("entmax15", 2)):
            # As often on this side of the margin as on the other.
            beta = m / np.abs(margin) * np.exp(random.uniform(-1, 1, margin.shape))
            found = backend(energy.hopfield_update, states, patterns, beta, name)
            exact = np.all(found == patterns[:, which], axis=-1)
            held.append(exact == (beta * margin >= m))
            says.append(exact)
            says.append(~exact)
    return held, says


def figures(name):
    """How many cases, how many violations, and in how many the claim says something."""
    held, says = CHECKS[name]()
    held = np.concatenate([np.ravel(x) for x in held])
    says = np.concatenate([np.ravel(x) for x in says])
    return {
        "cases": held.size,
        "violations": int(np.sum(~held)),
        "says": int(np.sum(says)),
    }


def keep_float64():
    """Keras narrows float64 to float32 in most results, save on TensorFlow.

    The table that says so has no public name; nothing but this script changes it.
    """
    from keras.src.backend.common import dtypes

    dtypes.BIT64_TO_BIT32_DTYPE["float64"] = "float64"


if __name__ == "__main__":
    keep_float64()
    print(json.dumps({name: figures(name) for name in CHECKS}))
