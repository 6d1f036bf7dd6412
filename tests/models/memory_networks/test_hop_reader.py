"""HopReader against its equations in NumPy, and learning three hops."""

import keras
import numpy as np
import pytest
import references
from calling import few_compiled, needs_training
from gradients import to_numpy

from keras_attention.datasets import triples
from keras_attention.models import HopReader, KeyValueMemNN, MemNN
from keras_attention.text import EntityLinker

WORDS, RELATIONS, ENTITIES, D, L = 17, 7, 23, 3, 5


def network(hops, size, seed=1):
    """A model with weights that make the hops prefer some relations."""
    keras.utils.set_random_seed(seed)
    model = KeyValueMemNN(
        WORDS, RELATIONS, D, hops, size, kernel_initializer="orthogonal"
    )
    rng = np.random.default_rng(seed)
    for weight in model.trainable_weights:
        if weight.path.endswith("scale"):
            weight.assign(rng.uniform(0.1, 0.3))
        elif "hop" not in weight.path:
            weight.assign(rng.normal(size=weight.shape))
    return model


def some_facts(seed=2, number=61):
    rng = np.random.default_rng(seed)
    facts = np.stack(
        [
            rng.integers(0, ENTITIES, number),
            rng.integers(1, RELATIONS, number),
            rng.integers(0, ENTITIES, number),
        ],
        axis=1,
    )
    return np.unique(facts, axis=0)[rng.permutation(len(np.unique(facts, axis=0)))]


def some_questions(number=7):
    rng = np.random.default_rng(3)
    questions = rng.integers(1, WORDS, (number, L))
    questions[1, 3:] = 0
    return questions, rng.permutation(ENTITIES)[:number]


def read(model, facts, words, start, size, share):
    """Reads hop by hop, in float64 and with dicts of entities."""
    weights = {w.path: to_numpy(w) for w in model.weights}
    keyed, own, roles = (
        weights[f"{n}/embeddings"]
        for n in ("key_relations", "own_entity", "answer_relations")
    )
    query = references.sentences(words, weights["words/embedding/embeddings"])
    codes, reached, counts = {}, {start}, []
    for hop in range(1, model.hops + 1):
        near = [
            (e, r, v) for e, r, v in facts if e in reached and (v != start or e == v)
        ]
        near = sorted(near, key=lambda fact: fact[0])  # stable
        scores = np.array(
            [
                query @ (keyed[r] + own[int(hop == 1)]) + 4 * codes.get(e, 0)
                for e, r, _ in near
            ]
        )
        kept = np.argsort(-scores, kind="stable")[:size]
        counts.append((len(kept), len(near) - len(kept)))
        near = [near[i] for i in kept]
        if not near:
            return {}, counts
        weight = {}
        for (_, _, v), p in zip(near, references.softmax(scores[kept])):
            weight[v] = weight.get(v, 0) + p
        query = query @ weights[f"hop_{hop}/query/kernel"]
        scale = float(weights[f"hop_{hop}/scale"])
        codes = {e: 4 * scale * w for e, w in weight.items()}
        most = max(weight.values())
        reached = {e for e, w in weight.items() if w >= share * most}
    logits = np.array([query @ roles[r] + 4 * codes[v] for _, r, v in near])
    found = {}
    for (_, _, v), p in zip(near, references.softmax(logits)):
        found[v] = found.get(v, 0) + p
    return found, counts


@pytest.mark.backends("all")
@few_compiled(("hops", "size", "share"), [(1, 11, 0.1), (3, 31, 0.0), (3, 5, 0.3)])
def test_equals_its_equations(hops, size, share):
    model, facts = network(hops, size), some_facts()
    questions, starts = some_questions()
    starts[-1] = -1  # an unknown entity
    answers = HopReader(model, facts, share=share).answer(
        questions, starts, top=ENTITIES
    )
    for n, (words, start) in enumerate(zip(questions, starts)):
        found, counts = read(model, facts.tolist(), words, start, size, share)
        known = answers.entities[n] >= 0
        assert set(answers.entities[n, known]) == set(found)
        np.testing.assert_allclose(
            answers.probabilities[n, known],
            [found[e] for e in answers.entities[n, known].tolist()],
            rtol=1e-4,
        )
        assert (np.diff(answers.probabilities[n]) <= 0).all()
        assert (answers.probabilities[n, ~known] == 0).all()
        got = list(zip(answers.read[n].tolist(), answers.cut[n].tolist()))
        assert got[: len(counts)] == counts
        if found:
            chain = facts[answers.facts[n]]  # (H, 3)
            assert chain[0, 0] == start
            assert (chain[1:, 0] == chain[:-1, 2]).all()
            assert chain[-1, 2] == answers.entities[n, 0]
        else:
            assert (answers.facts[n] == -1).all()
    assert (answers.entities[-1] == -1).all()
    assert (size == 5) == answers.cut.any()


