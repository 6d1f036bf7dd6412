"""Traces a call and its gradient into two flat lists of torch operations.

The call first runs with real values. It is then traced with fake tensors, which have
shapes but no values, so a call that reads a value fails instead of freezing the value.
The last step compares the result with the real call.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import keras
import torch

# No public API records operations and their gradients within a second: `torch.export`
# takes seconds, and `torch.compile` needs a compiler, and minutes for a small model.
from torch.fx.experimental.proxy_tensor import get_proxy_mode, make_fx
from torch.utils._python_dispatch import TorchDispatchMode

from keras_attention.kernels.replay.torch_facts import (
    Changed,
    Facts,
    collected,
    played_back,
)
from keras_attention.kernels.replay.torch_program import Program, tensors_of
from keras_attention.kernels.replay.torch_rewrite import Rewriting, Untraceable
from keras_attention.kernels.replay.torch_structures import filled, plan

Tensor = Any
Structure = Any

MOST_OPERATIONS = 30_000  # of a call without its gradient
TOLERANCES = {torch.float64: 1e-8, torch.float32: 1e-4}  # other dtypes: 3e-2
READS = (
    "a call reads the values of a tensor (a layer that draws random numbers by a "
    "SeedGenerator does), or makes one whose shape depends on them"
)
ADDS_LOSS = "a call adds a loss"
ELSEWHERE = "a call uses a tensor that is neither an argument nor a weight"
_SYMBOLS = (torch.SymInt, torch.SymFloat, torch.SymBool)
_ERRORS = (
    *(AssertionError, AttributeError, Changed, LookupError, RuntimeError),
    *(StopIteration, TypeError, ValueError),
)
# `make_fx` patches torch for the whole process: of two threads that trace at once, one
# fails. A traced function may itself trace another one.
_lock = threading.RLock()


class Call:
    """A call as a function of its tensors, without effects on variables.

    Args:
        function: the function to call.
        arguments: the `plan` of the arguments of the call, (args, kwargs).
        leaves: the tensors among the arguments.
        variables: the Keras variables that the function uses.
        weights: their values.
        in_place: whether the call is a step of a loop without gradients: it may write
            to its arguments, and neither decides nor adds a loss.

    Raises:
        Untraceable: from the methods, with the reason why a call cannot be replayed.
    """

    def __init__(
        self,
        function: Callable[..., Structure],
        arguments: Structure,
        leaves: Sequence[Tensor],
        variables: Sequence[Any],
        weights: Sequence[Tensor],
        in_place: bool = False,
    ) -> None:
        self.function, self.arguments, self.variables = function, arguments, variables
        self.values, self.leaves, self.in_place = weights, leaves, in_place
        self.facts = Facts([], [], [])
        self.output: Structure = None
        self.outputs, self.assigned = 0, []

    def observe(self) -> int:
        """Runs the call, collects its facts, and returns its number of operations."""
        counter = _Counter()
        try:
            with counter, torch.random.fork_rng(), collected(self.facts):
                _guarded(lambda: self._run(*self._inputs()))
        except Untraceable:
            if counter.count > MOST_OPERATIONS:  # Keras changes the text of an error
                reason = f"more than {MOST_OPERATIONS} operations"
                raise Untraceable(reason) from None
            raise
        return counter.count

    def trace(self) -> Program:
        """Returns the traced call."""
        return _guarded(self._trace)

    def _inputs(self) -> tuple[list[Tensor], list[Tensor]]:
        """Returns the weights and the arguments, which a call may write to."""
        leaves = [x.clone() if self.in_place else x for x in self.leaves]
        weights, leaves = (
            [x.detach().requires_grad_(x.requires_grad) for x in tensors]
            for tensors in (self.values, leaves)
        )
        return weights, leaves

    def _run(self, weights: list[Tensor], leaves: list[Tensor]) -> list[Tensor]:
        """Returns the tensors of the output, and the new values of variables."""
        # Views, so that nobody else sees a mask that is set on them
        args, kwargs = filled(self.arguments, [x.view_as(x) for x in leaves])
        self.scope = keras.StatelessScope(
            state_mapping=list(zip(self.variables, weights)),
            collect_losses=not self.in_place,
        )
        before = dict(self.scope.state_mapping)
        with self.scope:
            output = self.function(*args, **kwargs)
        if self.scope.losses:
            raise Untraceable(ADDS_LOSS)
        tensors: dict[int, Tensor] = {}
        self.output = plan(output, tensors)
        self.outputs = len(tensors)
        after = self.scope.state_mapping
        if len(after) > len(before):
            raise Untraceable("a call assigns to a variable that is not its own")
        self.assigned = [v for v in self.variables if after[id(v)] is not before[id(v)]]
        if self.in_place and self.assigned:
            raise Untraceable("a step assigns to a variable")
        return [*tensors.values(), *(after[id(v)] for v in self.assigned)]

    def _again(
        self, weights: list[Tensor], leaves: list[Tensor], numbers: list[Tensor]
    ) -> list[Tensor]:
        """Runs the call with the random numbers and decisions of the first run."""
        remaining = iter(numbers)
        structures = keras.tree.map_structure(
            lambda x: next(remaining) if isinstance(x, torch.Tensor) else x,
            list(self.facts.numbers),
        )
        replayed = played_back(self.facts, structures)
        with collected(None) if self.in_place else replayed:
            return self._run(weights, leaves)

    def _gradients(
        self, outputs: list[Tensor], sources: list[Tensor], slopes: list[Tensor]
    ) -> list[Tensor | None]:
        """Returns the gradients; a checkpointed part of the call runs again here."""
        with self.scope, played_back(Facts([], [], []), []):
            return [*torch.autograd.grad(outputs, sources, slopes, allow_unused=True)]

    def _trace(self) -> Program:
        weights, leaves = self._inputs()
        numbers = tensors_of(self.facts.numbers)
        needed, needing = (
            [i for i, x in enumerate(tensors) if x.requires_grad]
            if torch.is_grad_enabled()
            else []
            for tensors in (weights, leaves)
        )

        def sources(weights: list[Tensor], leaves: list[Tensor]) -> list[Tensor]:
            return [*(weights[i] for i in needed), *(leaves[i] for i in needing)]

        with torch.random.fork_rng():
            expected = self._again(weights, leaves, numbers)
        differentiated = sources(weights, leaves)
        sloping = [i for i, y in enumerate(expected) if y.requires_grad]
        if not differentiated:
            sloping = []
        slopes = [_waves(expected[i]) for i in sloping]
        outputs = [expected[i] for i in sloping]
        grads = self._gradients(outputs, differentiated, slopes) if slopes else []
        early: set[str] = set()

        def joint(weights: list, leaves: list, numbers: list, slopes: list) -> list:
            results = self._again(weights, leaves, numbers)
            early.update(node.name for node in get_proxy_mode().tracer.graph.nodes)
            if not slopes:
                return results
            outputs = [results[i] for i in sloping]
            return results + self._gradients(outputs, sources(weights, leaves), slopes)

        def groups() -> tuple[list[Tensor], ...]:
            return (*self._inputs(), numbers, slopes)

        with _lock:
            graph = make_fx(joint, tracing_mode="fake")(*groups())
        if any(map(_depends_on_values, graph.graph.nodes)):
            raise Untraceable(READS)
        with torch.random.fork_rng(), torch.no_grad():
            values, given, _, _ = ([x.detach() for x in g] for g in groups())
            rewriting = Rewriting(
                *(graph, values, [*given, *numbers], slopes),
                *(early, len(expected), self.in_place),
            )
        parts = rewriting.parts()
        with torch.random.fork_rng(), torch.no_grad():
            given = [x.detach() for x in self._inputs()[1]]
            results = parts.forward(*given, *numbers)
            saved = results[len(expected) :]
            others = parts.backward(*saved, *slopes) if slopes else []
        pairs = [*zip(expected, results), *zip(grads, others, strict=True)]
        if not all(_is_close(x, y) for x, y in pairs):
            raise Untraceable("other numbers when it is replayed")
        facts = [(s.shape, s.stride(), s.dtype, s.device) for s in slopes]
        return Program(
            forward=parts.forward,
            backward=parts.backward,
            functions=self.facts.functions,
            output=self.output,
            outputs=self.outputs,
            assigned=self.assigned,
            weights=[self.values[i] for i in needed],
            needing=needing,
            read=[self.values[i] for i in parts.read],
            slopes=list(zip(sloping, facts)),
            reached=[{sloping[i] for i in reached} for reached in parts.reached],
            may_end=bool(self.facts.decisions and self.facts.functions),
        )


class _Counter(TorchDispatchMode):
    """Counts operations, to refuse calls that would take too long to trace."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        self.count += 1
        if self.count > MOST_OPERATIONS:
            raise Untraceable
        return func(*args, **(kwargs or {}))


