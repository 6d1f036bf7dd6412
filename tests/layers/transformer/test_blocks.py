"""The blocks of a Transformer against NumPy in float64, their masks and steps."""

import keras
import numpy as np
import pytest
from calling import carries_masks
from gradients import to_numpy
from heads import close, normal, reference, shaken
from keras import ops

from keras_attention import layers, record_attention

B, T, S, D, F = 2, 5, 7, 12, 11
THERE = np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]], bool)
MEMORY = np.array([[1, 0, 1, 1, 0, 1, 0], [1, 1, 1, 1, 1, 1, 1]], bool)
FORMS = {
    "post": {},
    "pre": {
        "norm_first": True,
        "normalization": "rms",
        "gated": True,
        "activation": "silu",
        "epsilon": 1e-3,
        "attention": {"num_key_value_heads": 1, "use_bias": False},
    },
}
FUNCTIONS = {"relu": lambda x: np.maximum(x, 0), "silu": lambda x: x / (1 + np.exp(-x))}
forms = pytest.mark.parametrize("form", FORMS)


def words(length=T, seed=0):
    return normal(B, length, D, seed=seed)


def encoder(form="post", **more):
    block = layers.TransformerEncoderBlock(3, F, **{**FORMS[form], **more})
    block.build((B, T, D))
    return shaken(block)


def decoder(form="post", **more):
    block = layers.TransformerDecoderBlock(3, F, **{**FORMS[form], **more})
    block.build((B, T, D), (B, S, D))
    return shaken(block)


def norm(layer, x):
    if isinstance(layer, keras.layers.LayerNormalization):
        x = x - x.mean(-1, keepdims=True)
    y = x / np.sqrt((x**2).mean(-1, keepdims=True) + layer.epsilon)
    scale, *shift = (to_numpy(w) for w in layer.weights)
    return scale * y + (shift[0] if shift else 0)


def around(block, name, x, sublayer):
    """The residual and the normalization around a sublayer, and what it returns."""
    layer = getattr(block, f"{name}_norm")
    found, weights = sublayer(norm(layer, x) if block.norm_first else x)
    x = x + found
    return (x if block.norm_first else norm(layer, x)), weights


def dense(layer, x):
    kernel, bias = (to_numpy(w) for w in layer.weights)
    return x @ kernel + bias


def mlp(block, x):
    inside = FUNCTIONS[block.activation.__name__](dense(block.feedforward_in, x))
    if block.gated:
        inside = inside * dense(block.feedforward_gate, x)
    return dense(block.feedforward_out, inside), None


def expected(block, x, mask, memory=None, seen=None):
    """The paper's sublayers one by one, and the weights of each attention."""
    x, own = around(
        block,
        "self_attention",
        x.astype("float64"),
        lambda y: reference(block.self_attention, y, y, y, mask),
    )
    cross = None
    if memory is not None:
        x, cross = around(
            block,
            "cross_attention",
            x,
            lambda y: reference(block.cross_attention, y, memory, memory, seen),
        )
    x, _ = around(block, "feedforward", x, lambda y: mlp(block, y))
    return x, own, cross


def causal(mask):
    return mask[:, None, None] & np.tril(np.ones((T, T), bool))


@forms
def test_encoder_is_its_equations(form):
    block, x = encoder(form), words()
    mask = THERE[:, None, None] & THERE[:, None, :, None]  # of keys and of queries
    wanted, weights, _ = expected(block, x, mask)
    output, found = block(x, mask=THERE, return_attention_scores=True)
    close(output, wanted)
    close(found, weights)
    close(block(x, mask=THERE), wanted)
    wanted, *_ = expected(block, x, causal(np.ones_like(THERE)))
    close(block(x, use_causal_mask=True), wanted)
    close(block(x, attention_mask=np.tril(np.ones((T, T), bool))), wanted)


@forms
def test_decoder_is_its_equations(form):
    block, x, memory = decoder(form), words(), words(S, seed=1)
    there = np.ones_like(THERE)
    wanted, own, cross = expected(
        block, x, causal(there), memory, MEMORY[:, None, None]
    )
    output, found = block(x, memory, memory_mask=MEMORY, return_attention_scores=True)
    close(output, wanted)
    close(found[0], own)
    close(found[1], cross)
    close(block(x, memory, memory_mask=MEMORY), wanted)


@carries_masks
def test_masks_that_tensors_carry():
    """They count as those that are given do, and go on to the output."""
    tokens = np.where(THERE, 3, 0)
    embedding = keras.layers.Embedding(5, D, mask_zero=True)
    x = embedding(tokens)
    for block in (encoder(), encoder("pre")):
        given = block(ops.convert_to_tensor(to_numpy(x, "float32")), mask=THERE)
        y = block(x)
        close(y, given)
        close(block(x, attention_mask=np.ones((T, T), bool)), given)
        np.testing.assert_array_equal(to_numpy(block.compute_mask(y, THERE)), THERE)
    block, memory = decoder(), embedding(np.where(MEMORY, 3, 0))
    bare = [ops.convert_to_tensor(to_numpy(z, "float32")) for z in (x, memory)]
    close(block(x, memory), block(*bare, inputs_mask=THERE, memory_mask=MEMORY))


