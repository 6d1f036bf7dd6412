"""Products with weights inside a loop on JAX, with gradients after the loop.

The gradient of a loop adds up the gradient of each weight in each step. A weight is
larger than the tensors of a step, so this may take longer than the rest of the step.
Here, the function of a step is traced, and its affine maps

    z = Σᵢ xᵢ Wᵢ + Σ b

are found, where the loop changes neither Wᵢ nor b. The gradient of a loop then returns
d_z of all steps, and one product with the xᵢ of all steps gives each d_Wᵢ.

Shapes: T steps, B batch, D widths of all xᵢ together, K width of z.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
from jax import lax
from jax import numpy as jnp
from jax.extend import core

Tensor = Any
Variable = Any  # of a trace
PRODUCT = (((1,), (0,)), ((), ()))  # the dimension numbers of x W


class Affine(NamedTuple):
    """An affine map, as variables of a trace."""

    out: Variable  # z, (B, K)
    inputs: tuple[Variable, ...]  # xᵢ, (B, ·)
    weights: tuple[Variable, ...]  # Wᵢ, (·, K)
    biases: tuple[Variable, ...]  # b, (B, K) or (1, K)


class Constants(NamedTuple):
    """The tensors that a loop does not change."""

    others: list[Tensor]  # that are not only used by affine maps
    weights: list[Tensor]  # Wᵢ and b
    fixed: list[Tensor]  # integers and other tensors without gradients


class TracedStep:
    """A function that is called in each step of a loop, with its affine maps.

    Args:
        function: maps structures of tensors to a structure of tensors.
        *examples: arguments of `function`, of which only shapes and dtypes are read.

    Attributes:
        constants: the tensors that `function` closes over. The methods take them as an
            argument, so that gradients can be computed.
        is_pure: whether `function` has no side effects.
    """

    def __init__(self, function: Callable, *examples: Any) -> None:
        flat, tree = jax.tree.flatten(examples)
        closed, out = jax.make_jaxpr(
            lambda *x: function(*jax.tree.unflatten(tree, x)), return_shape=True
        )(*flat)
        self.is_pure = not closed.effects
        closed = jax.make_jaxpr(lambda *x: _inlined(closed, x))(*flat)
        self._trace, self._out = closed.jaxpr, jax.tree.structure(out)
        known = dict(zip(closed.jaxpr.constvars, closed.consts, strict=True))
        changing, equations = set(closed.jaxpr.invars), []
        for equation in closed.jaxpr.eqns:
            if changing.isdisjoint(_variables(equation.invars)):
                _run(closed.jaxpr, equation, known)  # the same in each step
            else:
                changing.update(equation.outvars)
                equations.append(equation)
        self._steps = _with_affine(equations, closed.jaxpr.outvars, known)
        self._maps = [step for step in self._steps if isinstance(step, Affine)]
        used = set(_variables(closed.jaxpr.outvars))
        for step in self._steps:
            if not isinstance(step, Affine):
                used.update(_variables(step.invars))
        others: list[Variable] = []
        fixed: list[Variable] = []
        for x in known:
            if x in used:
                smooth = jnp.issubdtype(x.aval.dtype, jnp.inexact)
                (others if smooth else fixed).append(x)
        weights = [x for one in self._maps for x in (*one.weights, *one.biases)]
        self._names = Constants(others, weights, fixed)
        self.constants = Constants(*([known[x] for x in xs] for xs in self._names))

    def products(self, constants: Constants) -> list[tuple[Tensor, Tensor | None]]:
        """Returns all Wᵢ of each map in one (D, K), and Σ b; once before a loop."""
        known, found = self._known(constants), []
        for one in self._maps:
            bias = sum(known[x] for x in one.biases) if one.biases else None
            found.append((jnp.concatenate([known[x] for x in one.weights]), bias))
        return found

    def __call__(
        self, constants: Constants, products: Any, *given: Any
    ) -> tuple[Any, Any]:
        """Returns the result of the function, and z of each map."""
        found, products = [], iter(products)

        def compute(x: Tensor) -> Tensor:
            weight, bias = next(products)
            z = lax.dot_general(x, weight, PRODUCT)
            found.append(z if bias is None else z + bias)
            return found[-1]

        return self._walk(constants, compute, given), found

    def again(self, constants: Constants, back: Any, found: Any, *given: Any) -> Any:
        """Returns the result of the function, given z of each map.

        Args:
            constants: as `TracedStep.constants`.
            back: the transposed weights of each map, (K, D): the gradient then flows to
                z, and also through z to the inputs of the map. With None, z counts as
                independent of these inputs.
            found: z of each map.
            *given: the arguments of the function.
        """
        if back is None:
            rest = iter(found)
            return self._walk(constants, lambda x: next(rest), given)
        pairs = iter(zip(back, found, strict=True))
        return self._walk(constants, lambda x: _known(x, *next(pairs)), given)

    def inputs(self, constants: Constants, found: Any, *given: Any) -> list[Tensor]:
        """Returns all xᵢ of each map in one (B, D), given z of each map."""
        rows, rest = [], iter(found)

        def store(x: Tensor) -> Tensor:
            rows.append(x)
            return next(rest)

        self._walk(constants, store, given)
        return rows

    def gradients(self, constants: Constants, inputs: Any, slopes: Any) -> list[Tensor]:
        """Returns the gradients of the constants of affine maps.

        Args:
            constants: as `TracedStep.constants`.
            inputs: the results of `inputs` in all steps, (T, B, D).
            slopes: d_z of each map in all steps, (T, B, K).
        """
        known, found = self._known(constants), []
        for one, x, d in zip(self._maps, inputs, slopes, strict=True):
            whole = jnp.einsum("tbd,tbk->dk", x, d)
            ends = [known[w].shape[0] for w in one.weights]
            starts = [sum(ends[:n]) for n in range(1, len(ends))]
            found += jnp.split(whole, starts)
            for bias in one.biases:
                rows = known[bias].shape[0]
                total = jnp.sum(d, axis=0)  # (B, K)
                found.append(
                    total if rows == d.shape[1] else jnp.sum(total, 0, keepdims=True)
                )
        return [x.astype(w.dtype) for w, x in zip(constants.weights, found)]

    def _known(self, constants: Constants) -> dict[Variable, Tensor]:
        # A constant that is also used outside affine maps is the one of `others`, whose
        # gradient the loop computes.
        pairs = reversed(list(zip(self._names, constants, strict=True)))
        return {x: one for names, xs in pairs for x, one in zip(names, xs, strict=True)}

    def _walk(self, constants: Constants, product: Callable, given: Any) -> Any:
        known = self._known(constants)
        known.update(zip(self._trace.invars, jax.tree.leaves(given), strict=True))
        for step in self._steps:
            if isinstance(step, Affine):
                rows = [known[x] for x in step.inputs]
                joined = rows[0] if len(rows) == 1 else jnp.concatenate(rows, axis=1)
                known[step.out] = product(joined)
            else:
                _run(self._trace, step, known)
        flat = [_read(x, known) for x in self._trace.outvars]
        return jax.tree.unflatten(self._out, flat)


@jax.custom_vjp
def _known(x: Tensor, back: Tensor, z: Tensor) -> Tensor:
    """Returns z = x W + b, which is known."""
    return z


def _known_forward(x: Tensor, back: Tensor, z: Tensor) -> tuple[Tensor, Tensor]:
    return z, back


def _known_backward(back: Tensor, d: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    return lax.dot_general(d, back, PRODUCT), jnp.zeros_like(back), d


_known.defvjp(_known_forward, _known_backward)


def _with_affine(equations: Any, outputs: Any, known: Any) -> list[Any]:
    """Replaces the equations of affine maps, each at the place of its last one."""
    uses = Counter(_variables(outputs))
    for equation in equations:
        uses.update(_variables(equation.invars))
    steps: dict[Variable, Any] = {}  # by the first output
    for equation in equations:
        product = _product(equation, known)
        one = product or _sum(equation, known, steps, uses)
        if one is None:
            steps[equation.outvars[0]] = equation
            continue
        if product is None:  # the sum replaces the maps that it adds
            for x in _variables(equation.invars):
                if isinstance(steps.get(x), Affine):
                    del steps[x]
        steps[one.out] = one
    return list(steps.values())


def _product(equation: Any, known: Any) -> Affine | None:
    """Returns the affine map x W of an equation, if it is one."""
    if equation.primitive.name != "dot_general":
        return None
    (x, weight), (out,) = equation.invars, equation.outvars
    plain = equation.params["dimension_numbers"] == PRODUCT
    same = x.aval.dtype == weight.aval.dtype == out.aval.dtype
    if not (plain and same and weight in known) or len(x.aval.shape) != 2:
        return None
    return Affine(out, (x,), (weight,), ())


def _sum(equation: Any, known: Any, steps: Any, uses: Any) -> Affine | None:
    """Returns the affine map of an equation that adds to an affine map."""
    if equation.primitive.name != "add":
        return None
    (out,), maps = equation.outvars, 0
    inputs: tuple[Variable, ...] = ()
    weights: tuple[Variable, ...] = ()
    biases: tuple[Variable, ...] = ()
    for x in equation.invars:
        one = None if isinstance(x, core.Literal) else steps.get(x)
        if isinstance(one, Affine) and uses[x] == 1 and x.aval == out.aval:
            inputs, weights = (*inputs, *one.inputs), (*weights, *one.weights)
            biases, maps = (*biases, *one.biases), maps + 1
        elif isinstance(x, core.Literal) or x not in known or len(x.aval.shape) != 2:
            return None
        else:
            biases = (*biases, x)
    fits = all(b.aval.shape[1] == out.aval.shape[1] for b in biases)
    return Affine(out, inputs, weights, biases) if maps and fits else None


def _inlined(closed: Any, given: Sequence[Tensor]) -> list[Tensor]:
    """Evaluates a trace. Calls of compiled functions become part of it."""
    trace = closed.jaxpr
    known = dict(zip(trace.constvars, closed.consts, strict=True))
    known.update(zip(trace.invars, given, strict=True))
    for equation in trace.eqns:
        if equation.primitive.name == "jit":
            found = _inlined(
                equation.params["jaxpr"], [_read(x, known) for x in equation.invars]
            )
            known.update(zip(equation.outvars, found, strict=True))
        else:
            _run(trace, equation, known)
    return [_read(x, known) for x in trace.outvars]


def _run(trace: Any, equation: Any, known: Any) -> None:
    """Evaluates an equation of a trace and stores its results in `known`."""
    given = _variables(equation.invars)
    one = trace.replace(
        constvars=[], invars=given, outvars=equation.outvars, eqns=[equation]
    )
    found = jax.core.eval_jaxpr(one, [], *(known[x] for x in given))
    known.update(zip(equation.outvars, found, strict=True))


def _read(x: Any, known: Any) -> Tensor:
    return x.val if isinstance(x, core.Literal) else known[x]


def _variables(atoms: Any) -> list[Variable]:
    return [x for x in atoms if not isinstance(x, core.Literal)]
