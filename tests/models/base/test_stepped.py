"""Stepped equals whole: each attention in each model that generates, in each window.

`begin` and `next`, in a compiled loop as in `generate`, give the logits that a call
with all tokens gives, or the attention is refused with a reason. A few cells run in the
ring `first`; the ring `release` runs all. As a script, this file prints a table of the
largest differences:

    KERAS_BACKEND=jax PYTHONPATH=tests python tests/models/base/test_stepped.py
"""

import keras
import numpy as np
import pytest
from compositions import ATTENTIONS, LENGTH, START, K
from gradients import to_numpy
from keras import ops

from keras_attention import layers, models
from keras_attention.ops.sequence import decoding

B, T, S = 2, 11, LENGTH  # samples, tokens of a target, tokens of a source
D = 6  # a width that each attention takes
PROMPTS = np.array([4, 2])  # tokens of each prompt
CLOSE = 1e-5
# The first window is none, the last one is longer than all sequences.
WINDOWS = (None, 1, 2, 3, 5, 8, 64)
WINDOWED = (
    "multi_head",
    "rotary",
    "grouped",
    "keras_multi_head",
    "keras_grouped",
)
STATEFUL = "cannot attend to its own inputs step by step"
REFUSED = {
    ("CausalLM", "local-m"): STATEFUL,
    ("CausalLM", "monotonic"): STATEFUL,
    ("Transformer", "local-m"): STATEFUL,
    ("Transformer", "monotonic"): STATEFUL,
    ("CausalLM", "location"): "`attention` must not use the positions of keys",
}
TOKENS = np.random.default_rng(8).integers(3, K, (B, T)).astype("int32")
TOKENS[:, 0] = START
SOURCE = np.random.default_rng(9).integers(3, K, (B, S)).astype("int32")
SOURCE[1, 4:] = 0


def of(name, window=None):
    """A new attention."""
    return ATTENTIONS[name](**({} if window is None else {"sliding_window": window}))


def causal_lm(name, window):
    model = models.CausalLM(K, 2, D, intermediate_dim=5, attention=of(name, window))
    return model, {"tokens": TOKENS}


def transformer(name, window):
    """With this attention to the target and to the source."""
    parts = {"attention": of(name, window), "cross_attention": of(name, window)}
    model = models.Transformer(K, K, 2, D, intermediate_dim=5, dropout=0, **parts)
    return model, {"source": SOURCE, "target": TOKENS}


def transformer_source(name, window):
    """With this attention to the source alone."""
    parts = {"attention": layers.Attention(), "cross_attention": of(name, window)}
    model = models.Transformer(K, K, 2, D, intermediate_dim=5, dropout=0, **parts)
    return model, {"source": SOURCE, "target": TOKENS}


def seq2seq(name, window):
    sizes = {"embedding_dim": 3, "units": D, "bidirectional": False}
    model = models.Seq2Seq(K, K, attention=of(name, window), **sizes)
    return model, {"source": SOURCE, "target": TOKENS}


MODELS = {
    "CausalLM": causal_lm,
    "Transformer": transformer,
    "Transformer, source": transformer_source,
    "Seq2Seq": seq2seq,
}
CELLS = [
    (model, name, window)
    for model in MODELS
    for name in ATTENTIONS
    for window in WINDOWS
    if window is None or name in WINDOWED
]


def stepped(model, inputs, prompt, first):
    """The logits (B, ·, V) of the tokens from `first` on, each from a step."""
    stop = prompt.shape[1]

    def run(inputs, prompt):
        cache, static, _ = model._begin(inputs, stop)

        def step(index, state):
            cache, written = state
            logits, _, cache = model.next(prompt, cache, index, static)
            return cache, decoding.write(written, index, logits)

        written = ops.zeros((B, stop, K))
        return decoding.generate(step, (cache, written), first, stop)[1]

    return to_numpy(model._programs("stepped", run, inputs, prompt))[:, first:]


def difference(model, name, window=None):
    """The largest difference of a logit between steps and the whole, in a new model."""
    keras.utils.set_random_seed(1)
    made, inputs = MODELS[model](name, window)
    whole = to_numpy(made.predict(inputs, verbose=0))  # (B, T, V)
    if model == "CausalLM":
        first = PROMPTS.max()
        prompt = np.zeros((B, T), "int32")
        for row, tokens, gap in zip(prompt, TOKENS, first - PROMPTS):
            row[gap:] = tokens[: T - gap]
        tokens = np.where(np.arange(first) < PROMPTS[:, None], TOKENS[:, :first], 0)
        start = {"tokens": tokens, "length": PROMPTS.astype("int32")}
        found = stepped(made, start, prompt, int(first))
        whole = [x[n - 1 :][: T - first] for x, n in zip(whole, PROMPTS)]
    else:
        found = stepped(made, {"source": SOURCE}, TOKENS, 1)
        whole = whole[:, :-1]
    assert np.abs(whole).max() > 0.01
    return np.abs(found - whole).max()


def release(model, name, window):
    """Whether the first ring leaves a cell out."""
    kept = (
        ("CausalLM", "keras_grouped", 3),
        ("Transformer, source", "keras_multi_head", 2),
    )
    return (model, name, window) not in (*kept, ("Seq2Seq", "keras_multi_head", 3))


@pytest.mark.backends("all")
@pytest.mark.parametrize(
    ("model", "name", "window"),
    [
        pytest.param(*cell, marks=pytest.mark.release if release(*cell) else ())
        for cell in CELLS
    ],
)
def test_stepped_equals_whole(model, name, window):
    if (model, name) in REFUSED:
        with pytest.raises(ValueError, match=REFUSED[model, name]):
            difference(model, name, window)
    else:
        assert difference(model, name, window) <= CLOSE


def main():
    for model, name, window in CELLS:
        try:
            figure = f"{difference(model, name, window):.1e}"
        except ValueError as error:
            figure = f"refused: {error}"[:140]
        print(keras.config.backend(), model, name, window, figure, sep="\t", flush=True)


if __name__ == "__main__":
    main()
