"""A network answers questions about your own facts, by the facts that it shows.

    python examples/ask_a_knowledge_base.py                  # facts made up for this
    python examples/ask_a_knowledge_base.py paintings.csv    # your own facts
    python examples/ask_a_knowledge_base.py paintings.csv --question "Who made X?"
    python examples/ask_a_knowledge_base.py paintings.csv --training questions.txt
    python examples/ask_a_knowledge_base.py paintings.csv --model asked   # saved before
    python examples/ask_a_knowledge_base.py --backend torch  # or tensorflow

The file has one fact per line, a subject, a relation and an object: a table (.csv,
.tsv), N-Triples (.nt), or text with "|" between them. It may be gzipped.

The network is trained on questions that are generated from the names of the relations,
so "painted_by" gives "who painted …" and "what did … paint". It learns no entities: the
facts may change afterwards, as long as the relations stay. Your own questions make it
understand your own words: a file with a question, a tab and the answers with "|"
between them on each line.

The model is KeyValueMemNN: Miller et al., "Key-value memory networks for directly
reading documents" (2016), https://arxiv.org/abs/1606.03126.
"""

import argparse
import importlib.util
import json
import os
import sys
import time
import warnings
from pathlib import Path

DEMONSTRATION = """\
The Mill|painted_by|Ann Lee
The Mill|year|1901
The Mill|hangs_in|Harbour Museum
The Mill|style|impressionism
The Pond|painted_by|Ann Lee
The Pond|year|1904
The Pond|hangs_in|Town Hall
The Pond|style|impressionism
The Heath|painted_by|Bo Dahl
The Heath|year|1908
The Heath|hangs_in|Harbour Museum
The Heath|style|realism
The Ferry|painted_by|Bo Dahl
The Ferry|year|1911
The Ferry|hangs_in|Harbour Museum
The Ferry|style|expressionism
Red Roofs|painted_by|Cara Voss
Red Roofs|year|1911
Red Roofs|hangs_in|Gallery North
Red Roofs|style|expressionism
Night Train|painted_by|Cara Voss
Night Train|year|1913
Night Train|hangs_in|Gallery North
Night Train|style|expressionism
The Orchard|painted_by|Dan Ito
The Orchard|year|1904
The Orchard|hangs_in|Town Hall
The Orchard|style|impressionism
Ann Lee|born_in|Port Alder
Bo Dahl|born_in|Westby
Cara Voss|born_in|Port Alder
Dan Ito|born_in|Lindau
Bo Dahl|taught_by|Ann Lee
Cara Voss|taught_by|Bo Dahl
Dan Ito|taught_by|Ann Lee
Harbour Museum|located_in|Port Alder
Town Hall|located_in|Westby
Gallery North|located_in|Lindau
"""
QUESTIONS = (
    "Who painted The Mill?",
    "Which paintings did Bo Dahl paint?",
    "Where was the painter of Red Roofs born?",
    "Who was taught by Ann Lee?",
    "Who taught Ann Lee?",
)


def parse_arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("file", nargs="?", type=Path, help="your facts; default: made-up ones")
    add("--question", action="append", help="ask this and end; may be repeated")
    add("--training", type=Path, help="a file of your own questions and answers")
    add("--header", action="store_true", help="the first row of a table names columns")
    add("--separator", help="what stands between the fields; default: found out")
    add(
        "--hops",
        type=int,
        default=2,
        choices=(1, 2),
        help="facts that a question may combine; default: 2",
    )
    add(
        "--count", type=count, default=3000, help="questions to train on; default: 3000"
    )
    add("--epochs", type=count, default=20, help="of training; default: 20")
    add("--seed", type=int, default=0, help="of all chance; default: 0")
    add("--backend", choices=("jax", "tensorflow", "torch"), help="default: jax")
    add("--model", type=Path, help="a folder saved before, instead of training")
    add("--out", type=Path, default=Path("asked"), help="where to save; default: asked")
    return parser.parse_args()


