"""C2, an acknowledged write is never lost and never doubled, and a refused one never shows.

    add        {"set", "element"}          elements are unique over the whole history
    remove     {"set", "element"}
    read-set   {"set", "elements": […], "final": true at rest}
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
