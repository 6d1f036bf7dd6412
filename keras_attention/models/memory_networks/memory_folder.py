"""Saves, builds and opens the folder of a `LargeMemory`.

Shapes: N facts, L words.
"""

from __future__ import annotations

import json
import os
import pathlib
import zipfile
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from keras_attention.layers.base.checked import check_ids
from keras_attention.models.memory_networks.cluster_hash import ClusterHash
from keras_attention.models.memory_networks.fact_segments import cut
from keras_attention.models.memory_networks.hashing import (
    Hash,
    Postings,
    check_postings,
    checked,
    progress,
)
from keras_attention.models.memory_networks.memory_files import (
    FORMAT,
    Change,
    Entry,
    RowsFile,
    finished_array,
    mapped_array,
    read_array,
    read_manifest,
    write_array,
)
from keras_attention.models.memory_networks.word_hash import WordHash, each_word
from keras_attention.ops.hashing import inverted_index, word_counts

OLD_FORMAT = "keras_attention.LargeMemory 1"
BLOCK = 2**17  # facts written at a time
MOST = 2**31  # facts of a segment
HASHES: dict[str, type[Hash]] = {"WordHash": WordHash, "ClusterHash": ClusterHash}
# The model's sizes that determine the features of a fact and their embeddings.
SIZES = ("vocabulary_size", "ngrams", "buckets", "embedding_dim", "nonlinear")


class Stored(NamedTuple):
    """A memory on the disk.

    Attributes:
        path: its folder.
        manifest: the manifest as it was read or written last.
        loaded: the hash that was read with it.
    """

    path: str
    manifest: Entry
    loaded: Hash | None

    def check(self, index: Any) -> None:
        """Raises a ValueError if `index` is not the hash of the folder."""
        if index is not self.loaded:
            raise ValueError(
                "`index` must be the one that was loaded to append to a memory on the "
                "disk; save the memory to another folder first. Received: "
                f"index={index!r}"
            )

    def append(
        self, kept: int, facts: np.ndarray, postings: Postings | None
    ) -> tuple[Stored, np.ndarray, Postings | None]:
        """Replaces the segments after the first `kept` by a new one.

        Returns:
            The new state, and the arrays as they are mapped from their files.
        """
        if read_manifest(pathlib.Path(self.path)) != self.manifest:
            raise ValueError(
                f"The memory in {self.path} was changed since it was opened: load it "
                "again."
            )
        with Change(self.path) as change:
            folder = change.segment()
            entry = written(folder, facts, postings)
            segments = [*self.manifest["segments"][:kept], entry]
            manifest = {**self.manifest, "segments": segments}
            mapped = segment(folder, entry, postings is not None, verify=False)
            change.commit(manifest)
        return self._replace(manifest=manifest), *mapped


def narrowest(vocabulary_size: int) -> str:
    """Returns the smallest unsigned dtype that holds all words."""
    return np.min_scalar_type(vocabulary_size - 1).name


def about(model: Any, fingerprint: str) -> Entry:
    """Returns the entries of a manifest about the model."""
    sizes = {size: int(getattr(model, size)) for size in SIZES}
    return {"format": FORMAT, "sizes": sizes, "embedding": fingerprint}


def check_model(path: Any, manifest: Entry, model: Any, fingerprint: str) -> None:
    """Raises a ValueError if another model made the memory."""
    for name, size in manifest["sizes"].items():
        if getattr(model, name, None) != size:
            raise ValueError(
                f"`model` must be the one that the memory in {path} was made "
                f"with, of {name}={size!r}. Received: "
                f"model.{name}={getattr(model, name, None)!r}"
            )
    if fingerprint != manifest["embedding"]:
        raise ValueError(
            f"`model` must be the one that the memory in {path} was made with; "
            "this one has other weights, or was trained since. `model.remember` "
            f"makes the memory anew. Received: model={model!r}"
        )


def save(
    path: str | os.PathLike[str],
    manifest: Entry,
    segments: list[np.ndarray],
    index: Any | None,
) -> None:
    """Writes all segments to a folder; see `LargeMemory.save`."""
    name = None if index is None else type(index).__name__
    if index is not None and HASHES.get(str(name)) is not type(index):
        raise ValueError(
            "`index` must be a WordHash, a ClusterHash or None to be saved; a "
            "VectorIndex has its own `save` and `load`. "
            f"Received: index={index!r}"
        )
    with Change(path) as change:
        parts: Iterable[np.ndarray] = segments
        postings: list[Any] = [None] * len(segments)
        if index is not None:  # its segments may be other ones
            postings = [posting for posting in index.segments if posting.size]
            parts = cut(segments, [posting.size for posting in postings])
        entries = [
            written(change.segment(), *pair)
            for pair in zip(parts, postings, strict=True)
        ]
        index_entry = None
        if index is not None:
            index_entry = {"hash": name, "options": index.options()}
            if arrays := index.arrays():
                index_entry |= files(change.segment(), arrays)
        change.commit({**manifest, "index": index_entry, "segments": entries})


