"""Batches of pairs of similar length, padded to a few widths."""

from collections.abc import Mapping, Sequence

import numpy as np

from keras_attention.text.vocabulary import PADDING

_DEFAULT_WIDTHS = 4

Batch = tuple[dict[str, np.ndarray], np.ndarray, np.ndarray]


class Buckets:
    """Batches of equal size, each padded to one of a few widths; see `buckets`.

    Attributes:
        widths: The widths, ascending.
        batch_size: B.
        epoch: The epoch of the last shuffle.
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
        """Reassigns examples to batches and reorders the batches.

        The order depends only on the seed and the epoch. With `seed=None` it never
        changes: examples keep their order, and narrow batches come first.
        """
        rng = None
        if self._seed is not None:
            rng = np.random.default_rng((self._seed, epoch))
        batches: list[tuple[int, np.ndarray, int]] = []  # width, rows, real rows
        waiting = np.zeros(0, np.int64)
        for bucket, width in enumerate(self.widths):
            rows = np.flatnonzero(self._bucket == bucket)
            rows = rows if rng is None else rng.permutation(rows)
            rows = np.concatenate([waiting, rows])
            whole = len(rows) // self.batch_size * self.batch_size
            for start in range(0, whole, self.batch_size):
                chosen = rows[start : start + self.batch_size]
                batches.append((width, chosen, self.batch_size))
            waiting = rows[whole:]
        if len(waiting):
            chosen = np.resize(waiting, self.batch_size)
            batches.append((self.widths[-1], chosen, len(waiting)))
        order = range(len(batches)) if rng is None else rng.permutation(len(batches))
        self._batches = [batches[i] for i in order]
        self.epoch = epoch

    def rows(self, index: int) -> np.ndarray:
        """Returns the example indices of batch `index`, (B,) int64.

        The last batch may repeat some of its examples.
        """
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
    """Groups N examples into batches of similar length.

    Each example is padded to the smallest width that fits its source and its target.
    All batches have the same size, so a compiled step is traced once per width.
    Leftover examples of a width move to the next larger width. The very last batch
    repeats some of its own examples with weight 0. Each example counts once per epoch.

    Args:
        inputs: `"source"` and `"target"`, index arrays of shape (N, ·), padded with 0
            at the end, such as the output of `vectorize`.
        labels: (N, ·), in the same format.
        batch_size: B.
        widths: Ascending widths. Defaults to four widths with about a quarter of the
            examples each.
        seed: Seed for the order, combined with the epoch. None disables shuffling.

    Returns:
        A `Buckets`. Its `len` is the number of batches. `[index]` returns `inputs`,
        `labels` and `sample_weight` of a batch, arrays of shape (B, L) for width L.
        Weights are float32, 0 for padding. `shuffle(epoch)` rebuilds the batches, and
        `rows(index)` returns a batch's example indices. For `fit`, wrap it in a
        `keras.utils.PyDataset`, as below.

    Raises:
        ValueError: There are no examples, the arrays differ in N, `batch_size` is below
            1, the widths do not ascend, or an example exceeds the last width.

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
    """Returns the unpadded length of the longest sequence of each example, (N,)."""
    lengths = []
    for array in arrays:
        places = np.arange(1, array.shape[1] + 1)
        lengths.append(np.max((array != PADDING) * places, axis=1, initial=0))
    return np.max(lengths, axis=0)


def _check_widths(widths: Sequence[int] | None, lengths: np.ndarray) -> tuple[int, ...]:
    if widths is None:
        shares = np.arange(1, _DEFAULT_WIDTHS + 1) / _DEFAULT_WIDTHS
        quantiles = np.quantile(lengths, shares, method="higher")
        return tuple(int(width) for width in np.unique(np.maximum(quantiles, 1)))
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
    """Crops or pads an array (B, ·) to (B, L)."""
    array = array[:, :width]
    missing = width - array.shape[1]
    return np.pad(array, ((0, 0), (0, missing)), constant_values=PADDING)
