"""C9, the past and the stream of changes tell what readers saw.

    read-rows   {"collection", "offset", "rows": {id: canonical text}}                 the present
    as-of       {"collection", "offset", "rows": {id: canonical text}}                 the past
    follow      {"collection", "since": 0, "lines": [[offset, index, id, method, text or null], …], "until": offset}

`follow` is a feed from the beginning, with the lines of all its connections one after the other. A connection begins after
the last finished operation of the one before, so that no line comes twice.
"""

from .histories import Violation, answered, grouped

CLAIM = "C9"


def judge(history):
    violations = []
    reads = grouped(answered(history, "read-rows", "as-of"), lambda read: (read["collection"], read["offset"]))
    for (collection, offset), group in reads.items():
        for read in group[1:]:
            if read["rows"] != group[0]["rows"]:
                violations.append(Violation(
                    CLAIM, f"{collection} at {offset} is told in two ways: {difference(group[0]['rows'], read['rows'])}",
                    [group[0], read]))
                break
    for feed in answered(history, "follow"):
        violations += judge_feed(feed, [group[0] for key, group in reads.items() if key[0] == feed["collection"]])
    return violations


def difference(one, other):
    differing = sorted(key for key in one.keys() | other.keys() if one.get(key) != other.get(key))
    return "; ".join(f"{key}: {one.get(key)} and {other.get(key)}" for key in differing[:3])


def judge_feed(feed, reads):
    """The order of the lines, and that their fold equals each read up to the last offset."""
    violations, last = [], (-1, -1)
    for line in feed["lines"]:
        place = (line[0], line[1])
        if place <= last:
            what = "comes twice" if place == last else f"comes after {last}"
            violations.append(Violation(CLAIM, f"the line {place} of the changes {what}", [feed]))
        last = max(last, place)
    if violations:
        return violations[:1]
    state, lines, position = {}, feed["lines"], 0
    for read in sorted(reads, key=lambda read: read["offset"]):
        if read["offset"] > feed["until"]:
            break
        while position < len(lines) and lines[position][0] <= read["offset"]:
            _, _, identifier, _, text = lines[position]
            if text is None:
                state.pop(identifier, None)
            else:
                state[identifier] = text
            position += 1
        if state != read["rows"]:
            return [Violation(
                CLAIM, f"the changes up to {read['offset']}, folded, are not what was read: "
                f"{difference(state, read['rows'])}", [feed, read])]
    return []
