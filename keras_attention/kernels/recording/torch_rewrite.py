"""Shortens traced operations and splits them into a call and its gradient.

A trace has fixed shapes. Constant expressions, such as views of weights, are computed
once; chains of views become one view; equal operations are merged. In a small model,
about half of the operations remain.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from keras_attention.kernels.decoding.torch_graph import ATEN, VIEWS, written
from keras_attention.kernels.recording import torch_code
from keras_attention.kernels.recording.torch_facts import FUNCTIONS, HOLDS

Tensor = Any
Node = Any

MOST_CONSTANT = 2**22  # elements of a constant that is computed once
MOST_COMPARED = 2**20  # elements of constants that are compared
IDENTITIES = {ATEN.detach.default, ATEN.alias.default, ATEN.lift_fresh.default}
# Operations that use only the shape and dtype of their first argument
LIKE = {
    ATEN.full_like.default,
    ATEN.new_full.default,
    ATEN.new_ones.default,
    ATEN.new_zeros.default,
    ATEN.ones_like.default,
    ATEN.zeros_like.default,
}


class Unrecordable(Exception):
    """The reason why a call cannot be recorded."""


class Strides(torch.fx.Interpreter):
    """Runs a traced graph to find the strides of its tensors.

    Fake tensors do not always have the strides of the real ones.
    """

    def __init__(self, graph: Any) -> None:
        super().__init__(graph)
        self.found: dict[Node, tuple] = {}

    def run_node(self, n: Any) -> Any:
        x = super().run_node(n)
        if isinstance(x, torch.Tensor):
            self.found[n] = (tuple(x.shape), x.stride(), x.storage_offset())
        return x


def split(
    graph: Any,
    strides: dict[Any, tuple],
    early: set[str],
    results: int,
    weights: Sequence[Tensor],
    inputs: int,
) -> tuple[Callable, Callable, list[int]]:
    """Returns the functions of a call and of its gradient.

    Args:
        graph: a `torch.fx.GraphModule` of fake tensors. Its arguments are the weights,
            the inputs and the slopes. It returns the results of the call, then the
            gradients.
        strides: the result of `Strides`.
        early: the names of the nodes of the call without its gradient.
        results: the number of results.
        weights: the weights, which may change in place.
        inputs: the number of inputs.

    Returns:
        f(*inputs), which returns the results and then the saved tensors; f(*saved,
        *slopes), which returns the gradients; and the indices of the weights whose
        memory the second function reads.
    """
    return _Rewriting(graph, strides, early, results, weights, inputs).result()


class _Rewriting:
    """A traced graph with the values of its constant nodes."""

    def __init__(
        self,
        graph: Any,
        strides: dict[Any, tuple],
        early: set[str],
        results: int,
        weights: Sequence[Tensor],
        inputs: int,
    ) -> None:
        self.module, self.graph, self.strides = graph, graph.graph, strides
        nodes = list(self.graph.nodes)
        self.late = {node for node in nodes if node.name not in early}
        self.count = results
        given = [node for node in nodes if node.op == "placeholder"]
        count = len(weights)
        self.weights = given[:count]
        self.inputs = given[count : count + inputs]
        self.slopes = given[count + inputs :]
        self.known: dict[Node, Tensor] = {}
        for node, weight in zip(self.weights, weights):
            self.known[node] = weight.detach()
        self.output = nodes[-1]
        # Memory that an operation writes to; nothing that reads it may be moved.
        self.written = {
            place
            for node in nodes
            for argument in written(node)
            for place in self._places(argument)
        }
        self.changes_inputs = any(
            self._places(node) & self.written for node in self.inputs + self.weights
        )
        self.weight_places = {p for node in self.weights for p in self._places(node)}
        self.input_places = {p for node in self.inputs for p in self._places(node)}

    def result(self) -> tuple[Callable, Callable, list[int]]:
        if self.changes_inputs:
            raise Unrecordable("a call changes its arguments or weights in place")
        self._fold()
        self._merge_views()
        self._merge_equal()
        self._separate_outputs()
        return self._split()

    def _value(self, node: Node) -> Any:
        if node.op == "get_attr":
            return getattr(self.module, node.target)
        return node.meta.get("val")

    def _places(self, node: Node) -> set[int]:
        """Returns identifiers of the memory of a node's tensors."""
        found = self._value(node)
        leaves = found if isinstance(found, (tuple, list)) else (found,)
        return {
            x.untyped_storage()._cdata for x in leaves if isinstance(x, torch.Tensor)
        }

    def _is_free(self, node: Node) -> bool:
        """Returns whether a node is pure and nothing writes to its inputs or output."""
        if node.op != "call_function" or node.target is HOLDS:
            return False
        if not isinstance(self._value(node), torch.Tensor):
            return False
        tags = getattr(node.target, "tags", ())
        if torch.Tag.nondeterministic_seeded in tags or written(node):
            return False
        nodes = (node, *node.all_input_nodes)
        return not any(self._places(one) & self.written for one in nodes)

    def _fold(self) -> None:
        """Computes the nodes that depend on constants alone, and views of weights."""
        for node in list(self.graph.nodes):
            if node.op == "get_attr":
                self.known[node] = getattr(self.module, node.target)
            if not self._is_free(node):
                continue
            if node.target in IDENTITIES:
                node.replace_all_uses_with(node.args[0])
                continue
            value = self._value(node)
            if value.numel() > MOST_CONSTANT:
                continue
            if node.target in LIKE:
                first = torch.empty(value.shape, dtype=value.dtype, device=value.device)
                self.known[node] = node.target(first, *node.args[1:], **node.kwargs)
                continue
            given = node.all_input_nodes
            if not all(one in self.known for one in given):
                continue
            is_view = bool(self._places(node) & self.weight_places)
            computes = any(self._places(one) & self.weight_places for one in given)
            if is_view or not computes:
                args, kwargs = torch.fx.map_arg(
                    (node.args, node.kwargs), lambda one: self.known[one]
                )
                self.known[node] = node.target(*args, **kwargs)

    def _merge_views(self) -> None:
        """Replaces views of views by one view."""
        for node in list(self.graph.nodes):
            if node.op != "call_function" or node.target not in VIEWS:
                continue
            if node in self.known:
                continue
            base = node.args[0]
            while base.op == "call_function" and base.target in VIEWS:
                base = base.args[0]
            (*old, start), (*new, offset) = self.strides[base], self.strides[node]
            if (old, start) == (new, offset):
                node.replace_all_uses_with(base)
            elif start != offset and self._places(base) & self.input_places:
                continue  # the offset of an argument may differ
            elif base is not node.args[0] or node.target is ATEN.slice.Tensor:
                node.target = ATEN.as_strided.default
                node.args = (
                    base,
                    *map(list, new),
                    *([offset] if offset != start else []),
                )
                node.kwargs = {}

    def _merge_equal(self) -> None:
        """Replaces each operation by the first operation that equals it.

        The gradient keeps its own operations: it may recompute some to save memory.
        """
        first: dict[Any, Node] = {}
        for node in list(self.graph.nodes):
            if node in self.known:
                is_weight = bool(self._places(node) & self.weight_places)
                key = _content(self.known[node], is_weight)
                if first.setdefault(key, node) is not node:
                    node.replace_all_uses_with(first[key])
            elif node.target is HOLDS:
                if first.setdefault(repr(node.args), node) is not node:
                    self.graph.erase_node(node)
            elif self._is_free(node):
                late = node in self.late
                key = (
                    late,
                    repr((node.target, node.args, sorted(node.kwargs.items()))),
                )
                if first.setdefault(key, node) is not node:
                    node.replace_all_uses_with(first[key])

    def _separate_outputs(self) -> None:
        """Copies results that are inputs or constants, or that occur twice."""
        found = list(self.output.args[0])
        seen: set[Node] = set()
        with self.graph.inserting_before(self._first_late()):
            for i, node in enumerate(found[: self.count]):
                if node in self.known or node.op == "placeholder" or node in seen:
                    found[i] = self.graph.call_function(ATEN.clone.default, (node,))
                    found[i].meta["val"] = self._value(node)
                seen.add(found[i])
        self.output.args = (found,)

    def _first_late(self) -> Node:
        return next(node for node in self.graph.nodes if node in self.late)

    def _split(self) -> tuple[Callable, Callable, list[int]]:
        found = self.output.args[0]
        results, grads = found[: self.count], found[self.count :]
        calls = [
            node
            for node in self.graph.nodes
            if node.op == "call_function" and node not in self.known
        ]
        late = _live([n for n in calls if n in self.late], grads)
        nodes = [one for node in late for one in node.all_input_nodes]
        nodes += [node for node in grads if isinstance(node, torch.fx.Node)]
        saved = [
            node
            for node in dict.fromkeys(nodes)
            if not (node in self.late or node in self.known or node in self.slopes)
        ]
        returned = [*results, *saved]
        early = _live([n for n in calls if n not in self.late], returned)
        forward, _ = torch_code.function(
            early, self.inputs, returned, self.known, FUNCTIONS
        )
        backward, constants = torch_code.function(
            late, [*saved, *self.slopes], grads, self.known, FUNCTIONS
        )
        read = {x.untyped_storage().data_ptr() for x in constants}
        weights = [self.known[node] for node in self.weights]
        places = [w.untyped_storage().data_ptr() for w in weights]
        return forward, backward, [i for i, p in enumerate(places) if p in read]


def _live(nodes: Sequence[Node], results: Sequence[Any]) -> list[Node]:
    """Returns the nodes that the results need, and those with effects."""
    needed = {node for node in results if isinstance(node, torch.fx.Node)}
    found = []
    for node in reversed(nodes):
        if node in needed or _has_effects(node):
            found.append(node)
            needed.update(node.all_input_nodes)
    return found[::-1]


def _has_effects(node: Node) -> bool:
    """Returns whether an operation writes to memory, draws numbers or may fail."""
    tags = getattr(node.target, "tags", ())
    random = torch.Tag.nondeterministic_seeded in tags
    return bool(random or written(node) or node.target is HOLDS)


def _content(x: Tensor, is_weight: bool) -> tuple:
    """Returns a key that only equal constants share; a weight equals only itself."""
    own = (x.shape, x.stride(), x.dtype, x.device)
    if is_weight or x.numel() > MOST_COMPARED or x.device.type != "cpu":
        return (*own, x.data_ptr())
    return (*own, bytes(x.contiguous().flatten().view(torch.uint8).numpy()))
