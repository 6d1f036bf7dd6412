"""KeyValueMemNN against its equations in NumPy, and learning a small knowledge base."""

import keras
import numpy as np
import pytest
import references
from calling import needs_training
from gradients import to_numpy

from keras_attention import record_attention
from keras_attention.datasets import triples
from keras_attention.models import KeyValueMemNN
from keras_attention.text import EntityLinker

WORDS, RELATIONS, D, M, L, B = 17, 11, 3, 5, 7, 2


@pytest.fixture
def inputs():
    """Two questions; the second has three facts, two with the same value."""
    rng = np.random.default_rng(0)
    question = rng.integers(1, WORDS, (B, L)).astype("int32")
    question[1, 5:] = 0
    relations = rng.integers(1, RELATIONS, (B, M))
    entities = np.array([[1, 1, 4, 4, 2], [1, 6, 1, 0, 0]])
    values = np.array([[4, 2, 3, 5, 6], [6, 3, 3, 0, 0]])
    keys = np.stack([entities, relations * (entities > 0)], axis=-1)
    return {
        "question": question,
        "keys": keys.astype("int32"),
        "values": values.astype("int32"),
    }


def unit(entity):
    """4 times the unit vector of an entity; none for padding and the question's own."""
    return 4.0 * (np.arange(2, M + 2) == entity)


def answer(model, question, keys, values):
    """The probabilities of one question, fact by fact."""
    weights = {w.path: to_numpy(w) for w in model.weights}
    keyed, own, roles = (
        weights[f"{n}/embeddings"]
        for n in ("key_relations", "own_entity", "answer_relations")
    )
    asked = references.sentences(question, weights["words/embedding/embeddings"])
    state = np.concatenate([asked, np.zeros(M)])
    facts = [(e, r, v) for (e, r), v in zip(keys, values) if v]
    found = np.zeros(M + 2)
    if not facts:
        found[0] = 1
        return found
    k = [np.concatenate([keyed[r] + own[int(e == 1)], unit(e)]) for e, r, _ in facts]
    v = [np.concatenate([np.zeros(D), unit(o)]) for *_, o in facts]
    for hop in range(1, model.hops + 1):
        state = state + references.softmax(np.array(k) @ state) @ np.array(v)
        matrix = np.diag([float(weights[f"hop_{hop}/scale"])] * (D + M))
        matrix[:D, :D] = weights[f"hop_{hop}/query/kernel"]
        state = state @ matrix
    y = np.array([np.concatenate([roles[r], unit(o)]) for _, r, o in facts])
    for (*_, o), part in zip(facts, references.softmax(y @ state)):
        found[o] += part
    return found


@pytest.mark.parametrize("hops", [1, 2])
def test_equals_its_equations(inputs, hops):
    keras.utils.set_random_seed(1)
    model = KeyValueMemNN(WORDS, RELATIONS, D, hops, M, kernel_initializer="orthogonal")
    rng = np.random.default_rng(3)
    for weight in model.trainable_weights:
        if weight.path.endswith("scale"):
            weight.assign(rng.uniform(0.1, 0.3))
        elif "hop" not in weight.path:
            weight.assign(rng.normal(size=weight.shape))
    inputs = {name: np.concatenate([x, x[:1]]) for name, x in inputs.items()}
    inputs["keys"][2] = inputs["values"][2] = 0  # no fact
    expected = [
        answer(model, *(inputs[name][i] for name in ("question", "keys", "values")))
        for i in range(B + 1)
    ]
    found = to_numpy(model(inputs))
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(found.sum(1), 1, rtol=1e-5)
    assert found[2].tolist() == [1, 0, 0, 0, 0, 0, 0]
    assert len(model.trainable_weights) == 4 + 2 * hops


def test_other_numbers_change_nothing_but_themselves(inputs):
    keras.utils.set_random_seed(1)
    model = KeyValueMemNN(WORDS, RELATIONS, D, 2, M)
    for weight in model.trainable_weights:
        weight.assign(3 * weight)
    order = np.array([0, 1, 5, 6, 2, 4, 3])  # 0 and 1 keep their meaning
    other = {
        "question": inputs["question"],
        "keys": np.stack([order[inputs["keys"][..., 0]], inputs["keys"][..., 1]], -1),
        "values": order[inputs["values"]],
    }
    found, expected = to_numpy(model(other)), to_numpy(model(inputs))
    np.testing.assert_allclose(found[:, order], expected, rtol=1e-4, atol=1e-6)
    assert np.ptp(expected) > 0.1


