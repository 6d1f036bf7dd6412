"""Images to the input of a captioner, and its words to captions.

Shapes: B images of H rows, W columns and C channels.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from keras import ops

from keras_attention.layers.base.arguments import positive
from keras_attention.layers.base.serialization import export
from keras_attention.models.base.preset_folder import Preprocessor
from keras_attention.presets.preprocessors.running import scored
from keras_attention.presets.preprocessors.sentences import check_vocabulary, written
from keras_attention.presets.preprocessors.vocabularies import VOCABULARY
from keras_attention.text import Vocabulary


@export
class CaptionPreprocessor(Preprocessor):
    """Turns images into the input of an `ImageCaptioner`, and its words into captions.

    Args:
        vocabulary: a `text.Vocabulary` of the words of captions.
        image_shape: H, W and C of an image.
        max_length: the maximum number of words of a caption.
        low: the lowest value of a pixel.
        high: the highest value of a pixel.

    Raises:
        ValueError: a size is below 1, `image_shape` has not three sizes, `low` is not
            below `high`, or `vocabulary` is not of that class.
    """

    _assets = VOCABULARY

    def __init__(
        self,
        vocabulary: Vocabulary,
        image_shape: Sequence[int],
        max_length: int,
        low: float = 0.0,
        high: float = 1.0,
    ) -> None:
        self.vocabulary = check_vocabulary("vocabulary", vocabulary)
        if len(image_shape) != 3:
            raise ValueError(
                "`image_shape` must be rows, columns and channels. "
                f"Received: image_shape={image_shape!r}"
            )
        self.image_shape = tuple(positive("image_shape", n) for n in image_shape)
        self.max_length = positive("max_length", max_length)
        if not low < high:
            raise ValueError(
                f"`low` must be below `high`. Received: low={low}, high={high}"
            )
        self.low, self.high = float(low), float(high)

    def encode(self, images: Any) -> dict[str, np.ndarray]:
        """Returns the input "image" (B, H, W, C) float32.

        Args:
            images: (H, W, C) or (B, H, W, C); with one channel also (H, W) or (B, H,
                W). Pixels are between `low` and `high`.

        Raises:
            ValueError: the array has another shape, or other values.
        """
        return {"image": self._batch(images)[0]}

    def caption(self, model: Any, images: Any, return_scores: bool = False) -> Any:
        """Returns the caption of an image, or a list with that of each image."""
        batch, is_one = self._batch(images)
        tokens = model.generate(
            batch, max_length=self.max_length, sampler=written("greedy")
        )
        captions: list[Any] = [self.vocabulary.decode(row) for row in tokens]
        if return_scores:
            starts = [[self.vocabulary.start_token_id]] * len(tokens)
            captions = scored(captions, model, {"image": batch}, starts, tokens)
        return captions[0] if is_one else captions

    @property
    def model_sizes(self) -> dict[str, int]:
        return {"target_vocabulary_size": len(self.vocabulary)}

    def _batch(self, images: Any) -> tuple[np.ndarray, bool]:
        """Returns images (B, H, W, C), and whether one image was given."""
        array = np.asarray(ops.convert_to_numpy(images))
        shape, single = array.shape, [self.image_shape]
        if self.image_shape[2] == 1:
            single.append(self.image_shape[:2])
        is_one = shape in single
        if array.dtype.kind not in "fiu" or not (
            is_one or (shape[1:] in single and shape[0])
        ):
            shapes = " or ".join(map(str, single))
            raise ValueError(
                f"`images` must be numbers of the shape {shapes}, or several such "
                f"images. Received: images.shape={shape}, dtype={array.dtype}"
            )
        batch = array.reshape((-1, *self.image_shape)).astype("float32")
        if not ((batch >= self.low) & (batch <= self.high)).all():
            raise ValueError(
                f"`images` must have pixels from {self.low:g} to {self.high:g}. "
                f"Received: pixels from {batch.min():g} to {batch.max():g}"
            )
        return batch, is_one
