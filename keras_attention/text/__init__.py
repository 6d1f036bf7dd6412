"""Vocabularies, names in questions, and strings in and out of models.

The names below that need TensorFlow Text are imported when they are used; see
`keras_attention.text.tensorflow_text`. The others need no backend.

```python
from keras_attention.text import EntityLinker, Vocabulary

vocabulary = Vocabulary.from_sentences(["A dog runs.", "A cat."])
vocabulary.encode("A dog.")                # [5, 7, 4]
EntityLinker(["Heat", "Ali"]).link("who directed heat").entity  # "Heat"
```
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from keras_attention.text.entity_linker import (
    AmbiguousEntityError,
    EntityLinker,
    Link,
    UnknownEntityError,
)
from keras_attention.text.packing import PackedTexts, pack
from keras_attention.text.questions import ENTITY
from keras_attention.text.vocabulary import Vocabulary, tokenize

if TYPE_CHECKING:
    from keras_attention.text.tensorflow_text import (
        Subwords,
        TokenMasking,
        complete,
        export_completer,
        export_translator,
        translate,
    )

__all__ = [
    "ENTITY",
    "AmbiguousEntityError",
    "EntityLinker",
    "Link",
    "PackedTexts",
    "Subwords",
    "TokenMasking",
    "UnknownEntityError",
    "Vocabulary",
    "complete",
    "export_completer",
    "export_translator",
    "pack",
    "tokenize",
    "translate",
]
__dir__ = __all__.copy


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from keras_attention.text import tensorflow_text

    return getattr(tensorflow_text, name)
