"""Optimizes the operations of a recorded step; see `torch_steps.py`.

A step is recorded with fixed shapes. Chains of views become one view, constant
expressions such as views of weights are computed once, and duplicate operations are
merged. This removes more than half of the operations of a Transformer's step.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch

from keras_attention.kernels.decoding import torch_attention, torch_packing

Tensor = Any
ATEN = torch.ops.aten
VIEWS = {
    ATEN.alias.default,
    ATEN.as_strided.default,
    ATEN.expand.default,
    ATEN.permute.default,
    ATEN.select.int,
    ATEN.slice.Tensor,
    ATEN.squeeze.dim,
    ATEN.squeeze.dims,
    ATEN.t.default,
    ATEN.transpose.int,
    ATEN.unsqueeze.default,
    ATEN.view.default,
}


def shortened(graph: Any, inputs: Sequence[Tensor]) -> Callable[..., list[Tensor]]:
    """Returns a function that computes `graph` with fewer operations.

    Args:
        graph: a recorded `torch.fx.GraphModule`. Its attributes are weights, which may
            change in place, and constants, which do not change.
        inputs: example tensors. The graph runs on them and may modify them.

    Returns:
        A function f(*inputs). Its inputs must be contiguous and have the shapes and
        dtypes of the example tensors.
    """
    return _Shortening(graph, inputs).result()()


def packing(graph: Any, inputs: Sequence[Tensor]) -> Callable[[], Callable]:
    """Returns a function that packs the weights and returns a function as `shortened`.

    The returned function uses copies of the weights, so it must not be kept longer than
    the weights are known to stay the same; see `torch_packing.py`.

    Args:
        graph: as in `shortened`.
        inputs: as in `shortened`.
    """
    return _Shortening(graph, inputs).result(packs=True)


class _Shortening(torch.fx.Interpreter):
    """Runs a graph once to find the memory of its tensors, then rewrites it."""

    def __init__(self, graph: Any, inputs: Sequence[Tensor]) -> None:
        super().__init__(graph, garbage_collect_values=False)
        self.nodes = graph.graph
        self.values: dict[Any, Any] = {}  # kept, so that no memory is reused
        self.run(*inputs)
        (output,) = (node for node in self.nodes.nodes if node.op == "output")
        # Keep operations on memory that this step or the next step writes to.
        self.kept = {p for node in output.all_input_nodes for p in self._places(node)}
        for node in self.nodes.nodes:
            for argument in written(node):
                self.kept.update(self._places(argument))

    def run_node(self, n: Any) -> Any:
        self.values[n] = super().run_node(n)
        return self.values[n]

    def result(self, packs: bool = False) -> Callable[[], Callable]:
        """Returns a function that binds the constants, packed or not."""
        constants = self._fold()
        self._merge_views()
        self._merge_equal()
        torch_attention.use_visible(self.nodes, self.values)
        made: dict[Any, Callable[[], Tensor]] = {}
        if packs:
            made = torch_packing.use_packed(self.nodes, self.values, constants)
        return self._closed(constants, made)

    def _places(self, node: Any) -> set[int]:
        """Returns the memory addresses of a node's tensors."""
        found = self.values[node]
        leaves = found if isinstance(found, (tuple, list)) else (found,)
        tensors = (x for x in leaves if isinstance(x, torch.Tensor))
        return {x.untyped_storage().data_ptr() for x in tensors}

    def _is_free(self, node: Any) -> bool:
        """Returns whether a node is pure and nothing writes to its inputs or output."""
        if node.op != "call_function" or not isinstance(
            self.values[node], torch.Tensor
        ):
            return False
        tags = getattr(node.target, "tags", ())
        if torch.Tag.nondeterministic_seeded in tags or written(node):
            return False
        nodes = (node, *node.all_input_nodes)
        return not any(self._places(one) & self.kept for one in nodes)

    def _fold(self) -> dict[Any, Tensor]:
        """Returns the constants: weights, their views and input-independent values."""
        known: dict[Any, Tensor] = {}
        weights: set[int] = set()
        for node in list(self.nodes.nodes):
            if node.op == "get_attr":
                known[node] = self.values[node]
                if _is_weight(node):
                    weights |= self._places(node)
            elif self._is_free(node):
                like = node.target is ATEN.zeros_like.default
                given = node.all_input_nodes
                views = self._places(node) & weights
                computes = any(self._places(one) & weights for one in given)
                fixed = all(one in known for one in given) and (views or not computes)
                if like or fixed:
                    known[node] = self.values[node]
        return known

    def _merge_views(self) -> None:
        """Replaces views of views by one view."""
        for node in list(self.nodes.nodes):
            if node.op != "call_function" or node.target not in VIEWS:
                continue
            base = node.args[0]
            while base.op == "call_function" and base.target in VIEWS:
                base = base.args[0]
            old, new = self.values[base], self.values[node]
            if old.storage_offset() != new.storage_offset():
                continue
            if (old.shape, old.stride()) == (new.shape, new.stride()):
                node.replace_all_uses_with(base)
            elif base is not node.args[0]:
                node.target = ATEN.as_strided.default
                node.args = (base, list(new.shape), list(new.stride()))
                node.kwargs = {}

    def _merge_equal(self) -> None:
        """Replaces each operation by the first operation that equals it."""
        first: dict[Any, Any] = {}
        for node in list(self.nodes.nodes):
            if self._is_free(node):
                key = repr((node.target, node.args, sorted(node.kwargs.items())))
                if first.setdefault(key, node) is not node:
                    node.replace_all_uses_with(first[key])

    def _closed(
        self, known: dict[Any, Tensor], made: dict[Any, Callable[[], Tensor]]
    ) -> Callable[[], Callable]:
        """Builds the function; returns a function that binds the constants to it.

        Constants in `made` are computed each time.
        """
        self.nodes.eliminate_dead_code()
        start = next(iter(self.nodes.nodes))
        constants: list[Callable[[], Tensor]] = []
        for node in list(self.nodes.nodes):
            if node not in known or not node.users:
                continue
            with self.nodes.inserting_before(start):
                argument = self.nodes.placeholder(f"constant_{len(constants)}")
            node.replace_all_uses_with(argument)
            constants.append(made.get(node, partial(_itself, known[node])))
        self.nodes.eliminate_dead_code()
        self.nodes.lint()
        run = torch.fx.GraphModule(torch.nn.Module(), self.nodes).forward

        def bind() -> Callable[..., list[Tensor]]:
            return partial(run, *(constant() for constant in constants))

        return bind


def _itself(x: Tensor) -> Tensor:
    return x


def _is_weight(node: Any) -> bool:
    """Returns whether a node is a weight, not a constant that each step lifts."""
    return any("lift_fresh" not in str(user.target) for user in node.users)


def written(node: Any) -> list[Any]:
    """Returns the nodes that an operation writes to."""
    schema = getattr(node.target, "_schema", None)
    if node.op != "call_function" or schema is None or not schema.is_mutable:
        return []
    names = {a.name: a.alias_info for a in schema.arguments}
    given = {**dict(zip(names, node.args)), **node.kwargs}
    written = [
        value
        for name, value in given.items()
        if names[name] is not None and names[name].is_write
    ]
    return [value for value in written if isinstance(value, torch.fx.Node)]
