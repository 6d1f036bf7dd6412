"""Knowledge bases of triples, questions about their entities, and MetaQA.

The WikiMovies knowledge base and the MetaQA questions have the license Creative Commons
Attribution 3.0.

```python
from keras_attention.datasets import triples
from keras_attention.text import EntityLinker

knowledge = triples.KnowledgeBase(triples.load_metaqa_facts())
questions = triples.load_metaqa(hops=1, split="dev")
linker = EntityLinker(knowledge.entities)
vocabulary = triples.question_vocabulary(questions, linker)
vectors = triples.vectorize(questions, knowledge, vocabulary, unknown="empty")
```
"""

from keras_attention.datasets.triples.facts import Fact
from keras_attention.datasets.triples.generated import (
    OTHER,
    PathQuestion,
    SeveralValues,
    generate_questions,
    several_values,
)
from keras_attention.datasets.triples.knowledge import (
    KnowledgeBase,
    Neighbourhood,
    load,
    parse,
)
from keras_attention.datasets.triples.ntriples import parse_ntriples
from keras_attention.datasets.triples.path_memory import PathMemory, follow, path_memory
from keras_attention.datasets.triples.paths import FoundPath, find_path, path_ends
from keras_attention.datasets.triples.phrases import Phrases, phrases_of
from keras_attention.datasets.triples.questions import (
    Question,
    load_metaqa,
    load_metaqa_facts,
    load_questions,
    parse_questions,
)
from keras_attention.datasets.triples.tables import parse_csv
from keras_attention.datasets.triples.vectors import (
    Asked,
    Vectors,
    ask,
    decode,
    question_vocabulary,
    vectorize,
)

__all__ = [
    "OTHER",
    "Asked",
    "Fact",
    "FoundPath",
    "KnowledgeBase",
    "Neighbourhood",
    "PathMemory",
    "PathQuestion",
    "Phrases",
    "Question",
    "SeveralValues",
    "Vectors",
    "ask",
    "decode",
    "find_path",
    "follow",
    "generate_questions",
    "load",
    "load_metaqa",
    "load_metaqa_facts",
    "load_questions",
    "parse",
    "parse_csv",
    "parse_ntriples",
    "parse_questions",
    "path_ends",
    "path_memory",
    "phrases_of",
    "question_vocabulary",
    "several_values",
    "vectorize",
]