@pytest.mark.parametrize(
    "more", [{}, {"position": "rotary", "sliding_window": 3}], ids=["plain", "window"]
)
@forms
def test_steps_are_the_whole(form, more):
    """A prompt at once, then one position at a time, with some that are padding."""
    attention = {**FORMS[form].get("attention", {}), **more}
    x, memory = words(), words(S, seed=1)
    there = np.array([[0, 1, 1, 1, 1], [1, 1, 1, 1, 1]], bool)
    block = encoder(form, attention=attention)
    wanted = to_numpy(block(x, mask=there, use_causal_mask=True))
    cache = block.initial_cache(B, T)
    parts = [(0, 2), (2, 3), (3, 5)]
    for a, b in parts:
        now = [ops.convert_to_tensor(z[:, a:b]) for z in (x, there)]
        output, cache = block.step(now[0], cache, a, now[1])
        rows = there[:, a:b]  # what padding itself becomes matters to nobody
        close(to_numpy(output)[rows], wanted[:, a:b][rows])
    block = decoder(form, attention=attention)
    wanted = block(x, memory, memory_mask=MEMORY)
    prepared = block.prepare(*(ops.convert_to_tensor(z) for z in (memory, MEMORY)))
    cache, outputs = block.initial_cache(B, T), []
    for t in range(T):
        now = ops.convert_to_tensor(x[:, t])
        output, cache = block.step(now, cache, t, prepared)
        outputs.append(to_numpy(output))
    close(np.stack(outputs, 1), wanted)


def test_each_block_has_a_position_of_its_own():
    position = layers.RelativePositionBias()
    blocks = [encoder(attention={"position": position}) for _ in range(2)]
    a, b = (block.self_attention.position for block in blocks)
    assert a is not b is not position
    assert not position.built
    again = layers.TransformerEncoderBlock.from_config(blocks[0].get_config())
    again.build((B, T, D))
    assert isinstance(again.self_attention.position, layers.RelativePositionBias)
    block = decoder(attention={"position": "rotary", "sliding_window": 2})
    assert block.self_attention.position is not None
    assert block.cross_attention.position is None
    assert block.cross_attention.sliding_window is None


def test_each_attention_is_recorded_under_its_name():
    block = decoder(name="decoder_block_2")
    with record_attention() as maps:
        block(words(), words(S, seed=1))
    names = [f"decoder_block_2/{n}_attention" for n in ("self", "cross")]
    assert sorted(maps) == sorted(names)
    assert maps[names[1]].shape == (B, 3, T, S)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"num_heads": 5}, "`num_heads` must divide the width of the inputs"),
        ({"num_heads": 0}, "`num_heads` must be at least 1"),
        ({"intermediate_dim": 2.5}, "`intermediate_dim` must be a whole number"),
        ({"dropout": 1.0}, "`dropout` must be at least 0 and below 1"),
        ({"normalization": "batch"}, r"`normalization` must be one of \['layer'"),
        ({"attention": {"num_heads": 2}}, r"`attention` must be .*with \['num_heads'"),
        ({"num_heads": None}, "`num_heads` must be given unless `attention` is a la"),
        ({"attention": {"windows": 2}}, r"'sliding_window'.* with \['windows'\]"),
        ({"attention": {"num_key_value_heads": 2}}, "must divide `num_heads`"),
    ],
)
def test_bad_arguments(arguments, message):
    sizes = {"num_heads": 3, "intermediate_dim": F, **arguments}
    with pytest.raises(ValueError, match=message):
        layers.TransformerEncoderBlock(**sizes)(words())


def test_bad_calls():
    with pytest.raises(ValueError, match="`inputs` must have rank 3"):
        layers.TransformerEncoderBlock(3, F)(words()[0])
    new = layers.TransformerEncoderBlock(3, F)
    for call in (
        lambda: new.initial_cache(B, T),
        lambda: new.step(words(), None, 0),
        lambda: layers.TransformerDecoderBlock(3, F).prepare(words()),
    ):
        with pytest.raises(RuntimeError, match="built"):
            call()
    with pytest.raises(ValueError, match="`mask` must be boolean"):
        encoder()(words(), words())
    with pytest.raises(ValueError, match=r"`memory_mask` must have shape \(2, 7\)"):
        decoder()(words(), words(S), memory_mask=THERE)
    block = encoder()
    x = ops.convert_to_tensor(words())
    with pytest.raises(ValueError, match="`cache` is full: it has 4 places"):
        block.step(x[:, 0], block.initial_cache(B, 4), 4)
    with pytest.raises(ValueError, match="must be one of this layer and for this"):
        block.step(x, block.initial_cache(B + 1, T), 0)
