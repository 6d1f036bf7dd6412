"""`CausalLM.from_gpt2` and `MaskedLM.from_bert`; tests/interop has the peers."""

import json
import sys

import h5py
import keras
import numpy as np
import pytest
from keras import ops
from stored_weights import (
    BERT,
    GPT2,
    P,
    V,
    bert,
    bert_tensors,
    gpt2,
    gpt2_tensors,
    write_folder,
    write_safetensors,
)

from keras_attention.models import CausalLM, MaskedLM

pytest.importorskip("safetensors", reason="the extra `safetensors` is not installed")

TOKENS = np.array([[0, 5, 0, 18, 3, 0], [7, 2, 2, 1, 0, 0]])


def logits(model, tokens=TOKENS):
    return ops.convert_to_numpy(model({"tokens": tokens}))


def bert_logits(model, tokens):
    """The logits of all positions."""
    places = np.tile(np.arange(tokens.shape[1]), (len(tokens), 1))
    return ops.convert_to_numpy(model({"tokens": tokens, "mask_positions": places}))


@pytest.fixture
def gpt2_folder(tmp_path):
    return write_folder(tmp_path / "gpt2", GPT2, gpt2_tensors())


@pytest.fixture
def bert_folder(tmp_path):
    return write_folder(tmp_path / "bert", BERT, bert_tensors())


@pytest.mark.backends("all")
def test_gpt2_gives_the_numbers_of_its_equations(gpt2_folder, tmp_path):
    model = CausalLM.from_gpt2(gpt2_folder)
    found, tensors = logits(model), gpt2_tensors()
    for row, tokens in zip(found, TOKENS):
        np.testing.assert_allclose(row, gpt2(tokens, tensors), atol=1e-5)
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    assert loaded.pad_token_id is None
    np.testing.assert_allclose(logits(loaded), found, atol=1e-6)
    with pytest.raises(ValueError, match=f"below {V}"):
        model({"tokens": np.array([[V]])})


@pytest.mark.backends("all")
def test_bert_gives_the_numbers_of_its_equations(bert_folder, tmp_path):
    model, tensors = MaskedLM.from_bert(bert_folder), bert_tensors()
    tokens = np.array([[4, 5, 9, 18, 3, 2], [7, 2, 2, 1, 0, 0]])
    found = bert_logits(model, tokens)
    np.testing.assert_allclose(found[0], bert(tokens[0], tensors), atol=1e-5)
    np.testing.assert_allclose(found[1, :4], bert(tokens[1, :4], tensors), atol=1e-5)
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_allclose(bert_logits(loaded, tokens), found, atol=1e-6)


@pytest.mark.parametrize(
    ("load", "config", "tensors", "names"),
    [
        (CausalLM.from_gpt2, GPT2, gpt2_tensors, "resid_pdrop embd_pdrop attn_pdrop"),
        (
            MaskedLM.from_bert,
            BERT,
            bert_tensors,
            "hidden_dropout_prob hidden_dropout_prob attention_probs_dropout_prob",
        ),
    ],
)
def test_the_dropout_of_the_config(tmp_path, load, config, tensors, names):
    rates = dict(zip(names.split(), (0.3, 0.3, 0.2)))
    model = load(write_folder(tmp_path / "m", {**config, **rates}, tensors()))
    block = model.get_layer("block_0")
    assert model.get_config()["dropout"] == block.dropout == 0.3
    assert block.self_attention.dropout == 0.2


@pytest.mark.slow
def test_gpt2_writes_the_likeliest_tokens(gpt2_folder):
    """Of prompts of unequal length, in which 0 is a token like any other."""
    model, tensors = CausalLM.from_gpt2(gpt2_folder), gpt2_tensors()
    prompts, expected = [[0], [5, 0, 0], [3, 0]], []
    for prompt in prompts:
        row = list(prompt)
        for _ in range(4):
            row.append(int(gpt2(np.array(row), tensors)[-1].argmax()))
        expected.append(row[len(prompt) :])
    np.testing.assert_array_equal(model.generate(prompts, max_length=4), expected)
    found = model.generate(np.array([prompts[1]]), max_length=4)
    np.testing.assert_array_equal(found, expected[1:2])
    # After a stop token, rows repeat it: no other token would mean "nothing".
    stop = expected[1][1]
    found = model.generate(prompts[1:2], max_length=4, stop_token_ids=stop)
    end = expected[1].index(stop)
    assert found.tolist() == [expected[1][:end] + [stop] * (4 - end)]
    with pytest.raises(ValueError, match=r"at least one token a row\. Received"):
        model.generate([np.array([], "int32"), [3]], max_length=2)
    with pytest.raises(ValueError, match=f"{P} positions"):
        model.generate(prompts, max_length=P)


