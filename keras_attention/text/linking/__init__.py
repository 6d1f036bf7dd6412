"""Finds the entity that a question is about."""

from keras_attention.text.linking.entity_linker import (
    AmbiguousEntityError,
    EntityLinker,
    Link,
    UnknownEntityError,
)
from keras_attention.text.linking.mentions import ENTITY

__all__ = [
    "ENTITY",
    "AmbiguousEntityError",
    "EntityLinker",
    "Link",
    "UnknownEntityError",
]
