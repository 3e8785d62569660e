"""A clock of day that a test moves for all processes that it starts afterwards (`clock_shift.c`)."""

import time

from .preload import preload


class Clock:
    """The processes that are started while it is installed read the time of day from it; the test's own does not."""

    def __init__(self, workspace):
        self._file = workspace.directory / "clock"
        self._seconds = 0
        self._write()
        preload(workspace, "clock_shift", {"MIMEO_TEST_CLOCK": self._file})

    def _write(self):
        with open(self._file, "r+b" if self._file.exists() else "wb") as file:
            file.write(b"%020d" % self._seconds)

    @property
    def now(self):
        """The shifted time, in seconds since 1970."""
        return time.time() + self._seconds

    def advance(self, hours):
        self._seconds += int(hours * 3600)
        self._write()
