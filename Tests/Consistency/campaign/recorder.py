"""Writes a history, one line for each thing sent and each answer (`judge/histories.py` has the format)."""

import json
import threading
import time


class Recorder:
    def __init__(self, path, run):
        self._file = open(path, "w", encoding="utf-8")
        self._lock = threading.Lock()
        self._began = time.monotonic()
        self._next = 0
        self._answered = {}
        """The numbers of the acknowledged changes of each client, with the moment of the answer."""
        self._write({"run": run})

    @property
    def now(self):
        """Seconds since the beginning."""
        return time.monotonic() - self._began

    def invoke(self, client, door, kind, data):
        with self._lock:
            number = self._next
            self._next += 1
            self._put({"at": self.now, "op": number, "client": client, "door": door, "event": "invoke", "kind": kind,
                       "data": data})
            if not kind.startswith(("read", "final", "hear")):
                self._answered[number] = [client, None]
            return number

    def complete(self, number, event, data=None):
        with self._lock:
            now = self.now
            self._put({"at": now, "op": number, "event": event, "data": data or {}})
            if event == "ok" and number in self._answered:
                self._answered[number][1] = now
            else:
                self._answered.pop(number, None)

    def doubt(self, client, since):
        """The client's replica was put back to a moment: nobody knows what became of its changes after it."""
        with self._lock:
            for number, (author, answered) in list(self._answered.items()):
                if author == client and answered is not None and answered >= since:
                    self._put({"at": self.now, "op": number, "event": "info", "data": {"doubted": True}})
                    del self._answered[number]

    def note(self, fault, **data):
        """A line about a fault, for people and plots; the judge passes over it."""
        self._write({"at": self.now, "fault": fault, **data})

    def _write(self, record):
        with self._lock:
            self._put(record)

    def _put(self, record):
        self._file.write(json.dumps(record, ensure_ascii=False) + "\n")

    def close(self):
        with self._lock:
            self._file.close()
