"""C5, causal order: who sees a write sees everything that its author had seen.

The operations are those of `order`. A peer's own reads and writes count too. At a peer this holds within a
collection, which is a subscription of its own here: subscriptions complete one by one (decision 0200). A reader over
HTTP sees a place of the log, so there it holds over all collections. If a client of HTTP misses something of its own
session, or of sessions over HTTP, that belongs to C7.
"""

from . import order
from .histories import Violation, grouped, of_kind

CLAIM = "C5"


def is_of_sessions(gap):
    return gap.read.door == "http" and (gap.witness is gap.add or gap.witness.door == gap.add.door == "http")


def judge(history):
    gaps = [gap for gap in order.gaps(history) if gap.read.door == "http" and not is_of_sessions(gap)]
    for each in by_collection(history):
        gaps += [gap for gap in order.gaps(each) if gap.read.door == "peer"]
    return [violation(gap) for gap in gaps]


def over_collections(history):
    """Gaps at peers that a claim over all collections would forbid: for who wants to know how often."""
    within = {place(gap) for each in by_collection(history) for gap in order.gaps(each)}
    return [violation(gap) for gap in order.gaps(history) if gap.read.door == "peer" and place(gap) not in within]


def place(gap):
    return gap.read.client, gap.element


def violation(gap):
    return Violation(
        CLAIM, f"{gap.read.client} saw {gap.witness['element']} and not {gap.element}, which its author knew",
        gap.proof)


def by_collection(history):
    """The operations of each collection: the name of a set begins with it, up to a hyphen."""
    return grouped(of_kind(history, "add", "read-set"), lambda operation: operation["set"].split("-")[0]).values()
