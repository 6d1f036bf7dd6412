"""The random numbers of samplers, and words drawn with them."""

import numpy as np
import pytest
from keras import ops

from keras_attention.ops.sequence import decoding
from keras_attention.samplers.sampler import draw_best

pytestmark = pytest.mark.backends("all")  # a backend may draw in a graph of its own


def test_words_are_those_of_a_draw():
    rng = np.random.default_rng(0)
    best = -np.sort(-rng.normal(size=(400, 7)) * 3, -1).astype("float32")
    best[::3, 4:] = -np.inf  # is never drawn
    words = rng.permuted(np.tile(np.arange(7) + 11, (400, 1)), axis=1).astype("int32")
    uniforms = rng.random(400).astype("float32")
    uniforms[:6] = 0.0
    uniforms[6:60] = np.nextafter(np.float32(1), np.float32(0))
    given = [ops.convert_to_tensor(x) for x in (best, words, uniforms)]
    found = ops.convert_to_numpy(draw_best(*given))
    place = decoding.draw(ops.softmax(given[0]), given[2])
    right = words[np.arange(400), ops.convert_to_numpy(place)]
    sums = np.cumsum(np.exp(best.astype("float64")), -1)
    sure = abs(sums / sums[:, -1:] - uniforms[:, None]).min(-1) > 1e-6
    assert sure.sum() > 330
    np.testing.assert_array_equal(found[sure], right[sure])
    found_place = (words == found[:, None]).argmax(-1)
    assert np.isfinite(best[np.arange(400), found_place]).all()
