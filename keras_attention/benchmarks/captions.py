"""Captions of digits with a frozen encoder: soft and hard attention.

    python -m keras_attention.benchmarks captions --seeds 0 1 2 --json results.json

An encoder learns to classify canvases of one digit. Its features of the captioned
canvases are computed once. Decoders with soft attention, with hard attention by the
straight-through estimator, and with hard attention by REINFORCE then learn to caption
these features; the seeds are those of the decoders. Training and test share no digit
images. The settings were chosen with `--dev`, which tests on a part of the digits of
the training.

Each finished run adds a line to the file given by `--out`; the encoder is kept next to
it. Repeat the command to resume; a decoder that was stopped starts again.
"""

from __future__ import annotations

import argparse
import datetime
import json
import pathlib
import platform
import time
from typing import Any, NamedTuple

import keras
import numpy as np

from keras_attention.benchmarks.errors import UsageError
from keras_attention.benchmarks.store import Run, opened
from keras_attention.datasets import DataNotFoundError, canvases, mnist
from keras_attention.layers import BahdanauAttention, HardAttention
from keras_attention.layers.base.recording import record_attention
from keras_attention.losses import ReinforceLoss
from keras_attention.models import ImageCaptioner
from keras_attention.version import __version__

ENCODER: dict[str, Any] = {
    "filters": [24, 48, 96],
    "width": 96,  # of the features
    "size": 48,  # of a canvas in pixels
    "canvases": 4000,  # of an epoch, new ones in each
    "epochs": 10,
    "batch_size": 32,
    "rate": 3e-3,
    "seed": 0,  # of the encoder and of the canvases, for all decoders
}
DECODER: dict[str, Any] = {
    "canvases": 12000,
    "embedding_dim": 128,
    "units": 128,
    "attention_units": 64,
    "cell": "gru",
    "order": "after",
    "epochs": 6,
    "batch_size": 64,
    "rate": 3e-3,
    "clipnorm": 1.0,
    "expected_rate": 0.5,  # of REINFORCE
    "weight": 0.03,  # of the gradient of REINFORCE
}
KINDS = ("soft", "straight_through", "reinforce")
TEST = 1000  # canvases
NEEDED = ("attention", "seed", "backend", "keras", "settings", "result")


