"""Samplers against plain NumPy: loops, brute force over all sequences, and counts."""

import itertools
import json

import keras
import numpy as np
import pytest
from keras import ops

from keras_attention import samplers
from keras_attention.ops.sequence import decoding

V, END = 5, 4
ALL = ("greedy", "beam", "random", "top_k", "top_p")


def logits_of(seed=0, scale=1.0, batch=3):
    """One table (V, V) a row: the logits of each word behind each other."""
    return np.random.default_rng(seed).normal(0, scale, (batch, V, V)).astype("float32")


def chain(prompt, cache, index, static):
    """Looks the last word up in the row's own table, static (B, V, V)."""
    last = prompt[:, index - 1]
    return ops.take_along_axis(static, last[:, None, None], axis=1)[:, 0], None, cache


def counting(prompt, cache, index, static):
    """A chain with a state: how often each word came so far is taken off its logits."""
    seen, place = cache["seen"], cache["place"]
    seen = seen + ops.one_hot(prompt[:, index - 1], V, dtype="float32")
    logits, _, _ = chain(prompt, (), index, static)
    return logits - seen, None, {"seen": seen, "place": place + 1}


def nothing_seen(batch=3):
    return {
        "seen": ops.zeros((batch, V), "float32"),
        "place": ops.zeros((batch,), "int32"),
    }


def prompts(length=5, batch=3):
    out = np.zeros((batch, length), "int32")
    out[:, 0] = np.arange(batch) % END
    return out


def log_softmax(x):
    x = x.astype("float64")
    x = x - x.max(-1, keepdims=True)
    return x - np.log(np.exp(x).sum(-1, keepdims=True))


def scored(table, words, alpha=0.0):
    """The score of the words behind the first."""
    rows = log_softmax(table)
    total = sum(rows[a, b] for a, b in itertools.pairwise(words))
    return total / ((5 + len(words) - 1) / 6) ** alpha


def sequences(first, count, end):
    """All sequences of `count` words behind the first, or fewer up to an end."""
    for words in itertools.product(range(V), repeat=count):
        cut = words.index(end) + 1 if end in words else count
        if all(w == 0 for w in words[cut:]):  # each shorter one once
            yield (first, *words[:cut])


def run(sampler, prompt, seed=0, scale=1.0, next=chain, **kwargs):
    table = ops.convert_to_tensor(logits_of(seed, scale, len(prompt)))
    out = sampler(next, prompt, index=kwargs.pop("index", 1), static=table, **kwargs)
    return keras.tree.map_structure(ops.convert_to_numpy, out)


def greedy(table, prompt, mask, start=1, end=END):
    """The loop in NumPy."""
    out = prompt.copy()
    for row, given, rows in zip(out, mask, table):
        for t in range(start, len(row)):
            if given[t]:
                continue
            row[t] = rows[row[t - 1]].argmax()
            if row[t] == end:
                break
    return out


@pytest.mark.parametrize("name", ["greedy", "beam"])
def test_greedy_is_a_loop_and_so_is_a_beam_of_one(name):
    sampler = samplers.get(name)
    if name == "beam":
        sampler = samplers.BeamSampler(num_beams=1, length_penalty=0.6)
    for seed in range(3):
        prompt = prompts(7)
        none = np.zeros(prompt.shape, "bool")
        found = run(sampler, prompt, seed, stop_token_ids=[END])
        np.testing.assert_array_equal(found, greedy(logits_of(seed), prompt, none))
        np.testing.assert_array_equal(prompt, prompts(7))  # was not written to


@pytest.mark.parametrize("name", ["greedy", "beam"])
def test_a_state_is_carried_and_goes_with_its_beam(name):
    sampler = samplers.get(name)
    prompt, table = prompts(6), logits_of(1)
    found = run(sampler, prompt, 1, next=counting, cache=nothing_seen())

    def reference(words, rows):
        total = 0.0
        for t in range(1, len(words)):
            seen = np.bincount(words[:t], minlength=V)
            total += log_softmax(rows[words[t - 1]] - seen)[words[t]]
        return total

    for words, rows, first in zip(found, table, prompt[:, 0]):
        if name == "beam":  # scores are those of the states that belong to the words
            every = [(first, *w) for w in itertools.product(range(V), repeat=2)]
            best = max(every, key=lambda w: reference(w, rows))
            two = run(sampler, prompt[:, :3], 1, next=counting, cache=nothing_seen())
            assert tuple(two[first]) == best
        else:
            for t in range(1, len(words)):
                seen = np.bincount(words[:t], minlength=V)
                assert words[t] == (rows[words[t - 1]] - seen).argmax()


