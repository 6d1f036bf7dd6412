"""English questions about a relation, made from its name."""

import re
from collections.abc import Iterable
from typing import NamedTuple

# Verbs: the participle, or the past if it differs, with the past and the base form.
IRREGULAR = {
    **dict.fromkeys(("written", "wrote"), ("written", "wrote", "write")),
    **dict.fromkeys(("drawn", "drew"), ("drawn", "drew", "draw")),
    **dict.fromkeys(("sung", "sang"), ("sung", "sang", "sing")),
    **dict.fromkeys(("given", "gave"), ("given", "gave", "give")),
    **dict.fromkeys(("grown", "grew"), ("grown", "grew", "grow")),
    **dict.fromkeys(("known", "knew"), ("known", "knew", "know")),
    **dict.fromkeys(("spoken", "spoke"), ("spoken", "spoke", "speak")),
    **dict.fromkeys(("worn", "wore"), ("worn", "wore", "wear")),
    **dict.fromkeys(("eaten", "ate"), ("eaten", "ate", "eat")),
    **dict.fromkeys(("run", "ran"), ("run", "ran", "run")),
    "bought": ("bought", "bought", "buy"),
    "brought": ("brought", "brought", "bring"),
    "built": ("built", "built", "build"),
    "caught": ("caught", "caught", "catch"),
    "found": ("found", "found", "find"),
    "held": ("held", "held", "hold"),
    "kept": ("kept", "kept", "keep"),
    "led": ("led", "led", "lead"),
    "made": ("made", "made", "make"),
    "met": ("met", "met", "meet"),
    "sold": ("sold", "sold", "sell"),
    "sent": ("sent", "sent", "send"),
    "taught": ("taught", "taught", "teach"),
    "told": ("told", "told", "tell"),
    "won": ("won", "won", "win"),
    "born": ("born", "born", "born"),
}
PREPOSITIONS = ("about", "at", "for", "from", "in", "into", "near", "on", "to", "with")
TIMES = {"year", "date", "day", "time", "century"}
PLACES = {"place", "city", "town", "country", "location", "region", "address"}
SITUATED = {"", "based", "found", "held", "kept", "located", "situated"}


class Phrases(NamedTuple):
    """Texts with `{}` in place of an entity, or of a phrase that names one.

    Attributes:
        questions: Questions for the objects of a subject `{}`.
        inverse_questions: Questions for the subjects of an object `{}`.
        names: Phrases that name the object of a subject `{}`.
        inverse_names: Phrases that name the subject of an object `{}`.
    """

    questions: tuple[str, ...]
    inverse_questions: tuple[str, ...]
    names: tuple[str, ...]
    inverse_names: tuple[str, ...]

    def inverse(self) -> "Phrases":
        """Returns the phrases of the inverse relation."""
        questions, inverse_questions, names, inverse_names = self
        return Phrases(inverse_questions, questions, inverse_names, names)


def words_of(relation: str) -> tuple[str, ...]:
    """Splits the name of a relation, such as "releaseYear", into lower-case words."""
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", relation)
    return tuple(re.sub(r"[\W_]+", " ", spaced).lower().split()) or ("relation",)


def phrases_of(relation: str) -> Phrases:
    """Makes English questions and phrases from the name of a relation.

    The form of the name decides which: a passive ("directed_by"), a verb with a
    preposition ("born_in", "works_at"), a noun with "of" ("part_of"), a verb ("wrote",
    "likes") or a noun ("genre", "has_genre"). Spelling rules derive the verb forms, so
    that some of them are not English.

    Example:
        ```python
        phrases_of("directed_by").questions[0]  # "who directed {}"
        ```
    """
    words = list(words_of(relation))
    if len(words) > 1 and words[0] in ("has", "have", "is", "was", "are", "were"):
        words = words[1:]
    last, before = words[-1], words[:-1]
    if last == "by" and before:  # the object acts on the subject
        return _verb(verb_forms(before[-1]), " ".join(before[:-1]))
    if last == "of" and before:
        return _noun(" ".join(before)).inverse()
    if last in PREPOSITIONS:
        return _with_preposition(" ".join(before[:-1]), before[-1:], last)
    if len(words) == 1 and (last in IRREGULAR or last.endswith("ed")):
        return _verb(verb_forms(last)).inverse()
    noun = _noun(" ".join(words))
    if len(words) == 1 and last.endswith("s") and not last.endswith("ss"):
        both = zip(noun, _verb((last, last, singular(last)), present=True).inverse())
        return Phrases(*(first + second for first, second in both))
    return noun


def participle_of(relation: str) -> str:
    """Returns "directed" of "directed_by" and "" of a relation of another form."""
    *words, last = words_of(relation)
    return verb_forms(words[-1])[0] if words and last == "by" else ""


