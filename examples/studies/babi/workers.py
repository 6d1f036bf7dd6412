"""Distributes runs over processes. Each process uses one processor."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from typing import Any, NamedTuple

from studies.babi.recipes import Recipe


class Job(NamedTuple):
    """A pending run."""

    recipe: Recipe
    task: int | None  # None: all tasks
    size: str
    data: str
    seed: int


def run(
    jobs: Sequence[Job], processes: int, on_epoch: Callable[[int], None]
) -> Iterator[dict[str, Any]]:
    """Runs all jobs.

    Args:
        jobs: the jobs. Jobs with the same network must be adjacent, since a process
            compiles a network once.
        processes: the number of parallel processes.
        on_epoch: a function that is called repeatedly. Its argument is the number of
            epochs that have ended since the last call.

    Yields:
        Each finished run, in the order in which the runs end.
    """
    with pool_of(processes) as (pool, epochs):
        pending = {pool.submit(_do, job) for job in jobs}
        try:
            while pending:
                done, pending = wait(pending, 0.5, FIRST_COMPLETED)
                on_epoch(_drain(epochs))
                for future in done:
                    yield future.result()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


@contextlib.contextmanager
def pool_of(processes: int) -> Iterator[tuple[ProcessPoolExecutor, Any]]:
    """Creates processes with one thread and one processor each, and a queue.

    The processes put a number into the queue after each epoch. They end when this
    process ends, for whatever reason.
    """
    context = multiprocessing.get_context("spawn")
    epochs: Any = context.Queue()
    processors: Any = context.Queue()
    for number in _processors()[:processes]:
        processors.put(number)
    with (
        _one_thread_each(),
        ProcessPoolExecutor(processes, context, _begin, (processors, epochs)) as pool,
    ):
        yield pool, epochs


def count_processors() -> int:
    """Returns the number of processors available to this process."""
    return len(_processors())


def _processors() -> list[int]:
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


@contextlib.contextmanager
def _one_thread_each() -> Iterator[None]:
    """Limits processes that are started in the context to one thread each."""
    names = ("OMP_NUM_THREADS", "TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS")
    before = {name: os.environ.get(name) for name in names}
    os.environ.update(dict.fromkeys(names, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _drain(epochs: Any) -> int:
    count = 0
    while not epochs.empty():
        epochs.get()
        count += 1
    return count


_epochs: Any = None
_trainer: Any = None
_last: Any = None  # the first fields of the `Job` that `_trainer` was made for


def _begin(processors: Any, epochs: Any) -> None:
    """Pins this process to a processor, before the backend creates threads."""
    global _epochs
    _epochs = epochs
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {processors.get()})


def _end_with(parent: Any) -> None:
    """Waits for the parent process to end, then ends this process.

    A killed parent process cannot end its children. Their results are no longer needed.
    """
    parent.join()
    os._exit(1)


def _do(job: Job) -> dict[str, Any]:
    global _trainer, _last
    from studies.babi.training import Trainer

    wanted = job[:-1]
    if _trainer is None or _last != wanted:
        _trainer, _last = Trainer(*wanted), wanted
    return _trainer.run(job.seed, lambda epoch, logs: _epochs.put(1))
