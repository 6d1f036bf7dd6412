"""Names: their words, apart from case, accents, marks and numerals, and an index."""

from __future__ import annotations

import difflib
import functools
import itertools
import re
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

try:
    import rapidfuzz
except ImportError:  # an extra: `linking`
    rapidfuzz = None

APOSTROPHES = "'’‘`´ʼ"


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


ARTICLES = _set("the a an")
# A question without a capital letter cannot mean these words as names.
QUESTION_WORDS = _set("who whom whose what which when where why how")
# Words about entities. As names, they lose against all other words.
FRAME_WORDS = _set(
    "film films movie movies picture pictures director directors directed direct "
    "directs directing writer writers wrote written write writes writing "
    "screenwriter screenwriters screenplay script actor actors actress actresses "
    "cast star stars starred starring act acts acted acting appear appears "
    "appeared play plays played genre genres kind type sort year years date dates "
    "release releases released language languages rating ratings rated vote votes "
    "tag tags describe described topic topics plot story creator creators created "
    "create creates author authors made make makes maker name names named call "
    "called title titled tell list give show know find like original originally "
    "speak spoken come came produce produced producer fact "
    "facts answer question information info word words describing description listed "
    "primary main together co soundtrack music score song songs composer composed "
    "budget runtime length minutes summary synopsis review reviews trailer poster "
    "cinematographer cinematography editor edited country studio character characters "
    "ending role roles lead leading best famous watch saw see seen performed shot "
    "theme themes subject filmed filmmaker dvd office box gross say said mean think "
    "born birth die dies died death live lives lived alive married marry wife husband "
    "child children parents father mother brother sister family age old tall high long "
    "big far many much first last win wins won prize award city country capital "
    "population people place places river mountain president mayor founded "
    "founder established located based headquarters book books novel poem album "
    "sang sing singer sung painted paint painter painting published read wins team "
    "member members belong party university school museum currency money time "
    "nationality religion job profession instrument work works built invented "
    "discovered designed situated visit spoken flow flows border borders"
)
FUNCTION_WORDS = _set(
    "i me my mine we us our you your he him his she her hers it its they them "
    "their one this that these those there here is are was were be been being am "
    "do does did done has have had having can could will would shall should may "
    "might must of in on at by for from with without to into onto about as up "
    "down out over under off after before between during through and or not no "
    "yes if than then so but all any some each every other others also just "
    "please now again ever more most much many very too same id im ive its whos "
    "whats wheres whens hows thats theres heres lets dont doesnt didnt isnt wasnt "
    "arent werent cant couldnt wont wouldnt hes shes theyre youre"
)
_SMALL = ARTICLES | _set("and or of in on at by for from to with as")  # in titles
ORDINARY = ARTICLES | QUESTION_WORDS | FRAME_WORDS | FUNCTION_WORDS

_WORD = re.compile(rf"&|[^\W_]+(?:[{APOSTROPHES}][^\W_]+)*[{APOSTROPHES}]?")
_POSSESSIVE = re.compile(rf"(?:[{APOSTROPHES}][sS]|(?<=[sSxXzZ])[{APOSTROPHES}])$")
# With 's, these are short for "is" or "us".
_SHORT = QUESTION_WORDS | _set("it he she that there here let")
_YEAR = re.compile(r"\s*\(\s*(?:1[89]|20)\d\d\s*\)")
_YEAR_AT_END = re.compile(_YEAR.pattern + r"\Z")
# Letters that are no accented forms of others by Unicode's tables.
_LETTERS = str.maketrans(
    {"ø": "o", "ł": "l", "đ": "d", "æ": "ae", "œ": "oe", "ð": "d", "þ": "th", "ı": "i"}
)
_NUMBERS = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen "
    "fourteen fifteen sixteen seventeen eighteen nineteen twenty"
)
_ROMANS = "ii iii iv vi vii viii ix xi xii xiii xiv xv xvi xvii xviii xix xx"
_ROMAN_VALUES = (2, 3, 4, 6, 7, 8, 9, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20)
_NUMERALS = {word: str(i) for i, word in enumerate(_NUMBERS.split(" "))}
_NUMERALS |= {word: str(i) for word, i in zip(_ROMANS.split(" "), _ROMAN_VALUES)}
_NUMERALS |= {"mister": "mr", "doctor": "dr", "saint": "st", "versus": "vs"}
_LAST_NUMERALS = {"v": "5", "x": "10"}  # at the end of a name: Rocky V
_PARTS = _set("part pt volume vol chapter episode no number")
# Parts of a name: Alien: Resurrection; Star Wars: Episode IV - A New Hope.
_SEGMENTS = re.compile(r"\s*:\s+|\s+[-–—]\s+|\s+or,?:?\s+|\s*/\s*")
_LONG_NAME = 18  # letters from which on a name of several words may have two errors
_LONG = 9  # letters from which on a word may have two errors


