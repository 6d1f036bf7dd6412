"""Attention by fast weights: linear attention and the gated delta rule.

Shapes: B batch, T queries, S keys, D width of the inputs, H heads, E width of a head's
key, V width of a head's value, K taps of the convolution.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import keras
import numpy as np
from keras import ops

from keras_attention import kernels
from keras_attention.layers.base import attention_layer, checked
from keras_attention.layers.base.arguments import one_of, policy_of, positive
from keras_attention.layers.base.attention_layer import AttentionLayer, Prepared
from keras_attention.layers.base.checked import as_boolean, check_usable
from keras_attention.layers.base.recording import is_recording, record
from keras_attention.layers.base.serialization import export
from keras_attention.layers.multi_head.projections import check_fits, projection
from keras_attention.numerics import masks
from keras_attention.numerics.precision import to_float32
from keras_attention.ops import fast_weights
from keras_attention.ops.heads import hide_queries

Tensor = Any
FEATURES = ("elu", "relu", "silu", "softplus", "exponential", "sigmoid", "linear")
POSITIVE = ("elu", "relu", "softplus", "exponential", "sigmoid")
EPSILON = 1e-6  # added to the squared length of a key


class FastWeightCache(NamedTuple):
    """The memory between two steps; its size does not depend on the length."""

    state: Tensor  # (B, H, E, V), float32; with sums of the keys, (B, H, E, V + 1)
    key: Tensor  # the last K − 1 projected keys, (B, K − 1, H, E)
    value: Tensor  # the last K − 1 projected values, (B, K − 1, H, V)


@export
class FastWeightAttention(AttentionLayer):
    """Attention with a memory matrix per head instead of keys and values.

        k = φ(conv(W_k x)),  v = silu(conv(W_v x)),  q = φ(W_q x)
        S ← a ⊙ S                                   with `decay`
        S ← S − k (e ⊙ k)ᵀ S + k (w ⊙ v)ᵀ           "delta": erases before it writes
        S ← S + k vᵀ                                "linear": only writes
        o = W_o norm(Sᵀ q)

    Time grows linearly with the length, and a step of generation takes constant time
    and memory. By default, it is the gated delta rule: decays and strengths depend on
    the inputs. With `use_causal_mask=True`, query t reads the memory after input t.
    Without it, all values are written in order, and each query reads the last memory.

    Args:
        num_heads: H, the number of heads.
        key_dim: E, the width of each head's queries and keys.
        value_dim: V, the width of each head's values; defaults to `key_dim`.
        rule: "delta" or "linear".
        decay: "head" for a decay a of each head, "channel" for one of each of the E
            channels of a head, or None for a = 1. log a = −exp(c) softplus(W_a x + b).
        strengths: the strengths of the delta rule, sigmoids of a projection: "shared"
            for one number of each head, e = w; "separate" for two numbers; "channel"
            for an e of each channel of the key and a w of each channel of the value.
        feature_map: φ: "elu" (elu(x) + 1), "relu", "silu", "softplus", "exponential",
            "sigmoid", "linear" (φ(x) = x), or a registered callable. Defaults to
            "silu", and to "elu" with `normalization="sum"`.
        normalization: "rms" scales queries and keys to length 1, and the output of each
            head to a root mean square of 1, times learned scales. "sum" needs features
            that are not negative: linear attention divides the output by the sum of the
            weights, and the delta rule divides queries and keys by the sums of their
            features. Defaults to "rms" for "delta" and "sum" for "linear".
        kernel_size: K, the taps of the convolution of keys and values with those of the
            inputs before, separately for each channel; None for no convolution and no
            silu of the values.
        use_gate: whether a sigmoid of a projection of the query gates the heads.

    Call arguments:
        query: (B, T, D), or (B, D) for one query; the outputs then have no T axis.
        value: (B, S, ·).
        key: (B, S, ·); defaults to the value. Decays and strengths depend on the key.
        query_mask, value_mask, key_mask: as in `Attention`.
        attention_mask: must be None.
        return_attention_scores: whether to return the weights as well. Their time and
            memory grow with the square of the length.
        training: has no effect.
        use_causal_mask: whether query t reads the memory after input t.

    Returns:
        The output (B, T, D) in the compute dtype. With `return_attention_scores=True`,
        also the weights (B, H, T, S), with which a head sums its values v (with
        `strengths="channel"`, w ⊙ v) before the normalization. They can be negative and
        need not sum to 1.

    Masking:
        A masked input neither decays nor changes the memory, and the convolution reads
        0 for it. A masked query, and a query of an empty memory, get output 0. The
        output carries the mask of the query tensor.

    Raises:
        ValueError: for sizes that are not positive, an unknown name, a feature map that
            can be negative with `normalization="sum"`, strengths other than "shared"
            with `rule="linear"`, tensors or masks that do not fit, or an
            `attention_mask`.

    Example:

    >>> import numpy as np
    >>> from keras_attention.layers import FastWeightAttention
    >>> words = np.random.default_rng(0).normal(size=(2, 5, 8)).astype("float32")
    >>> attention = FastWeightAttention(num_heads=2, key_dim=4)
    >>> tuple(attention(words, words, use_causal_mask=True).shape)
    (2, 5, 8)

    Reference:
        The default: Yang et al., "Gated Delta networks" (2025), without a convolution
        of the queries, so that each query stands alone. `rule="linear"` with
        `decay=None` and `kernel_size=None`: Katharopoulos et al., "Transformers are
        RNNs" (2020). For other forms see :func:`keras_attention.ops.delta_rule`.
    """

    def __init__(
        self,
        num_heads: int,
        key_dim: int,
        value_dim: int | None = None,
        rule: str = "delta",
        decay: str | None = "head",
        strengths: str = "shared",
        feature_map: Any = None,
        normalization: str | None = None,
        kernel_size: int | None = 4,
        use_gate: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.num_heads = self.num_key_value_heads = positive("num_heads", num_heads)
        self.key_dim = positive("key_dim", key_dim)
        value_dim = key_dim if value_dim is None else value_dim
        self.value_dim = positive("value_dim", value_dim)
        self.rule = one_of("rule", rule, ("delta", "linear"))
        self.decay = one_of("decay", decay, ("head", "channel", None))
        names = ("shared", "separate", "channel")
        self.strengths = one_of("strengths", strengths, names)
        if rule == "linear" and strengths != "shared":
            raise ValueError(
                '`strengths` must be "shared" unless `rule` is "delta". Received: '
                f"strengths={strengths!r}, rule={rule!r}"
            )
        default = "rms" if rule == "delta" else "sum"
        normalization = default if normalization is None else normalization
        self.normalization = one_of("normalization", normalization, ("rms", "sum"))
        default = "silu" if normalization == "rms" else "elu"
        feature_map = default if feature_map is None else feature_map
        name = str(getattr(feature_map, "__name__", None))
        if getattr(keras.activations, name, None) is feature_map:
            if name not in FEATURES or name == "elu":
                raise ValueError(
                    f'`feature_map` must be one of {list(FEATURES)}, where "elu" is '
                    "elu(x) + 1: a file stores a function of `keras.activations` by "
                    f"its name. Received: feature_map={feature_map!r}"
                )
            feature_map = name
        if not callable(feature_map):
            one_of("feature_map", feature_map, FEATURES)
            if normalization == "sum" and feature_map not in POSITIVE:
                raise ValueError(
                    f"`feature_map` must be one of {list(POSITIVE)} with "
                    '`normalization="sum"`, which divides by sums of features. '
                    f"Received: feature_map={feature_map!r}"
                )
        self.feature_map = feature_map
        taps = None if kernel_size is None else positive("kernel_size", kernel_size)
        self.kernel_size, self.use_gate = taps, use_gate

    def build(self, query_shape: Any, value_shape: Any, key_shape: Any = None) -> None:
        query, value, key = checked.with_time(query_shape, value_shape, key_shape)
        heads, width, columns = self.num_heads, self.key_dim, self.value_dim
        self.query_dense = self._dense("query", query, (heads, width))
        self.key_dense = self._dense("key", key, (heads, width))
        self.value_dense = self._dense("value", value, (heads, columns))
        self.decay_dense = self.strength_dense = self.gate_dense = self.norm = None
        if self.decay is not None:
            channels = (heads,) if self.decay == "head" else (heads, width)
            self.decay_dense = self._dense("decay", key, channels, first_decays)
            rates = (heads, 1)[: len(channels)], first_rates
            self.decay_rate = self.add_weight(*rates, name="decay_rate", autocast=False)
        if self.rule == "delta":
            sizes = {"separate": 2, "channel": width + columns}
            size = sizes.get(self.strengths, 1)
            self.strength_dense = self._dense("strength", key, (heads, size), "zeros")
        if self.use_gate:
            self.gate_dense = self._dense("gate", query, (heads, columns), "zeros")
        taps = self.kernel_size or 1
        self.key_taps = self.value_taps = None
        for name, size in (("key_taps", width), ("value_taps", columns)):
            if taps > 1:
                first = keras.initializers.RandomUniform(-(taps**-0.5), taps**-0.5)
                weight = self.add_weight((taps, heads, size), first, name=name)
                setattr(self, name, weight)
        if self.normalization == "rms":
            self.norm = keras.layers.RMSNormalization(
                epsilon=1e-5,
                dtype=policy_of(self, "output_norm"),
                autocast=False,  # sums of many values can exceed half precision
                name="output_norm",
            )
            self.norm.supports_masking = True  # avoids a warning about input masks
            self.norm.build((None, None, heads, columns))
        shape = (*query[:-1], heads, columns)
        self.output_dense = self._dense("attention_output", shape, query[-1:], bound=2)
        self.built = True

    def _dense(
        self, name: str, shape: tuple, width: tuple, bias: Any = None, bound: int = 1
    ) -> Any:
        """Returns a built projection; `bias` is the initializer of its bias, if any."""
        options = {"dtype": policy_of(self, name), "bias_initializer": bias or "zeros"}
        use_bias = bias is not None
        dense = projection(len(shape), width, name, use_bias, bound, **options)
        dense.build(shape)
        return dense

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
    ) -> Any:
        key = value if key is None else key
        call_masks = query_mask, value_mask, key_mask, attention_mask
        query, parts, single = check_call(query, value, key, *call_masks)
        mask, size = masks.merge(parts.value, parts.key), ops.shape(key)[1]
        if use_causal_mask and query is not key:
            key, value, mask = align(ops.shape(query)[1], key, value, mask)
        recording = is_recording()
        return_weights = return_attention_scores or recording is not None
        q, weights = self._queries(query), None
        k, v, gates, _ = self._remember(key, value, mask)
        if use_causal_mask:
            heads, _ = self._run(q, k, v, gates)
            if return_weights:
                weights = fast_weights.weights(q, k, **gates, normalize=self._sums)
        else:
            heads, weights = self._read(q, self._summary(k, v, gates), return_weights)
        output, weights = self._finish(heads, weights, query, parts.query)
        if weights is not None and use_causal_mask:
            weights = ops.pad(weights, [(0, 0)] * 3 + [(0, size)])[..., :size]
        if single:
            output = ops.squeeze(output, axis=1)
            weights = None if weights is None else ops.squeeze(weights, axis=-2)
        if recording is not None:
            record(self.path, weights)
        return (output, weights) if return_attention_scores else output

    @property
    def _sums(self) -> bool:
        """Whether outputs are divided by the sum of the weights."""
        return self.rule == "linear" and self.normalization == "sum"

    def _features(self, x: Tensor) -> Tensor:
        """Returns φ(x), normalized, (B, T, H, E), in float32."""
        x = to_float32(x)
        if self.feature_map == "exponential" and not self._sums:
            x = x - ops.max(x, axis=-1, keepdims=True)  # normalized features stay equal
        x = keras.activations.get(self.feature_map)(x)
        x = x + 1.0 if self.feature_map == "elu" else x
        if self.normalization == "rms":
            length = ops.sum(ops.square(x), axis=-1, keepdims=True)
            return x * ops.rsqrt(length + EPSILON)
        if self.rule == "delta":
            return x / (ops.sum(x, axis=-1, keepdims=True) + EPSILON)
        return x

    def _queries(self, query: Tensor) -> Tensor:
        """Returns the queries of the heads, (B, T, H, E), in float32."""
        return self._features(kernels.dense(self.query_dense, query))

    def _remember(
        self, key: Tensor, value: Tensor, mask: Any, tails: Any = (None, None)
    ) -> tuple[Tensor, Tensor, dict[str, Any], tuple]:
        """Returns keys (B, S, H, E), values (B, S, H, V) and gates, all in float32.

        The gates are arguments of `ops.fast_weights`. `tails` are the last projected
        keys and values of the inputs before. The fourth result is those of the inputs.
        """
        k = kernels.dense(self.key_dense, key)  # (B, S, H, E)
        v = kernels.dense(self.value_dense, value)  # (B, S, H, V)
        if mask is not None:
            valid = mask[:, :, None, None]
            k, v = ops.where(valid, k, 0), ops.where(valid, v, 0)
        k, last_keys = convolve(k, self.key_taps, tails[0])
        v, last_values = convolve(v, self.value_taps, tails[1])
        v = to_float32(v)
        v = v if self.kernel_size is None else ops.silu(v)
        gates = {"mask": mask}
        if self.decay_dense is not None:
            steps = to_float32(kernels.dense(self.decay_dense, key))
            rate = ops.exp(ops.cast(self.decay_rate, steps.dtype))
            gates["log_decay"] = -rate * ops.softplus(steps)  # (B, S, H, ...)
        if self.strength_dense is not None:
            x = ops.sigmoid(to_float32(kernels.dense(self.strength_dense, key)))
            if self.strengths == "channel":
                gates["erase"], write = x[..., : self.key_dim], x[..., self.key_dim :]
                v, gates["write"] = v * write, ops.ones_like(write[..., 0])
            else:
                gates["erase"], gates["write"] = x[..., 0], x[..., -1]
        return self._features(k), v, gates, (last_keys, last_values)

    def _run(
        self, q: Tensor, k: Tensor, v: Tensor, gates: dict[str, Any], state: Any = None
    ) -> tuple[Tensor, Tensor]:
        """Returns the heads (B, T, H, V) of causal queries, and the last state."""
        if self.rule == "delta":
            return fast_weights.delta_rule(q, k, v, **gates, state=state)
        options = {**gates, "normalize": self._sums, "state": state}
        return fast_weights.linear_attention(q, k, v, **options)

    def _summary(self, key: Tensor, values: Tensor, gates: dict[str, Any]) -> Prepared:
        """Returns the keys with which the last state sums the values, and both."""
        keys, mask = fast_weights.last_keys(key, **gates), gates["mask"]
        if mask is not None:
            values = ops.where(mask[:, :, None, None], values, 0.0)
        ones = [ops.ones_like(values[..., :1])] if self._sums else []
        written = ops.concatenate([values, *ones], axis=-1)
        state = ops.einsum("bshe,bshv->bhev", keys, written)
        return Prepared((state, keys), values, mask)

    def _read(self, query: Tensor, prepared: Prepared, return_weights: bool) -> tuple:
        """Returns the heads (B, T, H, V) of queries of the last state, and weights."""
        state, keys = prepared.key
        heads, weights = fast_weights.read(query, state, normalize=self._sums), None
        if return_weights:  # what it reads where each value is a vector of its own
            keys = ops.transpose(keys, (0, 2, 3, 1))  # (B, H, E, S)
            if self._sums:
                keys = ops.concatenate([keys, ops.sum(keys, -1, keepdims=True)], -1)
            weights = fast_weights.read(query, keys, normalize=self._sums)
            weights = ops.swapaxes(weights, 1, 2)  # (B, H, T, S)
        return heads, weights

    def _finish(
        self, heads: Tensor, weights: Any, query: Tensor, query_mask: Any
    ) -> tuple[Tensor, Tensor | None]:
        """Normalizes, gates and projects the heads (B, T, H, V)."""
        if query_mask is not None:
            heads, weights = hide_queries(query_mask, heads, weights)
        if self.norm is not None:
            heads = kernels.normalize(self.norm, heads)
        heads = ops.cast(heads, self.compute_dtype)
        if self.gate_dense is not None:
            heads = heads * ops.sigmoid(kernels.dense(self.gate_dense, query))
        if weights is not None:
            weights = ops.cast(weights, self.compute_dtype)
        return kernels.dense(self.output_dense, heads), weights

    def prepare(
        self, value: Tensor, key: Tensor | None = None, mask: Tensor | None = None
    ) -> Prepared:
        check_usable(self, "prepare", value)
        mask = masks.check("mask", as_boolean("mask", mask), tuple(value.shape[:2]))
        value = ops.cast(value, self.compute_dtype)
        key = value if key is None else ops.cast(key, self.compute_dtype)
        return self._summary(*self._remember(key, value, mask)[:3])

    def attend_from_state(
        self,
        query: Tensor,
        prepared: Prepared,
        mask: Tensor | None,
        state: Any,
        random: Any,
        return_weights: bool,
    ) -> tuple[Tensor, Tensor | None, Any]:
        heads, weights = self._read(self._queries(query), prepared, return_weights)
        rows = None if mask is None else ops.any(mask, axis=-1)  # (B, T)
        output, weights = self._finish(heads, weights, query, rows)
        return output, weights, state

    def initial_cache(self, batch: Any, length: int, width: int | None = None) -> Any:
        """Returns an empty memory for `step`. Its size does not depend on `length`."""
        self._check_steps("initial_cache")
        attention_layer.cache_length(length)
        tail = batch, (self.kernel_size or 1) - 1, self.num_heads
        state = batch, self.num_heads, self.key_dim, self.value_dim + self._sums
        shapes = state, (*tail, self.key_dim), (*tail, self.value_dim)
        state, key, value = (ops.zeros(shape, self.compute_dtype) for shape in shapes)
        return FastWeightCache(to_float32(state), key, value)

    def step(
        self, inputs: Tensor, cache: Any, index: Any, mask: Tensor | None = None
    ) -> tuple[Tensor, Any]:
        """Computes the next outputs of `layer(x, x, use_causal_mask=True)`.

        `record_attention` records no weights of a step: the memory has no keys left.
        The arguments are those of `AttentionLayer.step`.
        """
        self._check_steps("step", inputs)
        inputs = ops.cast(inputs, self.compute_dtype)
        single = len(inputs.shape) == 2
        mask = masks.check("mask", as_boolean("mask", mask), tuple(inputs.shape[:-1]))
        if single:
            inputs = ops.expand_dims(inputs, 1)
            mask = None if mask is None else ops.expand_dims(mask, 1)
        check_fits(self, "cache", inputs, cache)
        k, v, gates, tails = self._remember(inputs, inputs, mask, cache[1:])
        heads, state = self._run(self._queries(inputs), k, v, gates, cache.state)
        output, _ = self._finish(heads, None, inputs, mask)
        cache = FastWeightCache(state, *tails)
        return (ops.squeeze(output, 1) if single else output), cache

    @property
    def separates_texts(self) -> bool:
        return False  # the memory has no borders between texts

    @property
    def gives_shares(self) -> bool:
        return self._sums and self.feature_map in POSITIVE

    def output_width(self, query_width: int, value_width: int) -> int:
        return query_width

    def weights_shape(self, batch: Any, queries: Any, keys: Any) -> tuple:
        return (batch, self.num_heads, queries, keys)

    def compute_output_shape(
        self, query_shape: Any, value_shape: Any, key_shape: Any = None
    ) -> tuple:
        return tuple(query_shape)

    def compute_output_spec(self, *args: Any, **kwargs: Any) -> Any:
        call = checked.call_arguments(self, args, kwargs)
        query, value, key = call["query"], call["value"], call["key"]
        key = value if key is None else key
        check_call(query, value, key, *map(call.get, checked.MASK_NAMES))
        output = keras.KerasTensor(query.shape, self.compute_dtype)
        if not call["return_attention_scores"]:
            return output
        shape = (query.shape[0], self.num_heads, *query.shape[1:-1], key.shape[1])
        return output, keras.KerasTensor(shape, self.compute_dtype)


def check_call(
    query: Tensor, value: Tensor, key: Tensor, *call_masks: Tensor | None
) -> tuple[Tensor, checked.Masks, bool]:
    """Returns the query with a T axis, the masks, and whether it had none."""
    if call_masks[-1] is not None:
        raise ValueError(
            "`attention_mask` must be None: a memory that all inputs share cannot be "
            "hidden from single queries. Use `value_mask` or `use_causal_mask`. "
            f"Received: attention_mask={call_masks[-1]!r}"
        )
    parts = checked.Masks(*map(as_boolean, checked.MASK_NAMES, call_masks))
    query, parts, _, single = checked.check_call(query, value, key, parts)
    return query, parts, single


def align(length: Any, key: Tensor, value: Tensor, mask: Tensor | None) -> tuple:
    """Gives a memory (B, S, ·) the length T of causal queries.

    Later inputs are left out, since no query reads them. Missing inputs are masked.
    """
    if isinstance(length, int) and key.shape[1] == length:
        return key, value, mask
    mask = ops.ones((1, 1), "bool") if mask is None else mask
    mask = ops.broadcast_to(mask, ops.shape(key)[:2])
    room = [(0, 0), (0, length), (0, 0)]
    key, value = (ops.pad(x, room)[:, :length] for x in (key, value))
    return key, value, ops.pad(mask, room[:2])[:, :length]


def convolve(x: Tensor, taps: Any, before: Any) -> tuple[Tensor, Tensor]:
    """Convolves each channel of x (B, S, H, ·) with the K − 1 steps before it.

    `before` holds these steps, (B, K − 1, H, ·); None is 0. Returns the last K − 1
    steps of both, too.
    """
    if taps is None:
        return x, x[:, :0]
    size = taps.shape[0] - 1
    if before is None:
        x = ops.pad(x, ((0, 0), (size, 0), (0, 0), (0, 0)))
    else:
        x = ops.concatenate([before, x], axis=1)  # (B, K − 1 + S, H, ·)
    taps = ops.cast(taps, x.dtype)
    total = sum(x[:, n : n - size or None] * taps[n] for n in range(size + 1))
    return total, x[:, -size:]


def first_decays(shape: Any, dtype: Any = None) -> Tensor:
    """Biases whose softplus are spaced evenly from 0.001 to 0.1 in logarithms."""
    steps = np.geomspace(0.001, 0.1, int(np.prod(shape))).reshape(shape)
    return ops.cast(np.log(np.expm1(steps)), dtype)


def first_rates(shape: Any, dtype: Any = None) -> Tensor:
    """Logarithms of the rates 1 to 16 for the heads."""
    return ops.cast(np.log(np.linspace(1, 16, shape[0])).reshape(shape), dtype)