@pytest.mark.parametrize("alpha", [0.0, 1.0])
def test_a_wide_beam_is_brute_force(alpha):
    """Five words, among others that are impossible: every sequence has its beam."""
    count, beams = 3, V**3

    def among_others(prompt, cache, index, static):
        logits, _, _ = chain(prompt, (), index, static)
        rest = ops.zeros_like(logits[:, :1]) - float("inf")
        rest = ops.repeat(rest, beams - V, axis=1)
        return ops.concatenate([logits, rest], axis=1), None, cache

    sampler = samplers.BeamSampler(beams, alpha, return_all_beams=True)
    one = samplers.BeamSampler(beams, alpha)
    prompt = prompts(count + 1)
    found, scores = run(sampler, prompt, next=among_others, stop_token_ids=[END])
    best = run(one, prompt, next=among_others, stop_token_ids=[END])
    np.testing.assert_array_equal(best, found[:, 0])
    for row, value, table in zip(found, scores, logits_of()):
        every = list(sequences(int(row[0, 0]), count, END))
        expected = sorted((scored(table, w, alpha) for w in every), reverse=True)
        np.testing.assert_allclose(value[: len(every)], expected, atol=1e-5)
        assert (value[len(every) :] == -np.inf).all()  # there are no others
        score = {
            (*w, *[0] * (count + 1 - len(w))): scored(table, w, alpha) for w in every
        }
        kept = [tuple(map(int, words)) for words in row[: len(every)]]
        assert set(kept) == set(score)
        np.testing.assert_allclose([score[w] for w in kept], expected, atol=1e-5)


def test_a_beam_of_all_words_is_brute_force_over_two():
    for seed in range(3):
        found = run(samplers.BeamSampler(V), prompts(3), seed)
        for row, table in zip(found, logits_of(seed)):
            every = [(int(row[0]), *w) for w in itertools.product(range(V), repeat=2)]
            assert tuple(row) == max(every, key=lambda words: scored(table, words))


def test_the_n_best_are_the_best_n_in_order():
    sampler = samplers.BeamSampler(5, return_all_beams=True)
    found, scores = run(sampler, prompts(3))
    assert found.shape == (3, 5, 3)
    assert (np.diff(scores, axis=1) <= 0).all()
    for row, value, table in zip(found, scores, logits_of()):
        every = [(int(row[0, 0]), *w) for w in itertools.product(range(V), repeat=2)]
        every.sort(key=lambda words: -scored(table, words))
        assert [tuple(words) for words in row] == every[:5]
        expected = [scored(table, words) for words in every[:5]]
        np.testing.assert_allclose(value, expected, atol=1e-5)


def test_what_is_finished_stays_as_it_is():
    """The score of a finished beam is that of its words, however long others run."""
    sampler = samplers.BeamSampler(5, length_penalty=0.7, return_all_beams=True)
    finished = 0
    for seed in range(2):
        found, scores = run(sampler, prompts(7), seed, stop_token_ids=[END])
        for row, value, table in zip(found, scores, logits_of(seed)):
            for words, score in zip(row, value):
                words = [int(w) for w in words]
                if END in words:
                    cut = words.index(END) + 1
                    assert not any(words[cut:])
                    words = words[:cut]
                    finished += 1
                np.testing.assert_allclose(score, scored(table, words, 0.7), atol=1e-5)
    assert finished > 5


@pytest.mark.parametrize(
    "sampler",
    [samplers.GreedySampler(), samplers.BeamSampler(), samplers.BeamSampler(4, 1.0)],
    ids=["greedy", "beam", "beam_by_length"],
)
@pytest.mark.parametrize("seed", [4, 16])
def test_stopping_early_changes_nothing(sampler, seed, monkeypatch):
    """With seed 16 every search stops early; with 4, some rows of two never end."""
    prompt = prompts(17)
    early = run(sampler, prompt, seed, stop_token_ids=[END])
    if seed == 16:
        assert (early == END).any(axis=1).all()
    loop = decoding.generate
    monkeypatch.setattr(decoding, "generate", lambda *args: loop(*args[:4], None))
    whole = run(sampler, prompt, seed, stop_token_ids=[END])
    np.testing.assert_array_equal(early, whole)


