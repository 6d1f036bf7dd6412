"""`Bags`: instances, their bag indices, and one label per bag."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike


@dataclass(frozen=True, eq=False)
class Bags:
    """B bags with n instances in total and F features per instance.

    Args:
        instances: (n, F), kept as float32.
        bag: (n,), the bag index of each instance, from 0 to B − 1; kept as int32.
        labels: (B,), an integer per bag; kept as int32.

    Raises:
        ValueError: Shapes do not match, an instance belongs to a bag without a label, a
            bag has no instances, or a number is not finite.

    Example:
        ```python
        made = Bags([[0.5, 1.0], [0.1, 0.2], [0.3, 0.0]], bag=[0, 0, 1], labels=[1, 0])
        made.padded()["instances"].shape  # (2, 2, 2)
        ```
    """

    instances: np.ndarray
    bag: np.ndarray
    labels: np.ndarray

    def __post_init__(self) -> None:
        with np.errstate(over="ignore"):  # infinity is rejected below
            instances = np.asarray(self.instances, np.float32)
        bag, labels = _whole("bag", self.bag), _whole("labels", self.labels)
        if instances.ndim != 2 or bag.shape != instances.shape[:1]:
            raise ValueError(
                "`instances` must be (n, F) and `bag` (n,). Received: "
                f"instances.shape={instances.shape}, bag.shape={bag.shape}"
            )
        if labels.ndim != 1 or (
            len(bag) and not 0 <= bag.min() <= bag.max() < len(labels)
        ):
            raise ValueError(
                "`labels` must be (B,), one for each bag, and `bag` from 0 to B − 1. "
                f"Received: labels.shape={labels.shape}, bag from "
                f"{bag.min(initial=0)} to {bag.max(initial=0)}"
            )
        empty = np.flatnonzero(np.bincount(bag, minlength=len(labels)) == 0)
        if len(empty):
            raise ValueError(
                "Each bag must have an instance. Received: none in "
                f"{len(empty)} of {len(labels)} bags, the first of them {empty[0]}"
            )
        if not np.isfinite(instances).all():
            row = int(np.flatnonzero(~np.isfinite(instances).all(1))[0])
            raise ValueError(
                "`instances` must be finite. Received: NaN or infinity in "
                f"instances[{row}], of bag {bag[row]}"
            )
        for name, array in (("instances", instances), ("bag", bag), ("labels", labels)):
            object.__setattr__(self, name, array)

    @classmethod
    def of(cls, sets: Iterable[ArrayLike], labels: ArrayLike) -> Bags:
        """Creates `Bags` from a list of arrays, one array per bag.

        Args:
            sets: B arrays (S, F). S may vary.
            labels: (B,).

        Raises:
            ValueError: As for the class, or if a bag is not (S, F), if the widths
                differ, or if the numbers of labels and bags differ.
        """
        arrays = [np.asarray(bag, np.float32) for bag in sets]
        labels = np.asarray(labels)
        if len(arrays) != len(labels):
            raise ValueError(
                "There must be one label for each bag. Received: "
                f"{len(labels)} labels, {len(arrays)} bags"
            )
        for i, bag in enumerate(arrays):
            if bag.ndim != 2:
                raise ValueError(
                    f"Each bag must be (S, F). Received: sets[{i}].shape={bag.shape}"
                )
            if bag.shape[1] != arrays[0].shape[1]:
                raise ValueError(
                    "Each bag must be (S, F), all of one width F. Received: "
                    f"sets[0].shape={arrays[0].shape}, sets[{i}].shape={bag.shape}"
                )
        sizes = [len(bag) for bag in arrays]
        instances = np.concatenate(arrays) if arrays else np.zeros((0, 0), np.float32)
        return cls(instances, np.repeat(np.arange(len(arrays)), sizes), labels)

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def sizes(self) -> np.ndarray:
        """(B,) int, the number of instances per bag."""
        return np.bincount(self.bag, minlength=len(self))

    def take(self, rows: ArrayLike) -> Bags:
        """Selects bags by index, in the given order.

        Args:
            rows: (b,) integers from 0 to B − 1, repeats allowed; or a (B,) boolean
                mask, True for each selected bag.

        Raises:
            ValueError: An index is invalid, or the mask is not (B,).
        """
        rows = self._numbers(rows)
        order = np.argsort(self.bag, kind="stable")
        starts = np.concatenate([[0], np.cumsum(self.sizes)])
        picked = [order[starts[i] : starts[i + 1]] for i in rows]
        places = np.concatenate(picked) if picked else order[:0]
        new = np.repeat(np.arange(len(rows)), [len(bag) for bag in picked])
        return Bags(self.instances[places], new, self.labels[rows])

    def _numbers(self, rows: ArrayLike) -> np.ndarray:
        """Returns bag indices, (b,), from indices or a mask."""
        chosen = np.asarray(rows)
        if chosen.dtype == bool:
            if chosen.shape != (len(self),):
                raise ValueError(
                    f"`rows` must be (B,), ({len(self)},), if it holds booleans. "
                    f"Received: rows.shape={chosen.shape}"
                )
            return np.flatnonzero(chosen)
        numbers = _whole("rows", chosen).reshape(-1)
        outside = numbers[(numbers < 0) | (numbers >= len(self))]
        if len(outside):
            raise ValueError(
                f"`rows` must be from 0 to {len(self) - 1}. "
                f"Received: rows with {outside[0]}"
            )
        return numbers

    def padded(self, length: int | None = None) -> dict[str, np.ndarray]:
        """Returns the bags as one array, padded with zeros.

        Args:
            length: S. Defaults to the size of the largest bag.

        Returns:
            `"instances"`, (B, S, F) float32, and `"instances_mask"`, (B, S) bool, True
            for instances and False for padding. These are the inputs of
            `HopfieldClassifier`.

        Raises:
            ValueError: `length` is below the size of the largest bag.
        """
        sizes = self.sizes
        longest = int(sizes.max(initial=1))
        length = longest if length is None else length
        if length < longest:
            raise ValueError(
                f"`length` must be at least that of the longest bag, {longest}. "
                f"Received: length={length}"
            )
        mask = np.arange(length) < sizes[:, None]  # (B, S)
        instances = np.zeros((*mask.shape, self.instances.shape[1]), np.float32)
        instances[mask] = self.instances[np.argsort(self.bag, kind="stable")]
        return {"instances": instances, "instances_mask": mask}


def _whole(name: str, values: object) -> np.ndarray:
    array = np.asarray(values)
    if array.dtype.kind in "biuf":
        with np.errstate(invalid="ignore"):  # casting non-finite numbers warns
            whole = array.astype(np.int32)
        if (whole == array).all():
            return whole
    raise ValueError(
        f"`{name}` must be whole numbers. Received: {name} of {array.dtype}"
    )
