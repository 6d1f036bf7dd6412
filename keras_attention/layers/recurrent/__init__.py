"""Recurrent cells that attend to a memory."""

from keras_attention.layers.recurrent.attention_rnn import AttentionRNN
from keras_attention.layers.recurrent.scheduled_sampling import ScheduledSampling

__all__ = ["AttentionRNN", "ScheduledSampling"]
