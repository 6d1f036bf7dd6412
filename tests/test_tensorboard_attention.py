"""Tests of the attention maps and energies in the files of TensorBoard."""

import io
import struct
import sys

import keras
import numpy as np
import pytest
from calling import needs_training

pytest.importorskip("tensorboard", reason="the extra `tensorboard` is not installed")
import PIL.Image
from tensorboard.backend.event_processing.event_file_loader import RawEventFileLoader
from tensorboard.compat.proto import event_pb2

from keras_attention import layers, ops, record_attention
from keras_attention.callbacks import EventFile, TensorBoardAttention

pytestmark = needs_training

B, T, D, H = 7, 5, 6, 2


def make_model():
    x = keras.Input((T, D))
    h = layers.MultiHeadAttention(H, 3, name="heads")(x, x)
    h = layers.Hopfield(H, update_steps=3, beta=[0.5, 2.0], name="association")(h, x)
    h = layers.AttentionPooling(name="pool")(h)
    model = keras.Model(x, keras.layers.Dense(1)(h))
    model.compile("adam", "mean_squared_error")
    return model


def batch(seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(B, T, D)).astype("float32"), rng.normal(size=(B, 1))


def records(path):
    """The bytes of each record of a file, read without its checksums."""
    data, place = path.read_bytes(), 0
    while place < len(data):
        (length,) = struct.unpack("<Q", data[place : place + 8])
        yield data[place + 12 : place + 12 + length]
        place += 16 + length


def events(folder):
    """The events of the only file in a folder, parsed by TensorBoard."""
    (path,) = (folder / "attention").iterdir()
    assert "tfevents" in path.name
    found = [event_pb2.Event.FromString(record) for record in records(path)]
    assert found[0].file_version == "brain.Event:2"
    return found[1:]


def values_of(event):
    """From each tag of an event to its images, as arrays, or to its number."""
    found = {}
    for value in event.summary.value:
        if value.WhichOneof("value") == "simple_value":
            found[value.tag] = value.simple_value
            continue
        assert value.metadata.plugin_data.plugin_name == "images"
        width, height, *files = value.tensor.string_val
        assert value.tensor.tensor_shape.dim[0].size == 2 + len(files)
        found[value.tag] = images = [pixels_of(file) for file in files]
        assert {image.shape for image in images} == {(int(height), int(width))}
    return found


def pixels_of(file):
    """Decodes a grey PNG file."""
    image = PIL.Image.open(io.BytesIO(file))
    assert (image.format, image.mode) == ("PNG", "L")
    return np.asarray(image)


