"""What of `text` needs TensorFlow Text, and what needs nothing."""

import subprocess
import sys

import pytest

from keras_attention import text

NEEDS_NOTHING = """
import sys

# As if no backend but torch and none of the extras were installed.
for name in ("tensorflow", "tensorflow_text", "keras_hub", "sentencepiece", "jax"):
    sys.modules[name] = None
from keras_attention import text

assert not [n for n in sys.modules if n.startswith("keras_attention.text.tensorflow")]
assert not [n for n in sys.modules if n.startswith("keras_attention.datasets")]
vocabulary = text.Vocabulary.from_sentences(["A dog runs.", "A cat."])
assert vocabulary.decode(vocabulary.encode("A dog.")) == "a dog ."
link = text.EntityLinker(["Heat", "Ali"]).link("who directed heat")
assert link.words == ("who", "directed", text.ENTITY)
try:
    text.Subwords.from_sentences(["A dog runs."], size=9)
except ImportError as error:
    print(error)
"""


@pytest.mark.slow
def test_vocabularies_and_names_need_no_tensorflow_text():
    ended = subprocess.run(
        [sys.executable, "-c", NEEDS_NOTHING], capture_output=True, text=True
    )
    assert 'pip install "keras-attention-family[text]"' in ended.stdout, ended.stderr


def test_names_that_are_not_there():
    assert {*text.__all__} <= {*dir(text)}
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = text.nothing
