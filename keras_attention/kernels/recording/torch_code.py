"""Turns traced operations into a Python function of torch calls.

`torch.ops.aten.add.Tensor` takes about twice as long to call as `torch.add`. Where a
function of torch takes the same arguments, it is called instead.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch

Tensor = Any
Node = Any

ATEN = torch.ops.aten
# Operations whose function in torch has the same name and takes the same arguments
SAME = (
    *("abs", "add", "addmm", "all", "amax", "amin", "any", "argmax", "as_strided"),
    *("baddbmm", "bmm", "cat", "ceil", "clamp", "clone", "cos", "cumprod", "cumsum"),
    *("div", "embedding", "eq", "exp", "flip", "floor", "gather", "ge", "gt"),
    *("index_add", "index_select", "isfinite", "isnan", "le", "log", "log1p"),
    *("logical_and", "logical_not", "logical_or", "lt", "masked_fill", "maximum"),
    *("mean", "minimum", "mm", "mul", "mv", "ne", "neg", "permute", "pow", "prod"),
    *("reciprocal", "relu", "rsqrt", "rsub", "scatter_add", "select", "sigmoid"),
    *("sign", "sin", "sqrt", "square", "squeeze", "stack", "sub", "sum", "t", "tanh"),
    *("transpose", "tril", "triu", "unbind", "unsqueeze", "where"),
)
METHODS = ("expand", "new_empty", "view")
_PYTHON = (type(None), bool, int, str)


def function(
    nodes: Sequence[Node],
    inputs: Sequence[Node],
    results: Sequence[Any],
    constants: dict[Node, Tensor],
    replaced: dict[Any, Callable],
) -> tuple[Callable, list[Tensor]]:
    """Builds a function of the inputs that computes nodes and returns the results.

    Args:
        nodes: the operations in their order.
        inputs: the nodes that the function gets as arguments.
        results: the nodes that it returns; other objects are returned as they are.
        constants: the values of the nodes that are constant.
        replaced: functions that replace operations.

    Returns:
        The function and the constants that it uses.
    """
    return _Writer(constants, replaced).function(nodes, inputs, results)


class _Writer:
    """Writes the lines of a function; objects without a literal become globals."""

    def __init__(
        self, constants: dict[Node, Tensor], replaced: dict[Any, Callable]
    ) -> None:
        self.constants, self.replaced = constants, replaced
        self.names: dict[Node, str] = {}
        self.bound: dict[str, Any] = {}
        self.known: dict[int, str] = {}
        self.used: dict[Node, str] = {}

    def function(
        self, nodes: Sequence[Node], inputs: Sequence[Node], results: Sequence[Any]
    ) -> tuple[Callable, list[Tensor]]:
        given = [self._name(node) for node in inputs]
        last = _last_uses(nodes, results)
        lines = []
        for node in nodes:
            call, args = self._call(node)
            lines.append(f"{self._name(node)} = {call}({', '.join(args)})")
            freed = [self.names[one] for one in last.get(node, ()) if one in self.names]
            if freed:
                lines.append(f"del {', '.join(freed)}")
        lines.append(f"return [{', '.join(map(self._text, results))}]")
        arguments = ", ".join([*self.used.values(), *given])
        source = f"def run({arguments}):\n    " + "\n    ".join(lines)
        scope = self.bound
        exec(compile(source, "<recorded call>", "exec"), scope)
        used = [self.constants[node] for node in self.used]
        found = partial(scope["run"], *used)
        found.source = source  # type: ignore[attr-defined]
        return found, used

    def _name(self, node: Node) -> str:
        return self.names.setdefault(node, f"x{len(self.names)}")

    def _call(self, node: Node) -> tuple[str, list[str]]:
        """Returns the function of a node and its arguments as text."""
        target, args, kwargs = node.target, list(node.args), dict(node.kwargs)
        call = self.replaced.get(target)
        if call is None:
            call, args, kwargs = _fast(target, args, kwargs, node)
        texts = [self._text(one) for one in args]
        texts += [f"{name}={self._text(one)}" for name, one in kwargs.items()]
        return self._bind(call), texts

    def _text(self, x: Any) -> str:
        """Returns an argument as an expression."""
        if isinstance(x, torch.fx.Node):
            if x in self.constants:
                return self.used.setdefault(x, f"c{len(self.used)}")
            return self.names[x]
        if type(x) in _PYTHON:
            return repr(x)
        if isinstance(x, (list, tuple)):
            inner = ", ".join(map(self._text, x))
            return f"[{inner}]"
        return self._bind(x)

    def _bind(self, x: Any) -> str:
        """Returns the name of a global variable with an object as its value."""
        name = self.known.get(id(x))
        if name is None:
            name = self.known[id(x)] = f"g{len(self.bound)}"
            self.bound[name] = x
        return name


def _fast(
    target: Any, args: list, kwargs: dict[str, Any], node: Node
) -> tuple[Callable, list, dict[str, Any]]:
    """Returns the fastest call that computes an operation."""
    if not isinstance(target, torch._ops.OpOverload):
        return target, args, kwargs  # such as `getitem` of several results
    name = target._schema.name.partition("::")[2]
    is_aten = target.namespace == "aten"
    if is_aten and name in SAME:
        return getattr(torch, name), args, kwargs
    if is_aten and name in METHODS:
        return getattr(torch.Tensor, name), args, kwargs
    if target is ATEN._unsafe_view.default:
        return torch.Tensor.view, args, kwargs
    if target is ATEN._to_copy.default and set(kwargs) == {"dtype"}:
        before, after = args[0].meta["val"].dtype, kwargs["dtype"]
        if before is not after:
            return torch.Tensor.to, [*args, after], {}
    return target._op, args, kwargs


def _last_uses(nodes: Sequence[Node], results: Sequence[Any]) -> dict[Node, list[Node]]:
    """Returns which nodes are used for the last time by each node."""
    kept = {node for node in results if isinstance(node, torch.fx.Node)}
    found: dict[Node, list[Node]] = {}
    for node in reversed(nodes):
        for one in (*node.all_input_nodes, node):
            if one not in kept:
                kept.add(one)
                found.setdefault(node, []).append(one)
    return found
