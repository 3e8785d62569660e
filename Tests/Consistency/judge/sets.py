"""C2, an acknowledged write is never lost and never doubled, and a refused one never shows.

    add              {"set", "element"}          elements are unique over the whole history
    remove           {"set", "element"}
    read-set         {"set", "elements": […], "final": true at rest}
    transfer         {"from": account, "to": account, "amount"}
    read-balances    {"balances": {account: number}, "each": number, at rest only}
    transact         {"documents": {id: tag}}
    read-documents   {"documents": {id: tag}, "final": true at rest}

A transfer that is lost or done twice keeps the total, and a transaction that is lost as a whole leaves no part of it
behind: C6 says nothing of either. So at rest each account has what it began with (`each`) and all acknowledged
transfers, and a document of a transaction shows no earlier one of the same client.
"""

from .histories import FAIL, OK, Violation, answered, of_kind

CLAIM = "C2"


def judge(history):
    added = {(operation["set"], operation["element"]): operation for operation in of_kind(history, "add")}
    removed = {
        (operation["set"], operation["element"]) for operation in of_kind(history, "remove")
        if operation.may_have_happened}
    violations = []
    for read in answered(history, "read-set"):
        violations += judge_read(read, added)
        if read.get("final"):
            violations += lost(read, added, removed)
    for read in answered(history, "read-balances"):
        if read.get("each"):
            violations += judge_balances(read, of_kind(history, "transfer"))
    for read in answered(history, "read-documents"):
        if read.get("final"):
            violations += judge_documents(read, of_kind(history, "transact"))
    return violations


def judge_read(read, added):
    """Elements that nobody wrote, that were refused, that were not yet sent, or that are there twice."""
    violations, seen = [], set()
    for element in read["elements"]:
        write = added.get((read["set"], element))
        if element in seen:
            violations.append(Violation(CLAIM, f"{element} is there twice", [read] + ([write] if write else [])))
        elif write is None:
            violations.append(Violation(CLAIM, f"nobody ever wrote {element}", [read]))
        elif write.outcome == FAIL:
            violations.append(Violation(CLAIM, f"{element} was refused and is there", [write, read]))
        elif write.began > read.ended:
            violations.append(Violation(CLAIM, f"{element} was read before it was written", [write, read]))
        seen.add(element)
    return violations


def lost(read, added, removed):
    present = set(read["elements"])
    return [
        Violation(CLAIM, f"{element} was acknowledged and is lost", [write, read])
        for (name, element), write in added.items()
        if name == read["set"] and write.outcome == OK and element not in present
        and write.ended < read.began and (name, element) not in removed]


def judge_balances(read, transfers):
    """Accounts that have less or more than all transfers explain. One of unknown outcome may count or not."""
    transfers = [each for each in transfers if each.may_have_happened and each.began < read.ended]
    accounts = {*read["balances"], *(each[side] for each in transfers for side in ("from", "to"))}
    violations = []
    for account in sorted(accounts):
        own = [each for each in transfers if account in (each["from"], each["to"])]
        low = high = read["each"]
        for each in own:
            change = each["amount"] if each["to"] == account else -each["amount"]
            is_certain = each.outcome == OK and each.ended < read.began
            low += change if is_certain else min(0, change)
            high += change if is_certain else max(0, change)
        balance = read["balances"].get(account)
        if balance is None or not low <= balance <= high:
            violations.append(Violation(
                CLAIM, f"{account} has {balance} at rest, and the transfers leave {low} to {high}", [*own, read]))
    return violations


def judge_documents(read, transactions):
    """Documents without any of the acknowledged transactions that wrote them, or with one that its client replaced."""
    writers = {tag: each for each in transactions for tag in each["documents"].values()}
    told, violations = set(), []
    for each in transactions:
        if each.outcome != OK or each.ended >= read.began:
            continue
        for document in each["documents"].keys() - told:
            shown = read["documents"].get(document)
            former = writers.get(shown)
            if shown is None:
                told.add(document)
                violations.append(Violation(
                    CLAIM, f"{document} is missing at rest, and a transaction wrote it", [each, read]))
            elif former and former.outcome == OK and former.client == each.client and former.ended <= each.began:
                told.add(document)
                violations.append(Violation(
                    CLAIM, f"{document} shows {shown} at rest, which its author has replaced", [former, each, read]))
    return violations
