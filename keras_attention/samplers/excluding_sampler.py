"""Generation without some tokens, such as the unknown token.

Shapes: B batch, T tokens, V words of the vocabulary.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_attention.layers.base.serialization import export
from keras_attention.ops.sequence import decoding
from keras_attention.samplers.sampler import Request, Sampler, is_one_of

Tensor = Any
Structure = Any


@export
class ExcludingSampler(Sampler):
    """Generates with another sampler, which never selects the excluded tokens.

    The logits of the excluded tokens become −∞, so the probabilities of the other
    tokens sum to 1. For call arguments and return values, see `Sampler`.

    Args:
        sampler: the other sampler, one of this package, or its config.
        tokens: the excluded tokens, integers.

    Raises:
        ValueError: if `sampler` is not a sampler of this package, `tokens` is empty or
            has other values than integers of at least 0; in a call, if an excluded
            token is outside the vocabulary or a stop token, or all tokens are excluded.

    Example:

    ```python
    sampler = ExcludingSampler(BeamSampler(5), tokens=[1])  # 1: the unknown token
    model.generate(source, sampler=sampler)
    ```
    """

    def __init__(self, sampler: Any, tokens: Any) -> None:
        if isinstance(sampler, dict):
            sampler = keras.saving.deserialize_keras_object(sampler)
        if not isinstance(sampler, Sampler):
            raise ValueError(
                "`sampler` must be a sampler of `keras_attention.samplers`. "
                f"Received: sampler={sampler!r}"
            )
        self.sampler = sampler
        self.tokens = _excluded(tokens)

    def search(self, request: Request) -> Any:
        stops = sorted(set(self.tokens) & set(request.stop_tokens))
        if stops:
            raise ValueError(
                "`stop_token_ids` must not contain excluded tokens. "
                f"Received: {stops}, which are excluded"
            )

        def without(
            prompt: Tensor, cache: Structure, index: Any, static: Structure
        ) -> tuple[Tensor, Structure]:
            logits, cache = request.next(prompt, cache, index, static)
            size = logits.shape[-1]
            decoding.check_tokens("tokens", self.tokens, size)
            if len(self.tokens) == size:
                raise ValueError(
                    "`tokens` must not exclude the whole vocabulary. "
                    f"Received: tokens={list(self.tokens)}, {size} tokens in all"
                )
            excluded = is_one_of(ops.arange(size), self.tokens)  # (V,)
            return ops.where(excluded, float("-inf"), logits), cache

        return self.sampler.search(request._replace(next=without))

    def draw(self, batch: Any, length: Any, seed: int | None = None) -> Tensor | None:
        return self.sampler.draw(batch, length, seed)

    @property
    def variables(self) -> list:
        return self.sampler.variables

    @property
    def return_all_beams(self) -> bool:
        """Whether a beam search returns all beams of a row."""
        return bool(getattr(self.sampler, "return_all_beams", False))

    @property
    def key(self) -> Hashable:
        return type(self), self.tokens, self.sampler.key

    def get_config(self) -> dict[str, Any]:
        return {
            "sampler": keras.saving.serialize_keras_object(self.sampler),
            "tokens": list(self.tokens),
        }


def _excluded(tokens: Any) -> tuple[int, ...]:
    """Returns the tokens in order without duplicates, or raises a ValueError."""
    ids = np.asarray([] if isinstance(tokens, str) else list(tokens))
    if ids.ndim != 1 or ids.dtype.kind not in "iu" or (ids < 0).any():
        raise ValueError(
            "`tokens` must be one or more integers of at least 0. "
            f"Received: tokens={tokens!r}"
        )
    return tuple(sorted({int(token) for token in ids}))
