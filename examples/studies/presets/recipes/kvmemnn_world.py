"""KeyValueMemNN on simulated facts about paintings; questions of one or two facts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import keras
import numpy as np

from keras_attention import callbacks
from keras_attention.datasets import babi, triples
from keras_attention.models import KeyValueMemNN
from keras_attention.presets.preprocessors import FactPreprocessor
from keras_attention.text import EntityLinker
from studies.presets.recipe import Recipe, least_score

# Questions besides those that `generate_questions` makes from the names of relations.
TEMPLATES = {
    "painted_by": ("who made {}", "which painter painted {}", "who is {} by"),
    "!painted_by": (
        "which paintings did {} paint",
        "which paintings are by {}",
        "what are the paintings of {}",
    ),
    "year": (),
    "!year": ("which paintings are from {}",),
    "style": (),
    "!style": ("which paintings are of the style {}",),
    "hangs_in": ("in which museum does {} hang", "which museum has {}"),
    "!hangs_in": ("which paintings hang in {}", "which paintings does {} have"),
    "located_in": ("in which town is {}",),
    "!located_in": ("which museums are in {}", "which museum is in {}"),
    "born_in": ("in which town was {} born",),
    "!born_in": ("which painter was born in {}", "which painters were born in {}"),
    "taught_by": ("who was the teacher of {}",),
    "!taught_by": ("which painters did {} teach", "who learned from {}"),
}
RELATIONS = tuple(name for name in TEMPLATES if not name.startswith("!"))
# Names of the tests. The network never learns a name.
NAMES = {
    "painting": [
        f"The {name}"
        for name in [
            "Mill",
            "Pond",
            "Heath",
            "Ferry",
            "Orchard",
            "Bridge",
            "Harvest",
            "Garden",
            "Storm",
        ]
    ],
    "painter": ["Ann Lee", "Bo Dahl", "Cara Voss", "Dan Ito", "Eva Marsh", "Finn Noor"],
    "year": [str(year) for year in range(1901, 1913)],
    "style": ["impressionism", "realism", "expressionism", "cubism"],
    "museum": ["Harbour Museum", "Town Hall", "Gallery North", "Art House"],
    "town": ["Port Alder", "Westby", "Lindau", "Norwick", "Estona"],
}
ALIKE = {kind: [f"{kind} {n}" for n in range(12)] for kind in NAMES}
WORLDS, QUESTIONS, TESTED = 120, 50, 20  # worlds, questions about each, test worlds
EPOCHS, BATCH, RATE = 20, 64, 0.003


def train(seed: int) -> Any:
    """Trains on 6,000 questions about 120 small worlds, in about two minutes."""
    worlds = [_world((seed, n, 0), ALIKE) for n in range(WORLDS)]
    asked = [_asked(world, (seed, n, 0)) for n, world in enumerate(worlds)]
    linkers = [EntityLinker(world.entities) for world in worlds]
    words = [
        linker.link(question.text).words
        for linker, questions in zip(linkers, asked)
        for question in questions
    ]
    tools = FactPreprocessor(
        babi.Vocabulary(sorted({word for found in words for word in found})),
        RELATIONS,
        memory_size=64,
        hops=2,
        question_length=max(map(len, words)),
    )
    made = [tools.vectorize(*row) for row in zip(worlds, asked, linkers)]
    keras.utils.set_random_seed(seed)
    model = KeyValueMemNN(
        len(tools.vocabulary),
        1 + 2 * len(RELATIONS),
        hops=tools.hops,
        memory_size=tools.memory_size,
        encoding="centered_position",
    )
    model.compile(keras.optimizers.Adam(RATE), keras.losses.CategoricalCrossentropy())
    inputs = {
        name: np.concatenate([found.inputs[name] for found in made])
        for name in made[0].inputs
    }
    model.fit(
        inputs,
        np.concatenate([found.answers for found in made]),
        BATCH,
        EPOCHS,
        verbose=0,
        callbacks=[callbacks.HalveLearningRate(EPOCHS // 5)],
    )
    model.preprocessor = tools
    return model


def calibrate(model: Any, seed: int) -> None:
    """Sets the least score of questions without brackets about new worlds."""
    tools, scores = model.preprocessor, []
    for n in range(TESTED):
        world = _world((seed, n, 2), NAMES)
        vectors = tools.vectorize(world, _plain(_asked(world, (seed, n, 2))))
        found = model.predict(vectors.inputs, batch_size=QUESTIONS, verbose=0)
        answers = tools.decode(found, vectors.entities, world)
        for row, entities, names in zip(found, vectors.entities, answers):
            chosen = [e >= 0 and world.entities[e] in names for e in entities]
            scores.append(row[chosen].sum())
    tools.min_score = least_score(scores)


def measure(model: Any) -> dict[str, float]:
    """Returns the shares of 1,000 questions about other worlds that are right.

    An answer is right if it has all names that it should have, and no others. The
    questions have no brackets.
    """
    tools = model.preprocessor
    right: dict[int, list[bool]] = {1: [], 2: []}
    guessed: dict[int, list[bool]] = {1: [], 2: []}
    for n in range(TESTED):
        world = _world((n, 1), NAMES)
        asked = _asked(world, (n, 1))
        vectors = tools.vectorize(world, _plain(asked))
        found = model.predict(vectors.inputs, batch_size=QUESTIONS, verbose=0)
        answers = tools.decode(found, vectors.entities, world)
        for question, names in zip(asked, answers):
            right[len(question.path)].append({*names} == {*question.answers})
            guess = most_alike(world, question.text)
            guessed[len(question.path)].append(guess == {*question.answers})
    return {
        f"{name}right of {facts} %": round(100 * float(np.mean(shares[count])), 2)
        for name, shares in (("", right), ("baseline ", guessed))
        for count, facts in ((1, "one fact"), (2, "two facts"))
    }


def _plain(questions: Sequence[triples.Question]) -> list[triples.Question]:
    """Returns questions without brackets."""
    return [
        triples.Question(q.text.replace("[", "").replace("]", ""), q.answers)
        for q in questions
    ]


def most_alike(world: triples.KnowledgeBase, text: str) -> set[str]:
    """Returns the names that the relation with the most words of a question leads to.

    The relations are those of the name in brackets.
    """
    words, name = {*babi.tokenize(text)}, text[text.index("[") + 1 : text.index("]")]
    led: dict[str, set[str]] = {}
    for _, relation, value in world.facts_about(name):
        led.setdefault(relation, set()).add(value)
    best = max(led, key=lambda key: len(words & {*key.strip("!").split("_")}))
    return led[best]


def _world(
    seed: Sequence[int], names: Mapping[str, Sequence[str]]
) -> triples.KnowledgeBase:
    """Simulates paintings, their painters, and museums in towns."""
    random = np.random.default_rng(seed)

    def some(kind: str, fewest: int, most: int) -> list[str]:
        chosen = random.permutation(names[kind])[: random.integers(fewest, most + 1)]
        return [str(name) for name in chosen]

    paintings, painters = some("painting", 5, 9), some("painter", 3, 6)
    museums, towns = some("museum", 2, 4), some("town", 3, 5)
    years, styles = some("year", 4, 8), some("style", 2, 4)
    facts = []
    for painting in paintings:
        for relation, values in (
            ("painted_by", painters),
            ("year", years),
            ("style", styles),
            ("hangs_in", museums),
        ):
            facts.append((painting, relation, str(random.choice(values))))
    for museum in museums:
        facts.append((museum, "located_in", str(random.choice(towns))))
    for n, painter in enumerate(painters):
        facts.append((painter, "born_in", str(random.choice(towns))))
        if n == 0 or random.random() < 0.6:
            others = [name for name in painters if name != painter]
            facts.append((painter, "taught_by", str(random.choice(others))))
    return triples.KnowledgeBase(
        triples.Fact(*facts[n]) for n in random.permutation(len(facts))
    )


def _asked(
    world: triples.KnowledgeBase, seed: Sequence[int]
) -> list[triples.PathQuestion]:
    random = np.random.default_rng(seed)
    return triples.generate_questions(
        world,
        QUESTIONS,
        hops=2,
        templates=TEMPLATES,
        seed=int(random.integers(2**31)),
    )


RECIPE = Recipe(
    what="Answers questions about facts that you give it, on paintings, painters and "
    "museums. An answer needs one or two facts.",
    data="6,000 questions about 120 simulated worlds of up to 60 facts. The questions "
    "follow patterns made from the names of seven relations (datasets.triples), and 21 "
    "patterns added by hand.",
    licence="Simulated by this package: Apache 2.0",
    limits=f"It knows only the relations {', '.join(RELATIONS)}, and the words of its "
    "training questions. Any names may be used. It reads up to 64 facts around the "
    "name in a question and follows at most two of them. It always answers, even "
    "if no fact gives the answer. Its score compares only the names in the memory, so "
    "a wrong answer may also have the score 1.",
    baseline="a rule that chooses, for the name in the question, the relation that "
    "shares the most words with the question, and answers with all names to which this "
    "relation leads",
    use='model.answer(["The Mill | painted by | Ann Lee", "Ann Lee | born in | Lindau"'
    '], "Where was the painter of The Mill born?")',
    train=train,
    measure=measure,
    calibrate=calibrate,
)
