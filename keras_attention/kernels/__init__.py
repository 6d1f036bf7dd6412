"""Backend-specific kernels, in one folder per operation.

Only this package depends on the running backend. All modules of an operation provide
the same functions:

- `dot_product_attention(query, key, value, mask, scale, is_causal, bias=None)`, see
  :func:`keras_attention.ops.dot_product_attention`
- `local_attention(query, key, value, mask, scale, is_causal, window)`: the same in a
  sliding window, in time and memory that grow linearly with the length; or None where a
  mask of the window is as fast
- `masked_attention(query, key, value, mask, scale)`: the same for a mask object, with
  arrays that broadcast to (B, H, T, S), without an array of T · S; or None where such
  an array is as fast
- `dropout_attention(query, key, value, mask, scale, is_causal, bias, rate, seed)`: the
  same with dropout of the weights, from a `SeedGenerator`, without a random number per
  weight; or None where explicit weights are as fast
- `dense(layer, x)`: the output of an `EinsumDense` layer. `normalize(layer, x)`: that
  of Keras' `LayerNormalization` or `RMSNormalization` of the last axis
- `word_sums(tokens, first, second, table)`: two weighted sums of the embeddings of the
  words of each sentence; (..., L) integers, (..., L) numbers twice and a table (V, D)
  give (..., D) twice. `word_sums_pay(size, length)`: whether it is faster in training
  than a vector per word, for a vocabulary and a length of sentences, which can be None
- `additive(query, key, scale, exact)` and `precompute_key(key)`, see
  :func:`keras_attention.ops.scores.additive`
- `lookup(query, table, count)`: softmax(query xᵀ) x for queries (T, D), where x are the
  first `count` rows of `table`, without storing all scores; or None where
  :mod:`keras_attention.ops.hopfield.streaming` is as fast
- `any_left(moving)`: the condition of a loop that runs while any of the booleans
  `moving` is True; always True where an export unrolls the loop. Steps must leave
  entries unchanged where `moving` is False
- `stable_argsort(x)`: the indices that sort the last axis; ties keep their order
- `is_dynamic(length)`: whether an export that unrolls loops must keep `length` dynamic
- `scan(step, state, inputs)`, see :func:`keras_attention.ops.sequence.loop.scan`
- `segments(step, state, inputs)`: a `scan` over segments, with inputs and outputs of
  shape (segments, steps, B, ...). Only the first state of each segment is stored, and
  the rest is recomputed for the gradients. No gradient flows to tensors that `step`
  closes over, except variables
- `access_memory(interface, memory, mask, options)`: one step of a DNC's memory. It maps
  a `MemoryState` to the words read (B, R, W), the next `MemoryState`, and the
  intermediate results of the step, or None. Where `mask` (B, 1) is 0, nothing is freed
  or written. `trace_memory` is the same in Keras operations, always with these results
- `fade_links(values, slots, weights)`: the sparse links (G, K, M) after a write.
  `follow_links(values, slots, reads)`: the weights f and b (G, M, R). The cost is
  proportional to the number of nonzero links
- `generate(step, state, start, stop, done)`, `read(tensor, index)` and
  `write(tensor, index, values)`, see :mod:`keras_attention.ops.sequence.decoding`
- `compiled(function, variables, jit_compile)`: a compiled version of `function`, whose
  arguments are structures of arrays, numbers and None. It is compiled once per
  combination of shapes and dtypes. Each call reads the current values of the variables
  and may assign to them. `jit_compile` determines whether TensorFlow compiles the graph
  with XLA. `uncompiled` does not compile
- `without_initial_values()`: a context in which JAX creates variables without values,
  which must be assigned later
- `State(objects)`: the attributes of layers and other objects, and on torch the memory
  of the weights; `is_current()` tells whether all are the same as at its creation, and
  is always False where calls cannot be compiled, as with a hook of torch
- `Replayer(function, layers, after)`: calls a function of Keras layers; on torch, it
  replays traced calls, see `replay/torch.py`. `random_input(function)`: the random
  numbers that a function without arguments returns; each replay calls it.
  `decision(flag)`: a boolean tensor as a Python boolean; each replay compares it.
  `expect(condition)`: adds a condition to a trace, beside a check of values that raises
  an error. `will_be_known(tensor)`: whether a call is traced, and its replay will know
  the values of the tensor
- `save_function(path, model, function, spec, rules, plain)`: writes a SavedModel of
  `function`, which maps a tensor of `spec` to a tensor and uses the weights of `model`.
  `rules` are the `Rules` that the file checks. `plain` says whether the function
  neither sorts nor draws random numbers, which JAX requires. NumPy, OpenVINO and torch
  refuse
- `check_distribution()`: raises an error where `keras.distribution` splits no weights,
  on all backends but JAX, as `SPLITS_TENSORS` says. `place(variable, layout)` moves a
  variable to a `TensorLayout`; `bytes_held(variable)` is the number of its bytes on a
  device
- `axis_sizes(mesh, axis, operation)`: the sizes of the axes of a mesh, which must have
  `axis`. `is_local(mesh)`: whether all its devices belong to this process.
  `to_mesh(x, mesh, *axes)` moves a tensor to them. `on_rows(function, table, count,
  tensors, mesh, axis)` calls a function on each device, with the rows of a table that
  the device holds. `ring_attention`, see :func:`keras_attention.ops.ring_attention`.
  They raise an error on all backends but JAX
- `takes_training(layer)`, `in_layer_call()`, `carried_mask(tensor)`,
  `mask_loser(tensor)`, `cast_with_mask(x, dtype)`: access to private names of Keras
- `register_structure(cls)`: makes Keras and JAX walk the arrays of instances of a class
- `is_traced(tensor)`: whether the values of a tensor are unknown, as inside a compiled
  function or while a graph is built. `is_readable(tensor)`: whether they are known and
  in the memory of the host, so that reading them waits for no accelerator
- `is_compiling()`: whether torch's compiler traces this code; False on other backends.
  `warn_of_compiler()`: a warning that Keras' `jit_compile=True` is the reason
- `changes(variables)`: a function that tells whether the values of the variables may
  have changed since; False only where the backend proves it. It reads them on torch,
  and on TensorFlow after a sparse gradient
- `COMPLEX`, `INTEGERS`: the complex dtypes, and the dtypes of integers and booleans.
  `ERRORS`: the errors that a call with bad inputs can raise

On JAX, kernels with loops over samples or heads keep these split over devices; see
`partitioning/jax.py`.

In each folder, `reference.py` uses Keras operations and runs on every backend; NumPy
and OpenVINO use it. The other files are named after their backends.
"""

