"""Tokens hidden for a masked language model, by KerasHub's generator.

Shapes: B batch, T tokens, P places that are asked for.
"""

from __future__ import annotations

from typing import Any

from keras_attention.layers.base.arguments import positive
from keras_attention.text.packages import require
from keras_attention.text.subwords import END

Tensor = Any


class TokenMasking:
    """Hides some tokens of each sequence, for a `MaskedLM` to find.

    Of each sequence's words a fraction `rate` is chosen, rounded up, at most P. Of the
    chosen ones 80 % become the mask token, 10 % another word, and 10 % stay as they
    are, so that the model cannot tell by the mask token alone where to look.

    It is meant for a `tf.data` pipeline, which feeds a model on any backend:

    ```python
    texts = ["Two dogs are running.", ...]
    subwords = Subwords.from_sentences(texts, size=4000)
    start, end = subwords.start_token_id, subwords.end_token_id
    rows = [[start, *row[:62], end] for row in subwords.encode_all(texts)]
    tokens = keras.utils.pad_sequences(rows, maxlen=64, padding="post")

    model = MaskedLM(len(subwords) + 1, max_length=64)
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    masking = TokenMasking(len(subwords) + 1, places=12)
    batches = tf.data.Dataset.from_tensor_slices(tokens).shuffle(10_000).batch(64)
    hidden = batches.repeat().map(masking)
    model.fit(hidden, steps_per_epoch=len(batches), epochs=10, shuffle=False)
    ```

    The draws are TensorFlow's, which makes those of a batch's rows side by side: after
    `keras.utils.set_random_seed` they are alike from run to run, but not for certain
    the same, since on a busy machine another row may draw first. `cache()` behind the
    map keeps one draw. With a seed, a pipeline without `repeat` begins the same draws
    again in each epoch.

    Args:
        vocabulary_size: the number of tokens of the model, the mask token included.
        places: P, how many tokens of a sequence are hidden at most.
        rate: which fraction of a sequence's words is hidden.
        mask_token_id: the last token, which a vocabulary of one less has free behind
            its own, by default; or one of the special ones.
        special: tokens below it are never hidden, nor put in the place of another: by
            default the four of `Subwords` (padding, unknown, start, end).
        mask_token_rate: how many of those that are hidden become the mask token.
        random_token_rate: how many become another word, drawn from all alike.

    Call arguments:
        tokens: integers (B, T), or (T,) for one sequence; 0 is padding, behind it.

    Returns:
        `(inputs, labels, sample_weight)`, as `fit` takes them: inputs are a dict of
        "tokens" int32 (B, T) and "mask_positions" int32 (B, P); labels, what stood
        there, int32 (B, P); weights float32 (B, P). Where fewer than P are hidden,
        positions, labels and weights end in 0; all positions are below T. In a
        pipeline they are tensors, else NumPy arrays.

    Raises:
        ImportError: a package of the extra `text` is missing.
        ValueError: a size is below 1, a rate is not from 0 to 1, there are no words
            beside the special tokens, or the mask token is one of the words.

    Example:

    ```python
    tokens = [[5, 6, 7, 8, 9, 0, 0]]
    inputs, labels, weights = TokenMasking(11, places=2, rate=0.4)(tokens)
    inputs["tokens"]          # [[ 5, 10,  7,  8, 10,  0,  0]], for instance
    inputs["mask_positions"]  # [[1, 4]]
    labels                    # [[6, 9]]
    ```

    Reference:
        Devlin et al., "BERT: pre-training of deep bidirectional Transformers for
        language understanding" (2019), section 3.1, task 1.
    """

    def __init__(
        self,
        vocabulary_size: int,
        places: int,
        rate: float = 0.15,
        mask_token_id: int | None = None,
        special: int = END + 1,
        mask_token_rate: float = 0.8,
        random_token_rate: float = 0.1,
    ) -> None:
        last = positive("vocabulary_size", vocabulary_size) - 1
        self.places = positive("places", places)
        self.special = positive("special", special)
        self.mask_token_id = last if mask_token_id is None else mask_token_id
        inside = 0 < self.mask_token_id < special
        if not inside and self.mask_token_id != last:
            raise ValueError(
                "`mask_token_id` must be the last token, or a special one that is not "
                f"padding. Received: mask_token_id={mask_token_id}, special={special}, "
                f"vocabulary_size={vocabulary_size}"
            )
        words = last + inside - special
        if words < 1:
            raise ValueError(
                "`vocabulary_size` must leave a word beside the special tokens. "
                f"Received: vocabulary_size={vocabulary_size}, special={special}"
            )
        _check_rates(rate, mask_token_rate, random_token_rate)
        self._tf = tf = require("tensorflow")
        hub = require("keras_hub")
        # Words are counted from 0 on while the generator draws among them, so that it
        # draws no special token; those, and the mask token, are then below 0.
        self._generator = hub.layers.MaskedLMMaskGenerator(
            vocabulary_size=words,
            mask_selection_rate=rate,
            mask_token_id=-special - 1,
            mask_selection_length=places,
            unselectable_token_ids=[*range(-special, 0), self.mask_token_id - special],
            mask_token_rate=mask_token_rate,
            random_token_rate=random_token_rate,
        )
        signature = [tf.TensorSpec((None, None), "int32")]
        self._run = tf.function(self._mask, signature, autograph=False)

    def __call__(self, tokens: Any) -> tuple[dict[str, Any], Any, Any]:
        tf = self._tf
        tokens = tf.convert_to_tensor(tokens)
        if not tokens.dtype.is_integer or tokens.shape.rank not in (1, 2):
            raise ValueError(
                "`tokens` must be integers of shape (batch, length) or (length,). "
                f"Received: dtype={tokens.dtype.name}, shape={tokens.shape}"
            )
        rows = tf.reshape(tf.cast(tokens, "int32"), (-1, tf.shape(tokens)[-1]))
        masked, positions, labels, weights = self._run(rows)
        masked = tf.ensure_shape(tf.reshape(masked, tf.shape(tokens)), tokens.shape)
        if tokens.shape.rank == 1:
            positions, labels, weights = positions[0], labels[0], weights[0]
        else:
            shape = (tokens.shape[0], self.places)
            positions, labels, weights = (
                tf.ensure_shape(x, shape) for x in (positions, labels, weights)
            )
        found = {"tokens": masked, "mask_positions": positions}, labels, weights
        if not tf.executing_eagerly():
            return found
        return tf.nest.map_structure(lambda x: x.numpy(), found)

    def _mask(self, tokens: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Of (B, T): what is left, where something is hidden, what and whether."""
        tf = self._tf
        found = self._generator(tokens - self.special)
        masked, positions, labels, weights = (
            found[name]
            for name in ("token_ids", "mask_positions", "mask_ids", "mask_weights")
        )
        hidden = tf.equal(masked, -self.special - 1)
        masked = tf.where(hidden, self.mask_token_id, masked + self.special)
        weights = tf.cast(weights, "float32")
        labels = tf.where(weights > 0, tf.cast(labels, "int32") + self.special, 0)
        return masked, tf.cast(positions, "int32"), labels, weights


def _check_rates(rate: float, mask: float, other: float) -> None:
    rates = {"rate": rate, "mask_token_rate": mask, "random_token_rate": other}
    for name, value in rates.items():
        if not 0 <= value <= 1:
            raise ValueError(f"`{name}` must be from 0 to 1. Received: {name}={value}")
    if mask + other > 1:
        raise ValueError(
            "`mask_token_rate` and `random_token_rate` must sum to 1 at most. "
            f"Received: mask_token_rate={mask}, random_token_rate={other}"
        )
