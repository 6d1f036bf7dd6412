"""Questions as people write them: how often `EntityLinker` finds the film.

    python examples/studies/linking
    python examples/studies/linking --hops 1 2 --json results.json
    python examples/studies/linking --questions my_questions.txt --show

The films are those of MetaQA's knowledge base. Each of eight forms writes the names of
some films in another way and puts them into questions. The linker must choose among all
entities of the knowledge base: films, people, tags, genres, languages and years.

A name as written may fit several entities, for example a part of a name, or a name in
lower case that is also a tag. Such a question is ambiguous. The linker is right if it
says so and the film is among its candidates. A link that does
not report the other entities counts as wrong, even if the film happens to be the
expected one.

With `--hops`, MetaQA's development questions follow, without the brackets around their
entities. They are not only about films: no entities are preferred there, and only the
entity in brackets is right.

With `--questions`, the questions are those of a file instead: each line has a question,
a tab and the expected name, or several names with `|` between them if the question is
ambiguous.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import pathlib
import re
import time
import unicodedata
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np

from keras_attention.datasets import DataNotFoundError, triples
from keras_attention.text import AmbiguousEntityError, EntityLinker, UnknownEntityError
from studies import reports
from studies.command_line import UsageError

COUNT = 300
ASKED = (
    "Who directed {}?",
    "who wrote {}",
    "What genre is {}?",
    "In what year did {} come out?",
    "Which actors are in {}?",
    "What language do they speak in {}?",
    "Tell me who starred in {}.",
    "{}: who made it?",
    "When was {} released?",
    "Do you know the screenwriter of {}?",
)
POSSESSIVE = (
    "Who is {} director?",
    "What is {} genre?",
    "what was {} release date",
    "Name {} screenwriter.",
    "Who are {} actors?",
    "I'd like to know {} original language.",
)
PART = (
    "Who directed the film {}?",
    "who wrote the film {}",
    "When did the film {} come out?",
    "In the film {}, who were the actors?",
)
# Names of these words alone are ordinary words of a question.
ORDINARY = (
    "i you he she it we they me him her us them who what why where when how do does "
    "did is are was be being will may can go run gone made make taken up down in on "
    "off over out after before with without more most next once no not yes all any "
    "one some here there now then again good big home"
)
# People leave these out at the ends of a part of a name.
SMALL = "a an the of in on at by to for from and or is it with"
NUMBERS = "zero one two three four five six seven eight nine ten eleven twelve"
ROMANS = {"II": "2", "III": "3", "IV": "4"}
LETTERS = "abcdefghijklmnopqrstuvwxyz"
OUTCOMES = ("right", "wrong", "said", "unknown")
TITLES = ("questions", "right", "wrong", "ambiguous", "unknown", "of several")
EXAMPLES = {
    "possessive": "Who is Titanic's director?",
    "lower case": "who directed titanic",
    "article left out or moved": "Who wrote Matrix, The?",
    "accents left out": "Who directed Amelie?",
    "hyphens and marks left out": "Who directed Spiderman?",
    "part of the name": "Who directed the film Lebowski?",
    "misspelt by one letter": "Who directed Titaanic?",
    "ordinary words, numbers, years": "Who directed Up? Who wrote Rocky 2?",
}


class Case(NamedTuple):
    """A question.

    Attributes:
        form: the name of its form.
        text: the question.
        film: the film that it is about; empty for a question from a file.
        expected: all entities that it may mean.
    """

    form: str
    text: str
    film: str
    expected: tuple[str, ...]


class Names:
    """The entities by their plain names, with what fits a name as written."""

    def __init__(self, entities: Iterable[str]) -> None:
        self.plain: dict[str, list[str]] = {}
        self.words = {name: [*map(plain, words_of(name))] for name in entities}
        for name in self.words:
            self.plain.setdefault(plain(name), []).append(name)

    def whole(self, mention: str) -> list[str]:
        """Returns the entities with a name, apart from case, accents and marks."""
        return self.plain.get(plain(mention), [])

    def with_article(self, mention: str) -> list[str]:
        """The same for a name without its article."""
        return [n for a in ("the", "a", "an") for n in self.whole(a + mention)]

    def around(self, mention: str) -> list[str]:
        """Returns the entities whose names have these words next to each other."""
        words = [*map(plain, words_of(mention))]
        size = len(words)
        return [
            name
            for name, parts in self.words.items()
            if words[0] in parts
            and any(parts[i : i + size] == words for i in range(len(parts)))
        ]

    def beside(self, mention: str) -> list[str]:
        """Returns the entities whose plain names are at most one letter away."""
        written = plain(mention)
        return [
            name
            for key, names in self.plain.items()
            if one_off(written, key)
            for name in names
        ]


def plain(text: str) -> str:
    """Removes case, accents, marks and spaces."""
    folded = unicodedata.normalize("NFKD", text).casefold()
    return "".join(c for c in folded if c.isalnum())


def words_of(name: str) -> list[str]:
    """Splits a name at spaces, hyphens and slashes."""
    return [word for word in re.split(r"[\s\-/]+", name) if plain(word)]


def one_off(a: str, b: str) -> bool:
    """Whether two strings are equal, or differ by one letter or by a swap of two."""
    if abs(len(a) - len(b)) > 1:
        return False
    start = next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), None)
    if start is None:
        return True
    x, y = a[start:], b[start:]
    swapped = x[:2] == y[1::-1] and x[2:] == y[2:]
    return swapped or x[1:] == y[1:] or x[1:] == y or x == y[1:]


# The forms. Each returns a question and the entities that it may mean, or None if the
# form does not change the name of the film.

Written = tuple[str, list[str]] | None
Rng = np.random.Generator


def pick(rng: Rng, choices: tuple[str, ...] | list[str]) -> str:
    """Draws one of the choices."""
    return choices[int(rng.integers(len(choices)))]


def possessive(film: str, names: Names, rng: Rng) -> Written:
    """Who is Titanic's director?"""
    ends = ("'", "'s", "’s") if film.endswith("s") else ("'s", "’s")
    return pick(rng, POSSESSIVE).format(film + pick(rng, ends)), names.whole(film)


