"""KerasHub with our MultiHeadAttention in place of Keras' own.

python hub_in_place.py compare [NAME …]       the same models with both layers
python hub_in_place.py keras|ours TEST_FILE …  KerasHub's own tests, from its repository

`compare` builds each model with both layers and the same weights. It compares outputs,
a step of training, a saved and loaded model, and generated words.
"""

import importlib
import pathlib
import sys
import tempfile

import keras
import numpy as np

from keras_attention.layers import MultiHeadAttention

LAYERS = {"keras": keras.layers.MultiHeadAttention, "ours": MultiHeadAttention}
V, T, S = 29, 7, 5
# Each backend draws its own dropout in our layer, so a step of training has none.
SIZES = {
    "vocabulary_size": V,
    "num_layers": 2,
    "hidden_dim": 8,
    "intermediate_dim": 12,
    "dropout": 0.0,
}
HEADS = {**SIZES, "num_heads": 2}
LIMITED = {**HEADS, "max_sequence_length": T}
GIVEN = np.arange(T) < np.array([[T], [3]])


def import_hub(which):
    """Imports KerasHub afresh, over one of the two layers."""
    for name in [name for name in sys.modules if name.split(".")[0] == "keras_hub"]:
        del sys.modules[name]
    keras.layers.MultiHeadAttention = LAYERS[which]
    hub = importlib.import_module("keras_hub")
    assert issubclass(hub.layers.CachedMultiHeadAttention, LAYERS[which])
    return hub


def tokens(length=T, prefix=""):
    words = np.random.default_rng(0).integers(4, V, (2, length))
    given = GIVEN[:, :length]
    return {
        f"{prefix}token_ids": (words * given).astype("int32"),
        f"{prefix}padding_mask": given.astype("int32"),
    }


def numbers(*shape):
    return np.random.default_rng(1).normal(size=shape).astype("float32")


def cases(hub):
    """The models by name, each with its arguments and inputs."""
    models, segments = hub.models, {"segment_ids": np.zeros((2, T), "int32")}
    both = {**tokens(S, "encoder_"), **tokens(T, "decoder_")}
    audio = {
        "filter_dim": 8,
        "encoder_num_layers": 1,
        "decoder_num_layers": 1,
        "encoder_num_heads": 2,
        "decoder_num_heads": 2,
    }
    small = {name: SIZES[name] for name in ("vocabulary_size", "hidden_dim")}
    lengths = {"max_encoder_sequence_length": 10, "max_decoder_sequence_length": T}
    image = {"image_shape": (8, 8, 3), "patch_size": 4, "mlp_dim": 12}
    vision = {name: HEADS[name] for name in ("num_layers", "num_heads", "hidden_dim")}
    return {
        "gpt2": (models.GPT2Backbone, LIMITED, tokens()),
        "opt": (models.OPTBackbone, LIMITED, tokens()),
        "bert": (models.BertBackbone, LIMITED, {**tokens(), **segments}),
        "xlnet": (models.XLNetBackbone, HEADS, {**tokens(), **segments}),
        "bart": (models.BartBackbone, LIMITED, both),
        "whisper": (
            models.WhisperBackbone,
            {**HEADS, **lengths},
            {"encoder_features": numbers(2, 9, 80), **tokens(T, "decoder_")},
        ),
        "moonshine": (
            models.MoonshineBackbone,
            {**small, "intermediate_dim": 12, **audio},
            {
                "encoder_input_values": numbers(2, 1600, 1),
                "encoder_padding_mask": np.ones((2, 1600), bool),
                **tokens(T, "decoder_"),
            },
        ),
        "vit": (models.ViTBackbone, {**vision, **image}, numbers(2, 8, 8, 3)),
    }


def with_weights(model, seed=2):
    rng = np.random.default_rng(seed)
    model.set_weights([rng.normal(0, 0.4, w.shape) for w in model.get_weights()])
    return model


def arrays(outputs):
    flat = keras.tree.flatten(outputs)
    return [np.asarray(keras.ops.convert_to_numpy(one), "float64") for one in flat]


def used(outputs, inputs):
    """The outputs at positions that are not padding."""
    found = outputs if isinstance(outputs, dict) else {"sequence_output": outputs}
    for name, array in found.items():
        prefix = "encoder_" if "encoder" in name else "decoder_"
        mask = inputs.get(f"{prefix}padding_mask") if isinstance(inputs, dict) else None
        if mask is None and isinstance(inputs, dict):
            mask = inputs.get("padding_mask")
        (array,) = arrays(array)
        if mask is not None and mask.shape == array.shape[:2]:
            array = array[mask.astype(bool)]
        yield array


def answers(cls, arguments, inputs):
    """The outputs of a model, those of the loaded model, and weights after a step."""
    model = with_weights(cls(**arguments))
    predicted = model.predict(inputs, verbose=0)
    outputs = list(used(predicted, inputs))
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "model.keras"
        model.save(path)
        again = keras.saving.load_model(path)
    loaded = list(used(again.predict(inputs, verbose=0), inputs))
    for one, other in zip(outputs, loaded):
        np.testing.assert_allclose(other, one, atol=1e-6)
    targets = keras.tree.map_structure(np.zeros_like, predicted)
    model.compile(keras.optimizers.SGD(0.1), "mse")
    model.fit(inputs, targets, batch_size=2, verbose=0)
    return outputs + arrays(model.get_weights())


def written(hub):
    """What two models write with a cache."""
    gpt2 = with_weights(hub.models.GPT2Backbone(**LIMITED))
    model = hub.models.GPT2CausalLM(gpt2, preprocessor=None)
    found = [model.generate(tokens(), stop_token_ids=None)["token_ids"]]
    bart = with_weights(hub.models.BartBackbone(**LIMITED))
    model = hub.models.BartSeq2SeqLM(bart, preprocessor=None)
    inputs = {**tokens(S, "encoder_"), **tokens(T, "decoder_")}
    found.append(model.generate(inputs, stop_token_ids=None)["decoder_token_ids"])
    return arrays(found)


def compare(names):
    found = {}
    for which in LAYERS:
        hub = import_hub(which)
        keras.utils.set_random_seed(0)
        made = cases(hub)
        found[which] = {name: answers(*made[name]) for name in names or made}
        found[which]["written"] = written(hub)
    for name, theirs in found["keras"].items():
        ours = found["ours"][name]
        assert len(ours) == len(theirs)
        for one, other in zip(theirs, ours):
            np.testing.assert_allclose(other, one, atol=2e-4, err_msg=name)
    print(f"{len(found['keras'])} comparisons are equal.")


def run_tests(which, files):
    import pytest

    import_hub(which)
    return pytest.main(["-q", "-p", "no:cacheprovider", "-c", "/dev/null", *files])


if __name__ == "__main__":
    command, *rest = sys.argv[1:]
    if command == "compare":
        compare(rest)
    else:
        sys.exit(run_tests(command, rest))
