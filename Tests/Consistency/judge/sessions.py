"""C7, session guarantees over HTTP: read your writes, monotonic reads, monotonic writes, writes follow reads.

The operations are those of `order`. Operations of a session name the `offset` of their answer (its `transactionId`),
which never goes back.
"""

from . import order
from .causality import is_of_sessions
from .histories import OK, Violation, grouped

CLAIM = "C7"


def judge(history):
    violations = [
        Violation(CLAIM, f"{guarantee(gap)}: {gap.read.client} misses {gap.element}", gap.proof)
        for gap in order.gaps(history) if is_of_sessions(gap)]
    return violations + backward(history)


def guarantee(gap):
    if gap.add.client == gap.read.client:
        return "read your writes"
    if gap.witness is gap.add:
        return "monotonic reads"
    return "monotonic writes" if gap.witness.client == gap.add.client else "writes follow reads"


def backward(history):
    """Answers whose position in the log is before that of an earlier answer of the same session."""
    found = []
    sessions = grouped(
        [each for each in history if each.door == "http" and each.outcome == OK and each.get("offset") is not None
         and each.kind != "as-of"],
        lambda operation: operation.client)
    for operations in sessions.values():
        highest = operations[0]
        for operation in operations[1:]:
            if operation["offset"] < highest["offset"]:
                found.append(Violation(CLAIM, "a session went back in the log", [highest, operation]))
            else:
                highest = operation
    return found