@pytest.mark.parametrize("name", ["greedy", "beam"])
def test_it_stops_where_nothing_is_left_to_do(name):
    """The cache counts the steps; a word behind 1 ends, surely."""
    table = np.zeros((3, V, V), "float32")
    table[..., END] = 100.0
    loop, last = decoding.generate, []

    def noting(*args):
        last.append(loop(*args))
        return last[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(decoding, "generate", noting)
        samplers.get(name)(
            counting,
            prompts(17),
            nothing_seen(),
            index=1,
            stop_token_ids=[END],
            static=ops.convert_to_tensor(table),
        )
    steps = ops.convert_to_numpy(last[0][1]["place"])
    assert (steps == 1).all()


def test_coverage_penalty_by_hand():
    """A word attends to its own key; keys 3 and 4 are padding."""
    share = np.array(
        [[0.8, 0.1, 0.1, 0, 0], [0.2, 0.7, 0.1, 0, 0], [0.1] * 2 + [0.8, 0, 0]]
    )
    share = np.concatenate([share, np.full((2, 5), 0.2)]).astype("float32")

    def attending(prompt, cache, index, static):
        now = ops.take(ops.convert_to_tensor(share), prompt[:, index - 1], axis=0)
        logits, _, _ = chain(prompt, (), index, static)
        return logits, None, {"alignment_sum": cache["alignment_sum"] + now}

    start = np.array([[0, 0, 0, 1, 1]] * 3, "float32")
    sampler = samplers.BeamSampler(5, 0.5, coverage_penalty=0.3, return_all_beams=True)
    found, scores = run(
        sampler,
        prompts(5),
        next=attending,
        cache={"alignment_sum": start},
        stop_token_ids=[END],
    )
    assert (np.diff(scores, axis=1) <= 0).all()
    for row, value, table in zip(found, scores, logits_of()):
        for words, score in zip(row, value):
            words = [int(w) for w in words]
            words = words[: words.index(END) + 1] if END in words else words
            seen = start[0] + share[words[:-1]].sum(0)
            seen = np.clip(seen, keras.config.epsilon(), 1)
            bonus = 0.3 * np.log(seen).sum()
            expected = scored(table, words, 0.5) + bonus
            np.testing.assert_allclose(score, expected, atol=1e-5)


@pytest.mark.parametrize("name", ALL)
def test_prompts_of_unequal_length_are_kept(name):
    prompt = np.array([[1, 0, 0, 0, 0, 0], [2, 3, 4, 1, 0, 0], [3, 2, 0, 0, 0, 0]])
    mask = np.arange(6) < np.array([[1], [4], [2]])
    found = run(samplers.get(name), prompt, mask=mask, stop_token_ids=END)
    assert found.shape == prompt.shape
    np.testing.assert_array_equal(found[mask], prompt[mask])
    if name == "greedy":  # the 4 that was given ends nothing
        np.testing.assert_array_equal(found, greedy(logits_of(), prompt, mask))


N = 4000


@pytest.mark.parametrize(
    ("sampler", "kept"),
    [
        (samplers.RandomSampler(0.7, seed=1), 5),
        (samplers.TopKSampler(2, 1.5, seed=2), 2),
        (samplers.TopKSampler(99, seed=3), 5),
        (samplers.TopPSampler(0.8, seed=4), 3),
        (samplers.TopPSampler(0.8, k=2, temperature=1.0, seed=5), 2),
        (samplers.TopPSampler(1.0, temperature=2.0, seed=6), 5),
    ],
    ids=["random", "top_k", "top_all", "top_p", "top_p_of_k", "top_p_all"],
)
def test_words_come_as_often_as_they_should(sampler, kept):
    chances = np.array([0.1, 0.35, 0.03, 0.4, 0.12])
    logits = np.log(chances).astype("float32")

    def same(prompt, cache, index):
        rows = ops.zeros_like(prompt[:, :1], dtype="float32")
        return rows + ops.convert_to_tensor(logits), None, cache

    found = ops.convert_to_numpy(sampler(same, np.zeros((N, 3), "int32"), index=1))
    assert (found[:, 0] == 0).all()
    expected = chances ** (1 / sampler.temperature)
    expected[np.argsort(-chances)[kept:]] = 0
    expected /= expected.sum()
    for column in (found[:, 1], found[:, 2]):
        share = np.bincount(column, minlength=V) / N
        bound = 4.5 * np.sqrt(expected * (1 - expected) / N)
        assert (np.abs(share - expected) <= bound).all(), (share, expected)
    both = np.outer(expected, expected)  # one draw knows nothing of the other
    share = np.bincount(found[:, 1] * V + found[:, 2], minlength=V * V) / N
    assert np.abs(share - both.ravel()).max() < 4.5 * np.sqrt(both.max() / N)


@pytest.mark.parametrize("name", ["RandomSampler", "TopKSampler", "TopPSampler"])
def test_a_seed_repeats_a_run(name):
    make = getattr(samplers, name)
    prompt = np.zeros((7, 11), "int32")
    one, other = make(seed=3), make(seed=3)
    first = run(one, prompt)
    np.testing.assert_array_equal(first, run(other, prompt))
    assert (first != run(one, prompt)).any()  # the seed has moved on
    assert (first != run(make(seed=4), prompt)).any()


@pytest.mark.parametrize(
    "sampler",
    [
        samplers.GreedySampler(),
        samplers.BeamSampler(3, 0.6, 0.2),
        samplers.RandomSampler(0.5, seed=1),
        samplers.TopKSampler(7, 0.5, seed=1),
        samplers.TopPSampler(0.3, 4, 0.5, seed=1),
        samplers.ExcludingSampler(samplers.TopKSampler(7, 0.5, seed=1), [3, 1]),
    ],
    ids=[*ALL, "excluding"],
)
def test_samplers_survive_a_config(sampler):
    registered = keras.saving.get_registered_name(type(sampler))
    assert registered == f"keras_attention>{type(sampler).__name__}"
    config = keras.saving.serialize_keras_object(sampler)
    for again in (
        samplers.get(config),
        type(sampler).from_config(sampler.get_config()),
    ):
        assert type(again) is type(sampler)
        assert again.get_config() == sampler.get_config()
    assert samplers.get(sampler) is sampler


@pytest.mark.parametrize("name", ALL)
def test_samplers_are_found_by_name(name):
    assert (
        type(samplers.get(name)).__name__.lower() == name.replace("_", "") + "sampler"
    )


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: samplers.get("greedier"), "sampler='greedier'"),
        (lambda: samplers.RandomSampler(0.0), "`temperature` must be above 0"),
        (lambda: samplers.TopKSampler(temperature=-1), "temperature=-1"),
        (lambda: samplers.TopKSampler(0), "`k` must be at least 1"),
        (lambda: samplers.TopPSampler(0.0), r"`p` must be .* p=0.0"),
        (lambda: samplers.TopPSampler(1.1), r"`p` must be .* p=1.1"),
        (lambda: samplers.TopPSampler(k=0), "`k` must be at least 1"),
        (lambda: samplers.BeamSampler(0), "`num_beams` must be at least 1"),
        (lambda: samplers.BeamSampler(length_penalty=-1), "`length_penalty`"),
        (lambda: samplers.BeamSampler(coverage_penalty=-1), "`coverage_penalty`"),
    ],
)
def test_arguments_are_held_to_their_rules(make, text):
    with pytest.raises(ValueError, match=text):
        make()


