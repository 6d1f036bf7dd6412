"""Products of a recorded step with weights in the blocked layout of oneDNN.

For the few rows of a step, a product with a large packed weight takes about half to two
thirds of the time.
Weights may change in place at any time between calls, even without a trace in torch's
version counters. They are therefore packed again for each loop, and never kept.

Shapes: M rows, K and N the axes of a weight.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import torch

Tensor = Any
ATEN = torch.ops.aten
SPLIT = ATEN.split_with_sizes_copy.default
# Packing takes as long as about half this number of steps saves.
MIN_STEPS = 16
# The call of a packed product costs more. It pays from about this number of weights on.
MIN_SIZE = 2**17  # of all products of one x


def pays(tensor: Tensor, steps: int) -> bool:
    """Returns whether a loop of `steps` steps on such tensors is faster if packed."""
    return (
        steps >= MIN_STEPS
        and tensor.device.type == "cpu"
        and torch.backends.mkldnn.is_available()
        and torch.backends.mkldnn.enabled
    )


def pack(weights: Sequence[Tensor], rows: int) -> Tensor:
    """Packs weights (K, ·), side by side, for products with (M, K)."""
    turned = [weight.t() for weight in weights]
    whole = turned[0] if len(turned) == 1 else torch.cat(turned)
    return torch.ops.mkldnn._reorder_linear_weight(whole.contiguous(), rows)


class _Product(NamedTuple):
    """The nodes of a product x weight + bias. `result` has its value."""

    x: Any  # (M, K)
    weight: Any  # (K, N)
    bias: Any  # (N,), or None
    result: Any  # (M, N)


def use_packed(
    graph: Any, values: dict[Any, Any], known: dict[Any, Tensor]
) -> dict[Any, Callable[[], Tensor]]:
    """Replaces the products of a graph with large constant weights by packed products.

    Products of one x, such as the queries, keys and values of self-attention, become
    one product.

    Args:
        graph: a `torch.fx.Graph`, modified in place.
        values: the values of the nodes, extended by the new nodes.
        known: the constants of the graph.

    Returns:
        The nodes of the new constants, with functions that compute their values.
    """
    groups: dict[Any, list[tuple[Any, _Product]]] = {}
    for node in graph.nodes:
        found = _product(node, values, known)
        if found is not None:
            groups.setdefault((found.x, found.bias is None), []).append((node, found))
    made: dict[Any, Callable[[], Tensor]] = {}
    for group in groups.values():
        products = [product for _, product in group]
        if sum(values[one.weight].numel() for one in products) >= MIN_SIZE:
            _pack_group(graph, values, known, made, group[0][0], products)
    return made


def _pack_group(
    graph: Any,
    values: dict[Any, Any],
    known: dict[Any, Tensor],
    made: dict[Any, Callable[[], Tensor]],
    first: Any,
    products: list[_Product],
) -> None:
    """Computes products of one x by one packed product, before the node `first`."""
    x, rows = products[0].x, len(values[products[0].x])
    weights = [known[one.weight] for one in products]
    biases = [known[one.bias] for one in products if one.bias is not None]

    def add(call: Any, args: tuple, value: Any) -> Any:
        node = graph.call_function(call, args)
        values[node] = value
        return node

    def constant(make: Callable[[], Tensor], like: Tensor) -> Any:
        node = add(_constant, (), like)
        known[node], made[node] = like, make
        return node

    with graph.inserting_before(first):
        weight = constant(partial(pack, weights, rows), weights[0])
        bias = constant(partial(torch.cat, biases), biases[0]) if biases else None
        value = torch.cat([values[one.result] for one in products], 1)
        call = torch.ops.mkldnn._linear_pointwise.default
        results = [add(call, (x, weight, bias, "none", [], ""), value)]
        if len(products) > 1:
            sizes, parts = (
                [one.shape[1] for one in weights],
                [one.result for one in products],
            )
            split = add(
                SPLIT, (*results, sizes, 1), tuple(values[one] for one in parts)
            )
            results = [
                add(operator.getitem, (split, n), values[one])
                for n, one in enumerate(parts)
            ]
    for node, one in zip(results, products, strict=True):
        one.result.replace_all_uses_with(node)


def _constant() -> Tensor:
    """Stands for a constant, which becomes an argument of the graph."""
    raise RuntimeError("a constant of a recorded step has no value")


def _product(node: Any, values: dict, known: dict) -> _Product | None:
    """Returns the product x weight + bias of a node, or None."""
    if node.op != "call_function" or node.kwargs:
        return None
    if node.target is ATEN.mm.default:
        (x, weight), bias, result = node.args, None, node
        users = list(node.users)
        if len(users) == 1 and users[0].target is ATEN.add.Tensor:
            (add,) = users
            others = [one for one in add.args if one is not node]
            if not add.kwargs and len(others) == 1 and others[0] in known:
                bias, result = others[0], add
    elif node.target is ATEN.addmm.default:
        (bias, x, weight), result = node.args, node
    else:
        return None
    if weight not in known or x in known or values[x].dtype != torch.float32:
        return None
    if bias is not None and not _is_bias(bias, values, known, weight):
        if result is node:
            return None
        bias, result = None, node
    return _Product(x, weight, bias, result)


def _is_bias(bias: Any, values: dict, known: dict, weight: Any) -> bool:
    """Returns whether a node is a constant vector (N,)."""
    return (
        bias in known
        and values[bias].dtype == torch.float32
        and values[bias].shape == values[weight].shape[1:]
    )
