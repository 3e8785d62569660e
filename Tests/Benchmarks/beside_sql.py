"""Statements over HTTP beside the SQL that a person writes by hand, on the same PostgreSQL in the same run.

The server's log and projection are in a PostgreSQL of this run. Beside the projection stands `hand (id, doc jsonb)` with
the same documents and the expression indexes that a person would make. Hand-written statements run prepared in
`pgbench`, whose times include its own round trip; ours include HTTP, so the time of a statement that reads nothing
(`floor`) is taken off to compare what is inside the server.
"""

import json
import random
import socket
import statistics
import time

import bulk
import mimeo_harness as harness

DOCUMENTS = 200_000
CUSTOMERS = 5_000
BATCH = 1_000
WORDS = "delivery return warranty express fragile gift paid reminder voucher damaged partial urgent".split()
REGIONS = ["north", "east", "south", "west", "abroad"]


class Wire:
    """One connection that is kept, with nothing between it and the socket: its own time is some 50 µs a request."""

    def __init__(self, server):
        self.socket = socket.create_connection(server.address, timeout=600)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._head = (f"POST /api/v5/store/execute HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer "
                      f"{server.access_token}\r\nContent-Type: application/json\r\nContent-Length: ").encode()
        self._received = b""

    def request(self, statement, arguments=None):
        """The bytes of a request."""
        body = json.dumps({"statement": statement, "args": arguments or {}}).encode()
        return self._head + str(len(body)).encode() + b"\r\n\r\n" + body

    def send(self, request):
        self.socket.sendall(request)

    def take(self):
        """Reads once; the body of the answer when it is complete, else None."""
        part = self.socket.recv(1 << 18)
        if not part:
            raise RuntimeError("the server hung up")
        self._received += part
        head, found, body = self._received.partition(b"\r\n\r\n")
        if not found:
            return None
        length = next(int(line.split(b":")[1]) for line in head.lower().split(b"\r\n")
                      if line.startswith(b"content-length:"))
        if len(body) < length:
            return None
        self._received = b""
        if b" 200 " not in head[:16]:
            raise RuntimeError(f"{head[:16]} {body[:300]}")
        return body

    def exchange(self, request):
        self.send(request)
        while (body := self.take()) is None:
            pass
        return body

    def __call__(self, statement, arguments=None):
        try:
            return json.loads(self.exchange(self.request(statement, arguments)))
        except RuntimeError as error:
            raise RuntimeError(f"{statement}: {error}") from None


def order(number, chance):
    """A document of some 500 bytes as a shop has them; `note` is text, `lines` an array of objects."""
    lines = [{"sku": f"sku-{chance.randrange(20_000)}", "quantity": chance.randrange(1, 9),
              "price": chance.randrange(100, 90_000)} for _ in range(chance.randrange(1, 5))]
    return {"_id": f"order-{number:07}", "customer": f"customer-{chance.randrange(CUSTOMERS):05}",
            "status": chance.choice(["open", "packed", "sent", "sent", "sent", "returned"]),
            "region": chance.choice(REGIONS), "total": sum(line["quantity"] * line["price"] for line in lines),
            "placed": 1_700_000_000_000 + number * 1_000, "express": chance.random() < 0.1, "count": len(lines),
            "lines": lines, "address": {"city": f"city {chance.randrange(300)}", "zip": f"{chance.randrange(99_999):05}"},
            "note": " ".join(chance.choice(WORDS) for _ in range(chance.randrange(4, 16)))}


def orders(count):
    chance = random.Random(7)
    return [order(number, chance) for number in range(count)]


def insert_rate(server, documents):
    """Rows a second of INSERTs over one connection, whose bytes are ready."""
    wire = Wire(server)
    requests = [wire.request("INSERT INTO orders DOCUMENTS (:rows)", {"rows": documents[start:start + BATCH]})
                for start in range(0, len(documents), BATCH)]
    began = time.perf_counter()
    for request in requests:
        wire.exchange(request)
    return len(documents) / (time.perf_counter() - began)


