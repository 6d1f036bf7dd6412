"""Batches of pairs of like length, padded to a few widths."""

from collections.abc import Mapping, Sequence

import numpy as np

from keras_attention.datasets.vocabulary import PADDING

_DEFAULT_WIDTHS = 4

Batch = tuple[dict[str, np.ndarray], np.ndarray, np.ndarray]


class Buckets:
    """Batches of one size, each padded to one of few widths; see `buckets`.

    Attributes:
        widths: The widths, ascending.
        batch_size: B.
        epoch: The epoch that it was last shuffled for.
    """

    def __init__(
        self,
        inputs: Mapping[str, np.ndarray],
        labels: np.ndarray,
        batch_size: int,
        widths: Sequence[int] | None = None,
        seed: int | None = 0,
    ) -> None:
        self._inputs = _check_arrays(inputs, labels)
        self._labels = np.asarray(labels)
        if not isinstance(batch_size, int) or batch_size < 1:
            raise ValueError(
                "`batch_size` must be a whole number of at least 1. "
                f"Received: batch_size={batch_size!r}"
            )
        self.batch_size = batch_size
        self._seed = seed
        lengths = _lengths(*self._inputs.values(), self._labels)  # (N,)
        self.widths = _check_widths(widths, lengths)
        self._bucket = np.searchsorted(self.widths, lengths)  # (N,)
        self.shuffle(0)

    def shuffle(self, epoch: int) -> None:
        """Puts the examples into other batches, and those into another order.

        The order depends on seed and epoch alone. With `seed=None` it is the same
        each time: the examples in their own order, the narrow batches first.
        """
        rng = None
        if self._seed is not None:
            rng = np.random.default_rng((self._seed, epoch))
        batches: list[tuple[int, np.ndarray, int]] = []  # width, rows, how many count
        rest = np.zeros(0, np.int64)
        for bucket, width in enumerate(self.widths):
            rows = np.flatnonzero(self._bucket == bucket)
            rows = rows if rng is None else rng.permutation(rows)
            rows = np.concatenate([rest, rows])
            whole = len(rows) // self.batch_size * self.batch_size
            for start in range(0, whole, self.batch_size):
                chosen = rows[start : start + self.batch_size]
                batches.append((width, chosen, self.batch_size))
            rest = rows[whole:]
        if len(rest):
            chosen = np.resize(rest, self.batch_size)
            batches.append((self.widths[-1], chosen, len(rest)))
        order = range(len(batches)) if rng is None else rng.permutation(len(batches))
        self._batches = [batches[i] for i in order]
        self.epoch = epoch

    def rows(self, index: int) -> np.ndarray:
        """(B,) int64: which examples batch `index` holds, fill-ins included."""
        return self._batches[index][1]

    def __len__(self) -> int:
        return len(self._batches)

    def __getitem__(self, index: int) -> Batch:
        width, rows, counting = self._batches[index]
        inputs = {
            name: _to_width(array[rows], width) for name, array in self._inputs.items()
        }
        labels = _to_width(self._labels[rows], width)  # (B, L)
        sample_weight = (labels != PADDING).astype(np.float32)  # (B, L)
        sample_weight[counting:] = 0
        return inputs, labels, sample_weight


def buckets(
    inputs: Mapping[str, np.ndarray],
    labels: np.ndarray,
    batch_size: int,
    widths: Sequence[int] | None = None,
    seed: int | None = 0,
) -> Buckets:
    """Puts N examples into batches of like length.

    An example goes to the least width that its source and its target both fit in,
    and both are padded to it. All batches have the same size, so that a compiled
    step is traced once per width: what is left over of a width goes to the next
    wider one, and the very last batch is filled up with examples of its own a
    second time, of weight 0. Each example counts once an epoch.

    Args:
        inputs: Arrays of shape (N, ·) of indices, with 0 at the end for padding, as
            `vectorize` gives them: `"source"` and `"target"`.
        labels: (N, ·), likewise.
        batch_size: B.
        widths: Ascending; by default four, so that each is the least for about a
            quarter of the examples.
        seed: Of the order, together with the epoch; None for no shuffling.

    Returns:
        A `Buckets`: `len` of it is the number of batches, and `[index]` gives
        `inputs`, `labels` and `sample_weight`, a batch's arrays of shape (B, L),
        where L is its width; weights are float32, 0 for padding. `shuffle(epoch)`
        makes the batches anew, and `rows(index)` tells a batch's examples. For
        `fit`, a `keras.utils.PyDataset` of one's own hands them on, as below.

    Raises:
        ValueError: No examples, arrays of unequal N, a `batch_size` below 1, widths
            that do not ascend, or an example longer than the last width.

    Example:
        ```python
        class Batches(keras.utils.PyDataset):
            def __init__(self, batches):
                super().__init__()
                self.batches = batches

            def __len__(self):
                return len(self.batches)

            def __getitem__(self, index):
                return self.batches[index]

            def on_epoch_end(self):
                self.batches.shuffle(self.batches.epoch + 1)

        batches = buckets(inputs, labels, batch_size=64, widths=(10, 15, 20, 45))
        model.fit(Batches(batches), epochs=10, shuffle=False)
        ```
    """
    return Buckets(inputs, labels, batch_size, widths, seed)


def _check_arrays(
    inputs: Mapping[str, np.ndarray], labels: np.ndarray
) -> dict[str, np.ndarray]:
    arrays = {name: np.asarray(array) for name, array in inputs.items()}
    shapes = {name: array.shape for name, array in arrays.items()}
    shapes["labels"] = np.asarray(labels).shape
    counts = {shape[0] if len(shape) == 2 else 0 for shape in shapes.values()}
    if len(counts) != 1 or 0 in counts:
        raise ValueError(
            "`inputs` and `labels` must be arrays of two axes with equally many "
            f"examples, one at least. Received shapes: {shapes}"
        )
    return arrays


def _lengths(*arrays: np.ndarray) -> np.ndarray:
    """(N,): of each example the longest sequence, without its padding."""
    lengths = []
    for array in arrays:
        places = np.arange(1, array.shape[1] + 1)
        lengths.append(np.max((array != PADDING) * places, axis=1, initial=0))
    return np.max(lengths, axis=0)


def _check_widths(widths: Sequence[int] | None, lengths: np.ndarray) -> tuple[int, ...]:
    if widths is None:
        shares = np.arange(1, _DEFAULT_WIDTHS + 1) / _DEFAULT_WIDTHS
        found = np.quantile(lengths, shares, method="higher")
        return tuple(int(width) for width in np.unique(np.maximum(found, 1)))
    widths = tuple(int(width) for width in widths)
    if not widths or widths[0] < 1 or any(np.diff(widths) <= 0):
        raise ValueError(
            "`widths` must be whole numbers above 0 that ascend. "
            f"Received: widths={widths}"
        )
    longest = int(np.argmax(lengths))
    if lengths[longest] > widths[-1]:
        raise ValueError(
            f"`widths` must end in {lengths[longest]} at least, the length of example "
            f"{longest}. Received: widths={widths}"
        )
    return widths


def _to_width(array: np.ndarray, width: int) -> np.ndarray:
    """(B, L) of an array (B, ·) with nothing but padding behind L."""
    array = array[:, :width]
    missing = width - array.shape[1]
    return np.pad(array, ((0, 0), (0, missing)), constant_values=PADDING)
