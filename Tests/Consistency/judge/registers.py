"""C3, a write that is concurrent with another of the same register wins, or is listed beside the winner.

    write           {"register", "value", "saw": the value that it replaced or null, "horizon": seconds, optional}
    read-register   {"register", "value", "final": true at rest, "listed": [all concurrent values] or null}

Values are unique. A write knows `saw` for certain, and the earlier writes of its own client. It may know everything that
began before its horizon: the moment when its replica was cut off, or else its own end.
"""

from .histories import FAIL, OK, Violation, answered, grouped, of_kind

CLAIM = "C3"


def judge(history):
    violations = []
    by_register = grouped(of_kind(history, "write"), lambda write: write["register"])
    for read in answered(history, "read-register"):
        writes = by_register.get(read["register"], [])
        by_value = {write["value"]: write for write in writes}
        violations += known(read, by_value)
        if read.get("final"):
            replaced = replacements(writes, by_value)
            violations += judge_final(read, writes, by_value, replaced)
    return violations


def known(read, by_value):
    value = read["value"]
    write = by_value.get(value)
    if value is None:
        return []
    if write is None:
        return [Violation(CLAIM, f"nobody ever wrote {value}", [read])]
    if write.outcome == FAIL:
        return [Violation(CLAIM, f"{value} was refused and is shown", [write, read])]
    return []


def replacements(writes, by_value):
    """For each value the acknowledged write that replaced it for certain, directly or through others."""
    replaced, latest = {}, {}
    for write in sorted(writes, key=lambda each: each.began):
        before = {write.get("saw"), latest.get(write.client)} - {None, write["value"]}
        if write.outcome != OK:
            continue
        latest[write.client] = write["value"]
        pending = list(before)
        while pending:
            value = pending.pop()
            if value in replaced or value == write["value"]:
                continue
            replaced[value] = write
            if value in by_value and by_value[value].get("saw"):
                pending.append(by_value[value]["saw"])
    return replaced


def judge_final(read, writes, by_value, replaced):
    violations = []
    value, listed = read["value"], read.get("listed")
    acknowledged = [write for write in writes if write.outcome == OK and write.ended < read.began]
    if value is None:
        return [Violation(CLAIM, "an acknowledged write is lost", [acknowledged[0], read])] if acknowledged else []
    for each in {value, *(listed or [])}:
        if each in replaced and each in by_value:
            violations.append(Violation(
                CLAIM, f"{each} was replaced by a write that saw it, and is back", [by_value[each], replaced[each], read]))
    if listed is None:
        return violations
    for write in acknowledged:
        if write["value"] in listed or write["value"] == value:
            continue
        if not any(may_replace(other, write) for other in writes):
            violations.append(Violation(
                CLAIM, f"{write['value']} is lost silently: no write can have seen it, and it is not listed",
                [write, by_value.get(value, write), read]))
    return violations


def may_replace(other, write):
    """True if the write is known to the other one, or may be."""
    if other is write or not other.may_have_happened:
        return False
    is_later_of_its_author = other.client == write.client and write.ended <= other.began
    return is_later_of_its_author or other.get("saw") == write["value"] or write.began < other.horizon