def test_each_hop_is_recorded(inputs):
    with record_attention() as maps:
        KeyValueMemNN(WORDS, RELATIONS, D, 2, M, name="network")(inputs)
    assert [name.split("/")[-1] for name in maps] == ["hop_1", "hop_2"]
    for weights in maps.values():
        assert weights.shape == (B, M)
        np.testing.assert_allclose(weights.sum(1), 1, rtol=1e-5)
        assert (weights[1, 3:] == 0).all()


SIZE = 61
ASKED = {  # question: the relations that lead to its answer
    "who painted [{}]": ("painted_by",),
    "what did [{}] paint": ("!painted_by",),
    "where does [{}] hang": ("hangs_in",),
    "who else painted in the town of the painter [{}]": ("lives_in", "!lives_in"),
    "where do the pictures of [{}] hang": ("!painted_by", "hangs_in"),
    "where does the painter of [{}] live": ("painted_by", "lives_in"),
}


def gallery(rng, painters, name):
    """Facts about painters and pictures that nobody has heard of."""
    facts = []
    for i in range(painters):
        painter, town = f"{name} painter {i}", f"{name} town {i // 2}"
        facts.append(triples.Fact(painter, "lives_in", town))
        for j in range(rng.integers(1, 4)):
            picture = f"{name} picture {i}.{j}"
            hall = f"{name} hall {rng.integers(painters // 3)}"
            facts.append(triples.Fact(picture, "painted_by", painter))
            facts.append(triples.Fact(picture, "hangs_in", hall))
    return triples.KnowledgeBase(facts)


def ask(knowledge):
    """Each question about each entity that has an answer."""
    questions = []
    for entity in knowledge.entities:
        for text, path in ASKED.items():
            ends = [entity]
            for relation in path:
                ends = [
                    fact.object
                    for end in ends
                    for fact in knowledge.facts_about(end)
                    if fact.relation == relation and fact.object != entity
                ]
            if ends:
                answers = tuple(dict.fromkeys(ends))
                questions.append(triples.Question(text.format(entity), answers))
    return questions


@pytest.mark.release
@needs_training
def test_learns_paths_and_answers_about_entities_it_never_met():
    rng = np.random.default_rng(0)
    known, strange = gallery(rng, 60, "old"), gallery(rng, 20, "new")
    train, test = ask(known), ask(strange)
    linker = EntityLinker(known.entities)
    vocabulary = triples.question_vocabulary(train, linker)
    vectors = triples.vectorize(train, known, vocabulary, SIZE, hops=2, linker=linker)
    unseen = triples.vectorize(test, strange, vocabulary, SIZE, hops=2)
    assert unseen.unanswerable == 0
    keras.utils.set_random_seed(0)
    model = KeyValueMemNN(
        len(vocabulary), len(known.relations), 16, hops=2, memory_size=SIZE
    )
    model.compile(keras.optimizers.Adam(0.01), keras.losses.CategoricalCrossentropy())
    model.fit(vectors.inputs, vectors.answers, batch_size=32, epochs=15, verbose=0)
    names = triples.decode(
        model.predict(unseen.inputs, verbose=0), unseen.entities, strange
    )
    right = [name in q.answers for name, q in zip(names, test)]
    assert np.mean(right) >= 0.98


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"vocabulary_size": 0}, "`vocabulary_size` must be at least 1"),
        ({"relations": 0}, "`relations` must be at least 1. Received: relations=0"),
        ({"embedding_dim": 0}, "`embedding_dim` must be at least 1"),
        ({"hops": 0}, "`hops` must be at least 1. Received: hops=0"),
        ({"hops": 1.5}, "`hops` must be a whole number. Received: hops=1.5"),
        ({"memory_size": -2}, "`memory_size` must be at least 1"),
        ({"encoding": "words"}, r"`encoding` must be one of \['bag', 'position'"),
        ({"normalizer": "max"}, r"`normalizer` must be one of \['entmax15'"),
        ({"entities": 9}, "`KeyValueMemNN` has no such argument. Received: entities=9"),
    ],
)
def test_bad_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        KeyValueMemNN(**{"vocabulary_size": WORDS, "relations": RELATIONS, **arguments})
