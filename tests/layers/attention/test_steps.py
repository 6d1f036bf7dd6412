"""Self-attention by steps: `step` with a cache is the causal call."""

import numpy as np
import pytest
import references
from calling import few_compiled
from gradients import to_numpy
from keras import ops

from keras_attention import layers

B, T, D, P = 2, 5, 7, 6
LAYERS = {
    "dot": layers.Attention,
    "additive": lambda: layers.Attention(layers.AdditiveScore(3)),
    "bahdanau": lambda: layers.BahdanauAttention(3),
    "luong": lambda: layers.LuongAttention("concat", "local-p", window=2, units=3),
    "hard": lambda: layers.HardAttention(units=3),
    "hop": lambda: layers.MemoryHop(transform=True),
    "key_value_hop": layers.KeyValueHop,
}


@pytest.mark.backends("all")
@few_compiled("case", LAYERS)
def test_steps_equal_the_causal_call(case):
    layer = LAYERS[case]()
    x = ops.convert_to_tensor(references.normal(B, T, D).astype("float32"))
    wanted = to_numpy(layer(x, x, use_causal_mask=True))
    cache = layer.initial_cache(B, P, D)
    prompt, cache = layer.step(x[:, :2], cache, 0)
    found = [to_numpy(prompt)]
    for t in range(2, T):
        output, cache = layer.step(x[:, t], cache, t)
        found.append(to_numpy(output)[:, None])
    np.testing.assert_allclose(np.concatenate(found, 1), wanted, atol=1e-5)


STATEFUL = {
    "coverage": lambda: layers.BahdanauAttention(3, coverage=True),
    "local-m": lambda: layers.LuongAttention("dot", "local-m"),
    "monotonic": lambda: layers.MonotonicAttention("dot"),
}


@pytest.mark.parametrize("case", STATEFUL)
def test_a_layer_with_a_state_refuses_steps(case):
    layer = STATEFUL[case]()
    x = ops.convert_to_tensor(references.normal(B, T, D).astype("float32"))
    layer(x, x)
    with pytest.raises(ValueError, match="cannot attend to its own inputs step by"):
        layer.initial_cache(B, P, D)