def count(text):
    """Converts an argument to an integer of at least 1."""
    if text.isascii() and text.isdigit() and int(text):
        return int(text)
    raise argparse.ArgumentTypeError(f"must be at least 1. Received: {text}")


# Keras chooses its backend when it is imported.
arguments = parse_arguments()
backend = arguments.backend or os.environ.get("KERAS_BACKEND", "jax")
os.environ["KERAS_BACKEND"] = backend
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
if importlib.util.find_spec(backend) is None:
    sys.exit(f'{backend} is not installed: python -m pip install ".[{backend}]"')

import keras
import numpy as np

from keras_attention import callbacks, models
from keras_attention.datasets import DataNotFoundError, babi, triples
from keras_attention.text import EntityLinker, UnknownEntityError

SIZES = {1: (64, 128, 256, 512), 2: (128, 256, 512)}  # facts of a memory, by hops
DOUBT = 0.2  # below this probability, the words ask for other relations
SHOWN = 6  # facts


def main():
    knowledge = read_facts()
    questions = read_questions(knowledge)
    if not arguments.model:
        check_writable(arguments.out)
    session = load(knowledge) if arguments.model else train(knowledge, questions)
    asked = arguments.question
    if not asked and not arguments.file:
        asked = QUESTIONS
    for question in asked or ():
        print(f"\n> {question}")
        answer(session, question)
    if arguments.question:
        return
    print("\nAsk a question, one on each line; Ctrl-D ends.")
    while True:
        try:
            question = input("> ").strip()
        except EOFError:
            print()
            return
        if question:
            answer(session, question)


def read_facts():
    """Reads the facts and prints what is to be known about them."""
    with noted():
        try:
            if arguments.file:
                header = True if arguments.header else None
                facts = triples.load(arguments.file, arguments.separator, header)
            else:
                print("No file is given: these facts about painters are made up.")
                facts = triples.parse(DEMONSTRATION)
            knowledge = triples.KnowledgeBase(facts)
        except (DataNotFoundError, ValueError) as error:
            sys.exit(str(error))
    half = len(knowledge.relations) // 2
    relations = knowledge.relations[1 : half + 1]
    print(
        f"{len(knowledge)} facts about {len(knowledge.entities)} entities; "
        f"{half} relations: {', '.join(relations[:12])}{' …' * (half > 12)}"
    )
    if len(facts) > len(knowledge):
        print(
            f"note: {len(facts) - len(knowledge)} facts are repeated; each counts once."
        )
    doubtful = triples.several_values(knowledge)
    for fact in doubtful[:SHOWN]:
        print(
            f"note: {fact.share:.0%} of the subjects of {fact.relation} have one "
            f"value, but {fact.subject} has {len(fact.objects)}: "
            f"{', '.join(fact.objects)}. All are kept, and all are answers."
        )
    if len(doubtful) > SHOWN:
        print(f"note: so it is with {len(doubtful) - SHOWN} more.")
    return knowledge


def read_questions(knowledge):
    """Reads the user's training questions; those without an answer are named."""
    if not arguments.training:
        return []
    try:
        questions = triples.load_questions(arguments.training)
    except (DataNotFoundError, ValueError) as error:
        sys.exit(str(error))
    linker = EntityLinker(knowledge.entities)
    used = []
    for number, question in enumerate(questions, 1):
        where = f"note: {arguments.training}, question {number} is not used: "
        try:
            entity = linker.link(question.text).entity
        except UnknownEntityError as error:
            print(f"{where}{error}")
            continue
        unknown = [name for name in question.answers if name not in knowledge]
        facts, _ = knowledge.around(entity, arguments.hops, SIZES[2][-1])
        near = {knowledge.entities[value] for _, _, value in facts}
        if unknown:
            print(f"{where}the facts do not name {', '.join(unknown)}.")
        elif near.isdisjoint(question.answers):
            print(
                f"{where}no relation leads from {entity} to its answers with at most "
                f"{arguments.hops} facts."
            )
        else:
            used.append(question)
    if not used:
        sys.exit(f"{arguments.training} holds no question that can be used.")
    print(f"{len(used)} questions of yours to train on")
    return used