def test_one_hop_reads_as_the_model_does():
    model, facts = network(1, 13), some_facts()
    questions, starts = some_questions()
    reader = HopReader(model, facts)
    inputs, _ = reader.along(questions, starts, [[1]] * 7, [[0]] * 7)
    found = to_numpy(reader.network(inputs))  # (N, 2, M + 2)
    inputs = {name: x if name == "question" else x[:, 0] for name, x in inputs.items()}
    np.testing.assert_allclose(found[:, 1], to_numpy(model(inputs)), atol=1e-6)


def test_sizes_may_be_numpy_numbers():
    model, facts = network(2, 4), some_facts()
    plain = HopReader(model, facts, 3, share=0.5)
    same = HopReader(model, facts, np.int64(3), share=np.float32(0.5))
    questions, starts = some_questions()
    expected = plain.answer(questions, starts, top=2)
    for x, y in zip(same.answer(questions, starts, top=np.int64(2)), expected):
        np.testing.assert_array_equal(x, y)


def test_memories_along_a_path():
    facts = np.array(
        [[0, 1, 1], [0, 1, 2], [0, 2, 3], [1, 3, 4], [2, 3, 4], [2, 3, 0], [3, 3, 5]]
    )
    model = network(2, 4)
    reader = HopReader(model, facts)
    paths: list = [None, [1, 3], [2, 3], [1, 2]]
    answers: list = [[], [4], [4], []]
    questions, starts = np.ones((4, 2), int), np.zeros(4, int)
    inputs, targets = reader.along(questions, starts, paths, answers)
    assert inputs["question"].shape == (3, 2)
    one = inputs["keys"][0].tolist()
    assert one[0] == [[1, 1], [1, 1], [1, 2], [0, 0]]
    assert one[1] == [[2, 3], [3, 3], [0, 0], [0, 0]]  # not back to 0
    assert inputs["values"][0].tolist() == [[2, 3, 4, 0], [2, 2, 0, 0]]
    four = [0, 0, 1, 0, 0, 0]
    assert targets[0].tolist() == [[0, 0, 0.5, 0.5, 0, 0], four, four]
    assert inputs["values"][1].tolist() == [[2, 3, 4, 0], [2, 0, 0, 0]]
    assert targets[1].tolist() == [[0, 0, 0, 0, 1, 0], four, [0] * 6]
    assert targets[2].sum(-1).tolist() == [1, 0, 0]  # no fact has the relation


def test_a_full_memory_keeps_a_part_of_the_path():
    facts = np.array([[0, 1 + (i > 2), 1 + i] for i in range(40)])
    reader = HopReader(network(1, 7), facts)
    inputs, targets = reader.along(
        np.ones((5, 2), int), np.zeros(5, int), [[1], [2]] * 2 + [[3]], [[1, 30]] * 5
    )
    relations = inputs["keys"][:, 0, :, 1]
    assert (inputs["values"] > 0).all()
    assert (relations == 1).sum(1)[[0, 2]].tolist() == [3, 3]
    assert ((relations == 2).sum(1)[[1, 3]] >= 4).all()
    assert targets[0, 1].sum() == 1


ASKED = {  # question: the relations that lead to its answer
    "in which halls hang the pictures of the painter of [{}]": (
        *("painted_by", "!painted_by", "hangs_in"),
    ),
    "which years saw pictures of the painter of [{}]": (
        *("painted_by", "!painted_by", "year"),
    ),
    "who painted in the year of [{}]": ("year", "!year", "painted_by"),
    "which halls hang what was painted in the year of [{}]": (
        *("year", "!year", "hangs_in"),
    ),
    "when was painted what hangs beside [{}]": ("hangs_in", "!hangs_in", "year"),
}


def gallery(seed, painters, name):
    """Pictures with a painter, a hall and a year, all of them with other names."""
    rng, facts = np.random.default_rng(seed), []
    for i in range(painters):
        for j in range(rng.integers(2, 5)):
            picture = f"{name} picture {i}.{j}"
            for relation, value in (
                ("painted_by", f"painter {i}"),
                ("hangs_in", f"hall {rng.integers(painters // 2)}"),
                ("year", f"year {rng.integers(painters // 2)}"),
            ):
                facts.append(triples.Fact(picture, relation, f"{name} {value}"))
    return triples.KnowledgeBase(facts)


