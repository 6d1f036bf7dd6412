"""The linker on questions as people write them."""

import pytest

from keras_attention.datasets import triples
from keras_attention.text import (
    ENTITY,
    AmbiguousEntityError,
    EntityLinker,
    UnknownEntityError,
    names,
)

FILMS = [
    "Titanic",
    "Winnie-the-Pooh",
    "The Matrix",
    "Amélie",
    "Jud Süß",
    "Spider-Man 2",
    "Rocky",
    "Rocky II",
    "12 Angry Men",
    "Schindler's List",
    "The Big Lebowski",
    "Kill Bill: Vol. 1",
    "Kill Bill: Vol. 2",
    "Crouching Tiger, Hidden Dragon",
    "Lost in Tokyo",
    "Tokyo Story",
    "King Kong (1933)",
    "King Kong (2005)",
    "Lilo & Stitch",
    "8½",
    "Up",
    "Up!",
    "Her",
    "It",
    "Heat",
    "Who Framed Roger Rabbit",
    "$",
    "Psycho",
    "Wind",
    "Mr. Smith",
    "Valley of the Dolls",
]
OTHERS = ["Michael Mann", "James Cameron", "James", "Hitchcock", "wind", "actors"]
OTHERS += ["2005", "French", "What?", "Stephen"]


@pytest.fixture(scope="module")
def linker():
    return EntityLinker([*FILMS, *OTHERS])


@pytest.mark.parametrize(
    ("text", "entity", "words"),
    [
        ("Who is Winnie-the-Pooh's creator?", "Winnie-the-Pooh", "who is * creator"),
        ("Titanic’s genre", "Titanic", "* genre"),
        ("James' films?", "James", "* films"),
        ("what did James' wife see", "James", "what did * wife see"),
        ("WHO WROTE THE MATRIX?", "The Matrix", "who wrote *"),
        ("who wrote matrix", "The Matrix", "who wrote *"),
        ("Who is in Matrix, The (1999)?", "The Matrix", "who is in *"),
        ("who directed the Titanic", "Titanic", "who directed the *"),
        ("who directed amelie", "Amélie", "who directed *"),
        # Without capital letters, it may be a film in Tokyo: no veto.
        ("who directed rocky tokyo", "Rocky", "who directed * tokyo"),
        ("who directed Ame\u0301lie", "Amélie", "who directed *"),
        ("who directed jud suss", "Jud Süß", "who directed *"),
        ("who made spiderman two", "Spider-Man 2", "who made *"),
        ("who made Spider Man II?", "Spider-Man 2", "who made *"),
        ("Rocky 2: who wrote it?", "Rocky II", "* who wrote it"),
        ("who wrote rocky part 2", "Rocky II", "who wrote *"),
        ("twelve angry men cast", "12 Angry Men", "* cast"),
        ("Who made schindlers list's score?", "Schindler's List", "who made * score"),
        ("who made lilo and stitch", "Lilo & Stitch", "who made *"),
        ("who made 8 1/2", "8½", "who made *"),
        ("who made King Kong 2005?", "King Kong (2005)", "who made *"),
        ("who made King Kong (1933)?", "King Kong (1933)", "who made *"),
        ("who made Up (2009)?", "Up", "who made *"),
        ("who made 'Up!', then?", "Up!", "who made * then"),
        ("Who was she in Her?", "Her", "who was she in *"),
        ("Who are the actors in Her", "Her", "who are the actors in *"),
        ('what is "it" about', "It", "what is * about"),
        ("what is Hitchcock's Psycho?", "Psycho", "what is hitchcock's *"),
        ("who framed roger rabbit's cast", "Who Framed Roger Rabbit", "* cast"),
        ("who wrote $", "$", "who wrote *"),
        ("was Heat the best film", "Heat", "was * the best film"),
        ("mister smith's score", "Mr. Smith", "* score"),
        ("who wrote Valley of Dolls", "Valley of the Dolls", "who wrote *"),
    ],
)
def test_a_name_as_people_write_it(linker, text, entity, words):
    link = linker.link(text)
    assert (link.entity, link.by) == (entity, "name")
    assert " ".join(link.words) == words.replace("*", ENTITY)


@pytest.mark.parametrize(
    ("text", "entity"),
    [
        ("who made lebowski", "The Big Lebowski"),
        ("Who made the film Crouching Tiger?", "Crouching Tiger, Hidden Dragon"),
        ("pooh", "Winnie-the-Pooh"),
        ("what is pooh's genre", "Winnie-the-Pooh"),
        ("Who was with Mann?", "Michael Mann"),
    ],
)
def test_a_part_of_a_name(linker, text, entity):
    link = linker.link(text)
    assert (link.entity, link.by, link.others) == (entity, "part", ())


