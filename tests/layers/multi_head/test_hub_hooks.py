"""What subclasses `keras.layers.MultiHeadAttention` as KerasHub does can subclass ours.

Each subclass is written once, over a base: Keras' layer, then ours. Both get the same
weights and must give the same numbers. They follow KerasHub's layers of Whisper,
Moonshine, DeBERTa and XLNet, and its `CachedMultiHeadAttention`.
"""

import keras
import numpy as np
import pytest
import references
from calling import needs_training
from gradients import to_numpy
from keras import ops

from keras_attention import layers

B, T, S, D, H, E, V = 2, 3, 5, 7, 3, 4, 2


def cached(base):
    """The call is its own; projections and the attention are the base's."""

    class Cached(base):
        def call(
            self,
            query,
            value,
            key=None,
            attention_mask=None,
            cache=None,
            cache_update_index=None,
            return_attention_scores=False,
            training=None,
        ):
            key = value if key is None else key
            query = self._query_dense(query)
            if cache is None:
                key, value = self._key_dense(key), self._value_dense(value)
            elif cache_update_index is None:
                key, value = cache[:, 0, ...], cache[:, 1, ...]
            else:
                start = [0, cache_update_index, 0, 0]
                new = self._key_dense(key), self._value_dense(value)
                key = ops.slice_update(cache[:, 0, ...], start, new[0])
                value = ops.slice_update(cache[:, 1, ...], start, new[1])
                cache = ops.stack((key, value), axis=1)
            output, scores = self._compute_attention(
                query=query,
                key=key,
                value=value,
                attention_mask=attention_mask,
                return_attention_scores=return_attention_scores,
                training=training,
            )
            output = self._output_dense(output)
            found = [output]
            if return_attention_scores:
                found.append(scores)
            if cache is not None:
                found.append(cache)
            return tuple(found) if len(found) > 1 else output

    return Cached


def capped(base):
    """The attention is its own, of queries and keys that the base has projected.

    Its signature is that of Keras before `use_causal_mask` was added.
    """

    class Capped(base):
        def _compute_attention(
            self,
            query,
            key,
            value,
            attention_mask=None,
            training=None,
            return_attention_scores=False,
        ):
            query = ops.multiply(query, self._inverse_sqrt_key_dim)
            scores = ops.einsum(self._dot_product_equation, key, query)
            scores = 2.0 * ops.tanh(scores / 2.0)
            scores = self._masked_softmax(scores, attention_mask)
            dropped = self._dropout_layer(scores, training=training)
            return ops.einsum(self._combine_equation, dropped, value), scores

    return Capped


def sharpened(base):
    """The softmax is its own, as DeBERTa's and Llama's are."""

    class Sharpened(base):
        def _masked_softmax(self, attention_scores, attention_mask=None):
            if attention_mask is not None:
                axis = -len(self._attention_axes) * 2 - 1
                for _ in range(len(attention_scores.shape) - len(attention_mask.shape)):
                    attention_mask = ops.expand_dims(attention_mask, axis=axis)
            return self._softmax(3.0 * attention_scores, mask=attention_mask)

    return Sharpened


def banded(base):
    """The mask is its own: nobody attends to what is two away."""

    class Banded(base):
        def _compute_attention_mask(
            self,
            query,
            value,
            query_mask=None,
            value_mask=None,
            key_mask=None,
            attention_mask=None,
            use_causal_mask=False,
        ):
            mask = super()._compute_attention_mask(
                query,
                value,
                query_mask=query_mask,
                value_mask=value_mask,
                key_mask=key_mask,
                attention_mask=attention_mask,
                use_causal_mask=use_causal_mask,
            )
            rows, columns = ops.shape(query)[1], ops.shape(value)[1]
            away = ops.arange(rows)[:, None] - ops.arange(columns)[None]
            band = ops.not_equal(ops.abs(away), 2)[None]
            return band if mask is None else ops.logical_and(mask, band)

    return Banded