class Word(NamedTuple):
    """A word of a text.

    Attributes:
        text: The word as written, with its apostrophes.
        start: The index of its first character.
        end: The index after its last character.
        key: The word in lower case without accents and apostrophes.
        owner: The same without a possessive ending; equal to `key` if there is none.
        possessive: Whether the word has a possessive ending; "it's" has none.
        content: Whether this is no ordinary word of a question.
    """

    text: str
    start: int
    end: int
    key: str
    owner: str
    possessive: bool
    content: bool

    @property
    def capital(self) -> bool:
        """Whether the word begins with a capital letter or has a digit."""
        return self.text[0].isupper() or any(c.isdigit() for c in self.text)


def fold(text: str) -> str:
    """Removes case, accents and all marks but letters and digits."""
    if text.isascii():
        return "".join(c for c in text.lower() if c.isalnum())
    split = unicodedata.normalize("NFKD", text.casefold().translate(_LETTERS))
    return "".join(c for c in split if c.isalnum())


def words_of(text: str) -> list[Word]:
    """Splits a text into words at all marks but apostrophes."""
    words = []
    for match in _WORD.finditer(text):
        word = match[0]
        key = "and" if word == "&" else fold(word)
        if key:
            owner = fold(_POSSESSIVE.sub("", word)) or key
            content = key not in ORDINARY and owner not in _SHORT
            possessive = owner not in _SHORT and bool(_POSSESSIVE.search(word))
            words.append(Word(word, *match.span(), key, owner, possessive, content))
    return words


def with_article_first(text: str, words: list[Word]) -> list[Word]:
    """Moves an article behind a comma to the front: "Matrix, The" is The Matrix."""
    if len(words) < 2 or words[-1].key not in ARTICLES:
        return words
    between = text[words[-2].end : words[-1].start]
    return [words[-1], *words[:-1]] if between.strip() == "," else words


def numeral(key: str) -> str:
    """Returns a word, the digits of a numeral, or the short form of a title."""
    return _NUMERALS.get(key, key)


def is_special(keys: list[str], last: int) -> bool:
    """Whether words up to `last` may change if they are written in another way.

    Articles move to the front, "Rocky V" is Rocky 5, and "Part II" is 2.
    """
    key = keys[last]
    part = last and keys[last - 1] in _PARTS and numeral(key).isdigit()
    return bool(part) or key in ARTICLES or key in _LAST_NUMERALS


def numbered(keys: list[str]) -> list[str]:
    """Writes numerals as digits: "rocky ii" and "rocky part two" are rocky 2."""
    numbers = [numeral(key) for key in keys]
    if len(numbers) > 1 and numbers[-1] in _LAST_NUMERALS:
        numbers[-1] = _LAST_NUMERALS[numbers[-1]]
    if len(numbers) > 2 and numbers[-1].isdigit() and numbers[-2] in _PARTS:
        del numbers[-2]
    return numbers


def core(keys: list[str]) -> list[str]:
    """Removes articles but one at the end."""
    return [*(key for key in keys[:-1] if key not in ARTICLES), *keys[-1:]]


def loose(keys: list[str]) -> str:
    """Joins words without articles, with numerals as digits."""
    return "".join(numbered(core(keys)))


def is_number(key: str) -> bool:
    """Whether a word is a number above 1, and no year."""
    digits = re.sub("(st|nd|rd|th)$", "", numeral(key))
    year = len(digits) == 4 and digits[:2] in ("18", "19", "20") and digits < "2031"
    return digits.isdecimal() and digits not in ("0", "1") and not year


def year_after(text: str, start: int) -> int:
    """Returns the end of a year in brackets at `start`, or `start`."""
    match = _YEAR.match(text, start)
    return match.end() if match else start


def is_mixed(words: list[Word]) -> bool:
    """Whether capital letters tell names from other words in a question.

    They do not in a question without capital letters but the first, in capital letters,
    or with a capital letter in each word.
    """
    lower = [w for w in words[1:] if w.text[0].islower() and w.key not in _SMALL]
    lower += [w for w in words[:1] if w.text[0].islower()]
    upper = [w for w in words[1:] if w.text[0].isupper() and w.key != "i"]
    return bool(lower and upper)


class Spelling(NamedTuple):
    """A name or an alias, and its entity."""

    text: str
    entity: str


