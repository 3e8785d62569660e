"""What every system test has: a workspace of its own and an end in time."""

import signal
import sys
import unittest

from mimeo_harness import IS_DEEP, Workspace


class OutOfTime(Exception):
    """The test took longer than its class allows."""


def report(text):
    """A measured figure, for the person who reads the run."""
    print(f"\n    measured: {text}", file=sys.stderr, flush=True)


class SystemTest(unittest.TestCase):
    """`seconds` bounds one test, set-up included. Processes and files are gone when it ends, however it ends."""

    seconds = 240

    def setUp(self):
        self.workspace = Workspace()
        self.addCleanup(self.workspace.close)
        signal.signal(signal.SIGALRM, self._out_of_time)
        signal.setitimer(signal.ITIMER_REAL, self.seconds)
        self.addCleanup(signal.setitimer, signal.ITIMER_REAL, 0)

    def _out_of_time(self, *_):
        raise OutOfTime(f"more than {self.seconds} s")

    def assert_in_time(self, measured, bound, what):
        """Reports a measured time in seconds, and judges it in the deep tier alone: in the fast one a machine that does
        other work would fail the test."""
        report(f"{what}: {measured:.3f} s")
        if IS_DEEP:
            self.assertLess(measured, bound, what)

    def assert_refused(self, answer, status, what=None):
        """A refusal has its status, a stable code and a message for a person."""
        self.assertEqual(answer.status, status, f"{what or ''} {answer.body[:500]!r}")
        self.assertRegex(answer.error.get("code", ""), r"^[A-Z]+-\d{4}$", answer.body[:500])
        self.assertTrue(answer.error.get("message") or answer.error.get("description"), answer.body[:500])
