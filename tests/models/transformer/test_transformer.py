"""`Transformer`: its cache against teacher forcing, torch's own, and its use."""

import keras
import numpy as np
import pytest
from calling import BACKEND, few_compiled, needs_training, plain
from keras import ops
from writing import (
    SOURCES,
    START,
    TARGETS,
    B,
    after_start,
    assert_ends,
    assert_greedy_is_argmax,
    assert_learns_to_reverse,
    assert_one_beam_is_greedy,
    assert_scores_are_chances,
    counted,
    forced,
    sharper,
    sources,
)

from keras_attention import losses, record_attention, samplers
from keras_attention.layers import PositionEmbedding, RotaryEmbedding
from keras_attention.models import Transformer

T = 9
SMALL = {"num_layers": 1, "dim": 12, "num_heads": 2, "intermediate_dim": 5}

KINDS = {
    "paper": {},
    "learned": {"position": "learned", "tie_embeddings": None},
    "a_layer": {"position": PositionEmbedding(70)},
    "rotary_grouped": {
        "position": "rotary",
        "block": {
            "norm_first": True,
            "normalization": "rms",
            "gated": True,
            "activation": "silu",
            "attention": {"num_key_value_heads": 1, "sliding_window": 4},
        },
    },
    "alibi": {"position": "alibi", "block": {"attention": {"use_gate": True}}},
    "relative": {"position": "relative", "block": {"norm_first": True}},
    "a_rotary": {"position": RotaryEmbedding(interleaved=True)},
    "none": {"position": None},
}


def make(kind="paper", factor=2, **more):
    keras.utils.set_random_seed(0)
    model = Transformer(SOURCES, TARGETS, **{**SMALL, **KINDS[kind], **more})
    return sharper(model, factor, rank=2)


@pytest.mark.parametrize("kind", KINDS)
def test_the_cache_gives_the_logits_of_teacher_forcing(kind):
    model, source = make(kind, factor=1), sources()
    written = np.random.default_rng(1).integers(1, TARGETS, (B, T))
    expected = forced(model, written, source=source)
    prompt = ops.convert_to_tensor(after_start(written))
    cache, static = model.begin({"source": ops.convert_to_tensor(source)}, T)
    for index in range(1, T + 1):
        logits, _, cache = model.next(prompt, cache, index, static)
        np.testing.assert_allclose(
            plain(logits), expected[:, index - 1], rtol=1e-5, atol=1e-5
        )


@pytest.mark.slow
@pytest.mark.backends("all")
@few_compiled("kind", ["paper", "rotary_grouped"])
def test_greedy_is_the_argmax_of_teacher_forcing(kind):
    model, source = make(kind, num_layers=2), sources()
    assert_greedy_is_argmax(model, T, source=source)


@pytest.mark.slow
def test_beam_search():
    model, source = make(), sources()
    assert_one_beam_is_greedy(model, T, source=source)
    assert_scores_are_chances(model, T, source=source)


@pytest.mark.slow
def test_other_samplers_and_stop_tokens():
    model, source = make(), sources()
    one = model.generate(source, T, "top_k", seed=5)
    np.testing.assert_array_equal(one, model.generate(source, T, "top_k", seed=5))
    free = model.generate(source, T, stop_token_ids=None)
    stop = int(free[0, 2])
    assert_ends(model.generate(source, T, stop_token_ids=[stop]), free, stop)


@pytest.mark.slow
def test_padding_changes_nothing_and_nobody_looks_ahead():
    model, source = make(), sources()
    wider = np.pad(source, ((0, 0), (0, 20)))
    target = np.random.default_rng(2).integers(1, TARGETS, (B, T)).astype("int32")
    later = target.copy()
    later[:, 5:] = 0
    one, padded, cut = (
        model.predict({"source": s, "target": t}, verbose=0)
        for s, t in ((source, target), (wider, target), (source, later))
    )
    np.testing.assert_allclose(one, padded, atol=1e-5)
    np.testing.assert_allclose(one[:, :5], cut[:, :5], atol=1e-5)
    assert np.abs(one[:, 5:] - cut[:, 5:]).max() > 1e-3
    np.testing.assert_array_equal(model.generate(source, T), model.generate(wider, T))
    nothing = model.predict({"source": 0 * source, "target": target}, verbose=0)
    assert np.isfinite(nothing).all()


