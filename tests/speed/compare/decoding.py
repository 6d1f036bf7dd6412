"""Generation of 64 tokens by a Seq2Seq, with our samplers and KerasHub's.

Both use the same model without a stop token, so both take 64 steps. KerasHub's code
compiles the peer in the same way as KerasHub's language models: with `jax.jit`, with
`tf.function` and XLA, or on torch only with `no_grad`. Inputs and outputs are NumPy
arrays.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from speed.harness import (
    SEED,
    Case,
    Contestants,
    NumericsError,
    Step,
    largest_difference,
)

PEER, FLOAT = "keras_hub", 4
START = 2
SAMPLERS = {"greedy": {}, "top_k": {"k": 5}, "beam": {"num_beams": 5}}
SIZES = (
    {"B": 16, "T": 64, "S": 32, "U": 128, "V": 1000},
    {"B": 16, "T": 64, "S": 32, "U": 256, "V": 4000},
)


def cases() -> tuple[Case, ...]:
    """Returns a case for each sampler with a small and a larger model (U equals D)."""
    return tuple(_case({"sampler": n, **sizes}) for sizes in SIZES for n in SAMPLERS)


def _case(sizes: dict[str, Any]) -> Case:
    return Case(
        name="decoding",
        sizes=sizes,
        make=lambda backend: _Race(sizes, backend).contestants(),
        steps=_steps(sizes),
        tolerance=0.0,
        quick=sizes["U"] == min(s["U"] for s in SIZES),
        amount=(sizes["B"] * sizes["T"], "tokens"),
        needs=(PEER,),
    )


def _steps(sizes: dict[str, Any]) -> tuple[Step, ...]:
    """Counts the products of the bidirectional encoder and of each step."""
    batch, tokens, words, units, size = (sizes[name] for name in "BTSUV")
    rows = batch * SAMPLERS[sizes["sampler"]].get("num_beams", 1)

    def product(many: int, rows: int, inner: int, columns: int) -> Step:
        moved = many * (inner * columns + rows * inner + rows * columns)
        flops = 2 * many * rows * inner * columns
        return Step(flops, FLOAT * moved, (many, rows, inner, columns))

    encoder = (product(1, batch, 2 * units, 3 * units),)
    keys = (product(1, batch * words, 2 * units, units),)
    step = (
        product(1, rows, units, units),  # the query
        Step(5 * rows * words * units, FLOAT * rows * words * units),  # tanh, and v
        product(rows, 1, words, 2 * units),  # the context
        product(1, rows, 4 * units, 3 * units),  # the cell
        product(1, rows, 3 * units, size),  # the logits
    )
    return (*(2 * words * encoder), *keys, *(tokens * step))


class _Race:
    """A model with our generation function and KerasHub's."""

    def __init__(self, sizes: dict[str, Any], backend: str) -> None:
        import keras
        import keras_hub

        from keras_attention import samplers
        from keras_attention.models import Seq2Seq

        self.sizes, self.backend = sizes, backend
        units, size = sizes["U"], sizes["V"]
        keras.utils.set_random_seed(SEED)
        self.model = Seq2Seq(size, size, embedding_dim=units, units=units)
        for weight in self.model.weights:  # so that sequences differ more
            weight.assign(2 * keras.ops.convert_to_tensor(weight))
        generator = np.random.default_rng(SEED)
        shape = (sizes["B"], sizes["S"])
        self.source = generator.integers(4, size, shape).astype("int32")
        name = sizes["sampler"]
        arguments = SAMPLERS[name]
        self.sampler = samplers.KNOWN[name](**arguments)
        self.greedy = samplers.GreedySampler()
        theirs = {
            "greedy": keras_hub.samplers.GreedySampler,
            "top_k": keras_hub.samplers.TopKSampler,
            "beam": keras_hub.samplers.BeamSampler,
        }
        self.peer = _Peer(self.model, theirs[name](**arguments))
        self.greedy_peer = _Peer(self.model, theirs["greedy"]())

    def contestants(self) -> Contestants:
        """Returns our full `generate` call and the peer's."""
        return Contestants({"ours": self.ours, PEER: self.theirs}, check=self.check)

    def ours(self) -> np.ndarray:
        return self.model.generate(
            self.source, self.sizes["T"], self.sampler, START, stop_token_ids=None
        )

    def theirs(self) -> np.ndarray:
        return self.peer(self.source, self.sizes["T"])

    def check(self) -> dict[str, float]:
        """Checks that deterministic samplers agree and nothing is compiled again."""
        greedy = self.model.generate(
            self.source, self.sizes["T"], self.greedy, START, stop_token_ids=None
        )
        pairs = [(greedy, self.greedy_peer(self.source, self.sizes["T"]))]
        if self.sizes["sampler"] == "beam":
            pairs.append((self.ours(), self.theirs()))
        try:
            for ours, theirs in pairs:
                largest_difference({"tokens": ours}, {"tokens": theirs}, 0.0)
        except NumericsError as error:
            raise NumericsError(f"ours against {PEER}: {error}") from error
        self._check_compilations()
        return {PEER: 0.0}

    def _check_compilations(self) -> None:
        """Checks that other lengths in the same buckets cause no new tracing."""
        traced: list[int] = []
        begin = self.model.begin

        def counted(inputs: Any) -> Any:
            traced.append(1)
            return begin(inputs)

        object.__setattr__(self.model, "begin", counted)
        try:
            # A changed attribute of the model compiles once.
            for source, target in ((32, 64), (30, 64), (32, 71), (27, 79)):
                self.model.generate(
                    self.source[:, :source], target, self.sampler, START, None
                )
        finally:
            object.__delattr__(self.model, "begin")
        if len(traced) != 1 and self.backend != "torch":
            raise NumericsError(f"compiled {len(traced)} times in one bucket, not once")


class _Peer:
    """The model interface that KerasHub needs for compiled generation."""

    run_eagerly = False
    generate_function: Any = None

    def __init__(self, model: Any, sampler: Any) -> None:
        import keras_hub

        self.model, self.sampler = model, sampler
        self.trainable_variables = model.trainable_variables
        self.non_trainable_variables = model.non_trainable_variables
        self.jit_compile = getattr(model, "jit_compile", True)
        make = keras_hub.models.CausalLM.make_generate_function
        self.generate_function = make(self)

    def generate_step(self, inputs: dict[str, Any], stop_token_ids: Any = None) -> Any:
        from keras import ops

        from keras_attention.models.base.generation import as_hub

        prompt = ops.convert_to_tensor(inputs["prompt"])
        cache, static = self.model.begin({"source": inputs["source"]})
        step, cache = as_hub(self.model.next, cache, static)
        return self.sampler(
            step,
            prompt,
            cache=cache,
            index=1,
            mask=ops.zeros_like(prompt, dtype="bool"),
            stop_token_ids=stop_token_ids,
            model=self.model,
        )

    def __call__(self, source: np.ndarray, count: int) -> np.ndarray:
        from keras import ops

        prompt = np.zeros((len(source), 1 + count), "int32")
        prompt[:, 0] = START
        found = self.generate_function({"source": source, "prompt": prompt})
        return ops.convert_to_numpy(found)[:, 1:]
