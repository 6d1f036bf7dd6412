"""Compiled decoding: once a bucket, with the weights of now; and what it computes."""

import keras
import numpy as np
import pytest
from gradients import to_numpy
from keras import ops

from keras_attention import samplers
from keras_attention.ops.sequence import decoding

pytestmark = pytest.mark.backends("all")  # each backend has its own kernel

V, END = 5, 4


def table_of(seed):
    return np.random.default_rng(seed).normal(size=(V, V)).astype("float32")


def firsts():
    """A first word for each of three rows."""
    return np.arange(3, dtype="int32")[:, None]


def greedy(table, length):
    """The loop in NumPy."""
    out = np.zeros((3, length), "int32")
    out[:, 0] = np.arange(3)
    for row in out:
        for t in range(1, length):
            row[t] = table[row[t - 1]].argmax()
            if row[t] == END:
                break
    return out


@pytest.mark.parametrize("done", [None, 20, 2000])
def test_a_loop_ends_when_it_is_done(done):
    stops = None if done is None else lambda state: state["x"] > done
    state = {"x": ops.ones(()), "none": None}
    out = decoding.generate(
        lambda i, s: {"x": s["x"] * 2, "none": None}, state, 3, 12, stops
    )
    assert to_numpy(out["x"]) == (32 if done == 20 else 512)


def test_a_loop_of_no_steps():
    assert to_numpy(decoding.generate(lambda i, x: x + 1, ops.ones(()), 3, 3)) == 1


def test_writing_into_a_buffer():
    x = np.arange(30, dtype="float32").reshape(2, 5, 3)
    now = np.array([[7, 8, 9], [1, 2, 3]], "float32")
    found = decoding.write(
        ops.convert_to_tensor(x.copy()), 3, ops.convert_to_tensor(now)
    )
    x[:, 3] = now
    np.testing.assert_array_equal(to_numpy(found), x)


def drawn(chances, uniforms):
    tensors = (ops.convert_to_tensor(x.astype("float32")) for x in (chances, uniforms))
    return ops.convert_to_numpy(decoding.draw(*tensors))


def test_draws_fall_where_their_sum_says():
    chances = np.array([[0, 0.25, 0, 0.5, 0.25, 0]] * 5, "float32") * 4
    uniforms = np.array([0, 0.2499, 0.25, 0.7499, 1 - 2**-24], "float32")
    found = drawn(chances, uniforms)
    assert found.tolist() == [1, 1, 3, 3, 4]


def test_what_has_no_chance_is_never_drawn():
    rng = np.random.default_rng(0)
    chances = rng.random((211, 997), "float32") * (rng.random((211, 997)) < 0.1)
    for uniform in (0.0, 0.3, 1 - 2**-24):
        uniforms = np.full(211, uniform, "float32")
        found = drawn(chances, uniforms)
        assert (np.take_along_axis(chances, found[:, None], 1) > 0).all()


def test_the_nucleus_has_the_fewest_that_reach_p():
    chances = np.array([[0.125, 0.5, 0.0625, 0.25, 0.0625]], "float32")
    for p, least in [
        (0.1, 0.5),
        (0.5, 0.5),
        (0.51, 0.25),
        (0.76, 0.125),
        (0.9, 0.0625),
    ]:
        found = to_numpy(decoding.nucleus(ops.convert_to_tensor(chances), p))
        np.testing.assert_array_equal(found, chances * (chances >= least))


def test_the_nucleus_of_many_words_is_that_of_sorting():
    rng = np.random.default_rng(1)
    chances = rng.dirichlet(np.full(997, 0.1), 13).astype("float32")
    ordered = -np.sort(-chances.astype("float64"), axis=1)
    for p in (0.05, 0.5, 0.9, 0.999):
        kept = (np.cumsum(ordered, axis=1) - ordered < p).sum(1)
        found = to_numpy(decoding.nucleus(ops.convert_to_tensor(chances), p))
        more = (found > 0).sum(1) - kept  # a neighbour as near as a millionth may stay
        assert ((more == 0) | ((more == 1) & (p == 0.999))).all()
        assert (found.sum(1) >= p - 1e-6).all()
    whole = to_numpy(decoding.nucleus(ops.convert_to_tensor(chances), 1.0))
    np.testing.assert_allclose(whole.sum(1), 1, atol=1e-5)


