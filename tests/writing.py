"""What the tests of models that write have in common."""

import keras
import numpy as np
from keras import ops

from keras_attention import record_attention, samplers

START, STOP = 2, 3
B, S, SOURCES, TARGETS = 3, 7, 11, 13  # of sources, and how many words there are


def sources():
    """Sources of seven words, the second one of four."""
    source = np.random.default_rng(0).integers(4, SOURCES, (B, S)).astype("int32")
    source[1, 4:] = 0
    return source


def sharper(model, factor, rank=0):
    """Multiplies weights that have at least `rank` axes, so that sequences differ."""
    for weight in model.trainable_weights:
        if len(weight.shape) >= rank:
            weight.assign(factor * ops.convert_to_tensor(weight))
    return model


def after_start(written):
    """What teacher forcing reads: the start, and each token but the last."""
    start = np.full((len(written), 1), START)
    return np.concatenate([start, written[:, :-1]], 1).astype("int32")


def forced(model, written, **inputs):
    """Logits (B, T, V) of what was written, with teacher forcing."""
    return model.predict({**inputs, "target": after_start(written)}, verbose=0)


def assert_greedy_is_argmax(model, length, **inputs):
    """Returns what was written, and its logits with teacher forcing."""
    written = model.generate(inputs, length, stop_token_ids=None)
    logits = forced(model, written, **inputs)
    assert written.shape == (len(logits), length)
    assert written.dtype == np.int32
    np.testing.assert_array_equal(logits.argmax(-1), written)
    return written, logits


def attention_weights(model, **inputs):
    """The weights of the only attention layer, of a call."""
    with record_attention() as maps:
        model({name: ops.convert_to_tensor(x) for name, x in inputs.items()})
    (weights,) = maps.values()
    return weights


def log_chances(logits, written):
    """The logarithm of each sequence's chance, from the logits of its tokens."""
    logits = logits.astype("float64")
    logits = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    return np.take_along_axis(logits, written[..., None], -1).sum((-2, -1))


def assert_one_beam_is_greedy(model, length, **inputs):
    greedy = model.generate(inputs, length, stop_token_ids=None)
    one = model.generate(inputs, length, samplers.BeamSampler(1), stop_token_ids=None)
    np.testing.assert_array_equal(one, greedy)


def assert_scores_are_chances(model, length, count=4, tolerance=1e-4, **inputs):
    """The score of a beam is the logarithm of its chance; the best comes first."""
    sampler = samplers.BeamSampler(count, return_all_beams=True)
    beams, scores = model.generate(inputs, length, sampler, stop_token_ids=None)
    assert beams.shape == (*scores.shape, length)
    assert scores.shape[1] == count
    for k in range(count):
        chances = log_chances(forced(model, beams[:, k], **inputs), beams[:, k])
        np.testing.assert_allclose(scores[:, k], chances, rtol=tolerance)
    assert (np.diff(scores, axis=1) <= 1e-5).all()


def assert_ends(written, free, stop):
    """Up to its first stop token, a row equals the free one; zeros follow."""
    for row, whole in zip(written, free, strict=True):
        places = np.flatnonzero(whole == stop)
        end = places[0] + 1 if len(places) else len(whole)
        np.testing.assert_array_equal(row[:end], whole[:end])
        assert (row[end:] == 0).all()


def counted(model):
    """A list that grows each time that Python runs the model's `begin`."""
    begun, begin = [], model.begin

    def counting(*arguments):
        begun.append(1)
        return begin(*arguments)

    object.__setattr__(model, "begin", counting)
    return begun


def assert_learns_to_reverse(model, loss, rate, epochs):
    """At least nine in ten sources are reversed; by chance 1 in 16,807."""
    source = np.random.default_rng(0).integers(4, SOURCES, (1600, 5)).astype("int32")
    labels = np.pad(source[:, ::-1], ((0, 0), (0, 1)), constant_values=STOP)
    model.compile(keras.optimizers.Adam(rate), loss)
    inputs = {"source": source[:1500], "target": after_start(labels[:1500])}
    model.fit(inputs, labels[:1500], batch_size=50, epochs=epochs, verbose=0)
    written = model.generate(source[1500:], 6, stop_token_ids=STOP)
    assert (written == labels[1500:]).all(1).mean() >= 0.9
