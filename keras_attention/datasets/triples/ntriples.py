"""Facts from N-Triples, the line-based format of RDF.

W3C, "RDF 1.1 N-Triples" (2014), https://www.w3.org/TR/n-triples/, section 7. The names
of the patterns are those of the grammar.
"""

import contextlib
import re
import urllib.parse
import warnings
from collections import Counter
from typing import NamedTuple

from keras_attention.datasets.triples.facts import Fact

LABEL = "http://www.w3.org/2000/01/rdf-schema#label"

UCHAR = r"\\u[0-9A-Fa-f]{4}|\\U[0-9A-Fa-f]{8}"
ECHAR = r"""\\[tbnrf"'\\]"""
PN_CHARS_BASE = (
    "A-Za-z\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u02ff\u0370-\u037d\u037f-\u1fff"
    "\u200c-\u200d\u2070-\u218f\u2c00-\u2fef\u3001-\ud7ff\uf900-\ufdcf\ufdf0-\ufffd"
    "\U00010000-\U000effff"
)
PN_CHARS_U = PN_CHARS_BASE + "_:"
PN_CHARS = PN_CHARS_U + "\\-0-9\u00b7\u0300-\u036f\u203f-\u2040"
IRIREF = rf"""<(?:[^\x00-\x20<>"{{}}|^`\\]|{UCHAR})*>"""
BLANK_NODE = rf"_:[{PN_CHARS_U}0-9](?:[{PN_CHARS}.]*[{PN_CHARS}])?"
STRING = rf'"(?:[^"\\\n\r]|{ECHAR}|{UCHAR})*"'
LANGTAG = r"@[a-zA-Z]+(?:-[a-zA-Z0-9]+)*"
TRIPLE = re.compile(
    rf"[ \t]*(?P<subject>{IRIREF}|{BLANK_NODE})"
    rf"[ \t]*(?P<predicate>{IRIREF})"
    rf"[ \t]*(?:(?P<node>{IRIREF}|{BLANK_NODE})"
    rf"|(?P<string>{STRING})(?:\^\^(?P<datatype>{IRIREF})|(?P<language>{LANGTAG}))?)"
    r"[ \t]*\.[ \t]*(?:#.*)?"
)
ESCAPE = re.compile(rf"{UCHAR}|{ECHAR}")
ESCAPED = {"t": "\t", "b": "\b", "n": "\n", "r": "\r", "f": "\f"}
# Section 2.2: IRIs are absolute. RFC 3986, section 3.1: they begin with a scheme.
ABSOLUTE = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*:")


class Term(NamedTuple):
    """A node or a literal.

    Attributes:
        text: An IRI without angle brackets, a blank node `_:…`, or a literal's text.
        is_node: Whether it is an IRI or a blank node.
        language: The language of a literal in lower case, such as "en"; "" for none.
    """

    text: str
    is_node: bool
    language: str = ""


def parse_ntriples(
    text: str, language: str = "en", source: str = "<text>"
) -> list[Fact]:
    r"""Parses N-Triples and gives each IRI a name that people write.

    The name of an IRI is its `rdfs:label`, else its last part, after the last `#` or
    `/`: `<http://example.org/Ann_Lee>` is "Ann Lee". Percent escapes are decoded, and
    an underscore in the name of an entity is a space. IRIs that would share a name do
    not become one entity: they are named by their last parts if these differ, else by
    their whole IRIs, and a `UserWarning` counts them. The name of a literal is its
    text; an IRI of the same name is the same entity. Labels are names and not facts.

    Args:
        text: The lines.
        language: The preferred language of labels. Next come labels without a language,
            then any other. Among equals, the first label counts.
        source: The name of the text in error messages, for example its file name.

    Returns:
        A list of `Fact`, in the order of the lines.

    Raises:
        ValueError: A line does not follow the grammar, an IRI is not absolute, or a
            literal is empty; the message gives `source` and the line.

    Example:
        ```python
        parse_ntriples("<http://a.org/Heat> <http://a.org/by> <http://a.org/M_Mann> .")
        # [Fact("Heat", "by", "M Mann")]
        ```

    Reference:
        W3C, "RDF 1.1 N-Triples" (2014), https://www.w3.org/TR/n-triples/
    """
    triples = []
    labels: dict[str, tuple[int, str]] = {}  # rank and label; the lowest rank counts
    for count, line in enumerate(re.split("\r\n|\r|\n", text), 1):
        if not line.strip(" \t") or line.lstrip(" \t").startswith("#"):
            continue
        subject, predicate, object_ = _triple(line, f"{source}, line {count}")
        if predicate.text != LABEL or object_.is_node:
            triples.append((subject, predicate, object_))
            continue
        languages = {language.lower(): 0, "": 1}
        rank = languages.get(object_.language, 2)
        if rank < labels.get(subject.text, (3, ""))[0]:
            labels[subject.text] = rank, " ".join(object_.text.split())
    nodes = [t.text for s, _, o in triples for t in (s, o) if t.is_node]
    names = {node: label for node, (_, label) in labels.items()}
    entities = _names(dict.fromkeys(nodes), names, source, "entities")
    predicates = dict.fromkeys(predicate.text for _, predicate, _ in triples)
    relations = _names(predicates, names, source, "relations")
    return [
        Fact(_name(s, entities), relations[p.text], _name(o, entities))
        for s, p, o in triples
    ]