def test_penalties_by_hand():
    lengths = np.array([1, 7, 19])
    found = decoding.length_penalty(ops.convert_to_tensor(lengths), 0.5)
    np.testing.assert_allclose(to_numpy(found), [1, 2**0.5, 2], rtol=1e-6)
    seen = np.array([[0.5, 1.5, 1.0], [0.25, 0.5, 0.0]], "float32")
    found = to_numpy(decoding.coverage_penalty(ops.convert_to_tensor(seen), 0.2))
    expected = 0.2 * np.log([0.5, 0.125 * keras.config.epsilon()])
    np.testing.assert_allclose(found, expected, rtol=1e-6)


class Chain(keras.Model):
    """A chain whose table is a weight, and what a model needs to generate with it."""

    def __init__(self):
        super().__init__()
        self.table = keras.layers.Embedding(V, V)
        self.table.build((None,))
        self.functions = decoding.CompiledFunctions(self)
        self.traces = 0

    def call(self, tokens):
        return self.table(tokens)

    def generate(self, tokens, max_length, sampler, mask=None, seed=None, stop=END):
        prompt = decoding.open_prompt(tokens, max_length, mask)

        def decode(tokens, mask, start, stop_at, draws):
            self.traces += 1
            return sampler(
                lambda prompt, cache, index: (self(prompt[:, index - 1]), None, cache),
                tokens,
                index=start,
                mask=mask,
                stop_token_ids=stop,
                max_length=stop_at,
                draws=draws,
            )

        key = ("decode", sampler.key, stop)
        draws = sampler.draw(*prompt.tokens.shape, seed)
        out = self.functions(key, decode, *prompt, max_length, draws)
        return to_numpy(out)[:, :max_length]


def test_compiled_once_a_bucket_and_with_the_weights_of_now():
    model = Chain()
    first = firsts()
    for seed, length in enumerate([16, 7, 11]):
        model.table.set_weights([table_of(seed)])
        found = model.generate(first, length, samplers.get("greedy"))
        np.testing.assert_array_equal(found, greedy(table_of(seed), length))
    once = keras.config.backend() in ("jax", "tensorflow")
    assert not once or model.traces == 1
    model.generate(first, 17, samplers.get("greedy"))
    assert not once or model.traces == 2  # another bucket
    model.generate(first, 16, samplers.BeamSampler(2))
    model.generate(first, 12, samplers.BeamSampler(2))
    assert not once or model.traces == 3  # another sampler
    model.functions.clear()
    model.generate(first, 12, samplers.BeamSampler(2))
    assert not once or model.traces == 4


def test_fitting_between_two_runs_counts():
    if keras.config.backend() == "numpy":
        pytest.skip("NumPy does not train")
    model = Chain()
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.SGD(10.0), loss)
    for after in (2, 3):  # is what comes behind each word, once that is learned
        words = np.arange(V)
        model.fit(words, np.full(V, after), epochs=9, batch_size=V, verbose=0)
        found = model.generate(firsts(), 5, samplers.get("greedy"))
        assert (found[:, 1:] == after).all()


def test_seeds_of_compiled_runs():
    model, sampler = Chain(), samplers.RandomSampler(seed=0)
    model.table.set_weights([np.zeros((V, V), "float32")])
    one, two = (model.generate(firsts(), 16, sampler, seed=5) for _ in range(2))
    np.testing.assert_array_equal(one, two)
    assert (one != model.generate(firsts(), 16, sampler, seed=6)).any()
    # Without one, the sampler's own: it goes on, and repeats with the sampler's.
    one, two = (model.generate(firsts(), 16, sampler) for _ in range(2))
    assert (one != two).any()
    again = samplers.RandomSampler(seed=0)
    np.testing.assert_array_equal(one, model.generate(firsts(), 16, again))


def test_a_sampler_that_draws_inside_a_compiled_function():
    """As KerasHub's models call it: the state of the seed comes out of the program."""
    model, sampler = Chain(), samplers.TopKSampler(seed=0)

    def decode(prompt):
        step = lambda prompt, cache, index: (model(prompt[:, 0] * 0), None, cache)  # noqa: E731
        return sampler(step, prompt, index=1)

    model.table.set_weights([np.zeros((V, V), "float32")])
    one, two = (
        to_numpy(
            model.functions(
                "k", decode, np.zeros((3, 9), "int32"), variables=sampler.variables
            )
        )
        for _ in range(2)
    )
    assert (one != two).any()


