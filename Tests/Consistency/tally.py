"""A history in numbers: a small JSON object, which is kept (`results`) when the history is not."""

import collections

TOPOLOGIES = ["one", "services", "peers", "reaping", "both", "links"]
"""The names of `campaign.topologies.TOPOLOGIES`; a judgement alone needs no harness."""

BIN_SECONDS = 10
PEERS = set("abcde")
KINDS = ("kill", "stop", "one way", "cut", "slow", "clock", "put back", "absence")
PLACES = ("link", "network", "postgres", "server")


def kind_of(fault):
    """`kill a` and `kill b` are one kind of fault."""
    kind = next(kind for kind in KINDS if fault.startswith(kind))
    words = fault[len(kind):].split()
    if words[-1] == "all":
        return f"{kind} of all"
    place = next((place for place in PLACES if place in words), "peer" if words[-1] in PEERS else "service")
    return f"{kind}: {place}"


def tally(lines, history, violations, over_collections):
    """The arguments: the records of a history, its operations, violations by claim, gaps that break no claim."""
    faults = [line for line in lines if "begins" in line]
    marks = [line for line in lines if line.get("fault") == "mark"]
    operations = collections.defaultdict(lambda: {"ok": 0, "fail": 0, "info": 0})
    for operation in history:
        operations[operation.kind][operation.outcome] += 1
    recovery = collections.defaultdict(list)
    for mark in marks:
        if mark["after"]:
            recovery[kind_of(mark["after"])].append([rounded(mark["seconds"]), mark["disturbed"]])
    rest = next((line for line in lines if line.get("fault") in ("rest", "no rest")), {})
    return {
        **lines[0]["run"], "seconds": rounded(lines[-1].get("at", 0)), "operations": dict(sorted(operations.items())),
        "faults": counted(kind_of(line["fault"]) for line in faults if line["begins"]),
        "violations": violations, "gapsOverCollections": over_collections,
        "rest": rounded(rest["seconds"]) if rest.get("fault") == "rest" else None,
        "lag": [rounded(mark["seconds"]) for mark in marks if mark["after"] is None and not mark["disturbed"]],
        "recovery": dict(sorted(recovery.items())), "timeline": timeline(history, faults, marks)}


def counted(words):
    return dict(sorted(collections.Counter(words).items()))


def timeline(history, faults, marks):
    """Operations in each ten seconds, and when each fault began and ended: for a plot."""
    counts = collections.Counter(int(operation.began / BIN_SECONDS) for operation in history)
    began, spans = {}, []
    for line in faults:
        if line["begins"]:
            began[line["fault"]] = line["at"]
        else:
            spans.append([kind_of(line["fault"]), rounded(began.pop(line["fault"])), rounded(line["at"])])
    return {
        "operations": [counts[number] for number in range(max(counts, default=0) + 1)], "faults": spans,
        "lag": [[rounded(mark["at"]), rounded(mark["seconds"])] for mark in marks if mark["after"] is None]}


def rounded(seconds):
    return None if seconds is None else round(seconds, 2)