@pytest.mark.parametrize(
    ("sampler", "kwargs", "text"),
    [
        (samplers.GreedySampler(), {"index": 3, "max_length": 2}, "max_length=2"),
        (samplers.GreedySampler(), {"max_length": 9}, "max_length=9"),
        (samplers.BeamSampler(6), {}, "num_beams=6"),
        (samplers.GreedySampler(), {"stop_token_ids": [5]}, "stop_token_ids"),
        (samplers.BeamSampler(2), {"stop_token_ids": -1}, "stop_token_ids"),
        (samplers.GreedySampler(), {"mask": np.ones((3, 2), "bool")}, "`mask`"),
        (samplers.BeamSampler(2, coverage_penalty=1.0), {}, "coverage_penalty"),
    ],
)
def test_bad_requests_are_told(sampler, kwargs, text):
    with pytest.raises(ValueError, match=text):
        run(sampler, prompts(5), **kwargs)


@pytest.mark.parametrize(
    "make",
    [
        samplers.GreedySampler,
        lambda: samplers.BeamSampler(2, 0.6),
        lambda: samplers.RandomSampler(3.0, seed=1),
        lambda: samplers.TopKSampler(3, 3.0, seed=1),
        lambda: samplers.TopPSampler(0.99, temperature=3.0, seed=1),
    ],
    ids=ALL,
)
def test_excluded_tokens_are_not_generated(make):
    """A chain without the tokens gives the same as a chain without their columns."""
    prompt = prompts(13, batch=4)[:1]
    assert {1, 3} & set(run(make(), prompt)[0, 1:].tolist())
    excluding = samplers.ExcludingSampler(make(), tokens=[3, 1])
    found = run(excluding, prompt)
    assert not {1, 3} & set(found[0, 1:].tolist())
    low = ops.convert_to_tensor([0.0, -1e30, 0.0, -1e30, 0.0])

    def lowered(prompt, cache, index, static):
        logits, _, cache = chain(prompt, cache, index, static)
        return logits + low, None, cache

    np.testing.assert_array_equal(found, run(make(), prompt, next=lowered))


