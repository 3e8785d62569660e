"""Followers against a model: peers and HTTP write at random, streams are cut at any byte and resumed, the service and
PostgreSQL are killed. Every follower ends with the query's answer, every consumer has each change at least once, in order.
"""

import json
import random
import socket
import threading
import time

from mimeo_harness import SEED, FourProcesses, OneProcess, Peer, Postgres, pick, until
from system_test import SystemTest

OBSERVE = "/api/v5/store/observe"
CHANGES = "/api/v5/changes"
WRITES = pick(60, 600)
QUERIES = [
    "SELECT * FROM c", "SELECT * FROM c WHERE n > 5 ORDER BY n, _id", "SELECT COUNT(*) AS a, SUM(n) AS s FROM c",
    "SELECT _id FROM c ORDER BY n DESC, _id LIMIT 3",
]


class Cut(Exception):
    """The stream ended, at whatever byte."""


def raw_lines(server, method, path, body, headers, budget):
    """The JSON lines of a stream over a bare socket, which is closed after `budget` bytes."""
    data = json.dumps(body).encode() if body is not None else b""
    try:
        connection = socket.create_connection(server.address, timeout=20)
    except OSError as error:
        raise Cut from error
    with connection:
        fields = {**server.authorization(), **headers, "Host": "x", "Content-Length": len(data),
                  "Accept": "application/x-ndjson", "Connection": "close"}
        head = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
        received = b""
        try:
            connection.sendall(f"{method} {path} HTTP/1.1\r\n{head}\r\n".encode() + data)
            while b"\r\n\r\n" not in received:
                received += connection.recv(4096) or fail()
            if b" 200 " not in received.split(b"\r\n", 1)[0]:
                raise Cut(received[:200])
            rest, text = received.split(b"\r\n\r\n", 1)[1], b""
            while True:
                while b"\r\n" in rest:
                    size, after = rest.split(b"\r\n", 1)
                    length = int(size, 16)
                    if length == 0:
                        raise Cut
                    if len(after) < length + 2:
                        break
                    text, rest = text + after[:length], after[length + 2:]
                while b"\n" in text:
                    line, text = text.split(b"\n", 1)
                    if line.strip():
                        yield json.loads(line)
                if budget <= 0:
                    raise Cut
                part = connection.recv(min(4096, budget)) or fail()
                budget -= len(part)
                rest += part
        except OSError as error:
            raise Cut from error


def fail():
    raise Cut


class Follower(threading.Thread):
    """Keeps a stream open until `stopped`, and opens it again where it was cut."""

    def __init__(self, server, dice):
        super().__init__(daemon=True)
        self.server, self.dice = server, dice
        self.stopped = threading.Event()
        self.cuts = 0
        self.problem = None

    def run(self):
        while not self.stopped.is_set():
            # Every byte is a place to cut at: some in the head of a chunk, some in the middle of a line. A few are
            # behind the largest operation, which a consumer takes as a whole or not at all.
            budget = self.dice.choice([
                0, 1, 7, self.dice.randrange(400), self.dice.randrange(40_000), self.dice.randrange(400_000)])
            try:
                self.follow(budget)
            except (Cut, OSError):  # the stream, or the login before it, while the server is away
                self.cuts += 1
            except Exception as error:  # told by the test's own thread
                self.problem = repr(error)
                return
            self.stopped.wait(self.dice.random() / 5)


class Rows(Follower):
    """A live query."""

    def __init__(self, server, dice, statement):
        super().__init__(server, dice)
        self.statement, self.rows, self.offset, self.parts = statement, [], None, []
        self.seen = {}

    def follow(self, budget):
        headers = {} if self.offset is None else {"Last-Event-ID": self.offset}
        self.parts = []
        for event in raw_lines(self.server, "POST", OBSERVE, {"statement": self.statement}, headers, budget):
            kind = event["event"]
            if kind == "closed":
                raise Cut
            if kind == "result":
                self.parts += event["items"]
                if event.get("more"):
                    continue
                self.rows, self.parts = self.parts, []
            elif kind == "change":
                self.rows = self.applied(event)
            self.offset = event["transactionId"]
            self.seen[self.offset] = self.ordered(self.rows)

    def ordered(self, rows):
        """The rows in an order of their own where the query has none."""
        return rows if "ORDER" in self.statement else sorted(rows, key=lambda row: json.dumps(row, sort_keys=True))

    def applied(self, event):
        """`DittoDiffer`: moved and kept rows keep their order, insertions and updates bring theirs."""
        gone = set(event["deletions"])
        moves = {new: old for old, new in event["moves"]}
        moved = set(moves.values())
        kept = iter([row for place, row in enumerate(self.rows) if place not in gone | moved])
        brought = {place: row for place, row in event["rows"]}
        inserted = set(event["insertions"])
        count = len(self.rows) - len(gone) + len(inserted)
        rows = []
        for place in range(count):
            if place in inserted:
                rows.append(brought[place])
                continue
            row = self.rows[moves[place]] if place in moves else next(kept)
            rows.append(brought.get(place, row))
        return rows


