"""Clients: each sits at one door of the system, does one thing at a time, and records it."""

import json
import threading

from mimeo_harness import Client, PeerGone, StatementError

REQUEST_SECONDS = 20
"""Timeout of a request; after it the outcome is unknown."""

PEER_SECONDS = 60

REFUSALS = {400, 401, 403, 404, 409, 410, 413, 422, 429}
"""Answers that say that nothing was changed. All other failures leave the outcome unknown."""


TRUNCATED, UNREADABLE = "QUERY-0503", "QUERY-0103"


class Refused(Exception):
    """An answer said that it was not done."""


class Unknown(Exception):
    """There was no answer, or none that says whether it was done."""


class Answer:
    def __init__(self, items, mutated, offset):
        self.items = items
        self.mutated = mutated
        self.offset = offset


class Seat:
    """A client. `name` is its name in the history."""

    door = None

    def __init__(self, name, recorder):
        self.name = name
        self.recorder = recorder
        self.turn = threading.RLock()
        """Held during an operation, and while the seat becomes another client."""
        self.is_reader = False
        """True for a client that may read a part only, and takes part in no other workload."""

    def do(self, kind, data, work):
        """Records an operation around `work(seat)`, whose result is what the answer adds. Returns the result, or None
        if it was refused or its outcome is unknown."""
        with self.turn:
            return self._do(kind, data, work)

    def _do(self, kind, data, work):
        number = self.recorder.invoke(self.name, self.door, kind, data)
        try:
            result = work(self) or {}
        except Refused as problem:
            self.recorder.complete(number, "fail", {"error": str(problem)[:200]})
        except Unknown as problem:
            self.recorder.complete(number, "info", {"error": str(problem)[:200]})
        else:
            self.recorder.complete(number, "ok", {**self.position(), **result})
            return result
        return None

    def position(self):
        """What every answer of this door tells in addition."""
        return {}

    def change(self, statement):
        """Executes a statement that has to change a document; refused if it found none."""
        answer = self.ask(statement)
        if not answer.mutated:
            raise Refused("nothing was changed")
        return answer


class PeerSeat(Seat):
    """A peer's own replica. While `horizon` is set the replica is cut off from all others since that moment."""

    door = "peer"

    def __init__(self, name, recorder, peer):
        super().__init__(name, recorder)
        self.peer = peer
        self.starts = 0
        """How often the process was started again: its sync is on after that."""
        self._horizon = None
        self._observed = None
        self._put_back = 0

    def was_put_back(self, since):
        """The replica has an earlier state. It has forgotten what it read, so it is another client from here on. Called
        with the turn."""
        self.recorder.doubt(self.name, since)
        self._put_back += 1
        self.name = f"{self.peer.name}{self._put_back}"

    def ask(self, statement):
        try:
            answer = self.peer.execute(statement, PEER_SECONDS)
        except StatementError as problem:
            raise Refused(str(problem)) from problem
        except (PeerGone, OSError, TimeoutError, ValueError) as problem:
            raise Unknown(repr(problem)) from problem
        return Answer(answer.get("items"), answer.get("mutatedDocumentIDs"), answer.get("commitID"))

    def position(self):
        return {"horizon": self._horizon[1]} if self.is_cut_off else {}

    @property
    def is_cut_off(self):
        return self._horizon is not None and self._horizon[0] == self.starts

    def cut_off(self):
        starts = self.starts
        try:
            self.ask(".sync stop")
            self._horizon = (starts, self.recorder.now)
        except (Refused, Unknown):
            self._horizon = None

    def rejoin(self):
        self._horizon = None
        try:
            self.ask(".sync start")
        except (Refused, Unknown):
            pass  # it was killed, and syncs when it is back

    def observe(self, statement):
        """Begins to observe, again after each start; returns the events since the last call."""
        if self._observed != self.starts:
            starts = self.starts
            self.ask(f".observe {statement}")
            self._observed = starts
        events = [event for event in self.peer.events if event.get("event") == "observe"]
        self.peer.events = []
        return events


