"""The one place that asks which backend runs.

Each module offers the same functions, under the same names and terms:

- `dot_product_attention(query, key, value, mask, scale, is_causal)`, see
  :func:`keras_attention.ops.dot_product_attention`
- `word_counts(tokens, weights, size)`: how often each of `size` words stands in each
  sentence, weighted: (..., L) integers and (..., L) numbers give (..., size)
- `is_traced(tensor)`: whether a tensor is a stand-in for numbers that are not known
  yet (inside a compiled function, or while a graph is being built)

NumPy and OpenVINO, which have no kernel of their own, take the generic one.
"""

from importlib import import_module

import keras

_backend = keras.config.backend()
_own = _backend in ("torch", "jax", "tensorflow")
_kernels = import_module(f"{__name__}.{_backend if _own else 'generic'}")

dot_product_attention = _kernels.dot_product_attention
word_counts = _kernels.word_counts
is_traced = _kernels.is_traced

__all__ = ["dot_product_attention", "is_traced", "word_counts"]
