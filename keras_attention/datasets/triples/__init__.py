"""Knowledge bases of triples, questions about their entities, and MetaQA.

The WikiMovies knowledge base and the MetaQA questions have the license Creative Commons
Attribution 3.0.

```python
from keras_attention.datasets import triples

knowledge = triples.KnowledgeBase(triples.load_metaqa_facts())
questions = triples.load_metaqa(hops=1, split="dev")
linker = triples.EntityLinker(knowledge.entities)
vocabulary = triples.question_vocabulary(questions, linker)
vectors = triples.vectorize(questions, knowledge, vocabulary, unknown="empty")
```
"""

from keras_attention.datasets.triples.knowledge import (
    Fact,
    KnowledgeBase,
    Neighbourhood,
    load,
    parse,
)
from keras_attention.datasets.triples.paths import FoundPath, find_path, path_ends
from keras_attention.datasets.triples.questions import (
    ENTITY,
    EntityLinker,
    Link,
    Question,
    UnknownEntityError,
    load_metaqa,
    load_metaqa_facts,
    load_questions,
    parse_questions,
)
from keras_attention.datasets.triples.vectors import (
    Asked,
    Vectors,
    ask,
    decode,
    question_vocabulary,
    vectorize,
)

__all__ = [
    "ENTITY",
    "Asked",
    "EntityLinker",
    "Fact",
    "FoundPath",
    "KnowledgeBase",
    "Link",
    "Neighbourhood",
    "Question",
    "UnknownEntityError",
    "Vectors",
    "ask",
    "decode",
    "find_path",
    "load",
    "load_metaqa",
    "load_metaqa_facts",
    "load_questions",
    "parse",
    "parse_questions",
    "path_ends",
    "question_vocabulary",
    "vectorize",
]
