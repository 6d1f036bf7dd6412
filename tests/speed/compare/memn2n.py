"""One training step of MemN2N, compared with the same model in plain torch.

Both have null memories: `memory_size` is the number of slots, and a story fills only
some of them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from speed.compare.training import CALLS, TrainingStep, array_of
from speed.harness import (
    SEED,
    Case,
    Contestants,
    NumericsError,
    Step,
    largest_difference,
)

HOPS, RATE, CLIP, FLOAT = 3, 0.01, 40.0, 4
TOLERANCE = 1e-4
SETTINGS = {
    "single": {"B": 32, "V": 22, "d": 20, "M": 10, "L": 7},
    "joint": {"B": 32, "V": 190, "d": 50, "M": 50, "L": 12},
}
PEER = "torch, plain"


def cases() -> tuple[Case, ...]:
    """Returns two cases for each bAbI setting: the compiled step, and Keras' full call.

    `call=train_function` is the compiled step on prepared tensors;
    `call=train_on_batch` adds Keras' processing of NumPy arrays.
    """
    return tuple(
        _case({"setting": setting, **sizes, "hops": HOPS, "call": call})
        for call in CALLS
        for setting, sizes in SETTINGS.items()
    )


def _case(sizes: dict[str, Any]) -> Case:
    return Case(
        name="memn2n_step",
        sizes=sizes,
        make=lambda backend: _make(sizes, backend),
        steps=_steps(sizes),
        tolerance=TOLERANCE,
        quick=sizes["call"] == "train_function",
        amount=(sizes["B"], "questions"),
        needs=("torch",),
    )


def _steps(sizes: dict[str, Any]) -> tuple[Step, ...]:
    """Counts lookups twice, products three times, and the update of the parameters.

    The gradient with respect to one factor costs as much as the product.
    """
    batch, vocabulary, width, slots, words = (sizes[k] for k in "BVdML")
    lookups = FLOAT * (HOPS + 1) * batch * slots * words * width
    parameters = FLOAT * (HOPS + 1) * (vocabulary + slots + 1) * width
    memory = 2 * batch * slots * width
    scores, sums = (batch, 1, width, slots), (batch, 1, slots, width)
    answer = Step(2 * batch * width * vocabulary, 0, (1, batch, width, vocabulary))
    return (
        Step(0, 2 * lookups),
        *(Step(memory, FLOAT * memory / 2, scores) for _ in range(3 * HOPS)),
        *(Step(memory, FLOAT * memory / 2, sums) for _ in range(3 * HOPS)),
        *(answer for _ in range(3)),
        Step(0, 3 * parameters),  # read the table, read the gradient, write the table
    )


def batch_of(
    sizes: dict[str, Any], seed: int = SEED, full: bool = False
) -> tuple[np.ndarray, ...]:
    """Samples stories of unequal lengths: story, question and answer, all int32.

    All sentences have L words. The plain model can thus use one table of the position
    encoding, which is the fastest method. If `full`, all stories have M sentences.
    """
    generator = np.random.default_rng(seed)
    batch, vocabulary, slots, words = (sizes[k] for k in "BVML")
    story = generator.integers(1, vocabulary, (batch, slots, words))
    if not full:
        lengths = generator.integers(2, slots + 1, (batch, 1, 1))
        story *= np.arange(slots)[:, None] < lengths
    question = generator.integers(1, vocabulary, (batch, words))
    answer = generator.integers(1, vocabulary, (batch,))
    return tuple(array.astype("int32") for array in (story, question, answer))


def _make(sizes: dict[str, Any], backend: str) -> Contestants:
    story, question, answer = batch_of(sizes)
    ours = _Ours(sizes, backend, {"story": story, "question": question}, answer)
    peer = _Peer(tables_of(ours.model), story, question, answer)

    def check() -> dict[str, float]:
        """Compares the logits of both models before and after a training step."""
        worst = 0.0
        try:
            for stepped in (False, True):
                if stepped:
                    ours.step()
                    peer.step()
                pair = ({"logits": ours.predict()}, {"logits": peer.logits()})
                worst = max(worst, largest_difference(*pair, TOLERANCE))
        except NumericsError as error:
            raise NumericsError(f"ours against {PEER}: {error}") from error
        return {PEER: worst}

    return Contestants(calls={"ours": ours.step, PEER: peer.step}, check=check)


def model_of(sizes: dict[str, Any]) -> Any:
    """Returns our model, compiled."""
    import keras

    from keras_attention.models import MemN2N

    keras.utils.set_random_seed(SEED)
    model = MemN2N(
        vocabulary_size=sizes["V"],
        embedding_dim=sizes["d"],
        hops=HOPS,
        memory_size=sizes["M"],
    )
    model.compile(
        keras.optimizers.SGD(RATE, clipnorm=CLIP),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="sum"),
    )
    return model


def tables_of(model: Any) -> tuple[list[np.ndarray], ...]:
    """Returns the word tables and the time tables of a model as arrays."""
    layers = [model.get_layer(f"encoder_{k}") for k in range(HOPS + 1)]
    times = [model.get_layer(f"encoder_{k}_time") for k in range(HOPS + 1)]
    return tuple(
        [array_of(layer.weights[0]) for layer in group] for group in (layers, times)
    )


class _Ours(TrainingStep):
    """Our model, compiled as users compile it, with its training step."""

    def __init__(
        self,
        sizes: dict[str, Any],
        backend: str,
        inputs: dict[str, np.ndarray],
        answer: np.ndarray,
    ) -> None:
        super().__init__(model_of(sizes), inputs, answer, backend, sizes["call"])


class _Peer:
    """The plain model with the same weights as ours."""

    def __init__(
        self,
        tables: tuple[Any, ...],
        story: np.ndarray,
        question: np.ndarray,
        answer: np.ndarray,
    ) -> None:
        import torch

        from speed.compare import memn2n_torch

        words, times = tables
        self._train_step = memn2n_torch.train_step
        self._no_grad = torch.no_grad
        self.model = memn2n_torch.PlainMemN2N(words, times, story.shape[-1])
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=RATE)
        self.inputs = [torch.from_numpy(x).long() for x in (story, question)]
        self.answer = torch.from_numpy(answer).long()

    def step(self) -> Any:
        return self._train_step(
            self.model, self.optimizer, self.inputs, self.answer, CLIP
        )

    def logits(self) -> np.ndarray:
        with self._no_grad():
            return self.model(*self.inputs).numpy()