@pytest.mark.backends("all")
def test_a_bucket_is_compiled_once():
    model, source = make(), sources()
    begun = counted(model)
    before = model.generate(source, T, stop_token_ids=None)
    first = len(begun)
    fewer = model.generate(source[:, :5], T - 2, stop_token_ids=None)
    if BACKEND in ("jax", "tensorflow"):
        assert len(begun) == first
    assert (fewer.shape, before.shape) == ((B, T - 2), (B, T))


@pytest.mark.parametrize("kind", ["a_layer", "rotary_grouped", "a_rotary"])
def test_a_file_writes_the_same(kind, tmp_path):
    model, source = make(kind), sources()
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    assert type(again) is Transformer
    written = np.full((B, T), 5)
    one, other = (forced(each, written, source=source) for each in (model, again))
    np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-6)


def test_where_it_looked_can_be_recorded():
    model, source = make(num_layers=2), sources()
    inputs = {"source": source, "target": np.full((B, T), START, "int32")}
    with record_attention() as maps:
        model({name: ops.convert_to_tensor(x) for name, x in inputs.items()})
    heads = SMALL["num_heads"]
    words = source != 0  # (B, S)
    kinds = {  # what each kind of attention may see, of each sample
        "encoder_block_{}/self_attention": words[:, :, None] & words[:, None],
        "decoder_block_{}/self_attention": np.tri(T, dtype=bool)[None].repeat(B, 0),
        "decoder_block_{}/cross_attention": words[:, None].repeat(T, 1),
    }
    for kind, seen in kinds.items():
        first, second = (maps[kind.format(n)] for n in range(2))
        for weights in (first, second):
            assert weights.shape == (B, heads, *seen.shape[1:])
            assert (weights * ~seen[:, None] == 0).all()
            total = np.broadcast_to(seen.any(-1)[:, None], weights.shape[:-1])
            np.testing.assert_allclose(weights.sum(-1), total, rtol=1e-5)
        assert np.abs(first - second).max() > 0.01
    assert len(maps) == 6


def test_what_is_tied_is_one_weight():
    sizes = {}
    for tie in ("all", "target", None):
        model = Transformer(SOURCES, SOURCES, **SMALL, tie_embeddings=tie)
        sizes[tie] = model.count_params()
    table = SOURCES * SMALL["dim"]
    assert sizes["target"] - sizes["all"] == table
    assert sizes[None] - sizes["target"] == table


def test_sizes_of_the_papers():
    model = Transformer.from_size("tiny", SOURCES, TARGETS, num_layers=1)
    assert (model.num_layers, model.dim, model.num_heads) == (1, 128, 4)
    assert (model.intermediate_dim, model.dropout) == (256, 0.3)
    with pytest.raises(ValueError, match=r"`size` must be one of.*'huge'"):
        Transformer.from_size("huge", SOURCES, TARGETS)


def test_base_has_the_parameters_of_the_paper():
    """Table 3: 65 million, with one vocabulary of about 37,000 (section 5.1)."""
    blocks = Transformer.from_size("base", 2, 2, num_layers=1).count_params()
    blocks -= 2 * 2 * 512
    assert round((6 * blocks + 37000 * 512) / 1e6) in (63, 64, 65)


