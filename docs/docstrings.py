"""Lets mkdocstrings read what Google's style has no section for.

In the docstrings, as in those of Keras, "Call arguments:" lists the arguments of
`call`, the lines of an "Example:" are not indented, and a class has "Returns:". What a
call takes and returns becomes a table, which stands before the arguments of the class.
"""

import re
import textwrap

import griffe

_SECTION = r"(?:Args|Call arguments|Returns|Raises|Masking|References?|Output shape):"
_EXAMPLE = re.compile(rf"^Example:\n\n(?=>>>)(.*?)(?=^{_SECTION}|\Z)", re.M | re.S)
_TEXT = r"^({}):\n((?:    .*(?:\n|\Z)|\n)+)"
_OF_ALL = re.compile(_TEXT.format("Masking|References?|Output shape"), re.M)
_OF_CLASSES = re.compile(_TEXT.format("Returns"), re.M)
_CALL = re.compile(
    r"^(Call arguments:|Returns:|Output shape:|Inputs: a dict.*\bof)\n"
    r"((?:    .*(?:\n|\Z)|\n)+)",
    re.M,
)
_ARGUMENT = re.compile(r"^(\w+): ", re.M)


def readable(text, is_class=False):
    """The docstring in sections that griffe knows, the others as plain text."""
    text = re.sub(r":(?:func|class|mod|meth):(?=`)", "", text)
    if is_class and re.search(r"^(?:Call arguments:|Inputs: a dict.* of)$", text, re.M):
        text = _with_table(text)
    text = re.sub(r"^Args:$", "Args: Arguments:", text, flags=re.M)
    text = _EXAMPLE.sub(
        lambda example: "Examples:\n" + textwrap.indent(example[1], "    "), text
    )
    text = re.sub(r"^Example:$", "Examples:", text, flags=re.M)
    text = _OF_ALL.sub(_as_text, text)
    return _OF_CLASSES.sub(_as_text, text) if is_class else text


def _as_text(section):
    return f"**{section[1]}:**\n\n{textwrap.dedent(section[2])}"


def _with_table(text):
    """Puts the sections about a call below the first line, as a table."""
    rows = []
    for section in _CALL.finditer(text):
        body = textwrap.dedent(section[2])
        head = section[1]
        if head in ("Returns:", "Output shape:"):
            rows.append((head.lower().rstrip(":"), body))
            continue
        if head.startswith("Inputs"):
            rows.append(("`inputs`", head.removeprefix("Inputs: ") + ":"))
        names = _ARGUMENT.split(body)[1:]
        rows += [(f"`{name}`", what) for name, what in zip(names[::2], names[1::2])]
    cells = (f"| {name} | {_cell(what)} |" for name, what in rows)
    table = "\n".join(("| call argument | shape and meaning |", "|---|---|", *cells))
    first, _, remainder = _CALL.sub("", text).partition("\n\n")
    return f"{first}\n\n{table}\n\n{remainder}"


def _cell(text):
    return " ".join(text.split()).replace("|", "\\|")


class ReadableDocstrings(griffe.Extension):
    """Rewrites each docstring before it is parsed."""

    def on_object(self, *, obj, **kwargs):
        """Called for each module, class, function and attribute."""
        if obj.docstring is not None:
            obj.docstring.value = readable(obj.docstring.value, obj.is_class)