def lower_case(film: str, names: Names, rng: Rng) -> Written:
    """who directed titanic"""
    text = pick(rng, ASKED).format(film).lower().rstrip("?.")
    return None if film == film.lower() else (text, names.whole(film))


def article(film: str, names: Names, rng: Rng) -> Written:
    """Who directed Matrix? Who directed Matrix, The?"""
    first, _, rest = film.partition(" ")
    if first not in ("The", "A", "An") or names.whole(rest):
        return None
    moved = rng.random() < 0.4
    fits = names.whole(film) if moved else names.with_article(rest)
    return pick(rng, ASKED).format(f"{rest}, {first}" if moved else rest), fits


def accents(film: str, names: Names, rng: Rng) -> Written:
    """Who directed Amelie?"""
    split = unicodedata.normalize("NFD", film)
    bare = "".join(c for c in split if not unicodedata.combining(c))
    return None if bare == film else (pick(rng, ASKED).format(bare), names.whole(bare))


def marks(film: str, names: Names, rng: Rng) -> Written:
    """Who directed Spiderman? Who directed Mr Motos Last Warning?"""
    joint = pick(rng, ["", " "])
    bare = re.sub(r"(?<=\w)-(?=\w)", joint, film)
    bare = re.sub(r"\s*[:,.!?'’;]+(?=\s|$)|['’.,:;!?]", "", bare)
    if bare == film or not plain(bare):
        return None
    return pick(rng, ASKED).format(bare), names.whole(bare)


def part(film: str, names: Names, rng: Rng) -> Written:
    """Who directed the film Strangelove?"""
    words = film.split()
    start, end = sorted(rng.integers(len(words) + 1, size=2).tolist())
    chosen = [word.strip(":,-&!?.") for word in words[start:end]]
    while chosen and chosen[0].lower() in SMALL.split():
        del chosen[0]
    while chosen and chosen[-1].lower() in SMALL.split():
        del chosen[-1]
    mention = " ".join(chosen)
    longest = max(map(len, chosen), default=0)
    entire = names.whole(mention) or names.with_article(mention)
    if longest < 5 or entire:
        return None
    return pick(rng, PART).format(mention), names.around(mention)


def misspelt(film: str, names: Names, rng: Rng) -> Written:
    """Who directed Titaanic?"""
    words = film.split()
    long = [i for i, word in enumerate(words) if len(word) > 4 and word.isalpha()]
    if not long:
        return None
    i = long[int(rng.integers(len(long)))]
    word = words[i]
    at = int(rng.integers(1, len(word)))
    wrong = (
        word[:at] + word[at + 1 :],
        word[:at] + word[at - 1] + word[at:],
        word[: at - 1] + word[at] + word[at - 1] + word[at + 1 :],
        word[:at] + pick(rng, [*LETTERS]) + word[at + 1 :],
    )
    words[i] = pick(rng, wrong)
    mention = " ".join(words)
    if names.whole(mention) or words[i].istitle() != word.istitle():
        return None
    return pick(rng, ASKED).format(mention), names.beside(mention)