@pytest.mark.slow
@pytest.mark.parametrize("norm_first", [False, True])
def test_it_is_the_transformer_of_torch(norm_first):
    """The same weights and masks give the same logits, as far as there are words."""
    torch = pytest.importorskip("torch")
    from studies.translation import torch_peer

    block = {"norm_first": norm_first}
    model = make(block=block, dropout=0.0, num_layers=2)
    rng = np.random.default_rng(0)
    for weight in model.trainable_weights:  # biases and norms, too
        if len(weight.shape) == 1:
            weight.assign(rng.normal(1, 0.3, weight.shape))
    source = sources()
    target = rng.integers(1, TARGETS, (B, T)).astype("int32")
    target[2, 6:] = 0
    ours = model.predict({"source": source, "target": target}, verbose=0)
    module = torch_peer.make(model, 0.0)
    for mode in (module.eval(), module.train()):
        with torch.no_grad():
            theirs = mode(*(torch.from_numpy(x).long() for x in (source, target)))
        there = target != 0
        found = theirs.numpy()[there]
        scale = np.abs(found).max()
        np.testing.assert_allclose(ours[there], found, rtol=1e-5, atol=1e-5 * scale)
    sampler = samplers.ExcludingSampler(samplers.GreedySampler(), [1])
    written = model.generate(source, T, sampler=sampler)
    np.testing.assert_array_equal(module.generate(source, T, "greedy"), written)


@pytest.mark.release
@needs_training
def test_it_learns_to_turn_a_sequence_round():
    keras.utils.set_random_seed(0)
    model = Transformer(SOURCES, SOURCES, 1, 32, 4, 64, tie_embeddings="all")
    loss = losses.SmoothedCrossentropy(0.1, ignore_class=0)
    assert_learns_to_reverse(model, loss, 0.004, epochs=12)


def test_a_source_and_a_target_may_reach_the_last_position():
    model = make(position=PositionEmbedding(20))
    source = np.resize(np.arange(4, SOURCES), (2, 18))
    assert_greedy_is_argmax(model, 20, source=source)


def test_each_embedding_has_positions_of_its_own():
    given = PositionEmbedding(20, name="given")
    models = [
        Transformer(SOURCES, SOURCES, **SMALL, position=given, tie_embeddings=tie)
        for tie in ("target", "all")
    ]
    assert not given.built
    found = [
        [one.name for one in model.layers if isinstance(one, PositionEmbedding)]
        for model in models
    ]
    assert found == [
        ["source_embedding_position", "target_embedding_position"],
        ["embedding_position"],
    ]
    ids = [id(weight) for model in models for weight in model.weights]
    assert len({*ids}) == len(ids)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"max_length": 0}, "`max_length` must be at least 1.*max_length=0"),
        ({"start_token_id": TARGETS}, "`start_token_id` must be of the.*of 13"),
        ({"inputs": np.full((2, 3), SOURCES)}, "`source` must hold ids.*from 11"),
        ({"inputs": np.ones((2, 3), "float32")}, "`source` must be integers.*float32"),
        ({"inputs": {"sauce": sources()}}, "`inputs` must hold 'source'.*'sauce'"),
        ({"max_length": 71}, "not exceed the positions.* 7 tokens, max_length=71, 70"),
        ({"inputs": np.ones((2, 71), "int32")}, "`source` and.*Received: 71 tokens"),
        (
            {"sampler": samplers.BeamSampler(2, coverage_penalty=0.2)},
            '"alignment_sum"',
        ),
    ],
)
def test_generate_errors(arguments, message):
    with pytest.raises(ValueError, match=message):
        make("a_layer").generate(**{"inputs": sources(), **arguments})


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"num_layers": 0}, "`num_layers` must be at least 1"),
        ({"num_heads": 5}, "`num_heads` must divide.*num_heads=5"),
        ({"dropout": 1.0}, "`dropout` must be at least 0 and below 1"),
        ({"position": "sine"}, "`position` must be one of.*'sine'"),
        ({"tie_embeddings": True}, '`tie_embeddings` must be "all", "target" or None'),
        (
            {"tie_embeddings": "all"},
            "needs one vocabulary.*source_vocabulary_size=11.*target.*=13",
        ),
        ({"block": {"dropout": 0.2}}, "`block` must be a dict of further.*'dropout'"),
        (
            {"position": "alibi", "block": {"attention": {"position": "rotary"}}},
            "must not both give the attentions a position",
        ),
        ({"widht": 3}, "`Transformer` has no such argument. Received: widht=3"),
    ],
)
def test_constructor_errors(arguments, message):
    with pytest.raises(ValueError, match=message):
        Transformer(SOURCES, TARGETS, **{**SMALL, **arguments})
