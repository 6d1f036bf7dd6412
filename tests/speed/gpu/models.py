"""Training steps of small models, whole models, and what no peer has.

The cases of `speed.compare` are measured at the sizes of a GPU. The small models run
with replayed steps ("ours"), without, and on torch also as CUDA graphs.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from functools import partial
from typing import Any

import keras
import numpy as np
from keras import ops

from speed.compare import (
    additive,
    attention_rnn,
    backends,
    dnc,
    fast_weights,
    generation,
    hopfield,
    memn2n,
    retrieval,
)
from speed.compare.training import TrainingStep, array_of, trace_steps
from speed.gpu import layers, timing
from speed.gpu.masks import relative_error
from speed.gpu.timing import KERAS, TORCH, Side
from speed.harness import SEED, Contestants, Step, largest_difference

Sides = dict[str, Callable[[], Side]]
TOLERANCE = 1e-3  # of the outputs of small models, in float32
LOSS = 0.01  # largest relative difference of the losses of language models


def steps(sizes: Any) -> tuple[Step, ...]:
    """Returns the work of a call, for the floor."""
    return CASES[sizes["model"]][1](sizes)


def make(backend: str, sizes: Any) -> Sides:
    """Returns functions that build the sides of a row."""
    return CASES[sizes["model"]][0](backend, sizes)


def _from(make: Callable[[Any, str], Contestants]) -> Callable[[str, Any], Sides]:
    """Returns a function that makes the sides of a case of `speed.compare`."""

    def sides(backend: str, sizes: Any) -> Sides:
        case = make(sizes, backend)

        @functools.cache
        def errors() -> dict[str, float]:
            if case.check is not None:
                return case.check()
            results = {n: backends.to_numpy(call()) for n, call in case.calls.items()}
            ours = results.pop("ours")
            return {
                n: largest_difference(ours, x, TOLERANCE) for n, x in results.items()
            }

        def side(name: str) -> Side:
            if name == "ours":  # where it differs from a peer, the peer has the error
                return Side(case.calls[name])
            return Side(case.calls[name], lambda: errors().get(name, float("nan")))

        return {name: partial(side, name) for name in case.calls}

    return sides


def _generation(backend: str, sizes: Any) -> Sides:
    """Generation with a cache, beside Hugging Face's model on torch."""
    generation.SIZES.update({name: sizes[name] for name in generation.SIZES})

    def side(name: str) -> Side:
        race = generation.Race(name)
        return Side(race.calls[name or "ours"], lambda: race.check()[name])

    sides: Sides = {"ours": partial(side, "")}
    if backend == "torch" and importlib.util.find_spec("transformers"):
        sides["transformers"] = partial(side, "transformers")
    return sides


def _training(backend: str, make: Callable[[str], TrainingStep], *peers: str) -> Sides:
    """Returns the sides of a training step, compared with the peer or the first one.

    `make` returns a `TrainingStep` for the name of a side.
    """
    names = [*timing.replayed_sides(backend), *peers]
    last = peers[-1] if peers else names[0]

    @functools.cache
    def step(name: str) -> TrainingStep:
        with timing.graphs(name):
            made = make(name)
            for _ in range(3 if backend == "torch" else 0):
                made()
        if name == timing.GRAPHS:
            timing.check_graphs(made.trained._replayer)
        return made

    @functools.cache
    def outputs(name: str) -> dict[str, np.ndarray]:
        before = step(name).predict()
        step(name)()
        return {"output": before, "output after a step": step(name).predict()}

    def check(name: str) -> float:
        if name == last:  # which the others are compared with
            return float("nan")
        return largest_difference(outputs(name), outputs(last), TOLERANCE)

    def side(name: str) -> Side:
        return Side(step(name), partial(check, name))

    return {name: partial(side, name) for name in names}