INVENTED = ["Orrin Vale", "A Road to Die, a Road to Live", "Vale", "The Harbours"]
INVENTED += ["Lake Tamsin", "Tamsin", "Painted Doors", "Win the Vale", "Mira Quist"]
INVENTED += ["Bel Quist", "King Odo", "Quarrow (1907)", "Upper Tamsin Party"]


@pytest.mark.parametrize(
    ("text", "entity", "others"),
    [
        # Words of other names veto no whole name, in capital letters or without.
        ("Where did Orrin Vale die?", "Orrin Vale", ()),
        ("where did orrin vale die", "Orrin Vale", ()),
        ("which prize did mira quist win", "Mira Quist", ()),
        ("who painted tamsin", "Tamsin", ()),
        ("Which party is in Upper Tamsin Party?", "Upper Tamsin Party", ()),
        # A capital letter behind a colon begins a sentence.
        ("Tamsin: In which country is it?", "Tamsin", ()),
        # Other names in the question are named, with their owner.
        ("Did Mira Quist meet King Odo?", "Mira Quist", ("King Odo",)),
        ("is lake tamsin in quarrow?", "Lake Tamsin", ("Quarrow (1907)",)),
        ("Is Tamsin's King Odo old?", "King Odo", ("Tamsin",)),
    ],
)
def test_whole_names_beside_words_of_others(text, entity, others):
    assert EntityLinker(INVENTED).link(text)[::3] == (entity, others)


@pytest.mark.parametrize(
    "text",
    [
        "Where did Shane Vale live?",  # a capital letter beside a name
        "where did mira tamsin live",  # Mira begins another name of two words
        "Who did Shane F. Odo meet?",  # an initial beside a part of a name
        "How many harbours are there?",  # The writer knows capital letters.
        "who opened the doors",  # a noun behind an article
        "What is Tamsin 5th about?",
    ],
)
def test_other_names_are_not_linked(text):
    with pytest.raises(UnknownEntityError):
        EntityLinker(INVENTED).link(text)


@pytest.mark.parametrize(
    ("text", "candidates"),
    [
        ("who made Kill Bill", ("Kill Bill: Vol. 1", "Kill Bill: Vol. 2")),
        ("king kong", ("King Kong (1933)", "King Kong (2005)")),
        ("who starred in tokyo", ("Lost in Tokyo", "Tokyo Story")),
        ("WHO STARRED IN WIND", ("Wind", "wind")),
    ],
)
def test_an_ambiguous_name_is_said(linker, text, candidates):
    with pytest.raises(AmbiguousEntityError, match="may be about") as caught:
        linker.link(text)
    assert caught.value.candidates == candidates
    assert repr(candidates[0]) in str(caught.value)
    assert repr(text) in str(caught.value)


@pytest.mark.parametrize(
    ("text", "candidate"),
    [
        ("who directed Titanic Rising?", "Titanic"),  # no part of a longer name
        ("what did Stephen Mann direct", "Stephen"),
        ("who directed rocky 3", "Rocky"),
        ("what did stephen mann direct", "Stephen"),
        ("what films did Nobody See act in", None),
        ("which actors has the colour", None),  # ordinary words are no names
        ("who", None),
        ("???", None),
    ],
)
def test_an_unknown_name_is_not_guessed(linker, text, candidate):
    with pytest.raises(UnknownEntityError, match="holds no name") as caught:
        linker.link(text)
    assert not isinstance(caught.value, AmbiguousEntityError)
    if candidate:
        assert candidate in caught.value.candidates
        assert f"Did you mean {caught.value.candidates[0]!r}" in str(caught.value)


def test_the_nearest_names_are_listed(linker):
    with pytest.raises(UnknownEntityError, match="Did you mean 'Titanic'"):
        linker.link("who directed [Titanik]")


@pytest.mark.parametrize(
    ("text", "entity"),
    [
        ("who directed titnaic", "Titanic"),
        ("Who directed Titaanic?", "Titanic"),
        ("Who wrote Schindlr's List?", "Schindler's List"),
        ("Who made The Bid Lebowski?", "The Big Lebowski"),
        ("whats crouhing tiger hidden dragon", "Crouching Tiger, Hidden Dragon"),
        ("who made lebowsky", "The Big Lebowski"),
    ],
)
def test_a_misspelt_name(linker, text, entity):
    pytest.importorskip("rapidfuzz")
    link = linker.link(text)
    assert (link.entity, link.by) == (entity, "spelling")


def test_without_rapidfuzz(monkeypatch):
    monkeypatch.setattr(names, "rapidfuzz", None)
    linker = EntityLinker(FILMS)
    with pytest.raises(UnknownEntityError, match="Did you mean 'Titanic'"):
        linker.link("who directed titnaic")
    assert linker.link("who directed pooh").entity == "Winnie-the-Pooh"


