"""Products of a recorded step with weights in the blocked layout of oneDNN.

For the few rows of a step, a product with a large packed weight takes about half to two
thirds of the time.
Weights may change in place at any time between calls, even without a trace in torch's
version counters. They are therefore packed again for each loop, and never kept.

Shapes: M rows, K and N the axes of a weight.
"""

from __future__ import annotations

from typing import Any

import torch

Tensor = Any
ATEN = torch.ops.aten
# Packing takes as long as about half this number of steps saves.
MIN_STEPS = 16
# The call of a packed product costs more. It pays from about this number of weights on.
MIN_SIZE = 2**17


def pays(tensor: Tensor, steps: int) -> bool:
    """Returns whether a loop of `steps` steps on such tensors is faster if packed."""
    return (
        steps >= MIN_STEPS
        and tensor.device.type == "cpu"
        and torch.backends.mkldnn.is_available()
        and torch.backends.mkldnn.enabled
    )


def pack(weight: Tensor, rows: int) -> Tensor:
    """Packs a weight (K, N) for products with (M, K)."""
    return torch.ops.mkldnn._reorder_linear_weight(weight.t().contiguous(), rows)


def use_packed(
    graph: Any, values: dict[Any, Any], known: dict[Any, Tensor]
) -> dict[Any, int]:
    """Replaces the products of a graph with large constant weights by packed products.

    Args:
        graph: a `torch.fx.Graph`, modified in place.
        values: the values of the nodes, extended by the new nodes.
        known: the constants of the graph.

    Returns:
        The nodes of the weights to pack, with the number of rows M; only the new
        products use these nodes.
    """
    packed: dict[Any, int] = {}
    for node in list(graph.nodes):
        found = _product(node, values, known)
        if found is None:
            continue
        x, weight, bias, result = found
        with graph.inserting_before(node):
            own = graph.node_copy(weight)
            values[own] = known[own] = known[weight]
        with graph.inserting_before(result):
            call = torch.ops.mkldnn._linear_pointwise.default
            new = graph.call_function(call, (x, own, bias, "none", [], ""))
            values[new] = values[result]
        result.replace_all_uses_with(new)
        packed[own] = len(values[x])
    return packed


def _product(node: Any, values: dict, known: dict) -> tuple[Any, Any, Any, Any] | None:
    """Returns x, weight, bias and result of a product x weight + bias, or None."""
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
    if values[weight].numel() < MIN_SIZE:
        return None
    if bias is not None and not _is_bias(bias, values, known, weight):
        if result is node:
            return None
        bias, result = None, node
    return x, weight, bias, result


def _is_bias(bias: Any, values: dict, known: dict, weight: Any) -> bool:
    """Returns whether a node is a constant vector (N,)."""
    return (
        bias in known
        and values[bias].dtype == torch.float32
        and values[bias].shape == values[weight].shape[1:]
    )
