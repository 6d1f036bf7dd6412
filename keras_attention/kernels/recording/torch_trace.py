"""Traces a call and its gradient into two flat lists of torch operations.

The call is first run once with real values, to see which random numbers it draws and
what its decisions are. It is then traced with fake tensors, which have shapes but no
values, so a call that reads a value in any other way fails instead of freezing the
value. The last step compares the recording with the real call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple

import keras
import torch
from torch.fx.experimental.proxy_tensor import get_proxy_mode, make_fx
from torch.utils._python_dispatch import TorchDispatchMode

from keras_attention.kernels.recording import torch_rewrite
from keras_attention.kernels.recording.torch_rewrite import Unrecordable

Tensor = Any
Structure = Any

MOST_OPERATIONS = 30_000  # of a call without its gradient
TOLERANCES = {torch.float64: 1e-8, torch.float32: 1e-4}  # other dtypes: 3e-2


READS = "a call reads the values of a tensor, or makes one whose shape depends on them"
_SYMBOLS = (torch.SymInt, torch.SymFloat, torch.SymBool)


class Changed(Exception):
    """A decision of a recorded call had another result in this call."""


class _Facts(NamedTuple):
    """What a call depends on besides its arguments."""

    functions: list[Callable[[], Structure]]  # that return random numbers
    numbers: list[Structure]  # their results
    decisions: list[bool]


class _Playback:
    """Hands the facts of the observed call to its trace, in the same order."""

    def __init__(self, facts: _Facts, numbers: Sequence[Structure]) -> None:
        self.numbers = iter(numbers)
        self.decisions = iter(facts.decisions)


_facts: ContextVar[_Facts | _Playback | None] = ContextVar("facts", default=None)


def random_input(function: Callable[[], Structure]) -> Structure:
    """Calls a function that returns random numbers.

    A recording calls the function anew at each replay, before its operations. The
    function must therefore not depend on a tensor.
    """
    facts = _facts.get()
    if isinstance(facts, _Playback):
        return next(facts.numbers)
    found = function()
    if facts is not None:
        facts.functions.append(function)
        facts.numbers.append(found)
    return found


def decision(flag: Tensor) -> bool:
    """Returns a boolean tensor as a Python boolean.

    A recording compares it at each replay; another result ends the replay.
    """
    facts = _facts.get()
    if isinstance(facts, _Playback):
        found = next(facts.decisions)
        torch.ops.keras_attention.holds(flag, found)
        return found
    found = bool(flag)
    if facts is not None:
        facts.decisions.append(found)
    return found


def _check(flag: torch.Tensor, expected: bool) -> None:
    """Raises `Changed` if a decision has another result than in the recording."""
    if bool(flag) is not expected:
        raise Changed


# An operation, so that the trace contains it
_holds = torch.library.custom_op("keras_attention::holds", _check, mutates_args=())
_holds.register_fake(lambda flag, expected: None)
torch_rewrite.CHECKS[torch.ops.keras_attention.holds.default] = _check
torch.fx.node.has_side_effect(_check)


class Program:
    """A recorded call, which maps tensors to the output of the call.

    Args:
        forward: f(*inputs, *numbers) returns the tensors of the output, then the new
            values of the variables, then the tensors that `backward` needs.
        backward: f(*saved, *slopes) returns the gradients; None without gradients.
        layout: the `_Layout` of these lists.
    """

    def __init__(
        self, forward: Callable, backward: Callable | None, layout: _Layout
    ) -> None:
        self.forward, self.backward, self.layout = forward, backward, layout

    def __call__(self, leaves: list[Tensor]) -> Structure:
        """Returns the output for the tensors of a call."""
        layout = self.layout
        numbers: Any = ()
        if layout.functions:
            numbers = _tensors([function() for function in layout.functions])
        if self.backward is None:
            with torch.no_grad():
                found = self.forward(*leaves, *numbers)
        else:
            given = [leaves[i] for i in layout.needing]
            found = _Replay.apply(
                self, len(leaves), *leaves, *numbers, *layout.weights, *given
            )
        return self.finish(found)

    def finish(self, found: Sequence[Tensor]) -> Structure:
        """Assigns the new values of variables, and packs the output."""
        layout = self.layout
        for variable, value in zip(layout.assigned, found[layout.outputs :]):
            variable.assign(value)
        return layout.pack(found)


class _Layout(NamedTuple):
    functions: list[Callable[[], Structure]]  # that return the random numbers
    weights: list[Tensor]  # that need gradients
    needing: list[int]  # the inputs that need gradients
    read: list[Tensor]  # the weights that the gradient reads
    outputs: int  # number of tensors in the output, masks included
    slopes: list[tuple[int, tuple]]  # (output, (shape, stride, dtype, device))
    reached: list[set[int]]  # for each gradient, the outputs that it depends on
    assigned: list[Any]  # the variables with new values
    pack: Callable[[Sequence[Tensor]], Structure]


class _Replay(torch.autograd.Function):
    """A recorded call with a recorded gradient."""

    @staticmethod
    def forward(ctx: Any, program: Program, count: int, *tensors: Tensor) -> Any:
        layout = program.layout
        given = len(tensors) - len(layout.weights) - len(layout.needing)
        found = program.forward(*tensors[:given])
        results = layout.outputs + len(layout.assigned)
        ctx.save_for_backward(*found[results:])
        ctx.program, ctx.given = program, given
        ctx.versions = [w._version for w in layout.read]
        with_slopes = {i for i, _ in layout.slopes}
        ctx.set_materialize_grads(False)
        ctx.mark_non_differentiable(
            *(found[i] for i in range(results) if i not in with_slopes)
        )
        return tuple(found[:results])

    @staticmethod
    def backward(ctx: Any, *slopes: Tensor) -> tuple:
        if torch.is_grad_enabled():
            raise RuntimeError(
                "A recorded call has no second derivatives. Call the model itself, or "
                "compile it with run_eagerly=True. Received: a gradient with "
                "create_graph=True"
            )
        if ctx.versions != [w._version for w in ctx.program.layout.read]:
            raise RuntimeError(
                "The weights of a recorded call must not change before its gradient is "
                "computed. Received: weights that were changed in place"
            )
        layout = ctx.program.layout
        found, unused = [], set()
        for i, (shape, stride, dtype, device) in layout.slopes:
            slope = slopes[i]
            if slope is None:
                unused.add(i)
                slope = torch.zeros(shape, dtype=dtype, device=device)
            if slope.stride() != stride:
                held = torch.empty_strided(shape, stride, dtype=dtype, device=device)
                slope = held.copy_(slope)
            found.append(slope)
        grads = ctx.program.backward(*ctx.saved_tensors, *found)
        if unused:  # as without a recording, a weight they alone depend on gets None
            pairs = zip(grads, layout.reached)
            grads = [None if reached <= unused else grad for grad, reached in pairs]
        return (None, None, *[None] * ctx.given, *grads)


def record(
    function: Callable[..., Structure],
    arguments: Structure,
    leaves: Sequence[Tensor],
    variables: Sequence[Any],
) -> Program:
    """Records a call.

    Args:
        function: the function to call.
        arguments: the `plan` of the arguments of the call, (args, kwargs).
        leaves: the tensors among the arguments.
        variables: the Keras variables that the function uses.

    Returns:
        The `Program`.

    Raises:
        Unrecordable: if the call cannot be recorded, with the reason.
    """
    call = _Call(function, arguments, variables)
    facts = call.observe(leaves)
    numbers = _tensors(facts.numbers)
    weights = [v._value for v in variables]
    gradients = torch.is_grad_enabled()
    needing = [i for i, x in enumerate(leaves) if gradients and x.requires_grad]
    needed = [i for i, w in enumerate(weights) if gradients and w.requires_grad]

    def joint(weights: list, leaves: list, numbers: list, slopes: list) -> Any:
        found = call.run(weights, leaves, numbers, facts)
        call.early = {node.name for node in get_proxy_mode().tracer.graph.nodes}
        if not slopes:
            return found, []
        outputs = [found[i] for i in call.with_slopes]
        sources = [*(weights[i] for i in needed), *(leaves[i] for i in needing)]
        return found, call.gradients(outputs, sources, slopes)

    own = [_leaf(w) for w in weights], [_leaf(x) for x in leaves], numbers
    slopes = []
    if needing or needed:
        outputs = call.run(*own, facts)
        call.with_slopes = [i for i, y in enumerate(outputs) if y.requires_grad]
        slopes = [_waves(outputs[i]) for i in call.with_slopes]
        sources = [*(own[0][i] for i in needed), *(own[1][i] for i in needing)]
        call.find_reached(outputs, sources)
    try:
        graph = make_fx(joint, tracing_mode="fake")(*own, slopes)
    # torch raises errors of many kinds for what it cannot trace.
    except (RuntimeError, AssertionError, TypeError, ValueError, StopIteration) as e:
        raise Unrecordable(_reason(e)) from e
    if any(isinstance(n.meta.get("val"), _SYMBOLS) for n in graph.graph.nodes):
        raise Unrecordable(READS)
    strides = torch_rewrite.Strides(graph)
    with _same_randomness(), torch.no_grad():
        flat = [*own[0], *own[1], *own[2], *slopes]
        strides.run(*(x.detach() for x in flat))
    forward, backward, read = torch_rewrite.split(
        graph,
        strides.found,
        call.early,
        call.outputs + len(call.assigned),
        weights,
        len(leaves) + len(numbers),
    )
    layout = _Layout(
        functions=facts.functions,
        weights=[weights[i] for i in needed] if slopes else [],
        needing=needing if slopes else [],
        read=[weights[i] for i in read],
        outputs=call.outputs,
        slopes=[
            (i, (s.shape, s.stride(), s.dtype, s.device))
            for i, s in zip(call.with_slopes, slopes)
        ],
        reached=call.reached,
        assigned=call.assigned,
        pack=call.pack,
    )
    program = Program(forward, backward if slopes else None, layout)
    call.compare(program, own, facts, slopes, [*needed], needing)
    return program


class _Call:
    """A call as a function of its tensors, without effects on variables."""

    def __init__(
        self,
        function: Callable[..., Structure],
        arguments: Structure,
        variables: Sequence[Any],
    ) -> None:
        self.function, self.arguments = function, arguments
        self.variables = variables
        self.assigned: list[Any] = []
        self.with_slopes: list[int] = []
        self.reached: list[set[int]] = []
        self.outputs = 0
        self.scope: Any = None
        self.early: set[str] = set()  # names of the operations of the call
        self.pack: Callable[[Sequence[Tensor]], Structure] = lambda found: found

    def observe(self, leaves: Sequence[Tensor]) -> _Facts:
        """Runs the call with real values and returns what it depends on."""
        facts = _Facts([], [], [])
        weights = [v._value for v in self.variables]
        with _same_randomness(), _Counter():
            self.run([_leaf(w) for w in weights], leaves, None, facts)
        return facts

    def run(
        self,
        weights: Sequence[Tensor],
        leaves: Sequence[Tensor],
        numbers: Sequence[Tensor] | None,
        facts: _Facts,
    ) -> list[Tensor]:
        """Returns the tensors of the output, and the new values of variables."""
        # Views, so that nobody else sees a mask that is set on them
        args, kwargs = _filled(self.arguments, [x.view_as(x) for x in leaves])
        scope = keras.StatelessScope(
            state_mapping=list(zip(self.variables, weights)), collect_losses=True
        )
        before = dict(scope.state_mapping)
        source: Any = facts
        if numbers is not None:
            source = _Playback(facts, _packed(facts.numbers, numbers))
        token = _facts.set(source)
        try:
            self.scope = scope
            with scope:
                output = self.function(*args, **kwargs)
        finally:
            _facts.reset(token)
        if scope.losses:
            raise Unrecordable("a call adds a loss")
        tensors: dict[int, Tensor] = {}
        structure = plan(output, tensors)
        self.pack = lambda found: _filled(structure, found)
        self.outputs = len(tensors)
        new = scope.state_mapping
        known = {id(v): v for v in self.variables}
        if any(key not in known for key in new):
            raise Unrecordable("a call assigns to a variable that is not its own")
        self.assigned = [v for v in self.variables if new[id(v)] is not before[id(v)]]
        return [*tensors.values(), *(new[id(v)] for v in self.assigned)]

    def gradients(
        self, outputs: list[Tensor], sources: list[Tensor], slopes: Any, **more: Any
    ) -> list[Tensor | None]:
        """Returns the gradients; a checkpointed part of the call runs again here."""
        with self.scope:
            grads = torch.autograd.grad(
                outputs, sources, slopes, allow_unused=True, **more
            )
        return list(grads)

    def find_reached(self, outputs: list[Tensor], sources: list[Tensor]) -> None:
        """Finds, for each source, the indices of the outputs that depend on it."""
        self.reached = [set() for _ in sources]
        for i in self.with_slopes:
            one = [torch.ones_like(outputs[i])]
            grads = self.gradients([outputs[i]], sources, one, retain_graph=True)
            for grad, reached in zip(grads, self.reached):
                if grad is not None:
                    reached.add(i)

    def compare(
        self,
        program: Program,
        own: tuple[list, list, list],
        facts: _Facts,
        slopes: list[Tensor],
        needed: list[int],
        needing: list[int],
    ) -> None:
        """Raises Unrecordable unless the program gives the numbers of the call."""
        weights, leaves, numbers = own
        with _same_randomness():
            expected = self.run(weights, leaves, numbers, facts)
        with _same_randomness(), torch.no_grad():
            found = program.forward(*(x.detach() for x in leaves), *numbers)
        count = len(expected)
        pairs = list(zip(expected, found[:count]))
        if slopes:
            sources = [*(weights[i] for i in needed), *(leaves[i] for i in needing)]
            outputs = [expected[i] for i in self.with_slopes]
            grads = self.gradients(outputs, sources, slopes)
            with torch.no_grad():
                others = program.backward(*found[count:], *slopes)
            pairs += [(a, b) for a, b in zip(grads, others) if a is not None]
            if [a is None for a in grads] != [b is None for b in others]:
                raise Unrecordable("other gradients are missing when it is replayed")
        for one, other in pairs:
            if not _is_close(one.detach(), other):
                import os

                if os.environ.get("DBG"):
                    print(
                        one.shape,
                        (one - other).abs().max(),
                        one.abs().max(),
                        other.abs().max(),
                    )
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
            raise Unrecordable(f"more than {MOST_OPERATIONS} operations")
        return func(*args, **(kwargs or {}))


@contextmanager
def _same_randomness() -> Iterator[None]:
    """Restores the states of torch's random generators afterwards."""
    with torch.random.fork_rng():
        yield


