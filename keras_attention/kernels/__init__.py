"""The one place that asks which backend runs: a folder an operation.

Each module offers the same functions, under the same names and terms:

- `dot_product_attention(query, key, value, mask, scale, is_causal, bias=None)`, see
  :func:`keras_attention.ops.dot_product_attention`
- `dense(layer, x, mapped)`: what an `EinsumDense` that maps so many of the last axes
  returns
- `call_layer(layer, *given, **options)`: what a layer returns, without what Keras does
  around its `call` where that is for nothing
- `word_counts(tokens, weights, size)`: how often each of `size` words stands in each
  sentence, weighted: (..., L) integers and (..., L) numbers give (..., size)
- `additive(query, key, scale, exact)`, see :func:`keras_attention.ops.scores.additive`;
  `precompute_key(key)`: a key that it takes, faster for one query after another
- `lookup(query, table, count)`: softmax(query xᵀ) x of the first `count` rows x of a
  table, for queries (T, D), without all scores at once; None where
  :mod:`keras_attention.ops.hopfield.streaming` does it as well
- `any_left(moving)`: what a loop asks that goes on while any of these booleans is True,
  and would leave as it is what is False; True throughout where an export unrolls it
- `stable_argsort(x)`: the indices that sort the last axis; equal values keep order
- `is_dynamic(length)`: whether an export that unrolls loops must keep this length open
- `scan(step, state, inputs)`, see :func:`keras_attention.ops.sequence.loop.scan`
- `segments(step, state, inputs)`: the same over segments, inputs (segments, steps, B,
  ...) and outputs alike; of each nothing but its first state is kept for the gradients,
  for which the rest is computed again. No gradient flows to what `step` closes over,
  other than variables
- `access_memory(interface, memory, mask, options)`: one step of a DNC's memory, a
  `MemoryState`: the words that are read (B, R, W) and the `MemoryState` after. The
  gradient is written out where there is one write head and dense links.
  `memory_step/interface.py` has the order of the interface; where `mask` (B, 1) is 0,
  nothing is freed or written; `options` are the step's `MemoryOptions`
- `trace_memory(interface, memory, mask, options)`: the same in Keras' operations, and
  what else the step computed
- `fade_links(values, slots, weights)`, `follow_links(values, slots, reads)`: what a
  write leaves of sparse links (G, K, M), and f and b (G, M, R) of what was read, at the
  cost of the links that are not 0; see `links.py`
- `generate(step, state, start, stop, done)`, see
  :func:`keras_attention.ops.sequence.decoding.generate`
- `read(tensor, index)`: what stands at place `index` of axis 1, (B, ...)
- `write(tensor, index, values)`: a tensor (B, T, ...) with the values (B, ...) at place
  `index` of axis 1. The tensor given must not be used any more: on torch it is written
  to. For use while decoding, where no gradient flows
- `compiled(function, variables, jit_compile)`: a function that does the same with
  structures of arrays, numbers and None, compiled once for each of their shapes and
  dtypes. It reads the variables anew whenever it is called, and may assign to them.
  `jit_compile` is whether TensorFlow has XLA compile its graph
- `uncompiled(function, variables, jit_compile)`: the same, and nothing is compiled
- `takes_training(layer)`, `carried_mask(tensor)`: what Keras knows under private names
- `is_traced(tensor)`: whether a tensor is a stand-in for numbers that are not known
  yet (inside a compiled function, or while a graph is being built)

In a folder an operation, `reference.py` is in Keras' operations and runs everywhere; it
is what NumPy and OpenVINO take. A file beside it is named after its backend.
"""

from importlib import import_module
from typing import Any

from keras.config import backend as running_backend

from keras_attention.kernels.keras import (
    carried_mask,
    is_exporting,
    stable_argsort,
    takes_training,
    without_masks,
)
from keras_attention.kernels.memory_step.interface import MemoryOptions
from keras_attention.kernels.memory_step.reference import MemoryState
from keras_attention.kernels.memory_step.reference import step as trace_memory


def _fitting(operation: str, *backends: str) -> Any:
    """The module of an operation for the running backend; by default the reference.

    Args:
        operation: the folder.
        *backends: those for which it has a module.
    """
    backend = running_backend()
    name = backend if backend in backends else "reference"
    return import_module(f"{__name__}.{operation}.{name}")


_attention = _fitting("attention", "jax", "tensorflow", "torch")
_additive = _fitting("additive", "jax", "tensorflow", "torch")
_calls = _fitting("layer_calls", "torch")
_counts = _fitting("word_counts", "tensorflow", "torch")
_lookup = _fitting("lookup", "torch")
_scan = _fitting("scan", "jax", "tensorflow", "torch")
_memory = _fitting("memory_step", "jax", "tensorflow", "torch")
_links = _fitting("sparse_links", "jax", "tensorflow", "torch")
_decoding = _fitting("decoding", "jax", "tensorflow", "torch")
_tracing = _fitting("tracing", "jax", "tensorflow", "torch")

dot_product_attention = _attention.dot_product_attention
additive = _additive.additive
precompute_key = _additive.precompute_key
dense = _calls.dense
call_layer = _calls.call_layer
word_counts = _counts.word_counts
lookup = _lookup.lookup
scan = _scan.scan
segments = _scan.segments
any_left = _scan.any_left
is_dynamic = _scan.is_dynamic
access_memory = _memory.access_memory
fade_links = _links.fade
follow_links = _links.follow
generate = _decoding.generate
read = _decoding.read
write = _decoding.write
compiled = _decoding.compiled
uncompiled = import_module(f"{__name__}.decoding.reference").uncompiled
is_traced = _tracing.is_traced

__all__ = [
    "MemoryOptions",
    "MemoryState",
    "access_memory",
    "additive",
    "any_left",
    "call_layer",
    "carried_mask",
    "compiled",
    "dense",
    "dot_product_attention",
    "fade_links",
    "follow_links",
    "generate",
    "is_dynamic",
    "is_exporting",
    "is_traced",
    "lookup",
    "precompute_key",
    "read",
    "scan",
    "segments",
    "stable_argsort",
    "takes_training",
    "trace_memory",
    "uncompiled",
    "without_masks",
    "word_counts",
    "write",
]
