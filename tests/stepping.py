"""What the tests of attention that decoders use have in common."""

import numpy as np
import references
from gradients import to_numpy
from keras import ops


def query_and_memory(batch, queries, keys, width, values, key_width=None):
    """A query, a value and a key of random float32 numbers."""
    shapes = (batch, queries, width), (batch, keys, values)
    key_shape = batch, keys, key_width or width
    return references.normals(*shapes, key_shape, dtype="float32")


def with_weights(layer, *arrays, numbers=True):
    """Builds a layer and draws its weights; returns them by name, in float64.

    Args:
        numbers: whether also those that are single numbers are drawn.
    """
    layer(*arrays)
    for i, weight in enumerate(layer.trainable_weights):
        if weight.shape or numbers:
            weight.assign(0.5 * references.normal(*weight.shape, seed=10 + i))
    names = [w.path.split("/", 1)[1] for w in layer.trainable_weights]
    return dict(zip(names, (to_numpy(w.value) for w in layer.trainable_weights)))


def assert_steps_equal_the_whole(layer, query, value, key, mask):
    """`attend`, a query at a time, is what a call with all of them is.

    Returns:
        The weights (B, T, S) and the state behind the last step.
    """
    whole = layer(query, value, key, value_mask=mask, return_attention_scores=True)
    prepared = layer.prepare(*map(ops.convert_to_tensor, (value, key, mask)))
    state, steps = None, []
    for t in range(query.shape[1]):
        now = ops.convert_to_tensor(query[:, t])
        output, weights, state = layer.attend(now, prepared, state)
        steps.append((to_numpy(output), to_numpy(weights)))
    for found, wanted in zip(zip(*steps), whole):
        np.testing.assert_allclose(np.stack(found, 1), to_numpy(wanted), atol=1e-5)
    return to_numpy(whole[1]), state
