"""Reads the bAbI tasks from the official archive and text in its format."""

import functools
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral
from pathlib import Path

from keras_attention.datasets import archives, files
from keras_attention.datasets.choices import check_choice
from keras_attention.text.encoding import decode_text
from keras_attention.text.words import tokenize

TASKS = {
    1: "single-supporting-fact",
    2: "two-supporting-facts",
    3: "three-supporting-facts",
    4: "two-arg-relations",
    5: "three-arg-relations",
    6: "yes-no-questions",
    7: "counting",
    8: "lists-sets",
    9: "simple-negation",
    10: "indefinite-knowledge",
    11: "basic-coreference",
    12: "conjunction",
    13: "compound-coreference",
    14: "time-reasoning",
    15: "basic-deduction",
    16: "basic-induction",
    17: "positional-reasoning",
    18: "size-reasoning",
    19: "path-finding",
    20: "agents-motivations",
}

_RELATIVE = "babi/tasks_1-20_v1-2.tar.gz"
# The authors' own address. Size and SHA-256 as recorded by Hugging Face, in
# datasets/babi_qa/dataset_infos.json of github.com/huggingface/datasets.
_OFFICIAL = files.Source(
    "https://www.thespermwhale.com/jaseweston/babi/tasks_1-20_v1-2.tar.gz",
    sha256="0364ebde659f14d11bc21744516c5ec49d3d06cb692733f66680771244998898",
    size=15_719_851,
)
# The copy that Keras' own examples use: an older packing of the same version.
# It has no published checksum. Its size comes from the logs of those examples.
_MIRROR = files.Source(
    "https://s3.amazonaws.com/text-datasets/babi_tasks_1-20_v1-2.tar.gz",
    size=11_745_123,
)
# The name under which Keras' old examples keep the archive in Keras' cache.
_CACHE_NAME = "babi-tasks-v1-2.tar.gz"


@dataclass(frozen=True, slots=True)
class Example:
    """One question and all earlier facts of its story.

    Attributes:
        task: The task's number, 1 to 20.
        story: The facts in reading order, each a tuple of lower-case words.
        question: The question's words.
        answer: One word. A list is also one word, for example `"apple,milk"`. None if
            the answer is unknown, for example for a user's own question.
        supporting_facts: Zero-based indices into `story`, in the order of the file;
            empty if the file names none.
    """

    task: int
    story: tuple[tuple[str, ...], ...]
    question: tuple[str, ...]
    answer: str | None
    supporting_facts: tuple[int, ...] = ()


# Sentences repeat often, so each one is tokenized once and the result is shared.
_tokenize = functools.lru_cache(maxsize=2**14)(tokenize)


def load(
    task: int | str | Iterable[int] = 1,
    split: str = "train",
    size: str = "1k",
    path: str | os.PathLike[str] | None = None,
    holdout: bool = False,
) -> list[Example]:
    """Loads the questions of one or more tasks from the official files.

    Without a `path`, `load` searches for `babi/tasks_1-20_v1-2.tar.gz` in the folder
    named by `KERAS_ATTENTION_DATA`, then in Keras' cache, and otherwise downloads it.

    Args:
        task: A number from 1 to 20, several of them, or `"all"`.
        split: `"train"`, `"valid"` or `"test"`. `"train"` is the full training file
            (folder `en`). `"valid"` is a tenth of it (folder `en-valid`).
        size: `"1k"` or `"10k"` training questions per task. The test questions are the
            same for both sizes.
        path: An archive, or a folder with its unpacked contents.
        holdout: With `split="train"`, leave out the questions of `split="valid"` by
            reading the training file of `en-valid`. Other splits ignore `holdout`.

    Returns:
        A list of `Example`, in the order of the tasks and of the files.

    Raises:
        ValueError: An unknown `task`, `split` or `size`; a file that does not
            follow the format (the message gives file and line); a damaged
            (`DamagedDataError`) or unsafe (`UnsafeArchiveError`) archive.
        DataNotFoundError: The archive or one of its files is missing.

    Example:
        ```python
        train = load(task=1)
        joint = load(task="all", split="test")
        ```
    """
    members = {
        number: _member(number, split, size, holdout) for number in _numbers(task)
    }
    if path is None:
        path = files.find(
            _RELATIVE,
            _OFFICIAL.url,
            _OFFICIAL.sha256,
            size=_OFFICIAL.size,
            mirrors=[_MIRROR],
            cache_name=_CACHE_NAME,
        )
    contents = _read(Path(path), list(members.values()))
    examples: list[Example] = []
    for number, member in members.items():
        source = f"{path}: {member}"
        parsed = parse(decode_text(contents[member], source), number, source)
        if not parsed:
            raise ValueError(f"{source} has no question: it is empty or cut off.")
        examples.extend(parsed)
    return examples