class Data(NamedTuple):
    """Canvases with captions, and the features of their locations."""

    features: np.ndarray  # (N, rows, columns, ·)
    vectors: canvases.Vectors
    captions: list[str]

    @property
    def inputs(self) -> dict[str, np.ndarray]:
        """The inputs of an `ImageCaptioner` without an encoder."""
        target = self.vectors.inputs["target"]
        return {"features": self.features, "target": target}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of `captions`."""
    add = parser.add_argument
    add("--seeds", type=int, nargs="+", default=[0, 1, 2])
    add("--attention", nargs="+", choices=KINDS, default=list(KINDS))
    add("--dev", action="store_true", help="test on a part of the training's digits")
    add("--encoder-epochs", type=int, default=ENCODER["epochs"])
    add("--epochs", type=int, default=DECODER["epochs"], help="of a decoder")
    add("--out", type=pathlib.Path, help="runs as they end, and to go on from")
    add("--json", type=pathlib.Path, help="where to write the results")
    add("--pictures", type=pathlib.Path, help="folder for pictures of new runs")


def main(args: argparse.Namespace) -> int:
    """Performs the missing runs, prints the table and writes the results."""
    for name in ("encoder_epochs", "epochs"):
        if getattr(args, name) < 1:
            flag = "--" + name.replace("_", "-")
            raise UsageError(f"{flag} must be at least 1. Received: {args.epochs}")
    store = opened(args.out, NEEDED)
    settings = {
        "encoder": {**ENCODER, "epochs": args.encoder_epochs},
        "decoder": {**DECODER, "epochs": args.epochs},
        "dev": args.dev,
    }
    backend = keras.config.backend()
    runs, made = [], None
    cache = None if args.out is None else pathlib.Path(f"{args.out}.encoder.keras")
    for seed in dict.fromkeys(args.seeds):
        for kind in dict.fromkeys(args.attention):
            about = {"attention": kind, "seed": seed, "backend": backend}
            run = store.done(f"{kind}, seed {seed}", settings, **about)
            if run is None:
                made = made or prepare(settings, cache)
                model, result = learn(kind, seed, settings["decoder"], *made[:2])
                print(f"{kind}, seed {seed}: {result}", flush=True)
                if args.pictures:
                    draw(model, made[1], args.pictures, f"{kind}-{seed}")
                about["keras"] = keras.__version__
                found = {**made[2], **result}
                run = store.add({**about, "settings": settings, "result": found})
            runs.append(run)
            if args.json:  # save after each run
                text = json.dumps(report(runs), indent=1)
                args.json.write_text(text + "\n", encoding="utf-8")
    print(table(runs))
    return 0


def digits(dev: bool) -> mnist.Digits:
    """Returns the digits to make canvases of.

    Args:
        dev: whether to leave out the digits of the test canvases.
    """
    try:
        images, labels = mnist.load("test")
    except DataNotFoundError as error:
        raise UsageError(str(error)) from error
    rows = np.arange(len(labels)) % 5 != 4 if dev else slice(None)
    return mnist.Digits(images[rows], labels[rows])


def prepare(
    settings: dict[str, Any], cache: pathlib.Path | None = None
) -> tuple[Data, Data, dict[str, Any]]:
    """Trains an encoder, or reads it from a file, and applies it to the canvases.

    Args:
        settings: the settings of a run.
        cache: where to keep the encoder; None keeps it in memory.

    Returns:
        The training data and the test data of the decoders, and statistics.
    """
    known, seed = digits(settings["dev"]), settings["encoder"]["seed"]
    encoder, about = read_encoder(settings, cache)
    if encoder is None:
        start = time.process_time()
        encoder, accuracy = train_encoder(known, settings["encoder"])
        seconds = round(time.process_time() - start, 1)
        about = {"digits": accuracy, "encoder_cpu_seconds": seconds}
        write_encoder(encoder, about, settings, cache)
    start = time.process_time()

    def data(count: int, number: Any, part: str) -> Data:
        made = canvases.generate(count, number, part, digits=known)
        features = encoder.predict(made.images, batch_size=128, verbose=0)
        return Data(features, canvases.vectorize(made), made.captions)

    train = data(settings["decoder"]["canvases"], [seed, 1], "train")
    test = data(TEST, 2, "test")
    seconds = round(time.process_time() - start, 1)
    return train, test, {**about, "features_cpu_seconds": seconds}


def read_encoder(
    settings: dict[str, Any], cache: pathlib.Path | None
) -> tuple[Any, dict[str, Any]]:
    """Returns the encoder of `write_encoder` and its statistics, or None and {}.

    Raises:
        UsageError: it was trained with other settings.
    """
    if cache is None or not cache.with_suffix(".json").exists():
        return None, {}
    about = json.loads(cache.with_suffix(".json").read_text(encoding="utf-8"))
    if about.pop("settings") != {**settings["encoder"], "dev": settings["dev"]}:
        raise UsageError(f"{cache} has other settings. Name another --out.")
    return keras.saving.load_model(cache), about


def write_encoder(
    encoder: keras.Model,
    about: dict[str, Any],
    settings: dict[str, Any],
    cache: pathlib.Path | None,
) -> None:
    """Keeps an encoder, its settings and its statistics for the next start."""
    if cache is None:
        return
    encoder.save(cache)
    found = {**about, "settings": {**settings["encoder"], "dev": settings["dev"]}}
    cache.with_suffix(".json").write_text(json.dumps(found), encoding="utf-8")


def train_encoder(
    known: mnist.Digits, settings: dict[str, Any]
) -> tuple[keras.Model, float]:
    """Trains an encoder to classify canvases of one digit.

    Each location has scores for the ten digits, and the log of their summed exponents
    over the locations is the score of the canvas. The features of a location therefore
    tell the digit there. No layer has a bias, so the features of blank regions are 0.

    Returns:
        The encoder, for canvases of 64 pixels, and the accuracy on test digits in per
        cent.
    """
    seed = settings["seed"]
    keras.utils.set_random_seed(seed)
    convolutions = [*settings["filters"], settings["width"]]
    layers: list[Any] = []
    for n, width in enumerate(convolutions):
        layers.append(
            keras.layers.Conv2D(
                *(width, 3),
                padding="same",
                use_bias=False,
                activation="relu",
                kernel_initializer="he_normal",
            )
        )
        if n < len(settings["filters"]):
            layers.append(keras.layers.MaxPooling2D(2))
    pixels = keras.Input((settings["size"], settings["size"], 1))
    x = pixels
    for layer in layers:
        x = layer(x)
    scores = keras.layers.Dense(10, use_bias=False)(x)
    scores = keras.ops.logsumexp(scores, axis=(1, 2))
    model = keras.Model(pixels, scores)
    count, epochs = settings["canvases"], settings["epochs"]
    _compile(model, settings, epochs * -(-count // settings["batch_size"]))

    def ones(count: int, number: Any, part: str) -> canvases.Canvases:
        size, alone = settings["size"], ["alone"]
        return canvases.generate(count, number, part, size, alone, known)

    for epoch in range(epochs):
        one = ones(count, [seed, 0, epoch], "train")
        model.fit(one.images, one.digits[:, 0], settings["batch_size"], verbose=0)
    one = ones(TEST, 3, "test")
    right = model.predict(one.images, verbose=0).argmax(1) == one.digits[:, 0]
    encoder = keras.Sequential([keras.Input((64, 64, 1)), *layers], name="encoder")
    encoder.trainable = False
    return encoder, percent(right)


def learn(
    kind: str, seed: int, settings: dict[str, Any], train: Data, test: Data
) -> tuple[ImageCaptioner, dict[str, Any]]:
    """Trains a decoder and tests its captions.

    Args:
        kind: one of `KINDS`.
        seed: the seed of the decoder, of its choices and of the order of the captions.
        settings: `DECODER`.
        train: the data that it learns from.
        test: the data that it captions.

    Returns:
        The model and its results, in per cent.
    """
    keras.utils.set_random_seed(seed)
    units = settings["attention_units"]
    attention: Any = BahdanauAttention(units)
    loss: keras.losses.Loss = keras.losses.SparseCategoricalCrossentropy(
        from_logits=True, ignore_class=0
    )
    if kind != "soft":
        rate = settings["expected_rate"] if kind == "reinforce" else 0.0
        attention = HardAttention(
            units=units, estimator=kind, seed=seed, expected_rate=rate
        )
    if kind == "reinforce":
        loss = ReinforceLoss(loss, settings["weight"])
    sizes = {name: settings[name] for name in ("embedding_dim", "units")}
    model = ImageCaptioner(
        train.features.shape[1:],
        len(canvases.VOCABULARY),
        **sizes,
        cell=settings["cell"],
        attention=attention,
        order=settings["order"],
        encoder=None,
    )
    size, epochs = settings["batch_size"], settings["epochs"]
    _compile(model, settings, epochs * -(-len(train.captions) // size), loss)
    start = time.process_time()
    history = model.fit(
        train.inputs, train.vectors.labels, size, epochs=epochs, verbose=0
    ).history
    seconds = time.process_time() - start
    return model, {
        "loss_of_epochs": [round(one, 4) for one in history["loss"]],
        "decoder_cpu_seconds": round(seconds, 1),
        **scores(model, test),
    }


def scores(model: ImageCaptioner, test: Data) -> dict[str, float]:
    """Returns the share of exact captions, and of attention on the named digit."""
    tokens = model.generate(test.features, max_length=canvases.LENGTH)
    written = [canvases.VOCABULARY.decode(row) for row in tokens]
    grid, boxes = test.features.shape[1:3], test.vectors.boxes
    weights = attended(model, test)
    on_digit = canvases.share_on_box(weights, boxes, grid)
    even = canvases.share_on_box(np.ones_like(weights), boxes, grid)
    exact = np.array([a == b for a, b in zip(written, test.captions)])
    return {
        "exact": percent(exact),
        "on_digit": percent(on_digit[~np.isnan(on_digit)]),
        "on_digit_if_even": percent(even[~np.isnan(even)]),
    }


def attended(model: ImageCaptioner, data: Data) -> np.ndarray:
    """Returns the attention weights for the captions, (N, T, S)."""
    tensors = {k: keras.ops.convert_to_tensor(x) for k, x in data.inputs.items()}
    with record_attention() as maps:
        model(tensors)
    (weights,) = maps.values()
    return weights


def draw(model: ImageCaptioner, data: Data, folder: pathlib.Path, name: str) -> None:
    """Draws the attention for a generated caption of the first two digits."""
    from keras_attention import visualization

    n = next(n for n, text in enumerate(data.captions) if len(text.split()) > 2)
    features = data.features[n : n + 1]
    tokens = model.generate(features, max_length=canvases.LENGTH)
    target = np.pad(tokens[:, :-1], ((0, 0), (1, 0)), constant_values=2)
    given = {"features": features, "target": target}
    with record_attention() as maps:
        model({k: keras.ops.convert_to_tensor(x) for k, x in given.items()})
    (weights,) = maps.values()
    figure = visualization.plot_image_attention(
        data.vectors.inputs["image"][n],
        weights[0],
        canvases.VOCABULARY.decode(tokens[0]).split() or ["(no words)"],
        features.shape[1:3],
        name,
    )
    folder.mkdir(parents=True, exist_ok=True)
    figure.savefig(folder / f"{name}.png", dpi=150)


def percent(shares: np.ndarray) -> float:
    """Returns the mean in per cent."""
    return round(100 * float(np.mean(shares)), 2)


def _compile(
    model: keras.Model, settings: dict[str, Any], steps: int, loss: Any = None
) -> None:
    """Compiles with Adam and a learning rate that decays to 0."""
    rate = keras.optimizers.schedules.CosineDecay(settings["rate"], steps)
    loss = loss or keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    clip = settings.get("clipnorm")
    model.compile(keras.optimizers.Adam(rate, global_clipnorm=clip), loss)


def table(runs: list[Run]) -> str:
    """Formats the results of each run, and the mean of each kind of attention."""
    lines = [f"{'attention':18}{'seed':>5}{'exact %':>9}{'on digit %':>12}{'CPU s':>8}"]
    for kind in dict.fromkeys(run["attention"] for run in runs):
        same = [run for run in runs if run["attention"] == kind]
        for run in same:
            one = run["result"]
            lines.append(
                f"{kind:18}{run['seed']:5}{one['exact']:9.1f}{one['on_digit']:12.1f}"
                f"{one['decoder_cpu_seconds']:8.0f}"
            )
        exact = np.array([run["result"]["exact"] for run in same])
        lines.append(f"{kind:18}{'mean':>5}{exact.mean():9.1f} ± {exact.std():.1f}")
    return "\n".join(lines)


def report(runs: list[Run]) -> dict[str, Any]:
    """Returns the JSON report."""
    return {
        "benchmark": "captions",
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "python": platform.python_version(),
        "keras_attention": __version__,
        "runs": runs,
    }
