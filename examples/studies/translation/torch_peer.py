"""`torch.nn.Transformer` as a translator with the weights of our `Transformer`.

torch is imported when a peer is created.

Shapes: B batch, S source subwords, T target subwords, D model width, H heads, E width
of a head, V target vocabulary.
"""

from __future__ import annotations

from typing import Any

import keras
import numpy as np

Module = Any
Array = np.ndarray


def make(model: Any, dropout: float, everywhere: bool = False) -> Module:
    """Creates a torch module that computes the same as `model`, with the same weights.

    Args:
        model: a `keras_attention.models.Transformer` with sine positions, layer
            normalization, an ungated ReLU MLP, and logits tied to the target embedding.
        dropout: dropout rate of the embeddings and of each sublayer's output, as in the
            paper and in our blocks.
        everywhere: whether dropout is also applied to the attention weights and inside
            the MLP, as torch's layers do by default.
    """
    import torch

    norm_first = bool((model.block or {}).get("norm_first"))
    sizes = (model.dim, model.num_heads, model.intermediate_dim, dropout)
    layer = torch.nn.TransformerEncoderLayer(
        *sizes, batch_first=True, norm_first=norm_first
    )
    encoder = torch.nn.TransformerEncoder(
        layer,
        model.num_layers,
        torch.nn.LayerNorm(model.dim),
        enable_nested_tensor=False,  # avoids a warning
    )
    core = torch.nn.Transformer(
        model.dim,
        model.num_heads,
        num_decoder_layers=model.num_layers,
        dim_feedforward=model.intermediate_dim,
        dropout=dropout,
        custom_encoder=encoder,
        batch_first=True,
        norm_first=norm_first,
    )
    if not norm_first:  # the paper's blocks already end in a normalization
        core.encoder.norm = core.decoder.norm = None
    if not everywhere:
        _drop_sums_alone(core)
    module = _module(core, model, dropout)
    _take(module, model)
    return module


def _drop_sums_alone(core: Module) -> None:
    import torch

    for layer in (*core.encoder.layers, *core.decoder.layers):
        layer.dropout = torch.nn.Identity()
        layer.self_attn.dropout = 0.0
    for layer in core.decoder.layers:
        layer.multihead_attn.dropout = 0.0


def _module(core: Module, model: Any, dropout: float) -> Module:
    import torch

    class Translator(torch.nn.Module):
        """Embeddings, a `torch.nn.Transformer` and tied logits."""

        def __init__(self) -> None:
            super().__init__()
            self.source = torch.nn.Embedding(model.source_vocabulary_size, model.dim)
            self.target = torch.nn.Embedding(model.target_vocabulary_size, model.dim)
            self.core = core
            self.dropout = torch.nn.Dropout(dropout)
            waves = torch.from_numpy(_waves(512, model.dim))
            self.register_buffer("waves", waves)

        def embed(self, embedding: Module, tokens: Any) -> Any:
            x = embedding(tokens) * model.dim**0.5
            return self.dropout(x + self.waves[: tokens.shape[1]])

        def encode(self, source: Any) -> tuple[Any, Any]:
            hidden = source == 0
            x = self.embed(self.source, source)
            return self.core.encoder(x, src_key_padding_mask=hidden), hidden

        def decode(self, target: Any, memory: Any, hidden: Any) -> Any:
            length = target.shape[1]
            mask = torch.nn.Transformer.generate_square_subsequent_mask(length)
            z = self.core.decoder(
                self.embed(self.target, target),
                memory,
                tgt_mask=mask,
                tgt_is_causal=True,
                memory_key_padding_mask=hidden,
            )
            return torch.nn.functional.linear(z, self.target.weight)  # (B, T, V)

        def forward(self, source: Any, target: Any) -> Any:
            return self.decode(target, *self.encode(source))

        @torch.no_grad()
        def generate(self, batch: Array, max_length: int, sampler: str) -> Array:
            """Decodes greedily, without the unknown piece.

            Computes the whole target anew for each token.
            """
            if sampler != "greedy":
                raise ValueError(f"torch.nn has no such sampler: {sampler!r}")
            self.eval()
            memory, hidden = self.encode(torch.from_numpy(batch).long())
            written = torch.zeros(len(batch), 1 + max_length, dtype=torch.long)
            written[:, 0] = 2
            done = torch.zeros(len(batch), dtype=torch.bool)
            for t in range(1, 1 + max_length):
                logits = self.decode(written[:, :t], memory, hidden)[:, -1]
                logits[:, 1] = float("-inf")
                token = torch.where(done, 0, logits.argmax(-1))
                written[:, t] = token
                done |= token == 3
                if done.all():
                    break
            return written[:, 1:].numpy()

    return Translator()