class Consumer(Follower):
    """A reader of changes."""

    def __init__(self, server, dice):
        super().__init__(server, dice)
        self.since, self.held, self.taken = 0, [], []

    def follow(self, budget):
        self.held = []
        path = f"{CHANGES}?since={self.since}&feed=continuous&values=both&collection=c"
        for line in raw_lines(self.server, "GET", path, None, {}, budget):
            if "error" in line and "method" not in line:
                raise Cut
            self.held.append(line)
            if line.get("last"):
                self.taken += self.held
                self.since, self.held = line["transactionId"], []


class Model(SystemTest):
    seconds = 420

    def write_one(self, side, dice):
        number = dice.randrange(12)
        statement = dice.choice([
            f"INSERT INTO c DOCUMENTS ({{'_id': {number}, 'n': {dice.randrange(10)}}}) ON ID CONFLICT DO UPDATE",
            f"UPDATE c SET n = {dice.randrange(10)} WHERE _id = {number}", f"DELETE FROM c WHERE _id = {number}",
            f"INSERT INTO d DOCUMENTS ({{'_id': {number}}}) ON ID CONFLICT DO NOTHING",
            f"UPDATE c SET t = '{'x' * dice.randrange(2_000)}' WHERE n < 3",
        ])
        try:
            side.execute(statement)
        except Exception:  # a server that is being killed; what became of the write is in the log
            time.sleep(0.1)

    def play(self, server, disturb, peers):
        dice = random.Random(SEED)
        followers = [Rows(server, random.Random(SEED + index), query) for index, query in enumerate(QUERIES)]
        consumers = [Consumer(server, random.Random(SEED + 100 + index)) for index in range(2)]
        everybody = followers + consumers
        for one in everybody:
            one.start()
        disturbances = sorted(dice.sample(range(5, WRITES), pick(2, 8)))
        for number in range(WRITES):
            self.write_one(dice.choice([server, server] + peers), dice)
            if number in disturbances:
                disturb(dice)
        for number in range(3):
            until(lambda: server.post_statement(
                "INSERT INTO c DOCUMENTS (:d)", {"d": {"_id": f"end {number}", "n": number}}).status == 200, 60,
                "the server takes no writes")
        for peer in peers:
            commit = peer.execute("INSERT INTO c DOCUMENTS ({'_id': 'end of peer', 'n': 4})")["commitID"]
            peer.wait_for_commit(commit, 90)
        answer = {query: server.query(query) for query in QUERIES}
        try:
            for one in followers:
                until(lambda: one.problem or one.ordered(one.rows) == one.ordered(answer[one.statement]), 90,
                      lambda: f"{one.statement}: {one.rows}, not {answer[one.statement]}")
            log = self.log(server)
            last = log[-1]["transactionId"]
            for one in consumers:
                until(lambda: one.problem or one.since >= last, 90, "a consumer does not come to the end")
        finally:
            for one in everybody:
                one.stopped.set()
        self.assertEqual([one.problem for one in everybody if one.problem], [])
        self.assertGreater(sum(one.cuts for one in everybody), len(everybody))
        for one in consumers:
            self.check(one.taken, log)
        # Not only the end: after each event the rows were the answer at its offset. A result that comes after a cut
        # would hide an event that was lost.
        for one in followers:
            self.assertGreater(len(one.seen), 1)
            for offset in sorted(dice.sample(sorted(one.seen), min(len(one.seen), pick(25, 200)))):
                past = server.request("POST", f"/api/v5/store/execute?asOf={offset}", {"statement": one.statement},
                                      server.authorization())
                self.assertEqual(one.ordered(past.json["items"]), one.seen[offset], f"{one.statement} at {offset}")

    def log(self, server):
        """Every change from the beginning, in one piece."""
        answer = server.request("GET", f"{CHANGES}?since=0&values=both&collection=c", None, server.authorization())
        return [json.loads(line) for line in answer.body.splitlines()]

    def check(self, taken, log):
        """At least once and in order: without repetitions, what was taken is the log."""
        seen, order = set(), []
        for line in taken:
            place = (line["transactionId"], line["index"])
            if place not in seen:
                seen.add(place)
                order.append(line)
        self.assertEqual(order, log)
        documents = {}
        for line in order:
            key = json.dumps(line["id"])
            self.assertEqual(line["oldValue"], documents.get(key), line)
            documents[key] = line["value"]

    def test_one_process_that_is_killed(self):
        server = OneProcess(self.workspace).start()
        peers = [Peer(self.workspace, "a", server, ["SELECT * FROM c"])]

        def disturb(dice):
            server.kill()
            time.sleep(dice.random())
            server.start()

        self.play(server, disturb, peers)

    def test_four_processes_on_a_postgresql_that_is_killed(self):
        postgres = Postgres(self.workspace).start()
        server = FourProcesses(self.workspace, log=postgres.url)
        server.extra_arguments["query-service"] = ["--projection", postgres.url]
        server.start()
        peers = [Peer(self.workspace, "a", server, ["SELECT * FROM c"])]

        def disturb(dice):
            if dice.random() < 0.5:
                postgres.kill()
                time.sleep(dice.random())
                postgres.start()
            else:
                server.processes["query-service"].kill()
                server.start_service("query-service")

        self.play(server, disturb, peers)


