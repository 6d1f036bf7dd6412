"""Training steps of small models, whole models, and what no peer has.

The cases of `speed.compare` are measured at the sizes of a GPU. The small models run
with replayed steps ("ours"), without, and on torch also as CUDA graphs.
"""

from __future__ import annotations

import functools
import importlib.util
import itertools
from collections.abc import Callable
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
)
from speed.compare.training import TrainingStep, array_of, trace_steps
from speed.gpu import layers, timing
from speed.gpu.heads import Side
from speed.harness import SEED, Contestants, NumericsError, largest_difference

Sides = tuple[dict[str, Callable[[], Side]], dict[str, str]]
KERAS, TORCH = "keras.layers", "torch.nn"
TOLERANCE = 1e-3  # of the outputs of small models, in float32
LOSS = 0.01  # largest relative difference of the losses of language models
FEW = 2  # queries whose retrieval is checked


def from_contestants(contestants: Contestants, tolerance: float = TOLERANCE) -> Sides:
    """Returns the sides of a case of `speed.compare`, which are already built."""

    @functools.cache
    def errors() -> dict[str, float]:
        if contestants.check is not None:
            return contestants.check()
        results = {
            n: backends.to_numpy(call()) for n, call in contestants.calls.items()
        }
        ours = results.pop("ours")
        return {n: largest_difference(ours, x, tolerance) for n, x in results.items()}

    def error(name: str) -> float:
        # A peer that differs from ours is the peer's error, if there is one.
        if name == "ours" and len(contestants.calls) > 1:
            return float("nan")
        return errors().get(name, float("nan"))

    def build(name: str) -> Side:
        call = timing.Call(contestants.calls[name])
        return Side(call, functools.partial(error, name))

    return {n: functools.partial(build, n) for n in contestants.calls}, {}


def make(backend: str, sizes: Any) -> Sides:
    """Returns functions that build the sides of a row, and why others are left out."""
    return MAKERS[sizes["of"]](backend, sizes)


def _hopfield(backend: str, sizes: Any) -> Sides:
    return from_contestants(hopfield._make({**sizes, "of": "layer"}, backend))


def _additive(backend: str, sizes: Any) -> Sides:
    return from_contestants(additive._make(sizes, backend, additive._functions))


def _fast_weights(backend: str, sizes: Any) -> Sides:
    return from_contestants(fast_weights._make(sizes, backend))


def _generation(backend: str, sizes: Any) -> Sides:
    generation.SIZES.update({k: sizes[k] for k in generation.SIZES})
    has_peer = backend == "torch" and importlib.util.find_spec("transformers")
    if has_peer:
        try:
            return from_contestants(generation.Race("transformers").contestants())
        except Exception as error:  # another version than ours, say
            reason = f"{type(error).__name__}: {error}"
            sides, skipped = from_contestants(generation.Race("").contestants())
            return sides, {**skipped, "transformers": reason}
    return from_contestants(generation.Race("").contestants())


def _retrieval(backend: str, sizes: Any) -> Sides:
    """One step among S patterns, beside the product with all patterns alone."""
    from keras_attention.models import AssociativeMemory

    queries, count, width = (sizes[name] for name in "TSD")
    random = np.random.default_rng(SEED)
    patterns = random.standard_normal((count, width), dtype="float32")
    states = random.standard_normal((queries, width), dtype="float32")
    memory = AssociativeMemory(beta=width**-0.5)
    memory.store(patterns)
    asked = ops.convert_to_tensor(states)

    def check() -> float:
        result = np.asarray(ops.convert_to_numpy(memory.retrieve(asked, steps=1)))
        scores = (width**-0.5 * states[:FEW] @ patterns.T).astype("float64")
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        weights /= weights.sum(-1, keepdims=True)
        right = weights.astype("float32") @ patterns
        error = np.linalg.norm(result[:FEW] - right) / np.linalg.norm(right)
        if not error <= TOLERANCE:
            raise NumericsError(f"retrieval differs from NumPy's by {error:.2g}")
        return float(error)

    def ours() -> Side:
        return Side(timing.Call(lambda: memory.retrieve(asked, steps=1)), check)

    def scores() -> Side:
        call = timing.call_of(
            backend,
            lambda x, y: ops.max(ops.matmul(x, ops.transpose(y)), -1),
            [asked, memory.patterns],
        )
        return Side(call, lambda: float("nan"))

    return {"ours": ours, "one product": scores}, {}