def step(
    module: Module, optimizer: Any, inputs: dict, labels: Array, smooth: float
) -> Any:
    """Runs one training step and returns its loss tensor."""
    cost = _cost(module, inputs, labels, smooth)
    optimizer.zero_grad()
    cost.backward()
    optimizer.step()
    return cost.detach()


def loss(module: Module, batches: Any, smooth: float) -> float:
    """Returns the mean loss over batches, computed as in Keras."""
    import torch

    module.eval()
    costs = []
    with torch.no_grad():
        for i in range(len(batches)):
            inputs, labels = batches[i]
            costs.append(float(_cost(module, inputs, labels, smooth)))
    return float(np.mean(costs))


def _cost(module: Module, inputs: dict, labels: Array, smooth: float) -> Any:
    import torch

    source, target, wanted = (
        torch.from_numpy(x).long() for x in (inputs["source"], inputs["target"], labels)
    )
    logits = module(source, target)
    return torch.nn.functional.cross_entropy(
        logits.flatten(0, 1), wanted.flatten(), ignore_index=0, label_smoothing=smooth
    )


def _waves(length: int, dim: int) -> Array:
    pairs = 2 * (np.arange(dim) // 2)
    angle = np.arange(length)[:, None] * 1e4 ** (-pairs / dim)
    odd = np.arange(dim) % 2 == 1
    return np.where(odd, np.cos(angle), np.sin(angle)).astype("float32")


def _take(module: Module, model: Any) -> None:
    """Copies the weights of our model to the module."""
    _put(module.source.weight, model.get_layer("source_embedding").embeddings)
    _put(module.target.weight, model.get_layer("target_embedding").embeddings)
    for name, stack in (
        ("encoder", module.core.encoder),
        ("decoder", module.core.decoder),
    ):
        for n, theirs in enumerate(stack.layers):
            take_block(theirs, model.get_layer(f"{name}_block_{n}"))
        if stack.norm is not None:
            take_norm(stack.norm, model.get_layer(f"{name}_norm"))


def take_block(theirs: Module, ours: Any) -> None:
    """Copies the weights of our encoder or decoder block to torch's layer."""
    norms = [ours.self_attention_norm, ours.feedforward_norm]
    take_attention(theirs.self_attn, ours.self_attention)
    if hasattr(theirs, "multihead_attn"):
        take_attention(theirs.multihead_attn, ours.cross_attention)
        norms.insert(1, ours.cross_attention_norm)
    for k, norm in enumerate(norms, 1):
        take_norm(getattr(theirs, f"norm{k}"), norm)
    for dense, linear in (
        (ours.feedforward_in, theirs.linear1),
        (ours.feedforward_out, theirs.linear2),
    ):
        _put(linear.weight, _array(dense.kernel).T)
        _put(linear.bias, dense.bias)


def take_attention(theirs: Module, ours: Any) -> None:
    """Copies the weights of our self-attention to `torch.nn.MultiheadAttention`."""
    dim = theirs.embed_dim
    projections = (ours.query_dense, ours.key_dense, ours.value_dense)
    # (D, H, E) each; torch has (3 H E, D)
    kernels = [_array(dense.kernel).reshape(dim, -1).T for dense in projections]
    _put(theirs.in_proj_weight, np.concatenate(kernels))
    biases = [_array(dense.bias).reshape(-1) for dense in projections]
    _put(theirs.in_proj_bias, np.concatenate(biases))
    _put(theirs.out_proj.weight, _array(ours.output_dense.kernel).reshape(-1, dim).T)
    _put(theirs.out_proj.bias, ours.output_dense.bias)


def take_norm(theirs: Module, ours: Any) -> None:
    _put(theirs.weight, ours.gamma)
    _put(theirs.bias, ours.beta)
    theirs.eps = ours.epsilon


def _array(variable: Any) -> Array:
    return np.asarray(keras.ops.convert_to_numpy(variable))


def _put(parameter: Any, values: Any) -> None:
    import torch

    with torch.no_grad():
        parameter.copy_(torch.from_numpy(np.array(_array(values))))
