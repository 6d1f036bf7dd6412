"""Blocks with any attention in the place of multi-head attention."""

import keras
import numpy as np
import pytest
from calling import needs_training
from gradients import to_numpy
from heads import UsersAttention, close, normal, shaken
from keras import ops

from keras_attention import layers, record_attention

B, T, S, D, F = 2, 5, 7, 12, 11
VALID = np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]], bool)
MEMORY = np.array([[1, 0, 1, 1, 0, 1, 0], [1, 1, 1, 1, 1, 1, 1]], bool)


# What each is made of, and the H axis of its weights.
STATELESS = {
    "scaled_dot": (lambda: layers.Attention("scaled_dot"), ()),
    "sparsemax": (lambda: layers.Attention("general", "sparsemax"), ()),
    "bahdanau": (lambda: layers.BahdanauAttention(6), ()),
    "luong": (lambda: layers.LuongAttention("concat", units=6), ()),
    "local-p": (lambda: layers.LuongAttention(locality="local-p", window=2), ()),
    "hard": (lambda: layers.HardAttention("dot"), ()),
    "hop": (lambda: layers.MemoryHop(), ()),
    "multi_head": (lambda: layers.MultiHeadAttention(3, 4), (3,)),
    "hopfield": (lambda: layers.Hopfield(2, update_steps=2), (2,)),
    "keras_heads": (lambda: keras.layers.MultiHeadAttention(3, 4), (3,)),
    "keras_groups": (lambda: keras.layers.GroupQueryAttention(4, 4, 2), (4,)),
    "keras_additive": (lambda: keras.layers.AdditiveAttention(), ()),
    "own": (UsersAttention, ()),
}
STATEFUL = {
    "monotonic": (lambda: layers.MonotonicAttention(units=6), ()),
    "coverage": (lambda: layers.BahdanauAttention(6, coverage=True), ()),
    "local-m": (lambda: layers.LuongAttention(locality="local-m", window=2), ()),
}
KINDS = {**STATELESS, **STATEFUL}
stateless = pytest.mark.parametrize("kind", STATELESS)
stateful = pytest.mark.parametrize("kind", STATEFUL)
kinds = pytest.mark.parametrize("kind", KINDS)


def words(length=T, seed=0):
    return ops.convert_to_tensor(normal(B, length, D, seed=seed))


def attention_of(kind):
    return KINDS[kind][0]()


def encoder(kind, **more):
    attention = attention_of(kind)
    block = layers.TransformerEncoderBlock(
        intermediate_dim=F, attention=attention, **more
    )
    block.build((B, T, D))
    assert block.self_attention is attention
    return shaken(block)


def decoder(kind="multi_head", cross="multi_head", **more):
    attention, other = attention_of(kind), attention_of(cross)
    block = layers.TransformerDecoderBlock(
        intermediate_dim=F, attention=attention, cross_attention=other, **more
    )
    block.build((B, T, D), (B, S, D))
    assert block.self_attention is attention
    assert block.cross_attention is other
    return shaken(block)


def call(layer, query, value, keys, mask):
    """A layer by its own call, with a mask of keys (B, S), or a causal one."""
    if isinstance(layer, keras.layers.Attention):  # and `AdditiveAttention`
        causal = {} if mask is keys else {"use_causal_mask": True}
        return layer([query, value], [None, keys], **causal)
    full = np.broadcast_to(keys[:, None], (B, query.shape[1], keys.shape[1]))
    mask = full if mask is keys else full & mask
    return layer(query, value, attention_mask=ops.convert_to_tensor(mask))


def compose(block, x, causal=False, keys=None, memory=None, memory_keys=None):
    """The block written out: norms, residuals, and the layers themselves."""

    def around(name, x, sublayer):
        norm = getattr(block, f"{name}_norm")
        y = x + sublayer(norm(x) if block.norm_first else x)
        return y if block.norm_first else norm(y)

    keys = np.ones((B, T), bool) if keys is None else keys
    pairs = np.tril(np.ones((1, T, T), bool)) if causal else keys
    x = around(
        "self_attention", x, lambda y: call(block.self_attention, y, y, keys, pairs)
    )
    if memory is not None:
        given = np.ones((B, S), bool) if memory_keys is None else memory_keys
        x = around(
            "cross_attention",
            x,
            lambda y: call(block.cross_attention, y, memory, given, given),
        )
    return around(
        "feedforward", x, lambda y: block.feedforward_out(block.feedforward_in(y))
    )


def weights_shape(kind, queries, keys):
    return (B, *KINDS[kind][1], queries, keys)


def shapes_of(block, *inputs):
    """The shapes that symbolic tensors get, with the weights."""
    given = [keras.KerasTensor(x.shape) for x in inputs]
    found = block(*given, return_attention_scores=True)
    return [tuple(x.shape) for x in keras.tree.flatten(found)]