def test_aliases():
    names = {"Tiger and Dragon": "Crouching Tiger, Hidden Dragon", "ape": FILMS[16:18]}
    linker = EntityLinker(FILMS, names)
    link = linker.link("who is tiger and dragon's director?")
    assert link.entity == "Crouching Tiger, Hidden Dragon"
    assert (link.by, " ".join(link.words)) == ("alias", "who is <entity> director")
    with pytest.raises(AmbiguousEntityError) as caught:
        linker.link("who directed the ape")
    assert caught.value.candidates == tuple(FILMS[16:18])
    for wrong in ({"Leo": "The Revenant"}, {" ": "Heat"}, {"Leo": []}):
        with pytest.raises(ValueError, match=r"`aliases` must map .* Received: al"):
            EntityLinker(FILMS, wrong)


@pytest.mark.parametrize(
    ("names", "text", "entity"),
    [
        (["[REC]", "REC"], "who directed [[REC]]", "[REC]"),
        (["[REC]", "REC"], "who directed [REC]", "REC"),
        (["[REC]"], "who directed [[REC]]", "[REC]"),
        (["[REC]"], "who directed [REC]", "[REC]"),
        (["REC"], "who directed [[REC]]", "REC"),
        (["[REC]", "REC", "[REC] 2"], "who directed [[REC] 2]", "[REC] 2"),
        (["[REC]", "[REC] 2"], "who directed [REC] 2", "[REC] 2"),
        (["1984", "A [1984] B"], "who directed [ A [1984] B ]", "A [1984] B"),
        (["A]B", "A"], "who directed [A]B]", "A]B"),
    ],
)
def test_names_that_have_brackets(names, text, entity):
    link = EntityLinker([*names, "Heat"]).link(text)
    assert (link.entity, link.by) == (entity, "brackets")
    if names != ["REC"]:
        assert link.words == ("who", "directed", ENTITY)


def test_generated_questions_about_names_with_brackets():
    films = {"[REC]": "Paco", "REC": "Ann", "A [B] C": "Bo", "B": "Cy"}
    facts = [triples.Fact(film, "directed_by", name) for film, name in films.items()]
    knowledge = triples.KnowledgeBase(facts)
    linker = EntityLinker(knowledge.entities)
    asked = set()
    for question in triples.generate_questions(knowledge, 100, other_words=0.2):
        entity = linker.link(question.text).entity
        path = [knowledge.relations.index(relation) for relation in question.path]
        ends = triples.path_ends(knowledge, entity, path)
        assert tuple(knowledge.entities[end] for end in ends) == question.answers
        asked.add(entity)
    assert asked == {*knowledge.entities}


def test_entities_are_not_one_string():
    with pytest.raises(ValueError, match=r"`entities` must hold names, .*'Heat'"):
        EntityLinker("Heat")


def test_preferred_entities():
    known = ["Wind", "wind", "E.T. the Extra-Terrestrial", "E.T.", "Tom Hanks", "Big"]
    known += ["guitar", "The Guitar"]
    linker = EntityLinker(known)
    assert linker.link("who made wind")[::3] == ("wind", ("Wind",))
    assert linker.link("who made E.T.").entity == "E.T."
    assert linker.link("was Tom Hanks in Big").entity == "Tom Hanks"
    linker = EntityLinker(known, prefer=["Wind", known[2], "Big", "The Guitar"])
    assert linker.link("who made wind")[::3] == ("Wind", ("wind",))
    assert linker.link("who made E.T.")[::3] == (known[2], ("E.T.",))
    assert linker.link("Who made Guitar?")[::3] == ("The Guitar", ("guitar",))
    assert linker.link("was Tom Hanks in Big").entity == "Big"
    assert linker.link("what did Tom Hanks direct").entity == "Tom Hanks"
    with pytest.raises(ValueError, match=r"`prefer` must hold .* Received: .*'Jaws'"):
        EntityLinker(known, prefer=["Jaws"])


def test_vectorize_passes_candidates_on():
    knowledge = triples.KnowledgeBase(triples.parse("Tokyo Story|a|b\nOld Tokyo|a|c"))
    questions = [triples.Question("who is in tokyo", ("b",))]
    vocabulary = triples.question_vocabulary(
        questions, EntityLinker(knowledge.entities)
    )
    with pytest.raises(AmbiguousEntityError, match=r"questions\[0\]") as caught:
        triples.vectorize(questions, knowledge, vocabulary)
    assert caught.value.candidates == ("Old Tokyo", "Tokyo Story")
    vectors = triples.vectorize(questions, knowledge, vocabulary, unknown="empty")
    assert vectors.unknown == 1
