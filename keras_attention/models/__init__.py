"""Models: `keras.Model` subclasses put together from layers."""

from keras_attention.models.associative_memory import AssociativeMemory
from keras_attention.models.associative_steps import Trajectory
from keras_attention.models.attentive_factorization import AttentiveFactorization
from keras_attention.models.causal_lm import CausalLM
from keras_attention.models.dnc_network import DNCNetwork
from keras_attention.models.hopfield_classifier import HopfieldClassifier
from keras_attention.models.image_captioner import ImageCaptioner
from keras_attention.models.key_value import KeyValueMemNN
from keras_attention.models.masked_lm import MaskedLM
from keras_attention.models.matrix_factorization import MatrixFactorization
from keras_attention.models.memn2n import MemN2N
from keras_attention.models.memnn import MemNN
from keras_attention.models.seq2seq import Seq2Seq
from keras_attention.models.skip_gram import SkipGram
from keras_attention.models.transformer import Transformer
from keras_attention.models.transformer_classifier import TransformerClassifier
from keras_attention.models.word_rnn import WordRNN

__all__ = [
    "AssociativeMemory",
    "AttentiveFactorization",
    "CausalLM",
    "DNCNetwork",
    "HopfieldClassifier",
    "ImageCaptioner",
    "KeyValueMemNN",
    "MaskedLM",
    "MatrixFactorization",
    "MemN2N",
    "MemNN",
    "Seq2Seq",
    "SkipGram",
    "Trajectory",
    "Transformer",
    "TransformerClassifier",
    "WordRNN",
]
