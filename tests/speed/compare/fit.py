"""`fit` of a part of an epoch on torch, compared with a loop in plain torch.

- `of=babi`: MemN2N, the sizes of joint bAbI, SGD with clipping of each matrix
- `of=dates`: Seq2Seq, the sizes of `examples/dates.py`, Adam with a global norm
- `of=translation`: Transformer, the sizes of the Multi30k benchmark, Adam; four widths

Both start from NumPy arrays and the same weights, and read the same batches in the same
order. The tokens are random, with the lengths of real data.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from speed.compare import memn2n
from speed.compare.training import array_of, trace_steps
from speed.harness import SEED, Case, Contestants, NumericsError

PEER = "torch, plain"
TOLERANCE = 2e-3  # of the mean losses of two epochs
SIZES: dict[str, dict[str, int]] = {
    "babi": {**memn2n.SETTINGS["joint"], "batches": 40},
    "dates": {"B": 64, "S": 30, "T": 11, "D": 32, "U": 64, "V": 40, "batches": 12},
    "translation": {"B": 64, "V": 4000, "D": 128, "H": 4, "F": 512, "batches": 8},
}
WIDTHS = (12, 16, 20, 28)
RATE = 0.002


class Sides(NamedTuple):
    """Both sides of a case.

    Attributes:
        model: our compiled model.
        batches: (inputs, labels) per batch; inputs are a dict of arrays.
        step: a function of the arrays of a batch that trains the peer and returns its
            loss.
    """

    model: Any
    batches: list[tuple[dict[str, np.ndarray], np.ndarray]]
    step: Callable[..., Any]


def cases() -> tuple[Case, ...]:
    """Returns one case for each model."""
    return tuple(_case({"of": name, **sizes}) for name, sizes in SIZES.items())


def _case(sizes: dict[str, Any]) -> Case:
    return Case(
        name="fit_epoch",
        sizes=sizes,
        make=lambda backend: _make(sizes),
        steps=(),  # no floor: the point is the cost of `fit` itself
        tolerance=TOLERANCE,
        quick=sizes["of"] == "babi",
        needs=("torch",),
        backends=("torch",),
    )


def _make(sizes: dict[str, Any]) -> Contestants:
    import keras
    import torch

    makers = {"babi": _babi, "dates": _dates, "translation": _translation}
    keras.utils.set_random_seed(SEED)
    sides = makers[sizes["of"]](sizes)
    source = _Batches(sides.batches)

    def ours() -> float:
        history = sides.model.fit(source, epochs=1, shuffle=False, verbose=0)
        return history.history["loss"][0]

    def theirs() -> float:
        """Trains the peer on all batches; returns the mean loss."""
        total = torch.zeros(())
        for inputs, labels in sides.batches:
            tensors = [torch.from_numpy(x).long() for x in inputs.values()]
            total += sides.step(*tensors, torch.from_numpy(labels).long())
        return float(total) / len(sides.batches)

    def check() -> dict[str, float]:
        """Compares the mean losses of two epochs."""
        worst = 0.0
        for _ in range(2):
            mine, other = ours(), theirs()
            worst = max(worst, abs(mine - other) / abs(other))
        if not worst <= TOLERANCE:
            raise NumericsError(f"the losses differ by {worst:.3g}: {mine}, {other}")
        trace_steps(sides.model, ours)
        return {PEER: worst}

    return Contestants(calls={"ours": ours, PEER: theirs}, check=check)


def _Batches(batches: list) -> Any:
    """Returns the batches as a Keras data set."""
    import keras

    class Batches(keras.utils.PyDataset):
        def __len__(self) -> int:
            return len(batches)

        def __getitem__(self, index: int) -> Any:
            return batches[index]

    return Batches()


def _babi(sizes: dict[str, Any]) -> Sides:
    import torch

    from speed.compare import memn2n_torch

    batches = []
    for seed in range(sizes["batches"]):
        story, question, answer = memn2n.batch_of(sizes, SEED + seed)
        batches.append(({"story": story, "question": question}, answer))
    model = memn2n.model_of(sizes)
    words, times = memn2n.tables_of(model)
    peer = memn2n_torch.PlainMemN2N(words, times, sizes["L"])
    optimizer = torch.optim.SGD(peer.parameters(), lr=memn2n.RATE)

    def step(story: Any, question: Any, answer: Any) -> Any:
        inputs = [story, question]
        return memn2n_torch.train_step(peer, optimizer, inputs, answer, memn2n.CLIP)

    return Sides(model, batches, step)


def _dates(sizes: dict[str, Any]) -> Sides:
    import keras

    from keras_attention.models import Seq2Seq
    from speed.compare.seq2seq_torch import PlainSeq2Seq

    rng = np.random.default_rng(SEED)
    batches = [
        _pairs(rng, sizes["B"], sizes["S"], sizes["T"], sizes["V"])
        for _ in range(sizes["batches"])
    ]
    vocabulary = sizes["V"]
    model = Seq2Seq(vocabulary, vocabulary, sizes["D"], sizes["U"])
    optimizer = keras.optimizers.Adam(RATE, global_clipnorm=1.0)
    model.compile(optimizer, _crossentropy())
    peer = PlainSeq2Seq(_weights(model))
    return Sides(model, batches, _adam_step(peer, clip=1.0))


def _translation(sizes: dict[str, Any]) -> Sides:
    import keras

    from keras_attention.models import Transformer
    from studies.translation import torch_peer

    rng = np.random.default_rng(SEED)
    widths = [WIDTHS[n % len(WIDTHS)] for n in range(sizes["batches"])]
    batches = [_pairs(rng, sizes["B"], w, w, sizes["V"]) for w in widths]
    vocabulary = sizes["V"]
    model = Transformer(
        vocabulary,
        vocabulary,
        num_layers=2,
        dim=sizes["D"],
        num_heads=sizes["H"],
        intermediate_dim=sizes["F"],
        dropout=0.0,  # so that the losses can be compared
        block={"norm_first": True},
    )
    model.compile(keras.optimizers.Adam(RATE), _crossentropy())
    peer = torch_peer.make(model, 0.0)
    peer.train()
    return Sides(model, batches, _adam_step(peer, clip=None))


def _pairs(
    rng: np.random.Generator, batch: int, source: int, target: int, vocabulary: int
) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Samples sources (B, S), targets (B, T) and labels (B, T), padded with 0."""

    def tokens(width: int) -> np.ndarray:
        lengths = rng.integers(max(2, width // 2), width + 1, (batch, 1))
        lengths[0] = width
        words = rng.integers(4, vocabulary, (batch, width))
        return (words * (np.arange(width) < lengths)).astype("int32")

    labels = tokens(target)
    given = np.concatenate([np.full((batch, 1), 2, "int32"), labels[:, :-1]], 1)
    return {"source": tokens(source), "target": given}, labels


def _crossentropy() -> Any:
    import keras

    return keras.losses.SparseCategoricalCrossentropy(from_logits=True, ignore_class=0)


def _adam_step(peer: Any, clip: float | None) -> Callable[..., Any]:
    """Returns a step on the sum of the losses over B · T, as Keras computes it."""
    import torch

    optimizer = torch.optim.Adam(peer.parameters(), lr=RATE, eps=1e-7)

    def step(source: Any, target: Any, labels: Any) -> Any:
        logits = peer(source, target)
        loss = torch.nn.functional.cross_entropy(
            logits.flatten(0, 1), labels.flatten(), ignore_index=0, reduction="mean"
        )
        optimizer.zero_grad()
        loss.backward()
        if clip is not None:
            torch.nn.utils.clip_grad_norm_(peer.parameters(), clip)
        optimizer.step()
        return loss.detach()

    return step


def _weights(model: Any) -> dict[str, np.ndarray]:
    """Returns the weights of a `Seq2Seq` by the names of `PlainSeq2Seq`."""
    encoder = model.get_layer("encoder")
    (rnn,) = [x for x in model.layers if hasattr(x, "attentions")]
    (attention,) = rnn.attentions
    score = attention.score
    parts = {
        "source_embedding": model.get_layer("source_embedding").embeddings,
        "target_embedding": model.get_layer("target_embedding").embeddings,
        "bridge/kernel": model.get_layer("bridge").kernel,
        "bridge/bias": model.get_layer("bridge").bias,
        "query/kernel": score.query_dense.kernel,
        "key/kernel": score.key_dense.kernel,
        "key/bias": score.key_dense.bias,
        "scale": score.scale,
        "logits/kernel": model.get_layer("logits").kernel,
        "logits/bias": model.get_layer("logits").bias,
    }
    cells = {
        "forward": encoder.forward_layer,
        "backward": encoder.backward_layer,
        "cell": rnn.cell,
    }
    for name, cell in cells.items():
        parts |= {f"{name}/{k}": weight for k, weight in enumerate(cell.weights)}
    return {name: array_of(weight) for name, weight in parts.items()}
