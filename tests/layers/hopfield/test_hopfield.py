import keras
import numpy as np
import pytest
import references
from calling import few_compiled, needs_training
from gradients import gradient, to_numpy
from heads import DQ, DV, close, inputs, normal, projected, shaken, weights_of
from keras import ops

from keras_attention import layers, record_attention
from keras_attention.ops import heads as heads_equation
from keras_attention.ops.hopfield import energy

H, E, V = 3, 4, 5
RANDOM = np.random.default_rng


def hopfield(*given, seed=3, **arguments):
    """A layer of three heads with random weights, biases included."""
    arguments = {"num_heads": H, "key_dim": E, "value_dim": V, **arguments}
    layer = layers.Hopfield(**arguments)
    layer.build(*(x.shape for x in given or inputs()))
    return shaken(layer, seed)


def reference(layer, q, v, k, beta, mask=True, tiled=False, exact=references.softmax):
    """The update rule of the authors' layer, in float64, and its last association.

        q ← βq, p = softmax(qkᵀ);   then k times  q ← βpk, p = softmax(qkᵀ);   o = pv

    Their β, if there is one for each head, is tiled over the features of all heads, so
    that feature j has β[j mod H]; with `tiled=False` head h has β[h].
    """
    w = weights_of(layer)
    q, k = projected(q, *w["query"]), projected(k, *w["key"])  # (B, ·, H, E)
    v = projected(v, *w["value"])
    heads, width = q.shape[2:]
    beta = np.broadcast_to(np.asarray(beta, "float64"), (heads,))
    scale = np.repeat(beta, width)
    if tiled:
        scale = np.tile(beta, width)
    scale = scale.reshape(heads, width)
    for step in range(layer.update_steps):
        if step:
            q = np.einsum("bhts,bshe->bthe", p, k)  # noqa: F821, it is of the last step
        q = q * scale
        p = exact(np.einsum("bthe,bshe->bhts", q, k), mask)
    found = np.einsum("bhts,bshv->bthv", p, v)
    kernel, bias = w["output"]
    return np.tensordot(found, kernel, 2) + bias, p


@pytest.mark.parametrize("heads", [1, H])
def test_equals_the_authors_update_rule(heads):
    """Their `update_steps_max` is ours less one. Value and key differ in width."""
    given = inputs()
    for steps in range(1, 6):
        layer = hopfield(num_heads=heads, update_steps=steps, beta=0.7)
        expected = reference(layer, *given, 0.7)
        output, weights = layer(*given, return_attention_scores=True)
        close(output, expected[0])
        close(weights, expected[1])
        close(layer(*given), expected[0])


def test_each_head_has_its_own_beta():
    """Theirs mixes them up: feature j of all heads has that of head j mod H."""
    given, betas = inputs(), [0.3, 1.0, 2.5]
    for learned in (False, True):
        layer = hopfield(update_steps=2, beta=betas, trainable_beta=learned)
        if learned:
            layer._log_beta.assign(np.log(betas))
        close(layer(*given), reference(layer, *given, betas)[0])
        mixed = reference(layer, *given, betas, tiled=True)[0]
        assert np.abs(to_numpy(layer(*given)) - mixed).max() > 0.05
        np.testing.assert_allclose(layer.betas, betas, rtol=1e-6)


@needs_training
def test_beta_is_learned():
    """Theirs cannot be: a parameter fails an assertion there."""
    given, betas = inputs(), np.array([0.3, 1.0, 2.5])
    layer = hopfield(update_steps=3, beta=betas, trainable_beta=True)
    along = references.normal(*layer(*given).shape, seed=9)

    def loss(log_beta):
        with keras.StatelessScope([(layer._log_beta, log_beta)]):
            return ops.sum(layer(*given) * ops.cast(along, "float32"))

    def exactly(log_beta):
        return (reference(layer, *given, np.exp(log_beta))[0] * along).sum()

    (found,) = gradient(loss, np.log(betas))
    expected = references.differences(exactly, np.log(betas))
    assert np.abs(expected).min() > 1e-2
    assert np.abs(found - expected).max() < 1e-4 * np.abs(expected).max()


