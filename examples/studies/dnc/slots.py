"""Copies of networks, with their optimizers, that have other numbers of slots."""

from __future__ import annotations

from typing import Any

import keras

from keras_attention.models import DNCNetwork


def with_slots(
    model: keras.Model, settings: dict[str, Any], lesson: int
) -> keras.Model:
    """Returns the model, or a copy of it and its optimizer with the lesson's slots."""
    slots = settings.get("slots")
    if not slots or not isinstance(model, DNCNetwork):
        return model
    if slots[lesson] == model.cell.memory_slots:
        return model
    sized = model.resized(slots[lesson])
    optimizer = type(model.optimizer).from_config(model.optimizer.get_config())
    sized.compile(optimizer, model.loss)
    copy_state(model, sized)
    return sized


def copy_state(source: keras.Model, target: keras.Model) -> None:
    """Copies the weights and the state of the optimizer, if the models differ."""
    if source is target:
        return
    for model in (source, target):
        if not model.optimizer.built:
            model.optimizer.build(model.trainable_variables)
    target.set_weights(source.get_weights())
    for old, new in zip(source.optimizer.variables, target.optimizer.variables):
        new.assign(old)