def phrases_of_times(relation: str, participles: Iterable[str]) -> Phrases:
    """Makes questions for the time of an event: "when was {} directed" for a year.

    If no word of the relation names a time, as "year" does, there are no phrases.
    """
    noun = " ".join(words_of(relation))
    done = tuple(participles) if TIMES & set(noun.split()) else ()
    questions = [
        f"{w} was {{}} {p}" for w in ("when", f"in which {noun}") for p in done
    ]
    inverse = [f"{w} {p} in {{}}" for w in ("what was", "which were") for p in done]
    return Phrases(tuple(questions), tuple(inverse), (), ())


def _noun(noun: str) -> Phrases:
    questions = [
        *(f"what is the {noun} of {{}}", f"who is the {noun} of {{}}"),
        *(f"what are the {noun} of {{}}", f"what {noun} does {{}} have"),
        *(f"which {noun} does {{}} have", f"what is {{}} 's {noun}"),
        *(f"who is {{}} 's {noun}", f"{{}} 's {noun}", f"{noun} of {{}}"),
        *(f"the {noun} of {{}}", f"{{}} {noun}", f"tell me the {noun} of {{}}"),
        *(f"what {noun} is {{}}", f"which {noun} is {{}}", f"what is the {noun} {{}}"),
    ]
    if not noun.endswith("s"):
        questions += [f"who are the {noun}s of {{}}", f"what are the {noun}s of {{}}"]
        questions += [f"{noun}s of {{}}", f"which {noun}s does {{}} have"]
    kinds = set(noun.split())
    inverse = [
        *(f"whose {noun} is {{}}", f"what has {{}} as {noun}"),
        *(f"who has {{}} as {noun}", f"what has the {noun} {{}}"),
        *(f"who has the {noun} {{}}", f"which have the {noun} {{}}"),
        *(f"{{}} is the {noun} of what", f"{{}} is the {noun} of whom"),
        *(f"what is {{}} the {noun} of", f"who is {{}} the {noun} of"),
        *(f"what is {{}} a {noun} of", f"{{}} is a {noun} of which"),
        *(f"{{}} is whose {noun}", f"which are of the {noun} {{}}"),
        *(f"what is from the {noun} {{}}", f"which are in the {noun} of {{}}"),
    ]
    if kinds & TIMES:
        questions += [
            "when was {}",
            f"in which {noun} was {{}}",
            f"what {noun} was {{}}",
        ]
        inverse += ["what was in {}", "which were in {}", "what is from {}"]
    if kinds & PLACES:
        questions += ["where is {}", "where was {}", f"in which {noun} is {{}}"]
        inverse += ["what is in {}", "which are in {}", "who is in {}"]
    asked = [w for w, of in (("when", TIMES), ("where", PLACES)) if kinds & of]
    if "birth" in kinds and asked:
        questions += [f"{w} was {{}} born" for w in asked]
        inverse += ["who was born in {}", "who is born in {}"]
    if "death" in kinds and asked:
        questions += [f"{w} did {{}} die" for w in asked]
        inverse += ["who died in {}"]
    return Phrases(
        tuple(questions),
        tuple(inverse),
        (f"the {noun} of {{}}", f"{{}} 's {noun}"),
        (f"the one whose {noun} is {{}}", f"what has the {noun} {{}}"),
    )


def _verb(
    forms: tuple[str, str, str], adverb: str = "", present: bool = False
) -> Phrases:
    """Of a verb, for the one who acts on `{}`; the inverse: for what `{}` acts on."""
    done, past, base = (f"{adverb} {form}".strip() for form in forms)
    does, other = ("does", "did") if present else ("did", "does")
    agents = () if present else tuple(f"{adverb} {a}".strip() for a in agents_of(forms))
    return Phrases(
        (
            *(f"who {past} {{}}", f"what {past} {{}}", f"which one {past} {{}}"),
            *(f"who was {{}} {done} by", f"by whom was {{}} {done}"),
            *(f"{{}} was {done} by whom", f"{{}} is {done} by", f"{{}} {done} by"),
            *(f"who is the {agent} of {{}}" for agent in agents),
            *(f"{{}} 's {agent}" for agent in agents),
            *(f"who is {{}} 's {agent}" for agent in agents),
            *(f"{agent} of {{}}" for agent in agents),
            *(f"who {other} {base} {{}}", f"which people {past} {{}}"),
        ),
        (
            *(f"what {does} {{}} {base}", f"who {does} {{}} {base}"),
            *(f"which {does} {{}} {base}", f"what was {done} by {{}}"),
            *(f"who was {done} by {{}}", f"which were {done} by {{}}"),
            *(f"{{}} {past} what", f"{{}} {past} whom", f"what has {{}} {done}"),
            *(f"{done} by {{}}", f"what is {done} by {{}}", f"list what {{}} {past}"),
            *(f"{{}} is the {agent} of what" for agent in agents),
            *(f"who is {{}} the {agent} of" for agent in agents),
        ),
        (
            *(f"the one who {past} {{}}", f"who {past} {{}}"),
            *(f"the {agent} of {{}}" for agent in agents),
            *(f"{{}} 's {agent}" for agent in agents),
        ),
        (f"what {{}} {past}", f"the one {done} by {{}}", f"who {{}} {past}"),
    )


