"""C1, strong eventual consistency: at rest all replicas that may read a document show the same bytes.

    final   {"replica", "collection", "documents": [canonical text, …]}     read when all faults are over

A replica that does not answer at rest breaks the claim as one does that shows other bytes: else a server that hangs for
good would keep every claim.
"""

from .histories import OK, Violation, answered, grouped, of_kind

CLAIM = "C1"


def judge(history):
    violations = [
        Violation(CLAIM, f"{read['replica']} does not tell {read['collection']} at rest", [read])
        for read in of_kind(history, "final") if read.outcome != OK]
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
