"""Networks of large memories, and what their answers and files are compared by."""

import numpy as np

from keras_attention.models import MemNN


def strong_network(vocabulary_size, embedding_dim, **arguments):
    """A network of two hops whose weights are large enough to tell facts apart."""
    model = MemNN(vocabulary_size, embedding_dim, supports=2, **arguments)
    for weight in model.trainable_weights:
        weight.assign(4 * weight)
    return model


def same_answers(memory, expected, questions):
    for answer, other in zip(memory.answer(questions), expected.answer(questions)):
        np.testing.assert_array_equal(answer, other)


def files_of(folder):
    files = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder): path.read_bytes() for path in files}