def causal_alone(base):
    """Only the causal mask is its own: one step more is seen."""

    class CausalAlone(base):
        def _compute_causal_mask(self, query, value=None):
            rows = ops.shape(query)[1]
            columns = rows if value is None else ops.shape(value)[1]
            return (ops.arange(columns)[None] <= ops.arange(rows)[:, None] + 1)[None]

    return CausalAlone


def causal_by_itself(base):
    """The causal mask is its own, as Moonshine's is: here, one step more is seen."""

    class CausalByItself(causal_alone(base)):
        def _compute_attention(self, *tensors, **options):
            return super()._compute_attention(*tensors, **options)

    return CausalByItself


def whisper(base):
    """The projections are its own: the keys have no bias."""

    class Whisper(cached(base)):
        def build(self, query_shape, value_shape, key_shape=None):
            key_shape = value_shape if key_shape is None else key_shape

            def dense(name, width, use_bias):
                return keras.layers.EinsumDense(
                    "abc,cde->abde",
                    output_shape=[None, self._num_heads, width],
                    bias_axes="de" if use_bias else None,
                    name=name,
                    **self._get_common_kwargs_for_sublayer(),
                )

            self._query_dense = dense("query", self._key_dim, self._use_bias)
            self._query_dense.build(query_shape)
            self._key_dense = dense("key", self._key_dim, False)
            self._key_dense.build(key_shape)
            self._value_dense = dense("value", self._value_dim, self._use_bias)
            self._value_dense.build(value_shape)
            self._build_attention(4)
            self._output_dense = self._make_output_dense(
                query_shape, self._get_common_kwargs_for_sublayer(), "attention_output"
            )
            shape = list(self._query_dense.compute_output_shape(query_shape))
            shape[-1] = self._value_dim
            self._output_dense.build(tuple(shape))
            self.built = True

    return Whisper


def xlnet(base):
    """Build, call and attention are its own; of the base it has the small parts."""

    class XLNet(base):
        def __init__(self, kernel_initializer="glorot_uniform", **kwargs):
            super().__init__(kernel_initializer=kernel_initializer, **kwargs)

        def _get_common_kwargs_for_sublayer(self):
            return {
                "kernel_initializer": self._kernel_initializer,
                "bias_initializer": self._bias_initializer,
                "kernel_regularizer": self._kernel_regularizer,
                "bias_regularizer": self._bias_regularizer,
                "activity_regularizer": self._activity_regularizer,
                "kernel_constraint": self._kernel_constraint,
                "bias_constraint": self._bias_constraint,
            }

        def build(self, content_stream_shape):
            self._use_bias = False
            self._query_shape = content_stream_shape
            for name in ("query", "key", "value", "encoding"):
                dense = keras.layers.EinsumDense(
                    "abc,cde->abde",
                    output_shape=[None, self._num_heads, self._key_dim],
                    bias_axes="de" if self._use_bias else None,
                    dtype=self.dtype_policy,
                    name=name,
                    **self._get_common_kwargs_for_sublayer(),
                )
                dense.build(content_stream_shape)
                setattr(self, f"_{name}_dense", dense)
            self._output_dense = keras.layers.EinsumDense(
                "ibnd,hnd->ibh",
                output_shape=[None, content_stream_shape[-1]],
                bias_axes=None,
                dtype=self.dtype_policy,
                name="attention_output",
                **self._get_common_kwargs_for_sublayer(),
            )
            shape = self._value_dense.compute_output_shape(content_stream_shape)
            self._output_dense.build(shape)
            self._build_attention(4)
            self.built = True

        def call(self, content_stream, encoding, attention_mask=None):
            query, key = self._query_dense(content_stream), self._key_dense(encoding)
            value = self._value_dense(content_stream)
            content = self._key_dense(content_stream)
            scores = ops.einsum(self._dot_product_equation, content, query)
            scores = scores + ops.einsum(
                self._dot_product_equation, self._encoding_dense(encoding) + key, query
            )
            scores = ops.multiply(scores, 1.0 / float(self._key_dim) ** 0.5)
            scores = self._masked_softmax(scores, attention_mask)
            found = self._dropout_layer(scores)
            found = ops.einsum(self._combine_equation, found, value)
            return self._output_dense(found)

    return XLNet


