"""Networks of large memories, and what their answers and files are compared by."""

import importlib
import os
import signal
from unittest import mock

import keras
import numpy as np

from keras_attention.models import LargeMemory, MemNN


def strong_network(vocabulary_size, embedding_dim, **arguments):
    """A network of two hops whose weights are large enough to tell facts apart."""
    model = MemNN(vocabulary_size, embedding_dim, supports=2, **arguments)
    for weight in model.trainable_weights:
        weight.assign(4 * weight)
    return model


def same_answers(memory, expected, questions):
    for one, other in zip(memory.answer(questions), expected.answer(questions)):
        np.testing.assert_array_equal(one, other)


def files_of(folder):
    files = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder): path.read_bytes() for path in files}


def append_until_killed(folder, model, facts, name, nth):
    """Appends facts to a memory; the process is killed in a call of a function.

    Args:
        folder: the memory.
        model: the file of its network.
        facts: the facts.
        name: the function, with its module.
        nth: in which call of the function.
    """
    memory = LargeMemory.load(folder, keras.saving.load_model(model))
    module, attribute = name.rsplit(".", 1)
    function = getattr(importlib.import_module(module), attribute)
    remaining = nth

    def die_half_way(*arguments, **keywords):
        nonlocal remaining
        remaining -= 1
        if remaining:
            return function(*arguments, **keywords)
        os.kill(os.getpid(), signal.SIGKILL)

    with mock.patch(name, die_half_way):
        memory.append(facts)