@pytest.mark.parametrize("norm_first", [False, True])
@kinds
def test_an_encoder_block_is_its_layers(kind, norm_first):
    block, x = encoder(kind, norm_first=norm_first), words()
    close(block(x, use_causal_mask=True), compose(block, x, causal=True))
    output, weights = block(x, mask=VALID, return_attention_scores=True)
    expected = to_numpy(compose(block, x, keys=VALID))
    np.testing.assert_allclose(
        to_numpy(output)[VALID], expected[VALID], rtol=1e-4, atol=1e-5
    )
    assert tuple(weights.shape) == weights_shape(kind, T, T)
    assert shapes_of(block, x) == [(B, T, D), weights_shape(kind, T, T)]


@kinds
def test_a_decoder_block_is_its_layers(kind):
    block, x, memory = decoder(cross=kind), words(), words(S, seed=1)
    expected = compose(block, x, True, memory=memory, memory_keys=MEMORY)
    output, (own, cross) = block(
        x, memory, memory_mask=MEMORY, return_attention_scores=True
    )
    close(output, expected, 1e-4)
    assert tuple(own.shape) == (B, 3, T, T)
    assert tuple(cross.shape) == weights_shape(kind, T, S)
    assert shapes_of(block, x, memory)[2] == weights_shape(kind, T, S)


@stateless
def test_steps_of_an_encoder_block_are_the_whole(kind):
    """A prompt at once, then one position at a time, in a cache with room behind."""
    block, x = encoder(kind), words()
    valid = np.array([[0, 1, 1, 1, 1], [1, 1, 1, 1, 1]], bool)
    whole = to_numpy(block(x, mask=valid, use_causal_mask=True))
    cache = block.initial_cache(B, 8)
    assert {leaf.shape[0] for leaf in keras.tree.flatten(cache)} == {B}
    for start, end in [(0, 2), (2, 3), (3, 5)]:
        now = ops.convert_to_tensor(valid[:, start:end])
        output, cache = block.step(x[:, start:end], cache, start, now)
        rows = valid[:, start:end]
        close(to_numpy(output)[rows], whole[:, start:end][rows])


@kinds
def test_steps_of_a_decoder_block_are_the_whole(kind):
    block, x, memory = decoder("scaled_dot", kind), words(), words(S, seed=1)
    whole = block(x, memory, memory_mask=MEMORY)
    prepared = block.prepare(memory, ops.convert_to_tensor(MEMORY))
    cache, outputs = block.initial_cache(B, 8, prepared), []
    assert {leaf.shape[0] for leaf in keras.tree.flatten(cache)} == {B}
    for t in range(T):
        output, after = block.step(x[:, t], cache, t, prepared)
        keras.tree.assert_same_structure(cache, after)
        outputs.append(output)
        cache = after
    close(ops.stack(outputs, axis=1), whole)


@stateful
def test_what_knows_its_last_step_has_no_steps_over_its_own_inputs(kind):
    block = encoder(kind)
    with pytest.raises(ValueError, match="cannot attend to its own inputs step by st"):
        block.initial_cache(B, T)
    with pytest.raises(ValueError, match="`prepared` must be given, since a step of `"):
        decoder(cross=kind).initial_cache(B, T)


@pytest.mark.parametrize("kind", ["sparsemax", "hopfield", "keras_heads", "own"])
def test_a_file_computes_the_same(kind, tmp_path):
    inputs = keras.Input((None, D)), keras.Input((None, D))
    x = layers.TransformerEncoderBlock(
        intermediate_dim=F, attention=attention_of(kind)
    )(inputs[0])
    x = layers.TransformerDecoderBlock(3, F, cross_attention=attention_of(kind))(
        x, inputs[1]
    )
    x = layers.TransformerDecoderBlock(
        intermediate_dim=F, attention=attention_of(kind)
    )(x, inputs[1])
    model = shaken(keras.Model(inputs, x))
    given = [words(), words(S, seed=1)]
    expected = to_numpy(model(given))
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_allclose(to_numpy(again(given)), expected, rtol=1e-6, atol=1e-6)
    for one, other in zip(model.layers, again.layers):
        assert one.get_config() == other.get_config()


@needs_training
def test_fit():
    """What a graph of JAX or TensorFlow makes of layers with and without a state."""
    x, memory = inputs = keras.Input((T, D)), keras.Input((S, D))
    for kind in ("hopfield", "keras_additive"):
        x = layers.TransformerEncoderBlock(
            intermediate_dim=F, attention=attention_of(kind), name=kind
        )(x, use_causal_mask=True)
    x = layers.TransformerDecoderBlock(
        2, F, cross_attention=attention_of("monotonic"), name="monotonic"
    )(x, memory)
    model = keras.Model(inputs, x)
    before = [to_numpy(w.value) for w in model.trainable_weights]
    model.compile(keras.optimizers.SGD(0.1), "mse")
    given = [normal(B, T, D), normal(B, S, D, seed=1)]
    found = model.fit(given, normal(B, T, D, seed=2), verbose=0).history["loss"]
    assert np.isfinite(found).all()
    close(
        model.predict(given, verbose=0),
        model([ops.convert_to_tensor(z) for z in given]),
    )
    moved = [
        w.path
        for w, old in zip(model.trainable_weights, before)
        if (to_numpy(w.value) == old).all() and "key/bias" not in w.path
    ]
    assert not moved


