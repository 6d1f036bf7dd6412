"""Files of triples: CSV and TSV tables, N-Triples, and what is wrong with them."""

import gzip

import pytest

from keras_attention.datasets import triples
from keras_attention.datasets.triples import Fact

FACTS = [Fact("The Mill", "painted by", "Ann Lee"), Fact("The Mill", "year", "1901")]


# Tables


@pytest.mark.parametrize(
    "text",
    [
        "The Mill,painted by,Ann Lee\nThe Mill,year,1901\n",
        "subject,relation,object\nThe Mill,painted by,Ann Lee\nThe Mill,year,1901",
        "Value;ID;Entity;Property\nAnn Lee;1;The Mill;painted by\n1901;2;The Mill;year",
        '"The Mill","painted\nby",Ann Lee\r\n\r\n  The Mill , year,1901,,\r\n,,\r\n',
        "The Mill\tpainted by\tAnn Lee\nThe Mill\tyear\t1901",
        "The Mill|painted by|Ann Lee\rThe Mill|year|1901",
    ],
)
def test_tables(text):
    assert triples.parse_csv(text) == FACTS


def test_quotes_and_separators_within_names():
    text = '"Mill, The",says,"""No"""\n"a\x85b",r,"c|d;e"\n'
    found = triples.parse_csv(text)
    assert found == [Fact("Mill, The", "says", '"No"'), Fact("a\x85b", "r", "c|d;e")]
    assert triples.parse_csv("a;r;b,c,d\n", ";") == [Fact("a", "r", "b,c,d")]
    assert triples.parse_csv("\n \n") == []
    assert triples.parse_csv("head,relation,tail\n") == []


def test_a_header_is_found_or_told():
    text = "painting,attribute,what\nThe Mill,painted by,Ann Lee\nThe Mill,year,1901\n"
    assert triples.parse_csv(text, header=True) == FACTS
    message = r"mine, line 1 is read as a fact, .*names: painting, attribute, what\. If"
    with pytest.warns(UserWarning, match=message):
        assert triples.parse_csv(text, source="mine")[1:] == FACTS
    text = "value,property,entity\na,b,c"
    assert triples.parse_csv(text) == [Fact("c", "b", "a")]
    assert triples.parse_csv(text, header=True) == [Fact("c", "b", "a")]
    as_facts = [Fact("value", "property", "entity"), Fact("a", "b", "c")]
    assert triples.parse_csv(text, header=False) == as_facts


def test_a_byte_order_mark_is_ignored():
    text = "\ufeffsubject,relation,object\nThe Mill,painted by,Ann Lee\n"
    assert triples.parse_csv(text) == FACTS[:1]
    text = '\ufeff"The Mill";painted by;Ann Lee'
    assert triples.parse_csv(text, header=False) == FACTS[:1]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,b,c\na,b\n", r"mine, line 2: a fact must be .* Received: \['a', 'b'\]"),
        ("a,b,c\n\na,,c\n", r"mine, line 3: a fact must be"),
        ("a,b,c\na,b,c,d\n", r"mine, line 2: a fact must be"),
        ("a b c\n", r"mine, line 1: a fact must be"),
        ("id,head,relation,tail\n1,a,b\n", r"line 2: .* in a row of 4 columns"),
        ('a,b,c\n"a\nb",r,c\na,"b"x,c', r"mine, line 4: the row .* is not CSV"),
        ('a,b,c\na,"b,c\nd,e,f\n', r"mine, line 2: the row .* is not CSV"),
        ("a,b,c;d;e\n", r"line 1: several separators .* any of \[',', ';'\]"),
    ],
)
def test_a_table_that_does_not_parse_is_named(text, message):
    with pytest.raises(ValueError, match=message):
        triples.parse_csv(text, source="mine")


def test_a_separator_is_one_character():
    with pytest.raises(ValueError, match="`separator` must be one character"):
        triples.parse_csv("a||b||c", "||")