def _reason(error: Exception) -> str:
    """Returns why a call cannot be traced."""
    # Keras wraps the errors of its layers.
    text = f"{type(error).__name__}: {error}"
    if "DataDependent" in text or ".numpy()" in text:
        return READS
    return " ".join(text.split())[:200]


def _leaf(x: Tensor) -> Tensor:
    return x.detach().requires_grad_(x.requires_grad)


def _waves(like: Tensor) -> Tensor:
    """Returns fixed numbers with the shape, strides and dtype of a tensor."""
    count = torch.arange(like.numel(), device=like.device, dtype=torch.float32)
    numbers = (1 + count).sin().reshape(like.shape).to(like.dtype)
    return torch.empty_like(like, requires_grad=False).copy_(numbers)


def _is_close(one: Tensor, other: Tensor) -> bool:
    if (one.shape, one.dtype) != (other.shape, other.dtype):
        return False
    if not one.is_floating_point():
        return torch.equal(one, other)
    bound = TOLERANCES.get(one.dtype, 3e-2)
    finite = one[one.isfinite()]
    scale = float(finite.abs().amax()) if finite.numel() else 0.0
    return torch.allclose(one, other, bound, bound * scale, equal_nan=True)


def _tensors(structures: Sequence[Structure]) -> list[Tensor]:
    """Returns the tensors of random numbers as a flat list."""
    return [x for x in keras.tree.flatten(structures) if isinstance(x, torch.Tensor)]