class HTTPSeat(Seat):
    """A session over HTTP at one or several instances: each request says the last position that it was told."""

    door = "http"

    def __init__(self, name, recorder, clients, dice):
        super().__init__(name, recorder)
        self.clients = clients
        self._dice = dice
        self.offset = None

    def position(self):
        return {"offset": self.offset}

    def post(self, body):
        """The answer's object to a body of `store/execute`."""
        headers = {} if self.offset is None or "asOf" in body else {"X-DITTO-TXN-ID": str(self.offset)}
        return self.send("POST", "/api/v5/store/execute", body, headers).json

    def get(self, path):
        return self.send("GET", path, None, {}).json

    def get_lines(self, path):
        """The objects of an answer that has one a line. An error is the last one."""
        lines = [json.loads(line) for line in self.send("GET", path, None, {}).body.splitlines() if line]
        if lines and "error" in lines[-1]:
            error = lines[-1]["error"]
            if error["code"] == UNREADABLE:
                raise RuntimeError(f"{path} ends with {error}")  # no fault explains it
            raise (Refused if error["code"] == TRUNCATED else Unknown)(str(error))
        return lines

    def send(self, method, path, body, headers):
        """The answer of one of the instances."""
        client = self._dice.choice(self.clients)
        try:
            answer = client.request(method, path, body, {**client.authorization(), **headers}, REQUEST_SECONDS)
        except (OSError, RuntimeError) as problem:
            raise Unknown(repr(problem)) from problem
        if answer.status == 401:
            client.forget_login()  # the clock has jumped over its end
        if answer.status in REFUSALS:
            raise Refused(f"{answer.status} {answer.body[:200]!r}")
        if answer.status != 200:
            raise Unknown(f"{answer.status} {answer.body[:200]!r}")
        return answer

    def ask(self, statement):
        told = self.post({"statement": statement})
        self.offset = told["transactionId"]
        return Answer(told["items"], told["mutatedDocumentIds"], self.offset)

    def transact(self, statements):
        """The answers to the statements of one transaction."""
        told = self.post({"transaction": [{"statement": statement} for statement in statements]})
        self.offset = told["transactionId"]
        return [Answer(each["items"], each["mutatedDocumentIds"], self.offset) for each in told["results"]]

    def ask_past(self, statement, offset):
        """The rows at an earlier offset. The session's position stays."""
        return self.post({"statement": statement, "asOf": offset})["items"]


class KeyedClient(Client):
    """A client with an API key."""

    def __init__(self, origin, key):
        super().__init__(origin)
        self._key = key

    def authorization(self):
        return {"Authorization": f"Bearer {self._key}"}


class Keys:
    """Makes and deletes API keys that may read rooms."""

    def __init__(self, client, token):
        self._client = client
        self._headers = {"Authorization": f"Bearer {token}"}
        self._path = f"/admin/auth/databases/{client.database}/api-keys"

    def make(self, name, rooms):
        """The id of the key, and the key."""
        queries = [f"_id LIKE '{room}-%'" for room in rooms]
        permissions = {"qlVersion": 1, "read": {"queriesByCollection": {"rooms": queries}}}
        made = self._ask("POST", self._path, {"name": name, "permissions": permissions}, 201).json
        return made["id"], made["key"]

    def delete(self, key_id):
        self._ask("DELETE", f"{self._path}/{key_id}", None, 204, 404)

    def _ask(self, method, path, body, *statuses):
        try:
            answer = self._client.request(method, path, body, self._headers, REQUEST_SECONDS)
        except (OSError, RuntimeError) as problem:
            raise Unknown(repr(problem)) from problem
        if answer.status not in statuses:
            raise Unknown(f"{answer.status} {answer.body[:200]!r}")
        return answer


class ReaderSeat(HTTPSeat):
    """A session with an API key, in whose place it gets another one now and then, with other rights."""

    def __init__(self, name, recorder, keys, origins, dice):
        super().__init__(name, recorder, [], dice)
        self.is_reader = True
        self.changes_rights = False
        self._keys = keys
        self._origins = origins
        self._key_id = None

    def be_granted(self, rooms):
        """Gets a key for these rooms; false if nobody knows whether there is one."""
        made = self._grant(rooms, lambda: self._keys.make(self.name, rooms))
        if made is None:
            return False
        self._key_id, key = made
        self.clients = [KeyedClient(origin, key) for origin in self._origins]
        return True

    def be_refused(self):
        """Its key is deleted, and it goes on with it; false if nobody knows whether it is gone."""
        if self._key_id is None:
            return True
        if self._grant([], lambda: self._keys.delete(self._key_id) or True) is None:
            return False
        self._key_id = None
        return True

    def _grant(self, rooms, work):
        number = self.recorder.invoke("admin", "http", "grant", {"to": self.name, "rooms": rooms})
        try:
            result = work()
        except Unknown as problem:
            self.recorder.complete(number, "info", {"error": str(problem)[:200]})
            return None
        self.recorder.complete(number, "ok")
        return result