def ordinary(film: str, names: Names, rng: Rng) -> Written:
    """Who directed Up?"""
    if not set(re.findall(r"\w+", film.lower())) <= {*ORDINARY.split()}:
        return None
    return pick(rng, ASKED[:-1]).format(film), names.whole(film)


def number(film: str, names: Names, rng: Rng) -> Written:
    """Who directed Rocky 2? Who directed Twelve Angry Men?"""
    changed = re.sub(r"\b(II|III|IV)\b", lambda m: ROMANS[m[0]], film)
    if changed == film:
        changed = re.sub(
            r"\b([2-9]|1[0-2])\b(?!\.)",
            lambda m: NUMBERS.split()[int(m[0])].capitalize(),
            film,
        )
    if changed == film or names.whole(changed):
        return None
    return pick(rng, ASKED).format(changed), names.whole(film)


def year(film: str, names: Names, rng: Rng) -> Written:
    """Who directed Titanic (1997)?"""
    after = f" ({rng.integers(1930, 2015)})"
    return pick(rng, ASKED).format(film + after), names.whole(film)


Writer = Callable[[str, Names, Rng], Written]
FORMS: dict[str, tuple[Writer, ...]] = {
    "possessive": (possessive,),
    "lower case": (lower_case,),
    "article left out or moved": (article,),
    "accents left out": (accents,),
    "hyphens and marks left out": (marks,),
    "part of the name": (part,),
    "misspelt by one letter": (misspelt,),
    "ordinary words, numbers, years": (ordinary, number, year),
}


def generate(
    films: list[str], entities: Iterable[str], seed: int = 0, count: int = COUNT
) -> list[Case]:
    """Writes `count` questions about films drawn by a seed, in equal parts by form."""
    names = Names(entities)
    rng = np.random.default_rng(seed)
    cases = []
    for i, (form, writers) in enumerate(FORMS.items()):
        wanted = count // len(FORMS) + (i < count % len(FORMS))
        for j, write in enumerate(writers):
            some = wanted // len(writers) + (j < wanted % len(writers))
            for film in rng.permutation(films).tolist():
                written = write(film, names, rng) if some else None
                if written is not None:
                    cases.append(Case(form, written[0], film, tuple(written[1])))
                    some -= 1
    return cases


def judge(linker: EntityLinker, case: Case) -> tuple[str, str]:
    """Returns one of `OUTCOMES`, and what the linker said.

    The outcomes are `"right"`; `"wrong"`, a link to another entity, or to one of
    several without a word about the others; `"said"`, ambiguous by the linker's word
    although only one entity fits, or without the right candidates; and `"unknown"`.
    """
    try:
        link = linker.link(case.text)
    except UnknownEntityError as error:
        found = error.candidates
        if not isinstance(error, AmbiguousEntityError):
            return "unknown", "unknown; nearest: " + "|".join(found[:5])
    else:
        found = (link.entity, *link.others)
        if len(case.expected) < 2:
            right = link.entity in case.expected
            return "right" if right else "wrong", "|".join(found)
        if not link.others:
            return "wrong", link.entity
    wanted = {case.film} if case.film else {*case.expected}
    right = len(case.expected) > 1 and wanted <= {*found}
    return "right" if right else "said", "ambiguous: " + "|".join(found[:8])


def read(path: pathlib.Path) -> list[Case]:
    """Reads the questions of a file."""
    return [
        Case("questions of the file", question.text, "", question.answers)
        for question in triples.load_questions(path)
    ]


