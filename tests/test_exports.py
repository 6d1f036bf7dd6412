"""The tables in docs/export.md: complete, and as in docs/results/exports.json."""

import inspect

import keras
from catalogue import ROWS
from export_labels import KERAS, LABELS, LAYERS, MODELS
from export_table import COLUMNS, MARKERS, PAGE, load, reason, result, tables

from keras_attention import layers, models
from keras_attention.layers.base.attention_layer import AttentionLayer


def test_the_page_shows_the_results():
    text = PAGE.read_text("utf-8")
    shown = text.split(MARKERS[0])[1].split(MARKERS[1])[0]
    assert shown.strip() == tables(load())


def test_every_cell_is_measured_and_none_of_ours_is_silently_wrong():
    found = load()
    assert {*found} == {*LABELS}
    for name, row in found.items():
        assert {*row} == {*COLUMNS}, name
        results = {column: result(cell) for column, cell in row.items()}
        if name not in KERAS:  # what Keras' own layers do is shown as it is
            assert "wrong" not in results.values(), (name, results)


def test_every_failure_has_a_reason_on_the_page():
    unknown = [
        (name, column)
        for name, row in load().items()
        for column, cell in row.items()
        if reason(cell) == -1
    ]
    assert not unknown


def classes(names):
    """The public classes of the rows of the catalogue with these names."""
    return {row.cls for row in ROWS if row.name in names}


def test_every_model_and_every_attention_layer_has_a_row():
    public = {cls for _, cls in inspect.getmembers(models, inspect.isclass)}
    # Users export the model that these hold.
    public -= {models.PackedModel, models.RecordedModel}
    assert {cls for cls in public if issubclass(cls, keras.Model)} <= classes(MODELS)
    public = {cls for _, cls in inspect.getmembers(layers, inspect.isclass)}
    attentions = {cls for cls in public if issubclass(cls, AttentionLayer)}
    assert attentions - {AttentionLayer} <= classes(LAYERS)
