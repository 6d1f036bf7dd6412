"""Models that learn vectors of words, users and items from dot products.

Shapes: B batch, N examples, S ratings of a user or centre words of a row, P words per
centre word (one positive and K negative samples) or per row, V vocabulary, D width.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, Self

import keras
import numpy as np
from keras import ops

from keras_attention.layers.attention.attention import Attention
from keras_attention.layers.base.arguments import fraction, number, positive
from keras_attention.layers.base.serialization import export
from keras_attention.models.base.configured_model import ConfiguredModel
from keras_attention.models.base.strings import for_each
from keras_attention.ops import similarity

__all__ = ["AttentiveFactorization", "MatrixFactorization", "SkipGram"]

Tensor = Any
# Special tokens such as "<pad>", which are not words.
_SPECIAL = re.compile(r"<.+>")


class Tables:
    """Builds embeddings with a common regularization, which must be at least 0."""

    def __init__(self, regularization: float, dtype: Any) -> None:
        number("regularization", regularization, least=0)
        regularizer = keras.regularizers.L2(regularization) if regularization else None
        self.options = {"embeddings_regularizer": regularizer, "dtype": dtype}

    def __call__(self, size: int, dim: int, name: str) -> keras.layers.Embedding:
        """Builds a table of vectors with small initial dot products."""
        start = keras.initializers.RandomNormal(stddev=0.1 * dim**-0.5)
        return keras.layers.Embedding(size, dim, start, name=name, **self.options)

    def bias(self, size: int, name: str) -> keras.layers.Embedding:
        """Builds a table of biases, initialized to 0."""
        return keras.layers.Embedding(size, 1, "zeros", name=name, **self.options)


@export
class MatrixFactorization(ConfiguredModel):
    """Predicts ratings from user and item vectors and biases.

        r̂ᵤᵢ = μ + bᵤ + bᵢ + pᵤ · qᵢ

    Train it by `fit` on ratings with the loss "mse". The dot product is the score of
    attention without a softmax, with users as queries and items as keys.

    Args:
        num_users: the number of users.
        num_items: the number of items.
        dim: D, the width of a vector.
        mean: μ, the mean of the training ratings.
        biases: whether to use bᵤ and bᵢ.
        regularization: λ in λ (Σ |pᵤ|² + Σ |qᵢ|² + Σ bᵤ² + Σ bᵢ²), which is added to
            the loss of each batch. If the loss is a mean over ratings, divide the λ of
            the papers by the number of ratings.

    Inputs: a dict of
        user: int32 (B,).
        item: int32 (B,).

    Unlike `rate`, a call does not check its inputs. An unknown user or item gives NaN
    on JAX and a backend error elsewhere.

    Returns:
        Ratings (B, 1).

    Raises:
        ValueError: for sizes below 1, or a negative regularization. Calls also raise it
            for ids in NumPy arrays that are below 0 or not below the number of ids.

    Example:

    >>> import numpy as np
    >>> from keras_attention.models import MatrixFactorization
    >>> model = MatrixFactorization(num_users=5, num_items=7, dim=3, mean=3.5)
    >>> model.rate(users=[0, 4], items=[6, 6]).shape
    (2,)
    >>> items, ratings = model.recommend(user=2, count=3)
    >>> len(items)
    3

    Reference:
        Koren, Bell & Volinsky, "Matrix factorization techniques for recommender
        systems" (2009), equations 2 to 5.
    """

    id_sizes: ClassVar[dict[str, str]] = {"user": "num_users", "item": "num_items"}

    def __init__(
        self,
        num_users: int,
        num_items: int,
        dim: int = 16,
        mean: float = 0.0,
        biases: bool = True,
        regularization: float = 0.0,
        dtype: Any = None,
        **kwargs: Any,
    ) -> None:
        positive("num_users", num_users)
        positive("num_items", num_items)
        positive("dim", dim)
        table = Tables(regularization, dtype)
        user = keras.Input((), dtype="int32", name="user")  # (B,)
        item = keras.Input((), dtype="int32", name="item")  # (B,)
        of_user = table(num_users, dim, "user_vector")
        of_item = table(num_items, dim, "item_vector")
        predicted = ops.sum(of_user(user) * of_item(item), axis=-1, keepdims=True)
        if biases:
            predicted = predicted + table.bias(num_users, "user_bias")(user)  # (B, 1)
            predicted = predicted + table.bias(num_items, "item_bias")(item)
        super().__init__({"user": user, "item": item}, predicted + mean, locals())
        self.mean = float(mean)

    @property
    def user_vectors(self) -> np.ndarray:
        """Returns pᵤ of all users, float32 (users, D)."""
        return _vectors(self, "user_vector")

    @property
    def item_vectors(self) -> np.ndarray:
        """Returns qᵢ of all items, float32 (items, D)."""
        return _vectors(self, "item_vector")

    def rate(self, users: Any, items: Any) -> np.ndarray:
        """Predicts the ratings of user–item pairs.

        Args:
            users: integers (N,), or one user for all items.
            items: integers (N,), or one item for all users.

        Returns:
            float32 (N,).

        Raises:
            ValueError: for an unknown user or item, or if users and items differ in
                length.
        """
        user = _known("users", users, self.num_users)
        item = _known("items", items, self.num_items)
        if user.ndim and item.ndim and user.size != item.size:
            counts = {"users": user.size, "items": item.size}
            raise ValueError(f"`users` and `items` must be as many. Received: {counts}")
        user, item = np.broadcast_arrays(*np.atleast_1d(user, item))
        predicted = self.predict(
            {"user": user, "item": item}, batch_size=4096, verbose=0
        )
        return predicted[:, 0]

    def recommend(
        self, user: int, count: int = 10, seen: Any = ()
    ) -> tuple[np.ndarray, np.ndarray]:
        """Returns the items with the highest predicted ratings of a user.

        Args:
            user: an integer.
            count: the number of items.
            seen: items to exclude, integers.

        Returns:
            The items, int32, best first, and their predicted ratings, float32. There
            are fewer than `count` if too few items remain.

        Raises:
            ValueError: for an unknown user or item, several users, or a `count` below
                1.
        """
        positive("count", count)
        known = _known("user", user, self.num_users)
        if np.ndim(known):
            raise ValueError(f"`user` must be one integer. Received: user={user!r}")
        ratings = self.rate(known, np.arange(self.num_items))
        return _best(ratings, count, _known("seen", seen, self.num_items))


@export
class AttentiveFactorization(ConfiguredModel):
    """Predicts ratings; a user is represented by attention over the items they rated.

        eⱼ  = rᵤⱼ − μ − bⱼ                      rating relative to the item's average
        αⱼ  = softmaxⱼ(xᵢ · kⱼ / √D)            over the items j rated by u
        pᵤ  = Σⱼ αⱼ eⱼ cⱼ
        r̂ᵤᵢ = μ + bᵢ + pᵤ · qᵢ

    Users have no trained vectors, so a new user needs only ratings and no training. The
    target item is the query, so the vector of a user differs between target items. For
    a comedy, for example, attention can select the ratings of other comedies.

    Args:
        num_items: the number of items.
        dim: D, the width of each of an item's vectors xᵢ, kᵢ, cᵢ and qᵢ.
        mean: μ, the mean of the training ratings.
        dropout: the dropout rate of the weights α.
        regularization: λ, the factor of the sum of squares of all tables, as in
            `MatrixFactorization`.

    Inputs: a dict, as built by `keras_attention.datasets.ratings.histories`, of
        item: int32 (B,).
        history: int32 (B, S), items that the user has rated, without `item`.
        history_ratings: floats (B, S).
        history_mask: booleans (B, S), False for padding.

    Returns:
        Ratings (B, 1).

    Masking:
        Masked ratings are ignored. A user without ratings gets the average rating r̂ =
        μ + bᵢ.

    Raises:
        ValueError: for sizes below 1, a dropout outside [0, 1), or a negative
            regularization. Calls also raise it for ids in NumPy arrays that are below 0
            or not below the number of ids.

    Example:

    >>> from keras_attention.models import AttentiveFactorization
    >>> model = AttentiveFactorization(num_items=7, dim=3, mean=3.5)
    >>> model.rate(items=[0, 6], history=[1, 2, 5], ratings=[5.0, 1.5, 4.0]).shape
    (2,)

    Reference:
        Koren, "Factorization meets the neighborhood" (2008), section 4, asymmetric-SVD:
        pᵤ = |R(u)|^(−1/2) Σⱼ eⱼ cⱼ, here with attention weights instead of
        |R(u)|^(−1/2), as He et al., "NAIS: neural attentive item similarity model for
        recommendation" (2018), equations 5 and 6.
    """

    id_sizes: ClassVar[dict[str, str]] = {"item": "num_items", "history": "num_items"}

    def __init__(
        self,
        num_items: int,
        dim: int = 16,
        mean: float = 0.0,
        dropout: float = 0.0,
        regularization: float = 0.0,
        dtype: Any = None,
        **kwargs: Any,
    ) -> None:
        positive("num_items", num_items)
        positive("dim", dim)
        fraction("dropout", dropout)
        table = Tables(regularization, dtype)
        bias = table.bias(num_items, "item_bias")
        query_table, key_table, value_table, vector_table = (
            table(num_items, dim, f"item_{name}")
            for name in ("query", "key", "value", "vector")
        )
        attention = Attention(
            "scaled_dot", dropout=dropout, dtype=dtype, name="attention"
        )
        item = keras.Input((), dtype="int32", name="item")  # (B,)
        history = keras.Input((None,), dtype="int32", name="history")  # (B, S)
        history_ratings = keras.Input((None,), name="history_ratings")  # (B, S)
        is_valid = keras.Input((None,), dtype="bool", name="history_mask")  # (B, S)

        base_rating = ops.expand_dims(bias(item), -1)  # (B, 1, 1)
        known_ratings = ops.where(
            is_valid, history_ratings, mean
        )  # masked ratings are not read
        liked = ops.expand_dims(known_ratings - mean, -1) - bias(history)  # (B, S, 1)
        user_vector = attention(
            query_table(ops.expand_dims(item, 1)),  # (B, 1, D)
            liked * value_table(history),  # (B, S, D)
            key_table(history),
            value_mask=is_valid,
        )
        vector = ops.expand_dims(vector_table(item), 1)  # (B, 1, D)
        logits = base_rating + ops.sum(user_vector * vector, axis=-1, keepdims=True)
        super().__init__(
            {
                "item": item,
                "history": history,
                "history_ratings": history_ratings,
                "history_mask": is_valid,
            },
            ops.squeeze(logits, -1) + mean,
            locals(),
        )
        self.mean = float(mean)

    def rate(self, items: Any, history: Any, ratings: Any) -> np.ndarray:
        """Predicts a user's ratings of items from their ratings of other items.

        Args:
            items: integers (N,), or one integer.
            history: the items that the user has rated, integers (S,), possibly empty.
                An item's own rating is not used for its prediction.
            ratings: the user's ratings of these items, numbers (S,).

        Returns:
            float32 (N,).

        Raises:
            ValueError: for an unknown item, or if history and ratings differ in length.
        """
        item = np.atleast_1d(_known("items", items, self.num_items))
        known = np.atleast_1d(_known("history", history, self.num_items))
        known_ratings = np.atleast_1d(np.asarray(ratings, "float32"))
        if known_ratings.shape != known.shape:
            raise ValueError(
                "`history` and `ratings` must be as many: a rating for each item. "
                f"Received: {known.size} and {known_ratings.size}"
            )
        wrong = known_ratings[~np.isfinite(known_ratings)]
        if wrong.size:
            raise ValueError(
                f"`ratings` must be finite. Received: ratings with {wrong[:5].tolist()}"
            )
        count = known.size
        room = max(1, count)  # a user without ratings gets a masked one
        known, known_ratings = (
            np.pad(x, (0, room - x.size)) for x in (known, known_ratings)
        )
        is_valid = np.arange(room) < count
        every = (len(item), room)
        predicted = self.predict(
            {
                "item": item,
                "history": np.broadcast_to(known, every),
                "history_ratings": np.broadcast_to(known_ratings, every),
                "history_mask": is_valid & (known != item[:, None]),
            },
            batch_size=1024,
            verbose=0,
        )
        return predicted[:, 0]

    def recommend(
        self, history: Any, ratings: Any, count: int = 10
    ) -> tuple[np.ndarray, np.ndarray]:
        """Returns the unrated items with the highest predicted ratings.

        Args:
            history: as in `rate`.
            ratings: as in `rate`.
            count: the number of items.

        Returns:
            The items, int32, best first, and their predicted ratings, float32.

        Raises:
            ValueError: as in `rate`, and for a `count` below 1.
        """
        positive("count", count)
        predicted = self.rate(np.arange(self.num_items), history, ratings)
        seen = _known("history", history, self.num_items)
        return _best(predicted, count, seen)


def _vectors(model: keras.Model, name: str) -> np.ndarray:
    """Returns the table of an embedding, float32."""
    table = model.get_layer(name).embeddings
    return np.array(ops.convert_to_numpy(ops.cast(table, "float32")))


def _known(name: str, value: Any, size: int) -> np.ndarray:
    """Validates indices of users or items and returns them as int32 (N,).

    Raises:
        ValueError: for an index that is not an integer or is not below `size`.
    """
    ids = np.asarray(ops.convert_to_numpy(value) if ops.is_tensor(value) else value)
    if ids.ndim > 1 or (ids.size and not np.issubdtype(ids.dtype, np.integer)):
        raise ValueError(
            f"`{name}` must be an integer, or integers of shape (count,). "
            f"Received: dtype={ids.dtype}, shape={ids.shape}"
        )
    strangers = sorted({int(n) for n in ids.flat if not 0 <= n < size})
    if strangers:
        raise ValueError(
            f"`{name}` must be known to the model, from 0 to {size - 1}: it has "
            "vectors only for those in its training data. "
            f"Received: {name} with {strangers[:5]}"
        )
    return ids.astype("int32")


def _best(
    ratings: np.ndarray, count: int, left_out: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Returns the items with the highest ratings and their ratings, best first.

    `ratings` (items,) has the rating of each item; `left_out` has the excluded items.
    """
    is_valid = np.ones(len(ratings), bool)
    is_valid[left_out] = False
    order = np.argsort(-ratings, kind="stable")
    order = order[is_valid[order]][:count].astype("int32")
    return order, ratings[order]