def test_excluding_sampler_delegates():
    beam = samplers.BeamSampler(2, return_all_beams=True)
    sampler = samplers.ExcludingSampler(beam, (3, 1, 3))
    assert sampler.return_all_beams
    assert sampler.variables == []
    tokens, scores = run(sampler, prompts(4))
    assert tokens.shape == (3, 2, 4)
    assert scores.shape == (3, 2)
    random = samplers.ExcludingSampler(samplers.RandomSampler(seed=3), [1])
    assert random.variables == random.sampler.variables
    assert random.draw(2, 3, seed=4).shape == (2, 3)
    keys = {sampler.key, random.key, samplers.ExcludingSampler(beam, [1]).key}
    assert len(keys) == 3
    again = samplers.ExcludingSampler(samplers.RandomSampler(seed=5), [1])
    assert again.key == random.key


@pytest.mark.parametrize(
    ("sampler", "same"),
    [
        (
            samplers.TopPSampler(
                np.float32(0.5), np.int64(2), np.float64(2), np.int64(3)
            ),
            samplers.TopPSampler(0.5, 2, 2.0, 3),
        ),
        (samplers.TopKSampler(np.int64(5)), samplers.TopKSampler(5)),
        (
            samplers.BeamSampler(np.int8(2), np.float32(0.5), np.float16(0), False),
            samplers.BeamSampler(2, 0.5, 0.0, np.bool_(False)),
        ),
        (
            samplers.ExcludingSampler(samplers.GreedySampler(), {np.int64(3), 1}),
            samplers.ExcludingSampler(samplers.GreedySampler(), range(1, 4, 2)),
        ),
    ],
    ids=["top_p", "top_k", "beam", "excluding"],
)
def test_numbers_of_numpy_are_numbers(sampler, same):
    assert sampler.key == same.key
    assert json.dumps(sampler.get_config()) == json.dumps(same.get_config())
    draws = (s.draw(3, 5, np.int64(1)) for s in (sampler, same))
    found = (run(s, prompts(5), draws=d) for s, d in zip((sampler, same), draws))
    np.testing.assert_array_equal(*found)


def test_a_sampler_is_its_own_key_if_its_attributes_do_not_tell():
    class Mine(samplers.GreedySampler):
        def __init__(self, rule):
            self._rule = rule

    one, other = Mine(np.zeros(3)), Mine(np.zeros(3))
    assert one.key == one.key != other.key
    assert Mine(3).key == Mine(3).key != Mine(4).key


@pytest.mark.parametrize(
    ("arguments", "kwargs", "text"),
    [
        (("greedy", [1]), {}, "`sampler` must be a sampler of .* sampler='greedy'"),
        (
            (samplers.GreedySampler(), []),
            {},
            r"must not be empty.* tokens=\[\]",
        ),
        ((samplers.GreedySampler(), [-1]), {}, r"tokens=\[-1\]"),
        ((samplers.GreedySampler(), [1.5]), {}, r"tokens=\[1.5\]"),
        ((samplers.GreedySampler(), [V]), {}, "`tokens` must be of the vocabulary"),
        ((samplers.GreedySampler(), range(V)), {}, "must not exclude the whole"),
        (
            (samplers.GreedySampler(), [1, END]),
            {"stop_token_ids": END},
            r"`stop_token_ids` must not contain excluded tokens. Received: \[4\]",
        ),
    ],
)
def test_what_cannot_be_excluded(arguments, kwargs, text):
    with pytest.raises(ValueError, match=text):
        run(samplers.ExcludingSampler(*arguments), prompts(5), **kwargs)
