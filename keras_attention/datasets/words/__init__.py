"""Word vectors: training pairs and file formats.

`SkipGrams` turns sentences into training pairs for `keras_attention.models.SkipGram`.
Vectors are read and written in the formats of word2vec and GloVe with gensim, which
needs the extra `words`.

```python
from keras_attention.datasets import words

vocabulary = words.Vocabulary.from_sentences(sentences, min_count=5)
pairs = words.SkipGrams(sentences, vocabulary, window=5)
glove = words.load_vectors("glove.6B.100d.txt", format="glove")
table = words.embedding_matrix(glove, vocabulary, missing="random")
```
"""

from keras_attention.datasets.words.pairs import SkipGrams
from keras_attention.datasets.words.vectors import (
    WordVectors,
    embedding_matrix,
    load_vectors,
    save_vectors,
)
from keras_attention.text.vocabulary import Vocabulary, tokenize

__all__ = [
    "SkipGrams",
    "Vocabulary",
    "WordVectors",
    "embedding_matrix",
    "load_vectors",
    "save_vectors",
    "tokenize",
]
