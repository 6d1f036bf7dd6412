"""Small folders of weights as Hugging Face writes them, and GPT-2 and BERT in NumPy."""

import json
import math

import numpy as np

V, P, D, H, F, N = 19, 7, 8, 2, 12, 2  # words, positions, width, heads, MLP, blocks
GPT2 = {
    "model_type": "gpt2",
    **{"vocab_size": V, "n_positions": P, "n_embd": D, "n_head": H, "n_inner": F},
    **{"n_layer": N, "activation_function": "gelu_new", "layer_norm_epsilon": 1e-5},
}
BERT = {
    "model_type": "bert",
    **{"vocab_size": V, "max_position_embeddings": P, "hidden_size": D},
    **{"num_attention_heads": H, "intermediate_size": F, "num_hidden_layers": N},
    **{"hidden_act": "gelu", "layer_norm_eps": 1e-12, "type_vocab_size": 2},
}
DTYPES = {"<f4": "F32", "<f2": "F16", "<i8": "I64", "|u1": "U8"}


def random_tensors(shapes):
    """Also biases and norms are random, so that each has an effect."""
    rng = np.random.default_rng(7)
    return {
        name: (rng.normal(0.5 * name.endswith("weight"), 0.5, shape)).astype("float32")
        for name, shape in shapes.items()
    }


def gpt2_tensors():
    shapes = {"wte.weight": (V, D), "wpe.weight": (P, D)}
    shapes |= {"ln_f.weight": (D,), "ln_f.bias": (D,)}
    for n in range(N):
        for name, shape in {
            **{"ln_1": (D,), "ln_2": (D,), "attn.c_attn": (D, 3 * D)},
            **{"attn.c_proj": (D, D), "mlp.c_fc": (D, F), "mlp.c_proj": (F, D)},
        }.items():
            shapes[f"h.{n}.{name}.weight"] = shape
            shapes[f"h.{n}.{name}.bias"] = shape[-1:]
    tensors = random_tensors(shapes)
    return {f"transformer.{name}": values for name, values in tensors.items()}


def bert_tensors():
    parts = {
        "bert.embeddings.LayerNorm": (D,),
        "cls.predictions.transform.dense": (D, D),
        "cls.predictions.transform.LayerNorm": (D,),
    }
    for n in range(N):
        layer = f"bert.encoder.layer.{n}"
        for name in ("query", "key", "value"):
            parts[f"{layer}.attention.self.{name}"] = (D, D)
        parts[f"{layer}.attention.output.dense"] = (D, D)
        parts[f"{layer}.attention.output.LayerNorm"] = (D,)
        parts[f"{layer}.intermediate.dense"] = (F, D)
        parts[f"{layer}.output.dense"] = (D, F)
        parts[f"{layer}.output.LayerNorm"] = (D,)
    shapes = {
        "bert.embeddings.word_embeddings.weight": (V, D),
        "bert.embeddings.position_embeddings.weight": (P, D),
        "bert.embeddings.token_type_embeddings.weight": (2, D),
        "cls.predictions.bias": (V,),
    }
    for name, shape in parts.items():
        shapes |= {f"{name}.weight": shape, f"{name}.bias": shape[:1]}
    return random_tensors(shapes)


def write_safetensors(file, tensors, bfloat16=()):
    """Writes the tensors; of those in `bfloat16`, the first half of the bits."""
    header, data = {"__metadata__": {"format": "pt"}}, b""
    for name, values in tensors.items():
        dtype = DTYPES[values.dtype.str]
        if name in bfloat16:
            dtype, values = "BF16", (values.view("<u4") >> 16).astype("<u2")
        content = values.tobytes()
        offsets = [len(data), len(data) + len(content)]
        header[name] = {
            **{"dtype": dtype, "shape": list(values.shape), "data_offsets": offsets}
        }
        data += content
    text = json.dumps(header).encode()
    file.write_bytes(len(text).to_bytes(8, "little") + text + data)


def write_folder(folder, config, tensors):
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    write_safetensors(folder / "model.safetensors", tensors)
    return folder


def norm(x, w, name, epsilon):
    x = x - x.mean(-1, keepdims=True)
    x = x / np.sqrt((x**2).mean(-1, keepdims=True) + epsilon)
    return x * w[f"{name}.weight"] + w[f"{name}.bias"]


def heads(q, k, v, mask):
    """Attention of all heads, for (T, D) each and a mask (T, T)."""
    q, k, v = (x.reshape(len(x), H, D // H).swapaxes(0, 1) for x in (q, k, v))
    scores = np.where(mask, q @ k.swapaxes(1, 2) / (D // H) ** 0.5, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    return (weights @ v).swapaxes(0, 1).reshape(-1, D)


def gpt2(tokens, tensors):
    """The logits (T, V) of GPT-2 for tokens (T,), in float64."""
    w = {k.removeprefix("transformer."): v.astype(float) for k, v in tensors.items()}

    def dense(x, name):
        return x @ w[f"{name}.weight"] + w[f"{name}.bias"]

    x = w["wte.weight"][tokens] + w["wpe.weight"][: len(tokens)]
    mask = np.tri(len(tokens), dtype=bool)
    for n in range(N):
        read = dense(norm(x, w, f"h.{n}.ln_1", 1e-5), f"h.{n}.attn.c_attn")
        x = x + dense(heads(*np.split(read, 3, -1), mask), f"h.{n}.attn.c_proj")
        inside = dense(norm(x, w, f"h.{n}.ln_2", 1e-5), f"h.{n}.mlp.c_fc")
        tanh = np.tanh((2 / np.pi) ** 0.5 * (inside + 0.044715 * inside**3))
        x = x + dense(inside / 2 * (1 + tanh), f"h.{n}.mlp.c_proj")
    return norm(x, w, "ln_f", 1e-5) @ w["wte.weight"].T


def bert(tokens, tensors):
    """The logits (T, V) of BERT for tokens (T,) without padding, in float64."""
    w = {name: values.astype(float) for name, values in tensors.items()}

    def dense(x, name):
        return x @ w[f"{name}.weight"].T + w[f"{name}.bias"]

    def gelu(x):
        return x / 2 * (1 + np.vectorize(math.erf)(x / 2**0.5))

    words, start = w["bert.embeddings.word_embeddings.weight"], "bert.embeddings."
    x = words[tokens] + w[f"{start}position_embeddings.weight"][: len(tokens)]
    x = x + w[f"{start}token_type_embeddings.weight"][0]
    x = norm(x, w, "bert.embeddings.LayerNorm", 1e-12)
    mask = np.ones((len(tokens), len(tokens)), bool)
    for n in range(N):
        layer = f"bert.encoder.layer.{n}"
        names = (f"{layer}.attention.self.{name}" for name in ("query", "key", "value"))
        read = heads(*(dense(x, name) for name in names), mask)
        x = x + dense(read, f"{layer}.attention.output.dense")
        x = norm(x, w, f"{layer}.attention.output.LayerNorm", 1e-12)
        inside = gelu(dense(x, f"{layer}.intermediate.dense"))
        x = x + dense(inside, f"{layer}.output.dense")
        x = norm(x, w, f"{layer}.output.LayerNorm", 1e-12)
    x = gelu(dense(x, "cls.predictions.transform.dense"))
    x = norm(x, w, "cls.predictions.transform.LayerNorm", 1e-12)
    return x @ words.T + w["cls.predictions.bias"]
