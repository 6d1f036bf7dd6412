"""Attention layers and composites as ONNX files, at sizes that no exporter has seen.

`python tests/interop/layer_exports.py measure` runs all models on all backends, also
with given sizes. In the ring `release`, torch runs all models with open sizes,
because its exporter freezes sizes without a word. The others run a part that contains
each layer's own code.
"""

import json
import re

import pytest
from layer_exports import models, state_of, work

pytestmark = pytest.mark.slow  # processes that import a backend
LOOP = "torch exports a loop over time unrolled"
SORT = "jnp.sort requires static axis length"
RESHAPE = "reshape with symbolic dimensions requires mapping to input axes"
REFUSED = {  # backend and sizes: names, and the reason
    "torch-open": {
        r"attention-rnn-.*": LOOP,
        r"(monotonic|monotonic-parallel|bahdanau-coverage)(-causal|-scores)?": LOOP,
        r"monotonic-recursive(-causal|-scores|-single)?": LOOP,
    },
    "jax-open": {"attention-sparsemax": SORT, "heads-axes-1": RESHAPE},
}
PART = [
    "heads-none-causal-padding-grouped",
    "heads-rotary-causal-padding",
    "heads-alibi-causal-grouped",
    "heads-sinks-causal-padding-grouped",
    "cross-alibi-single",
    "cross-relative-grouped-causal",
    "attention-hardmax",
    "luong-local-m",
    "hard",
    "monotonic",
    "encoder-block-padding",
    "residual-rotary-causal-padding",
    "encoder-decoder-alibi",
]
GIVEN = [
    "heads-none-causal-padding-grouped",
    "monotonic-recursive",
    "bahdanau-coverage",
    "attention-rnn-after-heads",
    "residual-relative-causal-padding",
]
ALL = {  # the ring `all`: each backend, what it refuses, and given sizes
    "torch-open": [*PART, "heads-mask-object", "attention-rnn-gru"],
    "torch-fixed": ["attention-rnn-after-heads"],
    "tensorflow-open": [
        *(PART[0], "heads-mask-object", "luong-local-m", "encoder-block-padding"),
    ],
    "jax-open": [PART[1], "attention-sparsemax"],
}
RELEASE = {
    "torch-open": [*models()],
    "torch-lengths": GIVEN,
    "torch-fixed": GIVEN[-2:],
    "tensorflow-open": PART,
    "jax-lengths": ["attention-entmax15"],
    "jax-open": [*PART, "attention-sparsemax", "heads-axes-1"],
}


def answers(folder, runs):
    """What the file of each model gives, by run and name."""
    for run, names in runs.items():
        work("export", folder, *run.split("-"), *names)
    work("serve", folder, "numpy")
    return json.loads((folder / "found.json").read_text())


@pytest.fixture(scope="module")
def few(tmp_path_factory):
    return answers(tmp_path_factory.mktemp("few"), ALL)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return answers(tmp_path_factory.mktemp("whole"), RELEASE)


@pytest.mark.parametrize(
    ("runs", "run", "name"),
    [
        *(("few", run, name) for run, names in ALL.items() for name in names),
        *(
            pytest.param("whole", run, name, marks=pytest.mark.release)
            for run, names in RELEASE.items()
            for name in names
        ),
    ],
)
def test_a_file_answers_as_predict_or_is_refused(request, runs, run, name):
    answer = request.getfixturevalue(runs)[f"{run}-{name}"]
    reasons = REFUSED.get(run, {}).items()
    reason = next((why for names, why in reasons if re.fullmatch(names, name)), None)
    if reason is None:
        assert state_of(answer) == "right", answer
    else:
        assert reason in answer
