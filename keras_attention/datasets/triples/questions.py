"""Questions about the entities of a knowledge base, with the MetaQA loader."""

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from keras_attention.datasets import files
from keras_attention.datasets.choices import check_choice
from keras_attention.datasets.triples.knowledge import Fact, load

METAQA = "https://github.com/yuyuz/MetaQA"


@dataclass(frozen=True, slots=True)
class Question:
    """A question and its answers.

    Attributes:
        text: The question as written. Brackets may mark its entity, as in
            `"who directed [Heat]"`.
        answers: The names of all correct answers; empty if unknown, for example for a
            user's own question.
    """

    text: str
    answers: tuple[str, ...] = ()


def parse_questions(
    lines: str | Iterable[str], source: str = "<text>"
) -> list[Question]:
    r"""Parses MetaQA's format: a question, a tab, and answers separated by `|`.

    Args:
        lines: The text or its lines; empty lines are skipped.
        source: The name of the text in error messages, for example its file name.

    Raises:
        ValueError: A line does not follow the format; the message gives `source` and
            the line number.

    Example:
        ```python
        parse_questions("who acted in [Heat]\tAl Pacino|Robert De Niro")
        ```
    """
    if isinstance(lines, str):
        lines = lines.split("\n")
    questions = []
    for count, line in enumerate(lines, 1):
        if not line.strip():
            continue
        text, _, listed = line.partition("\t")
        answers = tuple(answer.strip() for answer in listed.split("|"))
        if not text.strip() or not all(answers) or "\t" in listed:
            raise ValueError(
                f"{source}, line {count}: a line must be a question, a tab and its "
                f"answers with '|' between them. Received: {line.strip()!r}"
            )
        questions.append(Question(text.strip(), answers))
    return questions


def load_questions(path: str | os.PathLike[str]) -> list[Question]:
    """Reads questions in MetaQA's format from a plain or gzipped UTF-8 file.

    Raises:
        ValueError: A line does not follow the format or is not UTF-8; the message gives
            the file and the line.
        DataNotFoundError: No such file.
        DamagedDataError: A gzipped file is truncated or altered.
    """
    return parse_questions(files.read_text(path), str(path))


def load_metaqa(hops: int = 1, split: str = "test") -> list[Question]:
    """Loads MetaQA's "vanilla" text questions with one, two or three hops.

    The loader searches `kb/metaqa` in the folder named by `KERAS_ATTENTION_DATA`, then
    `metaqa` in Keras' cache. It cannot download the files, since the authors offer no
    direct URL.

    Args:
        hops: 1, 2 or 3.
        split: `"train"`, `"dev"` or `"test"`.

    Raises:
        ValueError: Unknown `hops` or `split`, or a line does not follow the format.
        DataNotFoundError: The file is missing; the message names what to download by
            hand.

    Reference:
        Zhang, Dai, Kozareva, Smola & Song, "Variational reasoning for question
        answering with knowledge graph" (2018).
    """
    check_choice("hops", hops, (1, 2, 3))
    check_choice("split", split, ("train", "dev", "test"))
    names = (f"{hops}-hop/vanilla/qa_{split}.txt", f"{hops}-hop_{split}.txt.gz")
    return load_questions(_at_hand(names))


def load_metaqa_facts() -> list[Fact]:
    """Loads the WikiMovies knowledge base, which MetaQA's questions use.

    The loader searches the same folders as `load_metaqa` for the authors' `kb.txt`
    (134,741 facts), then for `kb_reconstructed.txt.gz`, which holds the facts that are
    available elsewhere.

    Raises:
        ValueError: A line is not a fact; the message gives the file and the line.
        DataNotFoundError: The file is missing; the message names what to download by
            hand.
    """
    return load(_at_hand(("kb.txt", "kb_reconstructed.txt.gz")))


def _at_hand(names: tuple[str, ...]) -> Path:
    """Returns the first file of `names` in the data folder or in Keras' cache."""
    folders = [files.cache_folder() / "metaqa"]
    data = os.environ.get(files.DATA_VARIABLE)
    if data:
        folders.insert(0, Path(data) / "kb" / "metaqa")
    paths = [folder / name for folder in folders for name in names]
    for path in paths:
        if path.is_file():
            return path
    tried = [f"There is no file {path}." for path in paths]
    if not data:
        tried.insert(0, f"The environment variable {files.DATA_VARIABLE} is not set.")
    steps = "\n".join(f"  {i}. {step}" for i, step in enumerate(tried, 1))
    raise files.DataNotFoundError(
        f"MetaQA's {names[0]} could not be had. What was tried:\n{steps}\n"
        f"Next: download MetaQA by hand from the folder that {METAQA} links to, and "
        f"put {names[0]} at {paths[0]}, or into the folder kb/metaqa of a folder named "
        f"by the environment variable {files.DATA_VARIABLE}.",
        tried=tried,
    )
