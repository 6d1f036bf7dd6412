"""Trains our Transformer and torch's on Multi30k, with equal weights and batches.

Shapes: N pairs, B batch, S source subwords, T target subwords.
"""

from __future__ import annotations

import math
import time
from typing import Any

import keras
import numpy as np

from keras_attention.losses import SmoothedCrossentropy
from keras_attention.models import Transformer
from studies.translation import torch_peer, training

MODEL: dict[str, Any] = {
    "num_layers": 2,
    "dim": 128,
    "num_heads": 4,
    "intermediate_dim": 512,
    "dropout": 0.1,
    "block": {"norm_first": True},
}
TRAINING: dict[str, Any] = {
    "optimizer": "Adam",
    "beta_2": 0.98,
    "epsilon": 1e-9,
    "rate": 0.002,
    "warmup_steps": 400,
    "decay": "cosine",
    "label_smoothing": 0.1,
    "batch_size": 64,
    "epochs": 8,
    "subwords": 4000,
    "longest": 40,  # maximum number of subwords of a training pair
}


class Batches(training.Batches):
    """The batches of `training.Batches`, with labels of weight 0 set to padding."""

    last = -1  # index of the batch that was read last

    def __getitem__(self, index: int) -> Any:
        self.last = index
        inputs, labels, weight = super().__getitem__(index)
        return inputs, np.where(weight > 0, labels, 0)

    def on_epoch_end(self) -> None:
        # Keras also calls this method before the first epoch, after it reads a batch.
        if self.last == len(self) - 1:
            super().on_epoch_end()


def new(data: training.Data, seed: int, settings: dict[str, Any]) -> Transformer:
    """Creates a model. Its initial weights are from NumPy, so backends agree."""
    model = Transformer(
        len(data.source),
        len(data.target),
        **{name: settings[name] for name in MODEL},
    )
    rng = np.random.default_rng(seed)
    for weight in sorted(model.trainable_weights, key=lambda w: w.path):
        shape = tuple(weight.shape)
        if "embedding" in weight.path:
            weight.assign(rng.normal(scale=shape[-1] ** -0.5, size=shape))
        elif len(shape) > 1:  # Glorot's limit, from the fan-in and the fan-out
            split = -1 if "attention_output" in weight.path else 1
            reach = (6 / (np.prod(shape[:split]) + np.prod(shape[split:]))) ** 0.5
            weight.assign(rng.uniform(-reach, reach, size=shape))
    return model


def learn(
    data: training.Data, seed: int, settings: dict[str, Any], peer: bool = False
) -> tuple[Any, dict[str, Any]]:
    """Trains a translator. Returns the translator and statistics of its training.

    Args:
        data: the training data.
        seed: the seed of the network, the batches and the dropout.
        settings: `MODEL` and `TRAINING`, and "source": "forward".
        peer: whether to train torch's model instead of ours.
    """
    keras.utils.set_random_seed(seed)
    model = new(data, seed, settings)
    train = Batches(training.batches(data, "train", settings, seed).buckets)
    valid = Batches(training.batches(data, "valid", settings, seed).buckets)
    steps = settings["epochs"] * len(train)
    row = {"parameters": model.count_params(), "steps": steps}
    if peer:
        module = torch_peer.make(model, settings["dropout"])
        return module, {**row, **_fit_torch(module, train, valid, seed, settings)}
    compile_with(model, settings, steps)
    start = time.perf_counter()
    used = time.process_time()
    history = model.fit(train, epochs=settings["epochs"], verbose=2, shuffle=False)
    return model, {
        **row,
        "fit_seconds": round(time.perf_counter() - start, 1),
        "fit_cpu_seconds": round(time.process_time() - used, 1),
        "loss": round(history.history["loss"][-1], 3),
        "valid_loss": round(float(model.evaluate(valid, verbose=0)), 3),
    }


def compile_with(model: Transformer, settings: dict[str, Any], steps: int) -> None:
    """Compiles the model for a number of training steps."""
    warm = settings["warmup_steps"]
    rate = keras.optimizers.schedules.CosineDecay(
        0.0, max(1, steps - warm), warmup_target=settings["rate"], warmup_steps=warm
    )
    optimizer = keras.optimizers.Adam(
        rate, beta_2=settings["beta_2"], epsilon=settings["epsilon"]
    )
    loss = SmoothedCrossentropy(settings["label_smoothing"], ignore_class=0)
    model.compile(optimizer, loss)


def torch_optimizer(
    module: Any, settings: dict[str, Any], steps: int
) -> tuple[Any, Any]:
    """Returns torch's Adam and a schedule of its learning rate, equal to ours."""
    import torch

    optimizer = torch.optim.Adam(
        module.parameters(),
        lr=settings["rate"],
        betas=(0.9, settings["beta_2"]),
        eps=settings["epsilon"],
    )
    warm = settings["warmup_steps"]

    def part(step: int) -> float:
        if step < warm:
            return step / warm
        done = min(1.0, (step - warm) / max(1, steps - warm))
        return 0.5 * (1 + math.cos(math.pi * done))

    return optimizer, torch.optim.lr_scheduler.LambdaLR(optimizer, part)


def _fit_torch(
    module: Any, train: Batches, valid: Batches, seed: int, settings: dict[str, Any]
) -> dict[str, Any]:
    import torch

    torch.manual_seed(seed)
    steps = settings["epochs"] * len(train)
    optimizer, schedule = torch_optimizer(module, settings, steps)
    smooth = settings["label_smoothing"]
    start, used = time.perf_counter(), time.process_time()
    losses: list[float] = []
    for epoch in range(settings["epochs"]):
        module.train()
        losses = []
        for i in range(len(train)):
            inputs, labels = train[i]
            cost = torch_peer.step(module, optimizer, inputs, labels, smooth)
            losses.append(float(cost))
            schedule.step()
        train.on_epoch_end()
        print(f"Epoch {epoch + 1}: loss {np.mean(losses):.4f}", flush=True)
    fit = time.perf_counter() - start, time.process_time() - used
    return {
        "fit_seconds": round(fit[0], 1),
        "fit_cpu_seconds": round(fit[1], 1),
        "loss": round(float(np.mean(losses)), 3),
        "valid_loss": round(torch_peer.loss(module, valid, smooth), 3),
    }