def _training(backend: str, make: Callable[[str], Any], *peers: str) -> Sides:
    """Returns the sides of a training step, compared with the peer or the first one.

    `make` returns a `TrainingStep` for the name of a side.
    """
    names, skipped = timing.replayed_sides(backend)
    last = peers[-1] if peers else names[0]
    names = [*names, *peers]

    @functools.cache
    def step(name: str) -> TrainingStep:
        with timing.tracing(name):
            made = make(name)
            for _ in range(3 if backend == "torch" else 0):
                made()
        timing.check_graph(name, made.trained)
        return made

    @functools.cache
    def outputs(name: str) -> dict[str, np.ndarray]:
        return _outputs(step(name))

    def build(name: str) -> Side:
        def check() -> float:
            if name == last:  # which the others are compared with
                return float("nan")
            return largest_difference(outputs(name), outputs(last), TOLERANCE)

        return Side(timing.Call(step(name)), check)

    return {name: functools.partial(build, name) for name in names}, skipped


def _outputs(step: TrainingStep) -> dict[str, np.ndarray]:
    """Returns what the model predicts before and after a step."""
    before = step.predict()
    step()
    return {"output": before, "output after a step": step.predict()}


def _memn2n(backend: str, sizes: Any) -> Sides:
    story, question, answer = memn2n.batch_of(sizes)
    inputs = {"story": story, "question": question}

    def make(name: str) -> TrainingStep:
        model = memn2n.model_of(sizes)
        if name == KERAS:
            words, times = memn2n.tables_of(model)
            model = KerasMemN2N(words, times, sizes["L"])
        model.compile(
            keras.optimizers.SGD(memn2n.RATE, clipnorm=memn2n.CLIP),
            keras.losses.SparseCategoricalCrossentropy(
                from_logits=True, reduction="sum"
            ),
            run_eagerly=name == timing.EAGER and backend == "torch",
        )
        return TrainingStep(model, inputs, answer, backend)

    return _training(backend, make, KERAS)


class KerasMemN2N(keras.Model):
    """MemN2N with adjacent tying of Keras' embeddings, as a user would write it.

    Shapes: B batch, M memory slots, L words, D width, V vocabulary.
    """

    def __init__(self, words: list, times: list, length: int) -> None:
        super().__init__()
        self.words, self.times = (
            [keras.layers.Embedding(*x.shape) for x in tables]
            for tables in (words, times)
        )
        for layer, table in zip([*self.words, *self.times], [*words, *times]):
            layer.build()
            layer.set_weights([table])
        width = words[0].shape[1]
        j = np.arange(1, length + 1)[:, None] / length
        k = np.arange(1, width + 1)[None, :] / width
        position = ((1 - j) - k * (1 - 2 * j)).astype("float32")
        self.position = ops.convert_to_tensor(position)  # (L, D)

    def call(self, inputs: Any) -> Any:
        story, question = inputs["story"], inputs["question"]
        is_word = ops.cast(story != 0, "float32")  # (B, M, L)
        filled = ops.cast(ops.any(story != 0, -1), "int32")  # (B, M)
        age = ops.flip(ops.cumsum(ops.flip(filled, 1), 1), 1) * filled
        is_age = ops.cast(filled, "float32")[..., None]
        weights = self.position * is_word[..., None]  # (B, M, L, D)
        memories = [
            ops.sum(words(story) * weights, 2) + times(age) * is_age  # (B, M, D)
            for words, times in zip(self.words, self.times)
        ]
        asked = ops.cast(question != 0, "float32")[..., None]
        state = ops.sum(self.words[0](question) * self.position * asked, 1)  # (B, D)
        for key, value in itertools.pairwise(memories):
            p = ops.softmax(ops.einsum("bmd,bd->bm", key, state))
            state = state + ops.einsum("bm,bmd->bd", p, value)
        return ops.matmul(state, ops.transpose(self.words[-1].embeddings))  # (B, V)


