"""What test_keras_hub.py has done on one backend: samplers and models, both ways."""

import sys
import tempfile

import keras
import keras_hub
import numpy as np
import pytest
from keras import ops

from keras_attention import samplers
from keras_attention.models import CausalLM, MaskedLM, Seq2Seq
from keras_attention.ops.sequence import decoding

V, START, END = 29, 2, 3


class Recurrent(keras.Model):
    """A cell over words, with KerasHub's protocol; its cache is a structure."""

    def __init__(self):
        super().__init__()
        self.embedding = keras.layers.Embedding(V, 11)
        self.cell = keras.layers.LSTMCell(13)
        self.dense = keras.layers.Dense(V)
        self.functions = decoding.CompiledFunctions(self)
        self(np.zeros((1, 2), "int32"))
        rng = np.random.default_rng(0)
        self.set_weights([rng.normal(0, 1, w.shape) for w in self.get_weights()])

    def call(self, tokens):
        states = self.begin(tokens)
        for t in range(tokens.shape[1]):
            logits, _, states = self.next(tokens, states, t + 1)
        return logits

    def begin(self, tokens):
        zeros = ops.zeros_like(tokens[:, :1], dtype="float32")
        zeros = ops.repeat(zeros, 13, axis=1)
        return (zeros, zeros)

    def next(self, prompt, cache, index):
        words = self.embedding(ops.take(prompt, index - 1, axis=1))
        hidden, states = self.cell(words, list(cache))
        return self.dense(hidden), hidden, tuple(states)

    def generate(self, sampler, tokens, stop, **kwargs):
        def decode(tokens):
            return sampler(
                self.next,
                tokens,
                cache=self.begin(tokens),
                index=1,
                stop_token_ids=stop,
                mask=ops.zeros_like(tokens, dtype="bool"),
                model=self,
            )

        variables = sampler.variables
        out = self.functions((sampler, stop), decode, tokens, variables=variables)
        return ops.convert_to_numpy(out)


def cut(rows, given=1):
    """Each row up to the first stop token behind what was given."""
    for row in rows:
        row = [int(word) for word in row]
        rest = row[given:]
        yield row[: given + rest.index(END) + 1] if END in rest else row


def their_samplers_drive_our_steps():
    model, theirs = Recurrent(), keras_hub.samplers
    tokens = np.zeros((5, 12), "int32")
    tokens[:, 0] = np.arange(5) + 4
    for stop in (None, (END,)):
        expected = model.generate(samplers.GreedySampler(), tokens, stop)
        assert len({tuple(row[1:]) for row in expected}) > 1
        for sampler in (theirs.GreedySampler(), theirs.TopKSampler(k=1)):
            found = model.generate(sampler, tokens, stop)
            assert list(cut(found)) == list(cut(expected))
    # Without a stop token both searches are the plain one.
    expected = model.generate(samplers.BeamSampler(4), tokens, None)
    found = model.generate(theirs.BeamSampler(4), tokens, None)
    np.testing.assert_array_equal(found, expected)
    sampler = theirs.TopKSampler(k=3, seed=1)
    one, two = (model.generate(sampler, tokens, None) for _ in range(2))
    assert (one != two).any()


def chances_of(model, source, written):
    """log P of each word (B, T, V) of what was written, with teacher forcing."""
    target = np.pad(written[:, :-1], ((0, 0), (1, 0)), constant_values=START)
    inputs = {"source": source, "target": target.astype("int32")}
    logits = model.predict(inputs, verbose=0).astype("float64")
    logits -= logits.max(-1, keepdims=True)
    return logits - np.log(np.exp(logits).sum(-1, keepdims=True))


def score(chances, written):
    return np.take_along_axis(chances, written[..., None], -1).sum((1, 2))


