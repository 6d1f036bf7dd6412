"""Recurrent networks with attention."""

from keras_attention.models.recurrent.image_captioner import ImageCaptioner
from keras_attention.models.recurrent.seq2seq import Seq2Seq
from keras_attention.models.recurrent.word_rnn import WordRNN

__all__ = ["ImageCaptioner", "Seq2Seq", "WordRNN"]
