"""The errors of the package. Each has the stable code of the library: compare it, and show the message."""

from __future__ import annotations


class Error(Exception):
    """An error with a stable code (`DQL-0105`, `STORE-0101`) and a message for a person."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message

    def __reduce__(self) -> tuple[type[Error], tuple[str, str]]:
        return type(self), (self.code, self.message)


class ArgumentError(Error, ValueError):
    """An argument has a type or value that documents cannot hold."""


class StatementError(Error):
    """The statement is wrong, or failed."""


class ClosedError(Error):
    """The database, transaction or observer is not open any more, or not yet."""


class LockedError(Error):
    """Another process, or another `open` of this one, has the directory open."""


class AuthenticationError(Error):
    """A login failed, or sync with a server has nobody to log in."""


class ForkedError(Error):
    """This process was forked from one that had a database open. Open it in the worker, or spawn workers."""


class UnavailableError(Error):
    """The library cannot be loaded, or has another interface than this package needs."""


_EXACT: dict[str, type[Error]] = {
    "NATIVE-0101": ClosedError, "NATIVE-0103": ForkedError, "NATIVE-0104": ArgumentError, "NATIVE-0105": ArgumentError,
    "NATIVE-0108": ClosedError, "NATIVE-0110": ArgumentError, "SDK-0201": ArgumentError, "SDK-0202": ArgumentError,
    "SDK-0203": ArgumentError, "SDK-0206": ClosedError, "SDK-0402": ClosedError, "STORE-0101": LockedError,
    "STORE-0105": ClosedError,
}
_FAMILIES: dict[str, type[Error]] = {
    "DQL-": StatementError, "SDK-03": AuthenticationError, "AUTH-": AuthenticationError, "CRDT-": ArgumentError,
}


def made(code: str, message: str) -> Error:
    """The error of the class that belongs to a code."""
    found = _EXACT.get(code)
    if found is None:
        found = next((kind for start, kind in _FAMILIES.items() if code.startswith(start)), Error)
    return found(code, message)
