"""Files of released versions, which must load for ever: `test_released_files.py`.

`python tests/released_files.py` writes fixtures/released/VERSION.zip with

rows/NAME.keras        a model of each row of the catalogue, with seeded weights
rows/NAME.npz          inputs, and the output
presets/CLASS/         a preset of each class that has one, with seeded weights
presets/CLASS.json     a call of its method, and what it returned
signatures.txt         the public signatures, which signatures.py has written

A file of a version that is released is never written again.
"""

import json
import os
import pathlib
import sys
import tempfile
import zipfile

os.environ.setdefault("KERAS_BACKEND", "torch")

import numpy as np
import signatures
import small_networks
from catalogue import ROWS

import keras_attention

FOLDER = pathlib.Path(__file__).parent / "fixtures" / "released"
STORY = ["John got the apple there.", "John went to the hallway."]
FACTS = ["Ida | taught_by | Bo", "Bo | year | 1932", "Ida | year | 1950"]
CALLS = {  # the method of each class that has strings, and its arguments
    "MemN2N": ("answer", STORY, "Where is John?"),
    "MemNN": ("answer", STORY, "Where is John?"),
    "KeyValueMemNN": ("answer", FACTS, "Who taught Ida?"),
    "DNCNetwork": ("answer", ["A | 1 | B", "B | 1 | C", "C | 2 | A"], "A | 1"),
    "Transformer": ("translate", "Ik heb een hond."),
    "Seq2Seq": ("translate", "4 May"),
    "CausalLM": ("complete", "the garden"),
    "MaskedLM": ("fill", "the ___"),
    "TransformerClassifier": ("classify", "the garden"),
    "SkipGram": ("nearest", "dog"),
    "ImageCaptioner": ("caption", np.linspace(0, 1, 64).reshape(8, 8).tolist()),
}


def answer(model, method, *arguments):
    """What a method returns, with a score, as JSON holds it."""
    if method == "caption":
        arguments = [np.array(arguments[0])]
    always = method in ("fill", "classify", "nearest")
    options = {} if always else {"return_scores": True}
    return json.loads(json.dumps(getattr(model, method)(*arguments, **options)))


def seed(model):
    """Gives a model weights that do not depend on a backend."""
    rng = np.random.default_rng(7)
    for weight in sorted(model.trainable_weights, key=lambda w: w.path):
        weight.assign(0.5 * rng.normal(size=weight.shape))


def write_rows(folder):
    import test_contract

    for index, row in enumerate(ROWS):
        model, _, predicted, _ = test_contract.compiled(index)
        model.save(folder / f"{row.name}.keras")
        inputs = test_contract.arrays(row)
        np.savez(folder / f"{row.name}.npz", expected=predicted, **inputs)


def write_presets(folder):
    for make in small_networks.ALL:
        model = make()
        name = type(model).__name__
        seed(model)
        model.save_to_preset(folder / name)
        call = CALLS[name]
        entry = {"call": call, "returned": answer(model, *call)}
        (folder / f"{name}.json").write_text(json.dumps(entry) + "\n", "utf-8")


def main():
    """Writes the file of this version; returns the exit status."""
    target = FOLDER / f"{keras_attention.__version__}.zip"
    if target.exists():
        print(f"{target} exists. Delete it first, if {target.stem} is not released.")
        return 1
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for part, write in {"rows": write_rows, "presets": write_presets}.items():
            (folder / part).mkdir()
            write(folder / part)
        FOLDER.mkdir(exist_ok=True)
        with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as zf:
            for path in sorted(p for p in folder.rglob("*") if p.is_file()):
                zf.write(path, path.relative_to(folder))
            zf.write(signatures.FILE, signatures.FILE.name)
    return 0


if __name__ == "__main__":
    sys.exit(main())
