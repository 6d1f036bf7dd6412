"""What `export_generation` refuses; tests/interop exports and runs the files."""

import keras
import numpy as np
import pytest
from calling import few_compiled

from keras_attention.models import CausalLM, Seq2Seq, Transformer, WordRNN
from keras_attention.samplers import BeamSampler

SMALL = {"num_layers": 1, "dim": 4, "num_heads": 2, "intermediate_dim": 3}


@pytest.mark.backends("all")
def test_what_cannot_be_exported(tmp_path):
    writer = Seq2Seq(11, 13, embedding_dim=4, units=5)
    speaker = WordRNN(11, embedding_dim=4, units=5)
    learned = Transformer(11, 13, **SMALL, position="learned")
    cases = [
        (writer, {"sampler": lambda *_: None}, "one of `keras_attention.samplers`"),
        (writer, {"sampler": "best"}, "Received: sampler='best'"),
        (
            speaker,
            {"sampler": BeamSampler(2, return_all_beams=True)},
            "one sequence for each input. Received: a BeamSampler",
        ),
        (writer, {"max_length": 0}, "at least 1.* max_length=0"),
        (writer, {"start_token_id": 13}, "start_token_id=13, a vocabulary of 13"),
        (speaker, {"stop_token_ids": 11}, "stop_token_ids.* a vocabulary of 11"),
        (learned, {"max_length": 1025}, "max_length=1025, 1024 positions"),
        (
            CausalLM(11, **SMALL, max_length=8),
            {"max_length": 8},
            "max_length=8, 8 positions",
        ),
    ]
    backend = keras.config.backend()
    if backend != "tensorflow":
        cases.append((speaker, {"sampler": "random"}, f"the backend {backend!r}"))
    if backend not in ("tensorflow", "jax"):
        cases.append((writer, {}, rf"load_model.*the backend {backend!r}"))
    for model, options, message in cases:
        with pytest.raises(ValueError, match=message):
            model.export_generation(tmp_path / "no", **options)
    assert not (tmp_path / "no").exists()


@pytest.mark.backends("tensorflow", reason="it writes SavedModels")
@few_compiled("pad", [3, None])
def test_padding_of_ones_own(tmp_path, pad):
    import tensorflow as tf

    keras.utils.set_random_seed(0)
    model = CausalLM(11, **SMALL, max_length=16, pad_token_id=pad)
    for weight in model.trainable_weights:  # large, for answers that differ
        weight.assign(keras.random.normal(weight.shape, stddev=1.5, seed=1))
    last = (3, 3) if pad == 3 else (0, 2)
    prompts = np.array([[5, 0, 7, 2], [8, 6, *last]], "int32")
    free = model.generate(prompts, 7)
    stop = int(free[0, 2])  # the first row ends within the text
    model.export_generation(tmp_path / "file", max_length=7, stop_token_ids=stop)
    served = tf.saved_model.load(tmp_path / "file")
    found = served.serve(tf.constant(prompts)).numpy()
    expected = model.generate(prompts, 7, stop_token_ids=stop)
    np.testing.assert_array_equal(found, expected)
    assert (found[0, 3:] == (stop if pad is None else pad)).all()