def _packed(like: Sequence[Structure], tensors: Sequence[Tensor]) -> Structure:
    """Restores structures of random numbers from their tensors."""
    rest = iter(tensors)
    return keras.tree.map_structure(
        lambda x: next(rest) if isinstance(x, torch.Tensor) else x, list(like)
    )


class _Slot(NamedTuple):
    """The place of a tensor in a list, and of the mask that it carries."""

    index: int
    mask: Any


def plan(x: Structure, tensors: dict[int, Tensor]) -> Structure:
    """Returns a structure with a `_Slot` for each tensor.

    Args:
        x: a structure of tensors and Python values.
        tensors: gets the tensors in their order, by their ids.

    Raises:
        Unrecordable: if the structure holds other objects.
    """
    if isinstance(x, torch.Tensor):
        tensors.setdefault(id(x), x)
        index, mask = [*tensors].index(id(x)), getattr(x, "_keras_mask", None)
        return _Slot(index, None if mask is None else plan(mask, tensors))
    if isinstance(x, dict):
        return {name: plan(value, tensors) for name, value in x.items()}
    if hasattr(x, "_fields"):
        return type(x)(*(plan(value, tensors) for value in x))
    if isinstance(x, (list, tuple)):
        return type(x)(plan(value, tensors) for value in x)
    if isinstance(x, (type(None), bool, int, float, str)):
        return x
    raise Unrecordable(f"a call takes or returns a {type(x).__name__}")


def _filled(plan: Structure, found: Sequence[Tensor]) -> Structure:
    """Puts tensors into the slots of a structure."""
    if isinstance(plan, _Slot):
        x = found[plan.index]
        if plan.mask is not None:
            x._keras_mask = _filled(plan.mask, found)
        return x
    if isinstance(plan, dict):
        return {name: _filled(value, found) for name, value in plan.items()}
    if hasattr(plan, "_fields"):
        return type(plan)(*(_filled(value, found) for value in plan))
    if isinstance(plan, (list, tuple)):
        return type(plan)(_filled(value, found) for value in plan)
    return plan
