"""Text generation by CausalLM, compared with GPT-2 of KerasHub and Hugging Face.

All models have the same weights, with pre-normalization, learned positions and tied
embeddings. Each generates 128 tokens greedily with its `generate` method. KerasHub
compiles with `jax.jit` on JAX and with `tf.function` and XLA on TensorFlow. It does not
compile on torch. Hugging Face's model runs eagerly on torch with its default cache.
Inputs and outputs are NumPy arrays.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from speed.harness import SEED, Case, Contestants, NumericsError, Step

FLOAT, FIRST = 4, 4
SIZES = {"B": 8, "T": 128, "S": 16, "D": 256, "L": 4, "H": 4, "V": 8192}
BACKENDS = {"keras_hub": ("jax", "torch", "tensorflow"), "transformers": ("torch",)}
TOLERANCE = 1e-3  # tolerance for logits, whose magnitudes are around 10


def cases() -> tuple[Case, ...]:
    """Returns a case per peer. S is the prompt length, T the number of new tokens."""
    return tuple(
        Case(
            name="generation",
            sizes={**SIZES, "against": peer},
            make=partial(_contestants, peer),
            steps=_steps(),
            tolerance=TOLERANCE,
            quick=True,
            amount=(SIZES["B"] * SIZES["T"], "tokens"),
            needs=(peer,),
            backends=backends,
        )
        for peer, backends in BACKENDS.items()
    )


def _contestants(peer: str, backend: str) -> Contestants:
    return Race(peer).contestants()


def _steps() -> tuple[Step, ...]:
    """Counts the products of the prompt pass and of each step."""
    batch, tokens, prompt, dim, layers, _, size = SIZES.values()

    def product(rows: int, inner: int, columns: int) -> Step:
        moved = inner * columns + rows * inner + rows * columns
        flops = 2 * rows * inner * columns
        return Step(flops, FLOAT * moved, (1, rows, inner, columns))

    def blocks(rows: int, keys: int) -> tuple[Step, ...]:
        attended = Step(4 * rows * keys * dim, 2 * FLOAT * batch * keys * dim)
        projections = 4 * (product(rows, dim, dim),)
        inside = (product(rows, dim, 4 * dim), product(rows, 4 * dim, dim))
        return layers * (*projections, attended, *inside)

    step = (*blocks(batch, prompt + tokens // 2), product(batch, dim, size))
    return (*blocks(batch * prompt, prompt), *(tokens * step))


class Race:
    """A model and a peer with its weights; the peer "" is the model without a cache."""

    def __init__(self, peer: str) -> None:
        import keras

        from keras_attention.models import CausalLM

        self.peer = peer
        keras.utils.set_random_seed(SEED)
        self.model = CausalLM(
            SIZES["V"],
            num_layers=SIZES["L"],
            dim=SIZES["D"],
            num_heads=SIZES["H"],
            intermediate_dim=4 * SIZES["D"],
            dropout=0.0,
            max_length=SIZES["S"] + SIZES["T"],
            block={"activation": _gelu},
        )
        for weight in self.model.weights:  # so that sequences differ more
            weight.assign(2 * keras.ops.convert_to_tensor(weight))
        generator = np.random.default_rng(SEED)
        shape = (SIZES["B"], SIZES["S"])
        self.prompts = generator.integers(FIRST, SIZES["V"], shape).astype("int32")
        make = {"keras_hub": _keras_hub, "transformers": _transformers, "": _alone}
        theirs, self.logits = make[peer](self.model, self.prompts)
        self.calls = {"ours": self.ours, **({peer: theirs} if peer else {})}

    def contestants(self) -> Contestants:
        """Returns the full `generate` call of the model and of the peer."""
        return Contestants(self.calls, check=self.check)

    def ours(self) -> np.ndarray:
        return self.model.generate(self.prompts, SIZES["T"])

    def check(self) -> dict[str, float]:
        """Checks that the peer's logits are highest for the tokens of both."""
        worst = 0.0
        for name, write in self.calls.items():
            written = write()
            whole = np.concatenate([self.prompts, written], 1)
            logits = self.logits(whole)[:, SIZES["S"] - 1 : -1]
            chosen = np.take_along_axis(logits, written[..., None], -1)[..., 0]
            short = float((logits.max(-1) - chosen).max())
            if short > TOLERANCE:
                raise NumericsError(
                    f"{name} wrote a token {short:.2e} below the likeliest of "
                    f"{self.peer or 'the model without a cache'}"
                )
            worst = max(worst, short)
        return {self.peer: worst}


def _alone(model: Any, prompts: np.ndarray) -> tuple[Callable, Callable]:
    """Returns `generate` itself, and a function for logits without a cache."""

    def logits(tokens: np.ndarray) -> np.ndarray:
        return model.predict_on_batch({"tokens": tokens})

    return model.generate, logits


def _gelu(x: Any) -> Any:
    """The tanh approximation of GELU, as in GPT-2."""
    import keras

    return keras.activations.gelu(x, approximate=True)