@pytest.mark.backends("all")
@needs_training
def test_training_moves_beta_and_keeps_it_above_zero():
    keras.utils.set_random_seed(0)
    query = keras.Input((3, DQ))
    layer = layers.Hopfield(H, E, beta=0.01, trainable_beta=True, update_steps=2)
    model = keras.Model(query, layer(query, query))
    model.compile(keras.optimizers.Adam(1.0), "mse")
    model.fit(normal(4, 3, DQ), normal(4, 3, DQ, seed=1), epochs=4, verbose=0)
    assert layer.betas.shape == (H,)
    assert (layer.betas > 0).all()
    assert (np.abs(np.log(layer.betas / 0.01)) > 0.1).all()


def test_plain_retrieval_keeps_samples_apart():
    """Theirs scrambles a batch where there are several heads and no projections."""
    query, _, _ = inputs()
    stored = normal(2, 5, DQ, seed=4)
    retrieve = layers.Hopfield(update_steps=2, beta=0.5, projections=False)
    together = to_numpy(retrieve(query, stored))
    for b in range(2):
        close(retrieve(query[b : b + 1], stored[b : b + 1]), together[b : b + 1])
    assert not retrieve.weights


@pytest.mark.parametrize("normalizer", energy.NORMALIZERS)
def test_plain_retrieval_is_the_update_of_the_energy(normalizer):
    query, _, _ = inputs()
    stored = normal(2, 5, DQ, seed=4)
    state = query
    for _ in range(3):
        state = energy.hopfield_update(state, stored, 0.8, normalizer)
    retrieve = layers.Hopfield(
        update_steps=3, beta=0.8, normalizer=normalizer, projections=False
    )
    close(retrieve(query, stored), state)
    close(retrieve(query, stored, return_attention_scores=True)[0], state)


@pytest.mark.parametrize("normalizer", ["softmax1", "sparsemax", "entmax15"])
def test_other_separations_take_the_softmax_s_place(normalizer):
    given = inputs()
    layer = hopfield(update_steps=3, beta=0.7, normalizer=normalizer)
    exact = references.NORMALIZERS[normalizer]
    close(layer(*given), reference(layer, *given, 0.7, exact=exact)[0])


def test_softmax1_is_a_pattern_of_zeros_more():
    """What theirs calls `add_zero_association`."""
    query, _, _ = inputs()
    stored = normal(2, 5, DQ, seed=4)
    nothing = np.concatenate([stored, np.zeros((2, 1, DQ), "float32")], 1)
    arguments = {"update_steps": 2, "beta": 0.6, "projections": False}
    beside = layers.Hopfield(**arguments, normalizer="softmax1")
    close(beside(query, stored), layers.Hopfield(**arguments)(query, nothing))


def test_a_state_that_sees_no_pattern_is_zero():
    """Theirs is NaN."""
    given = inputs()
    mask = RANDOM(5).random((2, 3, 5)) < 0.6
    mask[0, 1] = False
    for steps in (1, 3, None):
        layer = hopfield(update_steps=steps, projections={"use_bias": False})
        output = to_numpy(layer(*given, attention_mask=mask))
        assert (output[0, 1] == 0).all()
        assert np.isfinite(output).all()
        assert (output[0, 0] != 0).any()
    layer = hopfield(update_steps=3, beta=0.7)
    expected = reference(layer, *given, 0.7, mask[:, None])
    close(layer(*given, attention_mask=mask), expected[0])


def test_a_causal_mask_holds_at_every_step():
    _, v, k = inputs()
    q = normal(2, 5, DQ, seed=7)
    layer = hopfield(q, v, k, update_steps=3, beta=0.7)
    expected = reference(layer, q, v, k, 0.7, np.tri(5, dtype=bool))[0]
    close(layer(q, v, k, use_causal_mask=True), expected)


@pytest.mark.backends("all")
@few_compiled("normalizer", ["softmax", "softmax1"])
def test_no_step_holds_the_weights(normalizer, monkeypatch):
    given = inputs()
    layer = hopfield(update_steps=3, normalizer=normalizer)
    expected = to_numpy(layer(*given))
    explicit = heads_equation.weighted_heads
    calls = []
    monkeypatch.setattr(
        heads_equation,
        "weighted_heads",
        lambda *x, **y: calls.append(1) or explicit(*x, **y),
    )
    close(layer(*given), expected)
    assert not calls
    layer(*given, return_attention_scores=True)
    assert len(calls) == 1  # the last step alone