# N-Triples: the cases of the grammar (W3C, RDF 1.1 N-Triples, section 7)

A = "<http://a.org/"


@pytest.mark.parametrize(
    ("line", "fact"),
    [
        (f"{A}s> {A}p> {A}o> .", ("s", "p", "o")),
        (f"\t{A}s>{A}p>{A}o>.# a comment", ("s", "p", "o")),
        (f"{A}s> {A}p> _:b.1-x .", ("s", "p", "_:b.1-x")),
        (f"_:0a {A}p> _:b_\u00b7.", ("_:0a", "p", "_:b_\u00b7")),
        (f'{A}s> {A}p> "a b" .', ("s", "p", "a b")),
        (f'{A}s> {A}p> "1901"^^{A}year> .', ("s", "p", "1901")),
        (f'{A}s> {A}p> "Bild"@de-AT .', ("s", "p", "Bild")),
        (f'{A}s> {A}p> "# . <x>" .', ("s", "p", "# . <x>")),
        (rf'{A}s> {A}p> "\"q\" \\ \u00e4\U0001F600" .', ("s", "p", '"q" \\ ä😀')),
        (rf'{A}s> {A}p> "a\tb\nc\r\f\bd\'" .', ("s", "p", "a b c \bd'")),
        (rf"{A}caf\u00E9> {A}p> {A}o> .", ("café", "p", "o")),
        ("<http://a/#x_y> <http://a/r_s#> <urn:isbn:31> .", ("x y", "r_s", "31")),
        (f"{A}M%C3%BCller_A> {A}p> <http://b.org/> .", ("Müller A", "p", "b.org")),
        (f"{A}a%2Fb> {A}p> {A}%FF> .", ("a/b", "p", "%FF")),
        (f"{A}q?a=b|c> {A}p> {A}o> .".replace("|", "&"), ("q?a=b&c", "p", "o")),
    ],
)
def test_ntriples(line, fact):
    text = f"# a comment\n\n \t\n{line}\r\n"
    assert triples.parse_ntriples(text) == [Fact(*fact)]


@pytest.mark.parametrize(
    "line",
    [
        f"{A}s> {A}p> {A}o>",  # no dot
        f"{A}s> {A}p> {A}o> ..",
        f"{A}s> {A}p> {A}o>, {A}x> .",
        f"{A}s> {A}p> .",
        f'"s" {A}p> {A}o> .',
        f'{A}s> "p" {A}o> .',
        f"{A}s> _:p {A}o> .",
        f"{A}s> a {A}o> .",
        f"{A}s> {A}p> 'o' .",
        f"{A}s> {A}p> 1901 .",
        f'{A}s> {A}p> "a',
        f'{A}s> {A}p> "a"@1 .',
        f'{A}s> {A}p> "a"@en^^{A}t> .',
        f'{A}s> {A}p> "a"^^t .',
        rf'{A}s> {A}p> "\z" .',
        rf'{A}s> {A}p> "\u00g0" .',
        rf"{A}s\n> {A}p> {A}o> .",
        f"{A}a space> {A}p> {A}o> .",
        f"{A}a{{b> {A}p> {A}o> .",
        f"{A}s> {A}p> _:-b .",
        f"{A}s> {A}p> {A}o> . {A}s> {A}p> {A}o> .",
        "@prefix a: <http://a.org/> .",
        "@base <http://a.org/> .",
    ],
)
def test_a_line_that_is_not_ntriples_is_named(line):
    with pytest.raises(ValueError, match="mine, line 2: a line must be a subject, a"):
        triples.parse_ntriples(f"{A}s> {A}p> {A}o> .\n{line}\n", source="mine")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (f"<s> {A}p> {A}o> .", r"line 1: an IRI must be absolute, .* Received: <s>"),
        (f'{A}s> {A}p> "a"^^<t> .', r"line 1: an IRI must be absolute"),
        (rf'{A}s> {A}p> "\uD800" .', r"line 1: an escape must be .*: \\uD800"),
        (rf'{A}s> {A}p> "\U00110000" .', r"line 1: an escape must be"),
        (f'{A}s> {A}p> " " .', r"line 1: a literal must not be empty"),
    ],
)
def test_terms_that_name_nothing_are_refused(line, message):
    with pytest.raises(ValueError, match=message):
        triples.parse_ntriples(line)


