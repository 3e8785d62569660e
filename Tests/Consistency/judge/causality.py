"""C5, causal order: who sees a write sees everything that its author had seen.

The operations are those of `order`. A peer's own reads and writes count too. What a client of HTTP misses of its own
session, or of sessions over HTTP, belongs to C7.
"""

from . import order
from .histories import Violation

CLAIM = "C5"


def is_of_sessions(gap):
    return gap.read.door == "http" and (gap.witness is gap.add or gap.witness.door == gap.add.door == "http")


def judge(history):
    return [
        Violation(CLAIM, f"{gap.read.client} saw {gap.witness['element']} and not {gap.element}, which its author knew",
                  gap.proof)
        for gap in order.gaps(history) if not is_of_sessions(gap)]
