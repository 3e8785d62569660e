"""C11, nobody ever receives a document that none of their grants allowed at that time.

    grant          {"to": client, "rooms": [room, …]}      replaces the earlier grant of this client
    read-rooms     {"documents": {id: room}}
    hear-of        {"documents": {id: room}}                 ids that were told in any other way: counts, errors, conflicts
"""

import math

from .histories import FAIL, OK, Violation, answered, of_kind

CLAIM = "C11"


def judge(history):
    grants = {}
    for grant in of_kind(history, "grant"):
        if grant.outcome != FAIL:
            grants.setdefault(grant["to"], []).append(grant)
    violations = []
    for read in answered(history, "read-rooms", "hear-of"):
        own = grants.get(read.client, [])
        allowed = {room for grant in in_effect(own, read) for room in grant["rooms"]}
        for document, room in read["documents"].items():
            if room not in allowed:
                violations.append(Violation(
                    CLAIM, f"{read.client} received {document} of {room}, and was never allowed to", [*own, read]))
    return violations


def in_effect(grants, read):
    """The grants that may have been in effect at any moment of the read. One of unknown outcome ends none before it."""
    for index, grant in enumerate(grants):
        end = min((later.ended for later in grants[index + 1:] if later.outcome == OK), default=math.inf)
        if grant.began < read.ended and end > read.began:
            yield grant