def numbers(*shape, seed=0):
    return ops.convert_to_tensor(references.normal(*shape, seed=seed).astype("float32"))


def both(subclass, *shapes, **arguments):
    """The subclass of Keras' layer and that of ours, with the same weights."""
    arguments = {"num_heads": H, "key_dim": E, **arguments}
    made = []
    for base in (keras.layers.MultiHeadAttention, layers.MultiHeadAttention):
        layer = subclass(base)(**arguments, name="mine")
        layer.build(*shapes)
        rng = np.random.default_rng(3)
        layer.set_weights([rng.normal(size=w.shape) / 2 for w in layer.weights])
        made.append(layer)
    names = [[w.path for w in layer.weights] for layer in made]
    assert names[0] == names[1]
    return made


def assert_equal(theirs, ours):
    theirs, ours = (keras.tree.flatten(found) for found in (theirs, ours))
    assert len(theirs) == len(ours)
    for one, other in zip(theirs, ours):
        assert tuple(one.shape) == tuple(other.shape)
        np.testing.assert_allclose(to_numpy(other), to_numpy(one), atol=2e-6)


def masks():
    """Of keys, and of pairs; each query may attend to something."""
    pairs = np.ones((B, T, S), bool)
    pairs[0, 1, 1:4] = pairs[1, 2, [0, 4]] = False
    of_keys = np.ones((B, S), bool)
    of_keys[1, 2] = False
    return ops.convert_to_tensor(of_keys), ops.convert_to_tensor(pairs)


@pytest.mark.parametrize("more", [{}, {"dropout": 0.5}], ids=["plain", "dropout"])
@pytest.mark.parametrize("subclass", [cached, whisper])
def test_a_call_of_its_own(subclass, more):
    # Without dropout, Keras' layer on JAX needs values as wide as keys.
    width = E if keras.config.backend() == "jax" and not more else V
    theirs, ours = both(subclass, (B, T, D), (B, S, D), value_dim=width, **more)
    x, memory = numbers(B, T, D), numbers(B, S, D, seed=1)
    _, pairs = masks()
    for given in ({}, {"attention_mask": pairs}):
        assert_equal(theirs(x, memory, **given), ours(x, memory, **given))
        given = {**given, "return_attention_scores": True}
        assert_equal(theirs(x, memory, **given), ours(x, memory, **given))


@pytest.mark.parametrize("subclass", [cached, whisper])
def test_a_cache_of_its_own(subclass):
    theirs, ours = both(subclass, (B, S, D), (B, S, D))
    x = numbers(B, S, D)
    caches = [ops.zeros((B, 2, S, H, E))] * 2
    causal = np.tril(np.ones((S, S), bool))
    whole = ours(x, x, attention_mask=ops.convert_to_tensor(causal[None]))
    for t in range(S):
        row = ops.convert_to_tensor(np.broadcast_to(causal[t], (B, 1, S)))
        now, found = x[:, t : t + 1], []
        for n, layer in enumerate((theirs, ours)):
            found.append(
                layer(
                    now,
                    now,
                    attention_mask=row,
                    cache=caches[n],
                    cache_update_index=t,
                )
            )
            caches[n] = found[n][1]
        assert_equal(*found)
        assert_equal(found[1][0][:, 0], whole[:, t])
    given = {"attention_mask": row, "cache": caches[1]}
    assert_equal(theirs(now, now, **given), ours(now, now, **given))


