"""Traces a call and its gradient into two flat lists of torch operations.

The call first runs once with real values, to see which random numbers it draws and
what its decisions are. It is then traced with fake tensors, which have shapes but no
values, so a call that reads a value in any other way fails instead of freezing the
value. The last step compares the recording with the real call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import keras
import torch

# No public API records operations and their gradients within a second: `torch.compile`
# needs a compiler, and takes minutes for a small Keras model.
from torch.fx.experimental.proxy_tensor import get_proxy_mode
from torch.utils._python_dispatch import TorchDispatchMode

from keras_attention.kernels.recording import torch_rewrite
from keras_attention.kernels.recording.torch_facts import (
    Changed,
    Facts,
    collected,
    played_back,
)
from keras_attention.kernels.recording.torch_program import (
    Layout,
    Program,
    tensors_of,
)
from keras_attention.kernels.recording.torch_rewrite import Unrecordable
from keras_attention.kernels.recording.torch_structures import filled, plan
from keras_attention.kernels.tracing.torch_graphs import graph_of

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


class Call:
    """A call as a function of its tensors, without effects on variables.

    Args:
        function: the function to call.
        arguments: the `plan` of the arguments of the call, (args, kwargs).
        leaves: the tensors among the arguments.
        variables: the Keras variables that the function uses.

    Raises:
        Unrecordable: if the call cannot be recorded, with the reason. So do the
            methods.
    """

    def __init__(
        self,
        function: Callable[..., Structure],
        arguments: Structure,
        leaves: Sequence[Tensor],
        variables: Sequence[Any],
    ) -> None:
        self.function, self.arguments = function, arguments
        self.variables = variables
        self.values = [v._value for v in variables]
        self.weights = [_leaf(w) for w in self.values]
        self.leaves = [_leaf(x) for x in leaves]
        self.facts = Facts([], [], [])
        self.output: Structure = None
        self.outputs, self.operations = 0, 0
        self.assigned: list[Any] = []
        self._observe()
        self.numbers = tensors_of(self.facts.numbers)

    def _observe(self) -> None:
        """Runs the call, counts its operations and collects its facts."""
        counter = _Counter()
        try:
            with counter, torch.random.fork_rng(), collected(self.facts):
                self._guarded(lambda: self._run(self.weights, self.leaves))
        except Unrecordable:
            if counter.count > MOST_OPERATIONS:  # Keras changes the text of an error
                reason = f"more than {MOST_OPERATIONS} operations"
                raise Unrecordable(reason) from None
            raise
        self.operations = counter.count

    def record(self) -> Program:
        """Returns the recorded call."""
        return self._guarded(self._record)

    def _guarded(self, function: Callable[[], Any]) -> Any:
        try:
            return function()
        except _ERRORS as error:  # torch raises many kinds for what it cannot trace
            raise Unrecordable(_reason(error)) from error

    def _run(self, weights: list[Tensor], leaves: list[Tensor]) -> list[Tensor]:
        """Returns the tensors of the output, and the new values of variables."""
        # Views, so that nobody else sees a mask that is set on them
        args, kwargs = filled(self.arguments, [x.view_as(x) for x in leaves])
        pairs = list(zip(self.variables, weights))
        self.scope = keras.StatelessScope(state_mapping=pairs, collect_losses=True)
        before = dict(self.scope.state_mapping)
        with self.scope:
            output = self.function(*args, **kwargs)
        if self.scope.losses:
            raise Unrecordable(ADDS_LOSS)
        tensors: dict[int, Tensor] = {}
        self.output = plan(output, tensors)
        self.outputs = len(tensors)
        new = self.scope.state_mapping
        if len(new) > len(before):
            raise Unrecordable("a call assigns to a variable that is not its own")
        self.assigned = [v for v in self.variables if new[id(v)] is not before[id(v)]]
        return [*tensors.values(), *(new[id(v)] for v in self.assigned)]

    def _again(
        self, weights: list[Tensor], leaves: list[Tensor], numbers: list[Tensor]
    ) -> list[Tensor]:
        """Runs the call with the random numbers and decisions of the first run."""
        rest = iter(numbers)
        structures = keras.tree.map_structure(
            lambda x: next(rest) if isinstance(x, torch.Tensor) else x,
            list(self.facts.numbers),
        )
        with played_back(self.facts, structures):
            return self._run(weights, leaves)

    def _gradients(
        self, outputs: list[Tensor], sources: list[Tensor], slopes: Any, **more: Any
    ) -> list[Tensor | None]:
        """Returns the gradients; a checkpointed part of the call runs again here."""
        with self.scope, played_back(Facts([], [], []), []):
            grads = torch.autograd.grad(
                outputs, sources, slopes, allow_unused=True, **more
            )
        return list(grads)

    def _record(self) -> Program:
        needing, needed = [], []
        if torch.is_grad_enabled():
            needing = [i for i, x in enumerate(self.leaves) if x.requires_grad]
            needed = [i for i, w in enumerate(self.weights) if w.requires_grad]

        def sources(weights: list[Tensor], leaves: list[Tensor]) -> list[Tensor]:
            return [*(weights[i] for i in needed), *(leaves[i] for i in needing)]

        with torch.random.fork_rng():
            expected = self._again(self.weights, self.leaves, self.numbers)
        own = sources(self.weights, self.leaves)
        sloping = [i for i, y in enumerate(expected) if own and y.requires_grad]
        slopes = [_waves(expected[i]) for i in sloping]
        outputs = [expected[i] for i in sloping]
        reached = self._reached(outputs, sloping, own)
        grads = self._gradients(outputs, own, slopes) if slopes else []
        early: set[str] = set()

        def joint(weights: list, leaves: list, numbers: list, slopes: list) -> list:
            found = self._again(weights, leaves, numbers)
            early.update(node.name for node in get_proxy_mode().tracer.graph.nodes)
            if not slopes:
                return found
            outputs = [found[i] for i in sloping]
            return found + self._gradients(outputs, sources(weights, leaves), slopes)

        groups = (self.weights, self.leaves, self.numbers, slopes)
        graph = graph_of(joint, *groups, tracing_mode="fake")
        if any(map(_depends_on_values, graph.graph.nodes)):
            raise Unrecordable(READS)
        strides = torch_rewrite.Strides(graph)
        with torch.random.fork_rng(), torch.no_grad():
            strides.run(*(x.detach() for group in groups for x in group))
        inputs = len(self.leaves) + len(self.numbers)
        forward, backward, read = torch_rewrite.split(
            graph, strides.found, early, len(expected), self.values, inputs
        )
        facts = [(s.shape, s.stride(), s.dtype, s.device) for s in slopes]
        layout = Layout(
            functions=self.facts.functions,
            output=self.output,
            outputs=self.outputs,
            assigned=self.assigned,
            weights=[self.values[i] for i in needed],
            needing=needing,
            read=[self.values[i] for i in read],
            slopes=list(zip(sloping, facts)),
            reached=reached,
            decides=bool(self.facts.decisions),
        )
        program = Program(forward, backward, layout)
        self._compare(program, expected, grads, slopes)
        return program

    def _reached(
        self, outputs: list[Tensor], indices: list[int], sources: list[Tensor]
    ) -> list[set[int]]:
        """Returns, for each source, the indices of the outputs that depend on it."""
        reached: list[set[int]] = [set() for _ in sources]
        for i, output in zip(indices, outputs):
            one = [torch.ones_like(output)]
            grads = self._gradients([output], sources, one, retain_graph=True)
            for grad, found in zip(grads, reached):
                if grad is not None:
                    found.add(i)
        return reached

    def _compare(
        self,
        program: Program,
        expected: list[Tensor],
        grads: list[Tensor | None],
        slopes: list[Tensor],
    ) -> None:
        """Raises Unrecordable unless the program gives the numbers of the call."""
        with torch.random.fork_rng(), torch.no_grad():
            found = program.forward(*(x.detach() for x in self.leaves), *self.numbers)
            saved = found[len(expected) :]
            others = program.backward(*saved, *slopes) if slopes else []
        pairs = [*zip(expected, found), *zip(grads, others, strict=True)]
        if not all(_is_close(one, other) for one, other in pairs):
            raise Unrecordable("other numbers when it is replayed")


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
            raise Unrecordable
        return func(*args, **(kwargs or {}))


def _depends_on_values(node: Any) -> bool:
    """Returns whether a node is a number, or a tensor of unknown shape."""
    found = node.meta.get("val")
    parts = found if isinstance(found, (list, tuple)) else [found]
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


def _leaf(x: Tensor) -> Tensor:
    return x.detach().requires_grad_(x.requires_grad)


def _waves(like: Tensor) -> Tensor:
    """Returns fixed numbers with the shape, strides and dtype of a tensor."""
    count = torch.arange(like.numel(), device=like.device, dtype=torch.float32)
    numbers = (1 + count).sin().reshape(like.shape).to(like.dtype)
    return torch.empty_like(like, requires_grad=False).copy_(numbers)


def _is_close(one: Tensor | None, other: Tensor | None) -> bool:
    if one is None or other is None:
        return one is other
    if (one.shape, one.dtype) != (other.shape, other.dtype):
        return False
    one = one.detach()
    if not one.is_floating_point():
        return torch.equal(one, other)
    bound = TOLERANCES.get(one.dtype, 3e-2)
    finite = one[one.isfinite()]
    scale = float(finite.abs().amax()) if finite.numel() else 0.0
    return torch.allclose(one, other, bound, bound * scale, equal_nan=True)
