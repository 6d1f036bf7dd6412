"""Token masking for masked language models, with KerasHub's mask generator.

Shapes: B batch, T tokens, P mask positions.
"""

from __future__ import annotations

from typing import Any

from keras_attention.layers.base.arguments import positive
from keras_attention.text.tensorflow_text.subwords import require
from keras_attention.text.vocabulary import END

Tensor = Any


class TokenMasking:
    """Masks some tokens of each sequence to train a `MaskedLM`.

    In each sequence, a fraction `rate` of the words is selected. The number is rounded
    up and is at most P. Of the selected words, 80 % become the mask token, 10 % become
    a random word, and 10 % stay unchanged. The model therefore cannot rely on the mask
    token alone.

    Use it in a `tf.data` pipeline, which can feed a model on any backend:

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

    TensorFlow samples the masks of a batch's rows in parallel. After
    `keras.utils.set_random_seed`, runs usually give the same masks, but the order of
    the rows may vary on a busy machine. `cache()` after the map keeps the first masks.
    With a seed, a pipeline without `repeat` repeats the same masks in each epoch.

    Args:
        vocabulary_size: the number of tokens of the model, including the mask token.
        places: P, the maximum number of masked tokens per sequence.
        rate: the fraction of a sequence's words to mask.
        mask_token_id: the index of the mask token. Defaults to the last index, which
            follows the vocabulary's own tokens. A special token is also allowed.
        special: tokens below this index are never masked and never used as random
            words. Defaults to the four special tokens of `Subwords` (padding, unknown,
            start, end).
        mask_token_rate: the fraction of selected words that become the mask token.
        random_token_rate: the fraction of selected words that become a uniformly random
            word.

    Call arguments:
        tokens: integers (B, T), or (T,) for one sequence, padded with 0 at the end. In
            a dict of inputs, such as that of `pack`, "tokens" are masked; the other
            entries are returned unchanged.

    Returns:
        `(inputs, labels, sample_weight)` for `fit`. Inputs are a dict of "tokens" int32
        (B, T) and "mask_positions" int32 (B, P); labels are the original tokens, int32
        (B, P); weights are float32 (B, P). With fewer than P masked tokens, positions,
        labels and weights end in 0. All positions are below T. The outputs are tensors
        in a pipeline, otherwise NumPy arrays.

    Raises:
        ImportError: a package of the extra `text` is missing.
        ValueError: a size is below 1, a rate is not from 0 to 1, there are no words
            besides the special tokens, or the mask token is a regular word.

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
        # The generator sees shifted indices in which words start at 0, so it never
        # samples a special token. Special tokens and the mask token are negative there.
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
        if isinstance(tokens, dict):
            inputs, labels, weights = self(tokens["tokens"])
            return {**tokens, **inputs}, labels, weights
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
        example = {"tokens": masked, "mask_positions": positions}, labels, weights
        if not tf.executing_eagerly():
            return example
        return tf.nest.map_structure(lambda x: x.numpy(), example)

    def _mask(self, tokens: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Returns masked tokens, positions, labels and weights for tokens (B, T)."""
        tf = self._tf
        generated = self._generator(tokens - self.special)
        masked, positions, labels, weights = (
            generated[name]
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
