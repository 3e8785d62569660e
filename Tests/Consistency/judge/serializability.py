"""C8, statements and transactions over HTTP are serializable with each other, and each reads what was answered before.

    txn   {"steps": [["append", list, element], ["read", list, [element, …]], …], "final": true at rest}

Elements are unique. As every read shows a whole list, the lists tell the order of the writes, and from these follow the
dependencies: write-write, write-read and read-write. A cycle among them means that no serial order explains the answers.
"""

import collections

from .histories import FAIL, OK, Violation, answered, of_kind

CLAIM = "C8"


def judge(history):
    transactions = of_kind(history, "txn")
    writers = {step[2]: each for each in transactions for step in each["steps"] if step[0] == "append"}
    reads = [(each, step[1], step[2]) for each in transactions if each.outcome == OK
             for step in each["steps"] if step[0] == "read"]
    longest, violations = version_orders(reads)
    orders = {name: elements for name, (_, elements) in longest.items()}
    violations += [violation for read in reads for violation in judge_read(*read, writers)]
    violations += stale(reads, writers)
    if violations:
        return violations
    return cycles(dependencies(reads, orders, writers), longest)


def version_orders(reads):
    """The longest read of each list, with its operation; every other one has to be a prefix of it."""
    longest, violations = {}, []
    for each, name, elements in reads:
        if len(elements) > len(longest.get(name, (None, []))[1]):
            longest[name] = (each, elements)
    for each, name, elements in reads:
        whole = longest.get(name, (each, elements))
        if whole[1][:len(elements)] != elements:
            violations.append(Violation(CLAIM, f"two reads of {name} exclude each other", [whole[0], each]))
    return longest, violations


def judge_read(operation, name, elements, writers):
    violations = []
    for element, times in collections.Counter(elements).items():
        writer = writers.get(element)
        if writer is None:
            violations.append(Violation(CLAIM, f"nobody ever appended {element} to {name}", [operation]))
        elif writer.outcome == FAIL:
            violations.append(Violation(CLAIM, f"{element} was refused and is there", [writer, operation]))
        elif times > 1:
            violations.append(Violation(CLAIM, f"{element} is there {times} times", [writer, operation]))
    return violations


def stale(reads, writers):
    """Reads that lack an element whose append was answered before they were sent."""
    by_list = {}
    for element, writer in writers.items():
        for step in writer["steps"]:
            if step[0] == "append" and step[2] == element and writer.outcome == OK:
                by_list.setdefault(step[1], []).append((element, writer))
    return [
        Violation(CLAIM, f"{element} was appended to {name} before the read was sent, and is not there",
                  [writer, operation])
        for operation, name, elements in reads for element, writer in by_list.get(name, [])
        if writer.ended < operation.began and element not in elements]


def dependencies(reads, orders, writers):
    """Edges between transactions: {from: {to: (from, to, list, reason)}}."""
    edges = {}

    def add(before, after, name, reason):
        if before is not after and before is not None and after is not None:
            edges.setdefault(before.number, {}).setdefault(after.number, (before, after, name, reason))

    for name, order in orders.items():
        for first, second in zip(order, order[1:]):
            add(writers.get(first), writers.get(second), name, f"{second} came after {first} in {name}")
    for operation, name, elements in reads:
        order = orders[name] if name in orders else []
        if elements:
            add(writers.get(elements[-1]), operation, name, f"{elements[-1]} of {name} was read")
        for element in order[len(elements):]:
            if writers.get(element) is not operation:
                add(operation, writers.get(element), name, f"{element} of {name} was not read yet")
                break
    return edges


def cycles(edges, longest):
    """A shortest cycle, if there is one."""
    best = None
    for start in edges:
        path = shortest_way_back(edges, start, None if best is None else len(best))
        if path is not None:
            best = path
    if best is None:
        return []
    reasons = "; then ".join(reason for *_, reason in best)
    shown = [operation for before, _, name, _ in best for operation in (before, longest[name][0])]
    return [Violation(CLAIM, f"no serial order explains these: {reasons}", shown)]


def shortest_way_back(edges, start, limit):
    """The edges of a shortest path from a transaction to itself that has fewer than `limit` of them, or None."""
    came, layer, length = {}, [start], 0
    while layer and (limit is None or length + 1 < limit):
        length, following = length + 1, []
        for node in layer:
            for target, edge in edges.get(node, {}).items():
                if target == start:
                    path = [edge]
                    while node != start:
                        path.append(came[node])
                        node = came[node][0].number
                    return path[::-1]
                if target not in came:
                    came[target] = edge
                    following.append(target)
        layer = following
    return None