def at_rest(layer, query, stored):
    """Each state by itself until it moves no further than the tolerance, and once more.

    Returns what is retrieved and the number of steps of each.
    """
    found, steps = np.array(query, "float64"), np.zeros(query.shape[:2], int)
    for b, t in np.ndindex(query.shape[:2]):
        x, state = stored[b].astype("float64"), found[b, t]
        moved = np.inf
        while moved > layer.tolerance and steps[b, t] < 100:
            new = references.softmax(layer.beta * x @ state) @ x
            moved, state = np.linalg.norm(new - state), new
            steps[b, t] += 1
        found[b, t] = references.softmax(layer.beta * x @ state) @ x
    return found, steps


def test_each_state_comes_to_rest_by_itself():
    query, stored = normal(2, 3, DQ), normal(2, 5, DQ, seed=4)
    layer = layers.Hopfield(
        update_steps=None, beta=0.5, projections=False, tolerance=1e-2
    )
    expected, steps = at_rest(layer, query, stored)
    assert len(set(steps.ravel().tolist())) > 2
    close(layer(query, stored), expected)


@pytest.mark.backends("all")
def test_what_is_at_rest_does_not_depend_on_its_batch():
    """Theirs stops a head when every sample of the batch has come to rest."""
    query, stored = normal(2, 3, DQ), normal(2, 5, DQ, seed=4)
    layer = layers.Hopfield(
        update_steps=None, beta=0.5, projections=False, tolerance=1e-2
    )
    first = to_numpy(layer(query, stored))
    assert np.ptp(at_rest(layer, query, stored)[1][0]) > 0
    for factor in (0.0, 1.0, 30.0):  # others that rest sooner, and later
        changed = np.stack([query[0], factor * normal(3, DQ, seed=8)])
        others = np.stack([stored[0], factor * normal(5, DQ, seed=9)])
        found = to_numpy(layer(changed, others))
        np.testing.assert_array_equal(found[0], first[0])
    changed = query.copy()
    changed[:, 1:] = 9.0  # nor on the other states of its own sample
    np.testing.assert_array_equal(to_numpy(layer(changed, stored))[:, 0], first[:, 0])


def test_heads_come_to_rest_as_many_steps_do():
    given = inputs()
    rests = hopfield(update_steps=None, tolerance=0.0, beta=0.2)
    steps = hopfield(update_steps=60, beta=0.2)
    close(rests(*given), steps(*given))


@pytest.mark.backends("all")
def test_a_search_until_rest_is_not_trained():
    given = inputs()
    layer = hopfield(update_steps=None)
    with pytest.raises(ValueError, match=r"(?s)a number while training.*=None"):
        layer(*given, training=True)


def test_decoding_step_by_step_is_the_whole_at_once():
    x = normal(2, 5, DQ)
    layer = hopfield(x, x, update_steps=3, beta=0.7)
    expected = to_numpy(layer(x, x, use_causal_mask=True))
    cache = layer.initial_cache(2, 5)
    for t in range(5):
        output, cache = layer.step(ops.convert_to_tensor(x[:, t]), cache, t)
        close(output, expected[:, t])


def test_weights_are_recorded():
    given = inputs()
    layer = hopfield(update_steps=2, beta=0.7)
    with record_attention() as maps:
        layer(*given)
    close(maps[layer.path], reference(layer, *given, 0.7)[1])


@needs_training
def test_dropout_is_of_the_last_step():
    query, stored = normal(2, 3, DQ), normal(2, 5, DQ, seed=4)
    value = np.broadcast_to(np.eye(5, dtype="float32"), (2, 5, 5))
    layer = layers.Hopfield(update_steps=3, projections=False, dropout=0.5)
    output, weights = layer(
        query, value, stored, training=True, return_attention_scores=True
    )
    output, weights = to_numpy(output), to_numpy(weights)[:, 0]
    kept = output != 0
    assert 0 < kept.sum() < kept.size
    close(output[kept], 2 * weights[kept])
    close(weights, layer(query, value, stored, return_attention_scores=True)[1][:, 0])


