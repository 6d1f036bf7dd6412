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
# The call of a packed product costs more. It pays if all products of one x together
# have about this number of weights.
MIN_SIZE = 2**17


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
        values: the values of the nodes.
        known: the constants of the graph, extended by the new constants.

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
        first, products = group[0][0], [product for _, product in group]
        if sum(values[one.weight].numel() for one in products) >= MIN_SIZE:
            rows = len(values[products[0].x])
            _pack_group(graph, known, made, first, products, rows)
    return made


def _pack_group(
    graph: Any,
    known: dict[Any, Tensor],
    made: dict[Any, Callable[[], Tensor]],
    first: Any,
    products: list[_Product],
    rows: int,
) -> None:
    """Computes products of one x by one packed product, before the node `first`."""
    weights = [known[one.weight] for one in products]
    biases = [known[one.bias] for one in products if one.bias is not None]

    def constant(make: Callable[[], Tensor], like: Tensor) -> Any:
        node = graph.call_function(_constant)
        known[node], made[node] = like, make
        return node

    x = first.args[-2]  # it may have become the result of another packed product
    with graph.inserting_before(first):
        weight = constant(partial(pack, weights, rows), weights[0])
        bias = constant(partial(torch.cat, biases), biases[0]) if biases else None
        call = torch.ops.mkldnn._linear_pointwise.default
        results = [graph.call_function(call, (x, weight, bias, "none", [], ""))]
        if len(products) > 1:
            sizes = [one.shape[1] for one in weights]
            split = graph.call_function(SPLIT, (*results, sizes, 1))
            results = [
                graph.call_function(operator.getitem, (split, n))
                for n in range(len(products))
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
