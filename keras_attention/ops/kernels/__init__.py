"""The one place that asks which backend runs.

Each module offers the same functions, under the same names and terms:

- `dot_product_attention(query, key, value, mask, scale, is_causal, bias=None)`, see
  :func:`keras_attention.ops.dot_product_attention`
- `dense(layer, x, mapped)`: what an `EinsumDense` that maps so many of the last axes
  returns
- `called(layer, *given, **options)`: what a layer returns, without what Keras does
  around its `call` where that is for nothing
- `word_counts(tokens, weights, size)`: how often each of `size` words stands in each
  sentence, weighted: (..., L) integers and (..., L) numbers give (..., size)
- `additive(query, key, scale, exact)`, see :func:`keras_attention.ops.scores.additive`
- `additive_step(query, key, power, scale)`, see
  :func:`keras_attention.ops.scores.additive_step`; `powers(key)`: its e^{2k}, or None
  where `additive` is as fast
- `lookup(query, table, count)`: softmax(query xᵀ) x of the first `count` rows x of a
  table, for queries (T, D), without all scores at once; None where
  :mod:`keras_attention.ops.streaming` does it as well
- `any_left(moving)`: what a loop asks that goes on while any of these booleans is True,
  and would leave as it is what is False; True throughout where an export unrolls it
- `ascending(x)`: the places of the last axis by rising value, equal ones by their index
- `is_open(length)`: whether an export that unrolls loops is to leave this length open
- `scan(step, state, inputs)`, see :func:`keras_attention.ops.loop.scan`
- `segments(step, state, inputs)`: the same over segments, inputs (segments, steps, B,
  ...) and outputs alike; of each nothing but its first state is kept for the gradients,
  for which the rest is computed again. No gradient flows to what `step` closes over,
  other than variables
- `access_memory(interface, memory, there, form)`: one step of a DNC's memory, a
  `Memory`, with one write head and dense links, its gradient written out: the words
  that are read (B, R, W) and the `Memory` after; None where the equations one after the
  other do. `access.py` has the order of the interface; where `there` (B, 1) is 0,
  nothing is freed or written; `form` says whether keys have masks and what was freed is
  deallocated
- `fade_links(values, slots, weights)`, `follow_links(values, slots, reads)`: what a
  write leaves of sparse links (G, K, M), and f and b (G, M, R) of what was read, at the
  cost of the links that are not 0; see `links.py`
- `generate(step, state, start, stop, done)`, see
  :func:`keras_attention.ops.decoding.generate`
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

NumPy and OpenVINO, which have no kernel of their own, take the generic one.
"""

from importlib import import_module

import keras

from keras_attention.ops.kernels.access import Form, Memory

_backend = keras.config.backend()
_own = _backend in ("torch", "jax", "tensorflow")
_kernels = import_module(f"{__name__}.{_backend if _own else 'generic'}")
_additive = import_module(f"{__name__}.additive{f'_{_backend}' if _own else ''}")
# TensorFlow's own tanh is as fast as what would take its place, and so is XLA's there.
_step = import_module(
    f"{__name__}.one_query{f'_{_backend}' if _backend in ('torch', 'jax') else ''}"
)
_access = import_module(f"{__name__}.access_{_backend if _own else 'generic'}")
_links = import_module(f"{__name__}.links{f'_{_backend}' if _own else ''}")
_decoding = import_module(f"{__name__}.decoding.{_backend if _own else 'generic'}")
_plain = import_module(f"{__name__}.decoding.generic")
_generic = import_module(f"{__name__}.generic")

dot_product_attention = _kernels.dot_product_attention
dense = _kernels.dense
called = _kernels.called
word_counts = _kernels.word_counts
additive = _additive.additive
additive_step = _step.additive_step
powers = _step.powers
lookup = _kernels.lookup
any_left = _kernels.any_left
ascending = _kernels.ascending
is_open = _kernels.is_open
scan = _kernels.scan
segments = _kernels.segments
access_memory = _access.access_memory
fade_links = _links.fade
follow_links = _links.follow
generate = _decoding.generate
read = _decoding.read
write = _decoding.write
compiled = _decoding.compiled
uncompiled = _plain.uncompiled
is_traced = _kernels.is_traced
takes_training = _generic.takes_training
carried_mask = _generic.carried_mask

__all__ = [
    "Form",
    "Memory",
    "access_memory",
    "additive",
    "additive_step",
    "any_left",
    "ascending",
    "called",
    "carried_mask",
    "compiled",
    "dense",
    "dot_product_attention",
    "fade_links",
    "follow_links",
    "generate",
    "is_open",
    "is_traced",
    "lookup",
    "powers",
    "read",
    "scan",
    "segments",
    "takes_training",
    "uncompiled",
    "word_counts",
    "write",
]
