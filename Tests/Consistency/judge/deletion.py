"""C10, a deleted document never comes back without a write that did not know of the deletion.

    insert        {"document", "token"}             tokens are unique; the write replaces the whole document
    delete        {"document", "saw": token}        deletes the document if it has this token
    touch         {"document"}                      changes another field, which keeps a document that is deleted meanwhile
    read-tokens   {"documents": {id: token}, "final": true at rest}

A token that a deletion saw is gone: at once for its author, at rest for everybody.
"""

from .histories import OK, Violation, answered, grouped, of_kind

CLAIM = "C10"


def judge(history):
    inserts = {operation["token"]: operation for operation in of_kind(history, "insert")}
    deletions = grouped(answered(history, "delete"), lambda deletion: deletion["saw"])
    touches = grouped(of_kind(history, "touch"), lambda touch: touch["document"])
    violations = []
    for read in answered(history, "read-tokens"):
        for document, token in read["documents"].items():
            insert = inserts.get(token)
            if insert is None:
                violations.append(Violation(CLAIM, f"nobody ever wrote {token} to {document}", [read]))
                continue
            for deletion in deletions.get(token, []):
                if must_be_gone(deletion, read) and not any(
                        may_be_concurrent(touch, deletion) for touch in touches.get(document, ())):
                    violations.append(Violation(
                        CLAIM, f"{document} has come back with {token}, which was deleted", [insert, deletion, read]))
                    break
    return violations + lost(history, inserts)


def must_be_gone(deletion, read):
    return deletion.ended < read.began and (read.get("final") or read.client == deletion.client)


def may_be_concurrent(touch, deletion):
    """The author of the deletion knew its own changes before it, and deleted the document before those after it."""
    return touch.may_have_happened and touch.client != deletion.client


def lost(history, inserts):
    """Documents that nobody can have deleted, and that are missing at rest."""
    violations = []
    ends = of_kind(history, "delete")
    for read in answered(history, "read-tokens"):
        if not read.get("final"):
            continue
        for insert in inserts.values():
            document = insert["document"]
            if insert.outcome != OK or insert.ended > read.began or document in read["documents"]:
                continue
            if not any(each["document"] == document and each.may_have_happened and each.ended > insert.began
                       for each in ends):
                violations.append(Violation(CLAIM, f"{document} is missing, and nobody deleted it", [insert, read]))
    return violations
