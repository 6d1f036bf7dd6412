"""KerasHub with this package: its samplers, its models, its weights, and our layer
inside of its models.

Each test runs in one process per backend.
"""

import importlib.util
import pathlib
import re

import pytest
from calling import printed_by
from processes import environment

FOLDER = pathlib.Path(__file__).parent
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        importlib.util.find_spec("keras_hub") is None,
        reason="keras_hub is not installed",
    ),
]


release = pytest.mark.release
OTHERS = [pytest.param(name, marks=release) for name in ("jax", "tensorflow")]


@pytest.mark.parametrize("backend", [*OTHERS, "torch"])
def test_samplers_and_models_of_both(backend, tmp_path):
    """On torch, also the weights of `transformers`, where it is installed."""
    is_there = importlib.util.find_spec("transformers") is not None
    more = ["transformers"] if backend == "torch" and is_there else []
    printed_by(FOLDER / "hub_worker.py", *more, env=environment(backend, tmp_path))


@pytest.mark.parametrize(
    ("backend", "models"),
    [
        pytest.param("torch", ("gpt2",)),
        pytest.param("torch", ("xlnet", "whisper", "bert"), marks=release),
        pytest.param("jax", ("gpt2", "xlnet", "whisper", "bert"), marks=release),
    ],
)
def test_our_layer_in_place_of_the_one_of_keras(backend, models, tmp_path):
    command = FOLDER / "hub_in_place.py", "compare", *models
    printed_by(*command, env=environment(backend, tmp_path))


# What the page says of the attribute of a built block.
BUILT_BLOCK = """
block = bert.get_layer("transformer_layer_0")
attention = MultiHeadAttention.from_keras(block._self_attention_layer)
try:
    block._self_attention_layer = attention
except ValueError as error:
    print("You cannot add new elements of state" in str(error))
block._tracker.unlock()
block._self_attention_layer = attention
print(len(bert.weights) - len(ours.weights))
bert.save("bert.keras")
loaded = keras.saving.load_model("bert.keras").get_layer("transformer_layer_0")
print(type(loaded._self_attention_layer) is keras.layers.MultiHeadAttention)
"""


def test_the_page_that_serves_a_trained_network(tmp_path):
    page = (FOLDER.parents[1] / "docs" / "guides" / "serve.md").read_text("utf-8")
    (code,) = re.findall(
        r"^```python\n(import keras\nimport keras_hub.*?)^```$", page, re.M | re.S
    )
    claims = re.findall(r"^print\(.*\)  # (.*)$", code, re.M)
    (tmp_path / "page.py").write_text(code + BUILT_BLOCK, "utf-8")
    told = printed_by(
        tmp_path / "page.py", env=environment("torch", tmp_path), cwd=tmp_path
    )
    assert told.splitlines() == [*claims, "True", "8", "True"]
