"""The learning rate over time: its equation, and what an optimizer makes of it."""

import keras
import numpy as np
import pytest
from calling import needs_training
from gradients import to_numpy

from keras_attention.schedules import WarmupInverseSqrt


def paper(n, dim, warmup_steps):
    """Section 5.3, number by number."""
    return dim**-0.5 * min(n**-0.5, n * warmup_steps**-1.5)


@pytest.mark.parametrize(("dim", "warmup_steps"), [(512, 4000), (7, 1), (64, 13)])
def test_rates_equal_the_paper(dim, warmup_steps):
    rate = WarmupInverseSqrt(dim, warmup_steps, scale=3.0)
    steps = [0, 1, 11, 12, 13, 3999, 4000, 99_999]
    found = [float(to_numpy(rate(step))) for step in steps]
    expected = [3 * paper(step + 1, dim, warmup_steps) for step in steps]
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_it_is_highest_at_the_end_of_the_rise():
    rate = WarmupInverseSqrt(16, 20)
    found = to_numpy(rate(np.arange(60)))
    assert found.argmax() == 19
    assert (np.diff(found[:20]) > 0).all()
    assert (np.diff(found[20:]) < 0).all()


@pytest.mark.backends("all")
@needs_training
def test_an_optimizer_follows_it():
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1, use_bias=False)])
    model.set_weights([np.zeros((1, 1))])
    model.compile(keras.optimizers.SGD(WarmupInverseSqrt(4, 2)), lambda y, p: -p)
    x = np.ones((3, 1), "float32")
    model.fit(x, x, batch_size=1, verbose=0)  # a slope of −1 at each of three steps
    expected = sum(paper(n, 4, 2) for n in (1, 2, 3))
    np.testing.assert_allclose(to_numpy(model.get_weights()[0]), expected, rtol=1e-5)


def test_it_is_saved_with_its_optimizer():
    optimizer = keras.optimizers.Adam(WarmupInverseSqrt(8, 5, 2.0))
    config = keras.saving.serialize_keras_object(optimizer)
    again = keras.saving.deserialize_keras_object(config)
    rate = to_numpy(again.learning_rate)
    np.testing.assert_allclose(rate, 2 * paper(1, 8, 5), rtol=1e-6)
    again = WarmupInverseSqrt.from_config(WarmupInverseSqrt(8, 5, 2.0).get_config())
    assert again.get_config() == {"dim": 8, "warmup_steps": 5, "scale": 2.0}


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: WarmupInverseSqrt(0), "`dim` must be at least 1"),
        (lambda: WarmupInverseSqrt(8, 2.5), "`warmup_steps` must be a whole number"),
        (lambda: WarmupInverseSqrt(8, scale=0), "`scale` must be positive. Received: "),
    ],
)
def test_bad_input_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()