class NameIndex:
    """Spellings by all words (`full`), without articles (`loose`), and by parts.

    Args:
        spellings: The names and aliases.

    Attributes:
        longest: The number of words of the longest spelling.
        symbols: The spellings without letters and digits, by text.
    """

    def __init__(self, spellings: Iterable[Spelling]) -> None:
        self.full: dict[str, list[Spelling]] = {}
        self.loose: dict[str, list[Spelling]] = {}
        self.symbols: dict[str, list[Spelling]] = {}
        self.longest = 0
        self._spellings = [*spellings]
        self._words: list[list[str]] = []
        self._loose_keys: list[str] = []
        for spelling in self._spellings:
            keys = _keys(spelling.text)
            self._words.append(keys)
            self._loose_keys.append(loose(keys))
            if not keys:
                self.symbols.setdefault(spelling.text.strip(), []).append(spelling)
                continue
            self.longest = max(self.longest, len(keys))
            self.full.setdefault("".join(keys), []).append(spelling)
            self.loose.setdefault(self._loose_keys[-1], []).append(spelling)
            if spelling.text.endswith(")"):
                key = loose(_keys(_YEAR_AT_END.sub("", spelling.text)))
                if key not in ("", self._loose_keys[-1]):
                    self.loose.setdefault(key, []).append(spelling)

    @functools.cached_property
    def segments(self) -> dict[str, list[Spelling]]:
        """The spellings by their parts between colons, dashes and slashes."""
        segments: dict[str, list[Spelling]] = {}
        for spelling in self._spellings:
            parts = _SEGMENTS.split(spelling.text)
            for part in parts if len(parts) > 1 else ():
                keys = _keys(part)
                if any(key not in ORDINARY for key in keys):
                    segments.setdefault(loose(keys), []).append(spelling)
        return segments

    @functools.cached_property
    def _parts(self) -> tuple[dict[str, set[int]], list[str]]:
        """The numbers of the spellings by word, and the words of each spelling."""
        by_word: dict[str, set[int]] = {}
        lines = []
        for number, (spelling, words) in enumerate(zip(self._spellings, self._words)):
            keys = numbered(words)
            if any(mark in spelling.text for mark in APOSTROPHES):
                keys += [word.owner for word in words_of(spelling.text)]
            lines.append(f" {' '.join(numbered(words))} ")
            for key in keys:
                by_word.setdefault(key, set()).add(number)
        return by_word, lines

    def has_word(self, key: str) -> bool:
        """Whether a name has the word."""
        return key in self._parts[0]

    @functools.cached_property
    def _edges(self) -> set[tuple[str, bool]]:
        """The words of the names of two words, and whether they are the last."""
        pairs = [words for words in self._words if len(words) == 2]
        return {(words[last], bool(last)) for words in pairs for last in (0, 1)}

    def is_edge(self, key: str, last: bool) -> bool:
        """Whether a word is the first or the last one of a name of two words."""
        return (key, last) in self._edges

    def containing(
        self, words: Sequence[Word], in_order: bool = False
    ) -> list[Spelling]:
        """Returns the spellings with these words next to each other, or in any order.

        Words in another order match only if no spelling has this order and `in_order`
        is false. The last word may have a possessive ending.
        """
        by_word, lines = self._parts
        keys = numbered([word.key for word in words])
        sets = []
        for key, word in zip(keys, words):
            if word.content:
                numbers = by_word.get(key, set())
                if word is words[-1] and word.owner != word.key:
                    numbers = numbers | by_word.get(word.owner, set())
                sets.append(numbers)
        if not sets:
            return []
        common = sorted(set.intersection(*sets))
        ends = {keys[-1], words[-1].owner}
        phrases = [f" {' '.join([*keys[:-1], end])} " for end in sorted(ends)]
        ordered = [n for n in common if any(p in lines[n] for p in phrases)]
        if not ordered and (in_order or (len(sets) < 2 and len(words) > 1)):
            return []
        return [self._spellings[n] for n in ordered or common]

    # Misspelt names, by rapidfuzz

    @functools.cached_property
    def _by_length(self) -> dict[int, list[str]]:
        """The words of three letters and more, by length."""
        return _by_length(word for word in self._parts[0] if len(word) > 2)

    def corrections(self, key: str) -> set[tuple[str, int]]:
        """Returns the words of names near a word, with their distances.

        A distance counts letters that are wrong, missing, doubled or swapped with the
        next one. It is at most 1, and 2 for long words.
        """
        if rapidfuzz is None or len(key) < 4 or not key.isalpha():
            return set()
        most = 2 if len(key) >= _LONG else 1
        lengths = range(len(key) - most, len(key) + most + 1)
        words_by_length = (self._by_length.get(n, []) for n in lengths)
        return {pair for words in words_by_length for pair in _near(key, words, most)}

    def misspelt(self, words: Sequence[Word]) -> tuple[list[Spelling], int]:
        """Returns the nearest spellings that share a word, and their distance."""
        if rapidfuzz is None:
            return [], 0
        by_word = self._parts[0]
        keys = [word.key for word in words]
        content = [word for word in words if word.content and len(word.key) > 2]
        numbers = set().union(*(by_word.get(word.key, ()) for word in content))
        written = {loose(keys), loose([*keys[:-1], words[-1].owner])}
        most = 2 if min(map(len, written)) >= _LONG_NAME else 1
        size = min(map(len, written)) - most, max(map(len, written)) + most
        candidates: dict[str, list[Spelling]] = {}
        for number in numbers:
            if size[0] <= len(self._loose_keys[number]) <= size[1]:
                key, spelling = self._loose_keys[number], self._spellings[number]
                if not _one_less(core(keys), core(self._words[number])):
                    candidates.setdefault(key, []).append(spelling)
        near = [
            (candidate, distance)
            for key in written
            for candidate, distance in _near(key, [*candidates], most)
            if re.findall(r"\d", key) == re.findall(r"\d", candidate)  # Rocky 3
        ]
        if not near:
            return [], 0
        least = min(distance for _, distance in near)
        best = {key for key, distance in near if distance == least}
        return [s for key in sorted(best) for s in candidates[key]], least

    @functools.cached_property
    def _loose_by_length(self) -> dict[int, list[str]]:
        return _by_length(self.loose)

    def nearest(self, words: Sequence[Word], count: int = 5) -> list[str]:
        """Returns the entities with names like these words, nearest first."""
        keys = [word.key for word in words]
        key = loose(keys)
        reach = max(2, len(key) // 4)
        lengths = range(len(key) - reach, len(key) + reach + 1)
        alike = [k for length in lengths for k in self._loose_by_length.get(length, ())]
        if rapidfuzz is not None:
            near = rapidfuzz.process.extract(
                key, alike, scorer=rapidfuzz.fuzz.ratio, score_cutoff=70, limit=count
            )
            near = [key for key, _, _ in near]
        else:  # slower, so that the first letter must be right
            alike = [k for k in alike if k[:1] == key[:1]]
            near = difflib.get_close_matches(key, alike, count, 0.7)
        spans = [
            loose(keys[i:j])
            for i in range(len(keys))
            for j in range(len(keys), i, -1)
            if any(word.content for word in words[i:j])
        ]
        inside = sorted((k for k in spans if k in self.loose), key=len, reverse=True)
        names = [s.entity for k in (*inside[:2], *near) for s in self.loose[k]]
        return [*dict.fromkeys(names)][:count]


def _by_length(keys: Iterable[str]) -> dict[int, list[str]]:
    return {n: [*g] for n, g in itertools.groupby(sorted(keys, key=len), len)}


def closest(spellings: Iterable[Spelling], text: str, start: int) -> list[Spelling]:
    """Returns the spellings that are nearest to the text from `start` on.

    Equal case, accents and marks count, in this order of importance: marks, accents,
    case.
    """
    levels: dict[int, list[Spelling]] = {}
    for spelling in spellings:
        lead = len(spelling.text) - len(spelling.text.lstrip("¡¿$+#*.…-'\"([{ "))
        begin = max(start - lead, 0)
        written = text[begin : begin + len(spelling.text)]
        level = 0
        for form in (str, str.casefold, _bare):
            if form(written) == form(spelling.text):
                break
            level += 1
        levels.setdefault(level, []).append(spelling)
    best = levels[min(levels)]
    if min(levels) < 3:  # "Up!" also begins with "Up"
        longest = max(len(spelling.text) for spelling in best)
        best = [spelling for spelling in best if len(spelling.text) == longest]
    return best


def _bare(text: str) -> str:
    split = unicodedata.normalize("NFD", text.casefold())
    return "".join(c for c in split if not unicodedata.combining(c))


def _keys(text: str) -> list[str]:
    return [word.key for word in with_article_first(text, words_of(text))]


def _near(key: str, words: list[str], most: int) -> list[tuple[str, Any]]:
    matches = rapidfuzz.process.extract(
        key,
        words,
        scorer=rapidfuzz.distance.OSA.distance,
        score_cutoff=most,
        limit=None,
    )
    return [(word, distance) for word, distance, _ in matches]


def _one_less(a: list[str], b: list[str]) -> bool:
    """Whether one of two lists of words has a word more than the other one."""
    longer, shorter = sorted((a, b), key=len, reverse=True)
    joint = "".join(shorter)
    return any(
        "".join(longer[:i] + longer[i + 1 :]) == joint for i in range(len(longer))
    )