class Session:
    """A trained network and what it needs to answer."""

    def __init__(self, model, vocabulary, knowledge, memory, hops):
        self.model = model
        self.vocabulary = vocabulary
        self.knowledge = knowledge
        self.memory = memory
        self.hops = hops
        self.linker = EntityLinker(knowledge.entities)

    def vectorize(self, questions):
        return triples.vectorize(
            questions,
            self.knowledge,
            self.vocabulary,
            self.model.memory_size,
            self.hops,
            self.linker,
        )


def train(knowledge, questions):
    """Trains a network on generated questions and saves it."""
    hops, size, memory = sizes(knowledge)
    seed = arguments.seed

    def generate(number, seed, other_words=0.0):
        return triples.generate_questions(
            knowledge, number, hops, other_words=other_words, seed=seed
        )

    known, made, test = (
        generate(arguments.count, seed),
        generate(arguments.count, seed + 1, 0.3),
        generate(300, seed + 2),
    )
    linker = EntityLinker(knowledge.entities)
    vocabulary = triples.question_vocabulary([*known, *questions], linker)
    repeated = (
        questions * max(1, len(made) // (4 * len(questions))) if questions else []
    )
    keras.utils.set_random_seed(seed)
    model = models.KeyValueMemNN(
        len(vocabulary),
        len(knowledge.relations),
        hops=hops,
        memory_size=size,
        encoding="centered_position",
    )
    session = Session(model, vocabulary, knowledge, memory, hops)
    with noted():
        vectors = session.vectorize([*made, *repeated])
    paths = [q.path for q in made] + [()] * len(repeated)
    inputs, answers = memory.extend(vectors, paths)
    print(f"training on {len(vectors.answers)} questions, e.g. {known[0].text!r}")
    model.compile(keras.optimizers.Adam(0.003), keras.losses.CategoricalCrossentropy())
    start = time.perf_counter()
    model.fit(
        inputs,
        answers,
        batch_size=64,
        epochs=arguments.epochs,
        verbose=0,
        callbacks=[callbacks.HalveLearningRate(max(1, arguments.epochs // 5))],
    )
    print(f"trained in {time.perf_counter() - start:.0f} s on {keras.config.backend()}")
    with warnings.catch_warnings():  # said above
        warnings.simplefilter("ignore", UserWarning)
        vectors = session.vectorize(test)
    predictions = model.predict(vectors.inputs, verbose=0)
    best = triples.decode(predictions, vectors.entities, knowledge)
    right = np.mean([name in q.answers for name, q in zip(best, test)])
    print(f"{right:.1%} of {len(test)} other generated questions are right")
    save(session)
    return session


def sizes(knowledge):
    """Returns the hops, the memory size and the memory that holds all paths."""
    for hops in range(arguments.hops, 0, -1):
        for size in SIZES[hops]:
            memory = triples.path_memory(knowledge, size, hops)
            if memory is not None:
                return hops, size, memory
        if hops > 1:
            print("note: too many relations to combine: questions have one.")
    relations = len(knowledge.relations) // 2
    sys.exit(f"There may be {SIZES[1][-1] // 2} relations. Received: {relations}")


def answer(session, text):
    """Prints the answers to a question and the facts that lead to them."""
    knowledge, memory = session.knowledge, session.memory
    with noted():
        try:
            link = session.linker.link(text)
        except UnknownEntityError as error:
            print(error)
            return
        vectors = session.vectorize([triples.Question(text)])
    if link.others:
        print(f"note: {link.entity} is meant, and not {' or '.join(link.others)}.")
    unknown = session.vocabulary.unknown_words(link.words)
    if unknown:
        print(
            "note: these words were never seen in training and are ignored, so the "
            f"answer may be to another question: {', '.join(unknown)}"
        )
    predictions = session.model.predict(vectors.inputs, verbose=0)
    (best,) = triples.decode(predictions, vectors.entities, knowledge)
    asked = memory.inputs(vectors.inputs["question"])
    read = session.model.predict(asked, verbose=0)[0]
    path, probability = memory.explain(knowledge, link.entity, best, read)
    answers = triples.follow(knowledge, link.entity, path)
    others = [name for name in answers if name != best]
    print(", ".join([best, *others]))
    facts = facts_on(knowledge, link.entity, path)
    for fact in facts[:SHOWN]:
        print(f"    {' | '.join(fact)}")
    if len(facts) > SHOWN:
        print(f"    … and {len(facts) - SHOWN} more")
    if probability < DOUBT:
        likely = memory.paths[int(read.argmax())]
        inverse = knowledge.relations[-half_of(knowledge) :]
        named = " and then ".join(
            f"{name[1:]} (backwards)" if name in inverse else name for name in likely
        )
        reason = f"the question seems to ask for {named}"
        if not triples.follow(knowledge, link.entity, likely):
            reason += f", of which there is no fact about {link.entity}"
        print(f"note: this may be no answer: {reason}.")


def facts_on(knowledge, entity, path):
    """Returns the facts that lead along a path, as they are in the file."""
    facts, reached = [], [entity]
    for depth, relation in enumerate(path):
        following = path[depth + 1 :]
        for name in reached:
            for _, kind, value in knowledge.facts_about(name):
                leads_on = not following or triples.follow(knowledge, value, following)
                if kind == relation and leads_on and (depth == 0 or value != entity):
                    inverse = relation in knowledge.relations[-half_of(knowledge) :]
                    fact = (
                        (value, relation[1:], name) if inverse else (name, kind, value)
                    )
                    facts.append(fact)
        reached = triples.follow(knowledge, entity, path[: depth + 1])
    return facts


def half_of(knowledge):
    return len(knowledge.relations) // 2


class noted(warnings.catch_warnings):
    """Prints warnings as notes."""

    def __init__(self):
        super().__init__(record=True)

    def __enter__(self):
        self.found = super().__enter__()
        warnings.simplefilter("always", UserWarning)

    def __exit__(self, *error):
        super().__exit__(*error)
        for warning in self.found:
            print(f"note: {warning.message}")


def check_writable(folder):
    """Checks before training that the files can be written."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / ".write").touch()
        (folder / ".write").unlink()
    except OSError as error:
        sys.exit(f"cannot write to {folder}: {error.strerror}. Choose another --out.")


def save(session):
    folder = arguments.out
    session.model.save(folder / "model.keras")
    session.vocabulary.save(folder / "vocabulary.txt")
    about = {"relations": session.knowledge.relations, "hops": session.hops}
    (folder / "about.json").write_text(json.dumps(about), "utf-8")
    print(f"saved in {folder}; to ask without training, add --model {folder}")


def load(knowledge):
    """Loads a network that was trained on facts with the same relations."""
    folder = arguments.model
    for name in ("model.keras", "vocabulary.txt", "about.json"):
        if not (folder / name).is_file():
            sys.exit(f"{folder} holds no {name}: train without --model first.")
    about = json.loads((folder / "about.json").read_text("utf-8"))
    if tuple(about["relations"]) != knowledge.relations:
        sys.exit(
            f"The network in {folder} knows the relations "
            f"{', '.join(about['relations'][1 : len(about['relations']) // 2 + 1])}; "
            "these facts have others, or in another order. Train without --model."
        )
    model = keras.saving.load_model(folder / "model.keras")
    memory = triples.path_memory(knowledge, model.memory_size, about["hops"])
    if memory is None:
        sys.exit(f"The facts combine in too many ways for the network in {folder}.")
    vocabulary = babi.Vocabulary.load(folder / "vocabulary.txt")
    return Session(model, vocabulary, knowledge, memory, about["hops"])


if __name__ == "__main__":
    main()
