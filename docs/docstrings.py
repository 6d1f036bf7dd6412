"""Lets mkdocstrings read what Google's style has no section for.

In the docstrings, as in those of Keras, "Call arguments:" lists the arguments of
`call`, the lines of an "Example:" are not indented, and a class has "Returns:".
"""

import re
import textwrap

import griffe

_SECTION = r"(?:Args|Call arguments|Returns|Raises|Masking|References?|Output shape):"
_EXAMPLE = re.compile(rf"^Example:\n\n(?=>>>)(.*?)(?=^{_SECTION}|\Z)", re.M | re.S)
_TEXT = r"^({}):\n((?:    .*(?:\n|\Z)|\n)+)"
_OF_ALL = re.compile(_TEXT.format("Masking|References?|Output shape"), re.M)
_OF_CLASSES = re.compile(_TEXT.format("Returns"), re.M)


def readable(text, is_class=False):
    """The docstring in sections that griffe knows, the others as plain text."""
    text = re.sub(r":(?:func|class|mod|meth):(?=`)", "", text)
    text = re.sub(
        r"^Call arguments:$", "Other Parameters: Call arguments:", text, flags=re.M
    )
    text = _EXAMPLE.sub(
        lambda example: "Examples:\n" + textwrap.indent(example[1], "    "), text
    )
    text = re.sub(r"^Example:$", "Examples:", text, flags=re.M)
    text = _OF_ALL.sub(_as_text, text)
    return _OF_CLASSES.sub(_as_text, text) if is_class else text


def _as_text(section):
    return f"**{section[1]}:**\n\n{textwrap.dedent(section[2])}"


class ReadableDocstrings(griffe.Extension):
    """Rewrites each docstring before it is parsed."""

    def on_object(self, *, obj, **kwargs):
        """Called for each module, class, function and attribute."""
        if obj.docstring is not None:
            obj.docstring.value = readable(obj.docstring.value, obj.is_class)