# Name, our statement, the one by hand, the values of `:t`, and the goal for hand / ours.
STATEMENTS = [
    ("point read", "SELECT * FROM orders WHERE _id = :t", "SELECT doc FROM hand WHERE id = :t", "id", 1.0),
    ("indexed equality", "SELECT * FROM orders WHERE customer = :t", "SELECT doc FROM hand WHERE doc->>'customer' = :t",
     "customer", 1.0),
    ("indexed range, sort, limit", "SELECT * FROM orders WHERE total >= :t ORDER BY total LIMIT 20",
     "SELECT doc FROM hand WHERE (doc->>'total')::numeric >= :t ORDER BY (doc->>'total')::numeric LIMIT 20", "total", 1.0),
    ("filter over everything", "SELECT COUNT(*) AS n FROM orders WHERE status = 'open' AND count > 3 AND total > :t",
     "SELECT count(*) FROM hand WHERE doc->>'status' = 'open' AND (doc->>'count')::numeric > 3 "
     "AND (doc->'total')::numeric > :t", "total", 0.7),
    ("GROUP BY with a sum", "SELECT region, COUNT(*) AS n, SUM(count) AS s FROM orders WHERE total > :t GROUP BY region",
     "SELECT doc->>'region', count(*), sum((doc->>'count')::numeric) FROM hand WHERE (doc->'total')::numeric > :t "
     "GROUP BY 1", "total", 0.4),
    ("order over everything", "SELECT _id FROM orders WHERE total > :t ORDER BY note LIMIT 10",
     "SELECT id FROM hand WHERE (doc->'total')::numeric > :t ORDER BY doc->>'note' COLLATE \"C\" LIMIT 10", "total", 0.4),
    ("join", "SELECT o._id, c.name FROM orders o JOIN customers c ON c._id = o.customer WHERE o.customer = :t",
     "SELECT o.id, c.doc->>'name' FROM hand o JOIN customers c ON c.id = o.doc->>'customer' "
     "WHERE o.doc->>'customer' = :t", "customer", 1.0),
]
SLOW = {"filter over everything", "GROUP BY with a sum", "order over everything"}


