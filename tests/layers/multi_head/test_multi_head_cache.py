"""Multi-head attention step by step equals the whole sequence at once."""

import numpy as np
import pytest
from calling import few_compiled
from gradients import to_numpy
from heads import close, normal, shaken
from keras import ops

from keras_attention import kernels, layers, record_attention
from keras_attention.layers.base.attention_layer import Prepared
from keras_attention.ops.sequence import decoding

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
    "grouped": {"num_key_value_heads": 2, "value_dim": 3, "use_gate": True},
    "relative": {"position": "relative", "normalizer": "softmax1"},
    "window": {"sliding_window": 3, "position": "rotary"},
}
GRID = [
    {"position": position, "sliding_window": window, "num_key_value_heads": groups}
    for position in (None, "rotary", "alibi", "relative")
    for window in (None, 3)
    for groups in (4, 2)
]
# Prompts of unequal length: the padding is in front of them, one more is hidden.
PADDED = np.ones((B, T), bool)
PADDED[0, :2] = PADDED[1, 4] = False


@pytest.mark.backends("all")
@few_compiled("arguments", GRID, 2, ids=lambda a: "-".join(map(str, a.values())))
def test_cached_equals_uncached(arguments):
    layer, x = built(**arguments), normal(B, T, D)
    expected = to_numpy(layer(x, x, value_mask=PADDED, use_causal_mask=True))
    found, cache = stepwise(layer, x, [4, 1, 1, 1], mask=PADDED)
    close(found, expected)
    assert cache.key.shape[1] == min(T, arguments["sliding_window"] or T)


@pytest.mark.parametrize(
    "arguments", GRID, ids=lambda a: "-".join(map(str, a.values()))
)
def test_a_memory_projected_once_gives_the_same(arguments):
    layer, x = built(**arguments), normal(B, T, D)
    memory = normal(B, T, D, seed=1)
    expected, weights = layer(
        x, memory, value_mask=PADDED, return_attention_scores=True
    )
    prepared = layer.prepare(memory, mask=PADDED)
    found = layer.attend(x, prepared)
    close(found[0], expected)
    close(found[1], weights)
    output, state = layer.context(x, prepared)
    close(output, expected)
    counts = arguments["position"] or arguments["sliding_window"]
    state = ops.full((B,), 5.0) if counts else ()
    one, after = layer.context(x[:, 5], prepared, state)
    close(one, to_numpy(expected)[:, 5])
    assert not counts or to_numpy(after).tolist() == [6.0] * B


@pytest.mark.parametrize(
    ("name", "chunks"),
    [
        ("grouped", [1] * T),
        ("relative", [1] * T),
        ("window", [1] * T),
        ("window", [2, 5]),
        ("window", [1, 3, 3]),
    ],
)
def test_any_number_of_steps_at_a_time(name, chunks):
    layer, x = built(**SETTINGS[name]), normal(B, T, D)
    expected = to_numpy(layer(x, x, use_causal_mask=True))
    close(stepwise(layer, x, chunks)[0], expected)
    masked = to_numpy(layer(x, x, value_mask=PADDED, use_causal_mask=True))
    close(stepwise(layer, x, chunks, mask=PADDED)[0], masked)


@pytest.mark.backends("all")
@few_compiled("name", ["grouped", "window", "relative"])
def test_steps_run_in_a_compiled_loop(name):
    layer, x = built(**SETTINGS[name]), normal(B, T, D)
    expected = to_numpy(layer(x, x, use_causal_mask=True))

    def loop(x):
        def step(index, state):
            found, cache = state
            output, cache = layer.step(decoding.read(x, index), Prepared(*cache), index)
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
    prepared = layer.prepare(x)
    with record_attention() as maps:
        layer.context(x[:, 1], prepared)
        layer.context(x, prepared)
    assert maps[f"{layer.path}/0"].shape == (B, 4, T)
    assert maps[f"{layer.path}/1"].shape == (B, 4, T, T)


def test_a_prepared_memory_is_looked_at_by_the_fused_path(monkeypatch):
    calls = []

    kernel = kernels.dot_product_attention

    def fused(*given):
        calls.append(given)
        return kernel(*given)

    monkeypatch.setattr(kernels, "dot_product_attention", fused)
    layer, x = built(dropout=0.3), normal(B, T, D)
    layer.context(x, layer.prepare(x))
    assert len(calls) == 1


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
    for other in (built(num_key_value_heads=2), built(key_dim=3), built(value_dim=3)):
        with pytest.raises(ValueError, match=r"`cache` must be one.*Received: cache\."):
            layer.step(x, other.initial_cache(B, T), 0)
        with pytest.raises(ValueError, match=r"`prepared` must be one of this layer"):
            layer.context(x, other.prepare(x))
    with pytest.raises(ValueError, match="`prepared` must be one of this layer and fo"):
        layer.attend(x, layer.prepare(normal(3, T, D)))
    with pytest.raises(ValueError, match=r"`mask` must have shape \(2, 7\)"):
        layer.step(x, layer.initial_cache(B, T), 0, PADDED[:, :3])
    with pytest.raises(ValueError, match=r"`mask` must have shape \(2, 7\)"):
        layer.prepare(x, mask=PADDED[:, :3])
    with pytest.raises(ValueError, match=r"`mask` must be boolean, True.*2\.0"):
        layer.prepare(x, mask=2.0 * PADDED)
    with pytest.raises(RuntimeError, match="`initial_cache` needs a layer that is bui"):
        layers.MultiHeadAttention(2, 3).initial_cache(B, T)
    with pytest.raises(RuntimeError, match="`context` needs a layer that is built"):
        layers.MultiHeadAttention(2, 3).context(x, layer.prepare(x))
    with pytest.raises(ValueError, match="argument `length` must be at least 1"):
        layer.initial_cache(B, 0)
