"""Multi-head attention step by step equals the whole sequence at once."""

import numpy as np
import pytest
from gradients import to_numpy
from heads import close, normal, shaken
from keras import ops

from keras_attention import layers, record_attention
from keras_attention.layers.cached import Cache
from keras_attention.ops import decoding, kernels

B, T, D = 2, 7, 6


def built(**arguments):
    layer = layers.MultiHeadAttention(**{"num_heads": 4, "key_dim": 2, **arguments})
    layer.build((B, T, D), (B, T, D))
    return shaken(layer)


def stepwise(layer, x, chunks, length=T, mask=None):
    """The outputs of so many positions at a time, one after the other."""
    cache, index, found = layer.initial_cache(len(x), length), 0, []
    for size in chunks:
        part = x[:, index : index + size]
        now = None if mask is None else mask[:, index : index + size]
        if size == 1:
            now = None if now is None else now[:, 0]
            output, cache = layer.step(part[:, 0], cache, index, now)
            found.append(to_numpy(output)[:, None])
        else:
            output, cache = layer.step(part, cache, index, now)
            found.append(to_numpy(output))
        index += size
    return np.concatenate(found, 1), cache


SETTINGS = {
    "plain": {},
    "grouped": {"num_key_value_heads": 2, "value_dim": 3, "use_gate": True},
    "rotary": {"position": "rotary", "num_key_value_heads": 1},
    "alibi": {"position": "alibi"},
    "relative": {"position": "relative", "normalizer": "softmax1"},
    "window": {"sliding_window": 3, "position": "rotary"},
    "wide_window": {"sliding_window": 20, "position": "alibi"},
}


CHUNKS = {name: [[1] * T, [4, 1, 1, 1]] for name in SETTINGS}
CHUNKS["window"] += [[2, 5], [1, 3, 3]]


@pytest.mark.parametrize(
    ("name", "chunks"), [(n, c) for n, chunks in CHUNKS.items() for c in chunks]
)
def test_cached_equals_uncached(name, chunks):
    layer, x = built(**SETTINGS[name]), normal(B, T, D)
    expected = to_numpy(layer(x, x, use_causal_mask=True))
    found, cache = stepwise(layer, x, chunks)
    close(found, expected)
    window = SETTINGS[name].get("sliding_window", T)
    assert cache.key.shape[1] == min(T, window)


@pytest.mark.parametrize("sliding_window", [None, 3])
def test_padding_of_a_prompt_is_never_seen(sliding_window):
    layer, x = built(sliding_window=sliding_window, position="rotary"), normal(B, T, D)
    mask = np.ones((B, T), bool)
    mask[0, :2] = mask[1, 4] = False
    expected = to_numpy(layer(x, x, value_mask=mask, use_causal_mask=True))
    for chunks in ([4, 1, 1, 1], [1] * T):
        close(stepwise(layer, x, chunks, mask=mask)[0], expected)


@pytest.mark.parametrize("name", ["grouped", "window", "relative"])
def test_steps_run_in_a_compiled_loop(name):
    layer, x = built(**SETTINGS[name]), normal(B, T, D)
    expected = to_numpy(layer(x, x, use_causal_mask=True))

    def loop(x):
        def step(index, state):
            found, cache = state
            output, cache = layer.step(decoding.read(x, index), Cache(*cache), index)
            return decoding.write(found, index, output), tuple(cache)

        prompt, cache = layer.step(x[:, :3], layer.initial_cache(B, T), 0)
        found = ops.pad(prompt, ((0, 0), (0, T - 3), (0, 0)))
        return decoding.generate(step, (found, tuple(cache)), 3, T)[0]

    compiled = kernels.compiled(loop, layer.weights, False)
    close(compiled(x), expected)


def test_steps_are_recorded():
    layer, x = built(), normal(B, T, D)
    cache = layer.initial_cache(B, T)
    with record_attention() as maps:
        layer.step(x[:, 0], cache, 0)
    assert maps[layer.path].shape == (B, 4, T)


def test_a_cache_in_half_precision():
    layer = layers.MultiHeadAttention(2, 4, dtype="mixed_bfloat16")
    x = ops.convert_to_tensor(normal(B, T, D))
    expected = layer(x, x, use_causal_mask=True)
    found = stepwise(layer, x, [1] * T)[0]
    np.testing.assert_allclose(found, to_numpy(expected), atol=0.05)


def test_bad_caches_are_refused():
    layer, x = built(), normal(B, T, D)
    with pytest.raises(ValueError, match=r"`cache` is full: it has 3 places.*index=3"):
        layer.step(x[:, 3], layer.initial_cache(B, 3), 3)
    with pytest.raises(ValueError, match="must not be longer than the cache"):
        layer.step(x, layer.initial_cache(B, 3), 0)
    with pytest.raises(ValueError, match="`cache` must be one of this layer and for"):
        layer.step(x, layer.initial_cache(3, T), 0)
    other = built(num_key_value_heads=2)
    with pytest.raises(ValueError, match="`cache` must be one of this layer and for"):
        layer.step(x, other.initial_cache(B, T), 0)
    with pytest.raises(RuntimeError, match="`initial_cache` needs a layer that is bui"):
        layers.MultiHeadAttention(2, 3).initial_cache(B, T)
    with pytest.raises(ValueError, match="argument `length` must be a positive"):
        layer.initial_cache(B, 0)