def written(folder: pathlib.Path, facts: np.ndarray, postings: Any) -> Entry:
    """Writes a segment, and returns its entry in the manifest."""
    if postings is None:
        return files(folder, {"facts": facts})
    if postings.size != len(facts):
        raise ValueError(
            "`index` must have the segments of the facts. Received: "
            f"{postings.size} facts of a segment of the index, {len(facts)} of the "
            "memory"
        )
    arrays = {"facts": facts, "members": postings.members, "starts": postings.starts}
    return files(folder, arrays) | {"hashed": postings.size}


def files(folder: pathlib.Path, arrays: dict[str, np.ndarray]) -> Entry:
    """Writes arrays to a folder, and returns its entry in the manifest."""
    entries = {
        name: write_array(folder / f"{name}.npy", array)
        for name, array in arrays.items()
    }
    return {"name": folder.name, "files": entries}


def build(
    path: str | os.PathLike[str],
    facts: np.ndarray | Iterable[np.ndarray],
    manifest: Entry,
    options: dict[str, Any],
    verbose: int,
) -> None:
    """Writes a memory from a stream of facts; see `LargeMemory.build`."""
    index = None
    if options["max_share"] is not None:
        WordHash(np.zeros((0, 1), int), **options)  # checks the arguments
        index = {"hash": "WordHash", "options": options}
    vocabulary = manifest["sizes"]["vocabulary_size"]
    with Change(path) as change:
        entries, folders = [], []
        for folder, entry in streamed(change.segment, facts, vocabulary, verbose):
            entries.append(entry)
            folders.append(folder)
        if not entries:
            raise ValueError("`facts` must hold at least one. Received: none")
        for folder, entry in zip(folders, entries):
            if index is not None:
                index_segment(folder, entry, vocabulary, verbose)
        change.commit({**manifest, "index": index, "segments": entries})


def streamed(
    new_folder: Callable[[], pathlib.Path],
    facts: np.ndarray | Iterable[np.ndarray],
    vocabulary: int,
    verbose: int,
) -> Iterator[tuple[pathlib.Path, Entry]]:
    """Writes the facts, and yields a folder and its entry for each segment.

    A segment has one width. A block of longer facts starts a new segment.
    """
    total = len(facts) if isinstance(facts, np.ndarray) else None
    show, done = progress(total, verbose), 0
    folder, file, width = pathlib.Path(), None, 0
    try:
        for block in blocks(facts):
            check_ids("facts", block, vocabulary)
            if not len(block):
                continue
            if file is None or block.shape[1] > width or file.rows > MOST:
                if file is not None:
                    yield folder, finished(file)
                folder, width = new_folder(), block.shape[1]
                file = RowsFile(folder / "facts.npy", narrowest(vocabulary), (width,))
            short = width - block.shape[1]
            file.write(np.pad(block, ((0, 0), (0, short))) if short else block)
            done += len(block)
            if show is not None:
                show(done)
        if file is not None:
            yield folder, finished(file)
    finally:
        if file is not None:
            file.__exit__()


def finished(file: RowsFile) -> Entry:
    """Completes the facts of a segment, and returns the segment's entry."""
    return {"name": file.path.parent.name, "files": {"facts": file.close()}}


def blocks(facts: np.ndarray | Iterable[np.ndarray]) -> Iterator[np.ndarray]:
    """Yields checked blocks of facts."""
    if not isinstance(facts, np.ndarray):
        for block in facts:
            yield checked(block)
        return
    if facts.ndim != 2:
        checked(facts)  # raises
    for start in range(0, len(facts), BLOCK):
        yield checked(facts[start : start + BLOCK])


def index_segment(
    folder: pathlib.Path, entry: Entry, vocabulary: int, verbose: int
) -> None:
    """Writes the word hash of a segment whose facts are written."""
    facts = read_array(folder / "facts.npy", entry["files"]["facts"], verify=False)
    members, starts = inverted_index(
        facts,
        each_word(vocabulary),
        lambda length, dtype: mapped_array(folder / "members.npy", length, dtype),
        progress(2 * len(facts), verbose),
    )
    entry["files"]["members"] = finished_array(folder / "members.npy", members)
    entry["files"]["starts"] = write_array(folder / "starts.npy", starts)
    entry["hashed"] = len(facts)


