"""Multi-head attention, a replacement for `keras.layers.MultiHeadAttention`.

Shapes: B batch, T queries, S keys, P positions of a cache, Dq, Dk, D widths, V width of
a value, H heads, G heads of keys and values, E width of a head.
"""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
from keras import ops

from keras_attention.layers import positions
from keras_attention.layers.base import checked
from keras_attention.layers.base.arguments import (
    fraction,
    integers,
    pass_on_policies,
    policy_of,
    positive,
    resolve_normalizer,
)
from keras_attention.layers.base.attention_layer import (
    AttentionLayer,
    Prepared,
    check_room,
    write_steps,
)
from keras_attention.layers.base.checked import check_usable
from keras_attention.layers.base.recording import is_recording, record
from keras_attention.layers.base.serialization import as_config, export
from keras_attention.layers.multi_head import keras_subclasses, projections
from keras_attention.layers.multi_head.keras_subclasses import KerasMethods
from keras_attention.numerics import axes as folding
from keras_attention.numerics import masks
from keras_attention.ops.attention import full_bias
from keras_attention.ops.heads import attend_projected

Tensor = Any
# The arguments of `keras.layers.GroupQueryAttention` with another name here.
GROUPED = {"head_dim": "key_dim", "num_query_heads": "num_heads"}