def ask(knowledge):
    """Each question about each picture that has an answer."""
    questions = []
    for entity in knowledge.entities:
        for text, path in ASKED.items():
            relations = [knowledge.relations.index(name) for name in path]
            ends = triples.path_ends(knowledge, entity, relations)
            if ends:
                names = tuple(knowledge.entities[end] for end in ends)
                questions.append(triples.Question(text.format(entity), names))
    return questions


# It takes five seconds: only training shows that paths found by answers suffice.
@pytest.mark.release
@needs_training
def test_learns_three_hops_from_answers():
    known, strange = gallery(0, 30, "old"), gallery(1, 15, "new")
    train, test = ask(known), ask(strange)
    linker = EntityLinker(known.entities)
    vocabulary = triples.question_vocabulary(train, linker)
    asked = triples.ask(train, known, vocabulary, linker)
    found = [
        triples.find_path(known, known.entities[start], question.answers, 3)
        for start, question in zip(asked.starts, train)
    ]
    paths = [path and path.relations for path in found]
    keras.utils.set_random_seed(0)
    model = KeyValueMemNN(
        len(vocabulary), len(known.relations), 16, hops=3, memory_size=24
    )
    reader = HopReader(model, known.to_array())
    inputs, targets = reader.along(asked.questions, asked.starts, paths, asked.answers)
    reader.network.compile(
        keras.optimizers.Adam(0.01), keras.losses.CategoricalCrossentropy()
    )
    reader.network.fit(inputs, targets, batch_size=32, epochs=6, verbose=0)
    unseen = triples.ask(test, strange, vocabulary)
    answers = HopReader(model, strange.to_array()).answer(
        unseen.questions, unseen.starts
    )
    right = [e in a for e, a in zip(answers.entities[:, 0], unseen.answers)]
    assert np.mean(right) >= 0.98


@pytest.fixture(scope="module")
def two_hops():
    return HopReader(network(2, 3), some_facts())


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda m, r: HopReader(m, np.zeros((3, 2), int)), r"`facts` must be integers"),
        (lambda m, r: HopReader(m, np.zeros((0, 3), int)), "must hold at least one"),
        (lambda m, r: HopReader(m, np.array([[0, 7, 1]])), "relations from 1 to 6"),
        (
            lambda m, r: HopReader(m, np.array([[0, 0, 1]])),
            "Received: relations from 0",
        ),
        (lambda m, r: HopReader(m, np.array([[0, 1, -1]])), "must not be negative"),
        (lambda m, r: HopReader(m, some_facts(), share=2), "`share` must be .*share=2"),
        (
            lambda m, r: HopReader(m, some_facts(), share="a"),
            "`share` must be a number",
        ),
        (
            lambda m, r: HopReader(MemNN(WORDS, D), some_facts()),
            "`model` must be a `KeyValueMemNN`. Received: .* MemNN",
        ),
        (lambda m, r: HopReader(m, some_facts(), 0), "`memory_size` must be at least"),
        (lambda m, r: r.answer(np.ones(3, int), np.zeros(3, int)), "`questions` must"),
        (lambda m, r: r.answer(np.ones((0, 3), int), np.zeros(0, int)), "at least one"),
        (lambda m, r: r.answer(np.ones((1, 3)), np.zeros(1, int)), "float64"),
        (lambda m, r: r.answer(np.full((1, 3), 17), np.zeros(1, int)), "below 17"),
        (lambda m, r: r.answer(np.ones((1, 3), int), np.array([99])), "`starts` must"),
        (lambda m, r: r.answer(np.ones((1, 3), int), np.zeros(2, int)), r"shape \(1\)"),
        (
            lambda m, r: r.answer(np.ones((1, 3), int), np.zeros(1, int), top=0),
            "`top` must be at least 1. Received: top=0",
        ),
        (
            lambda m, r: r.answer(np.ones((1, 3), int), np.zeros(1, int), top=True),
            "`top` must be a whole number. Received: top=True",
        ),
        (
            lambda m, r: r.along(np.ones((1, 3), int), np.zeros(1, int), [[1]], [[2]]),
            r"`paths\[0\]` must be integers of shape \(2\)",
        ),
        (
            lambda m, r: r.along(np.ones((1, 3), int), np.zeros(1, int), [None], [[]]),
            "`paths` must hold at least one path",
        ),
        (
            lambda m, r: r.along(np.ones((1, 3), int), np.zeros(1, int), [], [[]]),
            "one entry per question. Received: 0 and 1 for 1",
        ),
    ],
)
def test_bad_arguments(call, message, two_hops):
    with pytest.raises(ValueError, match=message):
        call(two_hops.model, two_hops)
