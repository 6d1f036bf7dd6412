"""Transformers."""

from keras_attention.models.transformer.causal_lm import CausalLM
from keras_attention.models.transformer.masked_lm import MaskedLM
from keras_attention.models.transformer.packed import PackedModel
from keras_attention.models.transformer.transformer import Transformer
from keras_attention.models.transformer.transformer_classifier import (
    TransformerClassifier,
)
from keras_attention.models.transformer.universal_transformer import (
    UniversalTransformer,
)

__all__ = [
    "CausalLM",
    "MaskedLM",
    "PackedModel",
    "Transformer",
    "TransformerClassifier",
    "UniversalTransformer",
]