@pytest.mark.parametrize("more", [{}, {"dropout": 0.5}], ids=["plain", "dropout"])
@pytest.mark.parametrize("subclass", [capped, banded, causal_by_itself, sharpened])
def test_a_method_of_its_own(subclass, more):
    """Keras does not ask for a softmax where weights are neither returned nor dropped.

    And not for a mask that is causal and nothing else.
    """
    theirs, ours = both(subclass, (B, T, D), (B, S, 11), (B, S, 13), **more)
    given = numbers(B, T, D), numbers(B, S, 11, seed=1), numbers(B, S, 13, seed=2)
    of_keys, pairs = masks()
    plain = both(lambda base: base, (B, T, D), (B, S, 11), (B, S, 13), **more)[0]
    asked = {"return_attention_scores": True}
    for call in (
        {},
        {"attention_mask": pairs},
        {"value_mask": of_keys},
        {"key_mask": of_keys, "attention_mask": pairs},
        {"use_causal_mask": True, "value_mask": of_keys},
        {"use_causal_mask": True},
    ):
        if subclass is banded and call == {"use_causal_mask": True}:
            continue
        assert_equal(theirs(*given, **call, **asked), ours(*given, **call, **asked))
        if subclass is not sharpened or more:
            assert_equal(theirs(*given, **call), ours(*given, **call))
    # The method is called: without it, there are other numbers.
    call = {"use_causal_mask": True} if subclass is causal_by_itself else {}
    own, plain = theirs(*given, **call, **asked), plain(*given, **call, **asked)
    assert np.abs(to_numpy(own[1]) - to_numpy(plain[1])).max() > 1e-3


def test_parts_alone():
    theirs, ours = both(xlnet, (B, T, D))
    x, encoding = numbers(B, T, D), numbers(B, T, D, seed=1)
    assert_equal(theirs(x, encoding), ours(x, encoding))
    mask = np.tril(np.ones((T, T), bool))[None]
    given = {"attention_mask": ops.convert_to_tensor(mask)}
    assert_equal(theirs(x, encoding, **given), ours(x, encoding, **given))


@pytest.mark.parametrize(
    "name",
    [
        "_num_heads",
        "_key_dim",
        "_value_dim",
        "_dropout",
        "_use_bias",
        "_output_shape",
        "_attention_axes",
        "_dot_product_equation",
        "_combine_equation",
        "_inverse_sqrt_key_dim",
    ],
)
def test_attributes_have_keras_values(name):
    theirs, ours = both(lambda base: base, (B, T, D), (B, S, D), dropout=0.25)
    one, other = getattr(theirs, name), getattr(ours, name)
    assert one == other or np.isclose(one, other)


@needs_training
@pytest.mark.backends("all")  # what they override is compiled, too
def test_a_subclass_trains():
    x = keras.Input((T, D))
    layer = capped(layers.MultiHeadAttention)(H, E)
    model = keras.Model(x, layer(x, x, use_causal_mask=True))
    model.compile("adam", "mse")
    before = [to_numpy(w) for w in layer.weights]
    given = to_numpy(numbers(B, T, D), "float32")
    fitted = model.fit(given, given, verbose=0)
    assert np.isfinite(fitted.history["loss"][0])
    for weight, old in zip(layer.weights, before):
        assert np.abs(to_numpy(weight) - old).max() > 0, weight.path


def of_old(base):
    """Its signature is that of Keras before 3.9, without the weights' argument."""

    class OfOld(base):
        def _compute_attention(
            self, query, key, value, attention_mask=None, training=None
        ):
            return super()._compute_attention(
                2 * query, key, value, attention_mask, training, True
            )

    return OfOld


@pytest.mark.parametrize("units", [None, 3])
def test_an_older_signature_attends_in_a_loop(units):
    layer = of_old(layers.MultiHeadAttention)(H, E)
    x = numbers(B, T, D)
    rnn = layers.AttentionRNN(
        keras.layers.GRUCell(D), layer, return_sequences=True, attention_units=units
    )
    rnn(x, x)
    query = ops.ones((B, D))
    expected = layer(query[:, None], x)[:, 0]
    with keras.StatelessScope():
        found, weights, _ = layer.attend(query, layer.prepare(x))
        context, _ = layer.context(query, layer.prepare(x))
    assert tuple(weights.shape) == (B, H, T)
    for one in (found, context):
        np.testing.assert_allclose(to_numpy(one), to_numpy(expected), atol=1e-6)


