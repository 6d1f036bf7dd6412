"""Shortens traced operations and splits them into a call and its gradient.

Shapes are fixed. Constant expressions, such as views of weights, are computed once;
chains of views become one view; equal operations are merged. About half remain.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from types import BuiltinFunctionType, MethodDescriptorType
from typing import Any

import torch

from keras_attention.kernels.replay.torch_facts import FUNCTIONS, HOLDS

Tensor = Any
Node = Any

ATEN = torch.ops.aten
MOST_CONSTANT = 2**22  # elements of a constant that is computed once
MOST_COMPARED = 2**20  # elements of constants that are compared
# Operations that use only the shape and dtype of their first argument
LIKE = {ATEN.full_like.default, ATEN.ones_like.default, ATEN.zeros_like.default}
LIKE |= {ATEN.new_full.default, ATEN.new_ones.default, ATEN.new_zeros.default}
VIEWS = {ATEN.select.int, ATEN.slice.Tensor, ATEN.squeeze.dim, ATEN.transpose.int}
VIEWS |= {ATEN.squeeze.dims, ATEN.alias.default, ATEN.as_strided.default}
VIEWS |= {ATEN.detach.default, ATEN.expand.default, ATEN.lift_fresh.default}
VIEWS |= {ATEN.permute.default, ATEN.t.default, ATEN.unsqueeze.default}
VIEWS |= {ATEN.view.default}
METHODS = ("expand", "index_copy_", "new_empty", "view")


class Untraceable(Exception):
    """The reason why a call cannot be traced and replayed."""


class Rewriting(torch.fx.Interpreter):
    """A traced graph f(*weights, *inputs, *slopes) = results, gradients.

    It runs once, because fake tensors do not always have the strides of the real ones.

    Args:
        module: a `torch.fx.GraphModule` of fake tensors.
        weights: real tensors, which may change in place between calls.
        inputs: real tensors.
        slopes: real tensors, of the results that have a gradient.
        early: the names of the nodes of the call without its gradient.
        results: the number of results.
        in_place: whether the call may write to its inputs, which its results replace.
    """

    def __init__(
        self,
        module: Any,
        weights: Sequence[Tensor],
        inputs: Sequence[Tensor],
        slopes: Sequence[Tensor],
        early: set[str],
        results: int,
        in_place: bool,
    ) -> None:
        super().__init__(module)
        nodes = list(self.graph.nodes)
        self.late = {node for node in nodes if node.name not in early}
        self.count, self.in_place, self.result = results, in_place, nodes[-1]
        placeholders = [node for node in nodes if node.op == "placeholder"]
        first, last = len(weights), len(placeholders) - len(slopes)
        self.weights, self.inputs = placeholders[:first], placeholders[first:last]
        self.slopes = placeholders[last:]
        self.known: dict[Node, Tensor] = dict(zip(self.weights, weights))
        # Memory that this call or the next one writes to; what reads it stays in place.
        self.changed = self._memory(x for node in nodes for x in _written(node))
        self.weight_memory = self._memory(self.weights)
        self.input_memory = self._memory(self.inputs)
        if in_place:
            self.changed |= self._memory(self.result.all_input_nodes)
        if self.changed & self.weight_memory or (
            self.changed & self.input_memory and not in_place
        ):
            raise Untraceable("a call changes its arguments or weights in place")
        self.strides: dict[Node, tuple] = {}
        self.run(*weights, *inputs, *slopes)

    def run_node(self, n: Any) -> Any:
        if n.target is ATEN.view.default and not self._memory((n,)) & self.changed:
            base, size = self.fetch_args_kwargs_from_env(n)[0]
            if base.reshape(size).data_ptr() != base.data_ptr():
                n.target = ATEN.reshape.default  # unlike the fake tensor, it is copied
        x = super().run_node(n)
        if isinstance(x, torch.Tensor):
            self.strides[n] = (tuple(x.shape), x.stride(), x.storage_offset())
        return x

    def functions(self) -> tuple[Callable, Callable, list[int]]:
        """Returns two functions, and which weights' memory the second one reads.

        They are f(*inputs) = results, saved; and f(*saved, *slopes) = gradients.
        """
        self._fold()
        self._merge_views()
        self._merge_equal()
        self._separate_results()
        outputs = self.result.args[0]
        results, grads = outputs[: self.count], outputs[self.count :]
        late = self._live(grads, lambda node: node in self.late)
        saved = [
            node
            for node in _used(late, grads)
            if not (node in self.late or node in self.known or node in self.slopes)
        ]
        returned = [*results, *saved]
        early = self._live(returned, lambda node: node not in self.late)
        forward, _ = self._function(early, self.inputs, returned)
        backward, constants = self._function(late, [*saved, *self.slopes], grads)
        memory = {x.untyped_storage().data_ptr() for x in constants}
        places = [self.known[w].untyped_storage().data_ptr() for w in self.weights]
        return forward, backward, [i for i, x in enumerate(places) if x in memory]

    def _value(self, node: Node) -> Any:
        if node.op == "get_attr":
            return getattr(self.module, node.target)
        return node.meta.get("val")

    def _memory(self, nodes: Iterable[Node]) -> set[int]:
        """Returns identifiers of the memory of the nodes' tensors."""
        leaves = torch.utils._pytree.tree_leaves([self._value(node) for node in nodes])
        return {
            x.untyped_storage()._cdata for x in leaves if isinstance(x, torch.Tensor)
        }

    def _is_free(self, node: Node) -> bool:
        """Returns whether a node is pure and nothing writes to its inputs or output."""
        if node.op != "call_function" or _has_effects(node):
            return False
        if not isinstance(self._value(node), torch.Tensor):
            return False
        return not self._memory((node, *node.all_input_nodes)) & self.changed

    def reached(self) -> list[set[int]]:
        """Returns, for each gradient, the indices of the slopes that it depends on."""
        slopes: dict[Node, set[int]] = {s: {i} for i, s in enumerate(self.slopes)}
        for node in self.graph.nodes:
            inputs = (slopes[x] for x in node.all_input_nodes)
            slopes.setdefault(node, set().union(*inputs))
        return [slopes.get(grad, set()) for grad in self.result.args[0][self.count :]]

    def _fold(self) -> None:
        """Computes the nodes that depend on constants alone, and views of weights."""
        for node in list(self.graph.nodes):
            if node.op == "get_attr":
                self.known[node] = getattr(self.module, node.target)
            if not self._is_free(node):
                continue
            value, inputs = self._value(node), node.all_input_nodes
            is_view = bool(self._memory([node]) & self.weight_memory)
            if value.numel() > MOST_CONSTANT and not is_view:
                continue
            elif node.target in LIKE:
                like = torch.empty(value.shape, dtype=value.dtype, device=value.device)
                self.known[node] = node.target(like, *node.args[1:], **node.kwargs)
            elif all(x in self.known for x in inputs) and (
                is_view or not self._memory(inputs) & self.weight_memory
            ):
                args = (node.args, node.kwargs)
                args, kwargs = torch.fx.map_arg(args, self.known.__getitem__)
                self.known[node] = node.target(*args, **kwargs)

    def _merge_views(self) -> None:
        """Replaces views of views by one view."""
        for node in list(self.graph.nodes):
            if not _is_view(node) or node in self.known:
                continue
            base = node.args[0]
            while _is_view(base):
                base = base.args[0]
            (*old, start), (*new, offset) = self.strides[base], self.strides[node]
            if (old, start) == (new, offset):
                node.replace_all_uses_with(base)
            elif start != offset and self._memory([base]) & self.input_memory:
                continue  # the offset of an argument may differ
            elif base is not node.args[0] or node.target is ATEN.slice.Tensor:
                offsets = [offset] if offset != start else []
                node.target, node.kwargs = ATEN.as_strided.default, {}
                node.args = (base, *map(list, new), *offsets)

    def _merge_equal(self) -> None:
        """Replaces each operation by the first operation that equals it.

        The gradient keeps its own operations: it may recompute some to save memory.
        """
        first: dict[Any, Node] = {}
        for node in list(self.graph.nodes):
            if node in self.known:
                is_weight = bool(self._memory([node]) & self.weight_memory)
                key = _content(self.known[node], is_weight)
            elif node.target is HOLDS or self._is_free(node):
                arguments = repr((node.args, sorted(node.kwargs.items())))
                key = (node.target, arguments, node in self.late)
            else:
                continue
            if first.setdefault(key, node) is not node:
                node.replace_all_uses_with(first[key])
                if node.target is HOLDS:
                    self.graph.erase_node(node)

    def _separate_results(self) -> None:
        """Copies results that are inputs or constants, or that occur twice."""
        outputs = list(self.result.args[0])
        seen = {*self.known, *([] if self.in_place else self.inputs)}
        first_late = next(node for node in self.graph.nodes if node in self.late)
        with self.graph.inserting_before(first_late):
            for i, node in enumerate(outputs[: self.count]):
                if node in seen:
                    outputs[i] = self.graph.call_function(ATEN.clone.default, (node,))
                seen.add(node)
        self.result.args = (outputs,)

    def _live(self, results: Sequence[Any], belongs: Callable) -> list[Node]:
        """Returns the operations that the results need, and those with effects."""
        needed, live = set(_used([], results)), []
        for node in reversed(self.graph.nodes):
            if node.op != "call_function" or node in self.known or not belongs(node):
                continue
            if node in needed or _has_effects(node):
                live.append(node)
                needed.update(node.all_input_nodes)
        return live[::-1]

    def _function(
        self, nodes: Sequence[Node], inputs: Sequence[Node], results: Sequence[Any]
    ) -> tuple[Callable, list[Tensor]]:
        """Returns the function of the inputs that computes nodes, and its constants."""
        constants = [node for node in _used(nodes, results) if node in self.known]
        graph = torch.fx.Graph()
        copies: dict[Node, Node] = {}
        for node in (*constants, *inputs):
            copies[node] = graph.placeholder(f"x{len(copies)}")
        for node in nodes:
            target, *arguments = _fast(node)
            args, kwargs = torch.fx.map_arg(arguments, copies.__getitem__)
            copies[node] = graph.call_function(target, tuple(args), dict(kwargs))
        graph.output(torch.fx.map_arg(list(results), copies.__getitem__))
        for node, copied in copies.items():
            copied.meta["changes"] = bool(self._memory([node]) & self.changed)
        run = torch.fx.GraphModule(torch.nn.Module(), graph).forward
        values = [self.known[node] for node in constants]
        return partial(run, *values), values


