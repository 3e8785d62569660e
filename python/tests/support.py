"""A database in a folder of its own."""

import logging
import pathlib
import subprocess
import sys
import tempfile
import unittest

import mimeo

mimeo.set_log_level(None)
SECONDS = 60
"""The longest wait for what comes within milliseconds on a machine that does nothing else."""


class DatabaseTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="mimeo-python-")
        self.addCleanup(folder.cleanup)
        self.directory = pathlib.Path(folder.name)
        self.path = self.directory / "store"

    def open(self, **options):
        database = mimeo.open(self.path, **options)
        self.addCleanup(database.close)
        return database

    def run_python(self, program, *arguments, expected=0):
        """Runs a program of its own; returns what it printed."""
        done = subprocess.run([sys.executable, "-X", "dev", "-c", program, str(self.path), *arguments], text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=SECONDS * 2)
        self.assertEqual(done.returncode, expected, done.stderr)
        return done

    def assert_code(self, code, body, *arguments, **named):
        with self.assertRaises(mimeo.Error) as raised:
            body(*arguments, **named)
        self.assertEqual(raised.exception.code, code, raised.exception)
        return raised.exception


logging.getLogger("asyncio").setLevel(logging.CRITICAL)
