"""Runs the system tests: `python3 Tests/SystemTests [--results FILE] [NAME...]`.

MIMEO_BIN names the directory of the executables (default `.build/release`). A NAME is a module, class or test, such as
`test_kill` or `test_http.Refusals.test_unknown_database`. `--results FILE` writes the counts as JSON for `make test`,
and the commands of ours that were run: the executable, and the words up to the first option. A command that was only
asked for its help was not run.
"""

import argparse
import itertools
import json
import os
import pathlib
import signal
import sys
import time
import unittest

FOLDER = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(FOLDER), str(FOLDER.parent / "Support")]
sys.dont_write_bytecode = True


EXECUTABLES = {"mimeo", "auth-gateway", "replicator", "query-service", "attachment-store"}
ASKING = {"--help", "-h", "--version"}
"""Flags with which a command says something of itself and does nothing else."""
ran = set()
"""The commands that were started: executable and words, such as `("/…/mimeo", "backup", "create")`."""


def note_start(event, arguments):
    """Called with each audit event of the interpreter; notes those that start an executable of ours."""
    if event != "subprocess.Popen":
        return
    words = arguments[1] if isinstance(arguments[1], (list, tuple)) else [arguments[1]]
    words = [os.fsdecode(word) for word in words]
    # Behind a launcher such as `ip netns exec` too.
    for index, word in enumerate(words):
        if os.path.basename(word) in EXECUTABLES and os.path.isfile(word):
            rest = itertools.takewhile(lambda word: not word.startswith("-"), words[index + 1:])
            if not ASKING & set(words[index + 1:]):
                ran.add((os.path.abspath(word), *itertools.islice(rest, MOST_WORDS)))
            return


MOST_WORDS = 3
"""The most words of a command: `mimeo admin api-keys list`."""


class CountingResult(unittest.TextTestResult):
    """Counts and times every test once; a failed set-up of a class counts as one failure."""

    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self.passed = 0
        self.seconds = {}

    def startTest(self, test):
        super().startTest(test)
        self._began = time.monotonic()

    def stopTest(self, test):
        self.seconds[test.id()] = time.monotonic() - self._began
        super().stopTest(test)

    def addSuccess(self, test):
        super().addSuccess(test)
        self.passed += 1

    def counts(self):
        failed = len(self.failures) + len(self.errors) + len(self.unexpectedSuccesses)
        texts = [f"{test}: {trace.strip().splitlines()[-1]}" for test, trace in self.failures + self.errors]
        return {"passed": self.passed, "failed": failed, "skipped": len(self.skipped), "failures": texts,
                "seconds": self.seconds, "ran": sorted(ran)}


def end(number, _):
    """A termination ends the run as an interrupt does: processes and files of the tests go."""
    sys.exit(128 + number)


def main():
    signal.signal(signal.SIGTERM, end)
    sys.addaudithook(note_start)
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--results", type=pathlib.Path)
    parser.add_argument("names", nargs="*")
    arguments = parser.parse_args()
    loader = unittest.TestLoader()
    if arguments.names:
        suite = loader.loadTestsFromNames(arguments.names)
    else:
        suite = loader.discover(str(FOLDER), pattern="test_*.py")
    result = unittest.TextTestRunner(verbosity=2, resultclass=CountingResult).run(suite)
    if arguments.results:
        arguments.results.write_text(json.dumps(result.counts()))
    return 0 if result.wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main())
