"""Traces a call and its gradient into two flat lists of torch operations.

The call first runs with real values. It is then traced with fake tensors, which have
shapes but no values, so a call that reads a value fails instead of freezing the value.
The last step compares the result with the real call.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import keras
import torch

# No public API records operations and their gradients within a second: `torch.export`
# takes seconds, and `torch.compile` needs a compiler, and minutes for a small model.
from torch.fx.experimental.proxy_tensor import get_proxy_mode, make_fx
from torch.utils._python_dispatch import TorchDispatchMode

from keras_attention.kernels.replay.torch_facts import Changed, Facts, Playback, using
from keras_attention.kernels.replay.torch_graphs import Graphs
from keras_attention.kernels.replay.torch_rewrite import Rewriting, Untraceable

Tensor = Any
Structure = Any

MOST_OPERATIONS = 30_000  # of a call without its gradient
TOLERANCES = {torch.float64: 1e-8, torch.float32: 1e-4}  # other dtypes: 3e-2
READS = (
    "a call reads the values of a tensor (a layer that draws random numbers by a "
    "SeedGenerator does), or makes one whose shape depends on them"
)
VALUES = (type(None), bool, int, float, str)
_SYMBOLS = (torch.SymInt, torch.SymFloat, torch.SymBool)
_ERRORS = (
    *(AssertionError, AttributeError, Changed, LookupError, RuntimeError),
    *(StopIteration, TypeError, ValueError),
)
# `make_fx` patches torch for the whole process: of two threads that trace at once, one
# fails. A traced function may itself trace another one.
_lock = threading.RLock()


class Slot(NamedTuple):
    """The place of a tensor in a list, and of the mask that it carries."""

    place: int
    mask: Any


def plan(x: Structure, tensors: dict[int, Tensor]) -> Structure:
    """Returns a structure with a `Slot` for each tensor.

    `tensors` holds the tensors by their ids, in their order; it gets those that it
    lacks. A structure of other objects raises a TypeError.
    """

    def slot(leaf: Any) -> Any:
        if isinstance(leaf, VALUES):
            return leaf
        if not isinstance(leaf, torch.Tensor):
            raise TypeError(f"a call takes or returns a {type(leaf).__name__}")
        tensors.setdefault(id(leaf), leaf)
        place, mask = [*tensors].index(id(leaf)), getattr(leaf, "_keras_mask", None)
        return Slot(place, None if mask is None else plan(mask, tensors))

    return keras.tree.map_structure(slot, x)


def filled(plan: Structure, tensors: Sequence[Tensor]) -> Structure:
    """Puts tensors into the slots of a structure."""
    if isinstance(plan, Slot):
        x = tensors[plan.place]
        if plan.mask is not None:
            x._keras_mask = filled(plan.mask, tensors)
        return x
    if isinstance(plan, dict):
        return {name: filled(value, tensors) for name, value in plan.items()}
    if isinstance(plan, (list, tuple)):
        values = (filled(value, tensors) for value in plan)
        return type(plan)(*values) if hasattr(plan, "_fields") else type(plan)(values)
    return plan


class Program(NamedTuple):
    """A traced call, which maps tensors to the output of the call."""

    # f(*inputs, *numbers): the tensors of the output, the new values of the variables,
    # and the tensors that `backward` needs
    forward: Callable[..., list[Tensor]]
    backward: Callable[..., list[Tensor | None]]  # f(*saved, *slopes): the gradients
    functions: list[Callable[[], Structure]]  # that return the random numbers
    output: Structure  # with slots for the first results
    outputs: int  # number of tensors in the output, masks included
    assigned: list[Any]  # the variables whose new values are the other results
    weights: list[Tensor]  # that need gradients
    needing: list[int]  # the inputs that need gradients
    read: list[Tensor]  # the weights that the gradient reads
    slopes: list[tuple[int, tuple]]  # index, with shape, strides, dtype and device
    reached: list[set[int]]  # for each gradient, the outputs that it depends on
    may_end: bool  # whether a replay may end after it has drawn random numbers
    graphs: Graphs | None  # of `forward` and `backward`

    def __call__(self, leaves: list[Tensor]) -> Structure:
        """Returns the output for the tensors of a call."""
        numbers: list[Tensor] = []
        if self.functions:
            numbers = tensors_of([function() for function in self.functions])
        if self.slopes:
            sources = (*self.weights, *(leaves[i] for i in self.needing))
            count = len(leaves) + len(numbers)
            results = _Replay.apply(self, count, *leaves, *numbers, *sources)
        else:
            with torch.no_grad():
                results = self.forward(*leaves, *numbers)
        for variable, value in zip(self.assigned, results[self.outputs :]):
            variable.assign(value)
        return filled(self.output, results)


class _Replay(torch.autograd.Function):
    """A traced call with its traced gradient."""

    @staticmethod
    def forward(ctx: Any, program: Program, inputs: int, *tensors: Tensor) -> Any:
        results = program.forward(*tensors[:inputs])
        count = program.outputs + len(program.assigned)
        ctx.save_for_backward(*results[count:])
        ctx.program, ctx.inputs = program, inputs
        ctx.versions = [weight._version for weight in program.read]
        ctx.set_materialize_grads(False)
        with_slopes = {i for i, _ in program.slopes}
        constant = (results[i] for i in range(count) if i not in with_slopes)
        ctx.mark_non_differentiable(*constant)
        return tuple(results[:count])

    @staticmethod
    def backward(ctx: Any, *slopes: Tensor | None) -> tuple:
        program = ctx.program
        if torch.is_grad_enabled():
            raise RuntimeError(
                "A replayed call has no second derivatives. Call the model itself, or "
                "compile it with run_eagerly=True. Received: a gradient with "
                "create_graph=True"
            )
        if ctx.versions != [weight._version for weight in program.read]:
            raise RuntimeError(
                "The weights of a replayed call must not change before its gradient is "
                "computed. Received: weights that were changed in place"
            )
        strided = []
        for i, (shape, strides, dtype, device) in program.slopes:
            slope = slopes[i]
            if slope is None or slope.stride() != strides:
                zeros = torch.empty_strided(shape, strides, dtype=dtype, device=device)
                slope = zeros.zero_() if slope is None else zeros.copy_(slope)
            strided.append(slope)
        grads = program.backward(*ctx.saved_tensors, *strided)
        unused = {i for i, _ in program.slopes if slopes[i] is None}
        if unused:  # a weight that only unused outputs depend on has no gradient
            pairs = zip(grads, program.reached)
            grads = [None if reached <= unused else grad for grad, reached in pairs]
        return (None, None, *[None] * ctx.inputs, *grads)


def tensors_of(structures: Sequence[Structure]) -> list[Tensor]:
    """Returns the tensors in a list of structures as a flat list."""
    return [x for x in keras.tree.flatten(structures) if isinstance(x, torch.Tensor)]


@contextmanager
def _refusing() -> Iterator[None]:
    try:
        yield
    except _ERRORS as error:  # torch raises many kinds for what it cannot trace
        raise Untraceable(_reason(error)) from error


@dataclass
class Call:
    """A call as a function of its tensors, without effects on variables.

    The methods raise `Untraceable` with the reason why a call cannot be replayed.
    """

    function: Callable[..., Structure]  # of `args` and `kwargs`
    arguments: Structure  # their `plan`
    leaves: dict[int, Tensor]  # the tensors of the plan
    variables: Sequence[Any]  # the Keras variables that the function uses
    weights: Sequence[Tensor]  # their values
    # Whether the call is a step of a loop without gradients: it may write to its
    # arguments, and neither decides nor assigns to variables.
    in_place: bool = False
    has_graphs: bool = False  # whether its functions become CUDA graphs
    facts: Facts = field(default_factory=lambda: Facts([], [], []))

    @_refusing()
    def observe(self) -> int:
        """Runs the call, collects its facts, and returns its number of operations."""
        counter = _Counter()
        try:
            with counter, torch.random.fork_rng(), using(self.facts):
                self._run(self._inputs(copied=True))
        except (Untraceable, *_ERRORS):  # Keras changes the text of an error
            if counter.count > MOST_OPERATIONS:
                reason = f"more than {MOST_OPERATIONS} operations"
                raise Untraceable(reason) from None
            raise
        return counter.count

    def _inputs(self, copied: bool = False) -> list[Tensor]:
        """Returns the weights and the arguments; copies where the call may write."""
        inputs = [(x, copied) for x in self.weights]
        inputs += [(x, copied or self.in_place) for x in self.leaves.values()]
        tensors = [
            (x.detach().clone() if copy else x.detach(), x) for x, copy in inputs
        ]
        return [x.requires_grad_(like.requires_grad) for x, like in tensors]

    def _run(self, tensors: list[Tensor]) -> list[Tensor]:
        """Returns the tensors of the output, and the new values of variables."""
        # Views, so that nobody else sees a mask that is set on them
        leaves = [x.view_as(x) for x in tensors[len(self.variables) :]]
        args, kwargs = filled(self.arguments, leaves)
        self.scope = keras.StatelessScope(
            state_mapping=list(zip(self.variables, tensors)),
            collect_losses=not self.in_place,
        )
        before = dict(self.scope.state_mapping)
        with self.scope:
            output = self.function(*args, **kwargs)
        if self.scope.losses:
            raise Untraceable("a call adds a loss")
        outputs: dict[int, Tensor] = {}
        self.output = plan(output, outputs)
        self.outputs, after = len(outputs), self.scope.state_mapping
        self.assigned = [v for v in self.variables if after[id(v)] is not before[id(v)]]
        if len(after) > len(before) or (self.in_place and self.assigned):
            raise Untraceable("a call assigns to a variable that is not its own")
        return [*outputs.values(), *(after[id(v)] for v in self.assigned)]

    def _again(self, tensors: list[Tensor], numbers: list[Tensor]) -> list[Tensor]:
        """Runs the call with the random numbers and decisions of the first run."""
        values = iter(numbers)
        structures = keras.tree.map_structure(
            lambda x: next(values) if isinstance(x, torch.Tensor) else x,
            list(self.facts.numbers),
        )
        with using(None if self.in_place else Playback(self.facts, structures)):
            return self._run(tensors)

    @_refusing()
    def trace(self) -> Program:
        """Returns the traced call."""
        numbers, count = tensors_of(self.facts.numbers), len(self.weights)
        tensors = self._inputs(copied=True)
        early: set[str] = set()
        with torch.random.fork_rng():
            expected = self._again(tensors, numbers)
        results, has_gradient = len(expected), torch.is_grad_enabled()
        needing = [i for i, x in enumerate(tensors) if has_gradient and x.requires_grad]
        sloping = [i for i, y in enumerate(expected) if needing and y.requires_grad]
        slopes = [_waves(expected[i]) for i in sloping]

        def gradients(
            results: list[Tensor], tensors: list[Tensor], slopes: list[Tensor]
        ) -> list[Tensor | None]:
            outputs, sources = (
                [results[i] for i in sloping],
                [tensors[i] for i in needing],
            )
            # A checkpointed part of the call runs again here.
            with self.scope, using(Playback(Facts([], [], []), [])):
                grads = torch.autograd.grad(outputs, sources, slopes, allow_unused=True)
            return list(grads)

        def joint(tensors: list, numbers: list, slopes: list) -> list:
            results = self._again(tensors, numbers)
            early.update(node.name for node in get_proxy_mode().tracer.graph.nodes)
            return results + (gradients(results, tensors, slopes) if slopes else [])

        expected += gradients(expected, tensors, slopes) if slopes else []
        with _lock:
            graph = make_fx(joint, tracing_mode="fake")(self._inputs(), numbers, slopes)
        if any(map(_depends_on_values, graph.graph.nodes)):
            raise Untraceable(READS)
        with torch.random.fork_rng(), torch.no_grad():
            tensors = [x.detach() for x in self._inputs()]
            inputs = [*tensors[count:], *numbers]
            rewriting = Rewriting(
                *(graph, tensors[:count], inputs, slopes),
                *(early, results, self.in_place),
            )
            reached = rewriting.reached()
            forward, backward, read = rewriting.functions()
        with torch.random.fork_rng(), torch.no_grad():
            tensors = [x.detach() for x in self._inputs()]
            computed = forward(*tensors[count:], *numbers)
            grads = backward(*computed[results:], *slopes) if slopes else []
        pairs = zip(expected, [*computed[:results], *grads], strict=True)
        if not all(_is_close(x, y) for x, y in pairs):
            raise Untraceable("other numbers when it is replayed")
        facts = [(s.shape, s.stride(), s.dtype, s.device) for s in slopes]
        graphs = None
        if self.has_graphs:
            functions = forward, backward
            graphs = Graphs(functions, results, facts, graph.graph.nodes)
            forward, backward = graphs.forward, graphs.backward
        return Program(
            forward=forward,
            backward=backward,
            functions=self.facts.functions,
            output=self.output,
            outputs=self.outputs,
            assigned=self.assigned,
            weights=[self.weights[i] for i in needing if i < count],
            needing=[i - count for i in needing if i >= count],
            read=[self.weights[i] for i in read],
            slopes=list(zip(sloping, facts)),
            reached=[{sloping[i] for i in indices} for indices in reached],
            may_end=bool(self.facts.decisions and self.facts.functions),
            graphs=graphs,
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


def _depends_on_values(node: Any) -> bool:
    """Returns whether a node is a number, or a tensor of unknown shape."""
    leaves = torch.utils._pytree.tree_leaves(node.meta.get("val"))
    sizes = [s for x in leaves if isinstance(x, torch.Tensor) for s in x.shape]
    return any(isinstance(x, _SYMBOLS) for x in [*leaves, *sizes])


def _reason(error: Exception) -> str:
    """Returns why a call cannot be traced."""
    text = f"{type(error).__name__}: {error}"  # Keras wraps the errors of its layers
    if "DataDependent" in text or ".numpy()" in text:
        return READS
    if "allow_non_fake_inputs" in text:
        return "a call uses a tensor that is neither an argument nor a weight"
    return " ".join(text.split())[:200]


def _waves(like: Tensor) -> Tensor:
    """Returns fixed numbers with the shape, strides and dtype of a tensor."""
    count = torch.arange(like.numel(), device=like.device, dtype=torch.float32)
    numbers = (1 + count).sin().reshape(like.shape).to(like.dtype)
    return torch.empty_like(like, requires_grad=False).copy_(numbers)


def _is_close(expected: Tensor | None, result: Tensor | None) -> bool:
    if expected is None or result is None:
        return expected is result
    if expected.dtype != result.dtype or not expected.is_floating_point():
        return expected.dtype == result.dtype and torch.equal(expected, result)
    expected = expected.detach()
    bound = TOLERANCES.get(expected.dtype, 3e-2)
    finite = expected[expected.isfinite()]
    scale = float(finite.abs().amax()) if finite.numel() else 0.0
    is_close = torch.allclose(expected, result, bound, bound * scale, equal_nan=True)
    return is_close and expected.shape == result.shape
