"""Memory networks trained with supervision of the supporting facts."""

from __future__ import annotations

from typing import Any, ClassVar

import keras
import numpy as np
from keras import ops

from keras_attention.layers.base.arguments import natural, positive
from keras_attention.layers.base.serialization import export
from keras_attention.layers.memory_networks.memnn import FactFinder, WordResponder
from keras_attention.layers.memory_networks.sentence_features import (
    MemoryWriter,
    SentenceFeatures,
    WordContexts,
)
from keras_attention.models.base.configured_model import ConfiguredModel
from keras_attention.models.base.strings import AnswersQuestions
from keras_attention.models.base.vector_index import CandidateIndex
from keras_attention.models.memory_networks.large_memory import LargeMemory

Tensor = Any


@export
class MemNN(AnswersQuestions, ConfiguredModel):
    """Retrieves one supporting fact of a story per hop, then answers.

        I  features of words and n-grams of each sentence     `SentenceFeatures`
        G  writes them into the memory, with their time       `MemoryWriter`
        O  o₁ = argmaxᵢ s_O(x, mᵢ), o₂ = argmaxᵢ s_O([x, m_o₁], mᵢ), …   `FactFinder`
        R  answer = argmax_w s_R([x, m_o₁, m_o₂, …], w)       `WordResponder`

    The parts are layers named I, G, O and R: `model.get_layer("O")` returns O. Facts
    are selected by a hard choice, so no gradient flows from the answer to the
    retrieval. Retrieval and answer are both trained by a margin ranking loss on data
    with supporting facts. In training, the supporting facts replace the retrieved
    facts. `evaluate` and `predict` always use the retrieved facts. With metrics, Keras
    requires a target for each output: pass the supporting facts as the target of
    "found", too.

    With `new_words=N`, a story may contain up to N words that were never trained on.
    Their ids are V to V + N − 1, in any order, and mean other words in each story. A
    new word has no embedding of its own. Its neighbours in the story represent it, and
    it may be the answer. The network learns this from known words that get such ids
    for one step, as `datasets.babi.WordDropout` does (the paper's word dropout). Use
    new words with `exact_match=True`: neighbours alone do not tell one new name from
    another.

    Args:
        vocabulary_size: V, the number of different words, padding (0) included.
        embedding_dim: D, the width of the embeddings.
        supports: K, the number of retrieved facts; the maximum number if
            `adaptive=True`.
        time: whether O compares the ages of facts, see `FactFinder`.
        adaptive: whether the number of facts varies per question. If so, the memory has
            a stop record m_∅ after its last slot.
        ngrams: the maximum length of an n-gram, see `SentenceFeatures`.
        buckets: the number of n-gram features.
        nonlinear: whether O and R embed x by two layers. O then also embeds the
            memories by two layers.
        hop_versions: whether the words of retrieved facts have separate features for
            each hop.
        new_words: N, the largest number of new words in a story.
        exact_match: whether O and R have matching features, which tell that a word
            occurs both in a memory or an answer and in the question or a found fact.

    Call arguments:
        inputs: a dict of integers: "story" (B, M, L): the sentences in reading order; 0
            is padding. A sentence that contains only padding is an empty slot, at any
            position. "question" (B, L). "supporting_facts" (B, K): slots of the story
            in the order of retrieval; with `adaptive=True`, −1 after the last one. An
            invalid slot counts as −1 in a compiled step and raises an error in NumPy
            training data. This entry is optional; without it, training uses the
            retrieved facts.
        training: whether to use "supporting_facts".

    Returns:
        A dict of
        "facts" (B, K, M), with `adaptive=True` (B, K, M + 1): scores for
            `SupportingFactLoss`, see `FactFinder`;
        "answer" (B, V + N): scores of the words, for the same loss;
        "found" int32 (B, K): the retrieved facts; −1 after the last one.

    Raises:
        ValueError: if a size is below 1, the supporting facts are not (B, K), or
            supporting facts in NumPy training data are neither slots of the story nor
            −1. Calls also raise it for ids in NumPy arrays that are below 0 or not
            below the number of ids.

    Example:

    >>> import numpy as np
    >>> from keras_attention.losses import SupportingFactLoss
    >>> from keras_attention.models import MemNN
    >>> model = MemNN(vocabulary_size=20, embedding_dim=8, supports=1)
    >>> loss = SupportingFactLoss(margin=0.1)
    >>> model.compile("adam", {"facts": loss, "answer": loss})
    >>> story = np.array([[[1, 2, 3], [4, 5, 0], [0, 0, 0]]])
    >>> x = {"story": story, "question": np.array([[6, 1]])}
    >>> facts = np.array([[0]])
    >>> y = {"facts": facts, "answer": np.array([3])}
    >>> history = model.fit({**x, "supporting_facts": facts}, y, verbose=0)
    >>> model.predict(x, verbose=0)["answer"].shape
    (1, 20)

    Reference:
        Weston, Chopra & Bordes, "Memory networks" (2014). `adaptive`, `ngrams` and
        `nonlinear`: Weston et al., "Towards AI-complete question answering: a set of
        prerequisite toy tasks" (2015), section 5. New words: sections 3.5 and 3.6 of
        the first; it takes neighbours from all text that it has read.
    """

    id_sizes: ClassVar[dict[str, str]] = {"story": "num_ids", "question": "num_ids"}

    def __init__(
        self,
        vocabulary_size: int,
        embedding_dim: int = 50,
        supports: int = 2,
        time: bool = True,
        adaptive: bool = False,
        ngrams: int = 1,
        buckets: int = 2003,
        nonlinear: bool = False,
        hop_versions: bool = False,
        new_words: int = 0,
        exact_match: bool = False,
        dtype: Any = None,
        **kwargs: Any,
    ) -> None:
        positive("supports", supports)
        new_words = natural("new_words", new_words)
        story = keras.Input((None, None), dtype="int32", name="story")  # (B, M, L)
        question = keras.Input((None,), dtype="int32", name="question")  # (B, L)
        supporting = keras.Input(
            (supports,), dtype="int32", name="supporting_facts", optional=True
        )
        i = SentenceFeatures(vocabulary_size, ngrams, buckets, new_words, name="I")
        g = MemoryWriter(i.size if adaptive else None, name="G")
        sizes = {
            "features": i.size + 1,  # the last feature is m_∅
            "embedding_dim": embedding_dim,
            "supports": supports,
            "nonlinear": nonlinear,
            "hop_versions": hop_versions,
            "new_words": new_words,
            "exact_match": exact_match,
            "dtype": dtype,
        }
        o = FactFinder(time=time, name="O", **sizes)
        r = WordResponder(vocabulary_size=vocabulary_size, name="R", **sizes)

        x, memory = i(question), g(i(story))
        contexts = None
        if new_words:
            contexts = WordContexts(vocabulary_size, new_words, name="C")(story)
        output = o(x, memory, supporting, contexts=contexts)
        answer = r(x, memory, output["found"], contexts)  # (B, V + N)

        super().__init__(
            {"story": story, "question": question, "supporting_facts": supporting},
            {**output, "answer": answer},
            locals(),
        )

    @property
    def num_ids(self) -> int:
        """The number of different ids: V known words and N new words."""
        return self.vocabulary_size + self.new_words

    def __call__(self, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        if kwargs.get("training"):
            check_facts(inputs)
        return super().__call__(completed(inputs), *args, **kwargs)

    def call(
        self, inputs: Any, training: bool | None = None, mask: Any = None, **kwargs: Any
    ) -> Any:
        # With JAX, a stateless call enters here and not through `__call__`.
        inputs = completed(inputs)
        facts = inputs["supporting_facts"] if isinstance(inputs, dict) else None
        if facts is not None:  # slots that the story lacks become −1
            facts = ops.where(facts < ops.shape(inputs["story"])[1], facts, -1)
            inputs = {**inputs, "supporting_facts": facts}
        return super().call(inputs, training=training, mask=mask, **kwargs)

    def _check_data(self, method: str, args: tuple, kwargs: dict[str, Any]) -> None:
        if method in ("fit", "train_on_batch"):
            check_facts(args[0] if args else kwargs.get("x"))
        super()._check_data(method, args, kwargs)

    def evidence(
        self, inputs: dict[str, np.ndarray], batch_size: int = 32
    ) -> np.ndarray:
        """Returns the words of each question and of the facts found for it.

        They are all that R reads. A recurrent network that is trained to read them may
        respond in sentences, in place of R: give them to a `Seq2Seq` as "source".

        Args:
            inputs: NumPy arrays "story" (B, M, L) and "question" (B, L). With
                "supporting_facts" (B, K), those replace the facts that O finds.
            batch_size: the number of questions per step.

        Returns:
            Integers (B, L + K·L): the question and the facts in the order in which they
            are found. Padding (0) is only at the end.

        Raises:
            ValueError: if a supporting fact is neither a slot of the story nor −1.

        Reference:
            Weston, Chopra & Bordes, "Memory networks" (2014), sections 3.1 and 5.2: an
            RNN that reads [x, o₁, o₂] and goes on with the response.
        """
        check_facts(inputs)
        story, question = inputs["story"], inputs["question"]
        slots = inputs.get("supporting_facts")
        if slots is None:
            asked = {"story": story, "question": question}
            slots = self.predict(asked, batch_size=batch_size, verbose=0)["found"]
        slots = np.asarray(slots)[:, :, None]  # (B, K, 1)
        facts = np.take_along_axis(story, np.maximum(slots, 0), axis=1)
        facts = np.where(slots >= 0, facts, 0).reshape(len(story), -1)
        words = np.concatenate([question, facts], axis=1)
        order = np.argsort(words == 0, axis=1, kind="stable")
        return np.take_along_axis(words, order, axis=1)

    def remember(
        self, facts: np.ndarray, index: CandidateIndex | None = None
    ) -> LargeMemory:
        """Stores many facts, to answer questions about them.

        Args:
            facts: integers (N, L) in chronological order; 0 is padding.
            index: a `WordHash` or a `ClusterHash` of these facts, to score only its
                candidates; None to score all facts. See `LargeMemory`.

        Returns:
            A `LargeMemory`; its method `answer` takes questions. Train the model first:
            after a change of the weights that embed facts, `answer` raises an error.
            `save` writes the memory to a folder for `LargeMemory.load(path, model)`.

        Raises:
            ValueError: if the network has new words or matching features: what they
                represent depends on the story and the question.
        """
        return LargeMemory(self, facts, index)

    def word_vectors(self) -> np.ndarray:
        """Returns the columns of U_O for the words of memories, float32 (V, D)."""
        table = ops.convert_to_numpy(self.get_layer("O").candidate.weights[0].value)
        return np.asarray(table[: self.vocabulary_size]).astype("float32")


def completed(inputs: Any) -> Any:
    """Adds None to the inputs if the supporting facts are missing.

    Keras accepts None for an optional input, but not a missing dict entry.
    """
    if isinstance(inputs, dict):
        return {"supporting_facts": None, **inputs}
    return inputs


def check_facts(inputs: Any) -> None:
    """Raises a ValueError for a supporting fact that is neither a slot nor −1."""
    arrays = inputs if isinstance(inputs, dict) else {}
    facts, story = arrays.get("supporting_facts"), arrays.get("story")
    shape: Any = getattr(story, "shape", ())
    if not isinstance(facts, np.ndarray) or len(shape) != 3:
        return
    slots = shape[1]
    wrong = np.argwhere((facts < -1) | (facts >= slots))
    if len(wrong):
        where = tuple(wrong[0].tolist())
        raise ValueError(
            f"`supporting_facts` must be slots of the story, from 0 to {slots - 1}, or "
            "−1 for none. Received: "
            f"supporting_facts[{', '.join(map(str, where))}]={facts[where]}"
        )