from importlib import import_module
from typing import Any

from keras.config import backend as running_backend

from keras_attention.kernels import keras as _keras
from keras_attention.kernels.decoding import reference as _python_loops
from keras_attention.kernels.memory_step import reference as _equations
from keras_attention.kernels.saved_model import reference as _no_saved_model


def _kernel_of(operation: str, *backends: str) -> Any:
    """Returns the module of an operation for the running backend, or the reference.

    `backends` are those that have their own module.
    """
    name = running_backend() if running_backend() in backends else "reference"
    return import_module(f"{__name__}.{operation}.{name}")


_attention = _kernel_of("attention", "jax", "tensorflow", "torch")
_additive = _kernel_of("additive", "jax", "tensorflow", "torch")
_calls = _kernel_of("layer_calls", "torch")
_word_sums = _kernel_of("word_sums", "tensorflow", "torch")
_lookup = _kernel_of("attention", "torch")
_scan = _kernel_of("scan", "jax", "tensorflow", "torch")
_memory = _kernel_of("memory_step", "jax", "tensorflow")
_links = _kernel_of("sparse_links", "jax", "tensorflow", "torch")
_decoding = _kernel_of("decoding", "jax", "tensorflow", "torch")
_replay = _kernel_of("replay", "torch")
_placement = _kernel_of("placement", "jax")
_ring = _kernel_of("ring_attention", "jax")
_saved_model = _kernel_of("saved_model", "jax", "tensorflow")
_tracing = _kernel_of("tracing", "jax", "tensorflow", "torch")

dot_product_attention = _attention.dot_product_attention
local_attention = _attention.local_attention
masked_attention = _attention.masked_attention
dropout_attention = _attention.dropout_attention
additive = _additive.additive
precompute_key = _additive.precompute_key
dense = _calls.dense
normalize = _calls.normalize
word_sums = _word_sums.word_sums
word_sums_pay = _word_sums.word_sums_pay
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
uncompiled = _python_loops.uncompiled
Replayer = _replay.Replayer
State = _replay.State
decision = _replay.decision
expect = _replay.expect
will_be_known = _replay.will_be_known
random_input = _replay.random_input
is_traced = _tracing.is_traced
changes = _tracing.changes
check_distribution = _placement.check_distribution
place = _placement.place
SPLITS_TENSORS = _placement.SPLITS_TENSORS
bytes_held = _placement.bytes_held
axis_sizes = _placement.axis_sizes
is_local = _placement.is_local
to_mesh = _placement.to_mesh
on_rows = _placement.on_rows
ring_attention = _ring.ring_attention
save_function = _saved_model.save_function
is_readable = _tracing.is_readable
register_structure = getattr(_tracing, "register_structure", _keras.register_structure)
is_compiling = getattr(_tracing, "is_compiling", bool)  # bool() is False
warn_of_compiler = getattr(_tracing, "warn_of_compiler", bool)
COMPLEX = _tracing.COMPLEX
INTEGERS = _tracing.INTEGERS
ERRORS = (
    *(AttributeError, LookupError, RuntimeError, TypeError, ValueError),
    *_tracing.ERRORS,
)

carried_mask = _keras.carried_mask
cast_with_mask = _keras.cast_with_mask
in_layer_call = _keras.in_layer_call
is_exporting = _keras.is_exporting
mask_loser = _keras.mask_loser
stable_argsort = _keras.stable_argsort
takes_training = _keras.takes_training
without_initial_values = _keras.without_initial_values
without_masks = _keras.without_masks
MemoryOptions = _equations.MemoryOptions
MemoryState = _equations.MemoryState
trace_memory = _equations.step
Rules = _no_saved_model.Rules