def _with_preposition(adverb: str, verbs: list[str], preposition: str) -> Phrases:
    """Of "born in" or "works at"."""
    verb = f"{adverb} {verbs[0]}".strip() if verbs else ""
    end = f"{verb} {preposition}".strip()
    last = verbs[0] if verbs else ""
    if last in IRREGULAR or last.endswith("ed") or not last:
        where = [
            f"{w} {be} {{}} {verb}" for w in ("where", "when") for be in ("was", "is")
        ]
        asked = [f"what {be} {{}} {end}" for be in ("was", "is")]
        asked += [f"{preposition} which place was {{}} {verb}"]
        asked += [f"{{}} {be} {end} what" for be in ("was", "is")]
        inverse = [
            f"{w} {be} {end} {{}}" for w in ("what", "who") for be in ("was", "is")
        ]
        inverse += [f"which were {end} {{}}", f"{end} {{}}"]
        if last in SITUATED:
            where.append("where is {}")
            inverse += [f"what is {preposition} {{}}", f"which are {preposition} {{}}"]
        names = (f"the place where {{}} was {verb}", f"where {{}} was {verb}")
        return Phrases(
            tuple(" ".join(q.split()) for q in (*where, *asked, f"{{}} {end}")),
            tuple(inverse),
            tuple(" ".join(name.split()) for name in names),
            (f"the one {end} {{}}", f"who was {end} {{}}"),
        )
    base = f"{adverb} {singular(last)}".strip()
    return Phrases(
        (
            *(f"where does {{}} {base}", f"what does {{}} {base} {preposition}"),
            *(f"who does {{}} {base} {preposition}", f"where did {{}} {base}"),
            *(f"{preposition} what does {{}} {base}", f"{{}} {end} what"),
            *(f"what is {{}} {end}", f"{{}} {end}", "where is {}"),
        ),
        (
            *(f"who {end} {{}}", f"what {end} {{}}", f"which one {end} {{}}"),
            *(f"who {base} {preposition} {{}}", f"what {base} {preposition} {{}}"),
            *(f"which {base} {preposition} {{}}", f"{end} {{}}"),
        ),
        (f"the place where {{}} {verb}", f"what {{}} {end}", f"where {{}} {verb}"),
        (f"the one who {end} {{}}", f"who {end} {{}}", f"what {end} {{}}"),
    )


def verb_forms(verb: str) -> tuple[str, str, str]:
    """Returns participle, past and base form of a participle or a past."""
    if verb in IRREGULAR:
        return IRREGULAR[verb]
    if not verb.endswith("ed") or len(verb) < 4:
        return verb, verb, verb
    stem = verb[:-2]
    if stem.endswith("i"):
        return verb, verb, stem[:-1] + "y"
    if stem[-1] == stem[-2] and stem[-1] not in "lsze":
        return verb, verb, stem[:-1]
    short = re.fullmatch(r"[^aeiou]*[aeiou][^aeiouwxy]", stem)  # named, ruled
    mute = re.search(r"([vczgsu]|at|bl|ir|ur|id|ud|ed|as)$", stem)
    ending = "e" if (mute or short) and not stem.endswith(("ss", "ng")) else ""
    return verb, verb, stem + ending


def agents_of(forms: tuple[str, str, str]) -> tuple[str, ...]:
    """Returns the noun of who acts: "director" of "direct", "painter" of "paint"."""
    base = forms[2]
    if base == "born" or not base.isalpha():
        return ()
    stem = base.removesuffix("e")
    if base.endswith(("ate", "ct", "it", "vent")):
        return (stem + "or",)
    return (stem + "er",)


def singular(word: str) -> str:
    """Removes the ending of the third person: "live" of "lives"."""
    if word.endswith("ies"):
        return word[:-3] + "y"
    if re.search(r"(ch|sh|ss|x|zz)es$", word):
        return word[:-2]
    return word[:-1] if word.endswith("s") and not word.endswith("ss") else word