def test_what_an_older_signature_cannot_take_is_refused():
    layer = of_old(layers.MultiHeadAttention)(H, E, position="alibi", name="old")
    x = numbers(B, T, D)
    message = "`_compute_attention` of OfOld must take the argument `bias`, .* 'old'"
    with pytest.raises(ValueError, match=message):
        layer(x, x)
    layer = of_old(layers.MultiHeadAttention)(H, E, dropout=0.5)
    rnn = layers.AttentionRNN(keras.layers.GRUCell(D), layer)
    rnn(x, x)
    with pytest.raises(ValueError, match="must take the argument `dropout_mask`"):
        rnn(x, x, training=True)


def test_a_mask_of_its_own_is_not_left_out_step_by_step():
    layer = banded(layers.MultiHeadAttention)(H, E)
    x = numbers(B, T, D)
    layer(x, x)
    with pytest.raises(ValueError, match="`_compute_attention_mask` is overridden"):
        layers.AttentionRNN(keras.layers.GRUCell(D), layer)(x, x)
    block = layers.TransformerEncoderBlock(intermediate_dim=D, attention=layer)
    block(x)
    with pytest.raises(ValueError, match="`_compute_attention_mask` is overridden"):
        block.step(x[:, 0], block.initial_cache(B, T), 0)


def test_a_causal_mask_alone_is_used():
    theirs, ours = both(causal_alone, (B, S, D), (B, S, D))
    x = numbers(B, S, D)
    for more in ({"return_attention_scores": True}, {"value_mask": masks()[0]}):
        call = {"use_causal_mask": True, **more}
        assert_equal(theirs(x, x, **call), ours(x, x, **call))
    # The fused kernel knows only the usual mask.
    call = {"use_causal_mask": True, "value_mask": ops.ones((B, S), "bool")}
    np.testing.assert_allclose(
        to_numpy(ours(x, x, use_causal_mask=True)), to_numpy(theirs(x, x, **call)), 1e-4
    )
    block = layers.TransformerEncoderBlock(intermediate_dim=D, attention=ours)
    block(x)
    with pytest.raises(ValueError, match="`_compute_causal_mask` is overridden"):
        block.step(x[:, 0], block.initial_cache(B, T), 0)


def test_a_call_of_its_own_is_not_left_out_step_by_step():
    layer = cached(layers.MultiHeadAttention)(H, E)
    x = numbers(B, T, D)
    layer(x, x)
    with pytest.raises(ValueError, match="its `call` is overridden"):
        layer.attend(x, layer.prepare(x))


