"""Keras' own tests of its two layers, with ours in their place.

They come from the wheel of Keras and are run as they are, save those in `EXPECTED`:
each asserts something private, an error that we do not raise, or a defect.
"""

import keras
import pytest
from keras.src import layers as theirs

from keras_attention import layers

TESTS = "keras.src.layers.attention"
reason = "the wheel of this Keras has no tests"
grouped_query_attention_test, multi_head_attention_test = (
    pytest.importorskip(f"{TESTS}.{name}", reason=reason)
    for name in ("grouped_query_attention_test", "multi_head_attention_test")
)

pytestmark = [
    pytest.mark.filterwarnings("ignore"),
    pytest.mark.usefixtures("without_collection"),
]

NO_ERROR = "wants an error where flash attention cannot serve; here it gives way"
EXPECTED_OF_GROUPED = {
    "test_flash_attention_with_errors": NO_ERROR,
    "test_shape_mismatch_error_query_value_dim_mismatch": (
        "wants an error where queries and values differ in width, which here they may"
    ),
}
EXPECTED = {
    **EXPECTED_OF_GROUPED,
}
# Keras' multi-head layer lets them differ, too.
del EXPECTED["test_shape_mismatch_error_query_value_dim_mismatch"]


@keras.saving.register_keras_serializable("test_multi_head")
class GroupQueryAttention(layers.MultiHeadAttention):
    """Ours under the argument names of Keras' other layer."""

    NAMES = (("head_dim", "key_dim"), ("num_query_heads", "num_heads"))

    def __init__(self, head_dim, num_query_heads, num_key_value_heads, **kwargs):
        kwargs["num_key_value_heads"] = num_key_value_heads
        super().__init__(num_query_heads, head_dim, **kwargs)

    def get_config(self):
        config = super().get_config()
        for name, ours in self.NAMES:
            config[name] = config.pop(ours)
        for name in (
            "value_dim",
            "output_shape",
            "attention_axes",
            "normalizer",
            "position",
        ):
            config.pop(name)
        return config


class Replaced:
    """Keras' layers, some of them replaced."""

    MultiHeadAttention = layers.MultiHeadAttention
    GroupQueryAttention = GroupQueryAttention
    GroupedQueryAttention = GroupQueryAttention

    def __getattr__(self, name):
        return getattr(theirs, name)


def without(case, expected):
    """A test case in which the tests of these names are skipped, with the reason."""
    reasons = dict(expected)
    if keras.config.backend() not in ("jax", "tensorflow", "torch"):
        for name, test in vars(case).items():
            marks = [mark.name for mark in getattr(test, "pytestmark", ())]
            if "requires_trainable_backend" in marks:
                reasons[name] = "this backend does not train"
    skipped = {
        name: pytest.mark.skip(reason=reason)(getattr(case, name))
        for name, reason in reasons.items()
        if hasattr(case, name)
    }
    return type(case.__name__, (case,), skipped)


@pytest.fixture(autouse=True)
def ours(monkeypatch):
    for module in (multi_head_attention_test, grouped_query_attention_test):
        monkeypatch.setattr(module, "layers", Replaced())


TestMultiHead = without(multi_head_attention_test.MultiHeadAttentionTest, EXPECTED)
TestGrouped = without(
    grouped_query_attention_test.GroupedQueryAttentionTest, EXPECTED_OF_GROUPED
)


@pytest.mark.skipif(
    not keras.__version__.startswith("3.15."), reason="the list is for Keras 3.15"
)
def test_the_list_names_tests_that_are_there():
    # Methods behind parameters have a number behind their name.
    for case, expected in (
        (multi_head_attention_test.MultiHeadAttentionTest, EXPECTED),
        (grouped_query_attention_test.GroupedQueryAttentionTest, EXPECTED_OF_GROUPED),
    ):
        tests = [name for name in vars(case) if name.startswith("test")]
        assert {*expected} <= {*tests}
        assert len(expected) < len(tests) / 5