def _triple(line: str, where: str) -> tuple[Term, Term, Term]:
    match = TRIPLE.fullmatch(line)
    if match is None:
        raise ValueError(
            f"{where}: a line must be a subject, a predicate and an object as "
            f'<IRI>, _:node or "literal", and a dot. Received: {line.strip()!r}'
        )
    nodes = [_node(match[name], where) for name in ("subject", "predicate")]
    if match["node"]:
        return nodes[0], nodes[1], _node(match["node"], where)
    if match["datatype"]:
        _node(match["datatype"], where)  # checks it
    text = _unescaped(match["string"][1:-1], where)
    if not text.strip():
        raise ValueError(
            f"{where}: a literal must not be empty, since its text is the name of an "
            f"entity. Received: {line.strip()!r}"
        )
    language = (match["language"] or "").removeprefix("@").lower()
    return nodes[0], nodes[1], Term(text, False, language)


def _node(written: str, where: str) -> Term:
    if written.startswith("_:"):
        return Term(written, True)
    iri = _unescaped(written[1:-1], where)
    if not ABSOLUTE.match(iri):
        raise ValueError(
            f"{where}: an IRI must be absolute, such as <http://example.org/name>. "
            f"Received: {written}"
        )
    return Term(iri, True)


def _unescaped(text: str, where: str) -> str:
    def character(match: re.Match[str]) -> str:
        kind, digits = match[0][1], match[0][2:]
        if kind not in "uU":
            return ESCAPED.get(kind, kind)
        number = int(digits, 16)
        if number > 0x10FFFF or 0xD800 <= number < 0xE000:
            raise ValueError(
                f"{where}: an escape must be the number of a character. Received: "
                f"{match[0]}"
            )
        return chr(number)

    return ESCAPE.sub(character, text) if "\\" in text else text


def _names(
    nodes: dict[str, None], labels: dict[str, str], source: str, kind: str
) -> dict[str, str]:
    """Returns the name of each node: the first of its names that no other one has."""
    spaces = kind == "entities"
    names = {node: labels.get(node) or last_part(node, spaces) for node in nodes}
    shared = 0
    for name_of in (lambda node: last_part(node, spaces), lambda node: node):
        counts = Counter(names.values())
        clashing = [node for node in nodes if counts[names[node]] > 1]
        shared = max(shared, len(clashing))
        names.update({node: name_of(node) for node in clashing})
    if shared:
        warnings.warn(
            f"{source}: {shared} {kind} share their name with another one. They are "
            "named by the last parts of their IRIs or by their whole IRIs.",
            UserWarning,
            stacklevel=4,
        )
    return names


def last_part(iri: str, spaces: bool) -> str:
    """Returns the part of an IRI after its last `#` or `/`, decoded.

    Without one of these, as in `urn:isbn:31`, it is the part after the last `:`. A
    blank node stays as it is; with `spaces`, underscores become spaces.
    """
    if iri.startswith("_:"):
        return iri
    whole = iri.rstrip("#/")
    part = re.split("[#/]" if re.search("[#/]", whole) else ":", whole)[-1]
    with contextlib.suppress(UnicodeDecodeError):  # no UTF-8: the escapes stay
        part = urllib.parse.unquote(part, errors="strict")
    if spaces:
        part = part.replace("_", " ")
    return " ".join(part.split()) or iri


def _name(term: Term, entities: dict[str, str]) -> str:
    return entities[term.text] if term.is_node else " ".join(term.text.split())
