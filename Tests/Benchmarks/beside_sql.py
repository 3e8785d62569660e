"""Statements over HTTP beside the SQL that a person writes by hand, on the same PostgreSQL in the same run.

The server's log and projection are in a PostgreSQL of this run. Beside the projection stands `hand (id, doc jsonb)` with
the same documents and the expression indexes that a person would make. Hand-written statements run prepared in
`pgbench`, whose times include its own round trip; ours include HTTP, so the time of a statement that reads nothing
(`floor`) is taken off to compare what is inside the server.
"""

import http.client
import json
import os
import random
import statistics
import sys
import threading
import time

import mimeo_harness as harness

DOCUMENTS = 200_000
CUSTOMERS = 5_000
BATCH = 1_000
WORDS = "delivery return warranty express fragile gift paid reminder voucher damaged partial urgent".split()
REGIONS = ["north", "east", "south", "west", "abroad"]


class Caller:
    """One client with one connection that it keeps."""

    def __init__(self, server):
        self._connection = http.client.HTTPConnection(*server.address, timeout=600)
        self._headers = {**server.authorization(), "Content-Type": "application/json"}

    def __call__(self, statement, arguments=None):
        body = json.dumps({"statement": statement, "args": arguments or {}})
        self._connection.request("POST", "/api/v5/store/execute", body, self._headers)
        answer = self._connection.getresponse()
        text = answer.read()
        if answer.status != 200:
            raise RuntimeError(f"{statement}: {answer.status} {text[:300]}")
        return json.loads(text)


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
        self.call = Caller(self.server)
        self.count = max(1_000, DOCUMENTS * scale // 100)

    def fill(self):
        """Inserts the documents over HTTP; the rows a second."""
        chance = random.Random(7)
        documents = [order(number, chance) for number in range(self.count)]
        began = time.perf_counter()
        for start in range(0, self.count, BATCH):
            self.call("INSERT INTO orders DOCUMENTS (:rows)", {"rows": documents[start:start + BATCH]})
        rate = self.count / (time.perf_counter() - began)
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
        for name in ("customer", "total"):
            answer = self.server.post_statement(f"CREATE INDEX by_{name} ON orders ({name})", seconds=600)
            if answer.status != 200:
                print(f"    no index on {name}: {answer.body[:200].decode()}")

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
        for value in self.values[:3]:
            self.call(text, {"t": json.loads(value.replace("'", '"'))})
        times = []
        for turn in range(rounds):
            value = json.loads(self.values[turn % len(self.values)].replace("'", '"'))
            began = time.perf_counter()
            self.call(text, {"t": value})
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


# MARK: The write lane


def sync_milliseconds(folder):
    """The median time of an fsync of 8 KiB, appended."""
    times = []
    with open(folder / "synced", "wb", buffering=0) as file:
        for _ in range(100):
            file.write(b"x" * 8_192)
            began = time.perf_counter()
            os.fsync(file.fileno())
            times.append((time.perf_counter() - began) * 1e3)
    return statistics.median(times)


def write_rate(server, writers, seconds):
    """Statements a second, and the median milliseconds of one."""
    stop = time.perf_counter() + seconds
    times, failures = [], []

    def write(number):
        call, turn = Caller(server), 0
        try:
            while time.perf_counter() < stop:
                began = time.perf_counter()
                call("INSERT INTO written DOCUMENTS (:d)", {"d": {"_id": f"{writers}-{number}-{turn}", "n": turn}})
                times.append((time.perf_counter() - began) * 1e3)
                turn += 1
        except (RuntimeError, OSError) as error:
            failures.append(error)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(writers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        sys.exit(f"a write failed: {failures[0]}")
    return len(times) / seconds, statistics.median(times)


THREE_ROWS = """\\set id random(1, 2000000000)
BEGIN;
INSERT INTO three_log (entry) VALUES (repeat('x', 120));
INSERT INTO three_documents VALUES (:id, '{"n": 1}') ON CONFLICT (id) DO UPDATE SET body = excluded.body;
UPDATE three_heads SET head = head + 1 WHERE id = :client_id;
COMMIT;
"""


def three_rows(bench, clients, seconds):
    """Transactions a second of pgbench, each with three rows: an entry, a document and a head."""
    bench.postgres.query(
        "CREATE TABLE IF NOT EXISTS three_log (id bigserial PRIMARY KEY, entry text); "
        "CREATE TABLE IF NOT EXISTS three_documents (id int8 PRIMARY KEY, body jsonb); "
        "CREATE TABLE IF NOT EXISTS three_heads (id int4 PRIMARY KEY, head int8); "
        "INSERT INTO three_heads SELECT k, 0 FROM generate_series(0, 63) k ON CONFLICT DO NOTHING")
    script = bench.folder / "three.sql"
    script.write_text(THREE_ROWS)
    script.chmod(0o644)
    bench.folder.chmod(0o755)
    printed = bench.postgres.tool(
        "pgbench", "-n", "-M", "prepared", "-c", clients, "-j", 2, "-T", seconds, "-f", script, "postgres")
    return next(float(line.split()[2]) for line in printed.splitlines() if line.startswith("tps"))


def writes(workspace, scale):
    bench = Bench(workspace, scale)
    seconds = max(1, 10 * scale // 100)
    write_rate(bench.server, 4, 1)
    sync = sync_milliseconds(bench.folder)
    one, median = write_rate(bench.server, 1, seconds)
    sixteen, _ = write_rate(bench.server, 16, seconds)
    reference = three_rows(bench, 16, seconds)
    goal = 1.5 * sync + 0.6
    print(f"(w) one writer over HTTP {one:,.0f} a second, {median:.2f} ms each (goal {goal:.2f} = 1.5 fsync of "
          f"{sync:.2f} ms + 0.6)")
    print(f"    16 writers {sixteen:,.0f} a second: {sixteen / one:.1f} times one (goal 6), {sixteen / reference:.2f} of "
          f"pgbench with three-row transactions, {reference:,.0f} a second (goal 1.5)")