@pytest.mark.parametrize("position", [None, "rotary"])
def test_steps_use_equations_of_its_own(position):
    """A step with a cache, as a step over a memory."""

    class Doubled(layers.MultiHeadAttention):
        def attend_from_state(self, *arguments):
            output, weights, state = super().attend_from_state(*arguments)
            return 2 * output, weights, state

    layer = Doubled(H, E, position=position)
    x = numbers(B, T, D)
    expected = 2 * to_numpy(layer(x, x, use_causal_mask=True))
    output, _ = layer.step(x, layer.initial_cache(B, T), 0)
    np.testing.assert_allclose(to_numpy(output), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("rank", [2, 3, 4])
@pytest.mark.parametrize("dtype", ["int32", "float32", "bool"])
def test_a_mask_of_numbers(rank, dtype):
    """KerasHub's decoders pass integers; its test of the cache passes floats (T, S)."""
    theirs, ours = both(cached, (B, T, D), (B, T, D))
    x = numbers(B, T, D)
    mask = np.tril(np.ones((1,) * (rank - 2) + (T, T))).astype(dtype)
    for more in ({}, {"return_attention_scores": True}):
        given = {"attention_mask": ops.convert_to_tensor(mask), **more}
        assert_equal(theirs(x, x, **given), ours(x, x, **given))
    with pytest.raises(ValueError, match="`attention_mask` must be boolean"):
        ours(x, x, attention_mask=ops.convert_to_tensor(-1e9 * np.ones((T, T))))


def unscaled(base):
    """The scores are not scaled, and the initializer is changed late."""

    class Unscaled(base):
        def __init__(self, *given, **more):
            super().__init__(*given, **more)
            self._inverse_sqrt_key_dim = 1.0
            self._kernel_initializer = keras.initializers.Constant(0.5)

    return Unscaled


@pytest.mark.parametrize("more", [{}, {"dropout": 0.5}], ids=["plain", "dropout"])
def test_attributes_of_its_own(more):
    theirs, ours = both(unscaled, (B, T, D), (B, S, D), **more)
    x, memory = numbers(B, T, D), numbers(B, S, D, seed=1)
    for call in ({}, {"return_attention_scores": True}):
        assert_equal(theirs(x, memory, **call), ours(x, memory, **call))
    layer = unscaled(layers.MultiHeadAttention)(H, E)
    layer.build((B, T, D), (B, S, D))
    assert (to_numpy(layer.query_dense.kernel) == 0.5).all()
    with_sinks = unscaled(layers.MultiHeadAttention)(H, E, attention_sinks=True)
    found, _ = with_sinks(x, memory, return_attention_scores=True)
    np.testing.assert_allclose(
        to_numpy(with_sinks(x, memory)), to_numpy(found), atol=1e-6
    )


def test_parts_that_a_call_would_not_use_are_refused():
    class Parts(layers.MultiHeadAttention):
        def build(self, query_shape, value_shape, key_shape=None):
            super().build(query_shape, value_shape, key_shape)
            self._softmax = keras.layers.Softmax(axis=1)

    x = numbers(B, T, D)
    with pytest.raises(ValueError, match="override `_compute_attention` for other"):
        Parts(H, E)(x, x)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("_build_attention", "`_masked_softmax` for another softmax"),
        ("attention_axes", "pass the argument of this name"),
        ("query_dense", "set the attribute `_query_dense` in `build`"),
    ],
)
def test_an_override_that_a_call_would_not_use_is_refused(name, message):
    with pytest.raises(TypeError, match=f"must not override `{name}`.*{message}"):
        type("Mine", (layers.MultiHeadAttention,), {name: lambda self: None})


def test_an_unknown_method_of_a_later_keras_is_refused(monkeypatch):
    monkeypatch.setattr(
        keras.layers.MultiHeadAttention, "_later", lambda self: None, raising=False
    )
    with pytest.raises(TypeError, match="must not override `_later`"):
        type("Mine", (layers.MultiHeadAttention,), {"_later": lambda self: None})


def test_every_method_of_keras_is_there():
    own = set(vars(keras.layers.MultiHeadAttention))
    assert not {name for name in own if not hasattr(layers.MultiHeadAttention, name)}


def transposed(base):
    """Its projections have other equations, and biases of their own."""

    class Transposed(base):
        def _make_output_dense(self, query_shape, common_kwargs, name=None):
            return keras.layers.EinsumDense(
                "abcd,edc->abe", (None, query_shape[-1]), name=name, **common_kwargs
            )

    return Transposed


def test_equations_of_its_own():
    theirs, ours = both(transposed, (B, T, 3), (B, S, 3), num_heads=3, key_dim=3)
    x, memory = numbers(B, T, 3), numbers(B, S, 3, seed=1)
    assert_equal(theirs(x, memory), ours(x, memory))


def test_a_policy_of_its_own():
    class Half(layers.MultiHeadAttention):
        def _get_common_kwargs_for_sublayer(self):
            return {**super()._get_common_kwargs_for_sublayer(), "dtype": "bfloat16"}

    layer = Half(H, E)
    layer.build((B, T, D), (B, T, D))
    assert layer.query_dense.kernel.dtype == "bfloat16"
