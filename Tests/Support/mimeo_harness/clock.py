"""A clock of day that a test moves for all processes that it starts afterwards (`clock_shift.c`)."""

import os
import pathlib
import shutil
import subprocess
import time
import unittest


class Clock:
    """The processes that are started while it is installed read the time of day from it; the test's own does not."""

    def __init__(self, workspace):
        compiler = next((path for path in map(shutil.which, ("cc", "gcc", "clang")) if path), None)
        if compiler is None:
            raise unittest.SkipTest("there is no C compiler for the clock")
        self._file = workspace.directory / "clock"
        library = workspace.directory / "clock_shift.so"
        source = pathlib.Path(__file__).with_name("clock_shift.c")
        subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", library, source, "-ldl"], check=True, timeout=60)
        self._seconds = 0
        self._write()
        before = {name: os.environ.get(name) for name in ("LD_PRELOAD", "MIMEO_TEST_CLOCK")}
        os.environ.update(LD_PRELOAD=str(library), MIMEO_TEST_CLOCK=str(self._file))
        workspace.on_close(lambda: self._restore(before))

    @staticmethod
    def _restore(before):
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value

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
