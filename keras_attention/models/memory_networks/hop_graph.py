"""The graph of a `KeyValueMemNN` that reads one memory per hop.

Shapes: B questions, H hops, M facts per memory, D features, L words.
"""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
from keras import ops

from keras_attention.numerics import masks, normalizers

Tensor = Any

# The norm of the entity vectors. If the state contains the vector of a key's entity
# with weight 1, the score of the key increases by the square of the norm.
LENGTH = 4.0


def hop_graph(model: Any, size: int) -> tuple[keras.Model, keras.Model]:
    """Builds the graph of a `HopReader` from the layers of a `KeyValueMemNN`.

    The inputs are "question" (B, L), "keys" (B, H, M, 2) and "values" (B, H, M). The
    values of each memory have numbers of their own, and the keys of the next memory
    refer to them. The state therefore holds two sets of entity vectors during a hop:
    those of the keys and those of the values. The second set replaces the first.

    Returns two models. The output of the first is (B, H + 1, M + 2): the weights of the
    entities in each hop, and the probabilities of the answers. The second also returns
    the queries of the hops: their features (B, H, D) and entities (B, H, M).
    """
    hops, width = model.hops, model.embedding_dim
    question = keras.Input((None,), dtype="int32", name="question")  # (B, L)
    keys = keras.Input((hops, size, 2), dtype="int32", name="keys")  # (B, H, M, 2)
    values = keras.Input((hops, size), dtype="int32", name="values")  # (B, H, M)

    features = model.get_layer("words")(question)  # (B, D)
    entities = ops.pad(features[:, :0], [[0, 0], [0, size]])  # (B, M), zeros
    reads, queries = [], []
    for hop in range(hops):
        entity, relation = keys[:, hop, :, 0], keys[:, hop, :, 1]  # (B, M)
        value = values[:, hop]  # (B, M)
        is_asked = ops.where(ops.equal(entity, 1), 1, 0)
        about = model.get_layer("key_features")(
            [
                model.get_layer("key_relations")(relation),
                model.get_layer("own_entity")(is_asked),
            ]
        )  # (B, M, D)
        key = ops.pad(join(about, entity, size), [[0, 0], [0, 0], [0, size]])
        read = join(ops.zeros_like(key[..., : width + size]), value, size)
        queries.append((features, entities))
        state = ops.concatenate([features, entities, ops.zeros_like(entities)], axis=-1)
        filled = masks.padding(value)  # (B, M)
        state, weights = model.get_layer(f"hop_{hop + 1}")(
            state, read, key, value_mask=filled, return_attention_scores=True
        )  # (B, D + 2M), (B, M)
        features, entities = state[:, :width], state[:, width + size :]
        reads.append(by_entity(weights, value, size))
    roles = model.get_layer("answer_relations")(relation)  # (B, M, D)
    final = ops.concatenate([features, entities], axis=-1)  # (B, D + M)
    logits = ops.einsum("bd,bmd->bm", final, join(roles, value, size))
    weights = normalizers.softmax(logits, filled)  # (B, M)
    reads.append(by_entity(weights, value, size))
    probabilities = ops.stack(reads, axis=1)  # (B, H + 1, M + 2)
    states = [ops.stack(parts, axis=1) for parts in zip(*queries)]
    inputs = {"question": question, "keys": keys, "values": values}
    return (
        keras.Model(inputs, probabilities),
        keras.Model(inputs, [probabilities, *states]),
    )


def join(features: Tensor, entities: Tensor, memory_size: int) -> Tensor:
    """Concatenates features and scaled unit vectors of the entities.

    Entity n > 1 is a one-hot vector at index n − 2. Padding (0) and the question's own
    entity (1) are zero vectors.
    """
    numbers = np.arange(2, memory_size + 2, dtype="int32")
    same = ops.cast(ops.equal(ops.expand_dims(entities, 2), numbers), features.dtype)
    return ops.concatenate([features, LENGTH * same], axis=-1)  # (B, M, · + M)


def by_entity(weights: Tensor, values: Tensor, memory_size: int) -> Tensor:
    """Sums the weights (B, M) of facts with the same value. Returns (B, M + 2).

    Entity 0 gets 1 if there are no facts.
    """
    numbers = np.arange(1, memory_size + 2, dtype="int32")
    same = ops.cast(ops.equal(ops.expand_dims(values, 2), numbers), weights.dtype)
    sums = ops.einsum("bm,bmn->bn", weights, same)  # (B, M + 1)
    empty = ops.all(ops.equal(values, 0), axis=1, keepdims=True)  # (B, 1)
    return ops.concatenate([ops.cast(empty, weights.dtype), sums], axis=-1)
