"""The two commands that follow a server all through a run, over all its faults; C6, C7 and C9."""

import json

from mimeo_harness import binary, until

from .seats import TRUNCATED
from .workloads import Families, canonical


class Followers:
    """`mimeo changes` from the beginning on, and `mimeo observe`. What they printed becomes operations at the end."""

    def __init__(self, workspace, client):
        target = ["--url", client.origin, "--database", client.database, "--token", client.token]
        self._changes = workspace.start("changes", [
            binary("mimeo"), "changes", *target, "--since", "0", "--follow", "--collection", "past", "--values", "new"])
        self._observer = workspace.start("observer", [
            binary("mimeo"), "observe", *target, "SELECT * FROM families"])
        self._lines = []
        self._is_late = False
        """True if the log had gone on without it: it was away for longer than the log keeps operations."""

    def finish(self, seat, recorder):
        """Waits for a last change, and records all that was told."""
        seat.ask("INSERT INTO past DOCUMENTS ({'_id': 'last'})")
        until(lambda: self._read_up_to(seat.offset), 60, lambda: f"the changes do not reach {seat.offset}")
        number = recorder.invoke("changes", "http", "follow", {"collection": "past", "since": 0})
        told = self._lines[-1][0] if self._lines else 0
        recorder.complete(number, "ok", {"lines": self._lines, "until": told if self._is_late else seat.offset})
        seat.do("read-rows", {"collection": "past"}, lambda seat: {
            "rows": {item["_id"]: canonical(item) for item in seat.ask("SELECT * FROM past").items}})
        index = 0
        while (text := self._observer.line(index, 0)) is not None:
            index += 1
            told = json.loads(text)
            number = recorder.invoke("observer", "http", "read-documents", {"observed": True})
            recorder.complete(number, "ok", {
                "documents": Families.tags(told["items"]), "offset": told["transactionId"]})

    def _read_up_to(self, offset):
        while (text := self._changes.line(len(self._lines), 0)) is not None:
            line = json.loads(text)
            if "error" in line:
                if line["error"]["code"] != TRUNCATED:
                    raise RuntimeError(f"the changes end with {line['error']}")  # no fault explains it
                self._is_late = True
                return True
            value = None if line.get("value") is None else canonical(line["value"])
            self._lines.append([line["transactionId"], line["index"], line["id"], line["method"], value])
        return bool(self._lines) and self._lines[-1][0] >= offset
