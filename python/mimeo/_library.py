"""The functions of libmimeo, by ctypes. Every call gives up the interpreter's lock while it is in the library.

ctypes and not cffi: it comes with Python, so the package depends on nothing. The library never calls into Python:
events are polled (`_events`), so no callback can meet an interpreter that shuts down.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import pathlib
import threading
import weakref
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from ._errors import Error, ForkedError, UnavailableError, made

Answer = TypeVar("Answer")

ABI_VERSION = 1
CBOR, JSON, EITHER = 0, 1, 2
ROWS, LOGIN, PRESENCE, FETCH_PROGRESS, FETCH_DONE, FETCH_GONE, LOG, SYNC, TRANSPORTS = range(1, 10)
ALONE, READ_ONLY, ANY_THREAD = 1, 1, 2
OK, FAILED, EMPTY = 0, 1, 2


class CError(ctypes.Structure):
    _fields_ = [("code", ctypes.c_char * 24), ("message", ctypes.c_char * 1000)]


class CResult(ctypes.Structure):
    _fields_ = [
        ("handle", ctypes.c_uint64), ("data", ctypes.c_void_p), ("size", ctypes.c_size_t), ("count", ctypes.c_uint64),
        ("commit", ctypes.c_uint64), ("format", ctypes.c_uint32), ("is_write", ctypes.c_uint32),
    ]


class CEvent(ctypes.Structure):
    _fields_ = [
        ("handle", ctypes.c_uint64), ("source", ctypes.c_uint64), ("object", ctypes.c_uint64),
        ("data", ctypes.c_void_p), ("size", ctypes.c_size_t), ("count", ctypes.c_uint64), ("kind", ctypes.c_int32),
        ("format", ctypes.c_uint32),
    ]


_handle, _size, _flags, _bytes = ctypes.c_uint64, ctypes.c_size_t, ctypes.c_uint32, ctypes.c_char_p
_int, _place = ctypes.c_int32, ctypes.c_void_p
_statement = [_bytes, _size, _bytes, _size]
# Without the error, which each function takes last.
_SIGNATURES: dict[str, list[Any]] = {
    "open": [_bytes, _size, _flags, _place], "close": [_handle], "release": [_handle],
    "configure": [_handle, _bytes, _size], "execute": [_handle, *_statement, _flags, _place],
    "query": [_handle, *_statement, _place], "next_rows": [_handle, _size, _flags, _place],
    "begin": [_handle, _flags, _place], "end": [_handle, _int, _place],
    "observe": [_handle, *_statement, _flags, _place, _place, _place],
    "watch": [_handle, _int, _flags, _place, _place, _place], "logs": [_int, _flags, _place, _place, _place],
    "log_level": [_int], "next_event": [_handle, _int, _place], "event_fd": [_handle, _place], "wake": [_handle],
    "sync_start": [_handle], "sync_stop": [_handle], "subscribe": [_handle, *_statement, _place],
    "login": [_handle, _bytes, _size, _bytes, _size, _flags, _place], "logout": [_handle],
    "state": [_handle, _int, _flags, _place], "refused": [_handle, _handle, _size, _flags, _place],
    "wait_acknowledged": [_handle, _handle, _int], "attach_bytes": [_handle, _bytes, _size, _bytes, _size, _flags, _place],
    "attach_file": [_handle, _bytes, _size, _bytes, _size, _flags, _place],
    "fetch": [_handle, _bytes, _size, _flags, _place, _place, _place], "attachment_bytes": [_handle, _place],
    "attachment_copy": [_handle, _bytes, _size],
}


def _load() -> ctypes.CDLL:
    given = os.environ.get("MIMEO_LIBRARY")
    path = given or str(pathlib.Path(__file__).with_name("libmimeo.so"))
    try:
        library = ctypes.CDLL(path)
    except OSError as problem:
        raise UnavailableError("PYTHON-0101", f"libmimeo cannot be loaded: {problem}") from None
    library.mimeo_abi_version.restype = ctypes.c_uint32
    library.mimeo_version.restype = ctypes.c_char_p
    found = int(library.mimeo_abi_version())
    if found != ABI_VERSION:
        raise UnavailableError(
            "PYTHON-0102", f"{path} has interface {found}, this package needs {ABI_VERSION}: install both of one version")
    for name, types in _SIGNATURES.items():
        function = getattr(library, f"mimeo_{name}")
        function.argtypes = [*types, ctypes.c_void_p]
        function.restype = ctypes.c_int32
    return library


_library = _load()
_functions: dict[str, Any] = {name: getattr(_library, f"mimeo_{name}") for name in _SIGNATURES}
# Whether this process has opened something, and whether it was forked from one that had.
_is_used = _is_child = False


def _mark_child() -> None:
    global _is_child
    _is_child = _is_used or _is_child


os.register_at_fork(after_in_child=_mark_child)


def is_forked() -> bool:
    """Whether the process has databases of its parent, of which nothing works: not even their locks may be taken."""
    return _is_child


def check_not_forked() -> None:
    """Raises ForkedError in a process that was forked from one that had opened something."""
    if _is_child:
        raise ForkedError(
            "NATIVE-0103", "this process was forked from one that had opened a database: let only the workers open"
            " databases, or start them by spawning (multiprocessing.get_context('spawn'))")


class _Room:
    """A place that one call writes to."""

    __slots__ = ("error", "error_at", "result", "result_at", "handle", "handle_at")

    def __init__(self) -> None:
        self.error = CError()
        self.error_at = ctypes.addressof(self.error)
        self.result = CResult()
        self.result_at = ctypes.addressof(self.result)
        self.handle = ctypes.c_uint64()
        self.handle_at = ctypes.addressof(self.handle)

    def problem(self) -> Error:
        """The error that the call has left."""
        return made(self.error.code.decode(), self.error.message.decode())


class _Local(threading.local):
    """The free rooms of a thread: making one takes longer than a call.

    A call takes a room until its answer was read, because another call of the same thread may come in between: that of
    a signal handler, or of an object's end.
    """

    def __init__(self) -> None:
        self.rooms: list[_Room] = []


_local = _Local()


def call(name: str, *arguments: Any) -> int:
    """Calls a function of the library that has no answer; returns its status. Raises what went wrong."""
    if _is_child:
        check_not_forked()
    rooms = _local.rooms
    room = rooms.pop() if rooms else _Room()
    try:
        status: int = _functions[name](*arguments, room.error_at)
        if status == FAILED:
            raise room.problem()
        return status
    finally:
        rooms.append(room)


def made_handle(name: str, *arguments: Any) -> int:
    """Calls a function that gives a handle. One that comes with KeyboardInterrupt is released: nobody would do it later."""
    if _is_child:
        check_not_forked()
    rooms = _local.rooms
    room = rooms.pop() if rooms else _Room()
    handle = room.handle
    handle.value = 0
    try:
        if _functions[name](*arguments, room.handle_at, room.error_at) == FAILED:
            raise room.problem()
        return int(handle.value)
    except BaseException:
        released(handle.value)
        raise
    finally:
        rooms.append(room)


def answer(read: Callable[[CResult], Answer], name: str, *arguments: Any) -> Answer:
    """Calls a function that gives a result, reads it and releases its handle."""
    if _is_child:
        check_not_forked()
    rooms = _local.rooms
    room = rooms.pop() if rooms else _Room()
    result = room.result
    result.handle = 0
    try:
        if _functions[name](*arguments, room.result_at, room.error_at) == FAILED:
            raise room.problem()
        return read(result)
    finally:
        if result.handle:
            released(result.handle)
        rooms.append(room)


def released(handle: int) -> None:
    """Gives a handle back; nothing if that happened before, and nothing in a forked child."""
    if not _is_child:
        _functions["release"](handle, None)


def version() -> str:
    """The version of the library."""
    text: bytes = _library.mimeo_version()
    return text.decode()


def abi_version() -> int:
    """The version of the library's interface."""
    return int(_library.mimeo_abi_version())


class Closing(Protocol):
    def close(self) -> None: ...


_open: weakref.WeakSet[Any] = weakref.WeakSet()
# Seconds for which an end waits for a handler that runs; None for as long as it takes.
handler_seconds: float | None = None


def close_at_exit(opened: Closing) -> None:
    """Closes a database at the interpreter's end, while its threads can still run."""
    global _is_used
    _is_used = True
    _open.add(opened)


@atexit.register
def _close_all() -> None:
    global handler_seconds
    if _is_child:
        return
    # A handler that never returns would keep the process, and nobody is left to end it.
    handler_seconds = 5
    for opened in list(_open):
        try:
            opened.close()
        except Exception:  # noqa: BLE001: at the end there is nobody to tell
            pass