@pytest.mark.slow
def test_a_pad_token_of_ones_own(gpt2_folder):
    plain = CausalLM.from_gpt2(gpt2_folder)
    model = CausalLM.from_gpt2(gpt2_folder, pad_token_id=V - 1)
    assert CausalLM.from_config(model.get_config()).pad_token_id == V - 1
    expected = plain.generate([[0], [5, 0, 0]], max_length=3)
    for prompts in ([[0], [5, 0, 0]], np.array([[0, V - 1, V - 1], [5, 0, 0]])):
        found = model.generate(prompts, max_length=3)
        np.testing.assert_array_equal(found, expected)
    stop = int(expected[0, 0])
    found = model.generate([[0]], max_length=3, stop_token_ids=stop)
    assert found.tolist() == [[stop, V - 1, V - 1]]
    with pytest.raises(ValueError, match=f"padding, {V - 1}, behind them alone"):
        model.generate(np.array([[V - 1, 5]]), max_length=2)
    for wrong in (True, 2.0, "2"):
        with pytest.raises(ValueError, match=f"must be an integer.*={wrong!r}"):
            CausalLM.from_gpt2(gpt2_folder, pad_token_id=wrong)
    with pytest.raises(ValueError, match=f"pad_token_id={V}, a vocabulary of {V}"):
        CausalLM.from_gpt2(gpt2_folder, pad_token_id=V)


def test_weights_in_half_precision_and_in_parts(tmp_path):
    tensors = gpt2_tensors()
    # The numbers that bfloat16 and float16 keep.
    short = {k: (v.view("<u4") & 0xFFFF0000).view("<f4") for k, v in tensors.items()}
    exact = logits(CausalLM.from_gpt2(write_folder(tmp_path / "a", GPT2, short)))
    folder = tmp_path / "b"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(GPT2))
    names, where = sorted(short), {}
    for n, part in enumerate((names[:9], names[9:])):
        file = folder / f"model-{n}.safetensors"
        write_safetensors(file, {name: short[name] for name in part}, bfloat16=part)
        where |= dict.fromkeys(part, file.name)
    index = folder / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": where}))
    np.testing.assert_array_equal(logits(CausalLM.from_gpt2(folder)), exact)
    half = {k: v.astype("float16") for k, v in tensors.items()}
    wide = {k: v.astype("float32") for k, v in half.items()}
    found = logits(CausalLM.from_gpt2(write_folder(tmp_path / "c", GPT2, half)))
    exact = logits(CausalLM.from_gpt2(write_folder(tmp_path / "d", GPT2, wide)))
    np.testing.assert_array_equal(found, exact)
    model = CausalLM.from_gpt2(tmp_path / "d", dtype="mixed_bfloat16")
    assert model.dtype_policy.name == "mixed_bfloat16"
    for change, message in (
        ({names[0]: "../model-0.safetensors"}, "which is not there"),
        ({names[0]: "model-1.safetensors"}, "not in the file that it names"),
        ({"more": "model-1.safetensors"}, "'more' not in the file"),
    ):
        index.write_text(json.dumps({"weight_map": {**where, **change}}))
        with pytest.raises(ValueError, match=message):
            CausalLM.from_gpt2(folder)


