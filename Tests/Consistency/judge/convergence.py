"""C1, strong eventual consistency: at rest all replicas that may read a document show the same bytes.

    final   {"replica", "collection", "documents": [canonical text, …]}     read when all faults are over
"""

from .histories import Violation, answered, grouped

CLAIM = "C1"


def judge(history):
    violations = []
    for collection, reads in grouped(answered(history, "final"), lambda read: read["collection"]).items():
        first = reads[0]
        expected = sorted(first["documents"])
        for read in reads[1:]:
            found = sorted(read["documents"])
            if found == expected:
                continue
            more = [text for text in found if text not in set(expected)][:3]
            less = [text for text in expected if text not in set(found)][:3]
            violations.append(Violation(
                CLAIM, f"{collection} differs at rest: only at {read['replica']} {more}, only at "
                f"{first['replica']} {less}", [first, read]))
    return violations
