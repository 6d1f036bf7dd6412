"""Tasks 15 and 16: basic deduction and basic induction about kinds of animals."""

from keras_attention.datasets.babi.archive import Example
from keras_attention.datasets.babi.simulator.random_source import RandomSource
from keras_attention.datasets.babi.simulator.world import Words

_ANIMALS = {"mouse": "mice", "wolf": "wolves", "cat": "cats", "sheep": "sheep"}
_NAMES = ("gertrude", "winona", "jessica", "emily")
_DEDUCTIONS = 4  # questions per story

_KINDS = ("lion", "rhino", "frog", "swan")
_CREATURES = ("lily", "bernhard", "greg", "julius", "brian")
_COLORS = ("gray", "white", "yellow", "green")


def story(task: int, random_source: RandomSource) -> list[Example]:
    """Writes a story of task 15 with four questions, or of task 16 with one."""
    if task == 15:
        return _deductions(task, random_source)
    return [_induction(task, random_source)]


def _deductions(task: int, random_source: RandomSource) -> list[Example]:
    """Tells all facts, then asks four times what a random animal is afraid of."""
    herd = _Herd(random_source)
    examples = []
    for _ in range(_DEDUCTIONS):
        name = random_source.choose(_NAMES)
        named, kind = herd.kinds[name]
        feared, answer = herd.fears[kind]
        words = ("what", "is", name, "afraid", "of")
        support = (named, feared)
        examples.append(Example(task, tuple(herd.sentences), words, answer, support))
    return examples


class _Herd:
    """Four kinds that fear one another, and four animals of these kinds.

    The kind of an animal is told only after the fear of that kind. Kinds and animals
    are sampled until all facts are told. Animals therefore belong more often to the
    kinds that were told early.
    """

    def __init__(self, random_source: RandomSource) -> None:
        self.random_source = random_source
        self.sentences: list[Words] = []
        self.fears: dict[str, tuple[int, str]] = {}  # kind: the fact, and whom it fears
        self.kinds: dict[str, tuple[int, str]] = {}  # name: the fact, and its kind
        while len(self.sentences) < len(_ANIMALS) + len(_NAMES):
            subject = random_source.choose((*_ANIMALS, *_NAMES))
            if subject in _ANIMALS:
                self._tell_fear(subject)
            else:
                self._tell_kind(subject)

    def _tell_fear(self, kind: str) -> None:
        if kind not in self.fears:
            other = self.random_source.other(tuple(_ANIMALS), kind)
            self.fears[kind] = len(self.sentences), other
            words = (_ANIMALS[kind], "are", "afraid", "of", _ANIMALS[other])
            self.sentences.append(words)

    def _tell_kind(self, name: str) -> None:
        kind = self.random_source.choose(tuple(_ANIMALS))
        if name not in self.kinds and kind in self.fears:
            self.kinds[name] = len(self.sentences), kind
            self.sentences.append((name, "is", "a", kind))


def _induction(task: int, random_source: RandomSource) -> Example:
    """Asks for the color of the one creature without a stated color.

    The answer is the color of another member of its kind: the one whose kind was told
    last. As in the real files, the kind has one, three or four other members, never
    two.
    """
    menagerie = _Menagerie(random_source)
    while len(menagerie.mates()) in (0, 2):
        menagerie = _Menagerie(random_source)
    target = menagerie.target
    mate = max(menagerie.mates(), key=lambda name: menagerie.kinds[name][0])
    colored, answer = menagerie.colors[mate]
    support = (menagerie.kinds[target][0], menagerie.kinds[mate][0], colored)
    words = ("what", "color", "is", target)
    return Example(task, tuple(menagerie.sentences), words, answer, support)


class _Menagerie:
    """Five creatures in random order, with five stated kinds and four stated colors."""

    def __init__(self, random_source: RandomSource) -> None:
        self.random_source = random_source
        self.sentences: list[Words] = []
        self.kinds: dict[str, tuple[int, str]] = {}  # name: the fact, and its kind
        self.colors: dict[str, tuple[int, str]] = {}  # name: the fact, and its color
        self.held: dict[str, str] = {}  # kind: the color of its next member
        while len(self.sentences) < 2 * len(_CREATURES) - 1:
            name = random_source.choose(_CREATURES)
            if random_source.draw() < 0.5:
                self._tell_kind(name)
            else:
                self._tell_color(name)
        (self.target,) = set(self.kinds) - set(self.colors)

    def mates(self) -> list[str]:
        """Returns the other members of the kind of the creature without a color."""
        _, kind = self.kinds[self.target]
        return [name for name in self.colors if self.kinds[name][1] == kind]

    def _tell_kind(self, name: str) -> None:
        """Tells a creature's kind and resets the color of that kind."""
        if name not in self.kinds:
            kind = self.random_source.choose(_KINDS)
            self.kinds[name] = len(self.sentences), kind
            self.sentences.append((name, "is", "a", kind))
            self.held.pop(kind, None)

    def _tell_color(self, name: str) -> None:
        """Tells a creature's color and keeps it for the next member of its kind."""
        if name in self.kinds and name not in self.colors:
            _, kind = self.kinds[name]
            color = self.held.get(kind) or self.random_source.choose(_COLORS)
            self.colors[name] = len(self.sentences), color
            self.sentences.append((name, "is", color))
            self.held[kind] = color
