"""Hopfield networks in plain NumPy: float64 and loops over states and patterns."""

import math

import numpy as np
import references

# Ω of each normalizer, the weights themselves, and what the weights may sum to.
ENTROPIES = {
    "softmax": lambda p: np.sum(p * np.log(np.maximum(p, 1e-300)), -1),
    "sparsemax": lambda p: (np.sum(p**2, -1) - 1) / 2,
    "entmax15": lambda p: 4 / 3 * (np.sum(p**1.5, -1) - 1),
    "hardmax": lambda p: np.zeros(p.shape[:-1]),
}
NORMALIZERS = (*ENTROPIES, "softmax1")


def unit(x):
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


def similarities(states, patterns, similarity):
    """(..., T, S)."""
    if similarity == "distance":
        differences = states[..., :, None, :] - patterns[..., None, :, :]
        return -np.sum(differences**2, -1) / 2
    if similarity == "cosine":
        states, patterns = unit(states), unit(patterns)
    return np.einsum("...td,...sd->...ts", states, patterns)


def update(states, patterns, beta, normalizer, similarity="dot", mask=None):
    """One step, (..., T, D); β is a number or (..., T)."""
    beta = np.asarray(beta, "float64")[..., None]
    z = beta * similarities(states, patterns, similarity)
    mask = np.broadcast_to(True if mask is None else mask, z.shape)
    p = references.NORMALIZERS[normalizer](z, mask)
    if similarity == "cosine":
        found = p @ unit(patterns)
        length = np.linalg.norm(found, axis=-1, keepdims=True)
        return found / np.where(length > 0, length, 1)
    if similarity == "distance":
        stays = np.where(mask.any(-1), 1 - p.sum(-1), 0)
        return p @ patterns + stays[..., None] * states
    return p @ patterns


def energy(states, patterns, beta, normalizer, similarity="dot", mask=None):
    """½‖ξ‖² − β⁻¹ (max_p pᵀz − Ω(p)) − β⁻¹ Ω(1/N) + ½M², row by row; (..., T)."""
    beta = np.broadcast_to(np.asarray(beta, "float64"), states.shape[:-1])
    z = beta[..., None] * similarities(states, patterns, similarity)
    mask = np.broadcast_to(True if mask is None else mask, z.shape)
    if similarity == "cosine":
        states, patterns = unit(states), unit(patterns)
    out = np.zeros(beta.shape)
    for row in np.ndindex(beta.shape):
        allowed = mask[row]
        out[row] = _free(z[row][allowed], normalizer) / beta[row]
        if similarity != "distance":
            stored = np.broadcast_to(patterns, (*z.shape[:-2], *patterns.shape[-2:]))
            stored = stored[row[:-1]][allowed]
            longest = max((x @ x for x in stored), default=0)
            out[row] += (states[row] @ states[row] + longest) / 2
    return out


def _free(z, normalizer):
    """−Ψ(z) − Ω(1/N) over the scores of N patterns; 0 of none."""
    if len(z) == 0:
        return 0.0
    if normalizer == "softmax1":  # as a softmax with one more score of 0
        z, normalizer = np.append(z, 0), "softmax"
    entropy = ENTROPIES[normalizer]
    p = references.NORMALIZERS[normalizer](z[None], np.full((1, len(z)), True))[0]
    return entropy(p) - p @ z - entropy(np.full(len(z), 1 / len(z)))


def polynomial(degree):
    return lambda z: z**degree


def binary_energy(states, patterns, function):
    """−Σᵢ F(xᵢᵀσ), (..., T)."""
    return -np.sum(function(np.einsum("...td,...sd->...ts", states, patterns)), -1)


def binary_update(states, patterns, function, order):
    """Each neuron is what makes −Σᵢ F(xᵢᵀσ) least; as it was where it is the same.

    Exponentials that differ by less than their rounding are the same.
    """
    old, new = states.copy(), states.copy()
    for j in range(states.shape[-1]):
        seen = new if order == "asynchronous" else old
        up, down = seen.copy(), seen.copy()
        up[..., j], down[..., j] = 1, -1
        below = binary_energy(down, patterns, function)
        above = binary_energy(up, patterns, function)
        tie = np.isclose(above, below, rtol=1e-12, atol=0)
        new[..., j] = np.where(tie, old[..., j], np.sign(below - above))
    return new


def hebb(patterns):
    """W of the classical memory: Σᵢ xᵢxᵢᵀ without its diagonal."""
    w = np.einsum("...sj,...sk->...jk", patterns, patterns)
    return w * (1 - np.eye(patterns.shape[-1]))


def jacobian(state, patterns, beta):
    """β X (diag(p) − ppᵀ) Xᵀ of the softmax update, (..., D, D), of states (..., D)."""
    z = beta[..., None] * np.einsum("...d,...sd->...s", state, patterns)
    p = np.exp(z - z.max(-1, keepdims=True))
    p /= p.sum(-1, keepdims=True)
    mean = np.einsum("...s,...sd->...d", p, patterns)
    spread = np.einsum("...s,...sd,...se->...de", p, patterns, patterns)
    return beta[..., None, None] * (spread - mean[..., :, None] * mean[..., None, :])


def lambert_of(log, w):
    """How far w is from W₀(exp(log))."""
    return abs(w + math.log(w) - log)
