"""Any attention in any holder: each pair fits, or is refused with a reason.

A cell is an attention in a holder; `compositions.py` makes both. The cells on a
diagonal hold each attention once and each holder three times. torch runs them in the
ring `first`. JAX and TensorFlow run half of them each, since a cell takes seconds to
compile. torch runs the other cells in the ring `all`.
"""

import keras
import numpy as np
import pytest
from calling import ROOT, at_once, needs_training
from compositions import ATTENTIONS, HOLDERS, INPUTS_MASK, LENGTH, START, B, T
from gradients import to_numpy
from keras import ops

from keras_attention import record_attention
from keras_attention.layers.base.adapter import as_attention

pytestmark = needs_training
SELF = ("TransformerEncoderBlock", "TransformerDecoderBlock-self")

# The cells that are refused, and the reason in the message. docs/guides/composing.md
# gives the same reasons.
REFUSED: dict[tuple[str, str], str] = {}
# Those that fit, but cannot go on step by step.
WITHOUT_STEPS = {
    (attention, holder): "cannot attend to its own inputs step by step"
    for attention in ("local-m", "monotonic")
    for holder in SELF
}
MOST = 0.15  # of the cells may be refused, or go without steps
CELLS = [(a, h) for a in ATTENTIONS for h in HOLDERS]


def on_the_diagonal(attention, holder):
    """Whether a cell is compiled: one in each row, three in each column."""
    rows, columns = list(ATTENTIONS), list(HOLDERS)
    return rows.index(attention) % len(columns) == columns.index(holder)


def as_parameter(cell):
    marks = pytest.mark.slow
    if on_the_diagonal(*cell):
        other = ("jax", "tensorflow")[[*ATTENTIONS].index(cell[0]) % 2]
        marks = pytest.mark.backends("all"), pytest.mark.slow_on(other)
    return pytest.param(*cell, id="-in-".join(cell), marks=marks)


def make(attention, holder):
    """A model, and the attention in it."""
    keras.utils.set_random_seed(3)
    asker = ATTENTIONS[attention](name="asker")
    return HOLDERS[holder].make(asker), asker


def predict(model, inputs):
    return model.predict(inputs, verbose=0, batch_size=B)


def assert_close(found, expected):
    np.testing.assert_allclose(
        to_numpy(found), to_numpy(expected), rtol=1e-4, atol=1e-5
    )


def assert_fits(model, asker, holder):
    """One step of `fit`: the loss is a number, and the attention learns."""
    loss = "mse"
    if holder.generates:
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    # The smallest program: with Adam, XLA compiles three times as long.
    model.compile(keras.optimizers.SGD(0.1), loss)
    before = {w.path: to_numpy(w) for w in asker.trainable_weights}
    fitted = model.fit(holder.inputs, holder.labels, batch_size=B, verbose=0)
    assert np.isfinite(fitted.history["loss"]).all()
    for weight in asker.trainable_weights:
        # A number that is added to the scores of all keys changes no softmax.
        if not weight.path.endswith("key/bias"):
            moved = np.abs(to_numpy(weight) - before[weight.path]).max()
            assert moved > 0, f"{weight.path} has not moved"


def assert_saved(model, holder, folder):
    """A file holds the same model, whose class of attention is the user's."""
    model.save(folder / "model.keras")
    loaded = keras.saving.load_model(folder / "model.keras")
    expected = predict(model, holder.inputs)
    assert np.isfinite(expected).all()
    assert_close(at_once(loaded, holder.inputs)[0], expected)
    assert [tuple(w.shape) for w in loaded.weights] == [
        tuple(w.shape) for w in model.weights
    ]
    return expected


def assert_hides(model, holder, expected):
    """What nobody may attend to changes nothing."""
    found = predict(model, holder.changed)
    assert_close(found[holder.compared], expected[holder.compared])


def assert_recorded(model, asker, holder):
    """The map has its shape, 0 where it is masked, and rows that sum to 1 at most."""
    tensors = {k: ops.convert_to_tensor(x) for k, x in holder.inputs.items()}
    with record_attention() as maps:
        model(tensors)
    assert holder.path in maps, f"there are {list(maps)}"
    weights = maps[holder.path]
    is_valid = holder.is_valid(model)
    keys = is_valid.shape[-1]
    assert weights.shape == as_attention(asker).weights_shape(B, T, keys)
    if weights.ndim == 4:
        is_valid = np.expand_dims(is_valid, 1)
    assert not weights[~np.broadcast_to(is_valid, weights.shape)].any()
    assert (weights >= 0).all()
    assert (weights.sum(-1) <= 1 + 1e-5).all()
    assert weights.any()