def read(
    path: str | os.PathLike[str], verify: bool
) -> tuple[Entry, list[np.ndarray], Hash | None, Stored | None]:
    """Opens a memory: its manifest, its segments, its hash and its state on the disk.

    Raises:
        OSError: if there is no such file.
        ValueError: if this is not a saved memory, or it is damaged.
    """
    folder = pathlib.Path(path)
    try:
        if not folder.is_dir():
            return *read_old(path), None
        manifest = read_manifest(folder)
        index = manifest["index"]
        parts = [
            segment(folder / entry["name"], entry, index is not None, verify)
            for entry in manifest["segments"]
        ]
        segments = [facts for facts, _ in parts]
        check_facts(segments, manifest["sizes"]["vocabulary_size"], verify)
        hash_ = None
        if index is not None:
            shared = {
                name: read_array(folder / index["name"] / f"{name}.npy", entry, verify)
                for name, entry in index.get("files", {}).items()
            }
            postings = [part for _, part in parts if part is not None]
            for part in postings if verify else ():
                check_postings(part)
            hash_ = HASHES[index["hash"]].restored(postings, shared, index["options"])
    except (AttributeError, KeyError, TypeError, ValueError, EOFError) as error:
        raise ValueError(f"{path} is not a saved memory: {error}") from error
    except FileNotFoundError as error:
        if not folder.exists():
            raise
        raise ValueError(f"{path} is not a saved memory: {error}") from error
    return manifest, segments, hash_, Stored(os.path.abspath(path), manifest, hash_)


def segment(
    folder: pathlib.Path, entry: Entry, hashed: bool, verify: bool
) -> tuple[np.ndarray, Postings | None]:
    """Opens the facts and the hash of a segment."""
    names = ("facts", "members", "starts") if hashed else ("facts",)
    facts, *tables = (
        read_array(folder / f"{name}.npy", entry["files"][name], verify)
        for name in names
    )
    if hashed and entry.get("hashed", len(facts)) != len(facts):
        raise ValueError(
            f"its hash is one of {entry['hashed']} facts, and not of {len(facts)}"
        )
    return facts, Postings(len(facts), *tables) if hashed else None


def check_facts(segments: list[np.ndarray], vocabulary: int, verify: bool) -> None:
    """Checks the facts of a memory; their values only with `verify`."""
    if not sum(map(len, segments)):
        raise ValueError("it holds no fact")
    for facts in segments:
        if facts.ndim != 2 or facts.dtype != narrowest(vocabulary):
            raise ValueError(
                f"its facts must be {narrowest(vocabulary)} (facts, words): "
                f"facts.shape={facts.shape}, facts.dtype={facts.dtype}"
            )
        for start in range(0, len(facts) if verify else 0, BLOCK):
            check_ids("facts", facts[start : start + BLOCK], vocabulary)


def read_old(
    path: str | os.PathLike[str],
) -> tuple[Entry, list[np.ndarray], Hash | None]:
    """Reads a file of version 1: one NumPy archive of facts, keys and a hash."""
    with open(path, "rb") as file:
        if not zipfile.is_zipfile(file):
            raise ValueError("it is no folder and no NumPy archive")
        file.seek(0)
        try:
            with np.load(file, allow_pickle=False) as archive:
                manifest = json.loads(str(archive["about"]))
                if manifest["format"] != OLD_FORMAT:
                    raise ValueError(f"its format is {manifest['format']!r}")
                facts = checked(archive["facts"])
                vocabulary = manifest["sizes"]["vocabulary_size"]
                check_ids("facts", facts, vocabulary)
                facts = facts.astype(narrowest(vocabulary))
                check_facts([facts], vocabulary, verify=False)
                if manifest["hash"] is None:
                    return manifest, [facts], None
                tables = [
                    archive[f"hash_{n}"] for n in ("buckets", "members", "starts")
                ]
        except zipfile.BadZipFile as error:
            raise ValueError(str(error)) from error
    hash_class, (buckets, *lists) = HASHES[manifest["hash"]], tables
    postings = Postings(len(facts), *lists)
    check_postings(postings)
    if hash_class is WordHash:
        # The file lists the facts of the words in few facts, here the facts of all.
        count = word_counts(facts)
        own = count[np.flatnonzero(buckets[: len(count)] >= 0)]
        share = np.nextafter(own.max(initial=0) / len(facts), 2)
        return manifest, [facts], WordHash(facts, share)
    return manifest, [facts], hash_class.restored([postings], {"buckets": buckets}, {})
