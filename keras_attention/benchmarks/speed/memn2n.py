"""One training step of MemN2N, ours against the same model plainly in torch.

Both have null memories: `memory_size` is the number of slots of the stories, of which
a story fills some.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from keras_attention.benchmarks.harness import (
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
CALLS = ("train_function", "train_on_batch")
PEER = "torch, plain"


def cases() -> tuple[Case, ...]:
    """The bAbI settings; each with Keras' compiled step, and with all around it.

    `call=train_function` is the compiled step on tensors that are ready;
    `call=train_on_batch` adds what Keras does around it on NumPy arrays.
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
        needs=("torch",),
    )


def _steps(sizes: dict[str, Any]) -> tuple[Step, ...]:
    """Lookups forwards and backwards, the hops' products thrice, the update.

    A product costs as much again for the gradient of each of its factors.
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
        Step(0, 3 * parameters),  # read, read the gradient, write
    )


def batch_of(sizes: dict[str, Any], seed: int = SEED) -> tuple[np.ndarray, ...]:
    """Random stories of unequal lengths: story, question, answer as int32.

    Every sentence has L words: then the plain model may take one table of the
    position encoding for all of them, which is its fastest way.
    """
    generator = np.random.default_rng(seed)
    batch, vocabulary, slots, words = (sizes[k] for k in "BVML")
    story = generator.integers(1, vocabulary, (batch, slots, words))
    story *= np.arange(slots)[:, None] < generator.integers(2, slots + 1, (batch, 1, 1))
    question = generator.integers(1, vocabulary, (batch, words))
    answer = generator.integers(1, vocabulary, (batch,))
    return tuple(array.astype("int32") for array in (story, question, answer))


def _make(sizes: dict[str, Any], backend: str) -> Contestants:
    story, question, answer = batch_of(sizes)
    ours = _Ours(sizes, backend, {"story": story, "question": question}, answer)
    peer = _Peer(ours.tables(), story, question, answer)

    def check() -> dict[str, float]:
        """The same logits before a step and after it."""
        worst = 0.0
        try:
            for stepped in (False, True):
                if stepped:
                    ours.step()
                    peer.step()
                pair = ({"logits": ours.logits()}, {"logits": peer.logits()})
                worst = max(worst, largest_difference(*pair, TOLERANCE))
        except NumericsError as error:
            raise NumericsError(f"ours against {PEER}: {error}") from error
        return {PEER: worst}

    return Contestants(calls={"ours": ours.step, PEER: peer.step}, check=check)


def _array(variable: Any) -> np.ndarray:
    """A copy of a variable's value."""
    from keras import ops

    return np.array(ops.convert_to_numpy(variable))


class _Ours:
    """Our model, compiled as its users would, with a step to be called."""

    def __init__(
        self,
        sizes: dict[str, Any],
        backend: str,
        inputs: dict[str, np.ndarray],
        answer: np.ndarray,
    ) -> None:
        import keras

        from keras_attention.models import MemN2N

        keras.utils.set_random_seed(SEED)
        self.model = MemN2N(
            vocabulary_size=sizes["V"],
            embedding_dim=sizes["d"],
            hops=HOPS,
            memory_size=sizes["M"],
        )
        self.model.compile(
            keras.optimizers.SGD(RATE, clipnorm=CLIP),
            keras.losses.SparseCategoricalCrossentropy(
                from_logits=True, reduction="sum"
            ),
        )
        self.inputs, self.answer = inputs, answer
        weights = [_array(weight) for weight in self.model.weights]
        self.model.train_on_batch(inputs, answer)  # makes and compiles the step
        self.model.set_weights(weights)
        self._state: Any = None
        if sizes["call"] == "train_on_batch":
            self.step = lambda: self.model.train_on_batch(inputs, answer)
        else:
            convert = keras.ops.convert_to_tensor
            tensors = {name: convert(array) for name, array in inputs.items()}
            self.data = (tensors, convert(answer), None)
            steps = {
                "jax": self._jax_step,
                "tensorflow": lambda: self.model.train_function(iter([self.data])),
                "torch": lambda: self.model.train_function([self.data]),
            }
            self.step = steps[backend]

    def tables(self) -> tuple[list[np.ndarray], ...]:
        """Word tables and time tables, as arrays."""
        layers = [self.model.get_layer(f"encoder_{k}") for k in range(HOPS + 1)]
        times = [self.model.get_layer(f"encoder_{k}_time") for k in range(HOPS + 1)]
        return tuple(
            [_array(layer.weights[0]) for layer in group] for group in (layers, times)
        )

    def logits(self) -> np.ndarray:
        """Logits (B, V) with the weights as they are now."""
        if self._state is not None:
            variables = self.model.trainable_variables
            for variable, value in zip(variables, self._state[0], strict=True):
                variable.assign(value)
            self._state = None
        return self.model.predict_on_batch(self.inputs)

    def _jax_step(self) -> Any:
        """The stateless step of Keras on JAX, its state carried along."""
        if self._state is None:
            self._state = self._jax_state()
        logs, self._state = self.model.train_function(self._state, iter([self.data]))
        return logs, self._state[0]

    def _jax_state(self) -> Any:
        """Copies, because the compiled step gives its arguments' memory away."""
        import jax.numpy as jnp

        model = self.model
        return tuple(
            [jnp.copy(variable.value) for variable in variables]
            for variables in (
                model.trainable_variables,
                model.non_trainable_variables,
                model.optimizer.variables,
                model.metrics_variables,
            )
        )


class _Peer:
    """The plain model with the same weights."""

    def __init__(
        self,
        tables: tuple[Any, ...],
        story: np.ndarray,
        question: np.ndarray,
        answer: np.ndarray,
    ) -> None:
        import torch

        from keras_attention.benchmarks.speed import memn2n_torch

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
