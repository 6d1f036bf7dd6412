"""What test_keras_hub.py has done on torch: weights of `transformers` in our models.

It runs in the process of hub_worker.py, since imports take most of the time.
"""

import pathlib
import tempfile

import numpy as np
import torch
import transformers
from keras import ops

from keras_attention.models import CausalLM, MaskedLM

V, P = 37, 13
GPT2 = {
    **{"vocab_size": V, "n_positions": P, "n_embd": 8, "n_layer": 2, "n_head": 2},
    **{"bos_token_id": None, "eos_token_id": None},
}
BERT = {
    **{"vocab_size": V, "max_position_embeddings": P, "hidden_size": 8},
    **{"num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 16},
}
PROMPTS = [[0], [5, 0, 0], [3, 4, 5, 6]]


def random_model(cls, config):
    """Also biases and norms are random, so that each has an effect."""
    model = cls(config).eval()
    with torch.no_grad():
        for weight in model.parameters():
            weight.normal_(0.5 * (weight.ndim == 1), 0.5)
    return model


def close(found, expected):
    np.testing.assert_allclose(
        ops.convert_to_numpy(found), expected.detach().numpy(), rtol=0, atol=1e-5
    )


def gpt2(folder, tokens):
    for n, (changes, options) in enumerate(
        (
            ({}, {}),
            ({}, {"max_shard_size": "2KB"}),
            (
                {
                    **{"tie_word_embeddings": False, "activation_function": "gelu"},
                    **{"n_inner": 20, "layer_norm_epsilon": 1e-3},
                },
                {},
            ),
        )
    ):
        config = transformers.GPT2Config(**GPT2, **changes)
        theirs = random_model(transformers.GPT2LMHeadModel, config)
        with torch.no_grad():
            theirs.transformer.wpe.weight.mul_(4)  # so that the tokens change
        theirs.save_pretrained(folder / f"gpt2_{n}", **options)
        ours = CausalLM.from_gpt2(folder / f"gpt2_{n}")
        close(ours({"tokens": tokens}), theirs(torch.tensor(tokens)).logits)
        if n == 0:
            written = ours.generate(PROMPTS, max_length=6)
            assert len(np.unique(written)) > 3
            for prompt, row in zip(PROMPTS, written):
                given = torch.tensor([prompt])
                expected = theirs.generate(
                    given,
                    attention_mask=torch.ones_like(given),
                    max_new_tokens=6,
                    do_sample=False,
                    pad_token_id=0,
                )
                np.testing.assert_array_equal(expected[0, len(prompt) :], row)


def bert(folder, tokens):
    places = np.tile(np.arange(tokens.shape[1]), (len(tokens), 1))
    mask = torch.tensor(tokens != 0)
    for n, (cls, changes) in enumerate(
        (
            ("BertForMaskedLM", {}),
            ("BertForPreTraining", {"hidden_act": "gelu_new", "type_vocab_size": 1}),
            (
                "BertForMaskedLM",
                {"tie_word_embeddings": False, "layer_norm_eps": 1e-2},
            ),
        )
    ):
        config = transformers.BertConfig(**BERT, **changes)
        theirs = random_model(getattr(transformers, cls), config)
        theirs.save_pretrained(folder / f"bert_{n}")
        ours = MaskedLM.from_bert(folder / f"bert_{n}")
        output = theirs(torch.tensor(tokens), attention_mask=mask.long())
        expected = output["logits" if "logits" in output else "prediction_logits"]
        found = ours({"tokens": tokens, "mask_positions": places})
        close(found[mask], expected[mask])


def our_models_read_weights_of_transformers():
    transformers.logging.disable_progress_bar()
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    texts = rng.integers(0, V, (3, 11))
    sentences = rng.integers(1, V, (3, 11)) * (np.arange(11) < [[11], [7], [3]])
    with tempfile.TemporaryDirectory() as folder:
        gpt2(pathlib.Path(folder), texts)
        bert(pathlib.Path(folder), sentences)