def _fast(node: Node) -> tuple[Callable, tuple, dict]:
    """Returns the fastest call of an operation: a function and its arguments.

    `torch.ops.aten.add.Tensor` takes about twice as long to call as `torch.add`.
    """
    target, args, kwargs = node.target, node.args, node.kwargs
    if target in FUNCTIONS:
        return FUNCTIONS[target], args, kwargs
    if getattr(target, "namespace", None) != "aten":
        return target, args, kwargs
    name = target._schema.name.partition("::")[2].replace("_unsafe_view", "view")
    if name == "_to_copy" and set(kwargs) == {"dtype"}:  # `to` may return its argument
        same = args[0].meta["val"].dtype is kwargs["dtype"]
        return torch.Tensor.to, (*args, kwargs["dtype"]), {"copy": True} if same else {}
    function = getattr(torch.Tensor if name in METHODS else torch, name, None)
    # They take the same arguments, but for lists of tensors with None.
    has_none = any(isinstance(x, (list, tuple)) and None in x for x in args)
    if has_none or not isinstance(
        function, (BuiltinFunctionType, MethodDescriptorType)
    ):
        function = target
    return function, args, kwargs


def _is_view(node: Node) -> bool:
    return node.op == "call_function" and node.target in VIEWS


def _used(nodes: Sequence[Node], results: Sequence[Any]) -> list[Node]:
    """Returns the distinct nodes that are arguments of nodes, or results."""
    used = [x for node in nodes for x in node.all_input_nodes]
    used += [node for node in results if isinstance(node, torch.fx.Node)]
    return list(dict.fromkeys(used))


def _written(node: Node) -> list[Node]:
    """Returns the nodes that an operation writes to."""
    schema = getattr(node.target, "_schema", None)
    if node.op != "call_function" or schema is None or not schema.is_mutable:
        return []
    names = [a.name for a in schema.arguments if a.alias_info and a.alias_info.is_write]
    arguments = dict(zip([a.name for a in schema.arguments], node.args))
    written = [{**arguments, **node.kwargs}.get(name) for name in names]
    return [x for x in written if isinstance(x, torch.fx.Node)]


def _has_effects(node: Node) -> bool:
    """Returns whether an operation writes to memory, draws numbers or may fail."""
    tags = getattr(node.target, "tags", ())
    random = torch.Tag.nondeterministic_seeded in tags
    return bool(random or _written(node) or node.target is HOLDS)


def _content(x: Tensor, is_weight: bool) -> tuple:
    """Returns a key that only equal constants share; a weight equals only itself."""
    layout = (x.shape, x.stride(), x.dtype, x.device)
    if is_weight or x.numel() > MOST_COMPARED or x.device.type != "cpu":
        return (*layout, x.data_ptr())
    return (*layout, bytes(x.contiguous().flatten().view(torch.uint8).numpy()))