def assert_generates(model, holder):
    """Greedy decoding step by step is the argmax of teacher forcing."""
    (name,) = set(holder.inputs) - {"target"}
    given = {name: holder.inputs[name]}
    options = {"start_token_id": START, "stop_token_ids": None}
    written = model.generate(given, max_length=T, **options)
    assert written.shape == (B, T)
    target = np.concatenate([np.full((B, 1), START), written[:, :-1]], axis=1)
    logits = predict(model, {**given, "target": target.astype("int32")})
    np.testing.assert_array_equal(written, logits.argmax(-1))


def assert_rnn_steps(rnn, holder, expected):
    """A step at a time, over a memory that is prepared once, is all of them at once."""
    x, memory, mask = map(ops.convert_to_tensor, holder.inputs.values())
    prepared = rnn.prepare(memory, mask=mask)
    state, found = rnn.start(prepared, B), []
    for t in range(T):
        state, seen = rnn.step(x[:, t], state, prepared)
        found.append(to_numpy(rnn.read_out(seen)))
    assert_close(np.stack(found, 1), expected)


def assert_block_steps(block, holder):
    """A prompt, then a position, over a cache: the whole with a causal mask."""
    x, is_valid = map(ops.convert_to_tensor, (holder.inputs["inputs"], INPUTS_MASK))
    if "memory" in holder.inputs:
        memory = [
            ops.convert_to_tensor(holder.inputs[n]) for n in ("memory", "memory_mask")
        ]
        expected = block(x, memory[0], is_valid, memory[1])
        more = [block.prepare(*memory)]
    else:
        expected, more = block(x, mask=is_valid, use_causal_mask=True), []
    cache, found = block.initial_cache(B, LENGTH, *more), []
    for now in (slice(0, 2), slice(2, T)):
        output, cache = block.step(x[:, now], cache, now.start, *more, is_valid[:, now])
        found.append(output)
    found = to_numpy(ops.concatenate(found, axis=1))
    assert_close(found[INPUTS_MASK], to_numpy(expected)[INPUTS_MASK])


@pytest.mark.parametrize(
    ("attention", "holder"), [as_parameter(cell) for cell in CELLS]
)
def test_each_attention_in_each_holder(attention, holder, tmp_path):
    cell, column = (attention, holder), HOLDERS[holder]
    if cell in REFUSED:
        with pytest.raises(ValueError, match=REFUSED[cell]):
            predict(make(attention, holder)[0], column.inputs)
        return
    model, asker = make(attention, holder)
    assert_fits(model, asker, column)
    expected = assert_saved(model, column, tmp_path)
    assert_hides(model, column, expected)
    assert_recorded(model, asker, column)
    if column.generates:
        assert_generates(model, column)
        return
    held = next(x for x in model.layers if x.name in ("decoder", "block"))
    if cell in WITHOUT_STEPS:
        with pytest.raises(ValueError, match=WITHOUT_STEPS[cell]):
            held.initial_cache(B, LENGTH)
    elif held.name == "block":
        assert_block_steps(held, column)
    else:
        assert_rnn_steps(held, column, expected)


def test_few_cells_are_refused():
    incomplete = {*REFUSED, *WITHOUT_STEPS}
    assert incomplete <= {*CELLS}
    assert len(incomplete) <= MOST * len(CELLS)
    served = ("multi_head", "rotary", "grouped", "hopfield")
    assert not [cell for cell in incomplete if cell[0] in served]


def test_the_page_gives_the_reasons():
    page = ROOT / "docs" / "guides" / "composing.md"
    text = " ".join(page.read_text("utf-8").split())
    for reason in {*REFUSED.values(), *WITHOUT_STEPS.values()}:
        assert reason in text


def test_compiled_cells_hold_each_attention_and_each_holder():
    compiled = [cell for cell in CELLS if on_the_diagonal(*cell)]
    assert {attention for attention, _ in compiled} == {*ATTENTIONS}
    for holder in HOLDERS:
        rows = [[*ATTENTIONS].index(a) for a, other in compiled if other == holder]
        assert {row % 2 for row in rows} == {0, 1}  # on JAX, and on TensorFlow
