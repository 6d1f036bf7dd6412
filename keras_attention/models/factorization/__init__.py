"""Models that learn vectors of words, users and items from dot products."""

from keras_attention.models.factorization.attentive_factorization import (
    AttentiveFactorization,
)
from keras_attention.models.factorization.matrix_factorization import (
    MatrixFactorization,
)
from keras_attention.models.factorization.skip_gram import SkipGram

__all__ = ["AttentiveFactorization", "MatrixFactorization", "SkipGram"]
