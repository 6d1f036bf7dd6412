"""Products of a traced step with weights in the blocked layout of oneDNN.

For the few rows of a step, a product with a large packed weight takes about half to two
thirds of the time. Greedy generation by a `CausalLM` (D = 256) becomes 1.33 times as
fast with 8,192 words and 1.65 times with 32,000; see `tests/speed/trials.md`.

Weights may change in place at any time between loops, even without a trace in torch's
version counters. They are therefore packed again for each loop, and never kept.
"""

from __future__ import annotations

import copy
import operator
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch

Tensor = Any
Node = Any

# Packing takes as long as about half this number of steps saves.
MIN_STEPS = 16
# The call of a packed product costs more. It pays if all products of one x together
# have about this number of weights.
MIN_SIZE = 2**17


def packing(forward: Any) -> Callable[[], Callable]:
    """Returns a function that packs the weights of a step and returns the packed step.

    Products of one x, such as the queries, keys and values of self-attention, become
    one product, whose result is split.

    Args:
        forward: a traced step with its constants; see `replay/torch_rewrite.py`. Its
            weights may change in place.
    """
    graph = copy.deepcopy(forward.func.__self__.graph)
    placeholders = [node for node in graph.nodes if node.op == "placeholder"]
    known: dict[Node, Tensor] = dict(zip(placeholders, forward.args))
    groups: dict[tuple, list[Node]] = {}
    for node in graph.nodes:
        if _is_product(node, known):
            x = node.args[-2]
            alone = node if x.meta["changes"] else None
            groups.setdefault((node.target, x, alone), []).append(node)
    made: list[Callable[[], Tensor]] = []

    def constant(make: Callable[[], Tensor]) -> Node:
        made.append(make)
        with graph.inserting_before(placeholders[len(known)]):
            return graph.placeholder(f"packed{len(made)}")

    for nodes in groups.values():
        weights = [known[node.args[-1]] for node in nodes]
        biases = [known[node.args[0]] for node in nodes if len(node.args) == 3]
        if sum(weight.numel() for weight in weights) < MIN_SIZE:
            continue
        weight = constant(partial(_pack, weights))
        bias = constant(partial(torch.cat, biases)) if biases else None
        x = nodes[0].args[-2]  # it may have become the result of a packed product
        with graph.inserting_before(nodes[0]):
            product = torch.ops.mkldnn._linear_pointwise.default
            results = [graph.call_function(product, (x, weight, bias, "none", [], ""))]
            if len(nodes) > 1:
                split = graph.call_function(
                    torch.ops.aten.split_with_sizes_copy.default,
                    (*results, [weight.shape[1] for weight in weights], 1),
                )
                parts = [(split, i) for i in range(len(nodes))]
                results = [graph.call_function(operator.getitem, p) for p in parts]
        for node, result in zip(nodes, results, strict=True):
            node.replace_all_uses_with(result)
            graph.erase_node(node)
    run = torch.fx.GraphModule(torch.nn.Module(), graph).forward
    return lambda: partial(run, *forward.args, *(make() for make in made))


def _pack(weights: Sequence[Tensor]) -> Tensor:
    """Packs weights (K, ·), side by side."""
    whole = torch.cat(weights, 1) if len(weights) > 1 else weights[0]
    return torch.ops.mkldnn._reorder_linear_weight(whole.t())


def _is_product(node: Node, known: dict[Node, Tensor]) -> bool:
    """Returns whether a node is a product x weight [+ bias] that can be packed."""
    if node.target not in (torch.mm, torch.addmm) or node.kwargs:
        return False
    *bias, x, weight = node.args
    if not torch.backends.mkldnn.is_available() or x in known or weight not in known:
        return False
    w = known[weight]
    return (w.dtype, w.device.type) == (torch.float32, "cpu") and all(
        b in known and known[b].shape == w.shape[1:] for b in bias
    )