class Bounds(SystemTest):
    """More followers than there may be, and cursors that lead nowhere."""

    def test_ten_thousand_followers_at_once(self):
        server = OneProcess(self.workspace).start()
        server.execute("INSERT INTO c DOCUMENTS ({'_id': 1})")
        count, most = pick(600, 10_000), 4_096
        body = b'{"statement": "SELECT * FROM c"}'
        request = (f"POST {OBSERVE} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {server.access_token}\r\n"
                   f"Content-Length: {len(body)}\r\n\r\n").encode() + body
        sockets = []
        self.addCleanup(lambda: [one.close() for one in sockets])
        for _ in range(count):
            one = socket.create_connection(server.address, timeout=60)
            one.sendall(request)
            sockets.append(one)
        statuses = [one.recv(16).split(b" ")[1] for one in sockets]
        self.assertEqual(set(statuses), {b"200"} if count <= most else {b"200", b"429"})
        self.assertEqual(statuses.count(b"200"), min(count, most))
        for one, status in zip(sockets, statuses):
            if status == b"429":
                self.assertIn(b"QUERY-0504", one.recv(4096))
                break
        # Whoever is in hears of the next write; who only asks is answered.
        server.execute("INSERT INTO c DOCUMENTS ({'_id': 2})")
        first = sockets[statuses.index(b"200")]
        heard = b""
        while b"event: change" not in heard:
            heard += first.recv(4096) or fail()
        self.assertEqual(server.query("SELECT * FROM c ORDER BY _id"), [{"_id": 1}, {"_id": 2}])
        for one in sockets[: count // 2]:
            one.close()
        # Their places are free again.
        until(lambda: server.request(
            "GET", f"{CHANGES}?since=0", None, server.authorization()).status == 200, 60, "no place becomes free")

    def test_a_cursor_of_the_future_or_of_another_database(self):
        server = OneProcess(self.workspace).start()
        for number in range(3):
            server.execute(f"INSERT INTO c DOCUMENTS ({{'_id': {number}}})")
        future = server.request("GET", f"{CHANGES}?since=4", None, server.authorization())
        self.assert_refused(future, 400)
        self.assertEqual(future.error["code"], "QUERY-0501")
        last = {**server.authorization(), "Last-Event-ID": "999999", "Accept": "application/x-ndjson"}
        events = raw_lines(server, "POST", OBSERVE, {"statement": "SELECT RAW _id FROM c"}, last, 4_000)
        # A live query begins again with its result: nothing is known of that offset.
        first = next(events)
        self.assertEqual((first["event"], sorted(first["items"]), first["transactionId"]), ("result", [0, 1, 2], 3))