def _guarded(function: Callable[[], Any]) -> Any:
    try:
        return function()
    except _ERRORS as error:  # torch raises many kinds for what it cannot trace
        raise Untraceable(_reason(error)) from error


def _depends_on_values(node: Any) -> bool:
    """Returns whether a node is a number, or a tensor of unknown shape."""
    value = node.meta.get("val")
    parts = value if isinstance(value, (list, tuple)) else [value]
    sizes = [s for x in parts if isinstance(x, torch.Tensor) for s in x.shape]
    return any(isinstance(x, _SYMBOLS) for x in [*parts, *sizes])


def _reason(error: Exception) -> str:
    """Returns why a call cannot be traced."""
    text = f"{type(error).__name__}: {error}"  # Keras wraps the errors of its layers
    if "DataDependent" in text or ".numpy()" in text:
        return READS
    if "allow_non_fake_inputs" in text:
        return ELSEWHERE
    return " ".join(text.split())[:200]


def _waves(like: Tensor) -> Tensor:
    """Returns fixed numbers with the shape, strides and dtype of a tensor."""
    count = torch.arange(like.numel(), device=like.device, dtype=torch.float32)
    numbers = (1 + count).sin().reshape(like.shape).to(like.dtype)
    return torch.empty_like(like, requires_grad=False).copy_(numbers)


def _is_close(expected: Tensor | None, result: Tensor | None) -> bool:
    if expected is None or result is None:
        return expected is result
    if (expected.shape, expected.dtype) != (result.shape, result.dtype):
        return False
    expected = expected.detach()
    if not expected.is_floating_point():
        return torch.equal(expected, result)
    bound = TOLERANCES.get(expected.dtype, 3e-2)
    finite = expected[expected.isfinite()]
    scale = float(finite.abs().amax()) if finite.numel() else 0.0
    return torch.allclose(expected, result, bound, bound * scale, equal_nan=True)
