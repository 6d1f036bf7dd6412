"""What a visitor finds on the page: networks to choose, and texts to begin with.

The controls and the views share it, so it imports nothing.
"""

from __future__ import annotations

from typing import NamedTuple


class Task(NamedTuple):
    """A shipped network that writes one text, the target, from another, the source."""

    preset: str
    source: str
    target: str


STORY_PRESET = "memn2n_babi_joint"
STORIES = [
    (
        "John got the apple there.\nJohn went to the hallway.\nMary went to the "
        "kitchen.\nJohn dropped the apple.\nJohn moved to the garden.",
        "Where is the apple?",
    ),
    (
        "Mary moved to the bathroom.\nJohn went to the hallway.\nDaniel went back to "
        "the hallway.\nSandra moved to the garden.",
        "Where is Daniel?",
    ),
    (
        "Sheep are afraid of wolves.\nCats are afraid of sheep.\nMice are afraid of "
        "cats.\nGertrude is a sheep.",
        "What is Gertrude afraid of?",
    ),
    (
        "Mary got the milk there.\nMary moved to the bathroom.\nSandra went back to "
        "the kitchen.\nMary gave the milk to Sandra.",
        "Who gave the milk?",
    ),
]

READERS = {
    "reads from left to right (CausalLM)": "causal_lm_tatoeba",
    "fills a blank (MaskedLM)": "masked_lm_tatoeba",
}

_READS, _FILLS = READERS
SENTENCES = (
    (_READS, "The children are playing in the garden"),
    (_READS, "I would like to drink a cup of"),
    (_FILLS, "She is ___ a book in the kitchen."),
    (_FILLS, "He wants to go ___ with his friends."),
)

TASKS = {
    "Dutch to English (Transformer)": Task("transformer_nl_en", "Dutch", "English"),
    "dates (recurrent, Bahdanau's attention)": Task(
        "seq2seq_dates", "date", "ISO date"
    ),
}
_DUTCH, _DATES = TASKS
TEXTS = (
    (_DUTCH, "Ik heb een grote hond in mijn huis."),
    (_DUTCH, "Waar is mijn boek?"),
    (_DATES, "4 May 1979"),
    (_DATES, "Thursday, 12 October 2006"),
)

ROUTE_PRESET = "dnc_paths"
EDGES = """Bank | east | Tower
Bank | west | Temple
Tower | north | Park
Tower | west | Bank
Temple | north | Museum
Park | west | Museum
Museum | south | Temple"""
ROUTES = [
    (EDGES, "Bank | east | north | west"),
    (EDGES, "Park | west | south | north"),
    ("A | 1 | B\nB | 1 | C\nC | 1 | A\nA | 2 | C", "A | 1 | 1 | 1 | 2"),
]

WORDS_PRESET = "skip_gram_tatoeba"
WORD_LISTS = (
    "mother father sister brother water coffee monday tuesday",
    "dog cat bird horse car train bus boat",
    "red blue green happy sad angry one two three",
)