@export
class SkipGram(ConfiguredModel):
    """Skip-gram with negative sampling: predicts the words around a word.

        logit(o, c) = u_oᵀ v_c

    Each word has two vectors, v as the centre word and u as a context word. With
    `BinaryCrossentropy(from_logits=True)` and the labels of
    `keras_attention.datasets.words.SkipGrams`, the loss equals the loss of the paper,

        −log σ(u_oᵀ v_c) − Σ_k log σ(−u_kᵀ v_c),

    divided by 1 + K. Here o is the true context word, and the K words k are random
    negative samples. The vectors v are the final word vectors.

    word2vec takes one SGD step per pair of words. Here a step uses a batch of pairs.
    Adam with a learning rate that decays from about 0.005 to 0 gives equally good
    vectors in the same number of epochs.

    With `shared_negatives`, the S centre words of a row share its P context words,
    so the logits are products of matrices. Use it with `SkipGrams(...,
    shared_negatives=22)`, whose labels are weights and not 0 and 1, and with
    `keras_attention.losses.NegativeSamplingLoss`.

    Args:
        vocabulary_size: V.
        dim: D.
        words: the V words by index, such as `Vocabulary.tokens`. Tokens in angle
            brackets, such as "<pad>", do not count as words. Only `nearest` and
            `analogy` need `words`. They are saved with the model.
        shared_negatives: whether the S centre words of a row share its context words.

    Inputs: a dict of
        center: int32 (B,), or (B, S) with shared negatives.
        context: int32 (B, P), the true context word and the negative samples; with
            shared negatives, the words of the text and the negative samples.

    Returns:
        Logits (B, P), or (B, S, P) with shared negatives.

    Raises:
        ValueError: for sizes below 1, words that are not V distinct strings, or
            `shared_negatives` that is not a bool. Calls also raise it for ids in NumPy
            arrays that are below 0 or not below the number of ids, and `compile` for
            `BinaryCrossentropy` with shared negatives.

    Example:

    >>> import keras
    >>> from keras_attention.datasets import words
    >>> from keras_attention.models import SkipGram
    >>> texts = ["a red apple", "a green apple", "a red car", "a green car"] * 50
    >>> vocabulary = words.Vocabulary.from_sentences(texts)
    >>> pairs = words.SkipGrams(texts, vocabulary, window=2, batch_size=64)
    >>> model = SkipGram(len(vocabulary), dim=8, words=vocabulary.tokens)
    >>> loss = keras.losses.BinaryCrossentropy(from_logits=True)
    >>> model.compile(keras.optimizers.Adam(0.05), loss)
    >>> history = model.fit(
    ...     iter(pairs), steps_per_epoch=len(pairs), shuffle=False, verbose=0
    ... )
    >>> len(model.nearest("apple", count=3))
    3

    Reference:
        Mikolov, Sutskever, Chen, Corrado & Dean, "Distributed representations of words
        and phrases and their compositionality" (2013), equation 4.
    """

    id_sizes: ClassVar[dict[str, str]] = {
        "center": "vocabulary_size",
        "context": "vocabulary_size",
    }

    def __init__(
        self,
        vocabulary_size: int,
        dim: int = 100,
        words: Iterable[str] | None = None,
        shared_negatives: bool = False,
        dtype: Any = None,
        **kwargs: Any,
    ) -> None:
        positive("vocabulary_size", vocabulary_size)
        small = 0.5 / positive("dim", dim)
        if not isinstance(shared_negatives, bool):
            raise ValueError(
                "`shared_negatives` must be True or False; the number of negatives is "
                "an argument of `SkipGrams`. "
                f"Received: shared_negatives={shared_negatives!r}"
            )
        tables = [
            keras.layers.Embedding(
                vocabulary_size,
                dim,
                embeddings_initializer=keras.initializers.RandomUniform(-small, small),
                dtype=dtype,
                name=name,
            )
            for name in ("center_embedding", "context_embedding")
        ]
        shape = (None,) if shared_negatives else ()
        center = keras.Input(shape, dtype="int32", name="center")  # (B,) or (B, S)
        context = keras.Input((None,), dtype="int32", name="context")  # (B, P)
        v, u = tables[0](center), tables[1](context)  # (B, D) or (B, S, D); (B, P, D)
        if shared_negatives:
            logits = ops.einsum("bsd,bpd->bsp", v, u)
        else:
            logits = ops.squeeze(ops.matmul(u, ops.expand_dims(v, -1)), -1)  # (B, P)
        super().__init__({"center": center, "context": context}, logits, locals())
        self.words = None if words is None else _checked(words, vocabulary_size)
        self._index = {word: i for i, word in enumerate(self.words or ())}
        # Never return rows of special tokens.
        self._hidden = np.array(
            [_SPECIAL.fullmatch(word) is not None for word in self.words or ()], bool
        )

    def compile(
        self, optimizer: Any = "rmsprop", loss: Any = None, **kwargs: Any
    ) -> None:
        resolved = keras.losses.get(loss) if isinstance(loss, str) else loss
        is_binary = isinstance(resolved, keras.losses.BinaryCrossentropy)
        is_binary |= resolved is keras.losses.binary_crossentropy
        if self.shared_negatives and is_binary:
            raise ValueError(
                "`loss` must be a `NegativeSamplingLoss` with shared negatives, whose "
                f"labels are weights. Received: loss={loss!r}"
            )
        super().compile(optimizer, loss, **kwargs)

    @classmethod
    def from_vectors(cls, words: Iterable[str], vectors: np.ndarray) -> Self:
        """Creates a model from pretrained vectors, as read by `load_vectors`.

        The context vectors u are not trained yet.

        Args:
            words: V words.
            vectors: (V, D), one vector per word.

        Raises:
            ValueError: if the numbers of words and vectors differ.
        """
        words, vectors = tuple(words), np.asarray(vectors)
        if vectors.ndim != 2 or len(vectors) != len(words):
            raise ValueError(
                "`vectors` must have a row for each word. Received: "
                f"vectors.shape={vectors.shape}, {len(words)} words"
            )
        count, dim = vectors.shape
        model = cls(count, dim, words)
        model.get_layer("center_embedding").embeddings.assign(vectors)
        return model

    def vectors(self) -> np.ndarray:
        """Returns the vectors v of all words, (V, D) float32."""
        return _vectors(self, "center_embedding")

    def nearest(self, word: str | Sequence[str], count: int = 10) -> list[Any]:
        """Finds the words with the most similar vectors.

        Args:
            word: one of the model's words, or a list of them.
            count: the maximum number of words to return.

        Returns:
            Words with their cosines, the nearest first, without the word itself; a list
            of such lists for a list.

        Raises:
            ValueError: if the word has no vector, the model was made without `words`,
                or the count is below 1.
        """

        def near(word: str) -> list[tuple[str, float]]:
            indices = self._find(word)
            return self._around(self.vectors()[indices[0]], count, indices)

        return for_each("word", word, near)

    def analogy(
        self, a: str, b: str, c: str, count: int = 1
    ) -> list[tuple[str, float]]:
        """Completes "a is to b as c is to …": *man*, *king*, *woman* give *queen*.

        Args:
            a: a word.
            b: the word that a is related to.
            c: the word to find the counterpart of.
            count: the maximum number of answers.

        Returns:
            Words with their cosines to b − a + c, the nearest first, without a, b and
            c.

        Raises:
            ValueError: as in `nearest`.
        """
        indices = self._find(a, b, c)
        corner = similarity.parallelogram(*self.vectors()[indices])
        return self._around(corner, count, indices)

    def _find(self, *words: str) -> list[int]:
        """Returns the indices of words."""
        if self.words is None:
            raise ValueError(
                "`words` must be given to `SkipGram`, the V words in the order of "
                "their indices, to look up a word. Received: words=None"
            )
        for word in words:
            index = self._index.get(word)
            if index is None or self._hidden[index]:
                raise ValueError(
                    "The word must be one of the model's "
                    f"{(~self._hidden).sum()} words. There is no vector of: {word!r}"
                )
        return [self._index[word] for word in words]

    def _around(
        self, query: Tensor, count: int, left_out: list[int]
    ) -> list[tuple[str, float]]:
        """Finds the words nearest to a vector (D,), except the given ones."""
        hidden = self._hidden.copy()
        hidden[left_out] = True
        count = min(positive("count", count), int((~hidden).sum()))
        if not count:
            return []
        cosines, rows = similarity.nearest_rows(query, self.vectors(), count, hidden)
        assert self.words is not None  # checked by _find
        return [
            (self.words[row], float(cosine))
            for row, cosine in zip(
                ops.convert_to_numpy(rows), ops.convert_to_numpy(cosines)
            )
        ]


def _checked(words: Iterable[str], count: int) -> tuple[str, ...]:
    """Returns the words; raises a ValueError unless they are `count` unique strings."""
    strings = (words,) if isinstance(words, str) else tuple(words)
    if len(strings) != count or len({*strings}) != count:
        raise ValueError(
            "`words` must be `vocabulary_size` distinct strings. Received: "
            f"vocabulary_size={count}, {len(strings)} words, {len({*strings})} distinct"
        )
    for word in strings:
        if not isinstance(word, str):
            raise ValueError(f"`words` must be strings. Received: {word!r} among them")
    return strings