def _memn2n(backend: str, sizes: Any) -> Sides:
    story, question, answer = memn2n.batch_of(sizes)
    inputs = {"story": story, "question": question}

    def make(name: str) -> TrainingStep:
        model = memn2n.model_of(sizes)
        model.run_eagerly = name == timing.EAGER
        return TrainingStep(model, inputs, answer, backend)

    return _training(backend, make)


def _attention_rnn(backend: str, sizes: Any) -> Sides:
    inputs, targets = attention_rnn.arrays_of(sizes)

    def model_of(name: str) -> Any:
        keras.utils.set_random_seed(SEED)
        layer = attention_rnn._layers(sizes["U"])[name]
        return attention_rnn._model(layer, inputs, "default")

    def make(name: str) -> TrainingStep:
        model = model_of("ours")
        if name == attention_rnn.PEER:
            ours, model = model, model_of(name)
            attention_rnn._share_weights(ours, model)
        replayed = backend == "torch" and name in ("ours", timing.GRAPHS)
        return TrainingStep(model, inputs, targets, backend, replayed=replayed)

    return _training(backend, make, attention_rnn.PEER)


def _dnc(backend: str, sizes: Any) -> Sides:
    inputs, targets = dnc.arrays_of(sizes)

    def make(name: str) -> TrainingStep:
        return dnc._ours(sizes, inputs, targets, backend, replayed=name != timing.EAGER)

    return _training(backend, make)


def _fit(backend: str, sizes: Any) -> Sides:
    """`fit` of language models with the same weights, on the same tokens."""
    random = np.random.default_rng(SEED)
    shape = (sizes["B"] * sizes["N"], sizes["T"] + 1)
    tokens = random.integers(1, sizes["V"], shape).astype("int32")
    inputs, labels = tokens[:, :-1], np.ascontiguousarray(tokens[:, 1:])
    losses: dict[str, float] = {}

    def build(name: str) -> Side:
        model = _causal_lm(sizes)
        if name == TORCH:
            run = _torch_epoch(model, sizes, inputs, labels)
        else:
            model = KerasLM(model, sizes) if name.startswith(KERAS) else model
            optimizer = keras.optimizers.Adam(1e-4)
            entropy = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
            is_xla = name.endswith(timing.XLA) if backend == "tensorflow" else "auto"
            model.compile(optimizer, entropy, jit_compile=is_xla)
            options = {"batch_size": sizes["B"], "shuffle": False, "verbose": 0}
            fit = partial(model.fit, {"tokens": inputs}, labels, **options)

            def run() -> float:
                return fit().history["loss"][0]

        def check() -> float:
            losses[name] = run()
            if name != TORCH:
                trace_steps(model, run)
            what = "the loss of the first epoch"
            return relative_error(what, losses[name], losses["ours"], LOSS)

        return Side(run, check)

    return {name: partial(build, name) for name in timing.layer_sides(backend)}


def _steps_of_fit(sizes: dict[str, Any]) -> tuple[Step, ...]:
    """Counts the products of the blocks and of the logits, three times each."""
    rows = sizes["B"] * sizes["T"]
    logits = 3 * 2 * rows * sizes["D"] * sizes["V"]
    moved = 3 * 2 * rows * sizes["V"]
    block = {**sizes, "of": "block", "mask": "causal", "mode": "fwd+bwd"}
    once = (*layers.steps(block) * sizes["L"], Step(logits, moved, (1, 1, 1, 1)))
    return once * sizes["N"]


def _causal_lm(sizes: Any) -> Any:
    from keras_attention.models import CausalLM

    keras.utils.set_random_seed(SEED)
    names = {"num_layers": "L", "dim": "D", "num_heads": "H", "intermediate_dim": "F"}
    options = {name: sizes[letter] for name, letter in names.items()}
    length, policy = sizes["T"], layers.POLICY
    return CausalLM(sizes["V"], **options, dropout=0.0, max_length=length, dtype=policy)