def _weights(model: Any) -> list[Any]:
    """Returns arrays in the order of GPT-2: embeddings, blocks, final norm."""
    from keras import ops

    def arrays(*layers: Any) -> list[np.ndarray]:
        weights = [weight for layer in layers for weight in layer.weights]
        return [ops.convert_to_numpy(weight) for weight in weights]

    found = arrays(
        model.get_layer("token_embedding"), model.get_layer("token_embedding_position")
    )
    for n in range(model.num_layers):
        block = model.get_layer(f"block_{n}")
        found += arrays(
            block.self_attention_norm,
            block.self_attention,
            block.feedforward_norm,
            block.feedforward_in,
            block.feedforward_out,
        )
    return [*found, *arrays(model.get_layer("final_norm"))]


def _keras_hub(model: Any, prompts: np.ndarray) -> tuple[Callable, Callable]:
    """Returns two functions of KerasHub's GPT-2: for generation and for logits."""
    import keras_hub
    from keras import ops

    backbone = keras_hub.models.GPT2Backbone(
        vocabulary_size=SIZES["V"],
        num_layers=SIZES["L"],
        num_heads=SIZES["H"],
        hidden_dim=SIZES["D"],
        intermediate_dim=4 * SIZES["D"],
        dropout=0.0,
        max_sequence_length=SIZES["S"] + SIZES["T"],
    )
    arrays = iter(_weights(model))
    parts = [backbone.token_embedding, backbone.position_embedding]
    for block in backbone.transformer_layers:
        parts += [
            block._self_attention_layer_norm,
            block._self_attention_layer,
            block._feedforward_layer_norm,
            block._feedforward_intermediate_dense,
            block._feedforward_output_dense,
        ]
    for part in [*parts, backbone.layer_norm]:
        for weight in part.weights:
            weight.assign(next(arrays).reshape(weight.shape))
    peer = keras_hub.models.GPT2CausalLM(backbone=backbone, preprocessor=None)
    peer.compile(sampler="greedy")
    room = ((0, 0), (0, SIZES["T"]))
    inputs = {
        "token_ids": np.pad(prompts, room),
        "padding_mask": np.pad(np.ones_like(prompts), room),
    }

    def write() -> np.ndarray:
        found = peer.generate(dict(inputs), stop_token_ids=None)
        return np.asarray(found["token_ids"])[:, SIZES["S"] :]

    def logits(tokens: np.ndarray) -> np.ndarray:
        given = {"token_ids": tokens, "padding_mask": np.ones_like(tokens)}
        return ops.convert_to_numpy(peer(given))

    return write, logits


def _transformers(model: Any, prompts: np.ndarray) -> tuple[Callable, Callable]:
    """Returns two functions of Hugging Face's GPT-2: for generation and for logits."""
    import torch
    import transformers

    config = transformers.GPT2Config(
        vocab_size=SIZES["V"],
        n_positions=SIZES["S"] + SIZES["T"],
        n_embd=SIZES["D"],
        n_layer=SIZES["L"],
        n_head=SIZES["H"],
        activation_function="gelu_pytorch_tanh",  # the same as "gelu_new", but faster
        bos_token_id=None,
        eos_token_id=None,
    )
    peer = transformers.GPT2LMHeadModel(config).eval()
    arrays = iter(_weights(model))
    width = SIZES["D"]

    def take(*targets: Any) -> None:
        for target in targets:
            array = next(arrays).reshape(target.shape)
            target.data.copy_(torch.from_numpy(array.copy()))

    body = peer.transformer
    take(body.wte.weight, body.wpe.weight)
    for block in body.h:
        take(block.ln_1.weight, block.ln_1.bias)
        kernel, bias = block.attn.c_attn.weight, block.attn.c_attn.bias
        for n in range(3):
            take(
                kernel[:, n * width : (n + 1) * width],
                bias[n * width : (n + 1) * width],
            )
        take(block.attn.c_proj.weight, block.attn.c_proj.bias)
        take(block.ln_2.weight, block.ln_2.bias)
        take(block.mlp.c_fc.weight, block.mlp.c_fc.bias)
        take(block.mlp.c_proj.weight, block.mlp.c_proj.bias)
    take(body.ln_f.weight, body.ln_f.bias)
    device = model.weights[0].value.device
    peer.to(device)

    def write() -> np.ndarray:
        given = torch.from_numpy(prompts.astype("int64")).to(device)
        found = peer.generate(
            given,
            attention_mask=torch.ones_like(given),
            max_new_tokens=SIZES["T"],
            do_sample=False,
            pad_token_id=0,
        )
        return found[:, SIZES["S"] :].cpu().numpy().astype("int32")

    def logits(tokens: np.ndarray) -> np.ndarray:
        with torch.no_grad():
            given = torch.from_numpy(tokens.astype("int64")).to(device)
            return peer(given).logits.float().cpu().numpy()

    return write, logits
