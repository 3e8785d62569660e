"""The log of the library."""

from __future__ import annotations

import logging

from . import _events, _library
from ._library import call, made_handle

_LEVELS = {logging.ERROR: 1, logging.WARNING: 2, logging.INFO: 3, logging.DEBUG: 4}
_NAMES = {1: logging.ERROR, 2: logging.WARNING, 3: logging.INFO, 4: logging.DEBUG, 5: logging.DEBUG}


def set_log_level(level: int | None) -> None:
    """The least urgent level of `logging` that the library writes to standard error; None for nothing at all.

    >>> import logging
    >>> set_log_level(logging.WARNING)
    """
    call("log_level", 0 if level is None else _number(level))


def _number(level: int) -> int:
    return next((number for least, number in sorted(_LEVELS.items(), reverse=True) if level >= least), 5)


class _Forwarding:
    """Lines on their way from the library to a logger."""

    def __init__(self, logger: logging.Logger, level: int) -> None:
        self._handle = made_handle("logs", _number(level), _library.EITHER, None, None)
        self._logger = logger
        self._pump = _events.Pump(self._handle)
        self._pump.start(lambda: self._handle, self._line)
        _library.close_at_exit(self)

    def _line(self, event: _events.Event) -> None:
        try:
            line = event.value
            if line["dropped"]:
                self._logger.warning("%d lines of the log were dropped", line["dropped"])
            self._logger.log(_NAMES[line["level"]], "%s", line["message"])
        finally:
            event.done()

    def close(self) -> None:
        handle, self._handle = self._handle, 0
        if handle:
            self._pump.close()
            _library.released(handle)


_forwarding: _Forwarding | None = None


def forward_logs(logger: logging.Logger | None = None, level: int | None = logging.INFO) -> None:
    """Hands the lines of the library's log to a logger, by default that of the name `mimeo`, on a thread of its own.
    The level None ends that."""
    global _forwarding
    if _forwarding is not None:
        _forwarding.close()
    _forwarding = None if level is None else _Forwarding(logger or logging.getLogger("mimeo"), level)


__all__ = ["forward_logs", "set_log_level"]