def test_variables_that_are_others_are_not_forgotten():
    layer = keras.layers.Dense(1, use_bias=False, kernel_initializer="ones")
    layer.build((None, 2))
    functions, x = decoding.CompiledFunctions(layer, most=2), np.ones((1, 2), "float32")
    assert to_numpy(functions("call", layer, x)) == 2
    other = keras.Variable(np.full((), 3.0, "float32"))
    times = lambda x: layer(x) * other  # noqa: E731
    assert to_numpy(functions("times", times, x, variables=[other])) == 6
    other.assign(4.0)
    assert to_numpy(functions("times", times, x, variables=[other])) == 8
    layer.enable_lora(1)  # more variables
    layer.lora_kernel_b.assign([[1.0]])
    expected = to_numpy(layer(x))
    assert expected != 2
    np.testing.assert_allclose(to_numpy(functions("call", layer, x)), expected)


def test_what_is_not_compiled_is_the_same():
    model = Chain()
    expected = model.generate(firsts(), 9, samplers.get("beam"))
    model.run_eagerly = True
    found = model.generate(firsts(), 9, samplers.get("beam"))
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("name", ["greedy", "beam"])
def test_rows_do_not_know_of_each_other(name):
    """Nor does it matter how far a prompt is padded."""
    model = Chain()
    model.table.set_weights([table_of(3)])
    tokens = np.array([[1, 2, 3], [2, 0, 0], [3, 1, 0]])
    mask = np.array([[1, 1, 1], [1, 0, 0], [1, 1, 0]], "bool")
    sampler = samplers.get(name)
    together = model.generate(tokens, 9, sampler, mask)
    for i in range(3):
        given = tokens[i : i + 1, : mask[i].sum()]
        alone = model.generate(given, 9, sampler)
        np.testing.assert_array_equal(together[i], alone[0])


def test_prompts_are_opened_to_a_bucket():
    tokens = np.array([[5, 6, 7], [8, 9, 9]])
    prompt = decoding.open_prompt(tokens, 18, [[1, 1, 0], [1, 0, 0]], padding_token=1)
    assert prompt.tokens.shape == prompt.mask.shape == (2, 32)
    assert prompt.start == 1
    assert prompt.tokens[:, :3].tolist() == [[5, 6, 1], [8, 1, 1]]
    assert prompt.mask.sum() == 3
    assert (prompt.tokens[:, 2:] == 1).all()


def test_buckets_are_few_and_not_much_too_long():
    lengths = (1, 16, 17, 33, 65, 128, 129, 160, 257, 513)
    found = [decoding.bucket(n) for n in lengths]
    assert found == [16, 16, 32, 48, 80, 128, 160, 160, 320, 640]
    assert all(decoding.bucket(n) < 1.25 * n for n in range(64, 5000))
    assert len({decoding.bucket(n) for n in range(1, 4097)}) == 8 + 5 * 4


@pytest.mark.parametrize(
    ("args", "text"),
    [
        ((np.ones((2, 3), "int32"), 2), "max_length=2, a prompt of 3 tokens"),
        ((np.ones(3, "int32"), 4), r"prompt.shape=\(3,\)"),
        ((np.ones((2, 3), "int32"), 4, np.ones((2, 2))), r"mask.shape=\(2, 2\)"),
        ((np.ones((2, 3), "int32"), 4, np.zeros((2, 3))), "a token for each row"),
        ((np.ones((2, 0), "int32"), 4), "a token for each row"),
    ],
)
def test_prompts_are_held_to_their_rules(args, text):
    with pytest.raises(ValueError, match=text):
        decoding.open_prompt(*args)


def test_tokens_are_held_to_the_vocabulary():
    decoding.check_tokens("start_token_id", 4, 5)
    decoding.check_tokens("stop_token_ids", (0, 4), 5)
    for token in (-1, 5, (0, 5), 2.5, (1, 2.5)):
        with pytest.raises(ValueError, match="`start_token_id` must be of the voc"):
            decoding.check_tokens("start_token_id", token, 5)
