"""A network captions digits on a canvas and shows its attention for each word.

    python examples/captions.py                           # about eight minutes
    python examples/captions.py --seed 1
    python examples/captions.py --backend torch           # or tensorflow

The canvases combine MNIST digits, for example "a 3 left of a 7". The network learns
only from captions and never sees the positions of the digits. The script knows the
positions, so it measures how much attention fell on the digit being named. Training and
test share no digit images. As in the paper, the convolutional encoder is first trained
as a classifier, here on canvases of one digit. It is frozen while the decoder learns to
attend. Then both are trained together. Blank background is masked.

The model is Xu et al., "Show, attend and tell" (2015), https://arxiv.org/abs/1502.03044,
with attention from the state after the last word, as in Lu et al., "Knowing when to
look" (2017). See keras_attention/models/recurrent/image_captioner.py and
keras_attention/layers/recurrent/attention_rnn.py for the equations.
"""

import argparse
import importlib.util
import os
import sys
import time
from pathlib import Path


def parse_arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--backend", choices=("jax", "tensorflow", "torch"), help="default: jax")
    add(
        "--canvases",
        type=count,
        default=4000,
        help="of an epoch, each with new ones; default: 4000",
    )
    add(
        "--digits",
        type=count,
        default=12,
        help="epochs for the encoder alone; default: 12",
    )
    add(
        "--decoder",
        type=count,
        default=6,
        help="epochs for the decoder alone; default: 6",
    )
    add(
        "--epochs", type=count, default=16, help="epochs for both together; default: 16"
    )
    add("--seed", type=int, default=0, help="of all chance; default: 0")
    add("--out", type=Path, default=Path("captions"), help="where to write")
    return parser.parse_args()


def count(text):
    """Converts an argument to an integer of at least 1."""
    if text.isascii() and text.isdigit() and int(text):
        return int(text)
    raise argparse.ArgumentTypeError(f"must be at least 1. Received: {text}")


# Keras chooses its backend when it is imported.
arguments = parse_arguments()
backend = arguments.backend or os.environ.get("KERAS_BACKEND", "jax")
os.environ["KERAS_BACKEND"] = backend
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
if importlib.util.find_spec(backend) is None:
    sys.exit(f'{backend} is not installed: python -m pip install ".[{backend},viz]"')

import keras
import numpy as np

import keras_attention
from keras_attention import models, visualization
from keras_attention.datasets import canvases

BATCH = 32
FILTERS = (24, 48, 96)  # of the encoder
SMALL = 48  # canvas size in pixels for the encoder's pretraining, to save time
SHOWN = 5  # captions


def main():
    arguments.out.mkdir(parents=True, exist_ok=True)
    model = train()
    test = canvases.generate(1000, seed=2, part="test")
    written = write(model, test.images)
    exact = np.mean([a == b for a, b in zip(written, test.captions)])
    on_digit, even = shares(model, test)
    print(f"exact captions of canvases never seen:  {exact:6.1%}")
    print(f"attention on the digit being named:     {on_digit:6.1%}")
    print(f"… if it were the same everywhere:       {even:6.1%}")

    print(f"\n{'there is':22} written")
    for caption, text in list(zip(test.captions, written))[:SHOWN]:
        print(f"{caption:22} {text}")
    index = next(n for n, (a, b) in enumerate(test.digits) if -1 < b != a)
    path = arguments.out / "attention.png"
    draw(model, test.images[index], written[index], path)
    print(f"\npicture:  {path}")
    path = arguments.out / "model.keras"
    model.save(path)
    again = keras.saving.load_model(path)
    same = write(again, test.images[:50]) == written[:50]
    print(f"model:    {path}, loaded again: {'the same' if same else 'OTHER'} captions")


def train():
    keras.utils.set_random_seed(arguments.seed)
    model = models.ImageCaptioner(
        canvases.generate(1).images.shape[1:],
        len(canvases.VOCABULARY),
        embedding_dim=128,
        units=128,
        filters=FILTERS,
        cell="gru",
        order="after",
    )
    start = time.perf_counter()
    classify(model.encoder)
    model.encoder.trainable = False
    caption(model, arguments.decoder, 0.003, "decoder")
    model.encoder.trainable = True
    caption(model, arguments.epochs, 0.001, "both")
    seconds = time.perf_counter() - start
    print(f"trained in {seconds:.0f} s on {keras.config.backend()}")
    return model


def classify(encoder):
    """Pretrains the encoder to classify single digits on small canvases."""
    model = keras.Sequential(
        [
            keras.Input((SMALL, SMALL, 1)),
            *encoder.layers,
            keras.layers.GlobalMaxPooling2D(),
            keras.layers.Dense(10),
        ]
    )
    compile_for(model, arguments.digits, 0.003)

    def data(seed):
        digits = canvases.generate(
            arguments.canvases, seed, size=SMALL, relations=["alone"]
        )
        return digits.images, digits.digits[:, 0]

    fit(model, arguments.digits, data, "encoder")


def caption(model, epochs, rate, name):
    """Trains the model to write captions."""
    compile_for(model, epochs, rate)

    def data(seed):
        made = canvases.vectorize(canvases.generate(arguments.canvases, seed))
        return made.inputs, made.labels

    fit(model, epochs, data, name)


def compile_for(model, epochs, rate):
    """Compiles with Adam and a learning rate that decays to 0 over the epochs."""
    steps = max(1, epochs * -(-arguments.canvases // BATCH))
    rate = keras.optimizers.schedules.CosineDecay(rate, steps)
    padding = 0 if isinstance(model, models.ImageCaptioner) else None
    loss = keras.losses.SparseCategoricalCrossentropy(
        from_logits=True, ignore_class=padding
    )
    model.compile(keras.optimizers.Adam(rate, global_clipnorm=1.0), loss)


def fit(model, epochs, data, name):
    """Trains with new canvases in each epoch."""
    number = ("encoder", "decoder", "both").index(name)
    for epoch in range(epochs):
        inputs, labels = data([arguments.seed, number, epoch])
        history = model.fit(inputs, labels, BATCH, verbose=0)
        loss = history.history["loss"][0]
        print(f"{name}, epoch {epoch + 1:2}: loss {loss:.4f}", flush=True)


def write(model, images):
    """Returns the model's captions of the images."""
    tokens = model.generate(images, max_length=canvases.LENGTH)
    return [canvases.VOCABULARY.decode(row) for row in tokens]


def shares(model, test):
    """Returns the attention share on the named digit, and that of uniform attention."""
    vectors = canvases.vectorize(test)
    weights = looked(model, vectors.inputs["image"], vectors.inputs["target"])
    on_digits = [
        canvases.share_on_box(w, vectors.boxes, model.grid)
        for w in (weights, np.ones_like(weights))
    ]
    return [np.nanmean(share) for share in on_digits]


def looked(model, images, target):
    """Returns the attention weights for the target tokens, (B, T, S)."""
    with keras_attention.record_attention() as maps:
        model({"image": images, "target": target})
    (weights,) = maps.values()
    return weights


def draw(model, image, caption, path):
    """Draws the attention for each generated word."""
    tokens = canvases.VOCABULARY.encode(caption)
    target = np.array([[2, *tokens[:-1]]], "int32")
    weights = looked(model, image[None], target)
    words = caption.split()
    title = "Where it looked for each word"
    figure = visualization.plot_image_attention(
        image, weights[0], words, model.grid, title
    )
    figure.savefig(path, dpi=150)


if __name__ == "__main__":
    main()