def test_labels_are_names():
    label = "<http://www.w3.org/2000/01/rdf-schema#label>"
    text = f"""\
{A}q1> {A}p1> {A}q2> .
{A}q1> {label} "Die Mühle"@de .
{A}q1> {label} "The  Mill"@EN .
{A}q2> {label} "Ann Lee" .
{A}q2> {label} "Lee, Ann" .
{A}p1> {label} "painted by"@en .
"""
    assert triples.parse_ntriples(text) == FACTS[:1]
    assert triples.parse_ntriples(text, "de")[0].subject == "Die Mühle"


def test_two_things_of_one_name_stay_two():
    label = "<http://www.w3.org/2000/01/rdf-schema#label>"
    text = f"""\
{A}Heat_1986> {A}by> <http://b.org/Lee> .
{A}Heat_1995> {A}by> {A}Lee> .
{A}Heat_1986> {label} "Heat" .
{A}Heat_1995> {label} "Heat" .
{A}Heat_1995> <http://b.org/by> "Heat" .
"""
    with pytest.warns(UserWarning, match="share their name") as caught:
        found = triples.parse_ntriples(text, source="mine")
    said = [str(warning.message) for warning in caught]
    assert "mine: 4 entities share their name with another one" in said[0]
    assert "mine: 2 relations share their name" in said[1]
    assert found == [
        Fact("Heat 1986", "http://a.org/by", "http://b.org/Lee"),
        Fact("Heat 1995", "http://a.org/by", "http://a.org/Lee"),
        Fact("Heat 1995", "http://b.org/by", "Heat"),
    ]


# Files


def test_the_name_of_a_file_tells_its_format(tmp_path):
    table = 'The Mill,painted by,"Ann Lee"\nThe Mill,year,1901\n'
    contents = {
        "a.csv": table,
        "a.CSV.gz": table,
        "a.tsv": table.replace(",", "\t"),
        "a.txt": table.replace(",", "|").replace('"', ""),
        "a.nt": f'{A}The_Mill> {A}painted%20by> "Ann Lee" .\n'
        f'{A}The_Mill> {A}year> "1901" .\n',
    }
    for name, text in contents.items():
        path = tmp_path / name
        content = text.encode()
        path.write_bytes(gzip.compress(content) if name.endswith("gz") else content)
        assert triples.load(path) == FACTS, name
    (tmp_path / "b.csv").write_text(table.replace(",", ";"), "utf-8-sig")
    assert triples.load(tmp_path / "b.csv", ";") == FACTS
    (tmp_path / "c.txt").write_text("a\tr\tb\n")
    assert triples.load(tmp_path / "c.txt", "\t") == [Fact("a", "r", "b")]


@pytest.mark.parametrize("name", ["e.csv", "e.tsv", "e.nt", "e.txt"])
def test_files_without_facts_and_of_other_encodings(name, tmp_path):
    path = tmp_path / name
    path.write_text("\n")
    with pytest.raises(ValueError, match=rf"{name} holds no fact"):
        triples.load(path)
    path.write_bytes("Müller|r|b\n".encode("utf-16"))
    with pytest.raises(ValueError, match=rf"{name}, line 1: not UTF-8"):
        triples.load(path)


def test_other_formats_of_rdf_are_refused(tmp_path):
    with pytest.raises(ValueError, match=r"to N-Triples .*: path='.*a\.ttl\.gz'"):
        triples.load(tmp_path / "a.ttl.gz")
