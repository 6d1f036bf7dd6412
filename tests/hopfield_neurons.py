"""What is proved of neurons of −1 and 1, over random cases; see hopfield_theory.py.

A check returns whether its claim held, case by case, and in which cases it says
something. Numbers are whole, and there is no tolerance.
"""

import numpy as np
from gradients import to_numpy
from keras import ops

from keras_attention import kernels
from keras_attention.ops.hopfield import energy

# Sets of patterns, states for each, patterns, width. Two shapes for all checks.
SHAPES = ((307, 5, 7, 5), (307, 5, 3, 11))
CHECKS = {}


def check(function):
    CHECKS[function.__name__] = function
    return function


def tensors(*arrays):
    return [ops.convert_to_tensor(x) for x in arrays]


# Compiled once for each shape and name, not in each sweep.
UPDATES = {
    name: kernels.compiled(update, [], False)
    for name, update in {
        "classical": energy.classical_update,
        "cubic": lambda s, x: energy.polynomial_update(s, x, 3),
        "quartic": lambda s, x: energy.polynomial_update(s, x, 4),
        "exponential": energy.exponential_update,
    }.items()
}
ENERGIES = {
    "classical": energy.classical_energy,
    "cubic": lambda s, x: energy.polynomial_energy(s, x, 3),
    "quartic": lambda s, x: energy.polynomial_energy(s, x, 4),
    "exponential": energy.exponential_energy,
}


def signs(shape, seed):
    sets, states, stored, width = shape
    random = np.random.default_rng(seed)
    state = random.integers(0, 2, (sets, states, width)) * 2.0 - 1
    return state, random.integers(0, 2, (sets, stored, width)) * 2.0 - 1


def asynchronous(name):
    """E falls wherever the state changes, until nothing changes: a fixed point."""
    held, says = [], []
    for seed, shape in enumerate(SHAPES):
        states, patterns = signs(shape, seed + 110)
        for _ in range(8):
            old = tensors(states, patterns)
            new = UPDATES[name](*old)
            fall = to_numpy(ENERGIES[name](*old) - ENERGIES[name](new, old[1]))
            new = to_numpy(new)
            changed = np.any(new != states, axis=-1)
            held.append(np.where(changed, fall > 0, fall == 0))
            says.append(changed)
            states = new
        held.append(~changed)
    return held, says


@check
def classical_one_by_one_descends_to_rest():
    return asynchronous("classical")


@check
def cubic_one_by_one_descends_to_rest():
    return asynchronous("cubic")


@check
def quartic_one_by_one_descends_to_rest():
    return asynchronous("quartic")


@check
def exponential_one_by_one_descends_to_rest():
    return asynchronous("exponential")


@check
def classical_all_at_once_ends_in_circles_of_two():
    held, says = [], []
    for seed, shape in enumerate(SHAPES * 2):  # one in four ends in such a circle
        states, patterns = signs(shape, seed + 120)
        path = [states]
        for _ in range(30):
            new = energy.classical_update(*tensors(path[-1], patterns), "synchronous")
            path.append(to_numpy(new))
        held.append(np.all(path[-1] == path[-3], axis=-1))
        says.append(np.any(path[-1] != path[-2], axis=-1))
    return held, says