BAD = [
    ({"num_heads": 0}, r"`num_heads` must be at least 1.*num_heads=0"),
    ({"key_dim": 2.5}, r"`key_dim` must be a whole number.*key_dim=2.5"),
    ({"update_steps": 0}, r"`update_steps` must be a whole.*update_steps=0"),
    ({"update_steps": 1.5}, r"`update_steps` must be a whole.*update_steps=1.5"),
    ({"update_steps": True}, r"`update_steps` must be a whole.*update_steps=True"),
    ({"beta": 0}, r"`beta` must be a number above 0.*beta=0"),
    ({"beta": -1.0}, r"`beta` must be a number above 0.*beta=-1.0"),
    ({"beta": float("nan")}, r"`beta` must be a number above 0.*beta=nan"),
    ({"beta": "8"}, r"`beta` must be a number above 0.*beta='8'"),
    ({"beta": [1.0, 2.0]}, r"a number for each head.*beta=\[1.0, 2.0\], num_heads=1"),
    ({"normalizer": "sotfmax"}, r"`normalizer` must be one of.*'sotfmax'"),
    ({"normalizer": "linear"}, r"`normalizer` must be one of.*'linear'"),
    ({"dropout": 1.0}, r"`dropout` must be at least 0 and below 1.*1.0"),
    ({"tolerance": -1e-3}, r"`tolerance` must be.*tolerance=-0.001"),
    ({"tolerance": np.inf}, r"`tolerance` must be.*tolerance=inf"),
    ({"projections": {"bias": 1}}, r"`projections` must be True.*\{'bias': 1\}"),
    ({"projections": "no"}, r"`projections` must be True.*'no'"),
    (
        {"projections": {"query_key_normalization": "l2"}},
        r"`query_key_normalization` must be one of.*'l2'",
    ),
    (
        {"use_bias": False, "output_shape": 3},
        r"`use_bias` and `output_shape` must be given as "
        r"`projections=\{'use_bias': False, 'output_shape': 3\}`.*output_shape=3$",
    ),
    ({"projections": False, "num_heads": 2}, r"`num_heads` must be 1 with.*=2"),
    ({"projections": False, "key_dim": 2}, r"`key_dim` is the width of a proj.*=2"),
]


@pytest.mark.parametrize(("arguments", "message"), BAD)
def test_what_cannot_be_is_refused(arguments, message):
    with pytest.raises(ValueError, match=f"(?s){message}"):
        layers.Hopfield(**arguments)


def test_widths_that_do_not_fit_are_refused():
    q, v, k = inputs()
    with pytest.raises(ValueError, match=r"one width.*\(2, 3, 7\).*\(2, 5, 13\)"):
        layers.Hopfield(projections=False)(q, v, k)
    with pytest.raises(ValueError, match=r"one width.*\(2, 3, 7\).*\(2, 5, 13\)"):
        layers.Hopfield(projections=False).compute_output_shape(
            q.shape, v.shape, k.shape
        )
    with pytest.raises(
        ValueError, match=r"must divide the width of the query.*width=7"
    ):
        layers.Hopfield(num_heads=2)(q, v, k)
    with pytest.raises(RuntimeError, match="needs a layer that is built"):
        _ = layers.Hopfield(3).betas


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        ([(3, 7), (5, 7)], r"`value`, which is stored.*value_shape=\(5, 7\)"),
        ([(2, 3, 7), (5, 7)], r"`value`, which is stored.*value_shape=\(5, 7\)"),
        ([(2, 3, 7), (2, 5, 7), (5, 7)], r"`key`, which.*key_shape=\(5, 7\)"),
        ([(2, 3, 5, 7), (2, 5, 7)], r"`query` must have.*\(2, 3, 5, 7\)"),
    ],
)
def test_what_has_not_rank_3_is_named(shapes, message):
    plain = layers.Hopfield(projections=False)
    with pytest.raises(ValueError, match=message):
        plain(*(np.ones(shape, "float32") for shape in shapes))
    with pytest.raises(ValueError, match=message):
        plain.compute_output_shape(*shapes)


def test_widths_by_default():
    q, v, k = inputs()
    layer = layers.Hopfield(num_heads=DQ)
    assert tuple(layer(q, v, k).shape) == (2, 3, DQ)
    assert (layer.key_dim, layer.value_dim) == (1, 1)
    assert layer.get_config()["key_dim"] is None
    plain = layers.Hopfield(projections=False)
    stored = normal(2, 5, DQ)
    assert tuple(plain(q, v, stored).shape) == (2, 3, DV)
    assert plain.compute_output_shape(q.shape, v.shape, stored.shape) == (2, 3, DV)
    assert plain.betas.tolist() == [1.0]
