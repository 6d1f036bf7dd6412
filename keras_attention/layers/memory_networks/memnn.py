"""O and R of a memory network: find the supporting facts, and score the answers.

Shapes: B batch, M memory slots, L words, D width, K hops, V words of the vocabulary, N
new words. "·" is the number of features of a sentence or of fields of a record.
"""

from __future__ import annotations

import abc
from collections.abc import Sequence
from typing import Any, ClassVar

import keras
from keras import ops

from keras_attention.layers.base.arguments import natural, positive
from keras_attention.layers.base.checked import call_arguments, check_ids, is_checkable
from keras_attention.layers.base.serialization import Configured, export
from keras_attention.layers.memory_networks.sentence_encoder import (
    SentenceEncoder,
    normal,
)
from keras_attention.ops import ranking

Tensor = Any


class FeatureMap(Configured, keras.layers.Layer, abc.ABC):
    """Base of O and R: embeds features by the blocks of U, each a `SentenceEncoder`."""

    id_sizes: ClassVar[Any] = {"question": "num_ids"}
    nonlinear: bool
    hop_versions: bool
    exact_match: bool
    found: list[SentenceEncoder]
    map: Any
    contexts: Any

    def __init__(
        self,
        features: int,
        embedding_dim: int,
        supports: int,
        new_words: int,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.features = positive("features", features)
        self.embedding_dim = positive("embedding_dim", embedding_dim)
        self.supports = positive("supports", supports)
        self.new_words = natural("new_words", new_words)
        self.question = self.block("question")

    @property
    @abc.abstractmethod
    def _parts(self) -> list[Any]:
        """The blocks of U. Keras saves weights under the first public name of them."""

    @property
    def num_ids(self) -> int:
        """The number of different features, those of new words included."""
        return self.features + self.new_words

    def check_given(self, given: dict[str, Any]) -> None:
        super().check_given(given)
        memory = given.get("memory")
        if memory is not None and is_checkable(memory):
            check_ids("memory", memory[:, :, 1:], self.num_ids)

    def build(self, question_shape: Any, *shapes: Any, **named: Any) -> None:
        for part in self._parts:
            part.build(None)
        if self.map is not None:
            self.map.build((None, self.embedding_dim))
        if self.contexts is not None:
            self.contexts.build(None)
        self.built = True

    def block(self, name: str, size: int | None = None) -> SentenceEncoder:
        """Returns a block of U. It embeds a sentence as a sum over its features."""
        size, policy = size or self.features, self.dtype_policy
        return SentenceEncoder(size, self.embedding_dim, "bag", dtype=policy, name=name)

    def found_blocks(self, hops: int) -> list[SentenceEncoder]:
        """Returns the blocks for found facts: one per hop, or one for all hops."""
        versions = hops if self.hop_versions else min(hops, 1)
        return [self.block(f"found_{hop}") for hop in range(versions)]

    def match_blocks(self, size: int | None = None) -> list[Any]:
        """Returns the blocks for matches with the question and with found facts."""
        count = 1 + len(self.found) if self.exact_match else 0
        return [self.block(f"match_{version}", size) for version in range(count)]

    def hidden_layer(self) -> keras.layers.Dense | None:
        """Returns the Dense layer W of tanh(W tanh(U Φ) + b), if there is one."""
        if not self.nonlinear:
            return None
        width, policy = self.embedding_dim, self.dtype_policy
        return keras.layers.Dense(width, "tanh", dtype=policy, name="map")

    def context_vectors(self) -> ContextVectors | None:
        """Returns the layer that represents new words, or None if there are none."""
        if not self.new_words:
            return None
        return ContextVectors(
            self.features,
            self.new_words,
            self.embedding_dim,
            [part.name for part in self._parts],
            dtype=self.dtype_policy,
            name="contexts",
        )

    def vectors_of(self, contexts: Tensor | None) -> dict[str, Tensor]:
        """Returns the vectors (B, N, D) of new words by block; {} if there are none."""
        if (contexts is None) != (self.contexts is None):
            raise ValueError(
                "`contexts` must be given if and only if `new_words` is not 0. "
                f"Received: contexts={contexts}, new_words={self.new_words}"
            )
        return {} if self.contexts is None else self.contexts(contexts)


@export
class FactFinder(FeatureMap):
    """O, the output feature map: finds one supporting fact per hop.

        s_O(x, y)      = Φx(x)ᵀ U_Oᵀ U_O Φy(y)
        s_Ot(x, y, y′) = Φx(x)ᵀ U_Oᵀ U_O (Φy(y) − Φy(y′) + Φt(x, y, y′))
        o₁ = argmaxᵢ s_O(x, mᵢ),  o₂ = argmaxᵢ s_O([x, m_o₁], mᵢ),  …

    U_O consists of blocks. The features of a sentence have three versions: for the
    question, for candidate facts and for found facts. Φt, the three time features, has
    its own block.

    With time, one pass over the memory finds the best fact, from the newest record to
    the oldest; see `ops.ranking.one_pass`. The feature "y older than y′" of Φt is then
    always 1, and its weight breaks ties between equally similar facts. During training,
    each wrong fact is compared with the correct fact in the order of the pass. In the
    first hop, x is newer than all facts. Later hops use the time of the last found fact
    as the time of x, so the layer can learn "before" and "after". Each fact is found at
    most once.

    With `exact_match=True`, Φy(y) also has matching features: one for each feature of y
    that occurs in x, too. Those of the question and of found facts have separate
    blocks.

    A new word has no feature. The mean of its neighbours in the story represents it.

    Args:
        features: the number of different features, including padding (0).
        embedding_dim: D, the width of the embeddings.
        supports: K, the largest number of facts to find.
        time: whether to use the time features Φt.
        nonlinear: whether to embed x and the memories with two layers,
            tanh(W tanh(U Φ) + b), instead of U Φ.
        hop_versions: whether found facts have separate embeddings for each hop, so
            that the order of the found facts matters. The paper shares one version
            between all hops.
        new_words: the number of new words; their ids start at `features`.
        exact_match: whether to use matching features.

    Call arguments:
        question: integers (B, ·), features.
        memory: int32 (B, M, 1 + ·), records written by `MemoryWriter`.
        supporting_facts: integers (B, K), the slots of the correct facts, padded with
            −1; or None. During training, they replace the facts found by the layer. At
            inference they are ignored.
        training: whether to use `supporting_facts`.
        contexts: int32 (B, M, L, 3), the neighbours of new words, from `WordContexts`.
            Required if there are new words.

    Returns:
        A dict with
        "facts" (B, K, M): the score of each memory at each hop, in comparison with the
            chosen memory, whose score is 0;
        "found" int32 (B, K): the chosen slots, −1 after the last fact.

    Masking:
        Empty slots are never chosen. Their entry in "facts" is half the lowest finite
        number.

    Raises:
        ValueError: if a size is below 1, `supporting_facts` is not of shape (B, K), or
            `contexts` is missing.

    Example:

    >>> import numpy as np
    >>> from keras_attention.layers import FactFinder
    >>> finder = FactFinder(features=9, embedding_dim=4, supports=2)
    >>> question, memory = np.array([[3, 1]]), np.array([[[1, 3, 2], [2, 4, 1]]])
    >>> tuple(finder(question, memory)["facts"].shape)
    (1, 2, 2)

    Reference:
        Weston, Chopra & Bordes, "Memory networks" (2014), sections 3.1 and 3.4; new
        words and matching features: sections 3.5 and 3.6, where all versions share the
        features of neighbours; nonlinearity: Weston et al., "Towards AI-complete
        question answering" (2015), section 5.
    """

    input_ranks: ClassVar[Any] = {
        "question": 2,
        "memory": 3,
        "supporting_facts": 2,
        "contexts": 4,
    }

    def __init__(
        self,
        features: int,
        embedding_dim: int,
        supports: int = 2,
        time: bool = True,
        nonlinear: bool = False,
        hop_versions: bool = False,
        new_words: int = 0,
        exact_match: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(features, embedding_dim, supports, new_words, **kwargs)
        self.nonlinear = nonlinear
        self.hop_versions = hop_versions
        self.exact_match = exact_match
        self.time = time
        self.candidate = self.block("candidate")
        self.found = self.found_blocks(supports - 1)
        self.map = self.hidden_layer()
        self.times = None
        if time:
            self.times = keras.layers.Dense(
                3,
                use_bias=False,
                kernel_initializer=normal(),
                dtype=self.dtype_policy,
                name="times",
            )
        self.matches = self.match_blocks()
        self.contexts = self.context_vectors()

    @property
    def _parts(self) -> list[Any]:
        return [self.question, self.candidate, *self.found, *self.matches]

    def build(self, question_shape: Any, *shapes: Any, **named: Any) -> None:
        super().build(question_shape)
        if self.times is not None:
            self.times.build((None, self.embedding_dim))

    def embed(self, state: Tensor) -> Tensor:
        """Maps sums of embeddings (..., D) to vectors for comparison, (..., D)."""
        return state if self.map is None else self.map(ops.tanh(state))

    def weights_of_time(self, query: Tensor) -> Tensor:
        """Returns Φx(x)ᵀ U_Oᵀ U_O for the three time features, (B, 3)."""
        if self.times is not None:
            return self.times(query)
        return ops.zeros_like(query[:, :1]) * ops.ones((1, 3), query.dtype)

    def add(
        self,
        state: Tensor,
        hop: int,
        sentence: Tensor,
        vectors: dict[str, Tensor] | None = None,
    ) -> Tensor:
        """Adds the sentence (B, ·) found at hop `hop` to the state (B, D): [x, m_o]."""
        part = self.found[hop if self.hop_versions else 0]
        return state + bag(part, sentence, (vectors or {}).get(part.name))

    def match(
        self, memory: Tensor, sentence: Tensor, version: int, vectors: dict[str, Tensor]
    ) -> Tensor:
        """Embeds the features of each record that occur in `sentence`, (B, M, D)."""
        part = self.matches[min(version, len(self.matches) - 1)]
        return bag(part, shared(memory[:, :, 1:], sentence), vectors.get(part.name))

    def call(
        self,
        question: Tensor,
        memory: Tensor,
        supporting_facts: Tensor | None = None,
        training: bool | None = None,
        contexts: Tensor | None = None,
    ) -> dict[str, Tensor]:
        self._check(supporting_facts)
        vectors = self.vectors_of(contexts)
        memory = ops.cast(memory, "int32")  # an unsigned time would wrap around
        times, slots = memory[:, :, 0], ops.shape(memory)[1]  # (B, M)
        records = bag(self.candidate, memory[:, :, 1:], vectors.get("candidate"))
        if self.exact_match:
            records = records + self.match(memory, question, 0, vectors)
        keys = self.embed(records)  # (B, M, D)
        state = bag(self.question, question, vectors.get("question"))
        x = ops.max(times, axis=1) + 1
        is_valid = times >= 0
        free, done = is_valid, ops.logical_not(ops.any(is_valid, axis=1))
        facts, chosen = [], []
        for hop in range(self.supports):
            query = self.embed(state)  # (B, D)
            # s_O of x and each memory, (B, M)
            similar = ops.matmul(keys, ops.expand_dims(query, 2))[:, :, 0]
            weights = self.weights_of_time(query)
            if training and supporting_facts is not None:
                taken = ops.cast(supporting_facts[:, hop], "int32")  # (B,)
            else:
                # o, the argmax of s_O and the ages
                taken = ranking.one_pass(similar, weights, x, times, free)
            done = ops.logical_or(done, taken < 0)
            taken = ops.where(done, slots - 1, taken)
            score = ranking.preference_over(taken, similar, weights, x, times)
            shown = is_valid
            if training and supporting_facts is not None:
                # If there is no record "nothing more", no memory matches the label −1.
                named = ops.logical_or(supporting_facts[:, hop] >= 0, times[:, -1] == 0)
                shown = ops.logical_and(is_valid, named[:, None])
            facts.append(ranking.hide(score, shown))
            x = ops.take_along_axis(times, taken[:, None], axis=1)[:, 0]
            done = ops.logical_or(done, x <= 0)
            chosen.append(ops.where(done, -1, taken))
            free = ops.logical_and(free, ops.arange(slots) != taken[:, None])
            if hop + 1 < self.supports:
                sentence = sentences(memory, taken[:, None])[:, 0]
                state = self.add(state, hop, sentence, vectors)  # [x, m_o]
                if self.exact_match:
                    matches = self.match(memory, sentence, hop + 1, vectors)
                    records = records + matches
                    keys = self.embed(records)
        return {"facts": ops.stack(facts, axis=1), "found": ops.stack(chosen, axis=1)}

    def compute_output_spec(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        call = call_arguments(self, args, kwargs)
        question, memory = call["question"], call["memory"]
        self._check(call.get("supporting_facts"))
        shape = (question.shape[0], self.supports)
        return {
            "facts": keras.KerasTensor((*shape, memory.shape[1]), self.compute_dtype),
            "found": keras.KerasTensor(shape, "int32"),
        }

    def _check(self, facts: Tensor | None) -> None:
        shape = (None, self.supports) if facts is None else tuple(facts.shape)
        if len(shape) != 2 or shape[1] not in (None, self.supports):
            raise ValueError(
                f"`supporting_facts` must have shape (batch, {self.supports}), one "
                f"fact a hop. Received: supporting_facts.shape={shape}"
            )


@export
class WordResponder(FeatureMap):
    """R, the response: scores each word against the question and the found facts.

        s_R(x, w) = Φx(x)ᵀ U_Rᵀ U_R Φy(w),  x = [question, m_o₁, m_o₂, …]

    U_R consists of blocks, like U_O in `FactFinder`. With `exact_match=True`, Φy(w)
    also has matching features, which tell that w is in the question or in a found fact.
    New words follow the V known words. Their neighbours in the story represent them, so
    a word that was never an answer in training may be the answer.

    Args:
        features: the number of different features, including padding (0).
        vocabulary_size: V, the number of words that may be answers.
        embedding_dim: D, the width of the embeddings.
        supports: K, the largest number of found facts.
        nonlinear: whether to embed x with two layers, tanh(W tanh(U_R Φ) + b).
        hop_versions: whether found facts have separate embeddings for each hop.
        new_words: N, the number of new words; their ids start at `features`.
        exact_match: whether to use matching features.

    Call arguments:
        question: integers (B, ·), features.
        memory: int32 (B, M, 1 + ·), records written by `MemoryWriter`.
        found: integers (B, K), slots of found facts; −1 for none.
        contexts: int32 (B, M, L, 3), the neighbours of new words, from `WordContexts`.
            Required if there are new words.

    Returns:
        The scores s_R (B, V + N). A new word that does not occur in the story has half
        the lowest finite number.

    Raises:
        ValueError: if a size is below 1, or `contexts` is missing.

    Example:

    >>> import numpy as np
    >>> from keras_attention.layers import WordResponder
    >>> responder = WordResponder(features=9, vocabulary_size=5, embedding_dim=4)
    >>> question, memory = np.array([[3, 1]]), np.array([[[1, 3, 2], [2, 4, 1]]])
    >>> tuple(responder(question, memory, np.array([[1, -1]])).shape)
    (1, 5)

    Reference:
        Weston, Chopra & Bordes, "Memory networks" (2014), section 3.1; new words and
        matching features: sections 3.5 and 3.6.
    """

    input_ranks: ClassVar[Any] = {"question": 2, "memory": 3, "found": 2, "contexts": 4}

    def __init__(
        self,
        features: int,
        vocabulary_size: int,
        embedding_dim: int,
        supports: int = 2,
        nonlinear: bool = False,
        hop_versions: bool = False,
        new_words: int = 0,
        exact_match: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(features, embedding_dim, supports, new_words, **kwargs)
        self.nonlinear = nonlinear
        self.hop_versions = hop_versions
        self.exact_match = exact_match
        self.vocabulary_size = positive("vocabulary_size", vocabulary_size)
        self.found = self.found_blocks(supports)
        self.map = self.hidden_layer()
        self.words = self.block("words", vocabulary_size)
        self.matches = self.match_blocks(vocabulary_size)
        self.contexts = self.context_vectors()

    @property
    def _parts(self) -> list[Any]:
        return [self.question, *self.found, self.words, *self.matches]

    def check_given(self, given: dict[str, Any]) -> None:
        super().check_given(given)
        memory, slots = given.get("memory"), given.get("found")
        if is_checkable(slots) and memory is not None:
            check_ids("found", slots, memory.shape[1], least=-1)

    def call(
        self,
        question: Tensor,
        memory: Tensor,
        found: Tensor,
        contexts: Tensor | None = None,
    ) -> Tensor:
        vectors = self.vectors_of(contexts)
        facts = sentences(memory, ops.maximum(found, 0))  # (B, K, ·)
        facts = ops.where(ops.expand_dims(found, 2) >= 0, facts, 0)
        state = bag(self.question, question, vectors.get("question"))  # (B, D)
        if self.hop_versions:
            texts = [facts[:, hop] for hop in range(self.supports)]
            for part, text in zip(self.found, texts):
                state = state + bag(part, text, vectors.get(part.name))
        else:
            each = bag(self.found[0], facts, vectors.get("found_0"))  # (B, K, D)
            state = state + ops.sum(each, axis=1)
            texts = []  # of the facts; only matches and new words need them
            if self.matches or contexts is not None:
                texts = [ops.concatenate(ops.unstack(facts, self.supports, 1), axis=1)]
        if self.map is not None:
            state = self.map(ops.tanh(state))
        scores = self.words(state, reverse=True)  # (B, V)
        texts = [ops.cast(question, "int32"), *texts]
        for part, text in zip(self.matches, texts):
            occurs = contains(text, self.vocabulary_size)  # (B, V)
            matched = part(state, reverse=True)
            scores = scores + ops.cast(occurs, matched.dtype) * matched
        if contexts is None:
            return scores
        return ops.concatenate(
            [scores, self._of_new_words(state, texts, contexts, vectors)], axis=1
        )

    def compute_output_spec(self, question: Tensor, *args: Any, **kwargs: Any) -> Any:
        shape = (question.shape[0], self.vocabulary_size + self.new_words)
        return keras.KerasTensor(shape, self.compute_dtype)

    def _of_new_words(
        self,
        state: Tensor,
        texts: list[Tensor],
        contexts: Tensor,
        vectors: dict[str, Tensor],
    ) -> Tensor:
        """Returns the scores (B, N) of the new words."""
        words = vectors["words"]  # (B, N, D)
        for part, text in zip(self.matches, texts):
            occurs = ops.any(is_number(text - self.features, self.new_words), axis=1)
            occurs = ops.expand_dims(ops.cast(occurs, words.dtype), -1)
            words = words + occurs * vectors[part.name]
        scores = ops.matmul(words, ops.expand_dims(state, 2))[:, :, 0]  # (B, N)
        number = contexts[..., 0] - 1  # (B, M, L)
        # One axis at a time: Keras 3.12 on torch reduces the wrong ones of two.
        named = ops.any(is_number(number, self.new_words), axis=1)  # (B, L, N)
        return ranking.hide(scores, ops.any(named, axis=1))


class ContextVectors(keras.layers.Layer):
    """Represents each new word by the mean of its left and right neighbours.

    It maps contexts (B, M, L, 3) of `WordContexts` to a dict of the vectors (B, N, D)
    of each version, 0 for words that are not in the story. Each version has its own
    embeddings of left neighbours and of right neighbours.
    """

    def __init__(
        self,
        features: int,
        new_words: int,
        embedding_dim: int,
        versions: Sequence[str],
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.new_words = new_words
        self.versions = tuple(versions)
        self.left, self.right = (
            keras.layers.Embedding(
                features,
                embedding_dim * len(self.versions),
                embeddings_initializer=normal(),
                dtype=self.dtype_policy,
                name=side,
            )
            for side in ("left", "right")
        )

    def build(self, contexts_shape: Any) -> None:
        for side in (self.left, self.right):
            side.build(contexts_shape)
        self.built = True

    def call(self, contexts: Tensor) -> dict[str, Tensor]:
        number, left, right = (contexts[..., i] for i in range(3))  # (B, M, L)
        neighbours = self.left(left) + self.right(right)  # (B, M, L, ·)
        occurs = is_number(number - 1, self.new_words)  # (B, M, L, N)
        weights = ops.cast(occurs, neighbours.dtype)
        total = ops.einsum("bmln,bmld->bnd", weights, neighbours)
        count = ops.maximum(ops.sum(weights, axis=(1, 2)), 1)  # (B, N)
        mean = total / ops.expand_dims(count, -1)
        return dict(zip(self.versions, ops.split(mean, len(self.versions), axis=-1)))


def is_number(number: Tensor, size: int) -> Tensor:
    """Returns which of 0 … size − 1 each integer (...) is; booleans (..., size)."""
    return ops.equal(ops.expand_dims(number, -1), ops.arange(size, dtype="int32"))


def bag(block: SentenceEncoder, features: Tensor, vectors: Tensor | None) -> Tensor:
    """Embeds sentences (B, ·) or (B, M, ·) as sums over their features and new words.

    Feature F + n, for F features of the block, is the new word n of the vectors
    (B, N, D); they are None if there are no new words.
    """
    if vectors is None:
        return block(features)
    features = ops.cast(features, "int32")
    number = features - block.vocabulary_size
    known = block(ops.where(number < 0, features, 0))
    is_new = is_number(number, vectors.shape[1])
    count = ops.sum(ops.cast(is_new, vectors.dtype), axis=-2)  # (B, N) or (B, M, N)
    if len(count.shape) == 2:
        return known + ops.matmul(ops.expand_dims(count, 1), vectors)[:, 0]
    return known + ops.matmul(count, vectors)


def shared(features: Tensor, others: Tensor) -> Tensor:
    """Keeps the features (B, M, ·) that occur in `others` (B, ·); the rest become 0."""
    others = ops.cast(others, "int32")[:, None, None]
    same = ops.equal(ops.expand_dims(features, -1), others)  # (B, M, ·, ·)
    return ops.where(ops.any(same, axis=-1), features, 0)


def sentences(memory: Tensor, slots: Tensor) -> Tensor:
    """Returns the features (B, K, ·) in the slots `slots` (B, K) of `memory`."""
    records = ops.take_along_axis(memory, ops.expand_dims(slots, 2), axis=1)
    return records[:, :, 1:]  # (B, K, ·)


def contains(features: Tensor, size: int) -> Tensor:
    """Returns which of 1 … size − 1 are in (B, ·): booleans (B, size); 0 is False."""
    is_word = ops.expand_dims(features, -1) != 0
    return ops.any(ops.logical_and(is_number(features, size), is_word), axis=1)
