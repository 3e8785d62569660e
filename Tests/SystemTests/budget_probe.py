"""Honest clients in a process of their own: reads, writes, asks for health and logs in, one of each every 0.1 s.

    python3 budget_probe.py ORIGIN DATABASE KEY TOKEN

Each line of the input ends a round; the answer is a line of JSON with the times of its requests in seconds, by kind.
Another status than 200 counts as the time after which a client gives up.
"""

import http.client
import json
import sys
import threading
import time
import urllib.parse
import uuid

GIVE_UP_SECONDS = 20
PAUSE_SECONDS = 0.1
ELSEWHERE = "127.0.0.2"
"""Another address than the attackers', whose logins are counted together."""


class Honest(threading.Thread):
    """One kind of request, over and over on a connection of its own."""

    def __init__(self, address, ask):
        super().__init__(daemon=True)
        self._address, self._ask = address, ask
        self._lock = threading.Lock()
        self._times = []
        self._began = None

    def run(self):
        connection = http.client.HTTPConnection(
            *self._address, timeout=GIVE_UP_SECONDS, source_address=(ELSEWHERE, 0))
        while True:
            with self._lock:
                self._began = began = time.monotonic()
            try:
                connection.request(*self._ask())
                answer = connection.getresponse()
                answer.read()
                taken = time.monotonic() - began if answer.status == 200 else GIVE_UP_SECONDS
            except (OSError, http.client.HTTPException):
                connection.close()
                taken = GIVE_UP_SECONDS
            with self._lock:
                self._times.append(taken)
                self._began = None
            time.sleep(PAUSE_SECONDS)

    def round(self):
        """The times since the last round, and that of a request which still waits for its answer."""
        with self._lock:
            times, self._times = self._times, []
            return times + ([time.monotonic() - self._began] if self._began else [])


def main():
    origin, database, key, token = sys.argv[1:]
    url = urllib.parse.urlsplit(origin)
    credential = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}

    def execute(statement, **arguments):
        body = json.dumps({"statement": statement, "args": arguments})
        return "POST", "/api/v5/store/execute", body, credential

    login = json.dumps({"databaseID": database, "provider": "development", "token": token})
    kinds = {
        "read": lambda: execute("SELECT * FROM honest WHERE _id = 'a'"),
        "write": lambda: execute("INSERT INTO written DOCUMENTS (:d)", d={"_id": uuid.uuid4().hex}),
        "health": lambda: ("GET", "/health"),
        "login": lambda: ("POST", "/_ditto/auth/login", login, {"Content-Type": "application/json"}),
    }
    clients = {kind: Honest((url.hostname, url.port), ask) for kind, ask in kinds.items()}
    for client in clients.values():
        client.start()
    for _ in sys.stdin:
        print(json.dumps({kind: client.round() for kind, client in clients.items()}), flush=True)


main()