def test_what_older_files_hold_besides(tmp_path):
    """Masks, a second copy of a tied matrix, other names of norms, no prefix."""
    tensors = gpt2_tensors()
    expected = logits(CausalLM.from_gpt2(write_folder(tmp_path / "a", GPT2, tensors)))
    old = {k.removeprefix("transformer."): v for k, v in tensors.items()}
    old |= {"h.0.attn.bias": np.ones((1, 1, P, P), "uint8")}
    old |= {"h.1.attn.masked_bias": np.array(-1e4, "float32")}
    old |= {"lm_head.weight": old["wte.weight"]}
    folder = write_folder(tmp_path / "b", GPT2, old)
    np.testing.assert_array_equal(logits(CausalLM.from_gpt2(folder)), expected)
    write_folder(folder, GPT2, {**old, "lm_head.weight": old["wte.weight"] + 1})
    with pytest.raises(ValueError, match=r"'lm_head.weight' and 'wte.weight' must be"):
        CausalLM.from_gpt2(folder)
    both = {**old, "transformer.wte.weight": old["wte.weight"] + 1}
    with pytest.raises(ValueError, match=r"hold each tensor once.*'transformer.wte"):
        CausalLM.from_gpt2(write_folder(tmp_path / "both", GPT2, both))
    # Not tied, it is a matrix of its own.
    write_folder(folder, {**GPT2, "tie_word_embeddings": False}, old)
    found = logits(CausalLM.from_gpt2(folder))
    np.testing.assert_allclose(found, expected, atol=1e-5)

    tensors = bert_tensors()
    folder = write_folder(tmp_path / "c", BERT, tensors)
    tokens = np.array([[4, 5, 9]])
    expected = bert_logits(MaskedLM.from_bert(folder), tokens)
    gamma, beta = ("LayerNorm.weight", "LayerNorm.gamma"), ("LayerNorm.bias",) * 2
    old = {k.replace(*gamma): v for k, v in tensors.items()}
    old = {k.replace(beta[0], "LayerNorm.beta"): v for k, v in old.items()}
    old |= {"bert.embeddings.position_ids": np.arange(P)[None]}
    old |= {"bert.pooler.dense.bias": np.zeros(8, "float32")}
    old |= {"cls.seq_relationship.bias": np.zeros(2, "float32")}
    old |= {"cls.predictions.decoder.bias": tensors["cls.predictions.bias"]}
    found = bert_logits(MaskedLM.from_bert(write_folder(folder, BERT, old)), tokens)
    np.testing.assert_array_equal(found, expected)
    both = {**old, "bert.embeddings.LayerNorm.weight": np.ones(8, "float32")}
    with pytest.raises(ValueError, match="hold each tensor once"):
        MaskedLM.from_bert(write_folder(folder, BERT, both))


def test_a_bert_without_a_head(tmp_path):
    inner = {k: v for k, v in bert_tensors().items() if k.startswith("bert.")}
    inner = {k.removeprefix("bert."): v for k, v in inner.items()}
    folder = write_folder(tmp_path / "bert", BERT, inner)
    with pytest.raises(ValueError, match=r"`new_head` must be True.*transform.dense"):
        MaskedLM.from_bert(folder)
    model = MaskedLM.from_bert(folder, new_head=True)
    words = model.get_layer("token_embedding").embeddings
    expected = inner["embeddings.word_embeddings.weight"]
    np.testing.assert_array_equal(ops.convert_to_numpy(words), expected)


@pytest.mark.parametrize(
    ("entry", "value"),
    [
        ("model_type", "gptj"),
        ("activation_function", "gelu_10"),
        ("scale_attn_weights", False),
        ("scale_attn_by_inverse_layer_idx", True),
        ("add_cross_attention", True),
        ("embd_pdrop", 0.2),
        ("quantization_config", {"bits": 8}),
        ("n_head", 3),
        ("n_layer", "two"),
        ("layer_norm_epsilon", "small"),
    ],
)
def test_what_a_gpt2_may_not_ask_for(gpt2_folder, entry, value):
    (gpt2_folder / "config.json").write_text(json.dumps({**GPT2, entry: value}))
    with pytest.raises(ValueError, match=rf"The entry '{entry}'.* {entry}={value!r}"):
        CausalLM.from_gpt2(gpt2_folder)


@pytest.mark.parametrize(
    ("entry", "value"),
    [
        ("model_type", "roberta"),
        ("position_embedding_type", "relative_key"),
        ("is_decoder", True),
        ("pad_token_id", 1),
        ("hidden_act", "mish"),
    ],
)
def test_what_a_bert_may_not_ask_for(bert_folder, entry, value):
    (bert_folder / "config.json").write_text(json.dumps({**BERT, entry: value}))
    with pytest.raises(ValueError, match=rf"The entry '{entry}'.* {entry}={value!r}"):
        MaskedLM.from_bert(bert_folder)