@export
class MultiHeadAttention(KerasMethods, AttentionLayer):
    """Multi-head or grouped-query attention: replaces Keras' `MultiHeadAttention`.

        headₕ  = softmax(Wₕ q · (Uₕ k)ᵀ / √E) Vₕ v
        output = O [head₁, …, head_H]

    The scale is 1/√E. For another one, use `Hopfield(beta=…)`, which is this layer with
    one step.

    It has the arguments of `keras.layers.MultiHeadAttention`, the same call, the same
    weights in the same order, and the same results. It fixes these defects of Keras'
    layer: the masks of the inputs stay unchanged, an explicit `query_mask` has an
    effect, a fully masked query gets output 0 from every head on every path, and a
    dropout rate does not slow down inference.

    Args:
        num_heads: H, the number of query heads.
        key_dim: E, the width of each head's queries and keys.
        value_dim: the width of each head's values; defaults to `key_dim`.
        dropout: the fraction of attention weights dropped during training.
        use_bias: whether the projections have biases.
        output_shape: the sizes of the last axes of the output; defaults to the width of
            the query.
        attention_axes: the axes to attend over; defaults to all axes except the batch
            and the features.
        sliding_window: w; query t attends only to keys s with |t − s| < w, before and
            after t unless the call is causal. None for no window.
        flash_attention: False always computes the weights explicitly; None and True use
            the backend's fused attention where it supports the call.
        kernel_initializer: the initializer of the kernels.
        bias_initializer: the initializer of the biases.
        kernel_regularizer: the regularizer of the kernels.
        bias_regularizer: the regularizer of the biases.
        activity_regularizer: the regularizer of the outputs of the projections.
        kernel_constraint: the constraint of the kernels.
        bias_constraint: the constraint of the biases.
        use_gate: whether to multiply each head's output by a sigmoid of a projection
            of the query.
        seed: the random seed of the dropout.
        num_key_value_heads: G, the number of key and value heads, which must divide H.
            A number below H gives grouped-query attention, and 1 gives multi-query
            attention. Defaults to H.
        normalizer: "softmax", "softmax1", "sparsemax", "entmax15", "hardmax" or
            "linear"; or a registered callable f(scores, mask).
        position: "rotary", "alibi", "relative", or a layer `RotaryEmbedding`,
            `AlibiBias` or `RelativePositionBias`.
        query_key_normalization: "rms" or "layer" normalizes the E entries of each query
            and key before rotation and comparison. Queries and keys have separate
            learned scales, shared by the heads.
        attention_sinks: whether each head has a learned sink score without a value.
            The sink takes part in the softmax, so the weights sum to less than one.
        soft_cap: c; each score z becomes c tanh(z / c) before any bias is added. None
            for no cap.

    Call arguments:
        query: (B, T, Dq), or (B, Dq) for one query. With one query, the outputs have
            no T axis. More axes are allowed between the first and the last.
        value: (B, S, V).
        key: (B, S, Dk); defaults to the value.
        query_mask: booleans (B, T).
        value_mask: booleans (B, S).
        key_mask: booleans (B, S).
        attention_mask: booleans (T, S), (B, T, S) or (B, H, T, S), or a mask object of
            `keras_attention.masks`.
        return_attention_scores: whether to return the weights as well.
        training: whether to apply dropout.
        use_causal_mask: whether query t may attend only to keys 0 … t.
        bias: a tensor added to the scores before the normalizer, (T, S), (H, T, S) or
            (B, H, T, S).

    Returns:
        The output, (B, T, Dq) or (B, T, *output_shape), in the compute dtype. With
        `return_attention_scores=True`, also the weights (B, H, T, S) before dropout.

    Masking:
        Boolean, True = may attend; numbers 0 and 1 are accepted. If a mask is not
        given, the mask that the tensor carries is used, and the layer does not modify
        it. A fully masked query gets weights 0 and output 0 from each head, so the
        output is the bias of the output projection. The output carries the mask of the
        query tensor.

    Raises:
        ValueError: for sizes that are not positive; a `num_key_value_heads` that does
            not divide `num_heads`; an odd `key_dim` with rotary positions; an unknown
            name; sinks with a normalizer other than the softmax; tensors or masks that
            do not fit each other; or a causal mask, window or position over several
            axes.

    Example:

    >>> import numpy as np
    >>> from keras_attention.layers import MultiHeadAttention
    >>> words = np.random.default_rng(0).normal(size=(2, 5, 8)).astype("float32")
    >>> attention = MultiHeadAttention(4, 2, num_key_value_heads=2, position="rotary")
    >>> output, weights = attention(
    ...     words, words, use_causal_mask=True, return_attention_scores=True
    ... )
    >>> tuple(output.shape), tuple(weights.shape)
    ((2, 5, 8), (2, 4, 5, 5))

    Reference:
        Vaswani et al., "Attention is all you need" (2017), section 3.2; shared heads:
        Shazeer, "Fast Transformer decoding" (2019), Ainslie et al., "GQA" (2023); the
        gate: Qiu et al., "Gated attention for large language models" (2025);
        normalized queries and keys: Henry et al., "Query-key normalization for
        Transformers" (2020), this form: Dehghani et al., "Scaling vision Transformers
        to 22 billion parameters" (2023), section 2; sinks: Xiao et al., "Efficient
        streaming language models with attention sinks" (2024), this form: OpenAI,
        "gpt-oss-120b & gpt-oss-20b model card" (2025); the soft cap: Gemma Team,
        "Gemma 2" (2024), section 2.
    """

    attention_axes: Any = None  # Keras' layer has properties of these names

    def __init__(
        self,
        num_heads: int,
        key_dim: int,
        value_dim: int | None = None,
        dropout: float = 0.0,
        use_bias: bool = True,
        output_shape: Any = None,
        attention_axes: Any = None,
        sliding_window: int | None = None,
        flash_attention: bool | None = None,
        kernel_initializer: Any = "glorot_uniform",
        bias_initializer: Any = "zeros",
        kernel_regularizer: Any = None,
        bias_regularizer: Any = None,
        activity_regularizer: Any = None,
        kernel_constraint: Any = None,
        bias_constraint: Any = None,
        use_gate: bool = False,
        seed: int | None = None,
        num_key_value_heads: int | None = None,
        normalizer: Any = "softmax",
        position: Any = None,
        query_key_normalization: str | None = None,
        attention_sinks: bool = False,
        soft_cap: float | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        groups = num_heads if num_key_value_heads is None else num_key_value_heads
        self._num_heads = positive("num_heads", num_heads)
        if num_heads % positive("num_key_value_heads", groups):
            raise ValueError(
                "`num_key_value_heads` must divide `num_heads`. Received: "
                f"num_heads={num_heads}, num_key_value_heads={groups}"
            )
        self.num_key_value_heads = groups
        self._key_dim = positive("key_dim", key_dim)
        value_dim = key_dim if value_dim is None else value_dim
        self._value_dim = positive("value_dim", value_dim)
        self._inverse_sqrt_key_dim = self._key_dim**-0.5
        self._dropout = fraction("dropout", dropout)
        self._use_bias = use_bias
        # Only the projections use it. Keras would apply an attribute
        # `activity_regularizer` to the output of this layer.
        self._activity_regularizer = keras.regularizers.get(activity_regularizer)
        self._output_shape = integers("output_shape", output_shape)
        self.attention_axes = integers("attention_axes", attention_axes)
        if sliding_window is not None:
            sliding_window = positive("sliding_window", sliding_window)
        self.sliding_window = sliding_window
        self.flash_attention = flash_attention
        self._kernel_initializer = keras.initializers.get(kernel_initializer)
        self._bias_initializer = keras.initializers.get(bias_initializer)
        self._kernel_regularizer = keras.regularizers.get(kernel_regularizer)
        self._bias_regularizer = keras.regularizers.get(bias_regularizer)
        self._kernel_constraint = keras.constraints.get(kernel_constraint)
        self._bias_constraint = keras.constraints.get(bias_constraint)
        self.use_gate = use_gate
        self.seed = seed
        self.normalizer = resolve_normalizer(normalizer)
        self.position: Any = positions.get(position, dtype=self.dtype_policy)
        self.query_key_normalization = query_key_normalization
        self.attention_sinks = attention_sinks
        self.soft_cap = soft_cap
        projections.check_scores(
            query_key_normalization, attention_sinks, soft_cap, self.normalizer
        )
        self._query_norm = self._key_norm = self._gate_dense = None
        self._projections = projections.Projections(self)
        self._sinks: Any = None  # the sink score of each head, (H,)

    def build(self, query_shape: Any, value_shape: Any, key_shape: Any = None) -> None:
        shapes = checked.with_time(query_shape, value_shape, key_shape)
        checked.check_inputs(*shapes, self.attention_axes)
        projections.build_projections(self, *shapes)
        if self.position is not None:
            pass_on_policies(self, self.position)
            self.position.build_for(self._num_heads, self._key_dim)
        if self.attention_sinks:
            shape = (self._num_heads,)
            self._sinks = self.add_weight(shape, "zeros", name="attention_sinks")
        self.built = True

    def _make_dense(
        self, rank: int, width: tuple, name: str, common: Any = None, **options: Any
    ) -> Any:
        """Returns a projection of inputs of this rank, which is not built."""
        options = {**(common or self._get_common_kwargs_for_sublayer()), **options}
        if options.get("dtype") is self.dtype_policy:  # an override may choose another
            options["dtype"] = policy_of(self, name)
        return projections.projection(rank, width, name, self._use_bias, **options)

    def _make_last(self, query: tuple) -> Any:
        """Returns the projection of the heads to the output, which is not built."""
        self._build_attention(len(query) + 1)
        common = self._get_common_kwargs_for_sublayer()
        return self._make_output_dense(query, common, "attention_output")

    def call(
        self,
        query: Tensor,
        value: Tensor,
        key: Tensor | None = None,
        query_mask: Tensor | None = None,
        value_mask: Tensor | None = None,
        key_mask: Tensor | None = None,
        attention_mask: Tensor | None = None,
        return_attention_scores: bool = False,
        training: bool | None = None,
        use_causal_mask: bool = False,
        bias: Tensor | None = None,
    ) -> Any:
        key = value if key is None else key
        call_masks = checked.Masks(query_mask, value_mask, key_mask, attention_mask)
        query, call_masks, bias, single = checked.check_call(
            query, value, key, call_masks, self._num_heads, self.attention_axes, bias
        )
        axes, project = self._attention_axes, self._projections
        heads = project.queries(query), project.keys(key), project.values(value)
        if len(query.shape) > 3:
            checked.check_order(self, axes, use_causal_mask)
            heads = tuple(folding.fold(x, axes) for x in heads)  # (B, T, ·, ·)
            call_masks, bias = checked.fold_masks(call_masks, bias, query, key, axes)
        if self.position is not None:
            heads, bias = self._place(heads, bias)
        if bias is not None:
            bias = full_bias(bias, *heads[:2])
        recording = is_recording()
        return_weights = return_attention_scores or recording is not None
        if self._is_subclass:
            call_masks = checked.with_array(call_masks, *heads[:2])
            options = training, use_causal_mask
            attended, weights = keras_subclasses.attend(
                self, heads, call_masks, bias, return_weights, *options
            )
        else:
            masked = any(mask is not None for mask in call_masks)
            attended, weights = attend_projected(
                *heads,
                checked.merge_masks_of_heads(call_masks) if masked else None,
                self._inverse_sqrt_key_dim,
                self.normalizer,
                bias,
                dropout=self._dropout if training else 0.0,
                seed=getattr(self._dropout_layer, "seed_generator", None),
                soft_cap=self.soft_cap,
                sink=self._sinks,
                is_causal=use_causal_mask,
                sliding_window=self.sliding_window,
                return_weights=return_weights,
                fused=self.flash_attention is not False,
            )
        output, weights = project.finish(
            attended, weights, query, key, call_masks.query, axes, single
        )
        if recording is not None:
            record(self.path, weights)
        return (output, weights) if return_attention_scores else output

    def _place(
        self, heads: tuple[Tensor, ...], bias: Tensor | None
    ) -> tuple[tuple[Tensor, ...], Tensor | None]:
        """Rotates queries and keys of a call, and adds the bias of the position."""
        query, key, value = heads
        t, s = (masks.positions(ops.shape(x)[1]) for x in (query, key))
        position_bias = self._position_bias(t, s)
        if position_bias is not None and bias is not None:
            bias = ops.cast(position_bias, "float32") + ops.cast(bias, "float32")
        elif bias is None:
            bias = position_bias
        return (self._rotate(query, t), self._rotate(key, s), value), bias

    def _rotate(self, x: Tensor, position: Tensor) -> Tensor:
        """Rotates queries or keys (B, T, H, E) at positions (T,) or (B, T)."""
        if self.position is None:
            return x
        # A position layer may have another compute dtype than this layer.
        return ops.cast(self.position.rotate(x, position), x.dtype)

    def _position_bias(self, t: Tensor, s: Tensor) -> Tensor | None:
        """Returns the position's bias, which broadcasts to (B, H, T, S), or None."""
        bias = None if self.position is None else self.position.bias(t, s)
        if bias is None or len(bias.shape) == 4:
            return bias
        return ops.expand_dims(bias, 0)  # (1, H, T, S)

    def compute_output_shape(
        self, query_shape: Any, value_shape: Any, key_shape: Any = None
    ) -> tuple:
        return projections.output_shape_of(self, query_shape, value_shape, key_shape)

    def compute_output_spec(self, *args: Any, **kwargs: Any) -> Any:
        return projections.output_spec(self, *args, **kwargs)

    def output_width(self, query_width: int, value_width: int) -> int:
        return (self._output_shape or (query_width,))[-1]

    def weights_shape(self, batch: Any, queries: Any, keys: Any) -> tuple:
        return (batch, self._num_heads, queries, keys)

    @property
    def _counts(self) -> bool:
        """Whether the attention depends on the positions of queries."""
        return self.position is not None or self.sliding_window is not None

    def initial_state(self, prepared: Prepared) -> Any:
        """Returns the position of the next query, (B,) float32, or `()` if unused."""
        if not self._counts:
            return ()
        return ops.zeros((ops.shape(prepared.key)[0],), "float32")

    def state_shapes(self, shape: tuple[Any, Any]) -> list[tuple]:
        return [shape[:1]] if self._counts else []

    @property
    def separates_texts(self) -> bool:
        return True  # only distances between positions count

    def sample(self, shape: tuple[Any, Any, Any], training: bool | None) -> Any:
        return projections.sample_heads(self, shape, training)

    def prepare(
        self, value: Tensor, key: Tensor | None = None, mask: Tensor | None = None
    ) -> Prepared:
        prepared = projections.prepare_heads(self, value, key, mask)
        if self.position is None:
            return prepared
        s = masks.positions(ops.shape(prepared.key)[1])
        return prepared._replace(key=self._rotate(prepared.key, s))

    def attend_from_state(
        self,
        query: Tensor,
        prepared: Prepared,
        mask: Tensor | None,
        state: Any,
        random: Any,
        return_weights: bool,
    ) -> tuple[Tensor, Tensor | None, Any]:
        projections.check_fits(self, "prepared", query, prepared)
        q, bias = self._projections.queries(query), None
        if self._counts:
            if isinstance(state, tuple):  # in a step: the positions (T,) and (P,)
                t, s = state
            else:
                steps = ops.shape(query)[1]
                first = ops.cast(ops.expand_dims(state, 1), "int32")  # (B, 1)
                t = masks.positions(steps, first)  # (B, T)
                s = masks.positions(ops.shape(prepared.key)[1])
                state = state + ops.cast(steps, state.dtype)
            q, bias = self._rotate(q, t), self._position_bias(t, s)
            if self.sliding_window is not None:
                mask = masks.merge(mask, masks.near(t, s, self.sliding_window))
        factors = None if random is None else ops.swapaxes(random, 1, 2)
        heads = q, prepared.key, prepared.value
        if self._is_subclass:
            attended, weights = keras_subclasses.attend(
                self, heads, mask, bias, return_weights, dropout_mask=factors
            )
        else:
            attended, weights = attend_projected(
                *heads,
                mask if mask is None else ops.expand_dims(mask, 1),  # (B, 1, T, S)
                self._inverse_sqrt_key_dim,
                self.normalizer,
                bias,
                dropout_mask=factors,
                soft_cap=self.soft_cap,
                sink=self._sinks,
                return_weights=return_weights,
                fused=self.flash_attention is not False,
            )
        return self._projections.output(attended, query), weights, state

    def initial_cache(
        self, batch: Any, length: int, width: int | None = None
    ) -> Prepared:
        """Returns an empty cache for `step`.

        The cache is at most as long as the sliding window: new positions overwrite
        those that have left the window.
        """
        return projections.empty_cache(self, batch, length, self.sliding_window)

    def _check_steps(self, method: str, inputs: Tensor | None = None) -> None:
        check_usable(self, method, inputs)
        if self._is_subclass:
            keras_subclasses.check_steps(self, is_causal=True)

    def _extend(
        self, cache: Prepared, inputs: Tensor, mask: Tensor, index: Any, t: Tensor
    ) -> tuple[Prepared, Tensor, Any, Prepared]:
        projections.check_fits(self, "cache", inputs, cache)
        if cache.key.shape[1] != self.sliding_window:  # a ring buffer always has room
            check_room(inputs, cache, index)
        keys = self._rotate(self._projections.keys(inputs), t)
        new = Prepared(keys, self._projections.values(inputs), mask)
        memory, s, cache = write_cache(cache, new, index, t, self.sliding_window)
        return memory, s, (t, s) if self._counts else (), cache

    @classmethod
    def from_keras(cls, layer: Any) -> MultiHeadAttention:
        """Creates the layer from an attention layer of Keras, with its weights.

        Args:
            layer: a `keras.layers.MultiHeadAttention` or
                `keras.layers.GroupQueryAttention`.

        Returns:
            A layer with the same name. If `layer` is built, the new layer is built and
            has the same weights.

        Raises:
            ValueError: for any other layer, including subclasses; or if a projection
                has weights other than kernel and bias, as after `enable_lora` or
                `quantize`.
        """
        kinds = (keras.layers.MultiHeadAttention, keras.layers.GroupQueryAttention)
        if type(layer) not in kinds:
            is_subclass = isinstance(layer, kinds)
            reason = ", a subclass, whose changes would be lost" if is_subclass else ""
            raise ValueError(
                "`layer` must be a keras.layers.MultiHeadAttention or "
                f"keras.layers.GroupQueryAttention. Received: layer={layer!r}{reason}"
            )
        config = layer.get_config()
        if isinstance(layer, keras.layers.GroupQueryAttention):
            config = {GROUPED.get(name, name): value for name, value in config.items()}
        made = cls(**config)
        if not layer.built:
            return made
        made.build(**layer.get_build_config()["shapes_dict"])
        weights, wanted = layer.get_weights(), [tuple(w.shape) for w in made.weights]
        if [w.shape for w in weights] != wanted:
            raise ValueError(
                "`layer` must hold a kernel and a bias for each projection: take it "
                "over before `enable_lora` or `quantize`. Received: weights of shapes "
                f"{[w.shape for w in weights]}, not {wanted}"
            )
        made.set_weights(weights)
        return made

    @classmethod
    def from_torch(cls, module: Any, **kwargs: Any) -> MultiHeadAttention:
        """Creates the layer from a `torch.nn.MultiheadAttention`, with its weights.

        Masks in torch have the opposite meaning: True = may not attend.

        Args:
            module: a `torch.nn.MultiheadAttention` with any value of `batch_first`.
            **kwargs: arguments of the layer, such as its name.

        Returns:
            A built layer with the weights of the module.

        Raises:
            ValueError: for any other module, or if the module adds extra keys.
        """
        kind = f"{type(module).__module__}.{type(module).__name__}"
        if kind != "torch.nn.modules.activation.MultiheadAttention":
            raise ValueError(
                "`module` must be a torch.nn.MultiheadAttention. "
                f"Received: module={module!r}"
            )
        if module.bias_k is not None or module.add_zero_attn:
            raise ValueError(
                "`module` must not add keys of its own (`add_bias_kv`, "
                "`add_zero_attn`), for which there is no argument here. "
                f"Received: module={module!r}"
            )
        width, heads, size = module.embed_dim, module.num_heads, module.head_dim
        use_bias = module.in_proj_bias is not None
        made = cls(heads, size, dropout=module.dropout, use_bias=use_bias, **kwargs)
        made.build(*((None, None, n) for n in (width, module.vdim, module.kdim)))
        if module.in_proj_weight is None:
            parts = [_array(getattr(module, f"{x}_proj_weight")) for x in "qkv"]
        else:
            parts = np.split(_array(module.in_proj_weight), 3)
        weights = [part.T.reshape(-1, heads, size) for part in parts]
        last = [_array(module.out_proj.weight).T.reshape(heads, size, width)]
        if use_bias:
            biases = _array(module.in_proj_bias).reshape(3, heads, size)
            weights = [x for pair in zip(weights, biases) for x in pair]
            last.append(_array(module.out_proj.bias))
        made.set_weights([*weights, *last])
        return made

    def get_config(self) -> dict[str, Any]:
        regularizer = as_config(self._activity_regularizer)
        return {**super().get_config(), "activity_regularizer": regularizer}


def write_cache(
    cache: Prepared, new: Prepared, index: Any, t: Tensor, window: int | None
) -> tuple[Prepared, Tensor, Prepared]:
    """Returns the memory to attend to, its positions (·,), and the updated cache.

    A cache as long as the window is a ring buffer: it stores position p in slot
    p mod P.

    Args:
        cache: keys (B, P, G, E), values (B, P, G, V) and their mask (B, P).
        new: keys, values and mask of the next T steps.
        index: the position of the first new step.
        t: the positions of all new steps, (T,).
        window: the sliding window, or None.
    """
    size, steps = ops.shape(cache.key)[1], ops.shape(new.key)[1]
    rolls = window is not None and cache.key.shape[1] == window
    if not rolls or new.key.shape[1] == 1:
        at = index % size if rolls else index
        cache = Prepared(*(write_steps(a, b, at) for a, b in zip(cache, new)))
        held = _ring_positions(t[-1], size) if rolls else masks.positions(size)
        return cache, held, cache
    before = _ring_positions(t[0] - 1, size)
    attended = Prepared(*(ops.concatenate(pair, axis=1) for pair in zip(cache, new)))
    after = _ring_positions(t[-1], size)  # (P,)
    source = ops.clip(after - t[0], 0, steps - 1)

    def rolled(old: Tensor, new_part: Tensor) -> Tensor:
        shape = (1, size, *[1] * (len(old.shape) - 2))
        is_new = ops.reshape(after >= t[0], shape)
        return ops.where(is_new, ops.take(new_part, source, axis=1), old)

    cache = Prepared(*(rolled(old, new_part) for old, new_part in zip(cache, new)))
    return attended, ops.concatenate([before, t]), cache


def _ring_positions(last: Tensor, size: int) -> Tensor:
    """Returns the positions (P,) in a ring buffer after position `last` is written.

    Slot j holds the largest p ≤ last with p mod P = j. If p < 0, the slot is empty.
    """
    place = ops.arange(size)
    return last - (last - place) % size


def _array(parameter: Any) -> np.ndarray:
    return np.asarray(parameter.detach().cpu().double().numpy())  # exact for all
