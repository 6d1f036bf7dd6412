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
from keras_attention.datasets.triples.linking import (
    AmbiguousEntityError,
    EntityLinker,
    Link,
    UnknownEntityError,
)
from keras_attention.datasets.triples.mentions import ENTITY
from keras_attention.datasets.triples.questions import (
    Question,
    load_metaqa,
    load_metaqa_facts,
    load_questions,
    parse_questions,
)
from keras_attention.datasets.triples.vectors import (
    Vectors,
    decode,
    question_vocabulary,
    vectorize,
)

__all__ = [
    "ENTITY",
    "AmbiguousEntityError",
    "EntityLinker",
    "Fact",
    "KnowledgeBase",
    "Link",
    "Neighbourhood",
    "Question",
    "UnknownEntityError",
    "Vectors",
    "decode",
    "load",
    "load_metaqa",
    "load_metaqa_facts",
    "load_questions",
    "parse",
    "parse_questions",
    "question_vocabulary",
    "vectorize",
]
