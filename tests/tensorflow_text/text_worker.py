"""What other processes of test_translator.py do.

python text_worker.py train FOLDER   train on the backend of KERAS_BACKEND, and save
python text_worker.py serve FOLDER   run every SavedModel where this package is missing
"""

import itertools
import json
import pathlib
import sys

WHO = {"a dog": "ein Hund", "a cat": "eine Katze", "Zoë": "Zoë", "the fox": "der Fuchs"}
DOES = {"runs": "läuft", "sleeps": "schläft", "is waiting": "wartet"}
WHERE = {
    "in the field": "auf dem Feld",
    "under a tree": "unter einem Baum",
    "at the riverbank": "am Flussufer",
}
PAIRS = [
    (f"{who} {does} {where}.", f"{WHO[who]} {DOES[does]} {WHERE[where]}.")
    for who, does, where in itertools.product(WHO, DOES, WHERE)
]
TEXTS = [
    *(source for source, _ in PAIRS[::5]),
    "A  ﬁne\tdog – at the tree",  # a ligature, white space, what no pair has
    "",
    "日本",
    "the dog " * 19,  # longer than a bucket
    "Zoe\u0308 sleeps",  # not in NFKC
]
MOST = 31


def samplers():
    """Samplers that leave nothing to chance, by name."""
    from keras_attention.samplers import BeamSampler, GreedySampler

    beam = BeamSampler(3, length_penalty=0.6, coverage_penalty=0.2)
    return {"greedy": GreedySampler(), "beam": beam}


def train(folder):
    import keras

    from keras_attention.datasets import translation
    from keras_attention.models import Seq2Seq
    from keras_attention.text import Subwords, translate

    keras.utils.set_random_seed(0)
    english = Subwords.from_sentences([source for source, _ in PAIRS], size=37)
    german = Subwords.from_sentences([target for _, target in PAIRS], size=37)
    english.save(folder / "english.spm")
    german.save(folder / "german.spm")
    inputs, labels = translation.vectorize(PAIRS, english, german)
    model = Seq2Seq(len(english), len(german), embedding_dim=19, units=37)
    model.compile(
        optimizer=keras.optimizers.Adam(0.02),
        loss=keras.losses.SparseCategoricalCrossentropy(
            from_logits=True, ignore_class=0
        ),
    )
    model.fit(inputs, labels, batch_size=len(PAIRS), epochs=60, verbose=0)
    model.save(folder / "model.keras")
    found = {
        name: translate(model, english, german, TEXTS, sampler, MOST)
        for name, sampler in samplers().items()
    }
    (folder / "trained.json").write_text(json.dumps(found), "utf-8")


def serve(folder):
    for name in ("keras_attention", "keras_hub", "sentencepiece", "jax", "torch"):
        sys.modules[name] = None  # importing it fails, as where it is not installed
    import tensorflow as tf
    import tensorflow_text  # noqa: F401 - registers the operations

    found = {}
    for path in sorted(folder.glob("*.saved_model")):
        translator = tf.saved_model.load(str(path))  # holds the weights: to be kept
        run = translator.serve
        texts = json.loads((folder / "texts.json").read_text("utf-8"))
        found[path.stem] = {
            "together": [text.decode() for text in run(tf.constant(texts)).numpy()],
            "alone": [run(tf.constant([text])).numpy()[0].decode() for text in texts],
            "none": run(tf.zeros((0,), tf.string)).numpy().tolist(),
        }
    (folder / "served.json").write_text(json.dumps(found), "utf-8")


if __name__ == "__main__":
    {"train": train, "serve": serve}[sys.argv[1]](pathlib.Path(sys.argv[2]))
