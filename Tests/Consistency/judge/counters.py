"""C4, the value of a counter at rest is the sum of all acknowledged increments since what a restart saw.

    increment      {"counter", "by"}
    restart        {"counter", "to"}
    read-counter   {"counter", "value", "final": true at rest}

An increment whose outcome is unknown may count or not; so may one that a restart may have seen. The value has to be
within the bounds that follow.
"""

from .histories import OK, Violation, answered, grouped, of_kind

CLAIM = "C4"


def judge(history):
    changes = grouped(of_kind(history, "increment", "restart"), lambda change: change["counter"])
    return [
        violation for read in answered(history, "read-counter")
        for violation in judge_read(read, changes.get(read["counter"], []))]


def judge_read(read, changes):
    possible = [each for each in changes if each.may_have_happened and each.began < read.ended]
    restarts = [each for each in possible if each.kind == "restart"]
    bases = {restart["to"] for restart in restarts}
    if not any(restart.outcome == OK and is_certain(restart, read) for restart in restarts):
        bases.add(0)
    low, high = min(bases), max(bases)
    for each in possible:
        if each.kind == "restart" or any(certainly_seen(each, restart, read) for restart in restarts):
            continue
        certain = each.outcome == OK and is_certain(each, read) and not any(
            may_have_seen(restart, each) for restart in restarts)
        low += each["by"] if certain else min(0, each["by"])
        high += each["by"] if certain else max(0, each["by"])
    if low <= read["value"] <= high:
        return []
    expected = str(low) if low == high else f"from {low} to {high}"
    return [Violation(
        CLAIM, f"{read['counter']} is {read['value']}, and has to be {expected}", [*possible, read])]


def is_certain(change, read):
    """True if the read has to show the change: at rest, or in the session of its author."""
    return change.ended < read.began and (read.get("final") or change.client == read.client)


def may_have_seen(restart, increment):
    return increment.began < restart.horizon


def certainly_seen(increment, restart, read):
    return (restart.outcome == OK and is_certain(restart, read) and increment.client == restart.client
            and increment.ended < restart.began)
