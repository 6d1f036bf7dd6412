"""Small trained networks, their preprocessors and cards.

Modules are imported when their names are used: the preprocessors need the data sets.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from keras_attention.models.base.preset_folder import Preprocessor, write
    from keras_attention.presets.cards import card, load, names
    from keras_attention.presets.preprocessors import (
        BlankPreprocessor,
        CaptionPreprocessor,
        CharacterPreprocessor,
        ClassificationPreprocessor,
        CompletionPreprocessor,
        FactPreprocessor,
        RoutePreprocessor,
        StoryPreprocessor,
        TranslationPreprocessor,
    )
    from keras_attention.user_warnings import UntrainedInputWarning

_MODULES = {
    **dict.fromkeys(
        ("Preprocessor", "write"), "keras_attention.models.base.preset_folder"
    ),
    "UntrainedInputWarning": "keras_attention.user_warnings",
    **dict.fromkeys(("card", "load", "names"), "keras_attention.presets.cards"),
}

__all__ = [
    "BlankPreprocessor",
    "CaptionPreprocessor",
    "CharacterPreprocessor",
    "ClassificationPreprocessor",
    "CompletionPreprocessor",
    "FactPreprocessor",
    "Preprocessor",
    "RoutePreprocessor",
    "StoryPreprocessor",
    "TranslationPreprocessor",
    "UntrainedInputWarning",
    "card",
    "load",
    "names",
    "write",
]
__dir__ = __all__.copy


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = _MODULES.get(name, "keras_attention.presets.preprocessors")
    return getattr(importlib.import_module(module), name)
