"""`Bags`: instances, the bag that each is in, and a label for each bag."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike


@dataclass(frozen=True, eq=False)
class Bags:
    """B bags of n instances in all, each of F features.

    Args:
        instances: (n, F), kept as float32.
        bag: (n,), which bag each instance is in, from 0 to B − 1; kept as int32.
        labels: (B,), a whole number for each bag; kept as int32.

    Raises:
        ValueError: Shapes that do not fit, an instance of a bag that has no label, a
            bag without instances, or numbers that are not finite.

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
        with np.errstate(over="ignore"):  # it becomes infinity, which is refused below
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
        """Bags of a list of arrays, each of which is a bag.

        Args:
            sets: B arrays (S, F); S may differ.
            labels: (B,).

        Raises:
            ValueError: As the class; arrays of unequal widths, or as many labels as
                there are not bags; or bags that are not (S, F).
        """
        arrays = [np.asarray(one, np.float32) for one in sets]
        labels = np.asarray(labels)
        if len(arrays) != len(labels):
            raise ValueError(
                "There must be one label for each bag. Received: "
                f"{len(labels)} labels, {len(arrays)} bags"
            )
        for i, one in enumerate(arrays):
            if one.ndim != 2:
                raise ValueError(
                    f"Each bag must be (S, F). Received: sets[{i}].shape={one.shape}"
                )
            if one.shape[1] != arrays[0].shape[1]:
                raise ValueError(
                    "Each bag must be (S, F), all of one width F. Received: "
                    f"sets[0].shape={arrays[0].shape}, sets[{i}].shape={one.shape}"
                )
        sizes = [len(one) for one in arrays]
        instances = np.concatenate(arrays) if arrays else np.zeros((0, 0), np.float32)
        return cls(instances, np.repeat(np.arange(len(arrays)), sizes), labels)

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def sizes(self) -> np.ndarray:
        """(B,) int, how many instances each bag has."""
        return np.bincount(self.bag, minlength=len(self))

    def take(self, rows: ArrayLike) -> Bags:
        """The bags of these numbers, in this order.

        Args:
            rows: (b,) whole numbers from 0 to B − 1, of which one may come several
                times; or (B,) booleans, True for each bag that is taken.

        Raises:
            ValueError: Numbers that are none of these, or not B booleans.
        """
        rows = self._numbers(rows)
        order = np.argsort(self.bag, kind="stable")
        starts = np.concatenate([[0], np.cumsum(self.sizes)])
        picked = [order[starts[i] : starts[i + 1]] for i in rows]
        places = np.concatenate(picked) if picked else order[:0]
        new = np.repeat(np.arange(len(rows)), [len(one) for one in picked])
        return Bags(self.instances[places], new, self.labels[rows])

    def _numbers(self, rows: ArrayLike) -> np.ndarray:
        """Numbers of bags, (b,), of themselves or of a mask."""
        given = np.asarray(rows)
        if given.dtype == bool:
            if given.shape != (len(self),):
                raise ValueError(
                    f"`rows` must be (B,), ({len(self)},), if it is of booleans. "
                    f"Received: rows.shape={given.shape}"
                )
            return np.flatnonzero(given)
        numbers = _whole("rows", given).reshape(-1)
        outside = numbers[(numbers < 0) | (numbers >= len(self))]
        if len(outside):
            raise ValueError(
                f"`rows` must be from 0 to {len(self) - 1}. "
                f"Received: rows with {outside[0]}"
            )
        return numbers

    def padded(self, length: int | None = None) -> dict[str, np.ndarray]:
        """The bags as one array, the shorter ones filled up with zeros.

        Args:
            length: S, by default that of the longest bag.

        Returns:
            `"instances"`, (B, S, F) float32, and `"instances_mask"`, (B, S) bool, True
            where there is an instance: the inputs of `HopfieldClassifier`.

        Raises:
            ValueError: A `length` below that of the longest bag.
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


def _whole(name: str, given: object) -> np.ndarray:
    array = np.asarray(given)
    if array.dtype.kind in "biuf":
        with np.errstate(invalid="ignore"):  # of what is not finite, and not whole
            whole = array.astype(np.int32)
        if (whole == array).all():
            return whole
    raise ValueError(
        f"`{name}` must be whole numbers. Received: {name} of {array.dtype}"
    )