class Bench:
    def __init__(self, workspace, scale):
        self.scale = scale
        self.postgres = harness.Postgres(workspace, shared_buffers="1GB").start()
        self.server = harness.OneProcess(
            workspace, extra_arguments=["--log", self.postgres.url, "--projection", self.postgres.url]).start()
        self.folder = workspace.directory
        self.call = None
        self.count = max(1_000, DOCUMENTS * scale // 100)

    def fill(self):
        """Inserts the documents over HTTP; the rows a second."""
        rate = insert_rate(self.server, orders(self.count))
        # The server has ended the connection that was idle.
        self.call = Wire(self.server)
        people = [{"_id": f"customer-{number:05}", "name": f"name {number}"} for number in range(CUSTOMERS)]
        for start in range(0, CUSTOMERS, BATCH):
            self.call("INSERT INTO customers DOCUMENTS (:rows)", {"rows": people[start:start + BATCH]})
        return rate

    def prepare_hand(self):
        schema = self.postgres.query("SELECT nspname FROM pg_namespace WHERE nspname LIKE 'db\\_%'")[0][0]
        for text in (
            f"CREATE TABLE hand AS SELECT document->>'_id' AS id, document AS doc FROM \"{schema}\".orders",
            f"CREATE TABLE customers AS SELECT document->>'_id' AS id, document AS doc FROM \"{schema}\".customers",
            "ALTER TABLE hand ADD PRIMARY KEY (id); ALTER TABLE customers ADD PRIMARY KEY (id)",
            "CREATE INDEX ON hand ((doc->>'customer')); CREATE INDEX ON hand (((doc->>'total')::numeric))",
        ):
            self.postgres.query(text)
        self.postgres.query("VACUUM ANALYZE")

    def prepare_ours(self):
        """Makes our indexes, and a connection that was not idle so long that the server ended it."""
        for name in ("customer", "total"):
            answer = self.server.post_statement(f"CREATE INDEX by_{name} ON orders ({name})", seconds=600)
            if answer.status != 200:
                print(f"    no index on {name}: {answer.body[:200].decode()}")
        self.call = Wire(self.server)

    def by_hand(self, text, rounds):
        """The median milliseconds of a statement in pgbench, each time with another value."""
        script = self.folder / "hand.sql"
        script.write_text("".join(text.replace(":t", value) + ";\n" for value in self.values))
        script.chmod(0o644)
        self.folder.chmod(0o755)
        turns = max(1, rounds // len(self.values))
        printed = self.postgres.tool(
            "pgbench", "-n", "-M", "prepared", "-c", 1, "-t", turns, "-r", "-f", script, "postgres")
        listed = printed.split("statement latencies", 1)[1].splitlines()[1:]
        return statistics.median(float(line.split()[0]) for line in listed if line.strip())

    def by_us(self, text, rounds):
        values = [json.loads(value.replace("'", '"')) for value in self.values]
        requests = [self.call.request(text, {"t": value}) for value in values]
        for request in requests:
            self.call.exchange(request)
        times = []
        for turn in range(rounds):
            began = time.perf_counter()
            self.call.exchange(requests[turn % len(requests)])
            times.append((time.perf_counter() - began) * 1e3)
        return statistics.median(times)

    def draw(self, kind, chance):
        """Values as literals."""
        if kind == "id":
            self.values = [f"'order-{chance.randrange(self.count):07}'" for _ in range(50)]
        elif kind == "customer":
            self.values = [f"'customer-{chance.randrange(CUSTOMERS):05}'" for _ in range(50)]
        else:
            self.values = [str(chance.randrange(1_000, 600_000)) for _ in range(10)]

    def statements(self):
        chance = random.Random(11)
        self.values = ["1"]
        floor = self.by_us("SELECT RAW 1 FROM system:dual WHERE :t = 1", 200)
        print(f"    floor of HTTP: {floor:.2f} ms")
        for name, ours, hand, kind, goal in STATEMENTS:
            self.draw(kind, chance)
            rounds = 20 if name in SLOW else 300
            try:
                over_http = self.by_us(ours, rounds)
            except RuntimeError as error:
                print(f"    {name}: not to be had: {error}")
                continue
            by_hand = self.by_hand(hand, rounds)
            inside = max(over_http - floor, 0.001)
            plan = self.call("EXPLAIN " + ours, {"t": json.loads(self.values[0].replace("'", '"'))})
            operators = "+".join(one["#operator"] for one in plan["items"][0]["plan"]["children"]
                                 if not one["#operator"].lower().endswith("projection"))
            print(f"    {name}: by hand {by_hand:.3f} ms, ours {over_http:.3f} ms over HTTP and {inside:.3f} ms inside: "
                  f"{by_hand / inside:.2f} of the speed (goal {goal}); {over_http - by_hand:+.2f} ms over HTTP "
                  f"(goal 0.6); {operators}")


def queries(workspace, scale):
    bench = Bench(workspace, scale)
    rate = bench.fill()
    bench.prepare_hand()
    print(f"(q) {bench.count:,} documents, beside hand-written SQL")
    bench.prepare_ours()
    bench.statements()
    copied = copy_rate(bench)
    print(f"    bulk INSERT over HTTP {rate:,.0f} documents a second, COPY into the same table {copied:,.0f}: "
          f"{rate / copied:.2f} (goal 0.4)")


def copy_rate(bench):
    """Rows a second of COPY into an empty table like the projection's, with its indexes."""
    table = bench.postgres.query(
        "SELECT 'mimeo_g' || generation || '.c' || number FROM mimeo_projection.collections "
        "WHERE name = 'orders'::bytea ORDER BY generation DESC LIMIT 1")[0][0]
    place = bench.folder / "copied"
    place.mkdir()
    place.chmod(0o777)
    rows = place / "rows"
    bench.postgres.query(f"COPY {table} TO '{rows}' (FORMAT binary)")
    bench.postgres.query(f"CREATE TABLE copied (LIKE {table} INCLUDING ALL)")
    began = time.perf_counter()
    bench.postgres.query(f"COPY copied FROM '{rows}' (FORMAT binary)")
    return bench.count / (time.perf_counter() - began)


# MARK: The embedded projection


def embedded(workspace, scale):
    """Bulk INSERT into a server that keeps everything in files, beside the one that a user writes for SQLite."""
    server = harness.OneProcess(workspace).start()
    documents = orders(max(1_000, DOCUMENTS * scale // 100))
    ours, reference = insert_rate(server, documents), bulk.rate(workspace.directory, documents)
    print(f"(i) bulk INSERT over HTTP, log and projection in files: {ours:,.0f} documents a second, SQLite "
          f"{reference:,.0f}: {ours / reference:.2f} (goal 0.5)")
