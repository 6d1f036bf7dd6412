"""The bAbI tasks: the official archive, vectors, and a simulator of all 20.

Weston et al., 2015, *Towards AI-Complete Question Answering: A Set of Prerequisite
Toy Tasks*, https://arxiv.org/abs/1502.05698. The data are under the Creative
Commons Attribution 3.0 licence.

```python
from keras_attention.datasets import babi

examples = babi.simulate(task=1, count=100)     # or babi.load(task=1)
vocabulary = babi.Vocabulary.from_examples(examples)
vectors = babi.vectorize(examples, vocabulary, memory_size=10)
vectors.inputs["story"].shape                    # (100, 10, 6)
```
"""

from keras_attention.datasets.babi.archive import TASKS, Example, load, parse
from keras_attention.datasets.babi.exchanges import Exchanges, find_exchanges
from keras_attention.datasets.babi.joint_exchanges import joint_exchanges
from keras_attention.datasets.babi.new_words import (
    WordDropout,
    new_words_of,
    number_new_words,
    renamed,
    with_new_words,
)
from keras_attention.datasets.babi.phrases import find_phrases, join_phrases
from keras_attention.datasets.babi.questions import differences, question_forms
from keras_attention.datasets.babi.renaming import Renamer, interchangeable
from keras_attention.datasets.babi.simulator import simulate
from keras_attention.datasets.babi.vectors import Vectors, Vocabulary, vectorize
from keras_attention.text.words import tokenize

__all__ = [
    "TASKS",
    "Example",
    "Exchanges",
    "Renamer",
    "Vectors",
    "Vocabulary",
    "WordDropout",
    "differences",
    "find_exchanges",
    "find_phrases",
    "interchangeable",
    "join_phrases",
    "joint_exchanges",
    "load",
    "new_words_of",
    "number_new_words",
    "parse",
    "question_forms",
    "renamed",
    "simulate",
    "tokenize",
    "vectorize",
    "with_new_words",
]