def cells(image, heads, size):
    """The pixel in the middle of each cell (H, T, S)."""
    parts = np.split(np.pad(image, ((0, 0), (0, 2))), heads, axis=1)
    return np.stack([part[size // 2 :: size, size // 2 : -2 : size] for part in parts])


def test_the_maps_and_energies_of_each_epoch(tmp_path):
    model, (x, y) = make_model(), batch()
    callback = TensorBoardAttention(x[:4], tmp_path, max_samples=2, cell_size=4)
    model.fit(x, y, epochs=2, verbose=0, callbacks=[callback])
    first, last = events(tmp_path)
    assert (first.step, last.step) == (0, 1)
    values = values_of(last)
    with record_attention() as maps:
        model(x[:2])
    assert {tag for tag in values if tag.startswith("attention")} == {
        f"attention/{path}" for path in maps
    }
    for path, heads in (("heads", H), ("association", H), ("pool", 1)):
        for sample, image in enumerate(values[f"attention/{path}"]):
            weights = maps[path][sample].reshape(heads, -1, T)
            drawn = cells(image, heads, 4)
            np.testing.assert_allclose(drawn, 255 * (1 - weights), atol=0.51)
    assert values["energy/association/last"] <= values["energy/association/first"]
    assert len(values["energy/association"]) == 2
    first = values_of(first)
    assert values["energy/association/first"] != first["energy/association/first"]


# On JAX, the weights are in the training step until the end of an epoch.
def test_a_batch_shows_the_weights_after_it(tmp_path):
    model, (x, y) = make_model(), batch()
    callback = TensorBoardAttention(x[:1], tmp_path, update_freq="batch")
    model.fit(x, y, batch_size=4, epochs=1, verbose=0, callbacks=[callback])
    callback.write(3)
    (path,) = (tmp_path / "attention").iterdir()
    _, *found = (record.split(b"\x89PNG") for record in records(path))
    first, last, after = (
        [image.partition(b"IEND")[0] for image in images[1:]] for images in found
    )
    assert len(first) == 4  # three maps and the energies of one layer
    assert last == after
    assert first != last


@pytest.mark.parametrize("masks", [False, True])
def test_energies_are_those_of_each_step(tmp_path, masks):
    layer = layers.Hopfield(H, update_steps=2, beta=[0.5, 2.0], name="association")
    x = keras.Input((T, D))
    causal = {"use_causal_mask": masks}
    model = keras.Model(x, layer(x, x, **causal))
    model.compile("sgd", "mean_squared_error")
    inputs, _ = batch()
    callback = TensorBoardAttention(inputs[:1], tmp_path, cell_size=1)
    callback.set_model(model)
    callback.write(5)
    (event,) = events(tmp_path)
    values = values_of(event)

    projected = layer.states(inputs[:1]), layer.prepare(inputs[:1], inputs[:1]).key
    state, key = (
        keras.ops.swapaxes(array, 1, 2) for array in projected
    )  # (B, H, T, E)
    mask = np.tril(np.ones((T, T), bool)) if masks else np.ones((T, T), bool)
    beta = np.array([[0.5], [2.0]], "float32")
    found = []
    for _ in range(3):
        energy = ops.energy.hopfield_energy(state, key, beta, mask=mask)
        found.append(keras.ops.convert_to_numpy(energy))
        state = ops.energy.hopfield_update(state, key, beta, mask=mask)
    found = np.stack(found, -1)[0]  # (H, T, 3)
    for name, step in (("first", 0), ("last", 2)):
        mean = values[f"energy/association/{name}"]
        assert mean == pytest.approx(found[..., step].mean(), 1e-5)
    drawn = cells(values["energy/association"][0], H, 1)
    scaled = (found.max() - found) / (found.max() - found.min())
    np.testing.assert_allclose(drawn, 255 * scaled, atol=0.51)


def test_a_search_until_rest_is_recorded_until_rest(tmp_path):
    x = keras.Input((T, D))
    layer = layers.Hopfield(beta=4.0, update_steps=None, projections=False, name="rest")
    model = keras.Model(x, layer(x, x))
    callback = TensorBoardAttention(batch()[0][:1], tmp_path, cell_size=1)
    callback.set_model(model)
    callback.write(0)
    image = values_of(*events(tmp_path))["energy/rest"][0]
    assert image.shape[0] == T
    assert 2 <= image.shape[1] < 101
    assert (np.diff(image.astype(int), axis=1) >= 0).all()  # an update lowers energies


def test_every_few_batches(tmp_path):
    model, (x, y) = make_model(), batch()
    callback = TensorBoardAttention(x[:1], tmp_path, 3, layers=["heads"])
    for _ in range(2):
        model.fit(x, y, batch_size=2, epochs=1, verbose=0, callbacks=[callback])
    found = events(tmp_path)
    assert [event.step for event in found] == [3, 6]  # of 4 batches an epoch
    assert list(values_of(found[0])) == ["attention/heads"]


def test_small_weights_can_be_black(tmp_path):
    model, (x, _) = make_model(), batch()
    callback = TensorBoardAttention(x[:1], tmp_path, max_weight=0.01, cell_size=1)
    callback.set_model(model)
    callback.write(0)
    assert not cells(values_of(*events(tmp_path))["attention/pool"][0], 1, 1).any()


def test_tensorboard_reads_the_file(tmp_path):
    """Its loader checks the checksum of each record."""
    file = EventFile(tmp_path)
    assert not file.path.exists()
    pixels = np.arange(35, dtype="uint8").reshape(5, 7)
    file.write(300, {"map": [pixels, pixels]}, {"loss": 0.5})
    file.write(301, {}, {"loss": 0.25})
    assert EventFile(tmp_path).path != file.path
    _, first, last = RawEventFileLoader(str(file.path)).Load()
    first, last = map(event_pb2.Event.FromString, (first, last))
    assert (first.step, last.step) == (300, 301)
    values = values_of(first)
    assert values["loss"] == 0.5
    for image in values["map"]:
        np.testing.assert_array_equal(image, pixels)


def test_without_tensorboard_the_error_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorboard.compat.proto.event_pb2", None)
    with pytest.raises(ImportError, match=r"keras-attention-family\[tensorboard\]"):
        TensorBoardAttention(np.zeros((1, T, D)))


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"update_freq": "step"}, "`update_freq` must be 'epoch', 'batch' or a number"),
        ({"update_freq": 0}, "`update_freq` must be .* Received: update_freq=0"),
        ({"max_samples": 0}, "must be positive. Received: max_samples=0"),
        ({"max_weight": 0.0}, "must be positive"),
        ({"layers": "heads"}, "`layers` must be a list of paths"),
    ],
)
def test_wrong_arguments(more, said):
    with pytest.raises(ValueError, match=said):
        TensorBoardAttention(np.zeros((1, T, D)), **more)


def test_a_layer_that_is_not_there(tmp_path):
    callback = TensorBoardAttention(batch()[0], tmp_path, layers=["head"])
    callback.set_model(make_model())
    with pytest.raises(ValueError, match=r"`layers` must be paths of \['association'"):
        callback.write(0)


def test_a_model_without_attention(tmp_path):
    x = keras.Input((3,))
    callback = TensorBoardAttention(np.zeros((1, 3)), tmp_path)
    callback.set_model(keras.Model(x, keras.layers.Dense(1)(x)))
    with pytest.raises(ValueError, match="needs a model that calls an attention layer"):
        callback.write(0)
    assert not (tmp_path / "attention").exists()


def test_a_fault_of_the_backend_comes_through(tmp_path):
    def fails(x, training):
        raise RuntimeError("out of memory")

    callback = TensorBoardAttention(np.zeros((1, 3)), tmp_path)
    callback.set_model(fails)
    fails.name = "fails"
    with pytest.raises(RuntimeError, match="out of memory"):
        callback.write(0)
