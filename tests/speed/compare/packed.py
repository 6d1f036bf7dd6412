"""A training step of a `CausalLM` on packed rows, compared with padded rows.

Both read the same texts, with the same loss. The peer is the same model, and each of
its rows is one text, padded to the longest one. The lengths of the texts are
log-normal, as those of sentences often are.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from speed.compare.training import TrainingStep
from speed.harness import SEED, Case, Contestants, NumericsError

PEER = "padded rows"
TOLERANCE = 1e-4  # of the loss
SIZES = {"texts": 32, "T": 256, "V": 512, "D": 64, "H": 4, "layers": 2}


def lengths_of(texts: int, longest: int) -> np.ndarray:
    """Samples the lengths of texts, between 2 and `longest`."""
    rng = np.random.default_rng(SEED)
    lengths = np.exp(rng.normal(np.log(longest / 8), 0.8, texts)).astype(int)
    return np.clip(lengths, 2, longest)


def cases() -> tuple[Case, ...]:
    """Returns one case."""
    tokens = int(lengths_of(SIZES["texts"], SIZES["T"]).sum())
    return (
        Case(
            name="packed",
            sizes=SIZES,
            make=_make,
            steps=(),  # no floor: both sides compute the same
            tolerance=TOLERANCE,
            amount=(tokens, "tokens"),
        ),
    )


def _make(backend: str) -> Contestants:
    import keras

    from keras_attention.models import CausalLM, PackedModel
    from keras_attention.text import pack

    rng = np.random.default_rng(SEED)
    lengths = lengths_of(SIZES["texts"], SIZES["T"])
    texts = [rng.integers(1, SIZES["V"], n).astype("int32") for n in lengths]
    rows = pack(texts, SIZES["T"])
    padded = keras.utils.pad_sequences(texts, maxlen=int(lengths.max()), padding="post")

    def step(is_packed: bool) -> TrainingStep:
        keras.utils.set_random_seed(SEED)
        model: Any = CausalLM(
            SIZES["V"],
            num_layers=SIZES["layers"],
            dim=SIZES["D"],
            num_heads=SIZES["H"],
            intermediate_dim=4 * SIZES["D"],
            dropout=0.0,
            position="rotary",
        )
        if is_packed:
            model = PackedModel(model)
        loss = keras.losses.SparseCategoricalCrossentropy(
            from_logits=True, ignore_class=0
        )
        model.compile(keras.optimizers.Adam(1e-3), loss)
        if is_packed:
            return TrainingStep(model, rows.inputs, rows.labels, backend)
        inputs = {"tokens": padded[:, :-1]}
        return TrainingStep(model, inputs, padded[:, 1:], backend)

    ours, peer = step(True), step(False)
    weights = peer.model.get_weights()  # both models begin with them

    def check() -> dict[str, float]:
        """Compares the mean losses of the target tokens before any step."""
        losses = []
        for side in (ours, peer):
            side.model.set_weights(weights)  # the timed steps have changed them
            losses.append(float(side.model.test_on_batch(side.inputs, side.targets)))
        difference = abs(losses[0] - losses[1]) / losses[1]
        if not difference <= TOLERANCE:
            raise NumericsError(f"the losses differ: {losses}")
        return {PEER: difference}

    return Contestants(calls={"ours": ours, PEER: peer}, check=check)