def test_what_tensors_must_be(gpt2_folder):
    def refused(message, **changes):
        tensors = {**gpt2_tensors(), **changes}
        tensors = {k: v for k, v in tensors.items() if v is not None}
        write_folder(gpt2_folder, GPT2, tensors)
        with pytest.raises(ValueError, match=message):
            CausalLM.from_gpt2(gpt2_folder)

    name, zeros = "transformer.h.1.ln_2.bias", np.zeros(9, "float32")
    refused(r"without 'h\.1\.ln_2\.bias'$", **{name: None})
    refused(r"'h\.1\.ln_2\.bias' must have the shape \(8,\).*\(9,\)", **{name: zeros})
    refused(r"no place for.* with 'score.weight'$", **{"score.weight": zeros})
    refused(r"'transformer.h.1.ln_2.bias' as floating.* I64", **{name: np.arange(8)})
    nothing = dict.fromkeys(gpt2_tensors())
    refused(r"without 'h\.0.* and 25 more$", **nothing)


def test_damaged_files_and_other_formats(gpt2_folder, tmp_path):
    def refused(message, path=gpt2_folder):
        with pytest.raises(ValueError, match=message):
            CausalLM.from_gpt2(path)

    file = gpt2_folder / "model.safetensors"
    whole = file.read_bytes()
    header = int.from_bytes(whole[:8], "little")
    for damaged in (
        b"",
        whole[:7],
        whole[: header // 2],
        whole[:-1],
        whole + b"\0",
        b"\xff" * 8 + whole[8:],
        whole[:8] + b"?" + whole[9:],
        whole[:8] + whole[8:].replace(b'"F32"', b'"F16"', 1),
        whole[:8] + whole[8:].replace(b'"shape"', b'"shade"', 1),
    ):
        file.write_bytes(damaged)
        refused("model.safetensors must be a complete file of weights")
    file.write_bytes(whole)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "safetensors", None)
        extra = r"keras-attention-family\[safetensors\]"
        with pytest.raises(ImportError, match=extra):
            CausalLM.from_gpt2(gpt2_folder)
    file.rename(gpt2_folder / "pytorch_model.bin")
    refused("pickled weights can run code .* safe_serialization=True")
    (gpt2_folder / "config.json").write_text("{")
    refused("config.json must hold JSON")
    (gpt2_folder / "config.json").write_text("[]")
    refused("config.json must hold a JSON object")
    (gpt2_folder / "config.json").write_text("{}")
    refused("must have the entry 'model_type' of Hugging Face")
    refused(r"Nothing is downloaded. Received: path='gpt2'", "gpt2")

    hub = {"class_name": "GPT2Backbone", "config": {"num_layers": 1}}
    (gpt2_folder / "config.json").write_text(json.dumps(hub))
    refused("one file, model.weights.h5")
    weights = gpt2_folder / "model.weights.h5"
    with h5py.File(weights, "w") as stored:
        stored["layers/x/vars/0"] = np.zeros(99)
    refused("must have the entry 'hidden_dim'")
    weights.write_bytes(weights.read_bytes()[:-100])
    refused("model.weights.h5 must be a complete file of weights")
    (gpt2_folder / "config.json").write_text(json.dumps({**hub, "class_name": "Bert"}))
    with h5py.File(weights, "w") as stored:
        stored["x"] = np.zeros(1)
    refused("'class_name' of config.json must be 'GPT2Backbone'")
    with h5py.File(weights, "w") as stored:
        stored.create_dataset("x", (2,), "f4", external=[("other", 0, 8)])
    refused("'x' is stored in another file")


def test_a_head_of_ones_own():
    head = keras.layers.Dense(8, activation="tanh", name="own")
    model = MaskedLM(V, 1, dim=8, num_heads=2, intermediate_dim=3, head=head)
    assert {"own/kernel", "own/bias"} <= {w.path for w in model.weights}
    copied = MaskedLM.from_config(model.get_config())
    assert isinstance(copied.head, keras.layers.Dense)
    assert copied.head is not head
    with pytest.raises(ValueError, match=r"a Keras layer or None\. Received: head='x'"):
        MaskedLM(V, 1, dim=8, num_heads=2, head="x")
    with pytest.raises(ValueError, match=r"width of the model, 8.* the width 9"):
        MaskedLM(V, 1, dim=8, num_heads=2, head=keras.layers.Dense(9))