def parse(
    lines: str | Iterable[str], task: int = 1, source: str = "<text>"
) -> list[Example]:
    r"""Parses text in the bAbI format.

    Each line begins with its number in the story; number 1 starts a new story. A fact
    is a sentence. A question is followed by a tab and its answer. Another tab and the
    line numbers of the supporting facts may follow. Empty lines are skipped.

    Args:
        lines: The text, or its lines.
        task: The task number stored in the examples.
        source: The name of the text in error messages, for example its file name.

    Returns:
        A list with one `Example` per question.

    Raises:
        ValueError: A line does not follow the format; the message gives `source` and
            the line number.

    Example:
        ```python
        parse("1 Mary went to the kitchen.\n2 Where is Mary?\tkitchen\t1")
        ```
    """
    if isinstance(lines, str):
        lines = lines.splitlines()
    examples: list[Example] = []
    story: list[tuple[str, ...]] = []
    positions: dict[int, int] = {}  # line number: index into the story
    previous = 0
    for count, line in enumerate(lines, 1):
        if not line.strip():
            continue
        where = f"{source}, line {count}"
        number, text = _split_number(line, where)
        if number == 1:
            story, positions = [], {}
        elif number != previous + 1:
            next_ = f"{previous + 1}, or 1 for a new story" if previous else "1"
            raise ValueError(
                f"{where}: a line's number must be {next_}. Received: {line.strip()!r}"
            )
        previous = number
        if "\t" in text:
            question, answer, support = _split_question(text, positions, where)
            examples.append(Example(task, tuple(story), question, answer, support))
        else:
            positions[number] = len(story)
            story.append(_split_fact(text, where))
    return examples


def _numbers(task: int | str | Iterable[int]) -> list[int]:
    if isinstance(task, str) and task == "all":
        return list(TASKS)
    numbers: list[int | str] = list(task) if isinstance(task, Iterable) else [task]
    wrong = [n for n in numbers if not isinstance(n, Integral) or n not in TASKS]
    if wrong or not numbers or isinstance(task, str | bool):
        raise ValueError(
            "`task` must be a number from 1 to 20, several of them, or 'all'. "
            f"Received: task={task!r}"
        )
    return [int(number) for number in numbers]


def _member(task: int, split: str, size: str, holdout: bool) -> str:
    """Returns the name of a task's file within the archive's folder."""
    check_choice("split", split, ("train", "valid", "test"))
    check_choice("size", size, ("1k", "10k"))
    suffix = "-10k" if size == "10k" else ""
    if split == "valid" or (split == "train" and holdout):
        return f"en-valid{suffix}/qa{task}_{split}.txt"
    return f"en{suffix}/qa{task}_{TASKS[task]}_{split}.txt"


def _read(path: Path, members: Sequence[str]) -> dict[str, bytes]:
    if path.is_dir():
        roots = (path, path / "tasks_1-20_v1-2")
        candidates = {
            member: [root / member for root in roots if (root / member).is_file()]
            for member in members
        }
        contents = {m: c[0].read_bytes() for m, c in candidates.items() if c}
    else:
        contents = archives.read_members(path, frozenset(members))
    missing = [member for member in members if member not in contents]
    if missing:
        held_out = any(member.startswith("en-valid") for member in missing)
        hint = " Older packings have no en-valid folders at all." if held_out else ""
        raise files.DataNotFoundError(
            f"{path} has no file {', '.join(missing)}.{hint} Choose another `task`, "
            "`split` or `size`, or download the whole archive from "
            f"{_OFFICIAL.url}."
        )
    return contents


def _split_number(line: str, where: str) -> tuple[int, str]:
    number, _, text = line.strip(" \r\n").partition(" ")
    index = files.whole_number(number)
    if index is None or not text.strip():
        raise ValueError(
            f"{where}: a line must be a number, a space and a sentence. "
            f"Received: {line.strip()!r}"
        )
    return index, text


def _split_fact(text: str, where: str) -> tuple[str, ...]:
    words = _tokenize(text)
    if not words:
        raise ValueError(f"{where}: a sentence has no words. Received: {text!r}")
    if text.rstrip().endswith("?"):
        raise ValueError(
            f"{where}: a question must be followed by a tab and its answer. "
            f"Received: {text!r}"
        )
    return words


def _split_question(
    text: str, positions: Mapping[int, int], where: str
) -> tuple[tuple[str, ...], str, tuple[int, ...]]:
    question, answer, *facts = (field.strip() for field in text.split("\t"))
    words, answers = _tokenize(question), _tokenize(answer)
    if not words or len(answers) != 1 or len(facts) > 1:
        raise ValueError(
            f"{where}: a question must be followed by a tab, an answer of one word, "
            "and at most one more tab with the numbers of its supporting lines. "
            f"Received: {text!r}"
        )
    support = []
    for number in facts[0].split() if facts else ():
        line = files.whole_number(number)
        if line is None or line not in positions:
            raise ValueError(
                f"{where}: a supporting line must be the number of a fact told "
                f"before in this story. Received: {number!r}"
            )
        support.append(positions[line])
    return words, answers[0], tuple(support)
