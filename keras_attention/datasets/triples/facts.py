"""A fact, on its own since the readers of all formats make facts."""

from typing import NamedTuple


class Fact(NamedTuple):
    """A triple of subject, relation and object, as in the file.

    Attributes:
        subject: The subject entity.
        relation: The relation between subject and object.
        object: The other entity.
    """

    subject: str
    relation: str
    object: str
