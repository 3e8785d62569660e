"""Events of the library: one thread of Python for each database that observes, which waits in the library.

The thread ends with its database, and at the interpreter's end all databases are closed before. An exception of a
handler goes to `threading.excepthook`, and the next event is handled as if nothing had happened.
"""

from __future__ import annotations

import ctypes
import sys
import threading
import traceback
from collections.abc import Callable
from typing import Any, NamedTuple

from . import _library, _values
from ._errors import Error
from ._library import CEvent, call, released


class Event(NamedTuple):
    """An event, with its value decoded. `done` has to be called once it was handled: it lets the next one come."""

    kind: int
    value: Any
    attachment: int
    done: Callable[[], None]


Handler = Callable[[Event], None]


class Pump:
    """Hands the events of a source to the handlers of their observers, on a thread that begins with the first."""

    def __init__(self, source: int) -> None:
        self._source = source
        self._handlers: dict[int, Handler] = {}
        self._interrupted: dict[int, Callable[[], None]] = {}
        # The end of an object may come while its own thread has the lock.
        self._lock = threading.RLock()
        self._thread: threading.Thread | None = None
        self._is_closed = False

    def start(
        self, register: Callable[[], int], handler: Handler, interrupted: Callable[[], None] | None = None
    ) -> int:
        """Registers something with the library; `handler` gets its events, and `interrupted` is called if the source is
        closed before. Returns its handle."""
        # Held while the library registers, so that no event comes before its handler is known.
        with self._lock:
            handle = register()
            self._handlers[handle] = handler
            if interrupted is not None:
                self._interrupted[handle] = interrupted
            if self._thread is None:
                thread = threading.Thread(target=self._run, name="mimeo-events", daemon=True)
                try:
                    thread.start()
                except RuntimeError:  # the interpreter ends, or allows no such thread
                    self.stop(handle)
                    released(handle)
                    raise
                self._thread = thread
        return handle

    def stop(self, handle: int) -> None:
        with self._lock:
            self._handlers.pop(handle, None)
            self._interrupted.pop(handle, None)

    def close(self) -> None:
        """Ends the thread after the event that it handles."""
        with self._lock:
            self._is_closed = True
            self._handlers.clear()
            interrupted, self._interrupted = self._interrupted, {}
            thread = self._thread
        for each in interrupted.values():
            each()
        if thread is None or thread is threading.current_thread():
            return
        try:
            call("wake", self._source)
        except Error:
            pass  # closed already: its end has woken the thread
        thread.join(_library.handler_seconds)

    def _run(self) -> None:
        event = CEvent()
        at = ctypes.addressof(event)
        while not self._is_closed:
            try:
                if call("next_event", self._source, -1, at) == _library.EMPTY:
                    continue
            except Error:
                return  # the source was closed
            self._handle(event)

    def _handle(self, event: CEvent) -> None:
        handle = event.handle
        with self._lock:
            handler = self._handlers.get(event.source)
        if handler is None:
            if event.object:
                released(event.object)
            return released(handle)
        try:
            value = _values.decoded(event.data, event.size, event.format)
            handler(Event(event.kind, value, event.object, lambda: released(handle)))
        except BaseException:  # noqa: BLE001: the handler is the application's
            released(handle)
            kind, problem, trace = sys.exc_info()
            assert kind is not None
            try:
                threading.excepthook(threading.ExceptHookArgs((kind, problem, trace, threading.current_thread())))
            except BaseException:  # noqa: BLE001: the hook is the application's too
                traceback.print_exc()
