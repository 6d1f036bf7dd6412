"""Hops are layers: memory networks as one-head attention with a residual."""

import itertools

import numpy as np
import pytest
import references
from gradients import to_numpy
from heads import normal

from keras_attention import layers
from keras_attention.models import MemN2N

B, T, M, D, HOPS = 2, 3, 5, 7, 3


def one_head(width=D, normalizer="softmax", **projections):
    """One head of identities; its √E undoes what multi-head attention divides by."""
    head = layers.MultiHeadAttention(
        1, width, use_bias=False, output_shape=width, normalizer=normalizer
    )
    identity = np.eye(width)
    kernels = {"query": np.sqrt(width) * identity, **projections}
    kernels = [kernels.get(n, identity) for n in ("query", "key", "value")]
    head.build(*((None, None, len(k)) for k in (kernels[0], kernels[2], kernels[1])))
    head.set_weights([*(k[:, None] for k in kernels), identity[None]])
    return head


def given():
    """A state, output memories and input memories."""
    return normal(B, D), normal(B, M, D, seed=1), normal(B, M, D, seed=2)


def same(found, expected, tolerance=1e-6):
    np.testing.assert_allclose(
        to_numpy(found), to_numpy(expected), rtol=0, atol=tolerance
    )


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("normalizer", ["softmax", "softmax1", "sparsemax"])
def test_a_hop_is_one_head_with_a_residual(normalizer, masked):
    u, c, m = given()
    mask = references.holed(B, M) if masked else None
    call = {"value_mask": mask, "return_attention_scores": True}
    state, p = layers.MemoryHop(normalizer=normalizer)(u, c, m, **call)
    found, weights = one_head(normalizer=normalizer)(u, c, m, **call)
    same(u + to_numpy(found), state)
    same(to_numpy(weights)[:, 0], p)  # the head's axis
    # And of several questions at once.
    asked = normal(B, T, D, seed=3)
    state = layers.MemoryHop(normalizer=normalizer)(asked, c, m, **call)[0]
    same(
        asked + to_numpy(one_head(normalizer=normalizer)(asked, c, m, **call)[0]), state
    )


def test_the_map_of_a_hop_is_on_the_residual():
    u, c, m = given()
    hop = layers.MemoryHop(transform=True)
    state = hop(u, c, m)
    (kernel,) = hop.get_weights()
    same(u @ kernel + to_numpy(one_head()(u, c, m)), state)


def test_the_embeddings_of_a_memory_are_projections():
    """A and C of a bag of words are the kernels of keys and values."""
    size = 11
    words = np.random.default_rng(0).integers(0, size, (B, M, 4))  # with padding
    encode_a, encode_c = (layers.SentenceEncoder(size, D, "bag") for _ in range(2))
    u = normal(B, D)
    state = layers.MemoryHop()(u, encode_c(words), encode_a(words))
    counts = np.eye(size)[words].sum(2)  # (B, M, V)
    a, c = (to_numpy(e.embedding.embeddings) for e in (encode_a, encode_c))
    for kernel in (a, c):
        kernel[0] = 0  # padding counts for nothing
    head = one_head(key=a, value=c)
    same(u + to_numpy(head(u, counts.astype("float32"))), state)


def test_a_memory_network_is_a_stack_of_layers():
    """MemN2N, whole: bags of words, their ages as words, a layer for each hop."""
    size, slots = 11, 4
    model = MemN2N(
        size, D, HOPS, slots, encoding="bag", time="word", null_memories=False
    )
    rng = np.random.default_rng(0)
    model.set_weights([rng.normal(size=w.shape) / 3 for w in model.weights])
    story = rng.integers(1, size, (B, slots, 6))
    question = rng.integers(1, size, (B, 3))
    logits = model({"story": story, "question": question})

    tables = [w.copy() for w in model.get_weights()]  # A¹ = B, then C¹ … Cᴷ = Wᵀ
    assert len(tables) == HOPS + 1
    for table in tables:
        table[0] = 0
    identity = np.eye(size + slots)
    age = slots - np.arange(slots)
    counts = identity[story].sum(2) + identity[size + age - 1]  # (B, M, V)
    u = identity[question].sum(1) @ tables[0]  # (B, D)
    for a, c in itertools.pairwise(tables):  # A of a hop is C of the one before
        head = one_head(key=a, value=c)
        u = u + to_numpy(head(u.astype("float32"), counts.astype("float32")))
    expected = (u @ tables[-1].T)[:, :size]
    same(to_numpy(logits)[:, 1:], expected[:, 1:], 1e-5)  # nobody answers padding


def test_self_attention_in_which_the_question_alone_may_look_is_a_hop():
    u, m, _ = given()
    sequence = np.concatenate([u[:, None], m], axis=1)  # (B, 1 + M, D)
    may_look = np.zeros((1 + M, 1 + M), bool)
    may_look[0, 1:] = True  # the question at the memories
    found = one_head()(sequence, sequence, attention_mask=may_look)
    after = sequence + to_numpy(found)
    same(after[:, 0], layers.MemoryHop()(u, m))
    # Who may look at nothing finds 0, and the residual keeps the memory as it was.
    np.testing.assert_array_equal(after[:, 1:], m)


def test_updating_the_memory_too_is_self_attention():
    """Every hop rewrites all of the sequence: a layer of a Transformer's encoder."""
    sequence = normal(B, 1 + M, D) / 2
    mask = np.concatenate([np.ones((B, 1), bool), references.holed(B, M)], axis=1)
    hop, attention, head = layers.MemoryHop(), layers.Attention("dot"), one_head()
    by_hops = by_layers = by_dots = sequence
    for _ in range(HOPS):
        by_hops = to_numpy(hop(by_hops, by_hops, value_mask=mask), "float32")
        found = head(by_layers, by_layers, value_mask=mask)
        by_layers = by_layers + to_numpy(found, "float32")
        found = attention(by_dots, by_dots, value_mask=mask)
        by_dots = by_dots + to_numpy(found, "float32")
        same(by_layers / np.abs(by_hops).max(), by_hops / np.abs(by_hops).max())
        same(by_dots / np.abs(by_hops).max(), by_hops / np.abs(by_hops).max())
    assert np.abs(by_hops[:, 1:] - sequence[:, 1:]).min(axis=-1).max() > 0.1


def test_a_memory_that_is_updated_doubles_what_a_layer_reaches():
    """Pointers: K hops follow K of them, K layers that rewrite them follow 2ᴷ."""
    steps = 2**HOPS
    slots = steps + 3
    place = 20 * np.eye(slots, dtype="float32")
    here, there = place[None], np.roll(place, -1, axis=0)[None]  # i points to i + 1
    look = layers.Attention("dot")

    state = here[:, 0]
    for _ in range(HOPS):
        state = look(state, there, here)
    assert to_numpy(state).argmax() == HOPS
    for _ in range(HOPS):
        there = look(there, there, here)  # each asks where what it points to points
    assert to_numpy(there)[0, 0].argmax() == steps
