"""C6, no reader sees a part of a transaction.

    transact         {"documents": {id: tag}}       tags are unique to their transaction
    read-documents   {"documents": {id: tag}}       all documents of the family, in one read
    read-balances    {"balances": {id: number}, "total": number}      transfers keep the total

Where two transactions wrote the same two documents, a reader shows the later one in both.
"""

from .histories import Violation, answered, of_kind

CLAIM = "C6"


def judge(history):
    writers = {tag: operation for operation in of_kind(history, "transact") for tag in operation["documents"].values()}
    violations = []
    for read in answered(history, "read-documents"):
        violations += fractures(read, writers)
    for read in answered(history, "read-balances"):
        total = sum(read["balances"].values())
        if read["balances"] and total != read["total"]:
            violations.append(Violation(CLAIM, f"the sum is {total}, and has to be {read['total']}", [read]))
    return violations


def fractures(read, writers):
    shown = read["documents"]
    violations = [
        Violation(CLAIM, f"{document} shows {tag}, which was written to others", [writers[tag], read])
        for document, tag in shown.items() if tag in writers and document not in writers[tag]["documents"]]
    for tag in sorted({tag for tag in shown.values() if tag is not None}):
        transaction = writers.get(tag)
        if transaction is None:
            violations.append(Violation(CLAIM, f"nobody ever wrote {tag}", [read]))
            continue
        for document in transaction["documents"]:
            other = writers.get(shown.get(document))
            if other is transaction:
                continue
            if other is None:
                violations.append(Violation(
                    CLAIM, f"a part of {tag} is there, and {document} is not", [transaction, read]))
                break
            if other.number < transaction.number and is_split(shown, tag, transaction, other):
                violations.append(Violation(
                    CLAIM, f"{document} is of one transaction, and others are of {tag}, which wrote the same documents",
                    [transaction, other, read]))
                break
    return violations


def is_split(shown, tag, transaction, other):
    """True if both wrote two documents, of which one shows this transaction and one the other."""
    both = set(transaction["documents"]) & set(other["documents"])
    shows = {shown.get(document) for document in both}
    return tag in shows and bool(shows & set(other["documents"].values()))
