"""Models: `keras.Model` subclasses put together from layers."""

from keras_attention.models.base import CandidateIndex, RecordedModel, VectorIndex
from keras_attention.models.external_memory import DNCNetwork
from keras_attention.models.factorization import (
    AttentiveFactorization,
    MatrixFactorization,
    SkipGram,
)
from keras_attention.models.hopfield import (
    AssociativeMemory,
    HopfieldClassifier,
    Trajectory,
)
from keras_attention.models.memory_networks import (
    Answers,
    ClusterHash,
    HopAnswers,
    HopReader,
    KeyValueMemNN,
    LargeMemory,
    MemN2N,
    MemNN,
    WordHash,
)
from keras_attention.models.recurrent import ImageCaptioner, Seq2Seq, WordRNN
from keras_attention.models.transformer import (
    CausalLM,
    MaskedLM,
    PackedModel,
    Transformer,
    TransformerClassifier,
    UniversalTransformer,
)

__all__ = [
    "Answers",
    "AssociativeMemory",
    "AttentiveFactorization",
    "CandidateIndex",
    "CausalLM",
    "ClusterHash",
    "DNCNetwork",
    "HopAnswers",
    "HopReader",
    "HopfieldClassifier",
    "ImageCaptioner",
    "KeyValueMemNN",
    "LargeMemory",
    "MaskedLM",
    "MatrixFactorization",
    "MemN2N",
    "MemNN",
    "PackedModel",
    "RecordedModel",
    "Seq2Seq",
    "SkipGram",
    "Trajectory",
    "Transformer",
    "TransformerClassifier",
    "UniversalTransformer",
    "VectorIndex",
    "WordHash",
    "WordRNN",
]
__dir__ = __all__.copy
