"""The modern Hopfield network as a layer: attention with repeated query updates.

Shapes: B batch, T queries (states), S keys (stored patterns), Dq, Dk, Dv widths, V
width of a head's value, H heads, E width of a head.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from numbers import Integral, Real
from types import SimpleNamespace
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_attention import kernels
from keras_attention.layers.base import checked
from keras_attention.layers.base.arguments import (
    clone_initializer,
    fraction,
    integers,
    one_of,
    policy_of,
    positive,
)
from keras_attention.layers.base.attention_layer import AttentionLayer, Prepared
from keras_attention.layers.base.recording import is_recording, record
from keras_attention.layers.base.serialization import as_config, export
from keras_attention.layers.hopfield import conversions, energies
from keras_attention.layers.hopfield.conversions import PROJECTIONS
from keras_attention.layers.multi_head import projections as multi_head
from keras_attention.layers.multi_head.projections import (
    check_fits,
    empty_cache,
    part,
    projection,
)
from keras_attention.numerics import axes as folding
from keras_attention.ops.attention import full_bias
from keras_attention.ops.heads import attend_projected, hide_queries
from keras_attention.ops.hopfield.energy import NORMALIZERS

Tensor = Any
MAX_STEPS = 100  # the limit for states that do not converge


@export
class Hopfield(AttentionLayer):
    """A modern Hopfield network: moves states towards the patterns that they resemble.

        ξ ← Σₛ pₛ kₛ,  p = softmax(β K ξ)     at each step but the last, K fixed
        o = Σₛ pₛ vₛ,  p = softmax(β K ξ)     at the last step
        output = W_o [o₁, …, o_H]

    The initial states ξ are the projected queries of each head. With one step, the
    layer is multi-head attention with the scale β; `from_multi_head` and
    `to_multi_head` convert the weights. Each further step adds a softmax
    (`update_steps=n` is `update_steps_max=n-1` in the authors' layer). With "softmax",
    the layer does not store the weights between states and patterns, unless it returns
    the weights or applies dropout.

    With `projections=False`, the layer has no projections and retrieves directly from
    the stored patterns: `Hopfield(projections=False)(query, stored)`.

    Args:
        num_heads: H.
        key_dim: E, the width of each head's states and keys; defaults to the width of
            the query / H.
        value_dim: V, the width of each head's values; defaults to `key_dim`.
        update_steps: the number of softmaxes. None iterates each state until it
            converges, independently of the rest of the batch; this mode cannot train.
        beta: β, the inverse temperature: a number, or a list with one number per head.
            Defaults to 1/√E, or to 1 without projections.
        trainable_beta: whether each head learns its β, starting at `beta`. The weight
            is log β, so β stays above 0.
        normalizer: "softmax", "softmax1", "sparsemax", "entmax15" or "hardmax".
        projections: whether to project queries, keys, values and the output; or a dict
            of arguments for the projections, as in `MultiHeadAttention`: `use_bias`,
            `output_shape`, `kernel_initializer`, `bias_initializer`,
            `kernel_regularizer`, `bias_regularizer` and `query_key_normalization`.
        dropout: the fraction of the last step's weights dropped during training.
        tolerance: with `update_steps=None`, a state has converged when it moves by at
            most this distance in one step. The layer takes at most 100 steps.

    Call arguments:
        query: state patterns, (B, T, Dq), or (B, Dq) for one state. With one state, the
            outputs have no T axis.
        value: (B, S, Dv), the values that the weights average.
        key: stored patterns, (B, S, Dk); defaults to the value. Without projections,
            Dk must equal Dq.
        query_mask: booleans (B, T).
        value_mask: booleans (B, S).
        key_mask: booleans (B, S).
        attention_mask: booleans (T, S), (B, T, S) or (B, H, T, S), or a mask object of
            `keras_attention.masks`.
        return_attention_scores: whether to return the last step's weights as well.
        training: whether to apply dropout.
        use_causal_mask: whether state t may attend only to patterns 0 … t.
        bias: a tensor added to β K ξ at every step, (T, S), (H, T, S) or (B, H, T, S).

    Returns:
        The output in the compute dtype: (B, T, Dq) or (B, T, *output_shape), or
        (B, T, Dv) without projections. With `return_attention_scores=True`, also the
        weights p of the last step (B, H, T, S) before dropout.

    Masking:
        As in `MultiHeadAttention`; masks apply at every step. A state with all patterns
        masked gets weights 0 and output 0 from each head.

    Raises:
        ValueError: for sizes or steps that are not positive, a β that is not above 0,
            an unknown normalizer, several heads without projections, arguments that
            belong in `projections`, tensors or masks that do not fit each other, or
            training with `update_steps=None`.

    Example:

    >>> import numpy as np
    >>> from keras_attention.layers import Hopfield
    >>> stored = np.array([[[1, 1, 1, 1], [1, -1, 1, -1], [1, 1, -1, -1]]], "float32")
    >>> noisy = np.array([[[1, -1, 0.2, 0]]], "float32")
    >>> retrieve = Hopfield(beta=4.0, update_steps=None, projections=False)
    >>> np.asarray(retrieve(noisy, stored)).round(2).tolist()
    [[[1.0, -1.0, 1.0, -1.0]]]

    Reference:
        Ramsauer et al., "Hopfield networks is all you need" (2021), equations 3 and 10.
        sparsemax and entmax: Santos et al., "Sparse and structured Hopfield networks"
        (2024); softmax1: Miller, "Attention is off by one" (2023), and Hu et al.,
        "Outlier-efficient Hopfield layers for large Transformer-based models" (2024).
    """

    attention_axes = None  # attends over all axes between the batch and the features

    def __init__(
        self,
        num_heads: int = 1,
        key_dim: int | None = None,
        value_dim: int | None = None,
        update_steps: int | None = 1,
        beta: float | list[float] | None = None,
        trainable_beta: bool = False,
        normalizer: str = "softmax",
        projections: bool | dict[str, Any] = True,
        dropout: float = 0.0,
        tolerance: float = 1e-4,
        **kwargs: Any,
    ) -> None:
        refuse_projected(kwargs)
        check_sizes(num_heads, key_dim, value_dim, projections)
        super().__init__(**kwargs)
        self._widths = {"key_dim": key_dim, "value_dim": value_dim}  # before `build`
        self.num_heads = self.num_key_value_heads = num_heads
        self.key_dim: Any = key_dim
        self.value_dim: Any = value_dim
        self.update_steps = check_steps(update_steps)
        self.beta = check_beta(beta, num_heads)
        self.trainable_beta = trainable_beta
        self.normalizer = one_of("normalizer", normalizer, NORMALIZERS)
        self.projections, options = check_projections(projections)
        self._output_shape = integers("output_shape", options.pop("output_shape"))
        self.query_key_normalization = options.pop("query_key_normalization")
        self._options = SimpleNamespace(**options)
        self.dropout = fraction("dropout", dropout)
        self.tolerance = check_tolerance(tolerance)
        self._query_norm = self._key_norm = self._gate_dense = None
        self._log_beta: Any = None

    def build(self, query_shape: Any, value_shape: Any, key_shape: Any = None) -> None:
        memory = value_shape or query_shape  # no value: an outer layer has the memory
        query, value, key = checked.with_time(query_shape, memory, key_shape)
        if not self.projections:
            check_static(query, value, key)
            self.key_dim, self.value_dim = key[-1], value[-1]
        if self.key_dim is None:
            width, remainder = divmod(query[-1], self.num_heads)
            if remainder:
                raise ValueError(
                    "`num_heads` must divide the width of the query, unless `key_dim` "
                    f"is given. Received: num_heads={self.num_heads}, width={query[-1]}"
                )
            self.key_dim = width
        if self.value_dim is None:
            self.value_dim = self.key_dim
        checked.check_inputs(query, value, key, None)
        shapes = (query, value, key) if value_shape else (query,)
        multi_head.build_projections(self, *shapes)
        self._projections = multi_head.Projections(self)
        first = self._first_betas()
        if self.trainable_beta:
            self._log_beta = self.add_weight(
                (self.num_heads,),
                lambda shape, dtype: ops.cast(np.log(first), dtype),
                name="log_beta",
            )
        # β relative to 1/√E, the scale of attention. This ratio is often 1.
        sharpness = first * self.key_dim**0.5
        self._fixed = None if np.allclose(sharpness, 1, 0, 1e-12) else sharpness
        self.built = True

    def _make_last(self, query: tuple) -> Any:
        """Returns the projection of the heads to the output, which is not built."""
        self._dropout_layer = keras.layers.Dropout(
            self.dropout, dtype=self.dtype_policy
        )
        width = self.output_shape or (query[-1],)
        return self._make_dense(len(query) + 1, width, "attention_output", bound=2)

    def _make_dense(self, rank: int, width: tuple, name: str, bound: int = 1) -> Any:
        """Returns a projection of inputs of this rank, which is not built."""
        if not self.projections:
            # Reshape to one head, (B, ·, 1, E), and back to (B, ·, V).
            dense = keras.layers.Reshape(
                (-1, *width), dtype=self.dtype_policy, name=name
            )
            dense.supports_masking = True  # prevents a warning about input masks
            return dense
        options = vars(self._options).items()
        cloned = {key: clone_initializer(option) for key, option in options}
        dtype = policy_of(self, name)
        return projection(rank, width, name, bound=bound, dtype=dtype, **cloned)

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
        masks = checked.Masks(query_mask, value_mask, key_mask, attention_mask)
        query, masks, bias, single = checked.check_call(
            query, value, key, masks, self.num_heads, None, bias
        )
        axes, project = tuple(range(1, len(query.shape) - 1)), self._projections
        heads = project.queries(query), project.keys(key), project.values(value)
        if len(query.shape) > 3:
            checked.check_order(self, axes, use_causal_mask)
            heads = tuple(folding.fold(x, axes) for x in heads)  # (B, T, ·, ·)
            masks, bias = checked.fold_masks(masks, bias, query, key, axes)
        if bias is not None:
            bias = full_bias(bias, *heads[:2])
        recording = is_recording()
        masked = any(mask is not None for mask in masks)
        retrieved, weights = self._retrieve(
            heads,
            checked.merge_masks_of_heads(masks) if masked else None,
            return_attention_scores or recording is not None,
            training,
            use_causal_mask,
            bias,
        )
        output, weights = project.finish(
            retrieved, weights, query, key, masks.query, axes, single
        )
        if recording is not None:
            record(self.path, weights)
        return (output, weights) if return_attention_scores else output

    def _retrieve(
        self,
        heads: tuple[Tensor, Tensor, Tensor],
        mask: Tensor | None,
        return_weights: bool,
        training: bool | None = None,
        causal: bool = False,
        bias: Tensor | None = None,
        dropout_mask: Tensor | None = None,
    ) -> tuple[Tensor, Tensor | None]:
        """Runs all steps; returns the heads' outputs (B, T, H, V) and last weights.

        The heads are states (B, T, H, E), stored keys (B, S, H, E) and values. A mask,
        a bias and the factors of the last weights broadcast to (B, H, T, S).
        """
        state, key, value = heads
        recording = energies.is_recording()
        if recording is not None and bias is None:
            energies.record(recording, self, state, key, mask, causal, MAX_STEPS)
        sharpness = self._sharpness(state.dtype)
        scoring = mask, self.key_dim**-0.5, self.normalizer, bias

        def attend(state: Tensor, value: Tensor, **options: Any) -> Any:
            # Σₛ pₛ vₛ with p = softmax(β K ξ)
            state = state if sharpness is None else state * sharpness
            return attend_projected(state, key, value, *scoring, **options)

        def update(state: Tensor) -> Tensor:
            return attend(state, key, is_causal=causal)[0]  # ξ ← Kᵀ softmax(β K ξ)

        if self.update_steps is None:
            check_training(self.update_steps, training)
            state = iterate_until_rest(update, state, self.tolerance)
        for _ in range((self.update_steps or 1) - 1):
            state = update(state)
        return attend(
            state,
            value,
            dropout=self.dropout if training else 0.0,
            seed=getattr(self._dropout_layer, "seed_generator", None),
            dropout_mask=dropout_mask,
            is_causal=causal,
            return_weights=return_weights,
        )

    @property
    def output_shape(self) -> Any:
        """The shape of the last axes of the output, or None for that of the query."""
        return self._output_shape if self.projections else (self.value_dim,)

    query_dense = part("_query_dense", "The projection of the queries.")
    key_dense = part("_key_dense", "The projection of the keys.")
    value_dense = part("_value_dense", "The projection of the values.")
    output_dense = part("_output_dense", "The projection of the heads.")

    def compute_output_shape(
        self, query_shape: Any, value_shape: Any, key_shape: Any = None
    ) -> tuple:
        if not self.projections:
            check_static(*checked.with_time(query_shape, value_shape, key_shape))
        shape = multi_head.output_shape_of(self, query_shape, value_shape, key_shape)
        return shape if self.projections else (*shape[:-1], value_shape[-1])

    def compute_output_spec(self, *args: Any, **kwargs: Any) -> Any:
        return multi_head.output_spec(self, *args, **kwargs)

    @property
    def betas(self) -> np.ndarray:
        """The current β of each head, (H,) float64; the layer must be built."""
        checked.check_usable(self, "betas", None)
        if self._log_beta is None:
            return self._first_betas()
        return np.exp(ops.convert_to_numpy(self._log_beta.value).astype("float64"))

    @property
    def projection_weights(self) -> list[Any]:
        """The weights except β, in the order of `MultiHeadAttention`."""
        return [weight for weight in self.weights if weight is not self._log_beta]

    def states(self, query: Tensor) -> Tensor:
        """Projects queries to initial states.

        This method is for an outer layer. The Hopfield layer must be built.

        Args:
            query: (B, T, Dq).

        Returns:
            The states (B, T, H, E).
        """
        checked.check_usable(self, "states", query)
        return self._projections.queries(ops.cast(query, self.compute_dtype))

    def scaled_states(self, query: Tensor) -> Tensor:
        """Projects queries to β ξ, (B, T, H, E); see `states`."""
        states = self.states(query)
        sharpness = self._sharpness(states.dtype)
        states = states if sharpness is None else states * sharpness
        return states * self.key_dim**-0.5

    def associate(
        self,
        states: Tensor,
        prepared: Prepared,
        query_mask: Tensor | None = None,
        return_weights: bool = False,
        training: bool | None = None,
    ) -> tuple[Tensor, Tensor | None]:
        """Runs all update steps on projected states and a projected memory.

        This method is for an outer layer. The Hopfield layer must be built.

        Args:
            states: the result of `states`, (B, T, H, E).
            prepared: the result of `prepare`.
            query_mask: booleans (B, T), or None.
            return_weights: whether to return the weights.
            training: whether to apply dropout.

        Returns:
            The output (B, T, ·) and the weights (B, H, T, S). The weights may be None
            with `return_weights=False`.
        """
        checked.check_usable(self, "associate", states)
        mask = prepared.mask
        mask = None if mask is None else ops.expand_dims(mask, (1, 2))  # (B, 1, 1, S)
        heads = states, prepared.key, prepared.value
        retrieved, weights = self._retrieve(heads, mask, return_weights, training)
        if query_mask is not None:
            retrieved, weights = hide_queries(query_mask, retrieved, weights)
        return self._projections.output(retrieved, states), weights

    @classmethod
    def from_multi_head(cls, layer: Any, **kwargs: Any) -> Hopfield:
        """Creates a Hopfield layer with the weights of an attention layer.

        Args:
            layer: a `MultiHeadAttention` of this package or of Keras. If it is built,
                its weights are copied.
            **kwargs: further arguments, such as `update_steps=3`.

        Returns:
            A `Hopfield` with one update step, unless `kwargs` changes it.

        Raises:
            ValueError: for another layer, or for an option that `Hopfield` lacks: fewer
                key heads, a position, a window, a gate, sinks, a soft cap or axes.

        Example:

        >>> import numpy as np
        >>> from keras import ops
        >>> from keras_attention.layers import Hopfield, MultiHeadAttention
        >>> x = np.random.default_rng(0).normal(size=(2, 5, 8)).astype("float32")
        >>> attention = MultiHeadAttention(4, 2)
        >>> expected = attention(x, x)
        >>> found = Hopfield.from_multi_head(attention)(x, x)
        >>> bool(ops.all(ops.abs(found - expected) < 1e-6))
        True
        """
        return conversions.from_multi_head(cls, layer, **kwargs)

    def to_multi_head(self, **kwargs: Any) -> Any:
        """Converts this layer with one update step to `MultiHeadAttention`.

        The new layer has the scale 1/√E, so β is merged into its query projection.

        Args:
            **kwargs: arguments of the layer, such as its name.

        Returns:
            A built `MultiHeadAttention` with the weights of this layer.

        Raises:
            RuntimeError: if this layer is not built.
            ValueError: for a layer without projections or with more than one step; or
                if β cannot be merged because queries are normalized after the
                projection.
        """
        checked.check_usable(self, "to_multi_head", None)
        return conversions.to_multi_head(self, **kwargs)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), **self._widths}

    def _first_betas(self) -> np.ndarray:
        """Returns the initial β of each head, (H,) float64."""
        default = self.key_dim**-0.5 if self.projections else 1.0
        betas = default if self.beta is None else np.asarray(self.beta, "float64")
        return np.broadcast_to(betas, (self.num_heads,)).astype("float64")

    def sample(self, shape: tuple[Any, Any, Any], training: bool | None) -> Any:
        check_training(self.update_steps, training)
        return multi_head.sample_heads(self, shape, training)

    def prepare(
        self, value: Tensor, key: Tensor | None = None, mask: Tensor | None = None
    ) -> Prepared:
        return multi_head.prepare_heads(self, value, key, mask)

    def attend_from_state(
        self,
        query: Tensor,
        prepared: Prepared,
        mask: Tensor | None,
        state: Any,
        random: Any,
        return_weights: bool,
    ) -> tuple[Tensor, Tensor | None, Any]:
        check_fits(self, "prepared", query, prepared)
        heads = self._projections.queries(query), prepared.key, prepared.value
        mask = None if mask is None else ops.expand_dims(mask, 1)  # (B, 1, T, S)
        factors = None if random is None else ops.swapaxes(random, 1, 2)
        retrieved, weights = self._retrieve(
            heads, mask, return_weights, dropout_mask=factors
        )
        return self._projections.output(retrieved, query), weights, state

    def initial_cache(
        self, batch: Any, length: int, width: int | None = None
    ) -> Prepared:
        return empty_cache(self, batch, length)

    def output_width(self, query_width: int, value_width: int) -> int:
        if not self.projections:
            return value_width
        return (self.output_shape or (query_width,))[-1]

    def weights_shape(self, batch: Any, queries: Any, keys: Any) -> tuple:
        return (batch, self.num_heads, queries, keys)

    def _sharpness(self, dtype: str) -> Tensor | None:
        """Returns the factors β √E of the states, (H, 1), or None if all are 1."""
        if self._log_beta is not None:
            beta = ops.exp(ops.cast(self._log_beta, "float32"))
            sharpness = beta * self.key_dim**0.5
        elif self._fixed is None:
            return None
        else:
            sharpness = ops.convert_to_tensor(self._fixed.astype("float32"))
        return ops.cast(ops.expand_dims(sharpness, -1), dtype)


def iterate_until_rest(
    update: Callable[[Tensor], Tensor], state: Tensor, tolerance: float
) -> Tensor:
    """Updates states (B, T, H, E) until they converge; they have no gradient then."""

    def goes_on(state: Tensor, moving: Tensor) -> Tensor:
        return kernels.any_left(moving)

    def step(state: Tensor, moving: Tensor) -> tuple[Tensor, Tensor]:
        new = ops.stop_gradient(update(state))
        change = ops.cast(new, "float32") - ops.cast(state, "float32")
        far = ops.sum(change * change, -1, keepdims=True) > tolerance**2
        # Converged states stay fixed while the rest of the batch still moves.
        return ops.where(moving, new, state), ops.logical_and(moving, far)

    state = ops.stop_gradient(state)
    moving = ops.ones_like(ops.sum(state, -1, keepdims=True), dtype="bool")
    start = state, moving
    return ops.while_loop(goes_on, step, start, maximum_iterations=MAX_STEPS)[0]


def check_training(update_steps: int | None, training: bool | None) -> None:
    """Raises a ValueError for training with `update_steps=None`."""
    if training and update_steps is None:
        raise ValueError(
            "`update_steps` must be a number while training, since iteration until "
            "convergence has no gradient. Received: update_steps=None, "
            f"training={training}"
        )


def check_sizes(num_heads: Any, key_dim: Any, value_dim: Any, projections: Any) -> None:
    """Raises a ValueError for invalid or contradictory sizes."""
    positive("num_heads", num_heads)
    for name, width in (("key_dim", key_dim), ("value_dim", value_dim)):
        if width is not None:
            positive(name, width)
        if width is not None and projections is False:
            raise ValueError(
                f"`{name}` is the width of a projection, so it must be None with "
                f"projections=False. Received: {name}={width}"
            )
    if projections is False and num_heads != 1:
        raise ValueError(
            "`num_heads` must be 1 with projections=False, since heads differ in their "
            f"projections. Received: num_heads={num_heads}"
        )


def check_steps(steps: Any) -> int | None:
    """Returns the number of update steps, or None to iterate until convergence."""
    if steps is None:
        return None
    if isinstance(steps, Integral) and not isinstance(steps, bool) and int(steps) >= 1:
        return int(steps)
    raise ValueError(
        "`update_steps` must be a whole number of at least 1, or None to iterate until "
        f"the states converge. Received: update_steps={steps!r}"
    )


def check_tolerance(tolerance: Any) -> float:
    """Returns the tolerance if it is a finite number of at least 0."""
    real = isinstance(tolerance, Real) and not isinstance(tolerance, bool)
    if not (real and 0 <= tolerance < math.inf):
        raise ValueError(
            "`tolerance` must be a number of at least 0. "
            f"Received: tolerance={tolerance!r}"
        )
    return tolerance


def check_beta(beta: Any, heads: int) -> float | list[float] | None:
    """Returns β as a number, a list with one number per head, or None."""
    if beta is None:
        return None
    value = beta.tolist() if isinstance(beta, (np.ndarray, np.generic)) else beta
    several = isinstance(value, (list, tuple))
    each = [*value] if several else [value]
    are_numbers = all(isinstance(b, Real) and not isinstance(b, bool) for b in each)
    if not are_numbers or not all(0 < b < math.inf for b in each):
        raise ValueError(
            "`beta` must be a number above 0, or a list of one for each head. "
            f"Received: beta={beta!r}"
        )
    if several and len(each) != heads:
        raise ValueError(
            f"`beta` must hold a number for each head. Received: beta={beta!r}, "
            f"num_heads={heads}"
        )
    return [float(b) for b in each] if several else float(value)


def check_projections(projections: Any) -> tuple[Any, dict[str, Any]]:
    """Returns the config of `projections`, and all arguments of the projections."""
    arguments = projections if isinstance(projections, dict) else {"": projections}
    if isinstance(projections, bool):
        arguments = {}
    if not arguments.keys() <= PROJECTIONS.keys():
        raise ValueError(
            "`projections` must be True, False or a dict of arguments among "
            f"{list(PROJECTIONS)}. Received: projections={projections!r}"
        )
    options = {**PROJECTIONS, **arguments}
    multi_head.check_scores(options["query_key_normalization"], False, None, "softmax")
    for name in ("kernel_initializer", "bias_initializer"):
        options[name] = keras.initializers.get(options[name])
    for name in ("kernel_regularizer", "bias_regularizer"):
        options[name] = keras.regularizers.get(options[name])
    return as_config(projections), options


def refuse_projected(keywords: dict[str, Any]) -> None:
    """Raises a ValueError for keywords that belong in `projections`."""
    wrong = {name: keywords[name] for name in PROJECTIONS if name in keywords}
    if wrong:
        raise ValueError(
            f"{' and '.join(f'`{name}`' for name in wrong)} must be given as "
            f"`projections={wrong!r}`, to all projections. Received: "
            + ", ".join(f"{name}={value!r}" for name, value in wrong.items())
        )


def check_static(query: Sequence, value: Sequence, key: Sequence) -> None:
    """Checks the shapes of a call of a layer without projections."""
    for name, shape in (("value", value), ("key", key)):
        if len(shape) != 3:
            raise ValueError(
                f"Without projections, `{name}`, which is stored, must have shape "
                f"(batch, patterns, width). Received: {name}_shape={tuple(shape)}"
            )
    if len(query) != 3:
        raise ValueError(
            "Without projections, `query` must have shape (batch, states, width) or "
            f"(batch, width). Received: query_shape={tuple(query)}"
        )
    if query[-1] != key[-1]:
        raise ValueError(
            "Without projections, `query` and the stored patterns must have one width. "
            f"Received: query_shape={tuple(query)}, value_shape={tuple(value)}, "
            f"key_shape={tuple(key)}"
        )