def of_metaqa(hops: int) -> list[Case]:
    """Returns MetaQA's development questions with the brackets removed."""
    cases = []
    for question in triples.load_metaqa(hops, "dev"):
        before, _, marked = question.text.partition("[")
        name, _, after = marked.partition("]")
        form = f"MetaQA, {hops} hop" + "s" * (hops > 1)
        cases.append(Case(form, before + name + after, "", (name,)))
    return cases


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of `linking`."""
    add = parser.add_argument
    add("--questions", type=pathlib.Path, help="a file of further questions")
    add(
        "--hops",
        type=int,
        nargs="+",
        choices=(1, 2, 3),
        default=[],
        help="also MetaQA's development questions, without brackets",
    )
    add(
        "--without-preference",
        action="store_true",
        help="do not tell the linker that the questions are about films",
    )
    add("--seed", type=int, default=0)
    add("--show", action="store_true", help="print the questions that are not right")
    add("--json", type=pathlib.Path, help="where to write the results")


def main(args: argparse.Namespace) -> int:
    """Links the questions and prints the table."""
    try:
        facts = triples.load_metaqa_facts()
        cases = read(args.questions) if args.questions else []
        asked = [case for hops in args.hops for case in of_metaqa(hops)]
    except (DataNotFoundError, ValueError) as error:
        raise UsageError(str(error)) from error
    knowledge = triples.KnowledgeBase(facts)
    films = sorted({fact.subject for fact in facts})
    entities = {*knowledge.entities}
    cases = cases or generate(films, knowledge.entities, args.seed)
    start = time.process_time()
    preferred = () if args.without_preference else films
    linker = EntityLinker(knowledge.entities, prefer=preferred)
    with contextlib.suppress(UnknownEntityError):
        linker.link("xx")  # some indexes are built when they are needed
    built = time.process_time() - start
    # MetaQA's questions are not only about films.
    any_entity = EntityLinker(knowledge.entities) if asked else linker
    counts: dict[str, dict[str, int]] = {}
    times = []
    for number, case in enumerate((*cases, *asked)):
        start = time.process_time()
        outcome, said = judge(linker if number < len(cases) else any_entity, case)
        times.append(time.process_time() - start)
        names = (*OUTCOMES, "several", "missing")
        row = counts.setdefault(case.form, dict.fromkeys(names, 0))
        row[outcome] += 1
        row["several"] += len(case.expected) > 1
        row["missing"] += not entities & {*case.expected}
        if args.show and outcome != "right":
            print(f"{outcome}: {case.text!r} -> {said}; it is {case.expected[:5]}")
    results: dict[str, Any] = {
        **reports.head("linking"),
        "seed": None if args.questions else args.seed,
        "entities": len(knowledge.entities),
        "prefers_films": not args.without_preference,
        "built_cpu_seconds": round(built, 2),
        "cpu_milliseconds": {
            "median": round(1e3 * float(np.median(times)), 2),
            "most": round(1e3 * max(times), 1),
        },
        "counts": counts,
    }
    print(table(counts))
    print(
        f"{len(knowledge.entities)} entities: built in {built:.2f} s of CPU time; "
        f"a question takes {results['cpu_milliseconds']['median']} ms (median), "
        f"{results['cpu_milliseconds']['most']} ms at most"
    )
    if args.json:
        text = json.dumps(results, indent=1) + "\n"
        args.json.write_text(text, encoding="utf-8")
    return 0


def table(counts: dict[str, dict[str, int]]) -> str:
    """Formats the number of questions with each outcome, by form and in total."""
    return reports.table(["form", *TITLES], _rows(counts))


def tables(raw: dict[str, Any]) -> dict[str, str]:
    """Returns the tables of the linker in docs/results/metaqa.md."""
    counts = raw["linking"]["counts"]
    forms = {form: row for form, row in counts.items() if form in FORMS}
    asked = {form: row for form, row in counts.items() if form not in FORMS}
    titles = ["form", "example", *TITLES[:2], *TITLES[3:5]]
    rows = [
        [form, EXAMPLES.get(form, ""), *cells[:2], *cells[3:5]]
        for form, *cells in _rows(forms)
    ]
    of_metaqa = [
        [*cells[:-1], f"{asked[cells[0]]['missing']:,}"] for cells in _rows(asked)[:-1]
    ]
    last = "name not in the knowledge base"
    return {
        "forms": reports.table(titles, rows),
        "metaqa": reports.table(["questions of", *TITLES[:-1], last], of_metaqa),
    }


def _rows(counts: dict[str, dict[str, int]]) -> list[list[str]]:
    names = (*OUTCOMES, "several")
    total = {name: sum(row[name] for row in counts.values()) for name in names}
    rows = []
    for form, row in [*counts.items(), ("all", total)]:
        questions = sum(row[outcome] for outcome in OUTCOMES)
        right = f"{row['right']:,} ({100 * row['right'] / questions:.1f} %)"
        others = [f"{row[name]:,}" for name in names[1:]]
        rows.append([form, f"{questions:,}", right, *others])
    return rows
