"""How much of its cases a test takes: a sample in `make test`, all of them in `make test-deep`.

MIMEO_DEPTH=fast|deep chooses, `fast` where it is missing. A run draws the seed it starts at and prints it; MIMEO_SEED=N
repeats a run. `Tests/Support/TestSupport/Depth.swift` is the same for tests in Swift.
"""

import os
import random
import sys
import unittest

DEPTH = os.environ.get("MIMEO_DEPTH", "fast")
if DEPTH not in ("fast", "deep"):
    sys.exit(f"MIMEO_DEPTH is '{DEPTH}': it has to be 'fast' or 'deep'")

IS_DEEP = DEPTH == "deep"


def _seed():
    if "MIMEO_SEED" in os.environ:
        word = os.environ["MIMEO_SEED"]
        if not word.isdecimal() or int(word) >= 1 << 40:
            sys.exit(f"MIMEO_SEED is '{word}': it has to be a number below 2⁴⁰")
        return int(word)
    drawn = random.SystemRandom().randrange(1 << 30)
    print(f"tests draw their cases from seed MIMEO_SEED={drawn}", file=sys.stderr)
    return drawn


SEED = _seed()


def pick(fast, deep):
    """The number for this run's depth."""
    return deep if IS_DEEP else fast


def deep_only(reason):
    """Marks a test or class that has no meaningful sample. `reason` says what covers the same ground in `make test`."""
    return unittest.skipUnless(IS_DEEP, f"only in make test-deep: {reason}")
