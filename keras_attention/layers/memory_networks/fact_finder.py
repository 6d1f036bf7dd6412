"""O of a memory network: finds the facts that support an answer.

Shapes: B batch, M memory slots, D width, K hops, V words of the vocabulary. "·" is the
number of features of a sentence or of fields of a record.
"""

from __future__ import annotations

from typing import Any, ClassVar

import keras
from keras import ops

from keras_attention.layers.base.arguments import natural, positive
from keras_attention.layers.base.checked import call_arguments, check_ids, is_checkable
from keras_attention.layers.base.serialization import Configured, export
from keras_attention.layers.memory_networks.memnn_parts import (
    bag,
    block,
    context_vectors,
    found_blocks,
    hidden_layer,
    match_blocks,
    new_vectors,
    sentences,
    shared,
)
from keras_attention.layers.memory_networks.sentence_encoder import normal
from keras_attention.ops import ranking

Tensor = Any


@export
class FactFinder(Configured, keras.layers.Layer):
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

    id_sizes: ClassVar[Any] = {"question": "num_ids"}
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
        super().__init__(**kwargs)
        self.features = positive("features", features)
        self.embedding_dim = positive("embedding_dim", embedding_dim)
        self.supports = positive("supports", supports)
        self.time = time
        self.nonlinear = nonlinear
        self.hop_versions = hop_versions
        self.new_words = natural("new_words", new_words)
        self.exact_match = exact_match
        self.question = block(self, "question")
        self.candidate = block(self, "candidate")
        self.found = found_blocks(self, supports - 1)
        self.map = hidden_layer(self) if nonlinear else None
        self.times = None
        if time:
            self.times = keras.layers.Dense(
                3,
                use_bias=False,
                kernel_initializer=normal(),
                dtype=self.dtype_policy,
                name="times",
            )
        self.matches = match_blocks(self, 1 + len(self.found))
        parts = (self.question, self.candidate, *self.found, *self.matches)
        self.contexts = context_vectors(self, [part.name for part in parts])

    def check_given(self, given: dict[str, Any]) -> None:
        super().check_given(given)
        memory = given.get("memory")
        if memory is not None and is_checkable(memory):
            check_ids("memory", memory[:, :, 1:], self.num_ids)

    def build(
        self,
        question_shape: Any,
        memory_shape: Any = None,
        supporting_facts_shape: Any = None,
        contexts_shape: Any = None,
    ) -> None:
        for part in (self.question, self.candidate, *self.found, *self.matches):
            part.build(None)
        if self.contexts is not None:
            self.contexts.build(contexts_shape)
        for dense in (self.map, self.times):
            if dense is not None:
                dense.build((None, self.embedding_dim))
        self.built = True

    @property
    def num_ids(self) -> int:
        """The number of different features, those of new words included."""
        return self.features + self.new_words

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
        vectors = new_vectors(self, contexts)
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
