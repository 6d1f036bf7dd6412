"""Models: `keras.Model` subclasses put together from layers."""

from keras_attention.models.image_captioner import ImageCaptioner
from keras_attention.models.key_value import KeyValueMemNN
from keras_attention.models.memn2n import MemN2N
from keras_attention.models.memnn import MemNN
from keras_attention.models.seq2seq import Seq2Seq

__all__ = ["ImageCaptioner", "KeyValueMemNN", "MemN2N", "MemNN", "Seq2Seq"]
