"""Asks a built site what engineers search for, with the code of the site's own search.

`SITE=folder pytest --noconftest tests/docs/test_search.py`, where SITE was built by
MkDocs; the lane `static` does so. It needs Mini Racer, and neither Keras nor a backend.
"""

import json
import os
from pathlib import Path

import pytest
from py_mini_racer import MiniRacer

SITE = Path(os.environ.get("SITE", ""))
INDEX = SITE / "search" / "search_index.json"
if not (os.environ.get("SITE") and INDEX.exists()):
    pytest.skip("needs SITE, the folder of a built site", allow_module_level=True)

# What a user of Keras types, and the pages that may come first.
QUERIES = {
    "shard": ["howto/many-devices"],
    "mask": ["howto/masks"],
    "KV cache": ["howto/generate-with-a-cache"],
    "how fast": ["results/speed", "howto/fast-on-torch", "faq"],
    "dropout": ["faq"],
    "replace keras MultiHeadAttention": ["howto/swap-multi-head-attention"],
    "plot attention weights": ["howto/see-attention"],
    "causal mask": ["howto/masks"],
    "export to ONNX": ["export"],
    "beam search": ["api/samplers/BeamSampler"],
    "custom attention score": ["howto/your-own-score"],
    "rotary position embedding": ["api/layers/RotaryEmbedding"],
    "multi GPU": ["howto/many-devices"],
    "load GPT-2 weights": ["guides/pretrained-weights"],
    "which attention should I use": ["which"],
    "label smoothing": ["api/losses/SmoothedCrossentropy"],
    "grouped query attention": ["api/layers/MultiHeadAttention"],
    "torch.compile slow": ["howto/fast-on-torch"],
    # Names of classes, of which longer names begin with some.
    "Attention": ["api/layers/Attention"],
    "MultiHeadAttention": ["api/layers/MultiHeadAttention"],
    "Hopfield": ["api/layers/Hopfield"],
    "Transformer": ["api/models/Transformer"],
    "Seq2Seq": ["api/models/Seq2Seq"],
    "DNC": ["api/layers/DNC"],
    "MemN2N": ["api/models/MemN2N"],
}
# What a browser gives to the worker of the theme's search.
BROWSER = """
var self = this, console = {warn() {}}, answer, handle;
function addEventListener(_, listener) { handle = listener; }
function postMessage(message) { answer = message; }
"""


@pytest.fixture(scope="module")
def pages():
    """A function from a query to the pages that are listed, the first one first."""
    (worker,) = SITE.glob("assets/javascripts/workers/search.*.min.js")
    browser = MiniRacer()
    browser.eval(BROWSER + worker.read_text("utf-8"))

    def send(kind, data):
        message = json.dumps({"data": {"type": kind, "data": data}})
        browser.eval(f"answer = null; handle({message}); 0")
        return json.loads(browser.eval("JSON.stringify(answer)"))

    index = json.loads(INDEX.read_text("utf-8"))
    send(0, {**index, "options": {"suggest": True}})
    return lambda query: [
        items[0]["location"].partition("#")[0]
        for items in send(2, query)["data"]["items"]
    ]


@pytest.mark.parametrize("query", QUERIES)
def test_the_right_page_is_listed_first(pages, query):
    wanted = [f"{page}.html" for page in QUERIES[query]]
    assert pages(query)[0] in wanted, pages(query)[:5]


def test_source_and_notes_of_the_house_are_not_searched():
    documents = json.loads(INDEX.read_text("utf-8"))["docs"]
    assert len(documents) > 500
    for document in documents:
        assert document["location"].partition(".")[0] not in (
            "architecture",
            "decisions",
        )
        assert "Source code in <code>" not in document["text"], document["location"]
