"""Key-value memory networks over the facts of a knowledge base."""

from __future__ import annotations

from typing import Any, ClassVar

import keras
import numpy as np
from keras import ops

from keras_attention.layers import KeyValueHop, SentenceEncoder
from keras_attention.layers.base.arguments import clone_initializer
from keras_attention.layers.base.checked import check_ids, is_checkable
from keras_attention.layers.base.serialization import export
from keras_attention.layers.memory_networks.sentence_encoder import normal
from keras_attention.models.base.configured_model import ConfiguredModel, check_sizes
from keras_attention.models.base.strings import AnswersQuestions
from keras_attention.numerics import masks, normalizers

Tensor = Any

# The norm of the entity vectors. If the state contains the vector of a key's entity
# with weight 1, the score of the key increases by the square of the norm.
LENGTH = 4.0


@export
class KeyValueMemNN(AnswersQuestions, ConfiguredModel):
    """Answers questions from facts with a key (entity, relation) and a value (entity).

        q₁ = [Σⱼ lⱼ ∘ A xⱼ ; 0]         the question, of words x
        kᵢ = [A rᵢ + A s(eᵢ) ; eᵢ]      key of fact i: its relation r and its entity e
        vᵢ = [0 ; oᵢ]                   value of fact i: the entity o
        p  = softmax(qₕᵀ kᵢ),  o = Σᵢ pᵢ vᵢ,  qₕ₊₁ = Rₕ (qₕ + o)      per hop
        answer(y) = Σ softmax(qₕ₊₁ᵀ [B rᵢ ; oᵢ]) over the facts i with value y

    Words and relations have trainable embeddings; entities do not. Each entity of the
    memory is a unit vector times 4, appended to the D trained features. The question's
    own entity has no unit vector; s marks it instead. R is a matrix on the features and
    a scalar on the entities. The network therefore distinguishes entities only by their
    facts. Renumbering the entities changes nothing, and the network can answer
    questions about unseen entities and facts. The paper trains an embedding of each
    entity instead.

    Args:
        vocabulary_size: the number of different words, padding (0) included.
        relations: the number of relations, inverses and padding (0) included.
        embedding_dim: D, the number of trained features.
        hops: H, the number of reads of the memory; each hop has its own R.
        memory_size: M, the maximum number of facts in a memory. The entities of a
            memory are numbered from 1 to M + 1.
        encoding: the encoding of the question: "position", "bag" or
            "centered_position", see `SentenceEncoder`.
        normalizer: the normalizer of the hops, see `KeyValueHop`.
        kernel_initializer: the initializer of each R; the identity by default.

    Call arguments:
        inputs: a dict of three integer arrays, in which 0 is padding: "question" (B,
            L), the words; "keys" (B, M, 2), the entity and the relation of each fact's
            key; and "values" (B, M), the entity of each fact's value.

    Returns:
        Probabilities (B, M + 2) of the entities; 0 for entities that are not a value.
        Entity 0 has probability 1 if there are no facts, else 0. Train with
        `CategoricalCrossentropy()` on targets that distribute 1 over the right answers.

    Raises:
        ValueError: for an unknown argument or encoding, or sizes below 1. Calls also
            raise it for ids in NumPy arrays that are below 0 or not below the number of
            ids.

    Example:

    >>> import numpy as np
    >>> from keras_attention.models import KeyValueMemNN
    >>> model = KeyValueMemNN(vocabulary_size=20, relations=7, memory_size=3)
    >>> inputs = {
    ...     "question": np.array([[4, 5, 2]]),
    ...     "keys": np.array([[[1, 3], [1, 4], [0, 0]]]),
    ...     "values": np.array([[2, 3, 0]]),
    ... }
    >>> tuple(model(inputs).shape)
    (1, 5)

    Reference:
        Miller, Fisch, Dodge, Karimi, Bordes & Weston, "Key-value memory networks for
        directly reading documents" (2016), section 3.
    """

    id_sizes: ClassVar[dict[str, str]] = {
        "question": "vocabulary_size",
        "values": "_num_entities",
    }

    def __init__(
        self,
        vocabulary_size: int,
        relations: int,
        embedding_dim: int = 64,
        hops: int = 1,
        memory_size: int = 64,
        encoding: str = "position",
        normalizer: Any = "softmax",
        kernel_initializer: Any = "identity",
        dtype: Any = None,
        **kwargs: Any,
    ) -> None:
        check_sizes(
            vocabulary_size=vocabulary_size,
            relations=relations,
            embedding_dim=embedding_dim,
            hops=hops,
            memory_size=memory_size,
        )

        question = keras.Input((None,), dtype="int32", name="question")  # (B, L)
        keys = keras.Input((memory_size, 2), dtype="int32", name="keys")  # (B, M, 2)
        values = keras.Input((memory_size,), dtype="int32", name="values")  # (B, M)

        def embedding(size: int, name: str) -> keras.layers.Embedding:
            return keras.layers.Embedding(
                size,
                embedding_dim,
                embeddings_initializer=normal(),
                dtype=dtype,
                name=name,
            )

        entity, relation = keys[:, :, 0], keys[:, :, 1]  # (B, M)
        is_asked = ops.where(ops.equal(entity, 1), 1, 0)  # LiteRT gathers no booleans
        features = keras.layers.Add(dtype=dtype, name="key_features")(
            [
                embedding(relations, "key_relations")(relation),
                embedding(2, "own_entity")(is_asked),
            ]
        )  # (B, M, D)
        roles = embedding(relations, "answer_relations")(relation)  # (B, M, D)
        key = join(features, entity, memory_size)  # (B, M, D + M)
        value = join(ops.zeros_like(roles), values, memory_size)
        candidate = join(roles, values, memory_size)

        words = SentenceEncoder(
            vocabulary_size, embedding_dim, encoding, dtype=dtype, name="words"
        )
        state = ops.pad(words(question), [[0, 0], [0, memory_size]])  # (B, D + M)
        filled = masks.padding(values)  # (B, M)
        for hop in range(1, hops + 1):
            read = KeyValueHop(
                embedding_dim,
                normalizer,
                clone_initializer(kernel_initializer),
                dtype=dtype,
                name=f"hop_{hop}",
            )
            # `hop_graph` calls the layer again, with weights. Keras expects each call
            # of a layer to have as many outputs as the first one.
            state, _ = read(
                state, value, key, value_mask=filled, return_attention_scores=True
            )
        logits = ops.einsum("bd,bmd->bm", state, candidate)
        fitting = normalizers.softmax(logits, filled)  # (B, M)
        answer = by_entity(fitting, values, memory_size)  # (B, M + 2)

        super().__init__(
            {"question": question, "keys": keys, "values": values}, answer, locals()
        )
        self.normalizer = read.normalizer
        self.kernel_initializer = read.kernel_initializer

    @property
    def _num_entities(self) -> int:
        return self.memory_size + 2

    def check_given(self, given: dict[str, Any]) -> None:
        super().check_given(given)
        keys: Any = given.get("keys")
        shape = tuple(getattr(keys, "shape", ()))
        if len(shape) == 3 and isinstance(shape[2], int) and shape[2] != 2:
            raise ValueError(
                "`keys` must hold pairs of an entity and a relation, (batch, facts, "
                f"2). Received: keys.shape={shape}"
            )
        if is_checkable(keys) and shape[2:] == (2,):
            check_ids("keys", keys[..., 0], self._num_entities)
            check_ids("keys", keys[..., 1], self.relations)


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