def _attention_rnn(backend: str, sizes: Any) -> Sides:
    random = np.random.default_rng(SEED)
    batch, steps, keys, units = (sizes[name] for name in "BTSU")
    inputs = {
        "inputs": random.standard_normal((batch, steps, units), dtype="float32"),
        "memory": random.standard_normal((batch, keys, units), dtype="float32"),
    }
    targets = random.standard_normal((batch, steps, 1), dtype="float32")

    def model_of(name: str) -> Any:
        keras.utils.set_random_seed(SEED)
        layer = attention_rnn._layers(units)[name]
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
    random = np.random.default_rng(SEED)
    shape = (sizes["B"], sizes["T"], sizes["D"])
    inputs, targets = (random.standard_normal(shape, "float32") for _ in range(2))

    def make(name: str) -> TrainingStep:
        every = {**sizes, "compiler": "default"}
        return dnc._ours(every, inputs, targets, backend, replayed=name != timing.EAGER)

    return _training(backend, make)


def _fit(backend: str, sizes: Any) -> Sides:
    """`fit` of language models with the same weights, on the same tokens."""
    random = np.random.default_rng(SEED)
    shape = (sizes["B"] * sizes["steps"], sizes["T"] + 1)
    tokens = random.integers(1, sizes["V"], shape).astype("int32")
    inputs, labels = tokens[:, :-1], np.ascontiguousarray(tokens[:, 1:])
    ours = _causal_lm(sizes)
    losses: dict[str, float] = {}

    def build(name: str) -> Side:
        if name == TORCH:
            loss, run = _torch_lm(ours, sizes, inputs, labels)
        else:
            model = ours if name == "ours" else KerasLM(ours, sizes)
            optimizer = keras.optimizers.Adam(1e-4)
            entropy = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
            model.compile(optimizer, entropy)
            given = {"tokens": inputs}
            few = {"tokens": inputs[:1]}, labels[:1]
            loss = float(model.test_on_batch(*few))
            options = {"batch_size": sizes["B"], "shuffle": False, "verbose": 0}
            run = functools.partial(model.fit, given, labels, **options)
        losses[name] = loss

        def check() -> float:
            error = abs(losses[name] / losses["ours"] - 1)
            if not error <= LOSS:
                raise NumericsError(f"the first losses differ: {losses}")
            if name != TORCH:
                trace_steps(model, run)
            return error

        return Side(timing.Call(run), check)

    names = ["ours", KERAS, *([TORCH] if backend == "torch" else [])]
    # The peers take our weights, which `fit` changes.
    return {n: functools.partial(build, n) for n in names}, {}


def _causal_lm(sizes: Any) -> Any:
    from keras_attention.models import CausalLM

    keras.utils.set_random_seed(SEED)
    return CausalLM(
        sizes["V"],
        num_layers=sizes["L"],
        dim=sizes["D"],
        num_heads=sizes["H"],
        intermediate_dim=sizes["F"],
        dropout=0.0,
        max_length=sizes["T"],
        dtype=layers.POLICY,
    )