def their_samplers_drive_seq2seq():
    theirs, rng = keras_hub.samplers, np.random.default_rng(0)
    source = rng.integers(4, V, (5, 7)) * (np.arange(7) < [[7], [3], [7], [5], [1]])
    for attention in ("bahdanau", "luong", None):
        keras.utils.set_random_seed(1)
        model = Seq2Seq(V, V, embedding_dim=11, units=13, attention=attention)
        for weight in model.weights:  # sharper, so that sequences differ
            weight.assign(2.5 * ops.convert_to_tensor(weight))

        def write(sampler, stop=None, length=9, model=model):
            return model.generate(source, length, sampler, START, stop)

        greedy = write("greedy")
        assert len({tuple(row) for row in greedy}) > 1
        np.testing.assert_array_equal(write(theirs.GreedySampler()), greedy)
        np.testing.assert_array_equal(write(theirs.TopKSampler(k=1)), greedy)
        stop = (int(greedy[0, 3]), END)
        ended = write("greedy", stop)
        assert (ended == 0).any()
        np.testing.assert_array_equal(write(theirs.GreedySampler(), stop), ended)
        np.testing.assert_array_equal(
            write(theirs.GreedySampler(), None, 4), greedy[:, :4]
        )

        beam = write(theirs.BeamSampler(4))
        np.testing.assert_array_equal(beam, write(samplers.BeamSampler(4)))
        best = score(chances_of(model, source, beam), beam)
        assert (best >= score(chances_of(model, source, greedy), greedy) - 1e-4).all()
        all_beams, values = write(theirs.BeamSampler(4, return_all_beams=True))
        np.testing.assert_array_equal(all_beams[:, 0], beam)
        np.testing.assert_allclose(values[:, 0], best, rtol=1e-4)

        sampler = theirs.TopKSampler(k=3, seed=1)
        one, two = write(sampler), write(sampler)
        assert (one != two).any()
        for written in (one, two):
            chances = chances_of(model, source, written)
            third = np.sort(chances, axis=-1)[..., -3]
            chosen = np.take_along_axis(chances, written[..., None], -1)[..., 0]
            assert (chosen >= third - 1e-5).all()


def their_samplers_drive_causal_lm():
    sizes = {"num_layers": 2, "dim": 8, "num_heads": 4, "intermediate_dim": 12}
    model = CausalLM(V, **sizes, max_length=29, position="rotary")
    rng = np.random.default_rng(2)
    model.set_weights([rng.normal(0, 0.7, w.shape) for w in model.get_weights()])
    prompts = [[5, 6, 7], [8], [9, 3, 4, 5, 6, 7, 8, 9, 10, 11]]
    for theirs, ours in (
        (keras_hub.samplers.GreedySampler(), "greedy"),
        (keras_hub.samplers.BeamSampler(num_beams=3), samplers.BeamSampler(3)),
    ):
        found = model.generate(prompts, 9, theirs, num_sequences=2)
        expected = model.generate(prompts, 9, ours, num_sequences=2)
        np.testing.assert_array_equal(found, expected)


def our_samplers_drive_their_model():
    keras.utils.set_random_seed(0)
    backbone = keras_hub.models.GPT2Backbone(
        vocabulary_size=V,
        num_layers=2,
        num_heads=2,
        hidden_dim=16,
        intermediate_dim=24,
        max_sequence_length=24,
    )
    rng = np.random.default_rng(1)
    backbone.set_weights([rng.normal(0, 0.7, w.shape) for w in backbone.get_weights()])
    model = keras_hub.models.GPT2CausalLM(backbone, preprocessor=None)
    given = np.arange(17) < np.array([[2], [5], [3]])
    inputs = {"token_ids": rng.integers(4, V, (3, 17)) * given, "padding_mask": given}

    def generate(sampler, stop=None):
        model.compile(sampler=sampler)
        out = model.generate(dict(inputs), stop_token_ids=stop)
        return np.asarray(out["token_ids"])

    expected = generate("greedy")
    assert (expected == inputs["token_ids"])[given].all()
    np.testing.assert_array_equal(generate(samplers.GreedySampler()), expected)
    np.testing.assert_array_equal(generate(samplers.BeamSampler(1)), expected)
    np.testing.assert_array_equal(generate(samplers.TopKSampler(1, seed=0)), expected)
    np.testing.assert_array_equal(generate(samplers.TopPSampler(1e-6)), expected)
    stop = (int(expected[0, 4]), END)
    theirs = generate("greedy", stop)
    ours = generate(samplers.GreedySampler(), stop)
    for mine, other, mask in zip(ours, theirs, given):
        rest = np.flatnonzero(np.isin(other, stop) & ~mask)
        end = rest[0] + 1 if len(rest) else len(other)
        np.testing.assert_array_equal(mine[:end], other[:end])
        assert not mine[end:].any()  # as the prompt was

    # Prompts of one length: theirs let beams grow where a token is given.
    inputs["padding_mask"] = given = np.repeat(np.arange(17)[None] < 2, 3, axis=0)
    inputs["token_ids"] = inputs["token_ids"] * given
    beams = generate(samplers.BeamSampler(4))
    np.testing.assert_array_equal(beams, generate(keras_hub.samplers.BeamSampler(4)))
    sampler = samplers.RandomSampler(2.0, seed=3)
    model.compile(sampler=sampler)
    one, two = (
        np.asarray(model.generate(dict(inputs), stop_token_ids=None)["token_ids"])
        for _ in range(2)
    )
    assert (one != two).any()
    np.testing.assert_array_equal(one, generate(samplers.RandomSampler(2.0, seed=3)))