class KerasLM(keras.Model):
    """A language model of Keras' layers with the weights of a `CausalLM`."""

    def __init__(self, ours: Any, sizes: Any) -> None:
        super().__init__(dtype=layers.POLICY)
        self.tables = [
            keras.layers.Embedding(*x.shape, weights=[x], dtype=layers.POLICY)
            for x in map(array_of, _tables(ours))
        ]
        causal = {**sizes, "mask": "causal"}
        self.blocks = [
            layers.KerasBlock(causal, ours.get_layer(f"block_{n}"), dtype=layers.POLICY)
            for n in range(sizes["L"])
        ]
        self.norm = keras.layers.LayerNormalization(epsilon=1e-5, dtype=layers.POLICY)
        self(ops.zeros((1, 1), "int32"))
        self.norm.set_weights(ours.get_layer("final_norm").get_weights())

    def call(self, inputs: Any) -> Any:
        tokens = inputs["tokens"] if isinstance(inputs, dict) else inputs
        words, positions = self.tables
        x = words(tokens) + positions(ops.arange(tokens.shape[1]))
        for block in self.blocks:
            x = block(x)
        table = ops.cast(words.embeddings, self.compute_dtype)
        return ops.matmul(self.norm(x), ops.transpose(table))  # (B, T, V)


def _tables(ours: Any) -> list[Any]:
    """Returns the embeddings of words and of positions."""
    names = "token_embedding", "token_embedding_position"
    return [ours.get_layer(name).weights[0] for name in names]


def _torch_epoch(ours: Any, sizes: Any, inputs: Any, labels: Any) -> Callable:
    """Returns an epoch of `torch.nn` layers with our weights."""
    import torch

    from studies.translation import torch_peer

    device = ours.trainable_variables[0].value.device
    blocks = torch.nn.ModuleList(
        layers.torch_block(sizes, ours.get_layer(f"block_{n}"))
        for n in range(sizes["L"])
    )
    norm = torch.nn.LayerNorm(sizes["D"])
    torch_peer.take_norm(norm, ours.get_layer("final_norm"))
    tables = torch.nn.ParameterList(
        torch.from_numpy(array_of(table)) for table in _tables(ours)
    )
    whole = torch.nn.ModuleList([blocks, norm, tables]).to(device).train()
    fused = device.type == "cuda"
    optimizer = torch.optim.Adam(whole.parameters(), lr=1e-4, eps=1e-7, fused=fused)
    square = torch.nn.Transformer.generate_square_subsequent_mask
    ahead = square(sizes["T"], device=device)

    def step(tokens: Any, labels: Any) -> Any:
        with torch.autocast(device.type, torch.bfloat16):
            x = tables[0][tokens] + tables[1]
            for block in blocks:
                x = block(x, ahead, is_causal=True)
            logits = norm(x) @ tables[0].T
        logits = logits.float().flatten(0, 1)
        loss = torch.nn.functional.cross_entropy(logits, labels.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    def epoch() -> float:
        tensors = [torch.from_numpy(x).to(device).long() for x in (inputs, labels)]
        batches = zip(*(x.split(sizes["B"]) for x in tensors))
        return float(torch.stack([step(*batch) for batch in batches]).mean())

    return epoch


Maker = Callable[[str, Any], Sides]
CASES: dict[str, tuple[Maker, Callable[[Any], tuple[Step, ...]]]] = {
    "additive score": (
        _from(lambda sizes, b: additive._make(sizes, b, additive._functions)),
        additive._steps,
    ),
    "AttentionRNN": (_attention_rnn, attention_rnn._steps),
    "CausalLM, fit": (_fit, _steps_of_fit),
    "CausalLM, generate": (_generation, lambda sizes: generation._steps()),
    "DNC": (_dnc, dnc._steps),
    "fast weights": (_from(fast_weights._make), fast_weights._work),
    "Hopfield": (_from(hopfield._make), hopfield._work),
    "MemN2N": (_memn2n, memn2n._steps),
    "retrieval": (_from(retrieval._make), retrieval._steps),
}
