"""Histories: what clients asked, when, and which answers they got. The judge reads nothing else.

A file has one JSON object a line. The first one says how the run can be repeated. Each operation has a line when it is
sent and a line when its outcome is known:

    {"run": {"seed": 7, "topology": "one", …}}
    {"at": 1.2, "op": 5, "client": "a", "door": "peer", "event": "invoke", "kind": "add", "data": {…}}
    {"at": 1.3, "op": 5, "event": "ok", "data": {…}}          also "fail" and "info"

`ok`: it happened. `fail`: an answer said that it did not happen. `info`: nobody knows; such an operation may take
effect at any time after it was sent. An `info` after an `ok` takes that back: the replica was put back to an earlier
moment.
Times are seconds of one monotonic clock. A client does one thing at a time.
"""

import dataclasses
import json
import math

OK, FAIL, INFO = "ok", "fail", "info"


@dataclasses.dataclass
class Operation:
    """One operation of a client. `door` is "peer" (its own replica) or "http" (a service)."""

    number: int
    client: str
    door: str
    kind: str
    began: float
    ended: float
    outcome: str
    data: dict

    def __getitem__(self, name):
        return self.data[name]

    def get(self, name, default=None):
        return self.data.get(name, default)

    @property
    def may_have_happened(self):
        return self.outcome != FAIL

    @property
    def horizon(self):
        """Nothing that began after this moment can have been known to the operation."""
        return self.data.get("horizon", self.ended)

    def __str__(self):
        end = "…" if math.isinf(self.ended) else f"{self.ended:.3f}"
        return f"{self.began:.3f}–{end} {self.client} {self.kind} {self.outcome} {shown(self.data)}"


LONGEST_SHOWN = 400
"""The most characters of an operation's data that a message shows."""


def shown(data):
    text = json.dumps(data, ensure_ascii=False, sort_keys=True, default=sorted)
    return text if len(text) <= LONGEST_SHOWN else text[:LONGEST_SHOWN] + "…"


@dataclasses.dataclass
class Violation:
    """A broken claim, and the fewest operations that show it."""

    claim: str
    message: str
    operations: list

    def __str__(self):
        lines = [f"{self.claim}: {self.message}"]
        distinct = {operation.number: operation for operation in self.operations}.values()
        lines += [f"    {operation}" for operation in sorted(distinct, key=lambda each: each.began)]
        return "\n".join(lines)


def operations(lines):
    """The operations of the lines of a history, in the order in which they were sent."""
    found = {}
    for line in lines:
        record = json.loads(line) if isinstance(line, str) else line
        if "op" not in record:
            continue
        number = record["op"]
        if record["event"] == "invoke":
            found[number] = Operation(
                number, record["client"], record["door"], record["kind"], record["at"], math.inf, INFO,
                dict(record["data"]))
            continue
        operation = found[number]
        operation.outcome = record["event"]
        operation.data.update(record.get("data") or {})
        operation.ended = math.inf if operation.outcome == INFO else record["at"]
    return sorted(found.values(), key=lambda operation: operation.began)


def of_kind(history, *kinds):
    return [operation for operation in history if operation.kind in kinds]


def answered(history, *kinds):
    """The operations of these kinds that happened for certain."""
    return [operation for operation in history if operation.kind in kinds and operation.outcome == OK]


def grouped(items, key):
    groups = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return groups