def random_weights(model):
    rng = np.random.default_rng(3)
    model.set_weights(
        [rng.normal(0.5 * (w.ndim == 1), 0.5, w.shape) for w in model.get_weights()]
    )


def our_models_read_their_weights():
    sizes = {
        **{"vocabulary_size": V, "num_layers": 2, "num_heads": 2, "hidden_dim": 8},
        **{"intermediate_dim": 12, "max_sequence_length": 13},
    }
    rng = np.random.default_rng(4)
    tokens = rng.integers(0, V, (3, 11))
    given = np.ones_like(tokens)
    backbone = keras_hub.models.GPT2Backbone(**sizes)
    theirs = keras_hub.models.GPT2CausalLM(backbone, preprocessor=None)
    random_weights(theirs)
    expected = theirs({"token_ids": tokens, "padding_mask": given})
    for saved in (backbone, theirs):
        with tempfile.TemporaryDirectory() as folder:
            saved.save_to_preset(folder)
            ours = CausalLM.from_gpt2(folder)
        near(ours({"tokens": tokens}), expected)

    tokens = rng.integers(1, V, (3, 11)) * (np.arange(11) < [[11], [7], [3]])
    backbone = keras_hub.models.BertBackbone(**sizes)
    theirs = keras_hub.models.BertMaskedLM(backbone, preprocessor=None)
    random_weights(theirs)
    inputs = {
        "token_ids": tokens,
        "padding_mask": (tokens != 0).astype("int32"),
        "segment_ids": np.zeros_like(tokens),
        "mask_positions": np.tile(np.arange(3), (3, 1)),
    }
    expected = theirs(inputs)
    with tempfile.TemporaryDirectory() as folder:
        theirs.save_to_preset(folder)
        ours = MaskedLM.from_bert(folder)
        file = f"{folder}/model.keras"
        ours.save(file)
        loaded = keras.saving.load_model(file)
    own = {"tokens": tokens, "mask_positions": inputs["mask_positions"]}
    near(ours(own), expected)
    near(loaded(own), expected)

    with tempfile.TemporaryDirectory() as folder:
        backbone.save_to_preset(folder)
        with pytest.raises(ValueError, match="`new_head` must be True"):
            MaskedLM.from_bert(folder)
        ours = MaskedLM.from_bert(folder, new_head=True)
    expected = backbone({k: v for k, v in inputs.items() if k != "mask_positions"})
    last = ours.get_layer("block_1").output
    found = keras.Model(ours.input, last)(own)
    mask = tokens != 0
    expected = ops.convert_to_numpy(expected["sequence_output"])
    near(ops.convert_to_numpy(found)[mask], expected[mask])


def near(found, expected):
    np.testing.assert_allclose(
        ops.convert_to_numpy(found), ops.convert_to_numpy(expected), rtol=0, atol=1e-5
    )


if __name__ == "__main__":
    if "transformers" in sys.argv:
        import transformers_worker

        transformers_worker.our_models_read_weights_of_transformers()
    our_models_read_their_weights()
    their_samplers_drive_our_steps()
    their_samplers_drive_seq2seq()
    their_samplers_drive_causal_lm()
    our_samplers_drive_their_model()