def test_the_copy_for_the_memory_has_no_order():
    attention = layers.MultiHeadAttention(
        3, 4, position="rotary", sliding_window=2, soft_cap=5.0
    )
    block = layers.TransformerDecoderBlock(intermediate_dim=F, attention=attention)
    block.build((B, T, D), (B, S, D))
    copy = block.cross_attention
    assert copy is not attention
    assert (copy.position, copy.sliding_window, copy.soft_cap) == (None, None, 5.0)
    assert copy.name == "cross_attention"
    again = layers.TransformerDecoderBlock.from_config(block.get_config())
    assert again.get_config() == block.get_config()


def test_arguments_of_the_attention_to_the_memory():
    block = layers.TransformerDecoderBlock(
        3,
        F,
        attention={"position": "rotary", "dropout": 0.1},
        cross_attention={"num_key_value_heads": 1},
    )
    block = type(block).from_config(block.get_config())
    block.build((B, T, D), (B, S, D + 1))
    own, cross = block.self_attention, block.cross_attention
    assert (own.num_key_value_heads, own.dropout) == (3, 0.1)
    assert (cross.num_key_value_heads, cross.dropout, cross.position) == (1, 0.0, None)


def test_a_layer_in_another_dtype():
    attention = layers.Attention("scaled_dot", dtype="float32")
    block = layers.TransformerEncoderBlock(
        intermediate_dim=F, attention=attention, dtype="float16"
    )
    output, weights = block(words(), return_attention_scores=True)
    symbolic = block(keras.KerasTensor((B, T, D)), return_attention_scores=True)
    for found, known in zip((output, weights), symbolic):
        assert keras.backend.standardize_dtype(found.dtype) == known.dtype
    assert keras.backend.standardize_dtype(output.dtype) == "float16"


def test_each_layer_is_recorded_under_its_name():
    block = decoder("hopfield", "keras_additive", name="block")
    with record_attention() as maps:
        block(words(), words(S, seed=1))
    names = [x.name for x in (block.self_attention, block.cross_attention)]
    assert sorted(maps) == sorted(f"block/{name}" for name in names)
    assert maps[f"block/{names[1]}"].shape == (B, T, S)


SCALED = layers.Attention("scaled_dot")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"attention": keras.layers.Dense(3)},
            "`attention` must be an attention layer",
        ),
        ({"attention": "dot"}, "`attention` must be an attention layer.*'dot'"),
        (
            {"num_heads": 3, "attention": SCALED},
            "`num_heads` must be None.*num_heads=3",
        ),
        ({}, "`num_heads` must be given unless `attention` is a layer. .*=None, att"),
        ({"attention": {"dropout": 0.1}}, "`num_heads` must be given unless.*0.1"),
        (
            {"num_heads": 3, "cross_attention": "dot"},
            "`cross_attention` must be an attention layer.*'dot'",
        ),
        (
            {"num_heads": 3, "cross_attention": {"heads": 3}},
            r"`cross_attention` must be an attention layer, or a dict.*\['heads'\]",
        ),
        (
            {"attention": SCALED, "cross_attention": {"dropout": 0.1}},
            "`cross_attention` must be a layer, or None.*0.1",
        ),
        (
            {"attention": SCALED, "cross_attention": SCALED},
            "`cross_attention` must be another layer than `attention`",
        ),
        (
            {"num_heads": 3, "cross_attention": {"position": "rotary"}},
            "`cross_attention` must have none of.*'position': 'rotary'",
        ),
    ],
)
def test_bad_attentions(arguments, message):
    with pytest.raises(ValueError, match=message):
        layers.TransformerDecoderBlock(intermediate_dim=F, **arguments)


def test_what_does_not_fit_into_a_residual():
    x, narrower = normal(B, T, D), normal(B, S, 8)
    message = "`cross_attention` must return the width of the block's inputs, 12.* 8 "
    block = layers.TransformerDecoderBlock(
        3, F, cross_attention=layers.BahdanauAttention(6)
    )
    with pytest.raises(ValueError, match=message):
        block(x, narrower)
    attention = keras.layers.MultiHeadAttention(3, 4, output_shape=5)
    block = layers.TransformerEncoderBlock(intermediate_dim=F, attention=attention)
    with pytest.raises(ValueError, match=r"`attention` must return the w.* 12.* 5 "):
        block(x)
