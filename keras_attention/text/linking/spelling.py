"""Words of names and questions, apart from case, accents, marks and numerals."""

import re
import unicodedata
from typing import NamedTuple

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
    "theme themes subject filmed filmmaker dvd office box gross say said mean think"
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
ORDINARY = ARTICLES | QUESTION_WORDS | FRAME_WORDS | FUNCTION_WORDS

_WORD = re.compile(rf"&|[^\W_]+(?:[{APOSTROPHES}][^\W_]+)*[{APOSTROPHES}]?")
_POSSESSIVE = re.compile(rf"(?:[{APOSTROPHES}][sS]|(?<=[sSxXzZ])[{APOSTROPHES}])$")
# With 's, these are short for "is" or "us".
_SHORT = QUESTION_WORDS | _set("it he she that there here let")
_YEAR = re.compile(r"\s*\(\s*(?:1[89]|20)\d\d\s*\)")
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
_PARTS = frozenset(
    ("part", "pt", "volume", "vol", "chapter", "episode", "no", "number")
)


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
    numbers = [_NUMERALS.get(key, key) for key in keys]
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
    digits = _NUMERALS.get(key, key)
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
    lower = [w for w in words[1:] if w.text[0].islower() and len(w.key) > 3]
    lower += [w for w in words[:1] if w.text[0].islower()]
    upper = [w for w in words[1:] if w.text[0].isupper() and w.key != "i"]
    return bool(lower and upper)
