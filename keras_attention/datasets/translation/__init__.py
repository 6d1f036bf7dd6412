"""Sentence pairs in two languages and the training arrays of a translator.

Multi30k is for non-commercial research and education only; Tatoeba is under Creative
Commons Attribution 2.0 France. Both are downloaded and are not part of this package.

```python
from keras_attention.datasets import translation

train = translation.load("multi30k", "train", source="en", target="de")
english = translation.Vocabulary.from_sentences([p.source for p in train], 6000)
german = translation.Vocabulary.from_sentences([p.target for p in train], 8000)
inputs, labels = translation.vectorize(train, english, german)
batches = translation.buckets(inputs, labels, batch_size=64)
```
"""

from keras_attention.datasets.translation.batches import Buckets, buckets
from keras_attention.datasets.translation.corpora import (
    Pair,
    load,
    read_files,
    read_tabbed,
)
from keras_attention.datasets.translation.vectors import Vectors, vectorize
from keras_attention.text.vocabulary import Vocabulary, tokenize

__all__ = [
    "Buckets",
    "Pair",
    "Vectors",
    "Vocabulary",
    "buckets",
    "load",
    "read_files",
    "read_tabbed",
    "tokenize",
    "vectorize",
]