class KerasLM(keras.Model):
    """A language model of Keras' layers with the weights of a `CausalLM`."""

    def __init__(self, ours: Any, sizes: Any) -> None:
        super().__init__(dtype=layers.POLICY)
        width, shape = sizes["D"], (sizes["B"], sizes["T"], sizes["D"])
        options: dict[str, Any] = {"dtype": layers.POLICY}
        self.embedding = keras.layers.Embedding(sizes["V"], width, **options)
        self.position = keras.layers.Embedding(sizes["T"], width, **options)
        self.blocks = [
            layers.KerasBlock({**sizes, "mask": "causal"}, **options)
            for _ in range(sizes["L"])
        ]
        self.norm = keras.layers.LayerNormalization(epsilon=1e-5, **options)
        for name in ("embedding", "position"):
            getattr(self, name).build()
        self.norm.build(shape)
        self.embedding.set_weights(ours.get_layer("token_embedding").get_weights())
        position = ours.get_layer("token_embedding_position")
        self.position.set_weights(position.get_weights())
        for n, block in enumerate(self.blocks):
            block.build(shape)
            block.take(ours.get_layer(f"block_{n}"))
        self.norm.set_weights(ours.get_layer("final_norm").get_weights())

    def call(self, inputs: Any) -> Any:
        tokens = inputs["tokens"]
        x = self.embedding(tokens) + self.position(ops.arange(tokens.shape[1]))
        for block in self.blocks:
            x = block(x)
        table = ops.cast(self.embedding.embeddings, self.compute_dtype)
        return ops.matmul(self.norm(x), ops.transpose(table))  # (B, T, V)


def _torch_lm(ours: Any, sizes: Any, inputs: Any, labels: Any) -> tuple[float, Any]:
    """Returns the first loss and an epoch of `torch.nn` layers with our weights."""
    import torch
    from torch.nn import functional

    from studies.translation import torch_peer

    device = ours.trainable_variables[0].value.device
    width, heads = sizes["D"], sizes["H"]
    form = functools.partial(
        torch.nn.TransformerEncoderLayer,
        width,
        heads,
        sizes["F"],
        0.0,
        activation="gelu",
        batch_first=True,
        norm_first=True,
    )
    blocks = torch.nn.ModuleList(form() for _ in range(sizes["L"]))
    norm = torch.nn.LayerNorm(width)
    for n, block in enumerate(blocks):
        torch_peer.take_block(block, ours.get_layer(f"block_{n}"))
    torch_peer.take_norm(norm, ours.get_layer("final_norm"))
    names = "token_embedding", "token_embedding_position"
    tables = torch.nn.ParameterList(
        torch.from_numpy(array_of(ours.get_layer(name).weights[0])) for name in names
    )
    whole = torch.nn.ModuleList([blocks, norm, tables]).to(device).train()
    fused = device.type == "cuda"
    optimizer = torch.optim.Adam(whole.parameters(), lr=1e-4, eps=1e-7, fused=fused)
    mask = torch.nn.Transformer.generate_square_subsequent_mask
    ahead = mask(sizes["T"], device=device)

    def loss_of(tokens: Any, labels: Any) -> Any:
        tokens, labels = (
            torch.from_numpy(x).to(device).long() for x in (tokens, labels)
        )
        with torch.autocast(device.type, torch.bfloat16):
            x = tables[0][tokens] + tables[1]
            for block in blocks:
                x = block(x, ahead, is_causal=True)
            logits = norm(x) @ tables[0].T
        return functional.cross_entropy(logits.float().flatten(0, 1), labels.flatten())

    def epoch() -> Any:
        for n in range(0, len(inputs), sizes["B"]):
            few = slice(n, n + sizes["B"])
            loss = loss_of(inputs[few], labels[few])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        return loss.detach()

    with torch.no_grad():
        return float(loss_of(inputs[:1], labels[:1])), epoch


MAKERS: dict[str, Callable[[str, Any], Sides]] = {
    "additive score": _additive,
    "AttentionRNN": _attention_rnn,
    "CausalLM, fit": _fit,
    "CausalLM, generate": _generation,
    "DNC": _dnc,
    "fast weights": _fast_weights,
    "Hopfield": _hopfield,
    "MemN2N": _memn2n,
    "retrieval": _retrieval,
}
