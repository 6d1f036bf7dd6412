"""The process that computes the views, one after the other.

It loads the networks while the page's own process imports Gradio. If it ends, the page
goes on and starts another one. Only text, numbers and truth values go from one process
to the other.
"""

from __future__ import annotations

import gc
import multiprocessing
import pathlib
import runpy
import signal
import threading
import traceback
from concurrent.futures import CancelledError, Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import Any

from keras_attention.explore.messages import message

_BEFORE_KERAS = pathlib.Path(__file__).parent / "before_keras.py"
Fields = list[tuple[str, str, int]]  # label, example, number of lines
ENDED = (
    "The process with the networks has ended. Perhaps the memory of this computer is "
    "full; the terminal may tell more. Please try again: the page starts a new one, "
    "which takes a few seconds."
)
FAILED = (
    "This view cannot be computed because of an error in the program. The terminal "
    "tells more."
)


class ViewError(RuntimeError):
    """A view failed for another reason than its input; the cause tells which."""


class ClosedError(RuntimeError):
    """A worker that was closed got a request."""


class StartError(RuntimeError):
    """The process with the networks ended before it could compute anything."""


class Worker:
    """Computes views in a process of its own.

    The process starts at once and imports Keras. It ends with `close`, or with the
    process that started it. If it ends otherwise, the next request starts a new one.

    Args:
        *first: the name and the inputs of a view that is computed at once, so that its
            network is loaded when it is asked for; none by default.
    """

    def __init__(self, *first: Any) -> None:
        self._lock = threading.Lock()
        self._closed = False
        self._start(*first)

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def show(self, view: str, *args: Any) -> str:
        """Returns the HTML of a view, a file in `explore/views/`, or of a message."""
        shown: str = self._answer(_show, view, *args)
        return shown

    def describe(self, path: pathlib.Path) -> tuple[str, Fields] | str:
        """Returns the name of a visitor's model and a field for each of its inputs.

        If the file cannot be opened as a model, returns the HTML of a message.
        """
        described: tuple[str, Fields] | str = self._answer(_describe, str(path))
        return described

    def check(self) -> None:
        """Raises a `StartError` if the process could not start, as far as is known."""
        if self._begun.done():
            error = self._begun.exception()
            if isinstance(error, BrokenProcessPool):
                raise StartError(
                    "The process with the networks could not start. The terminal "
                    "tells why."
                ) from error

    def close(self) -> None:
        """Ends the process, whatever it does."""
        with self._lock:
            self._closed = True
            for process in self._processes:
                process.terminate()
            self._pool.shutdown(cancel_futures=True)

    def _answer(self, function: Any, *args: Any) -> Any:
        try:
            return self._submit(function, *args).result()
        except (BrokenProcessPool, CancelledError, ClosedError):
            return message(ENDED)
        except ViewError as error:
            traceback.print_exception(error)
            return message(FAILED)

    def _submit(self, function: Any, *args: Any) -> Future[Any]:
        with self._lock:
            if self._closed:
                raise ClosedError("The worker is closed.")
            try:
                return self._pool.submit(function, *args)
            except BrokenProcessPool:
                self._start()
                return self._pool.submit(function, *args)

    def _start(self, *first: Any) -> None:
        others = multiprocessing.active_children()
        self._pool = ProcessPoolExecutor(
            1,
            multiprocessing.get_context("spawn"),
            initializer=runpy.run_path,
            initargs=(str(_BEFORE_KERAS),),
        )
        self._begun = self._pool.submit(_begin, *first)  # imports Keras
        self._begun.add_done_callback(_tell_error)
        children = multiprocessing.active_children()
        self._processes = [child for child in children if child not in others]


def _tell_error(begun: Future[Any]) -> None:
    """Prints why the process failed to begin, unless it ended, which `check` tells."""
    error = None if begun.cancelled() else begun.exception()
    if error is not None and not isinstance(error, BrokenProcessPool):
        traceback.print_exception(error)


# The process with the networks calls these functions.


def _begin(*first: Any) -> None:
    threading.Thread(target=_end_with_the_page, daemon=True).start()
    try:
        from keras_attention.explore import views

        if first:
            views.shown(*first)
    finally:
        gc.freeze()
        gc.enable()


def _end_with_the_page() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        signal.raise_signal(signal.SIGTERM)


def _show(view: str, *args: Any) -> str:
    try:
        from keras_attention.explore import views

        return views.shown(view, *args)
    except Exception as error:
        raise ViewError(f"The view {view} failed.") from error


def _describe(path: str) -> tuple[str, Fields] | str:
    from keras_attention.explore.views import own_model, texts

    try:
        return own_model.described(path)
    except texts.InputError as error:
        return message(str(error))
    except Exception as error:
        raise ViewError(f"The model in {path} cannot be described.") from error
